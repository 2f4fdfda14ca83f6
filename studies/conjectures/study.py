"""The whole study: a sweep over conditions and seeds, and the report on what it found."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gradlab import GradlabError
from gradlab.data import check_file, hash_file
from gradlab.encoder import Encoder
from gradlab.evaluate import load_stsb_dev
from gradlab.files import read_object, versions, write_json
from gradlab.progress_bars import waiting
from gradlab.sweep import (
    ENDED,
    FAILED,
    Budget,
    Run,
    Spec,
    check_evaluation,
    configure,
    encode_of,
    estimate_cost,
    known_runs,
    run_sweep,
)
from gradlab.train import TrainConfig, device_name, find_device, say
from studies.conjectures.conditions import (
    EXTENDABLE,
    SECTIONS_OF,
    StudySettings,
    check_sections,
    sweep_of,
)
from studies.conjectures.report import write_report
from studies.conjectures.results import UNTUNED, read_untuned

STUDY = "study.json"
# The row that papers call BERT without fine-tuning, beside the pooler that the runs train.
UNTRAINED_POOLER = "first_last"
PACKAGES = (
    "torch", "transformers", "numpy", "scipy", "pandas", "tokenizers", "scikit-learn", "matplotlib",
)  # fmt: skip


@dataclass(frozen=True)
class Study:
    """A study and its folder, which is that of its sweep; ``description`` is for the manifest."""

    folder: Path
    settings: StudySettings
    sections: tuple[str, ...]
    spec: Spec
    jobs: int
    description: dict[str, Any]

    @classmethod
    def open(
        cls,
        model: str,
        train_file: Path,
        eval_data: Path,
        output: Path,
        settings: StudySettings,
        *,
        sections: Iterable[str] | None = None,
        jobs: int | None = None,
        device: str = "auto",
        options: str = "",
    ) -> Study:
        """Check everything that can be wrong before the first step, and plan the runs.

        Arguments are the command's options. None of ``sections`` is all that the preset makes; None
        of ``jobs`` is one a core on a CPU (each with one thread) and one on other devices. The
        ``options`` of its size are told in the report.

        Raises:
            GradlabError: bad input, or a folder with a study of another model, of other data or
                with other settings.
        """
        chosen = check_sections(sections or SECTIONS_OF.get(settings.name))
        check_file(train_file)
        load_stsb_dev(eval_data)
        hardware = find_device(device)
        jobs = jobs or ((os.cpu_count() or 1) if hardware.type == "cpu" else 1)
        places = {"train_file": str(train_file), "eval_data": str(eval_data)}
        base = {"model": model, **places, "device": device}
        spec = sweep_of(settings, chosen, base, Encoder.load(model).dimension)
        spec.check()
        check_evaluation(spec)
        description = _description(model, train_file, settings, options, hardware, jobs)
        _check_same(output, description)
        return cls(output, settings, chosen, spec, jobs, description)

    def runs(self) -> list[Run]:
        """Its runs and their states."""
        return known_runs(self.spec, self.folder)

    def budget(self) -> Budget:
        """What is still to do; a short trial estimates the time."""
        return estimate_cost(self.runs(), self.jobs)

    def run(self) -> None:
        """Make the runs that are left, and score the encoder as it was before.

        Raises:
            GradlabError: for runs that failed, the others being made.
            KeyboardInterrupt: when interrupted; the runs under way have written checkpoints.
        """
        write_json(self.folder / STUDY, self.description)
        left = sum(run.state not in ENDED or run.state == FAILED for run in self.runs())
        runs = run_sweep(
            self.spec, self.folder, say, workers=min(self.jobs, left), retry_failed=True
        )
        failed = [run for run in runs if run.state == FAILED]
        if failed:
            suffix = f" (and {len(failed) - 1} more runs failed)" if len(failed) > 1 else ""
            raise GradlabError(f"run {failed[0].title()}: {failed[0].error}{suffix}")
        if "repairs" in self.sections:
            tasks = dict.fromkeys(task for point in self.spec.points({}) for task in point.evaluate)
            score_untuned(self.folder / UNTUNED, configure(self.spec.base), ("stsb_dev", *tasks))

    def report(self) -> Path:
        """Write the report on what is finished, and return its folder."""
        return write_report(
            self.folder, self.sections, self.runs(), self.settings, self.description
        )


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


def _description(
    model: str, train_file: Path, settings: StudySettings, options: str, device: Any, jobs: int
) -> dict[str, Any]:
    """What a study says of itself; in its command folders are left for the reader to fill in."""
    name = Path(model).name if Path(model).is_dir() else model
    data = {"file": train_file.name, "sha256": hash_file(train_file)}
    inputs = f"--model {name} --train-file {data['file']}"
    places = "--eval-data SentEval/data/downstream --output study"
    machine = {"type": device.type, "name": device_name(device), "cores": os.cpu_count()}
    return {
        "model": name,
        "data": data,
        "evaluation": "SentEval data/downstream",
        "settings": asdict(settings),
        "device": {**machine, "jobs": jobs},
        "versions": versions(*PACKAGES),
        "command": f"python -m studies.conjectures {inputs} {places} {options}",
    }


def _check_same(folder: Path, description: Mapping[str, Any]) -> None:
    """Raise GradlabError if the folder has another study; more runs of the same are no other."""
    path = folder / STUDY
    if not path.exists():
        return
    # What all runs of a study have in common.
    before, present = (
        {name: about.get(name) for name in ("model", "data")} | about.get("settings", {})
        for about in (read_object(path), description)
    )
    changed = [
        f"{name}: {before.get(name)!r}, not {value!r}"
        for name, value in present.items()
        if name not in EXTENDABLE and before.get(name) != value
    ]
    if changed:
        raise GradlabError(
            f"{str(folder)!r} holds another study ({'; '.join(changed)}); choose another --output"
        )
