"""Interventions: from the same encoder, losses take a few steps that turn embeddings equally far.

Runs differ in where their earlier steps led. Here all losses begin at the same encoder, so that
what differs afterwards is the work of a few steps of the loss. The interventions themselves are
declared in ``interventions.toml``.
"""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from gradlab import Loss, get_loss
from gradlab.batch import unit_rows
from gradlab.data import read_sentences
from gradlab.encoder import Encoder
from gradlab.evaluate import ScoredPairs, stsb_dev
from gradlab.gradient import alignment, uniformity
from gradlab.train import say
from studies.evidence.features import measure
from studies.runs import RowFile, training_step
from studies.second_round.feature import drawn
from studies.second_round.rounds import ROWS
from studies.statistics import Array, over_seeds

DECLARATION = Path(__file__).with_name("interventions.toml")
TABLE = ROWS / "interventions.csv"
CHANGES, COMPONENTS = ("alignment", "uniformity"), ("pull", "hardest_share")
# The first learning rate that is tried.
FIRST_RATE = 1e-5
# Pairs at least as similar count as positives (Wang & Isola 2020).
POSITIVE = 4.0

State = Mapping[str, Tensor]


def declaration() -> dict[str, Any]:
    """What is declared, as the file says it."""
    return tomllib.loads(DECLARATION.read_text(encoding="utf-8"))


class Taken(NamedTuple):
    """What some steps did: mean rotation (degrees), and `measure` of the first step's batch."""

    rotation: float
    components: dict[str, float]


class Bench:
    """One encoder, whose weights each intervention sets first; sentences, and held-out pairs."""

    def __init__(
        self, model: str, sentences: Sequence[str], pairs: ScoredPairs, sts: Path, declared: Any
    ) -> None:
        self.encoder = Encoder.load(model, declared["pooler"], max_length=declared["max_length"])
        self._sentences, self._sts, self._declared = sentences, sts, declared
        self._pairs = drawn(pairs, declared["rotation"]["pairs"])

    def batches(self, seed: int) -> Iterator[list[str]]:
        """The batches of a seed, without end and without a sentence twice before all have come."""
        size = self._declared["batch_size"]
        generator = np.random.default_rng(seed)
        while True:
            order = generator.permutation(len(self._sentences))
            for start in range(0, len(order) - size + 1, size):
                yield [self._sentences[row] for row in order[start : start + size]]

    def state(self) -> State:
        """A copy of the weights."""
        return {name: value.clone() for name, value in self.encoder.state_dict().items()}

    def rows(self) -> Array:
        """Unit embeddings (2n, D) of the held-out pairs: the first sentences, then the second."""
        found = self.encoder.encode(self._pairs.sentences, normalize=True)
        return unit_rows(found.astype(np.float64))

    def scores(self) -> dict[str, float]:
        """``stsb_dev`` in points, and `alignment` and `uniformity` of the held-out pairs."""
        rows = self.rows()
        first, second = np.split(rows, 2)
        positive = np.asarray(self._pairs.gold) >= POSITIVE
        return {
            "stsb_dev": 100 * stsb_dev(self.encoder, self._sts),
            "alignment": alignment(first[positive], second[positive]),
            "uniformity": uniformity(rows),
        }

    def shared_run(self, seed: int) -> dict[int, State]:
        """The weights of a seed's run after each of the steps that are kept."""
        kept, shared = self._declared["kept"], self._declared["shared"]
        steps = self._steps(get_loss(shared["loss"]), shared["learning_rate"], seed, max(kept))
        found = {0: self.state()}
        for step, _ in enumerate(steps, start=1):
            if step in kept:
                found[step] = self.state()
        return found

    def take(self, begin: State, loss: Loss, rate: float, seed: int) -> Taken:
        """Some steps of a loss from these weights on, which the encoder has afterwards."""
        self.encoder.load_state_dict(begin)
        before = self.rows()
        first, *_ = self._steps(loss, rate, seed, self._declared["steps"])
        apart = np.linalg.norm(self.rows() - before, axis=1)
        rotation = float(np.degrees(2 * np.arcsin(apart / 2)).mean())
        return Taken(rotation, measure(loss, *first))

    def _steps(
        self, loss: Loss, rate: float, seed: int, count: int
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Take steps with an optimiser that begins anew, and yield both views of each batch."""
        torch.manual_seed(seed)
        optimiser = torch.optim.AdamW(self.encoder.parameters(), lr=rate, weight_decay=0.0)
        length = self._declared["max_length"]
        for sentences in itertools.islice(self.batches(seed), count):
            yield training_step(self.encoder, loss, optimiser, sentences, length)

    def matched(self, begin: State, loss: Loss, guess: float, seed: int) -> tuple[float, Taken]:
        """The learning rate whose steps turn embeddings by the declared angle, and what they did.

        The angle grows about as the rate: each try multiplies the rate by what the angle lacks.
        """
        search, rate = self._declared["rotation"], guess
        taken = self.take(begin, loss, rate, seed)
        for _ in range(search["tries"] - 1):
            reached = taken.rotation / search["degrees"]
            # Where no gate opens the gradient is 0, and no rate turns anything.
            if reached == 0 or abs(reached - 1) <= search["within"]:
                break
            rate /= reached
            taken = self.take(begin, loss, rate, seed)
        return rate, taken


def intervene(
    model: str, train_file: Path, sts: Path, pairs: ScoredPairs, *, path: Path = TABLE,
    declared: Any = None, seeds: Sequence[int] = (),
) -> None:  # fmt: skip
    """Add a row for each intervention that has none, of these declared seeds (none: all).

    The ``pairs`` are held out, with gold scores; what is ``declared`` is `declaration` by default.
    """
    declared = declared or declaration()
    table, names = RowFile(path), declared["losses"]["names"]
    bench = Bench(model, list(read_sentences(train_file)), pairs, sts, declared)
    begin = bench.state()
    for seed in seeds or declared["seeds"]:
        wanted = itertools.product(declared["kept"], names)
        if all(table.has(seed=seed, step=step, loss=name) for step, name in wanted):
            continue
        bench.encoder.load_state_dict(begin)
        rates: dict[str, float] = {}
        for step, weights in bench.shared_run(seed).items():
            bench.encoder.load_state_dict(weights)
            before = bench.scores()
            own = 1000 * seed + step  # another order and other dropout than the shared run's
            for name in names:
                if table.has(seed=seed, step=step, loss=name):
                    continue
                say(f"Intervention: seed {seed}, step {step}, {name}")
                guess = rates.get(name, FIRST_RATE)
                rates[name], taken = bench.matched(weights, get_loss(name), guess, own)
                measured = {"learning_rate": rates[name], "rotation": taken.rotation}
                measured |= {what: now - before[what] for what, now in bench.scores().items()}
                measured |= {what: taken.components[what] for what in COMPONENTS}
                table.add({"seed": seed, "step": step, "loss": name}, measured)


def correlations(table: pd.DataFrame) -> pd.DataFrame:
    """How each change and component orders losses as the outcome does, from each kept encoder.

    Returns:
        ``step``, ``what``, and Spearman's correlation over losses: the mean over seeds with its 95%
        interval, ``low`` and ``high``.
    """
    rows = []
    for step, of_step in table.groupby("step"):
        by_seed = [one for _, one in of_step.groupby("seed")]
        for what in CHANGES + COMPONENTS:
            found = over_seeds([one[what].corr(one.stsb_dev, "spearman") for one in by_seed])
            rows.append({"step": step, "what": what} | found.columns("mean", "low", "high"))
    return pd.DataFrame(rows)


def left_out(table: pd.DataFrame) -> pd.DataFrame:
    """The share of the outcome's variance that lines leave out, each loss fitted on the others.

    Returns:
        ``step``, ``fitted`` (components, changes or both), and the mean over seeds with its 95%
        interval. Above 1, the line is worse than the mean of the other losses.
    """
    kinds = {"components": COMPONENTS, "changes": CHANGES, "both": COMPONENTS + CHANGES}
    rows = []
    for step, of_step in table.groupby("step"):
        for kind, names in kinds.items():
            by_seed = []
            for _, one in of_step.groupby("seed"):
                design = np.column_stack([np.ones(len(one)), one[list(names)].to_numpy(float)])
                outcome = one.stsb_dev.to_numpy(float)
                by_seed.append(_left(design, outcome) / _left(design[:, :1], outcome))
            found = over_seeds(by_seed).columns("mean", "low", "high")
            rows.append({"step": step, "fitted": kind} | found)
    return pd.DataFrame(rows)


def _left(design: np.ndarray, outcome: np.ndarray) -> float:
    """Mean square error of a least-squares line where each row is predicted without itself."""
    hat = design @ np.linalg.pinv(design)
    return float((((outcome - hat @ outcome) / (1 - np.diag(hat))) ** 2).mean())
