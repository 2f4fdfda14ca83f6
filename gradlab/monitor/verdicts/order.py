"""Are cosines in the order of labels, and do positives stand above negatives of their own?"""

from __future__ import annotations

import math
import statistics

from gradlab.monitor.verdicts.records import ENOUGH_RECORDS, Records, mean_and_error
from gradlab.verdict import BAD, GOOD, NOT_JUDGED, WATCH, Verdict

# Share of comparisons in the right order from which on labels or triplets are told apart, and below
# which they are reversed, by so many standard errors below half; the same where the score falls,
# which is a second sign.
IN_ORDER, REVERSED, CLEARLY = 0.6, 0.45, 3.0
REVERSED_AS_WELL, CLEARLY_AS_WELL = 0.48, 1.5
# Difference of shares that may be chance; by how much the last third of the records is below the
# first where training takes them out of order: in sound runs by .05 at most, in faulty ones by .1.
NARROW, FALLS = 0.05, 0.08
# Share of comparisons in order in the last third of the records that is chance, with so many
# standard errors, and fewest records that say so. Sound runs reach .555 and more, clearly above a
# half; runs with prices, sources or distances as labels .44 to .52.
AT_CHANCE, OF_CHANCE, RECORDS_OF_CHANCE = 0.53, 2.0, 12
NO_LIKENESS = (
    "Check that labels belong to the texts beside them and say how alike these are (not a price, a "
    "source or a rank), in the range that the loss expects; if they do, train longer or at a "
    "higher learning rate."
)
LOOK_AT_LABELS = (
    "Check what is called alike: labels may be distances, columns exchanged, a mask inverted, hard "
    "negatives right answers, or the loss may have the wrong sign."
)


def order(records: Records) -> Verdict | None:
    """Judge whether cosines stand in the order of labels, or positives above own negatives.

    A batch compares few pairs, so all records together decide. Hard negatives may be nearer than
    positives until they are learned, so an order that rises towards half is not judged.
    """
    ends = records.ends("order")
    if ends is None:
        return None
    first, last = ends
    values = [value for value in records.points("order").values() if math.isfinite(value)]
    mean = statistics.fmean(values)
    finding = (
        f"In the first record {first:.0%} of the comparisons of {records.used.compared} are in the "
        f"right order by cosine, at the end {last:.0%} (median of the last three records), and on "
        f"average {mean:.0%}; chance gives 50%."
    )
    evidence = {"first": first, "last": last, "mean": mean}
    symptom = "labels-do-not-fit"
    early, late = (statistics.fmean(third or [mean]) for third in records.outer_thirds("order"))
    if _is_reversed(records, values):
        stays = late < min(REVERSED, early + NARROW)
        grade = BAD if stays or records.score_falls() else WATCH
        name = "order reversed"
        return Verdict("Order", grade, finding, LOOK_AT_LABELS, name, symptom, evidence)
    if len(values) >= ENOUGH_RECORDS and late < early - FALLS and _falls_clearly(records):
        finding += f" It falls: training takes them out of order, from {early:.0%} to {late:.0%}."
        name = "order falls"
        return Verdict("Order", WATCH, finding, LOOK_AT_LABELS, name, symptom, evidence)
    if _stays_at_chance(records):
        finding += f" In the last third of the records it is {late:.0%}, as by chance."
        # Pairs in other words begin like this, and few steps leave them so: a score is the proof.
        grade = WATCH if records.score_falls() else NOT_JUDGED
        name = "order at chance"
        return Verdict("Order", grade, finding, NO_LIKENESS, name, symptom, evidence)
    grade = GOOD if last > max(IN_ORDER, first - NARROW) else NOT_JUDGED
    if grade == GOOD and _wanders(records):
        grade = NOT_JUDGED
        finding += " The records wander too much to tell a trend from chance."
    return Verdict("Order", grade, finding, name="order", evidence=evidence)


def _falls_clearly(records: Records) -> bool:
    """Whether the last third of the records is below the first by more than chance."""
    (early, early_error), (late, late_error) = map(mean_and_error, records.outer_thirds("order"))
    return late + CLEARLY * math.hypot(early_error, late_error) < early


def _stays_at_chance(records: Records) -> bool:
    """Whether the last third of many records is no better in order than chance, nor than the first.

    Mined negatives are nearer than positives until they are learned, and a score may rise before.
    """
    early, late = records.outer_thirds("order")
    if len(records.points("order")) < RECORDS_OF_CHANCE or records.score_rises():
        return False
    if statistics.fmean(late) > statistics.fmean(early) + NARROW:
        return False
    mean, error = mean_and_error(late)
    return mean < AT_CHANCE and mean - OF_CHANCE * error <= 0.5


def _wanders(records: Records) -> bool:
    """Whether the last third of the records is, on average, not clearly in order."""
    late = records.outer_thirds("order")[1]
    if not late:
        return True
    mean, error = mean_and_error(late)
    return mean <= IN_ORDER or mean - CLEARLY * error <= 0.5


def _is_reversed(records: Records, values: list[float]) -> bool:
    """Whether fewer than half of all comparisons are in order, clearly, and will not soon be.

    A loss of reversed labels brings them into its order, while the score falls.
    """
    if len(values) < ENOUGH_RECORDS:
        return False
    mean, error = statistics.fmean(values), statistics.stdev(values) / math.sqrt(len(values))
    if records.score_falls():
        return mean < REVERSED_AS_WELL and mean + CLEARLY_AS_WELL * error < 0.5
    early, late = map(statistics.fmean, records.outer_thirds("order"))
    return mean < REVERSED and mean + CLEARLY * error < 0.5 and late < (early + 0.5) / 2
