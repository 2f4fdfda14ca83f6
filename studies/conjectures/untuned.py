"""The encoder before training, as a row of the repairs' table."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from gradlab.files import write_json
from gradlab.sweep import encode_of
from gradlab.train import TrainConfig
from gradlab.waiting import waiting

UNTUNED = "untuned.json"
# The row that papers call BERT without fine-tuning, beside the pooler that the runs train.
UNTRAINED_POOLER = "first_last"


def read_untuned(place: Path) -> dict[str, Any]:
    """Pooler -> scores, as `score_untuned` left them; empty if it did not."""
    scores: dict[str, Any] = json.loads(place.read_text(encoding="utf-8")) if place.exists() else {}
    return scores


def score_untuned(place: Path, config: TrainConfig, tasks: Iterable[str]) -> None:
    """Score the untuned encoder, by pooler, as far as that is not done.

    Tasks are of ``stsb_dev``, ``sts`` and ``transfer``. The last is slow, and scored for the
    first-last average alone.
    """
    from gradlab.evaluate import evaluate, stsb_dev

    assert config.eval_data is not None
    trained = "cls" if config.pooler == "cls_mlp" else config.pooler
    scores = read_untuned(place)
    for task in tasks:
        poolers = dict.fromkeys((UNTRAINED_POOLER, trained))
        for pooler in (UNTRAINED_POOLER,) if task == "transfer" else poolers:
            row = scores.setdefault(pooler, {})
            if task in row:
                continue
            with waiting(f"Scoring the encoder as it was before ({pooler}, {task})"):
                encode = encode_of(config.model, config, pooler)
                if task == "stsb_dev":
                    row[task] = stsb_dev(encode, config.eval_data)
                else:
                    evaluation = evaluate(encode, config.eval_data, task, progress=False)
                    row[task] = evaluation.sts if task == "sts" else evaluation.transfer()
            write_json(place, scores)
