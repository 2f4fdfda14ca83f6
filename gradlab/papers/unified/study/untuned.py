"""The encoder before training, as a row of the repairs' table."""

from __future__ import annotations

from pathlib import Path

from gradlab.files import write_json
from gradlab.papers.unified.study.runs import Task, evaluate_tasks, read_json
from gradlab.sweep.training import encode_of

# The row that papers call BERT without fine-tuning; beside it stands the pooler that the runs train.
USUAL = "first_last"


def score_untuned(place: Path, task: Task, what: str) -> None:
    """Score the untuned encoder, by pooler, unless that is done.

    Args:
        place: the JSON file to keep up to date.
        task: a run of the study, for its model, data and precision.
        what: ``stsb_dev``, ``sts``, or ``transfer`` (of the first-last average alone: it is slow).
    """
    from gradlab.evaluate import stsb_dev

    config = task.config
    trained = "cls" if config.pooler == "cls_mlp" else config.pooler
    scores = read_json(place) or {}
    for pooler in (USUAL,) if what == "transfer" else dict.fromkeys((USUAL, trained)):
        row = scores.setdefault(pooler, {})
        if what in row:
            continue
        encode = encode_of(config.model, config, pooler)
        if what == "stsb_dev":
            row[what] = stsb_dev(encode, task.sts)
        else:
            found = evaluate_tasks(task, encode, what)
            row[what] = found.sts if what == "sts" else found.transfer()
        write_json(place, scores)
