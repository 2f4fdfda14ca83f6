"""Do all rows and texts of a batch learn, and above all those whose positive is not the nearest?"""

from __future__ import annotations

import statistics

from gradlab.monitor.arriving_gradient import OWN_GRADIENT
from gradlab.monitor.label_signs import ALONE
from gradlab.monitor.metrics import TRAIN, of_dataset
from gradlab.monitor.row_gradients import (
    BUSY_PLACES,
    IDLE_PLACES,
    RIGHT_IDLE,
    WRONG_IDLE,
    WRONG_ROWS,
)
from gradlab.monitor.token_signs import IDLE_TEXTS
from gradlab.monitor.verdicts.records import ENOUGH_RECORDS, Records
from gradlab.numbers import percent
from gradlab.verdict import BAD, WATCH, Verdict

# Share of the places in a batch that no record has a gradient at, and share of the records with one
# at the others: losses of one row or of a slice have .81 to .94 and 1. Hinges that are nearly
# fulfilled have gradients at few rows, but now here and now there.
MANY_IDLE, ALWAYS = 0.7, 0.5
# Shares of the rows whose positive is not the nearest that are in a batch and without gradient, and
# share of the other rows without one: losses that are clamped, filtered or weighted by confidence
# have .88 to .93, .87 to 1 and .00 to .04; in hinges it is the right rows that have none.
MANY_WRONG, MOST_WRONG, FEW_RIGHT = 0.3, 0.75, 0.25
# Share of rows that are alone with their class in a batch, and of records without any gradient,
# which show that the loss has no memory or proxies beside the batch: .96 and .80 in batches of many
# classes at random.
MOST_ALONE, NO_GRADIENT = 0.85, 0.5
# Share of the records in which few texts have a gradient, though the loss is of many more rows, and
# share of the texts without one in them: where the states of the first text are taken for rows,
# these are all and .94.
OFTEN, MANY_TEXTS = 0.8, 0.7


def places(records: Records) -> Verdict | None:
    """Judge whether some places of the batch never have a gradient, while others always do."""
    idle, busy = _points(records, IDLE_PLACES), _points(records, BUSY_PLACES)
    if records.count < ENOUGH_RECORDS or len(idle) < records.count:
        return None
    share, often = idle[max(idle)], busy[max(busy)]
    if share < MANY_IDLE or often < ALWAYS:
        return None
    return Verdict(
        "Batch",
        WATCH,
        f"{percent(share)} of the places in a batch never have a gradient of the loss at their "
        f"embeddings, in {len(idle)} records, while the others have one in {percent(often)}: the "
        "loss is computed of the same few rows of each batch, and the other rows are not learned.",
        "Look for a return or an assignment (= in place of +=) within the loop over rows, for a "
        "slice of the rows, and for .item() or detach() of the terms that are added up.",
        name="rows left out",
        symptom="loss-at-chance",
        evidence={"share": share, "others": often},
    )


def wrong_rows(records: Records) -> Verdict | None:
    """Judge whether rows whose positive is not the nearest have no gradient, and others do.

    Not where rows have labels: rows that do not fit each other need none.
    """
    wrong, right = _points(records, WRONG_IDLE), _points(records, RIGHT_IDLE)
    shares = _points(records, WRONG_ROWS)
    if records.rows_have_labels or len(wrong) < ENOUGH_RECORDS:
        return None
    share, of_wrong, of_right = (
        statistics.fmean(points.values()) for points in (shares, wrong, right)
    )
    if share < MANY_WRONG or of_wrong < MOST_WRONG or of_right > FEW_RIGHT:
        return None
    return Verdict(
        "Gradient",
        WATCH,
        f"{percent(of_wrong)} of the rows whose positive is not the nearest have no gradient to "
        f"speak of, while {percent(1 - of_right)} of the rows that are right already have one: "
        "wrong rows are left out of the loss, and never learned.",
        "Look at what clamps, filters or weighs the rows: a clamp of probabilities, a limit on the "
        "loss of a row, or a weight that grows with confidence. Hard rows must count most.",
        name="wrong rows left out",
        symptom="loss-at-chance",
        evidence={"wrong": of_wrong, "right": of_right, "share": share},
    )


def alone_in_class(records: Records) -> Verdict | None:
    """Judge whether rows have others of their class in a batch, where these are their positives."""
    sizes = [*_points(records, OWN_GRADIENT).values()]
    if len(sizes) < ENOUGH_RECORDS:
        return None
    share = sum(_points(records, ALONE).values()) / records.count
    none = sum(size == 0 for size in sizes) / len(sizes)
    if share < MOST_ALONE or none < NO_GRADIENT:
        return None
    return Verdict(
        "Batch",
        WATCH,
        f"{percent(share)} of the rows are the only one of their class in their batch, and "
        f"{percent(none)} of the batches have no gradient: a loss that compares the rows of a "
        "batch has no positive for them, and they do not learn.",
        "Draw two rows or more of each class into a batch, with a sampler of classes, or embed two "
        "views of each row and repeat the labels.",
        name="classes once",
        symptom="labels-do-not-fit",
        evidence={"share": share, "no_gradient": none},
    )


def texts(records: Records) -> Verdict | None:
    """Judge whether the rows that the loss is of are those of the batch's texts."""
    shares = _points(records, IDLE_TEXTS)
    if records.count < ENOUGH_RECORDS or len(shares) < OFTEN * records.count:
        return None
    share = statistics.fmean(shares.values())
    if share < MANY_TEXTS:
        return None
    return Verdict(
        "Batch",
        BAD,
        f"{percent(share)} of the texts of a batch have no gradient at their tokens, though the "
        "loss is of many more rows than the other texts: its rows are not those of the texts, but "
        "of the tokens of one, or of one embedding that is repeated.",
        "Look at the axes of what the encoder returns: last_hidden_state[:, 0] is the first token "
        "of each text, and last_hidden_state[0] holds all tokens of the first text.",
        name="texts left out",
        symptom="loss-at-chance",
        evidence={"share": share},
    )


def _points(records: Records, name: str) -> dict[int, float]:
    return records.history.points(TRAIN, of_dataset(name, records.dataset))
