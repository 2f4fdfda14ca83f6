"""The scores of a run: what its evaluations are called, and what they were before training, at best and at last."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gradlab.monitor.history import EVALUATION, History

NAMES = {"stsb_dev": "STS-B dev", "ndcg_at_10": "Retrieval nDCG@10", "eval_loss": "Evaluation loss"}
# How the evaluators of sentence-transformers end the names of what they measure.
MEASURES = {
    "spearman_cosine": "Spearman of cosines",
    "pearson_cosine": "Pearson of cosines",
    "spearman": "Spearman",
    "pearson": "Pearson",
    "cosine_accuracy": "accuracy by cosine",
}
# What trainers write among their evaluations that is not a score.
NO_SCORES = ("runtime", "per_second", "preparation_time")


@dataclass(frozen=True)
class Score:
    """One score over a run: (step, value) in order, NaN where the embeddings were constant."""

    name: str
    points: tuple[tuple[int, float], ...]

    @property
    def title(self) -> str:
        """What to call it."""
        return readable(self.name)

    @property
    def is_loss(self) -> bool:
        """Whether less of it is better."""
        return "loss" in self.name

    @property
    def is_quality(self) -> bool:
        """Whether it is what encoders are selected by: a correlation with human judgements, or nDCG of retrieval."""
        return any(kind in self.name for kind in ("stsb_dev", "spearman", "pearson", "ndcg"))

    @property
    def before(self) -> float | None:
        """Before training, if that was evaluated."""
        return dict(self.points).get(0)

    @property
    def best(self) -> tuple[int, float] | None:
        """Step and value of the best one after training has begun, the earliest of equals."""
        trained = [(step, value) for step, value in self.points if step > 0 and math.isfinite(value)]
        sign = 1 if self.is_loss else -1
        return min(trained, key=lambda point: (sign * point[1], point[0])) if trained else None

    @property
    def last(self) -> tuple[int, float] | None:
        """Step and value of the last one after training has begun."""
        return self.points[-1] if self.points and self.points[-1][0] > 0 else None


def scores_of(history: History) -> list[Score]:
    """All scores of a run: correlations and nDCG first, losses last; those that are never a number are left out."""
    found = []
    for name in history.names(EVALUATION):
        steps, values = history.series(EVALUATION, name)
        if any(map(math.isfinite, values)) and not name.endswith(NO_SCORES):
            found.append(Score(name, tuple(zip(steps, values, strict=True))))
    return sorted(found, key=lambda score: (not score.is_quality, score.is_loss))


def readable(name: str) -> str:
    """The name of a recorded number, for people: ``"eval_sts-dev_spearman_cosine"`` -> ``"sts-dev: Spearman of cosines"``."""
    if name in NAMES:
        return NAMES[name]
    plain = name.removeprefix("eval_")
    for ending, words in MEASURES.items():
        if plain.endswith(ending):
            what = plain.removesuffix(ending).strip("_").replace("_", " ")
            return f"{what}: {words}" if what else words[:1].upper() + words[1:]
    plain = plain.replace("_", " ")
    return plain[:1].upper() + plain[1:]
