"""The encoder before training, as a row of the repairs' table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gradlab.files import write_json
from gradlab.study.runs import Task

# The row that papers call BERT without fine-tuning, and the pooler that the runs train.
POOLERS = ("first_last", "cls", "mean")


def score_untuned(place: Path, before: dict[str, Any], task: Task, *, transfer: bool) -> None:
    """Score the untuned encoder on STS-B dev, the STS sets and (first-last average) the transfer tasks.

    Args:
        place: the JSON file to keep up to date.
        before: what it holds already.
        task: a run of the study, for its model, data and precision.
        transfer: whether the transfer tasks are wanted.
    """
    from gradlab.encoder import Encoder
    from gradlab.evaluate import evaluate, stsb_dev
    from gradlab.study.observe import encode_with
    from gradlab.train.distributed import find_device

    trained = "cls" if task.config.pooler == "cls_mlp" else task.config.pooler
    scores = dict(before)
    for pooler in dict.fromkeys((POOLERS[0], trained)):
        wanted_transfer = transfer and pooler == POOLERS[0]
        if pooler in scores and (not wanted_transfer or "transfer" in scores[pooler]):
            continue
        encoder = Encoder.load(task.config.model, pooler, device=find_device(task.config.device))
        encode = encode_with(encoder, task.settings.precision)
        if pooler not in scores:
            found = evaluate(encode, task.sts, "sts", progress=False)
            scores[pooler] = {"stsb_dev": stsb_dev(encode, task.sts), "sts": found.sts}
            write_json(place, scores)
        if wanted_transfer:
            scores[pooler]["transfer"] = evaluate(
                encode, task.sts, "transfer", progress=False, jobs=task.jobs
            ).transfer()
            write_json(place, scores)
