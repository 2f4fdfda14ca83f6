"""The second regime: a linear head on embeddings that were cached under two dropout masks.

The encoder does not learn; a square matrix behind it does, from the identity on. A run takes seconds, so that seeds cost
nothing. It is another regime, not a stand-in: the head can turn and scale directions, no more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from gradlab import GradlabError, Loss, components
from gradlab.batch import unit_rows
from gradlab.evaluate import ScoredPairs, cosines, downstream, load_sts, spearman
from gradlab.files import atomic_path, read_arrays
from gradlab.gradient import alignment, uniformity
from gradlab.seeds import seed_everything
from gradlab.train import OpenShare
from studies.evidence.features import measure, summary
from studies.runs import tokens

SETS = ("STS12", "STS13", "STS14", "STS15", "STS16", "STS-B", "SICK-R")
DEV = "STS-B dev"
HELD_OUT = 1024  # sentences on which angles are measured, in batches of HELD_OUT_BATCH; not trained on
HELD_OUT_BATCH = 128
MAX_LENGTH = 32  # tokens of a sentence
BATCH = 64  # sentences of a forward pass while embeddings are cached
_FIRST = 10  # steps whose features a prediction may use


@dataclass(frozen=True)
class CachedEmbeddings:
    """What an encoder gives once.

    Attributes:
        views: (2, N, D), sentences under two dropout masks.
        pairs: task -> (first, second, gold): rows (P, D) without dropout, and human scores (P,).
    """

    views: NDArray[np.float32]
    pairs: dict[str, tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float64]]]

    def scores(self, head: Tensor, tasks: Sequence[str] = (*SETS, DEV)) -> dict[str, float]:
        """Spearman's correlation by task, and ``sts``, the average of the seven test sets, of rows times a head (D, D)."""
        matrix = head.detach().numpy()
        found = {}
        for name in tasks:
            first, second, gold = self.pairs[name]
            found[name] = spearman(cosines(first @ matrix, second @ matrix), gold)
        if set(SETS) <= found.keys():
            found["sts"] = float(np.mean([found[name] for name in SETS]))
        return found


class HeadResult(NamedTuple):
    """What came of it.

    Attributes:
        measured: scores by name (-1 to 1), angles on held-out sentences (radians), features of the first steps.
        open_shares: mean dissipation of each step, which for a hard gate is the share of open anchors; empty unless asked for.
    """

    measured: dict[str, float]
    open_shares: tuple[float, ...]


def train_head(
    data: CachedEmbeddings,
    loss: Loss,
    learning_rate: float,
    seed: int,
    steps: int = 600,
    batch_size: int = 64,
    *,
    shares: Sequence[float] = (),
    shares_use: str = "random",
    tasks: Sequence[str] = (*SETS, DEV),
    records_shares: bool = False,
    only_features: bool = False,
) -> HeadResult:
    """Train a head from the identity on.

    Args:
        data: of which the last `HELD_OUT` sentences are not trained on.
        loss: the loss.
        learning_rate: Adam's peak, which decays linearly to 0.
        seed: of the order of sentences.
        steps, batch_size: of the training.
        shares: open shares of each step of another run, if they are used; see `gradlab.train.open_share`.
        shares_use: "random" or "scale".
        tasks: what is scored.
        records_shares: whether the open share of each step is measured.
        only_features: stop after the steps that these are measured in.

    Raises:
        GradlabError: too few sentences for a batch.
    """
    usable = data.views.shape[1] - HELD_OUT
    if usable < batch_size:
        raise GradlabError(f"{usable} sentences beside the held-out ones are fewer than a batch")
    views = torch.from_numpy(data.views)
    head = nn.Parameter(torch.eye(data.views.shape[-1]))
    optimiser = torch.optim.Adam([head], lr=learning_rate)
    gate = OpenShare(shares, shares_use, seed) if shares else None
    rows = _order(seed, usable, steps * batch_size).reshape(steps, batch_size)
    features: list[dict[str, float]] = []
    opened: list[float] = []
    for step in range(min(_FIRST, steps) if only_features else steps):
        anchors, positives = (views[place][rows[step]] @ head for place in (0, 1))
        if step < _FIRST:
            features.append(
                measure(loss, *(unit_rows(one.detach().double()) for one in (anchors, positives)))
            )
        if records_shares:
            parts = components(loss, anchors.detach(), positives.detach(), normalize=True)
            opened.append(float(parts.gradient_dissipation.mean()))
        value = loss(anchors, positives, reduction="mean" if gate is None else "none", normalize=True)
        if gate is not None:
            value = (value * gate.factors(batch_size)).mean()
            gate.step += 1
        optimiser.zero_grad(set_to_none=True)
        value.backward()
        for group in optimiser.param_groups:
            group["lr"] = learning_rate * (1 - step / steps)
        optimiser.step()
    measured = summary(features)
    if not only_features:
        trained = head.detach()
        measured |= data.scores(trained, tasks) | _angles(views[:, usable:], trained)
    return HeadResult(measured, tuple(opened))


def cache(file: Path, model: str, sentences: list[str], sts: str) -> CachedEmbeddings:
    """Embeddings from ``file``, or made and written there.

    The ``sentences`` are encoded twice under dropout, the pairs of SentEval's ``data/downstream`` without; [CLS] is taken.
    """
    tasks = _tasks(sts)
    if file.exists():
        stored = read_arrays(file)
    else:
        stored = _encode(model, sentences, tasks)
        with atomic_path(file) as temporary:
            np.savez(temporary, allow_pickle=False, **stored)
    half = {name: (stored[f"{name}/first"], stored[f"{name}/second"]) for name in tasks}
    gold = {name: np.concatenate([np.array(one.gold) for one in pairs]) for name, pairs in tasks.items()}
    return CachedEmbeddings(stored["views"], {name: (*half[name], gold[name]) for name in tasks})


def _encode(model: str, sentences: list[str], tasks: dict[str, list[ScoredPairs]]) -> dict[str, Any]:
    from gradlab.encoder import Encoder
    from gradlab.train import say

    encoder = Encoder.load(model, "cls", max_length=MAX_LENGTH)
    seed_everything(0)
    views = np.empty((2, len(sentences), encoder.dimension), dtype=np.float32)
    order = sorted(range(len(sentences)), key=lambda place: len(sentences[place]))
    encoder.train()
    say(f"Encoding {len(sentences)} sentences twice")
    with torch.inference_mode():
        for view in views:
            for start in range(0, len(order), BATCH):
                rows = order[start : start + BATCH]
                view[rows] = encoder(
                    *tokens(encoder, [sentences[place] for place in rows], MAX_LENGTH)
                ).numpy()
    whole = Encoder.load(model, "cls")
    stored: dict[str, Any] = {"views": views}
    for name, pairs in tasks.items():
        say(f"Encoding {name}")
        for place in ("first", "second"):
            texts = [sentence for one in pairs for sentence in getattr(one, place)]
            stored[f"{name}/{place}"] = whole.encode(texts)
    return stored


def _tasks(sts: str) -> dict[str, list[ScoredPairs]]:
    folder = downstream(Path(sts))
    return {name: load_sts(folder, name) for name in SETS} | {DEV: load_sts(folder, "STS-B", "dev")}


def _order(seed: int, count: int, needed: int) -> Tensor:
    """Sentences in the order of training: every one once before any comes twice."""
    generator = torch.Generator().manual_seed(seed)
    passes = [torch.randperm(count, generator=generator) for _ in range(-(-needed // count))]
    return torch.cat(passes)[:needed]


def _angles(views: Tensor, head: Tensor) -> dict[str, float]:
    """Mean angles (radians), alignment and uniformity of held-out sentences."""
    found: list[dict[str, float]] = []
    for start in range(0, views.shape[1], HELD_OUT_BATCH):
        first, second = (
            nn.functional.normalize((view[start : start + HELD_OUT_BATCH] @ head).double(), dim=1)
            for view in views
        )
        angles = torch.acos((first @ second.T).clamp(-1, 1))
        own = torch.eye(len(first), dtype=torch.bool)
        found.append(
            {
                "theta_pos": float(angles[own].mean()),
                "theta_neg": float(angles[~own].mean()),
                "final_alignment": alignment(first, second),
                "final_uniformity": uniformity(first),
            }
        )
    return {name: float(np.mean([one[name] for one in found])) for name in found[0]}
