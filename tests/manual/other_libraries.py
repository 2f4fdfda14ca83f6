"""Losses against the code of their authors: value and gradients in float64 on five kinds of batches.

Outside CI, as this code brings much that the losses do not need. Install it apart, without what it depends on:

    pip install --no-deps --target FOLDER open_clip_torch==3.3.0 lightly==1.6.0 FlagEmbedding==1.4.2 angle_emb==0.6.1 \\
        simcse==0.4 llm2vec==0.2.3
    git clone https://github.com/ContextualAI/gritlm FOLDER/ContextualAI-gritlm
    git clone https://github.com/nomic-ai/contrastors FOLDER/nomic-contrastors
    git clone https://github.com/xlang-ai/instructor-embedding FOLDER/instructor-embedding
    PYTHONPATH=. python tests/manual/other_libraries.py FOLDER

Printed is the largest difference over max(1, largest entry), of the value and of all gradients: 5e-15 and less.
"""

from __future__ import annotations

import abc
import ast
import collections
import importlib.util
import logging
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as functional
from torch import Tensor, nn

import gradlab
from gradlab.gradient.verification import BATCHES

Loss = Callable[..., Tensor]
TOLERANCE = 1e-10
HARD = 2  # hard negatives of an anchor, where a loss has any


def load(folder: Path, module: str) -> Any:
    """One module by its file, without importing the packages around it, whose dependencies are not installed."""
    parts = module.split(".")
    for end in range(1, len(parts)):
        package = types.ModuleType(".".join(parts[:end]))
        package.__path__ = [str(folder.joinpath(*parts[:end]))]
        sys.modules.setdefault(package.__name__, package)
    spec = importlib.util.spec_from_file_location(module, folder.joinpath(*parts).with_suffix(".py"))
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    sys.modules[module] = found
    spec.loader.exec_module(found)
    return found


def definition(file: Path, name: str, **known: Any) -> Any:
    """One class or function out of a file whose imports are not installed; ``known`` are the names that it needs."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    (found,) = (node for node in tree.body if getattr(node, "name", None) == name)
    future = ast.ImportFrom("__future__", [ast.alias("annotations")], 0)  # names in hints are not looked up
    module = ast.fix_missing_locations(ast.Module([future, found], []))
    names = {"torch": torch, "nn": nn, "F": functional, "dist": torch.distributed, **known}
    exec(compile(module, str(file), "exec"), names)
    return names[name]


def difference(ours: Loss, theirs: Loss, hard: bool) -> float:
    """Largest difference of value and gradients over all batches, which have hard negatives (N, H, D) if they are asked for."""
    worst = 0.0
    for make in BATCHES.values():
        generator = np.random.default_rng(0)
        views = [torch.from_numpy(part) for part in make(generator, 24, 16)]
        if hard:
            views.append(torch.from_numpy(generator.normal(size=(24, HARD, 16))) + views[0][:, None])
        found = []
        for loss in (ours, theirs):
            rows = [part.clone().requires_grad_() for part in views]
            value = loss(*(functional.normalize(part, dim=-1) for part in rows))
            found.append([value.detach(), *torch.autograd.grad(value, rows)])
        for one, other in zip(*found, strict=True):
            scale = max(1.0, float(other.abs().max()))
            worst = max(worst, float((one - other).abs().max()) / scale)
    return worst


def model(row: str, own: bool = False, **settings: Any) -> Loss:
    """gradlab's loss of a published model, with shared or own hard negatives."""
    loss = gradlab.get_loss(f"model:{row}", **settings)

    def ours(anchors: Tensor, positives: Tensor, hard: Tensor | None = None) -> Tensor:
        given: dict[str, Tensor] = {}
        if hard is not None:
            given = {"own_negatives": hard} if own else {"extra_negatives": hard.flatten(0, 1)}
        return loss(anchors, positives, normalize=True, **given)

    return ours


def groups(positives: Tensor, hard: Tensor) -> Tensor:
    """Passages as most training code has them: of each query its positive, then its hard negatives."""
    return torch.cat([positives[:, None], hard], dim=1).flatten(0, 1)


def flag_embedding(folder: Path, temperature: float, in_batch: bool) -> Loss:
    """FlagEmbedding's loss of an encoder, without its encoder."""
    place = folder / "FlagEmbedding"
    base = definition(
        place / "abc/finetune/embedder/AbsModeling.py",
        "AbsEmbedderModel",
        ABC=abc.ABC,
        abstractmethod=abc.abstractmethod,
    )
    kind = definition(
        place / "finetune/embedder/encoder_only/base/modeling.py",
        "BiEncoderOnlyEmbedderModel",
        AbsEmbedderModel=base,
        AutoModel=None,
        logger=logging.getLogger(__name__),
    )
    found = kind.__new__(kind)
    nn.Module.__init__(found)
    found.temperature, found.cross_entropy = temperature, nn.CrossEntropyLoss()
    compute = found._compute_in_batch_neg_loss if in_batch else found._compute_no_in_batch_neg_loss
    return lambda a, b, hard: compute(a, groups(b, hard))[1]


def simcse(folder: Path) -> Loss:
    """SimCSE's forward pass, of an encoder that returns what it is given."""
    similarity = definition(folder / "simcse/models.py", "Similarity")(temp=0.05)
    forward = definition(
        folder / "simcse/models.py", "cl_forward", SequenceClassifierOutput=types.SimpleNamespace
    )
    settings = types.SimpleNamespace(pooler_type="avg", hard_negative_weight=0)
    cls = types.SimpleNamespace(
        model_args=settings, pooler_type="avg", sim=similarity, device="cpu", training=True, pooler=lambda _, outputs: outputs.rows,
    )  # fmt: skip

    def theirs(*columns: Tensor) -> Tensor:
        rows = torch.stack([one if one.ndim == 2 else one[:, 0] for one in columns], dim=1)
        ids = torch.zeros(*rows.shape[:2], 1)
        encoded = types.SimpleNamespace(rows=rows.flatten(0, 1), hidden_states=None, attentions=None)
        loss: Tensor = forward(cls, lambda *_, **__: encoded, ids, ids, return_dict=True).loss
        return loss

    return theirs


def instructor(folder: Path, temperature: float) -> Loss:
    """Half of INSTRUCTOR's loss, which is the sum of both directions, of a model that returns what it is given."""
    trainer = definition(folder / "instructor-embedding/train.py", "InstructorTrainer", Seq2SeqTrainer=object)
    self = types.SimpleNamespace(args=types.SimpleNamespace(cl_temperature=temperature))

    def theirs(anchors: Tensor, positives: Tensor, hard: Tensor) -> Tensor:
        inputs = collections.defaultdict(lambda: None, task_id=[0], task_name=[0])  # by version
        for name, rows in (("query", anchors), ("pos", positives), ("neg", hard[:, 0])):
            inputs[f"{name}_input_ids"] = rows
        found: Tensor = trainer.compute_loss(
            self, lambda one: {"sentence_embedding": one["input_ids"]}, inputs
        )
        return found / 2

    return theirs


def first_hard(loss: Loss) -> Loss:
    """A loss that is given one hard negative of each anchor."""
    return lambda a, b, hard: loss(a, b, hard[:, :1])


def graded(cosent: Loss) -> Loss:
    """AnglE's CoSENT, which takes pairs and scores in zigzag."""

    def theirs(anchors: Tensor, positives: Tensor) -> Tensor:
        zigzag = torch.stack([anchors, positives], dim=1).flatten(0, 1)
        return cosent(scores(len(anchors)).repeat_interleave(2)[:, None], zigzag)

    return theirs


def scores(count: int) -> Tensor:
    """A score of each pair, some of them equal."""
    return (torch.arange(count) * 7 % 5).double()


def comparisons(folder: Path) -> dict[str, tuple[Loss, Loss, bool]]:
    """By name: gradlab's loss, the other one, and whether there are hard negatives."""
    open_clip = load(folder, "open_clip.loss")
    siglip, clip = open_clip.SigLipLoss(), open_clip.ClipLoss()
    dcl = load(folder, "lightly.loss.dcl_loss").DCLLoss(temperature=0.1)
    llm2vec = load(folder, "llm2vec.loss.HardNegativeNLLLoss").HardNegativeNLLLoss()
    gritlm = definition(
        folder / "ContextualAI-gritlm/gritlm/training/model.py", "DistributedContrastiveLoss"
    )(0.02, False)
    angle = load(folder, "angle_emb.loss").cosine_loss
    number: Callable[[float], Tensor] = lambda value: torch.tensor(value, dtype=torch.float64)  # noqa: E731
    alone = types.SimpleNamespace(get_world_size=lambda: 1, is_initialized=lambda: False)
    nomic = definition(folder / "nomic-contrastors/src/contrastors/loss.py", "clip_loss", dist=alone)
    bge, symmetric_dcl = flag_embedding, "symmetric(pool(dcl(temperature=0.1), negatives=other+same))"
    sigmoid, cosent = gradlab.get_loss("siglip", temperature=0.05, bias=-7), gradlab.get_loss("cosent")
    both_views = gradlab.get_loss(symmetric_dcl)
    plain: dict[str, tuple[Loss, Loss]] = {
        "siglip against open_clip": (
            lambda a, b: sigmoid(a, b, normalize=True),
            lambda a, b: siglip(a, b, number(20.0), number(-7.0)),
        ),
        f"{symmetric_dcl} against lightly": (lambda a, b: both_views(a, b, normalize=True), dcl),
        "cosent with scores against AnglE": (
            lambda a, b: cosent(a, b, normalize=True, scores=scores(len(a))),
            graded(angle),
        ),
    }
    models: dict[str, Loss] = {
        "siglip/pretraining": lambda a, b: siglip(a, b, number(10.0), number(-10.0)),
        "clip/pretraining": lambda a, b: clip(a, b, number(1 / 0.07)),
        "simcse/unsupervised": simcse(folder),
        "llm2vec/unsupervised": llm2vec,
        "nomic/pretraining": lambda a, b: nomic(a, b, lambda cosines: cosines / 0.02),
    }
    with_hard: dict[str, tuple[Loss, Loss]] = {
        "bge/fine-tuning": (model("bge/fine-tuning"), bge(folder, 0.02, in_batch=True)),
        "bge/v1": (model("bge/v1"), bge(folder, 0.01, in_batch=True)),
        "bge/own-negatives": (model("bge/own-negatives", own=True), bge(folder, 0.02, in_batch=False)),
        "simcse/supervised": (first_hard(model("simcse/supervised")), simcse(folder)),
        "gritlm/embedding": (model("gritlm/embedding"), lambda a, b, hard: gritlm(a, groups(b, hard))),
        "instructor/fine-tuning": (
            first_hard(model("instructor/fine-tuning", temperature=0.1)),
            instructor(folder, 0.1),
        ),
    }
    return {
        **{name: (*pair, False) for name, pair in plain.items()},
        **{f"model:{row}": (model(row), theirs, False) for row, theirs in models.items()},
        **{f"model:{row}": (*pair, True) for row, pair in with_hard.items()},
    }


def main(folder: Path) -> None:
    """Compare, print, and fail above the tolerance."""
    failed = False
    for name, (ours, theirs, hard) in comparisons(folder).items():
        worst = difference(ours, theirs, hard)
        failed |= not worst <= TOLERANCE
        print(f"{name}  {worst:.2g}")
    sys.exit(failed)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: other_libraries.py FOLDER (where the other code is; see above)")
    main(Path(sys.argv[1]))
