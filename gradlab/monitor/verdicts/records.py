"""The records of one loss, as the questions of `gradlab.monitor.verdicts` need them."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from gradlab.monitor.label_signs import LABEL_ORDER
from gradlab.monitor.metrics import BATCH_LOSS, DIAGNOSTICS, TRAIN, History, of_dataset
from gradlab.monitor.score import Score
from gradlab.monitor.setting_advice import LossInUse
from gradlab.monitor.view_texts import PARTNERS

# Records in a row that must show a problem before it is named.
PERSISTENT = 3
# Fewest records of a run that is called good.
ENOUGH_RECORDS = 8
# Distance of positives, relative to that of other sentences, from which on they are no nearer; an
# untuned encoder finds right pairs at 0.3 to 0.75.
CHANCE = 0.95
# Ranking accuracy at the end of runs that find the pairs of their batches, and by how many standard
# errors it has risen. Sound runs with cosines that lie close together reach .72 to .94, runs with
# unrelated pairs at most .68.
RANKED, SURELY = 0.7, 3.0
# Ranking accuracy of a run that has kept a good one.
WELL_RANKED = 0.9
# Mean ranking accuracy of the last third of runs whose positives are nearer from the beginning,
# though not by much: sound ones have .62 and more, faulty ones whose first third is surely above
# a half .58 and less.
NEARER_THAN_MOST = 0.6
# Standard errors by which positives are surely nearer than others, by how much less they may be
# than at first, and the mean cosine of others in a cone: collapsed runs that raise their score have
# 5.2 errors and more, others up to 3.3.
QUITE_SURELY, LESS, CONE = 4.0, 0.02, 0.98
# Difference between the mean cosines of positives and negatives, up to which they are hardly told
# apart.
NARROW = 0.05
# Number of a run: share of other rows that are farther than a row's partner once training has
# ended, without dropout; see `gradlab.monitor.without_dropout`. Of runs that leave it open, those
# whose score has risen have .93 and more, others up to .85.
RANKED_IN_USE, TOLD_IN_USE = "ranked_without_dropout", 0.9
# Share of other texts that go less with a text than its partner does, by their words, from which on
# the texts of rows belong together: .97 and more, and up to .62 where they were mixed; and mean
# cosine from which on dropout may hide it: sound runs have .95 to .998, and up to .2 where the loss
# reads its rows in another order or noise drowns them.
BELONGING, HIDING = 0.9, 0.94
# Share of comparisons of pairs by label in order of which training has a part: sound runs reach
# .555 and more, those with labels of something else .52 at most.
FOLLOWED = 0.54
# Loss at the end, relative to its first value, of a run that learns.
LEARNS = 0.9
# The same of triplets whose margins are met; mean cosine of different sentences of such a run, at
# most .36, where one with a margin of its own or an angular one has .8 and more.
MET, SPREAD = 0.02, 0.6
# A correlation or nDCG has changed if it moved by more than this. It has fallen from its best if it
# lost this share of its gain as well: the best of many evaluations lies above the course by their
# noise, which for 100 queries is about 0.02.
SCORE_CHANGE, NOISE = 0.01, 0.1
FALLEN = 1.5  # standard errors of the difference of two samples, above which a score has fallen


class Records:
    """The diagnostics of one loss in a history, which may grow."""

    def __init__(
        self,
        history: History,
        dataset: str = "",
        used: LossInUse | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        """Take the records of a data set's loss.

        Args:
            history: everything that the run recorded.
            dataset: data set whose loss is judged, if each has its own.
            used: the loss in use, whose settings advice names.
            config: settings by name of a run of `gradlab train`; None for other runs.
        """
        self.history, self.dataset, self.config = history, dataset, config
        self.used = used or LossInUse()
        # Whether a loop's loss has a label for each row, so that not all pairs need be alike, and
        # whether it compares each row with its partner only, as with a teacher's embedding; whether
        # classes have weights or proxies of their own; whether it compares distances within a view
        # with those within the other, as with a teacher's, and never rows of both.
        self.rows_have_labels = self.has_no_negatives = self.classes_have_places = False
        self.compares_structures = False
        # Whether a loss that is given the same rows twice makes views of them itself, by numbers
        # that it draws, or has their positives elsewhere.
        self.makes_views = False
        # Whether the third column of a loss may be what rows are drawn to, and no negatives.
        self.has_targets = False
        # Whether a loss without a closed form is much lower for right pairs than if all are alike.
        self.asks_for_pairs = False
        self._group = of_dataset(DIAGNOSTICS, dataset)

    @property
    def count(self) -> int:
        """Number of records, which is the length of the longest series."""
        names = self.history.names(self._group)
        return max((len(self.points(name)) for name in names), default=0)

    @property
    def has_negatives(self) -> bool:
        """Whether the loss is one that is known to push sentences from negatives."""
        of_known = bool(self.used.bases) and not self.used.has_labels
        return of_known or (self.used.loss is None and math.isfinite(self.end("hardest_share")))

    @property
    def begins_at_chance(self) -> bool:
        """Whether positives were no nearer than other sentences in the first record."""
        positive, negative = self.first("positive_cosine"), self.first("negative_cosine")
        return 1 - positive > CHANCE * (1 - negative)

    @property
    def gap(self) -> float:
        """By how much cosines of positives exceed those of other sentences at the end, or NaN."""
        return self.end("positive_cosine") - self.end("negative_cosine")

    @property
    def batch_losses(self) -> list[float]:
        """The finite losses of the recorded batches."""
        points = self.history.points(TRAIN, of_dataset(BATCH_LOSS, self.dataset))
        return [value for value in points.values() if math.isfinite(value)]

    @property
    def losses(self) -> tuple[float, float] | None:
        """The first loss of the batches, and the lower median of the last three; None without."""
        return ends_of(self.batch_losses)

    @property
    def loss_falls(self) -> bool:
        """Whether the loss ends clearly below its first value."""
        losses = self.losses
        return losses is not None and losses[1] < losses[0] - (1 - LEARNS) * abs(losses[0])

    @property
    def loss_grows(self) -> bool:
        """Whether the loss ends clearly above its first value."""
        losses = self.losses
        return losses is not None and losses[1] > losses[0] + (1 - LEARNS) * abs(losses[0])

    @property
    def loss_is_met(self) -> bool:
        """Whether hardly anything of the loss is left, and embeddings spread: margins are met."""
        losses = self.losses
        if losses is None or not losses[0] > 0 or not abs(losses[1]) < MET * losses[0]:
            return False
        return self.end("negative_cosine") < SPREAD

    def points(self, name: str) -> dict[int, float]:
        """Return the values of a quantity by step."""
        return self.history.points(self._group, name)

    def recorded_as(self, name: str) -> str:
        """Return the name under which a quantity is recorded."""
        return self.history.recorded_as(self._group, name)

    def first(self, name: str) -> float:
        """Return the first value of a quantity; NaN without any."""
        return next(iter(self.points(name).values()), math.nan)

    def latest(self, name: str) -> float:
        """Return the latest value of a quantity; NaN without any."""
        return next(reversed(self.points(name).values()), math.nan)

    def recent(self, *names: str, count: int = PERSISTENT) -> list[tuple[float, ...]]:
        """Return quantities of the latest ``count`` records of the first of them, oldest first.

        The list is empty if there are fewer records; a number that is missing is NaN.
        """
        series = [self.history.points(self._group, name) for name in names]
        if len(series[0]) < count:
            return []
        steps = list(itertools.islice(reversed(series[0]), count))
        return [tuple([points.get(s, math.nan) for points in series]) for s in reversed(steps)]

    def ends(self, name: str) -> tuple[float, float] | None:
        """Return `ends_of` the finite values of a quantity."""
        return ends_of([v for v in self.points(name).values() if math.isfinite(v)])

    def end(self, name: str) -> float:
        """Return the lower median of the last three finite values; NaN without any."""
        ends = self.ends(name)
        return ends[1] if ends else math.nan

    def outer_thirds(self, name: str) -> tuple[list[float], list[float]]:
        """Return the finite values of the first and of the last third of a quantity's records."""
        values = [v for v in self.points(name).values() if math.isfinite(v)]
        third = len(values) // 3
        return values[:third], values[len(values) - third :]

    @property
    def positives_rank_first(self) -> bool:
        """Whether positives have come to be nearer than most other sentences of their batch."""
        early, late = self.outer_thirds("ranking_accuracy")
        if len(late) < PERSISTENT:
            return False
        mean, error = mean_and_error(late)
        return mean > RANKED and mean - SURELY * error > statistics.fmean(early)

    @property
    def positives_remain_first(self) -> bool:
        """Whether positives have come to be nearer than most others, or still are."""
        return self.positives_rank_first or self.end("ranking_accuracy") > WELL_RANKED

    @property
    def nearer_in_a_cone(self) -> bool:
        """Whether positives are surely nearer in the second half, though all cosines are near 1.

        There, dropout hides by how much: a score is measured without it.
        """
        values = [v for v in self.points("ranking_accuracy").values() if math.isfinite(v)]
        early, late = values[: len(values) // 3], values[len(values) // 2 :]
        if len(early) < PERSISTENT or not self.end("negative_cosine") > CONE:
            return False
        mean, error = mean_and_error(late)
        return mean - QUITE_SURELY * error > 0.5 and mean > statistics.fmean(early) - LESS

    @property
    def told_in_use(self) -> bool:
        """Whether partners rank first without dropout, which may hide it during training."""
        points = self.history.points(TRAIN, of_dataset(RANKED_IN_USE, self.dataset))
        return max(list(points.values())[-1:], default=math.nan) > TOLD_IN_USE

    @property
    def hidden_by_dropout(self) -> bool:
        """Whether nothing but dropout may hide, in a cone, which texts belong together.

        By their words they do, and the loss asks for it.
        """
        words = self.history.points(TRAIN, PARTNERS["told"])
        belong = max([*words.values()][-1:], default=math.nan) > BELONGING
        if not (belong and self.end("negative_cosine") > HIDING):
            return False
        _, late = self.outer_thirds("ranking_accuracy")
        is_hidden = len(late) >= PERSISTENT and statistics.fmean(late) < NEARER_THAN_MOST
        asks = self.asks_for_pairs or (self.used.loss is not None and self.has_negatives)
        return asks and (is_hidden or not self.loss_grows)

    @property
    def positives_stay_nearer(self) -> bool:
        """Whether positives are nearer than most others throughout, as in a run that learns slowly.

        Unrelated pairs that are learned by heart begin at a half.
        """
        early, late = self.outer_thirds("ranking_accuracy")
        if len(early) < PERSISTENT:
            return False
        mean, error = mean_and_error(early)
        begins_above = mean - SURELY * error > 0.5
        return begins_above and statistics.fmean(late) > NEARER_THAN_MOST

    @property
    def cosines_follow_labels(self) -> bool:
        """Whether cosines of a loop's pairs have come into the order of their labels."""
        name = of_dataset(LABEL_ORDER, self.dataset)
        values = [v for v in self.history.points(TRAIN, name).values() if math.isfinite(v)]
        late = values[len(values) - len(values) // 3 :]
        if len(late) < PERSISTENT:
            return False
        mean, error = mean_and_error(late)
        return mean > FOLLOWED and mean - SURELY * error > 0.5

    def score_suffers(self) -> bool | None:
        """Whether the main score is now below what it was; None if that was not measured."""
        return suffers(next(iter(self.history.scores()), None))

    def score_rises(self) -> bool:
        """Whether the main score ends above its value before training, with half of its gain."""
        return self._gain() > SCORE_CHANGE and not lost_half(next(iter(self.history.scores())))

    def score_falls(self) -> bool:
        """Whether the main score ends below its value before training, surely."""
        score = next(iter(self.history.scores()), None)
        if score is None or not score.is_quality or score.before is None or score.last is None:
            return False
        return score.before - score.last[1] > fall_by_chance(score, score.before, score.last[1])

    def _gain(self) -> float:
        """Return by how much the main score has grown since before training; NaN if unknown."""
        score = next(iter(self.history.scores()), None)
        if score is None or not score.is_quality or score.before is None or score.last is None:
            return math.nan
        return score.last[1] - score.before


def suffers(score: Score | None) -> bool | None:
    """Return whether a score ends below its start and its best; None with fewer than two values."""
    if score is None or not score.is_quality or len(score.points) < 2:
        return None
    earlier = [value for _, value in score.points[:-1] if math.isfinite(value)]
    latest, best = score.points[-1][1], max(earlier, default=-math.inf)
    return not math.isfinite(latest) or latest < best - margin_below(best, score)


def margin_below(best: float, score: Score) -> float:
    """Return by how much a score must be below its best before it has fallen."""
    gain = best - score.before if score.before is not None else 0.0
    by_chance = fall_by_chance(score, best, score.points[-1][1])
    return max(by_chance, NOISE * gain) if math.isfinite(gain) else by_chance


def fall_by_chance(score: Score, higher: float, lower: float) -> float:
    """Return up to which fall two values of a score may differ by chance.

    As both are of the same texts, their difference varies less than that of two samples.
    """
    errors = (score.error_of(value) for value in (higher, lower) if math.isfinite(value))
    return max(SCORE_CHANGE, FALLEN * math.hypot(*errors))


def lost_half(score: Score) -> bool:
    """Return whether a score has lost half of what it had gained since before training."""
    if score.best is None or score.last is None or score.before is None:
        return False
    return not score.last[1] > (score.best[1] + score.before) / 2


def values_of(history: History, name: str) -> list[float]:
    """Return the values of a number of all data sets, in order."""
    names = [entry for entry in history.names(TRAIN) if entry.split(" ")[0] == name]
    return [value for entry in names for value in history.points(TRAIN, entry).values()]


def mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    """Return the mean of values and its standard error."""
    return statistics.fmean(values), statistics.pstdev(values) / math.sqrt(len(values))


def ends_of(values: Sequence[float]) -> tuple[float, float] | None:
    """Return the first value and the lower median of the last three; None without any values.

    Of fewer than four values the end is the last one.
    """
    if not values:
        return None
    late = values[-PERSISTENT:] if len(values) > PERSISTENT else values[-1:]
    return values[0], statistics.median_low(late)
