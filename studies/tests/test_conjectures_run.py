"""python -m studies.conjectures on a tiny encoder: what it runs and what it writes.

An interruption changes nothing.
"""

from __future__ import annotations

import functools
import json
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from gradlab import GradlabError
from gradlab.cli import main
from gradlab.errors import Diverged
from gradlab.evaluate import evaluate
from gradlab.sweep import Budget, read_spec, run_sweep
from studies.conjectures import Study, StudySettings, views
from studies.conjectures.__main__ import command
from studies.conjectures.conditions import PRESETS
from studies.conjectures.figures import FIGURES, read_tables
from tests.senteval_folder import make_senteval
from tests.tiny_models import make_bert
from tests.train_helpers import write_sentences

SMALL = {
    "steps": 4, "batch_size": 8, "max_length": 12, "precision": "float32", "held_out": 0.2,
    "eval_every": 2, "watch_every": 2, "analysis_batches": 2, "analysis_batch": 16,
    "learning_rate": 1e-3, "sweep_seeds": 0, "variant_seeds": 0, "transfer_seeds": 0,
}  # fmt: skip


@pytest.fixture(scope="module")
def inputs(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("inputs")
    return {
        "model": make_bert(folder / "bert"),
        "train_file": write_sentences(folder),
        "eval_data": make_senteval(folder / "senteval", labelled=20),
    }


def settings(**changes) -> StudySettings:
    return StudySettings.preset("light", **{**SMALL, **changes})


def study(inputs, output: Path, sections, jobs: int = 1, **changes) -> Path:
    opened = Study.open(
        str(inputs["model"]), inputs["train_file"], inputs["eval_data"], output,
        settings(**changes), sections=sections, jobs=jobs, device="cpu",
    )  # fmt: skip
    opened.run()
    return opened.report()


@pytest.fixture(scope="module")
def whole(inputs, tmp_path_factory) -> Iterator[Path]:
    """All parts: one value beside the baseline's of m, τ and r, and a loss or two of each kind."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("studies.conjectures.conditions.CONTRASTIVE", ("infonce",))
        patch.setattr(
            "studies.conjectures.conditions.REPAIRS",
            {"mhe": "modified_mhe", "vicreg": "modified_vicreg"},
        )
        patch.setenv("GRADLAB_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "cache"))
        yield study(
            inputs, tmp_path_factory.mktemp("whole") / "study", None,
            seeds=2, sweep_seeds=1, variant_seeds=1,
            margins=(0.3, 1.0), temperatures=(0.05, 0.3), ratios=(0.5, 2.0),
        )  # fmt: skip


@pytest.fixture(autouse=True)
def _without_trial_and_pictures(whole: Path, monkeypatch) -> None:
    """Skip trial steps and drawing, which take longer than trainings; the whole study has both."""
    monkeypatch.setattr("studies.conjectures.study.estimate_cost", _without_trial)
    monkeypatch.setattr("studies.conjectures.report.FIGURES", {})


def _without_trial(runs, workers: int) -> Budget:
    finished = sum(run.state == "finished" for run in runs)
    left = SMALL["steps"] * (len(runs) - finished)
    return Budget(len(runs), finished, left, tested=0, seconds=1.0, workers=workers, device="cpu")


def tables_of(report: Path) -> dict[str, str]:
    """CSV files as text, without the time that the runs took."""
    texts = {path.name: path.read_text() for path in report.glob("*.csv")}
    texts["runs.csv"] = pd.read_csv(report / "runs.csv").drop(columns="seconds").to_csv()
    return texts


class TestWhole:
    def test_everything_is_there(self, whole: Path) -> None:
        assert {path.stem for path in whole.glob("*.png")} == set(FIGURES)
        text = (whole / "report.md").read_text()
        for path in [*whole.glob("*.csv"), *whole.glob("*.png")]:
            assert path.name in text, path.name
        manifest = json.loads((whole / "manifest.json").read_text())
        # 9 headline conditions with 2 seeds, 4 sweep runs, 3 runs with 2r.
        assert (manifest["runs"], manifest["finished"]) == (25, 25)
        assert len(read_tables(whole)["runs"]) == 25

    def test_plain_verdicts_say_what_the_claims_say(self, whole: Path) -> None:
        text = (whole / "verdicts.md").read_text()
        tables = read_tables(whole)
        assert set(tables["verdicts"].verdict) == {"not judged"}  # two seeds of four steps
        for row in tables["verdicts"].itertuples():
            section = text.partition(f"## {row.conjecture}. ")[2].partition("\n## ")[0]
            assert "**Not judged.**" in section
            claims = tables["claims"]
            own = claims[(claims.conjecture == row.conjecture) & (claims.role == "conjecture")]
            for claim in own.itertuples():
                (line,) = (
                    line for line in section.splitlines() if line.startswith(f"| {claim.claim} |")
                )
                assert f"| {claim.verdict} (" in line
        assert "32 sentences, the paper's a million" in text  # 4 steps of 8

    def test_no_path_of_this_machine(self, whole: Path, inputs) -> None:
        for path in whole.glob("*"):
            if path.suffix != ".png":
                assert str(inputs["model"].parent) not in path.read_text(), path.name
                assert str(whole.parent) not in path.read_text(), path.name

    def test_claims_follow_from_the_tables(self, whole: Path) -> None:
        tables = read_tables(whole)
        angles = tables["conjecture1-angles"].pivot(index="seed", columns="condition", values="gap")
        gap = (angles["no dissipation"] - angles["baseline"]).mean()
        claims = tables["claims"]
        degrees = claims[claims.conjecture == 1]["mean"].iloc[0]
        assert degrees == pytest.approx(np.degrees(gap), abs=1e-3)
        scores = tables["runs"].pivot(index="seed", columns="condition", values="stsb_dev")
        gain = (scores["modified_mhe"] - scores["mhe"]).mean()
        gains = tables["repairs-gains"].set_index(["first", "metric", "interval"])["mean"]
        assert gains["modified_mhe", "stsb_dev", "over seeds"] == pytest.approx(gain, abs=1e-5)

    def test_called_again_it_trains_nothing(self, whole: Path, inputs, monkeypatch) -> None:
        before = tables_of(whole)
        monkeypatch.setattr("gradlab.train.train", None)
        second_report = study(
            inputs, whole.parent, None, seeds=2, sweep_seeds=1, variant_seeds=1,
            margins=(0.3, 1.0), temperatures=(0.05, 0.3), ratios=(0.5, 2.0),
        )  # fmt: skip
        assert tables_of(second_report) == before


def test_interrupted_and_resumed_gives_the_same_tables(inputs, tmp_path, monkeypatch) -> None:
    expected = tables_of(study(inputs, tmp_path / "straight", ["conjecture1"], seeds=2))
    on_step, calls = views.Observer.on_step, []

    def interrupted(self, trainer, output):
        on_step(self, trainer, output)
        calls.append(trainer.step)
        if len(calls) == 7:  # the third step of the second run
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(views.Observer, "on_step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        study(inputs, tmp_path / "broken", ["conjecture1"], seeds=2)
    monkeypatch.setattr(views.Observer, "on_step", on_step)
    assert tables_of(study(inputs, tmp_path / "broken", ["conjecture1"], seeds=2)) == expected
    assert calls == [1, 2, 3, 4, 1, 2, 3]


def test_a_failed_run_is_told_and_made_by_the_next_call(inputs, tmp_path, monkeypatch) -> None:
    on_step = views.Observer.on_step

    def fail(self, trainer, output):
        raise GradlabError("the disk is full")

    monkeypatch.setattr(views.Observer, "on_step", fail)
    with pytest.raises(GradlabError, match=r"^run baseline, seed 0: the disk is full$"):
        study(inputs, tmp_path / "study", ["assumptions"], seeds=1)
    monkeypatch.setattr(views.Observer, "on_step", on_step)
    report = study(inputs, tmp_path / "study", ["assumptions"], seeds=1)
    assert len(read_tables(report)["runs"]) == 1


def test_a_study_is_a_sweep(inputs, tmp_path, monkeypatch) -> None:
    """Its specification is a file that `gradlab sweep` takes, and finds nothing left of."""
    folder = tmp_path / "study"
    expected = tables_of(study(inputs, folder, ["assumptions"], seeds=2))
    spec = read_spec(folder / "sweep.json")
    opened = Study.open(
        str(inputs["model"]), inputs["train_file"], inputs["eval_data"], folder, settings(seeds=2),
        sections=["assumptions"], device="cpu",
    )  # fmt: skip
    assert spec == opened.spec
    monkeypatch.setattr("gradlab.train.train", None)
    runs = run_sweep(spec, folder, print)
    assert [run.state for run in runs] == ["finished"] * 2
    assert tables_of(opened.report()) == expected


def test_a_diverged_run_is_a_result(inputs, tmp_path, monkeypatch) -> None:
    def diverge(self, trainer, output):
        if trainer.config.loss_settings["margin"] == 3.0:
            raise Diverged("the loss is nan at step 1")

    monkeypatch.setattr(views.Observer, "on_step", diverge)
    report = study(inputs, tmp_path / "study", ["conjecture1"], seeds=1)
    runs = read_tables(report)["runs"].set_index("condition")
    assert runs.diverged["no dissipation"] == "the loss is nan at step 1"
    assert "conjecture1-angles" not in read_tables(report)


def test_transfer_scores_and_then_clears_up(inputs, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("studies.conjectures.conditions.CONTRASTIVE", ("infonce",))
    monkeypatch.setattr("studies.conjectures.conditions.REPAIRS", {})
    monkeypatch.setattr("gradlab.evaluate.evaluate", functools.partial(evaluate, folds=3))
    report = study(inputs, tmp_path / "study", ["repairs"], seeds=2, transfer_seeds=1)
    runs = read_tables(report)["runs"].set_index("seed")
    assert 0 < runs.transfer_average[0] <= 1
    assert pd.isna(runs.transfer_average[1])
    table = read_tables(report)["repairs"].set_index("condition")
    assert table.transfer_average_count["infonce"] == 1
    assert 0 < table.transfer_average_mean["untuned, first_last"] <= 1
    assert not list(tmp_path.rglob("*.safetensors"))


def test_scores_that_are_asked_for_later_are_made(inputs, tmp_path, monkeypatch) -> None:
    """Weights are not kept, so the runs that lack them are made again, and are the same."""
    monkeypatch.setattr("studies.conjectures.conditions.CONTRASTIVE", ("infonce",))
    monkeypatch.setattr("studies.conjectures.conditions.REPAIRS", {})
    folder, sections = tmp_path / "study", ["repairs"]
    before = read_tables(study(inputs, folder, sections, seeds=2, sts_seeds=1))["runs"]
    larger = settings(seeds=2, sts_seeds=2)
    opened = Study.open(
        str(inputs["model"]),
        inputs["train_file"],
        inputs["eval_data"],
        folder,
        larger,
        sections=sections,
    )
    assert (opened.budget().runs, opened.budget().ended) == (2, 1)
    after = read_tables(study(inputs, folder, sections, seeds=2, sts_seeds=2))["runs"]
    assert after.sts_average.notna().sum() == before.sts_average.notna().sum() + 1
    scores = [table.set_index(["condition", "seed"]).stsb_dev for table in (before, after)]
    pd.testing.assert_series_equal(*scores, check_like=True)


class TestBadInput:
    def test_what_the_scores_need_is_there_before_the_first_step(self, inputs, tmp_path) -> None:
        sts = tmp_path / "senteval"
        shutil.copytree(inputs["eval_data"], sts)
        shutil.rmtree(sts / "MR")
        study = {"output": tmp_path / "study", "sections": ["repairs"]}
        arguments = str(inputs["model"]), inputs["train_file"], sts
        Study.open(*arguments, settings=settings(transfer_seeds=0), **study)
        with pytest.raises(GradlabError, match="MR cannot be evaluated"):
            Study.open(*arguments, settings=settings(transfer_seeds=1), **study)
        shutil.rmtree(sts / "SICK")
        with pytest.raises(GradlabError, match="SICK-R cannot be evaluated"):
            Study.open(*arguments, settings=settings(transfer_seeds=0), **study)
        Study.open(*arguments, settings=settings(), **{**study, "sections": ["assumptions"]})

    def test_other_settings_or_data_in_the_folder(self, inputs, tmp_path) -> None:
        study(inputs, tmp_path / "study", ["assumptions"], seeds=1)
        with pytest.raises(
            GradlabError, match=r"another study \(learning_rate.*choose another --output"
        ):
            study(inputs, tmp_path / "study", ["assumptions"], seeds=1, learning_rate=1e-4)
        with pytest.raises(GradlabError, match=r"another study \(watch_every: 2, not 1"):
            study(inputs, tmp_path / "study", ["assumptions"], seeds=1, watch_every=1)
        shorter = tmp_path / "sentences.txt"
        shorter.write_text("a\n" * 100)
        with pytest.raises(GradlabError, match=r"another study \(data: "):
            study({**inputs, "train_file": shorter}, tmp_path / "study", ["assumptions"])

    def test_an_error_names_the_run(self, inputs, tmp_path) -> None:
        few = tmp_path / "few.txt"
        few.write_text("one\ntwo\nthree\nfour\n")
        with pytest.raises(GradlabError, match=r"\(baseline\): 2 training sentences do not fill"):
            study({**inputs, "train_file": few}, tmp_path / "s", ["assumptions"], held_out=0.5)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["--only", "conjecture9"], "unknown part 'conjecture9'"),
            (["--margins", "0.3,big"], "margins must be a list"),
            (["--train-file", "nowhere.txt"], "does not exist"),
            (["--eval-data", "nowhere"], "nowhere"),
            (["--model", "tests"], "tests"),
            (["--pooler", "maximum"], "pooler must be one of"),
            (["--device", "abacus"], "unknown device"),
        ],
    )
    def test_at_the_shell(self, inputs, tmp_path, monkeypatch, capsys, arguments, message) -> None:
        monkeypatch.chdir(tmp_path)
        (tmp_path / "tests").mkdir()  # a folder that holds no model
        code, _, err = shell(monkeypatch, capsys, inputs, tmp_path / "study", *arguments)
        assert code == 2
        assert message in err
        assert len(err.strip().splitlines()) == 1
        assert not (tmp_path / "study").exists()


def shell(monkeypatch, capsys, inputs, output, *arguments):
    options = [f"--{name.replace('_', '-')}={value}" for name, value in inputs.items()]
    monkeypatch.setattr(
        "sys.argv", ["conjectures", *options, f"--output={output}", *map(str, arguments)]
    )
    with pytest.raises(SystemExit) as caught:
        main(command)
    out, err = capsys.readouterr()
    return caught.value.code or 0, out, err


def test_dry_run_prints_the_budget_and_writes_nothing(
    inputs, tmp_path, monkeypatch, capsys
) -> None:
    arguments = [
        "--estimate", "--steps=4", "--batch-size=8", "--max-length=12", "--seeds=3",
        "--only=conjecture1", "--sweep-seeds=2", "--margins=0.3,0.6", "--jobs=1",
    ]  # fmt: skip
    code, out, _ = shell(monkeypatch, capsys, inputs, tmp_path / "study", *arguments)
    assert code == 0
    # Baseline and no dissipation with 3 seeds, one more margin with 2.
    assert "8 runs" in out
    assert "8 to do: 32 optimiser steps, about" in out
    assert not (tmp_path / "study").exists()


def test_the_students_preset_makes_the_three_conjectures_alone(
    inputs, tmp_path, monkeypatch, capsys
) -> None:
    arguments = [
        "--preset=student", "--seeds=2", "--sweep-seeds=2", "--steps=2", "--batch-size=8",
        "--max-length=12", "--precision=float32", "--eval-every=2", "--jobs=1",
    ]  # fmt: skip
    monkeypatch.setattr(
        "studies.conjectures.conditions.PRESETS",
        {**PRESETS, "student": PRESETS["student"] | {"analysis_batch": 16, "held_out": 0.2}},
    )
    code, out, _ = shell(monkeypatch, capsys, inputs, tmp_path / "study", *arguments)
    assert code == 0
    assert "# Three conjectures, in plain words" in out
    table = read_tables(tmp_path / "study" / "report")["runs"]
    assert set(table.condition) == {"arccon", "baseline", "met", "no dissipation", "r=2"}
    assert len(table) == 10


def test_report_only_says_what_is_missing(inputs, tmp_path, monkeypatch, capsys) -> None:
    study(inputs, tmp_path / "study", ["assumptions"], seeds=1)
    names = ("steps", "batch_size", "max_length", "precision", "learning_rate", "eval_every")
    small = [f"--{name.replace('_', '-')}={SMALL[name]}" for name in names]
    code, _, err = shell(monkeypatch, capsys, inputs, tmp_path / "study", "--report-only", *small)
    assert code == 2  # the preset measures at other steps
    assert "another study" in err
    code, out, _ = shell(
        monkeypatch, capsys, inputs, tmp_path / "none", "--report-only", "--only=assumptions"
    )
    assert code == 0
    assert "5 of 5 planned runs are not in it" in out
