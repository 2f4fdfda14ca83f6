"""What doctor, report and inspect say of planted faults and sound runs; docs/watch.md sums it up.

    python tests/manual/planted_table.py [WORD ...]

Each row is a training of a tiny BERT by sentence-transformers' trainer: `gradlab.doctor` examines
it before the first step, `gradlab.watch` records it and the report judges it, and `gradlab.inspect`
looks at the texts with the encoder as it begins. The faults and the sound runs are those of
tests/test_doctor.py, and some that only a whole run or the texts can show. With words, only rows
that have one of them in their name.
"""

from __future__ import annotations

import contextlib
import io
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

import gradlab
from gradlab.monitor.run_reader import read_recording
from gradlab.monitor.verdicts import judge_run
from gradlab.verdict import BAD, WATCH
from tests import test_doctor
from tests.sentence_training import make_trainer
from tests.test_doctor import PAIRS, TRIPLETS, ranking
from tests.tiny_models import make_bert

STEPS, RECORD_EVERY = 60, 3


class Stop(TrainerCallback):
    """An error in the middle of a run."""

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step == STEPS // 2:
            raise RuntimeError("out of memory")


def near_copies(table: dict[str, list[str]]) -> dict[str, list[str]]:
    """A quarter of the rows are those before them, with the words in another order."""
    changed = {name: list(texts) for name, texts in table.items()}
    for texts in changed.values():
        for row in range(0, len(texts), 4):
            texts[row + 1] = " ".join(reversed(texts[row].split()))
    return changed


FALSE_HARD = {**TRIPLETS, "negative_1": [
    " ".join(reversed(anchor.split())) if row % 2 else hard
    for row, (anchor, hard) in enumerate(
        zip(TRIPLETS["anchor"], TRIPLETS["negative_1"], strict=True)
    )
]}  # fmt: skip
MORE_FAULTS = {
    "rows repeated with their words in another order": (
        "",
        ranking(),
        near_copies(PAIRS),
        None,
        {},
    ),
    "every other hard negative is false": ("", ranking(), FALSE_HARD, None, {}),
    "an error in the middle": ("", ranking(), PAIRS, lambda t: t.add_callback(Stop()), {}),
}


def row(
    name: str, folder: Path, loss: Any, table: Any, change: Any, arguments: dict[str, Any]
) -> list[str]:
    """The cells of a row: name, doctor, report, inspect."""
    arguments = {"max_steps": STEPS, "optim": "adamw_torch", "learning_rate": 5e-4, **arguments}
    with tempfile.TemporaryDirectory() as place:
        diagnosis = test_doctor.examine(folder, place, loss, table, change, arguments)
        levels = {
            level: [verdict.subject for verdict in diagnosis.verdicts if verdict.grade == level]
            for level in ("bad", "watch")
        }
        doctor = said(levels["bad"], levels["watch"])
        trainer = make_trainer(folder, Path(place) / "run", loss, table, **arguments)
        if change is not None:
            change(trainer)
        watch = gradlab.watch(trainer, every=RECORD_EVERY)
        try:
            trainer.train()
        except Exception as error:  # as where a script ends with it
            sys.last_value = error
            watch._exit()
        try:
            judged = judge_run(read_recording(Path(place) / "run")).verdicts
            report = said(
                *(
                    [verdict.subject for verdict in judged if verdict.grade == grade]
                    for grade in (BAD, WATCH)
                )
            )
        except gradlab.GradlabError:
            report = "nothing was recorded"
        texts = [column for key, column in table.items() if key != "label"]
        looked = gradlab.inspect(
            str(folder), texts[0], positives=texts[1] if len(texts) > 1 else None,
            hard_negatives=texts[2] if len(texts) > 2 else None, batch_size=16,
        )  # fmt: skip
        # What it says of the temperature is of the encoder, which is not trained yet.
        advice = [v for v in looked.advice if v.subject != "temperature"]
    inspected = "; ".join(
        f"**{v.change.rstrip('.').partition(':')[0]}** ({v.grade})" for v in advice if v.is_problem
    )
    return [name, doctor, report, inspected or "–"]


def said(bad: list[str], watch: list[str]) -> str:
    """What is bad in bold, then what is to be watched."""
    return (
        ", ".join(
            [
                *(f"**{subject.lower()}**" for subject in bad),
                *(subject.lower() for subject in watch),
            ]
        )
        or "–"
    )


def rows(words: list[str]) -> Iterator[list[str]]:
    """A heading, and the rows below it."""
    with tempfile.TemporaryDirectory() as place:
        folder = make_bert(Path(place) / "bert")
        faults = {
            name: set_up[1:] for name, set_up in {**test_doctor.FAULTS, **MORE_FAULTS}.items()
        }
        for heading, set_ups in (("planted", faults), ("sound", test_doctor.SOUND)):
            yield [heading, "doctor", "report", "inspect"]
            for name, set_up in set_ups.items():
                if not words or any(word in name for word in words):
                    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
                        warnings.simplefilter("ignore")
                        cells = row(name, folder, *set_up)
                    yield cells


if __name__ == "__main__":
    for cells in rows(sys.argv[1:]):
        if cells[1] == "doctor":
            print("\n| " + " | ".join(cells) + " |\n|---|---|---|---|")
        else:
            print("| " + " | ".join(cells) + " |", flush=True)
