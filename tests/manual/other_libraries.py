"""What others compute, beside ours.

Values and gradients of losses, gradients on two processes, memory and time of the loss. Outside CI,
as the others bring much that gradlab does not need. Install them apart, without dependencies:

    pip install --no-deps --target FOLDER open_clip_torch==3.3.0 lightly==1.6.0 \\
        FlagEmbedding==1.4.2 angle_emb==0.6.1 simcse==0.4 llm2vec==0.2.3 gradcache==0.0.1 \\
        inf-cl==1.2.1
    git clone https://github.com/ContextualAI/gritlm FOLDER/ContextualAI-gritlm
    git clone https://github.com/nomic-ai/contrastors FOLDER/nomic-contrastors
    git clone https://github.com/xlang-ai/instructor-embedding FOLDER/instructor-embedding
    OTHERS=FOLDER python tests/manual/other_libraries.py values
    OTHERS=FOLDER python tests/manual/other_libraries.py audit
    OTHERS=FOLDER python tests/manual/other_libraries.py loss
    OTHERS=FOLDER python tests/manual/other_libraries.py ring

``values``: the code of the authors of losses, in float64 on five kinds of batches; printed is the
largest difference over max(1, largest entry), of the value and of all gradients: 5e-15 and less.
``audit``: `gradlab audit` of every loss, over two processes of gloo. ``loss``: forward and backward
of one batch of unit rows on one process and one thread; seconds of the processor are medians of
turns in one process, memory is the rise of a fresh process's peak. ``ring``: the same of a batch
that several processes of gloo share, a thread each; seconds of all processes together, and the
largest memory of one. Of Inf-CL only the ring of plain torch operations is run, whose file imports
Triton without using it there; its kernels need a CUDA device.
"""

from __future__ import annotations

import abc
import argparse
import ast
import collections
import functools
import importlib.util
import logging
import multiprocessing
import os
import statistics
import sys
import tempfile
import types
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as functional
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).parents[2]))
sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
from measured import (
    Criterion,
    evaluation,
    extra_memory,
    fresh,
    over_processes,
    ratio,
    times_in_turns,
    unit_rows,
)

import gradlab
from gradlab.decomposition.own_loss import resolve_loss
from gradlab.gradient.verification import BATCHES
from gradlab.scale.audit.auditing import judge
from tests import audit_losses

Loss = Callable[..., Tensor]
TOLERANCE = 1e-10
HARD = 2  # hard negatives of an anchor, where a loss has any
SCALE, BIAS, CHUNK = 20.0, -7.0, 64
SYMMETRIC = f"symmetric(infonce(temperature={1 / SCALE}))"
LIBRARY = "sentence_transformers.sentence_transformer.losses"


def load(folder: Path, module: str) -> Any:
    """One module by its file, without importing its packages, whose dependencies are missing."""
    names = module.split(".")
    for end in range(1, len(names)):
        package = types.ModuleType(".".join(names[:end]))
        package.__path__ = [str(folder.joinpath(*names[:end]))]
        sys.modules.setdefault(package.__name__, package)
    spec = importlib.util.spec_from_file_location(
        module, folder.joinpath(*names).with_suffix(".py")
    )
    assert spec is not None
    assert spec.loader is not None
    library = importlib.util.module_from_spec(spec)
    sys.modules[module] = library
    spec.loader.exec_module(library)
    return library


def definition(file: Path, name: str, **namespace: Any) -> Any:
    """A class or function of a file whose imports are missing; ``known`` holds what it needs."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    (definition_node,) = (node for node in tree.body if getattr(node, "name", None) == name)
    # Names in hints are not looked up.
    future = ast.ImportFrom("__future__", [ast.alias("annotations")], 0)
    module = ast.fix_missing_locations(ast.Module([future, definition_node], []))
    names = {"torch": torch, "nn": nn, "F": functional, "dist": torch.distributed, **namespace}
    exec(compile(module, str(file), "exec"), names)
    return names[name]


def difference(ours: Loss, reference: Loss, hard: bool) -> float:
    """Largest difference of value and gradients over all batches.

    These have hard negatives (N, H, D) if they are asked for.
    """
    worst = 0.0
    for make in BATCHES.values():
        generator = np.random.default_rng(0)
        views = [torch.from_numpy(view) for view in make(generator, 24, 16)]
        if hard:
            views.append(
                torch.from_numpy(generator.normal(size=(24, HARD, 16))) + views[0][:, None]
            )
        gradients = []
        for loss in (ours, reference):
            rows = [view.clone().requires_grad_() for view in views]
            value = loss(*(functional.normalize(view, dim=-1) for view in rows))
            gradients.append([value.detach(), *torch.autograd.grad(value, rows)])
        for actual, expected in zip(*gradients, strict=True):
            scale = max(1.0, float(expected.abs().max()))
            worst = max(worst, float((actual - expected).abs().max()) / scale)
    return worst


def model(row: str, own: bool = False, **settings: Any) -> Loss:
    """gradlab's loss of a published model, with shared or own hard negatives."""
    loss = gradlab.get_loss(f"model:{row}", **settings)

    def ours(anchors: Tensor, positives: Tensor, hard: Tensor | None = None) -> Tensor:
        negatives: dict[str, Tensor] = {}
        if hard is not None:
            negatives = {"own_negatives": hard} if own else {"extra_negatives": hard.flatten(0, 1)}
        return loss(anchors, positives, normalize=True, **negatives)

    return ours


def groups(positives: Tensor, hard: Tensor) -> Tensor:
    """Passages as in most training code: of each query its positive, then its hard negatives."""
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
    instance = kind.__new__(kind)
    nn.Module.__init__(instance)
    instance.temperature, instance.cross_entropy = temperature, nn.CrossEntropyLoss()
    compute = (
        instance._compute_in_batch_neg_loss if in_batch else instance._compute_no_in_batch_neg_loss
    )
    return lambda a, b, hard: compute(a, groups(b, hard))[1]


def simcse(folder: Path) -> Loss:
    """SimCSE's forward pass, of an encoder that returns what it is given."""
    similarity = definition(folder / "simcse/models.py", "Similarity")(temp=0.05)
    forward = definition(
        folder / "simcse/models.py", "cl_forward", SequenceClassifierOutput=types.SimpleNamespace
    )
    settings = types.SimpleNamespace(pooler_type="avg", hard_negative_weight=0)
    cls = types.SimpleNamespace(
        model_args=settings, pooler_type="avg", sim=similarity, device="cpu", training=True,
        pooler=lambda _, outputs: outputs.rows,
    )  # fmt: skip

    def reference(*columns: Tensor) -> Tensor:
        columns = [rows if rows.ndim == 2 else rows[:, 0] for rows in columns]
        rows = torch.stack(columns, dim=1)
        ids = torch.zeros(*rows.shape[:2], 1)
        encoded = types.SimpleNamespace(
            rows=rows.flatten(0, 1), hidden_states=None, attentions=None
        )
        loss: Tensor = forward(cls, lambda *_, **__: encoded, ids, ids, return_dict=True).loss
        return loss

    return reference


def instructor(folder: Path, temperature: float) -> Loss:
    """Half of INSTRUCTOR's loss, the sum of both directions, of a model that returns its input."""
    trainer = definition(
        folder / "instructor-embedding/train.py", "InstructorTrainer", Seq2SeqTrainer=object
    )
    self = types.SimpleNamespace(args=types.SimpleNamespace(cl_temperature=temperature))

    def reference(anchors: Tensor, positives: Tensor, hard: Tensor) -> Tensor:
        inputs = collections.defaultdict(lambda: None, task_id=[0], task_name=[0])  # by version
        for name, rows in (("query", anchors), ("pos", positives), ("neg", hard[:, 0])):
            inputs[f"{name}_input_ids"] = rows
        loss: Tensor = trainer.compute_loss(
            self, lambda features: {"sentence_embedding": features["input_ids"]}, inputs
        )
        return loss / 2

    return reference


def first_hard(loss: Loss) -> Loss:
    """A loss that is given one hard negative of each anchor."""
    return lambda a, b, hard: loss(a, b, hard[:, :1])


def graded(cosent: Loss) -> Loss:
    """AnglE's CoSENT, which takes pairs and scores in zigzag."""

    def reference(anchors: Tensor, positives: Tensor) -> Tensor:
        zigzag = torch.stack([anchors, positives], dim=1).flatten(0, 1)
        return cosent(scores(len(anchors)).repeat_interleave(2)[:, None], zigzag)

    return reference


def scores(count: int) -> Tensor:
    """A score of each pair, some of them equal."""
    return (torch.arange(count) * 7 % 5).double()


def comparisons(folder: Path) -> dict[str, tuple[Loss, Loss, bool]]:
    """By name: gradlab's loss, the other one, and whether there are hard negatives."""
    dcl = load(folder, "lightly.loss.dcl_loss").DCLLoss(temperature=0.1)
    llm2vec = load(folder, "llm2vec.loss.HardNegativeNLLLoss").HardNegativeNLLLoss()
    gritlm = definition(
        folder / "ContextualAI-gritlm/gritlm/training/model.py", "DistributedContrastiveLoss"
    )(0.02, False)
    angle = load(folder, "angle_emb.loss").cosine_loss
    alone = types.SimpleNamespace(get_world_size=lambda: 1, is_initialized=lambda: False)
    nomic = definition(
        folder / "nomic-contrastors/src/contrastors/loss.py", "clip_loss", dist=alone
    )
    bge, symmetric_dcl = (
        flag_embedding,
        "symmetric(pool(dcl(temperature=0.1), negatives=other+same))",
    )
    sigmoid, cosent = (
        gradlab.get_loss("siglip", temperature=0.05, bias=-7),
        gradlab.get_loss("cosent"),
    )
    both_views = gradlab.get_loss(symmetric_dcl)
    plain: dict[str, tuple[Loss, Loss]] = {
        "siglip against open_clip": (lambda a, b: sigmoid(a, b, normalize=True), siglip),
        f"{symmetric_dcl} against lightly": (lambda a, b: both_views(a, b, normalize=True), dcl),
        "cosent with scores against AnglE": (
            lambda a, b: cosent(a, b, normalize=True, scores=scores(len(a))),
            graded(angle),
        ),
    }
    models: dict[str, Loss] = {
        "siglip/pretraining": functools.partial(siglip, scale=10.0, bias=-10.0),
        "clip/pretraining": functools.partial(clip, scale=1 / 0.07),
        "simcse/unsupervised": simcse(folder),
        "llm2vec/unsupervised": llm2vec,
        "nomic/pretraining": lambda a, b: nomic(a, b, lambda cosines: cosines / 0.02),
    }
    with_hard: dict[str, tuple[Loss, Loss]] = {
        "bge/fine-tuning": (model("bge/fine-tuning"), bge(folder, 0.02, in_batch=True)),
        "bge/v1": (model("bge/v1"), bge(folder, 0.01, in_batch=True)),
        "bge/own-negatives": (
            model("bge/own-negatives", own=True),
            bge(folder, 0.02, in_batch=False),
        ),
        "simcse/supervised": (first_hard(model("simcse/supervised")), simcse(folder)),
        "gritlm/embedding": (
            model("gritlm/embedding"),
            lambda a, b, hard: gritlm(a, groups(b, hard)),
        ),
        "instructor/fine-tuning": (
            first_hard(model("instructor/fine-tuning", temperature=0.1)),
            instructor(folder, 0.1),
        ),
    }
    return {
        **{name: (*pair, False) for name, pair in plain.items()},
        **{f"model:{row}": (model(row), reference, False) for row, reference in models.items()},
        **{f"model:{row}": (*pair, True) for row, pair in with_hard.items()},
    }


def values(options: argparse.Namespace) -> None:
    """Compare, print, and fail above the tolerance."""
    failed = False
    for name, (ours, reference, hard) in comparisons(Path(os.environ["OTHERS"])).items():
        if options.only in name:
            worst = difference(ours, reference, hard)
            failed |= not worst <= TOLERANCE
            print(f"{name}  {worst:.2g}")
    sys.exit(failed)


# --- large batches --------------------------------------------------------------------------------


def other_library(module: str) -> Any:
    """A module of the folder that the environment names."""
    if module.startswith("inf_cl"):
        triton, language = types.ModuleType("triton"), types.ModuleType("triton.language")
        triton.jit = triton.autotune = lambda function=None, **_: function  # type: ignore[attr-defined]
        language.constexpr = triton.Config = object  # type: ignore[attr-defined]
        triton.language = language  # type: ignore[attr-defined]
        sys.modules |= {"triton": triton, "triton.language": language}
    return load(Path(os.environ["OTHERS"]), module)


def number(value: float, like: Tensor) -> Tensor:
    return torch.tensor(value, dtype=like.dtype)


def place() -> dict[str, int]:
    """What open_clip's losses want to know of several processes."""
    together = dist.is_initialized() and dist.get_world_size() > 1
    return {"rank": dist.get_rank(), "world_size": dist.get_world_size()} if together else {}


def clip(anchors: Tensor, positives: Tensor, scale: float = SCALE, **options: Any) -> Tensor:
    """open_clip's, as its training makes it."""
    loss = other_library("open_clip.loss").ClipLoss(**options, **place())
    return loss(anchors, positives, number(scale, anchors))


def siglip(
    anchors: Tensor, positives: Tensor, scale: float = SCALE, bias: float = BIAS, **options: Any
) -> Tensor:
    loss = other_library("open_clip.loss").SigLipLoss(**options, **place())
    return loss(anchors, positives, number(scale, anchors), number(bias, anchors))


def gathered_by_grad_cache(anchors: Tensor, positives: Tensor) -> Tensor:
    return other_library("gradcache.loss").DistributedContrastiveLoss()(SCALE * anchors, positives)


def ring_of_inf_cl(anchors: Tensor, positives: Tensor, scale: float = SCALE) -> Tensor:
    """Both directions; on one process, where its ring would send to itself, what it computes."""
    if dist.get_world_size() == 1:
        labels, logits = torch.arange(len(anchors)), (scale * anchors @ positives.T).float()
        return (
            nn.functional.cross_entropy(logits, labels)
            + nn.functional.cross_entropy(logits.T, labels)
        ) / 2
    ring = other_library("inf_cl.ring").cal_ring_loss
    options = {"scale": number(scale, anchors).requires_grad_(), "head_dim": anchors.shape[1]}
    return (ring(anchors, positives, **options) + ring(positives, anchors, **options)) / 2


def ours(anchors: Tensor, positives: Tensor, loss: str = SYMMETRIC) -> Tensor:
    return gradlab.blockwise(loss, group="world", average=True)(anchors, positives, normalize=True)


def audits() -> list[tuple[str, dict[str, str], int]]:
    """Targets, settings and columns of embeddings."""
    own_file, gather = f"{__file__}:", {"gather_across_devices": "true"}
    ranking = [
        "MultipleNegativesRankingLoss",
        "MultipleNegativesSymmetricRankingLoss",
        "GISTEmbedLoss",
    ]
    ranking = [
        name.replace("Multiple", f"{cached}Multiple").replace("GIST", f"{cached}GIST")
        for name in ranking
        for cached in ("", "Cached")
    ]
    ranking_audits = [
        (f"{LIBRARY}:{name}", settings, 2) for name in ranking for settings in ({}, gather)
    ]
    alone = {"contrast_anchors": "false"}
    plain = [
        "MegaBatchMarginLoss", "CoSENTLoss", "AnglELoss", "CosineSimilarityLoss", "ContrastiveLoss",
        "OnlineContrastiveLoss", "BatchAllTripletLoss", "BatchHardTripletLoss",
        "BatchHardSoftMarginTripletLoss", "BatchSemiHardTripletLoss",
    ]  # fmt: skip
    columns = [(f"{LIBRARY}:{name}", {}, 3) for name in ("TripletLoss", "MarginMSELoss")]
    modes = [
        {"local_loss": str(local).lower(), "gather_with_grad": str(grad).lower()}
        for local in (False, True)
        for grad in (False, True)
    ]
    return [
        *ranking_audits,
        (f"{LIBRARY}:GISTEmbedLoss", gather | alone, 2),
        *((f"{LIBRARY}:{name}", {}, 2) for name in plain),
        *columns,
        *((f"{own_file}clip", mode, 2) for mode in modes),
        *(
            (f"{own_file}siglip", {"dist_impl": way}, 2)
            for way in ("bidir", "shift", "reduce", "gather")
        ),
        (f"{own_file}gathered_by_grad_cache", {}, 2),
        (f"{own_file}ring_of_inf_cl", {}, 2),
        (f"{own_file}ring_of_inf_cl", {"scale": "100"}, 2),
        (f"{own_file}ours", {}, 2),
        (f"{own_file}ours", {"loss": "siglip"}, 2),
    ]  # fmt: skip


def audit(options: argparse.Namespace) -> None:
    """Print a line a loss: its errors on each kind of shares, and its faults.

    All are run in the same processes. Uneven shares, which may end a process, are not given to
    those that gather.
    """
    chosen = [entry for entry in audits() if options.only in entry[0]]
    for columns in sorted({entry[2] for entry in chosen}):
        names = {
            f"{target.partition(':')[2]} {settings}": (
                target,
                settings,
                uneven_too(target, settings),
            )
            for target, settings, wide in chosen
            if wide == columns
        }
        with tempfile.TemporaryDirectory() as folder:
            measurements = audit_losses.measured(
                names, multiprocessing.get_context("fork"), folder, columns=columns
            )
        for name, measurement in measurements.items():
            report = judge(*measurement)
            errors = ", ".join(
                f"{case} {entry.error:.1e}" for case, entry in report.outcomes.items()
            )
            print(
                f"{name}: {errors}; "
                f"{'; '.join(f'{fault.name}: {fault.text}' for fault in report.faults) or 'right'}"
            )


def uneven_too(target: str, settings: dict[str, str]) -> bool:
    """Whether a loss gathers nothing, or shares of any size."""
    return (LIBRARY in target and "gather_across_devices" not in settings) or target.endswith(
        ":ours"
    )


def losses() -> dict[str, Callable[[Tensor, Tensor], Tensor]]:
    """Losses of one process; those of a group are alternatives to each other."""
    from sentence_transformers.sentence_transformer import losses as library

    simple = other_library("gradcache.loss").SimpleContrastiveLoss()
    plain = resolve_loss(f"{LIBRARY}:MultipleNegativesRankingLoss", {})
    assert isinstance(plain, library.MultipleNegativesRankingLoss)
    cached = resolve_loss(
        f"{LIBRARY}:CachedMultipleNegativesRankingLoss", {"mini_batch_size": str(CHUNK)}
    )
    assert isinstance(cached, library.CachedMultipleNegativesRankingLoss)

    def chunk_by_chunk(*columns: Tensor) -> Tensor:
        """As its gradient cache: each chunk of rows a leaf, its similarities going back at once."""
        leaves = [
            [chunk.detach().requires_grad_() for chunk in rows.split(CHUNK)] for rows in columns
        ]
        return cached.calculate_loss(leaves, with_backward=True).requires_grad_()

    one_direction, both_directions, sigmoid = (
        gradlab.blockwise(name)
        for name in (gradlab.get_loss("infonce", temperature=1 / SCALE), SYMMETRIC, "siglip")
    )
    return {
        "infonce: GradCache SimpleContrastiveLoss": lambda a, b: simple(SCALE * a, b),
        "infonce: sentence-transformers, plain": lambda a, b: plain.compute_loss_from_embeddings(
            [a, b], None
        ),
        "infonce: sentence-transformers, cached": chunk_by_chunk,
        "infonce: gradlab.blockwise": one_direction,
        "symmetric: open_clip ClipLoss": clip,
        "symmetric: gradlab.blockwise": both_directions,
        "siglip: open_clip SigLipLoss": siglip,
        "siglip: gradlab.blockwise": sigmoid,
    }


def ours_of(names: Iterable[str], name: str) -> str:
    """The one of gradlab in the group of a name."""
    return next(
        candidate
        for candidate in names
        if candidate.split(":")[0] == name.split(":")[0] and "gradlab" in candidate
    )


def made_call(name: str, batch: int, dimensions: int) -> Callable[[], float]:
    """An evaluation of one of the losses."""
    torch.manual_seed(0)
    return evaluation(losses()[name], [unit_rows(batch, dimensions) for _ in range(2)])


def loss(options: argparse.Namespace) -> None:
    print(f"N = {options.batch}, D = {options.dimensions}, float32, one thread")
    sizes = options.batch, options.dimensions
    calls = {name: made_call(name, *sizes) for name in losses()}
    times = times_in_turns(calls, options.turns)
    for name, seconds in times.items():
        memory = fresh(extra_memory, made_call, (name, 64, 16), (name, *sizes))
        show(name, seconds, times[ours_of(calls, name)], memory)


def show(name: str, seconds: list[float], own: list[float], memory: float) -> None:
    """Print the median time and the memory, and the ratio to ours of the same group."""
    middle, beside = statistics.median(seconds), ratio(seconds, own)
    print(f"{name}: {middle:.3f} CPU s, {beside:.2f} of gradlab's; {memory:.0f} MiB", flush=True)


# Losses of a shared batch by what they compute.
SHARED: dict[str, Criterion] = {
    "symmetric: open_clip ClipLoss, local, gathered with gradient": functools.partial(
        clip, local_loss=True, gather_with_grad=True
    ),
    "symmetric: Inf-CL cal_ring_loss": ring_of_inf_cl,
    "symmetric: gradlab.blockwise": ours,
    "siglip: open_clip SigLipLoss": siglip,
    "siglip: gradlab.blockwise": functools.partial(ours, loss="siglip"),
}


def ring(options: argparse.Namespace) -> None:
    print(f"N = {options.batch}, D = {options.dimensions}, float32, one thread a process")
    for processes in options.processes:
        turns = [
            {
                name: over_processes(
                    processes, options.batch, options.dimensions, name, SHARED.__getitem__
                )
                for name in SHARED
            }
            for _ in range(options.turns)
        ]
        times = {name: [turn[name]["processor"] for turn in turns] for name in SHARED}
        for name, seconds in times.items():
            memory = statistics.median(turn[name]["memory"] for turn in turns)
            show(f"{processes} processes, {name}", seconds, times[ours_of(SHARED, name)], memory)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["values", "audit", "loss", "ring"])
    parser.add_argument("--only", default="", help="with values and audit: names with this in them")
    parser.add_argument("--batch", type=int, help="4096 for loss, 8192 for ring")
    parser.add_argument("--dimensions", type=int, default=512)
    parser.add_argument("--processes", type=int, nargs="+", default=[2, 4], help="of ring")
    parser.add_argument("--turns", type=int, default=5)
    options = parser.parse_args()
    options.batch = options.batch or (8192 if options.what == "ring" else 4096)
    torch.set_num_threads(1)
    {"values": values, "audit": audit, "loss": loss, "ring": ring}[options.what](options)


if __name__ == "__main__":
    main()
