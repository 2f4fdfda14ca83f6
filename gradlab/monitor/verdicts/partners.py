"""Do the texts of a loop's rows belong together, and do their scores go with that?

By the words that they share, or that go together in other rows; the sentences are those of the
doctor and of an inspection.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from gradlab.data.label_verdicts import labels_foretold
from gradlab.data.partner_verdicts import partners
from gradlab.monitor.label_signs import SCORED
from gradlab.monitor.label_trials import AS_SCORED, REVERSED
from gradlab.monitor.metrics import TRAIN, of_dataset
from gradlab.monitor.verdicts.pairing import numbers_of
from gradlab.monitor.verdicts.records import Records, values_of
from gradlab.monitor.view_texts import PARTNERS
from gradlab.verdict import Verdict


def unrelated(records: Records) -> Verdict | None:
    """Judge whether the texts of a row, or of a part of the rows, belong together.

    Rows with labels need not be pairs.
    """
    if records.used.is_rated or records.rows_have_labels:
        return None
    latest = {name: values_of(records.history, key)[-1:] for name, key in PARTNERS.items()}
    if not all(latest.values()):
        return None
    numbers: dict[str, Any] = {name: values[0] for name, values in latest.items()}
    verdict = partners(**numbers | {"rows": int(numbers["rows"]), "sorted_column": 0})
    return verdict and dataclasses.replace(verdict, subject="Pairs")


def scores(records: Records, trial: Mapping[str, Any]) -> Verdict | None:
    """Judge whether the scores of pairs go with their texts, in the direction of the loss.

    Args:
        records: the records of a data set.
        trial: values of the loss, of which those of `gradlab.monitor.label_trials` say whether it
            draws texts with high scores together or apart.
    """
    of_loss = numbers_of(trial, (AS_SCORED, REVERSED))
    points = {
        name: records.history.points(TRAIN, of_dataset(key, records.dataset))
        for name, key in SCORED.items()
    }
    if of_loss is None or of_loss[AS_SCORED] == of_loss[REVERSED] or not all(points.values()):
        return None
    numbers: dict[str, Any] = {name: series[max(series)] for name, series in points.items()}
    numbers |= {name: int(numbers[name]) for name in ("rows", "distinct")}
    if of_loss[AS_SCORED] > of_loss[REVERSED]:  # a loss of distances
        numbers |= {name: -numbers[name] for name in ("words", "fitting")}
    verdict = next(labels_foretold(**numbers), None)
    return verdict and dataclasses.replace(verdict, subject="Labels")
