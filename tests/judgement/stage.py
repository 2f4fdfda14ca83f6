"""What a case is played on: made-up texts, tiny encoders, trainers, and calls of gradlab's tools.

Each call of a tool keeps its measurements in `Stage.frozen` and its verdicts in `Stage.said`.
"""

from __future__ import annotations

import contextlib
import io
import random
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch

import gradlab
from gradlab.monitor.doctor_problems import note_problems
from tests.judgement import freeze
from tests.judgement.freeze import Said
from tests.tiny_models import WORDS, make_bert

STEPS, INTERVAL, BATCH = 40, 2, 16
# Words by the part that they play in a made-up fact.
VERBS, TOPICS, PLACES, PEOPLE, FILLERS = (
    WORDS[:40], WORDS[40:100], WORDS[100:160], WORDS[160:200], WORDS[200:],
)  # fmt: skip


def facts(count: int, seed: int = 0) -> list[tuple[str, ...]]:
    """Different facts: verb, thing, two words of a place, person and a number."""
    draw, answers = random.Random(seed), {}
    while len(answers) < count:
        fact = (draw.choice(VERBS), draw.choice(TOPICS), draw.choice(PLACES), draw.choice(PLACES))
        answers.setdefault(fact, (draw.choice(PEOPLE), str(draw.randint(3, 97))))
    return [(*fact, *answer) for fact, answer in answers.items()]


def question(fact: tuple[str, ...]) -> str:
    verb, topic, place, near, *_ = fact
    return f"ka {verb} {topic} {place} {near} ?"


def passage(fact: tuple[str, ...], fillers: int = 2) -> str:
    verb, topic, place, near, person, number = fact
    draw = random.Random(" ".join(fact))
    filling = " ".join(draw.choices(FILLERS, k=fillers))
    return f"{place} {near} {person} {verb} {topic} {number} {filling} ."


def lookalike(fact: tuple[str, ...]) -> str:
    """A passage of the same place about something else."""
    draw = random.Random(" ".join(fact) + "!")
    return passage((draw.choice(VERBS), draw.choice(TOPICS), *fact[2:]))


def pairs(count: int = 160, seed: int = 0) -> dict[str, list[str]]:
    """Questions and the passages that answer them."""
    facts_of_pairs = facts(count, seed)
    return {
        "anchor": list(map(question, facts_of_pairs)),
        "positive": list(map(passage, facts_of_pairs)),
    }


def triplets(count: int = 160, seed: int = 0) -> dict[str, list[str]]:
    """Pairs with a hard negative each."""
    return pairs(count, seed) | {"negative": list(map(lookalike, facts(count, seed)))}


def scored(count: int = 160, seed: int = 0, most: float = 1.0) -> dict[str, list[Any]]:
    """Pairs of texts with scores from 0 to ``most`` by their share of common words."""
    draw, table = random.Random(seed), {"sentence1": [], "sentence2": [], "score": []}
    for fact in facts(count, seed):
        words = passage(fact).split()
        common = draw.randint(0, len(words))
        second_words = words[:common] + draw.choices(FILLERS, k=len(words) - common)
        table["sentence1"].append(" ".join(words))
        table["sentence2"].append(" ".join(second_words))
        table["score"].append(most * common / len(words))
    return table


def rated(
    others: Sequence[tuple[str, ...]] | None = None,
) -> tuple[list[str], list[str], list[int]]:
    """Questions and passages: every other one answers its question (1) or tells of another (0)."""
    answered, others = facts(160), facts(160, seed=5) if others is None else others
    seconds = [passage((answered if at % 2 else others)[at]) for at in range(160)]
    return list(map(question, answered)), seconds, [at % 2 for at in range(160)]


def word_cosines(table: Mapping[str, Sequence[str]]) -> list[list[float]]:
    """Cosines of the sets of words of the first column with each other column's, row by row."""
    columns = [[set(text.split()) for text in texts] for texts in table.values()]
    return [
        [len(row[0] & other) / (len(row[0]) * len(other)) ** 0.5 for other in row[1:]]
        for row in zip(*columns, strict=True)
    ]


def classes(count: int = 160, of_each: int = 8, seed: int = 0) -> dict[str, list[Any]]:
    """Texts with their class: texts of a class are about the same thing at the same place."""
    table: dict[str, list[Any]] = {"text": [], "label": []}
    for label, fact in enumerate(facts(count // of_each, seed)):
        for number in range(of_each):
            table["text"].append(passage((*fact[:4], PEOPLE[number], str(number + 3))))
            table["label"].append(label)
    order = random.Random(seed).sample(range(count), count)
    return {name: [cells[at] for at in order] for name, cells in table.items()}


class Stage:
    """A folder with a tiny encoder, on which one case is played; ``tools`` asked, or all."""

    def __init__(self, folder: Path, tools: Sequence[str] = ()) -> None:
        self.folder, self.said, self.frozen = folder, list[Said](), dict[str, Any]()
        self._tools = tools

    def model(
        self, pooling: str = "mean", *, dropout: float = 0.1, normalize: bool = False,
        length: int | None = None, bert: Path | None = None,
    ) -> Any:  # fmt: skip
        """A fresh encoder of sentence-transformers, seeded."""
        from sentence_transformers import SentenceTransformer
        from sentence_transformers.sentence_transformer.modules import (
            Normalize,
            Pooling,
            Transformer,
        )

        bert = bert or make_bert(self.folder / f"bert-{dropout}", dropout=dropout)
        torch.manual_seed(7)
        body = Transformer(str(bert), **({"max_seq_length": length} if length else {}))
        modules = [body, Pooling(32, pooling_mode=pooling), *([Normalize()] if normalize else [])]
        return SentenceTransformer(modules=modules, device="cpu")

    def trainer(
        self, loss: Callable[[Any], Any], table: Mapping[str, Any], model: Any = None, *,
        kind: Any = None, **arguments: Any,
    ) -> Any:  # fmt: skip
        """A trainer of sentence-transformers; arguments of the trainer itself are told apart."""
        from datasets import Dataset
        from sentence_transformers import (
            SentenceTransformerTrainer,
            SentenceTransformerTrainingArguments,
        )

        own = ("callbacks", "evaluator", "eval_dataset", "optimizers")
        of_trainer = {name: arguments.pop(name) for name in own if name in arguments}
        model = self.model() if model is None else model
        settings = {
            "output_dir": str(self.folder / "run"),
            "max_steps": STEPS,
            "per_device_train_batch_size": BATCH,
            "learning_rate": 5e-4,
            "optim": "adamw_torch",
            "lr_scheduler_type": "linear",
            "warmup_steps": 4,
            "seed": 7,
            "use_cpu": True,
            "report_to": "none",
            "save_strategy": "no",
            "logging_steps": 5,
            "disable_tqdm": True,
        }
        return (kind or SentenceTransformerTrainer)(
            model=model,
            args=SentenceTransformerTrainingArguments(**{**settings, **arguments}),
            train_dataset=Dataset.from_dict(dict(table)),
            loss=loss(model),
            **of_trainer,
        )

    def play(self, trainer: Any, **options: Any) -> None:
        """Ask the doctor about a trainer, train it under watch, and judge the run."""
        self.doctor(trainer, views=options.get("views"))
        self.train(trainer, **options)

    def doctor(self, trainer: Any, views: Any = None, processes: int = 0) -> None:
        """Ask the doctor about a trainer."""
        if self._tools and "doctor" not in self._tools:
            return
        with _quiet():
            try:
                diagnosis = gradlab.doctor(
                    trainer, views=views, processes=processes, progress=False
                )
            except Exception as error:  # a crash counts as a refusal
                self._refuse("doctor", error)
                return
        said = freeze.judged_doctor(diagnosis.measurements)
        self._keep("doctor", freeze.measured_doctor(diagnosis), said)

    def train(
        self, trainer: Any, *, every: int = INTERVAL, views: Any = None, loss: Any = None,
        fails: bool = False,
    ) -> None:  # fmt: skip
        """Train under watch and judge the run; with ``fails`` training may end with an error."""
        if self._tools and "report" not in self._tools:
            return
        note_problems(trainer, ())  # so that the report speaks of what it has seen itself
        with _quiet():
            try:
                watch = gradlab.watch(trainer, every=every, views=views, loss=loss)
            except gradlab.GradlabError as error:
                self._refuse("report", error)
                return
            try:
                trainer.train()
            except Exception as error:
                if not fails:
                    raise
                sys.last_value = error
                watch._exit()  # as where a script ends with it
                del sys.last_value
        self.run(Path(trainer.args.output_dir) / "gradlab")

    def run(self, folder: Path) -> None:
        """Judge a recorded run."""
        if self._tools and "report" not in self._tools:
            return
        if (folder / "metrics.csv").exists():
            self._keep("report", freeze.measured_run(folder), freeze.said_of_run(folder))

    def loop(
        self, criterion: Any, parameters: Any, step: Callable[[], Any], *, steps: int = 80
    ) -> None:
        """Train a loop of one's own with a watched criterion; ``step`` returns the loss."""
        if self._tools and "report" not in self._tools:
            return
        optimizer = parameters
        if not isinstance(parameters, torch.optim.Optimizer):
            optimizer = torch.optim.Adam(parameters, lr=0.003)
        with _quiet():
            for _ in range(steps):
                value = step()
                optimizer.zero_grad()
                value.backward()
                optimizer.step()
            criterion.finish()
        self.run(self.folder / "loop")

    def inspect(self, table: Mapping[str, Any], model: Any = None, **options: Any) -> None:
        """Inspect columns of texts: anchors, positives and hard negatives."""
        if self._tools and "inspect" not in self._tools:
            return
        columns = list(table.values())
        try:
            with _quiet():
                inspection = gradlab.inspect(
                    str(make_bert(self.folder / "inspected")) if model is None else model,
                    columns[0],
                    positives=columns[1] if len(columns) > 1 else None,
                    hard_negatives=columns[2] if len(columns) > 2 else None,
                    batch_size=BATCH,
                    **options,
                )
        except gradlab.GradlabError as error:
            self._refuse("inspect", error)
            return
        measured = freeze.measured_inspection(inspection)
        self._keep("inspect", measured, freeze.said_by_inspection(inspection.advice))

    def audit(self, loss: Any, **options: Any) -> None:
        """Audit a loss on two processes."""
        if self._tools and "audit" not in self._tools:
            return
        from gradlab.scale.audit import auditing
        from tests.processes import forking

        context = forking()  # of processes that need not import everything first
        with mock.patch.object(auditing.multiprocessing, "get_context", return_value=context):
            audit = gradlab.audit(loss, processes=2, **options)
        self._keep("audit", freeze.measured_audit(audit), freeze.said_by_audit(audit))

    def keep(self, tool: str, measured: Any) -> None:
        """Keep measurements that a case has made itself."""
        self._keep(tool, measured, freeze.judged({tool: measured}))

    def _refuse(self, tool: str, error: Exception) -> None:
        self._keep(tool, {"error": str(error)}, freeze.said_by_error(tool, str(error)))

    def _keep(self, tool: str, measured: Any, said: list[Said]) -> None:
        self.frozen[tool] = measured
        self.said += said


@contextlib.contextmanager
def _quiet() -> Any:
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        with contextlib.redirect_stdout(io.StringIO()):
            yield


def seeded() -> None:
    """Let a case draw the same numbers whenever it is played, and print nothing."""
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002  # libraries draw from it
    torch.manual_seed(0)
