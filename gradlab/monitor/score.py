"""Scores of a run, and recorded names in a form for people."""

from __future__ import annotations

import math
from dataclasses import dataclass

NAMES = {
    "stsb_dev": "STS-B dev",
    "ndcg_at_10": "Retrieval nDCG@10",
    "eval_loss": "Evaluation loss",
    "relative_push": "Mean relative push",
    "pushed": "Share of sentences with a relative push of at least 0.01",
    "hardest_share_of_pushed": "Share of the hardest negative, of pushed sentences",
    "ratio_of_pushed": "Ratio of pushed sentences",
    "ratio_median_of_pushed": "Median ratio of pushed sentences",
}
# Endings of the names under which sentence-transformers' evaluators log their measures.
MEASURES = {
    "spearman_cosine": "Spearman of cosines",
    "pearson_cosine": "Pearson of cosines",
    "spearman": "Spearman",
    "pearson": "Pearson",
    "cosine_accuracy": "accuracy by cosine",
}
# Parts of names that trainers log among their evaluations and that are not scores.
NO_SCORES = ("runtime", "per_second", "preparation_time", "_threshold")


@dataclass(frozen=True)
class Score:
    """One score of a run: (step, value) in order; a value is NaN if embeddings were constant."""

    name: str
    points: tuple[tuple[int, float], ...]
    is_primary: bool = False  # whether its evaluator calls it primary
    count: int = 0  # queries, pairs or triplets that it is of; 0 if unknown

    @property
    def title(self) -> str:
        return readable(self.name)

    @property
    def is_loss(self) -> bool:
        """Whether smaller values are better."""
        return self.name.endswith("loss")  # an ending, because eval_glossary_spearman is not a loss

    @property
    def is_quality(self) -> bool:
        """Whether it selects encoders: primary, a correlation with judgements, or an nDCG."""
        return self.is_primary or any(
            kind in self.name for kind in ("stsb_dev", "spearman", "pearson", "ndcg")
        )

    @property
    def is_correlation(self) -> bool:
        return "spearman" in self.name or "pearson" in self.name

    def error_of(self, value: float) -> float:
        """Return the standard error of a value by its count, at most; 0 if unknown.

        A correlation over n pairs has (1 - r²)/√(n - 1), a mean of n numbers between 0 and 1 at
        most √(p(1 - p)/n).
        """
        if self.count < 2 or not abs(value) <= 1:
            return 0.0
        if self.is_correlation:
            return (1 - value**2) / math.sqrt(self.count - 1)
        return math.sqrt(max(value * (1 - value), 0.0) / self.count)

    @property
    def before(self) -> float | None:
        """Score before training; None if it was not evaluated."""
        return dict(self.points).get(0)

    @property
    def best(self) -> tuple[int, float] | None:
        """Step and value of the best finite score after step 0, the first of equals, or None."""
        trained = [point for point in self.points if point[0] > 0 and math.isfinite(point[1])]
        sign = 1 if self.is_loss else -1
        return min(trained, key=lambda point: (sign * point[1], point[0]), default=None)

    @property
    def last(self) -> tuple[int, float] | None:
        """Step and value of the last score; None if there is none after step 0."""
        return self.points[-1] if self.points and self.points[-1][0] > 0 else None


def readable(name: str) -> str:
    """Return a recorded name in a form for people.

    ``"eval_sts-dev_spearman"`` becomes ``"sts-dev, Spearman"``.
    """
    if name in NAMES:
        return NAMES[name]
    plain = name.removeprefix("eval_")
    for ending, words in MEASURES.items():
        if plain.endswith(ending):
            subject = plain.removesuffix(ending).strip("_").replace("_", " ")
            return f"{subject}, {words}" if subject else words[:1].upper() + words[1:]
    plain = plain.replace("_", " ")
    return plain[:1].upper() + plain[1:]
