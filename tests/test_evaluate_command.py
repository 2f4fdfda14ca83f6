"""The result object, its table, and ``gradlab evaluate`` from the shell's point of view."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from senteval_folder import encode, make_senteval

from gradlab.cli.commands import cli
from gradlab.errors import GradlabError
from gradlab.evaluate import STS_TASKS, TRANSFER_TASKS, EvaluationResult, evaluate, task_names


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_senteval(tmp_path_factory.mktemp("senteval"))


@pytest.fixture(scope="module")
def result(data: Path) -> EvaluationResult:
    return evaluate(encode, data, "all", folds=3, jobs=1, name="words", pooler="sum", progress=False)


class TestNames:
    @pytest.mark.parametrize(
        ("given", "expected"),
        [
            ("sst2, stsb sts12", ["STS12", "STS-B", "SST-2"]),
            (["STSBenchmark", "SICKRelatedness"], ["STS-B", "SICK-R"]),
            ("MRPC sts MRPC", [*STS_TASKS, "MRPC"]),
        ],
    )
    def test_spellings_and_order(self, given: Any, expected: list[str]) -> None:
        assert task_names(given) == expected

    def test_unknown(self) -> None:
        with pytest.raises(GradlabError, match=r"unknown task 'STS11'.*Did you mean 'sts1"):
            task_names("STS11")
        with pytest.raises(GradlabError, match="no task named"):
            task_names([])


class TestResult:
    def test_averages(self, result: EvaluationResult) -> None:
        sts = [result.scores[task]["all"] for task in STS_TASKS]
        accuracies = [result.scores[task]["acc"] for task in TRANSFER_TASKS]
        assert result.averages == pytest.approx({"sts": np.mean(sts), "transfer": np.mean(accuracies)})

    def test_table_prints_every_number_and_every_setting(self, result: EvaluationResult) -> None:
        table = result.table()
        lines = table.split("\n")
        assert "Model words, pooler sum, test split" in lines[0]
        assert "aggregation 'all'" in table
        assert "scikit-learn" in table
        assert "3 folds, seed 1111" in table
        rows = {line.split()[0]: line.split()[1:] for line in lines if line.strip()}
        assert rows["STS12"] == [*STS_TASKS[1:], "Avg."]
        expected = [*result.sts.values(), result.averages["sts"]]
        assert rows["Spearman"] == [f"{100 * value:.2f}" for value in expected]
        for score in ("acc", "devacc"):
            values = [*result.transfer(score).values(), np.mean(list(result.transfer(score).values()))]
            assert rows[score] == [f"{100 * value:.2f}" for value in values]
        assert str(result) == table

    def test_markdown_and_latex(self, result: EvaluationResult) -> None:
        cell = f"{100 * result.sts['STS-B']:.2f}"
        assert f"| {cell} |" in result.table("markdown").replace("  ", " ")
        assert f"& {cell} &" in result.table("latex")
        with pytest.raises(GradlabError, match=r"unknown table style 'tex'"):
            result.table("tex")

    def test_json_holds_everything(self, result: EvaluationResult, tmp_path: Path) -> None:
        content = json.loads(result.save(tmp_path / "new" / "result.json").read_text(encoding="utf-8"))
        assert content["scores"] == result.scores
        assert content["averages"] == result.averages
        assert (content["model"], content["pooler"], content["split"]) == ("words", "sum", "test")
        assert (content["aggregation"], content["folds"], content["seed"]) == ("all", 3, 1111)
        assert "numpy" in content["versions"]

    def test_an_interruption_loses_no_finished_task(self, data: Path, tmp_path: Path) -> None:
        last = {text for part in ("pos", "neg") for text in _lines(data / "CR" / f"custrev.{part}")}

        def interrupted(sentences: list[str]) -> Any:
            if last & set(sentences):
                raise KeyboardInterrupt
            return encode(sentences)

        options: dict[str, Any] = {
            "folds": 2,
            "jobs": 1,
            "output": tmp_path / "result.json",
            "progress": False,
        }
        with pytest.raises(KeyboardInterrupt):
            evaluate(interrupted, data, "STS-B MR CR", **options)
        kept = json.loads((tmp_path / "result.json").read_text(encoding="utf-8"))["scores"]
        whole = evaluate(encode, data, "STS-B MR CR", **options).scores
        assert kept == {task: whole[task] for task in ("STS-B", "MR")}

    def test_collapsed_encoder_shows_no_number(self, data: Path) -> None:
        collapsed = evaluate(lambda s: np.ones((len(s), 2)), data, "STS-B", progress=False)
        assert math.isnan(collapsed.sts["STS-B"])
        assert collapsed.table().split("\n")[-1].split() == ["Spearman", "-", "-"]
        assert json.loads(collapsed.to_json())["scores"]["STS-B"]["all"] is None


def _lines(file: Path) -> list[str]:
    return [line for line in file.read_text(encoding="latin-1").split("\n") if len(line.split()) > 4]


class TestMissingSets:
    def test_what_is_there_is_evaluated(self, data: Path, tmp_path: Path) -> None:
        folder = tmp_path / "partial"
        for part in ("STS/STSBenchmark", "STS/STS12-en-test", "STS/STS13-en-test", "CR"):
            shutil.copytree(data / part, folder / part)
        (folder / "STS/STS12-en-test/STS.gs.MSRvid.txt").unlink()
        result = evaluate(encode, folder, "all", folds=2, jobs=1, progress=False)
        assert set(result.scores) == {"STS13", "STS-B", "CR"}
        assert set(result.not_evaluated) == {*STS_TASKS, *TRANSFER_TASKS} - set(result.scores)
        assert "STS.gs.MSRvid.txt is absent" in result.not_evaluated["STS12"]
        table = result.table()
        assert "Avg. of 2" in table
        assert f"MRPC: {result.not_evaluated['MRPC']}" in table
        assert json.loads(result.to_json())["not_evaluated"] == result.not_evaluated

    def test_nothing_there(self, data: Path, tmp_path: Path) -> None:
        shutil.copytree(data / "CR", tmp_path / "CR")
        with pytest.raises(GradlabError, match=r"nothing to evaluate in .*STS-B: .*sts-test.csv is absent"):
            evaluate(encode, tmp_path, "STS-B", progress=False)

    def test_years_have_no_dev_split(self, data: Path) -> None:
        result = evaluate(encode, data, "sts", split="dev", progress=False)
        assert set(result.sts) == {"STS-B", "SICK-R"}
        assert result.not_evaluated["STS14"] == "has no dev split"
        assert "dev split" in result.table()

    def test_not_a_senteval_folder(self, tmp_path: Path) -> None:
        with pytest.raises(GradlabError, match="holds no task in SentEval's layout"):
            evaluate(encode, tmp_path, progress=False)
        with pytest.raises(GradlabError, match="no folder"):
            evaluate(encode, tmp_path / "absent", progress=False)

    @pytest.mark.parametrize("bad", [{"split": "train"}, {"aggregation": "mena"}, {"classifier": "svm"}])
    def test_unknown_choices(self, data: Path, bad: dict[str, str]) -> None:
        with pytest.raises(GradlabError, match=f"unknown {next(iter(bad))}"):
            evaluate(encode, data, progress=False, **bad)


def test_text_in_the_data_is_never_executed(tmp_path: Path) -> None:
    """Sentences that look like code, paths or formats go to the encoder as they are."""
    folder = make_senteval(tmp_path)
    trap = "__import__('os').abort() {0} %s $(exit 1) ../../etc"
    (folder / "CR/custrev.pos").write_text(f"{trap}\n" * 5)
    (folder / "CR/custrev.neg").write_text("fine\n" * 5)
    seen: set[str] = set()
    evaluate(lambda s: (seen.update(s), encode(s))[1], folder, "CR", folds=2, jobs=1, progress=False)
    assert seen == {trap, "fine"}


class TestCommand:
    def run(self, *arguments: object) -> Any:
        return CliRunner().invoke(cli, ["evaluate", *map(str, arguments)])

    def test_evaluates_a_model_folder(self, bert: Path, data: Path, tmp_path: Path) -> None:
        from gradlab.encoder.model import Encoder

        output = tmp_path / "result.json"
        options = ["--pooler", "mean", "--folds", 2, "--jobs", 1, "--output", output]
        run = self.run("--model", bert, "--data", data, "--tasks", "STS13", "stsb", "CR", *options)
        assert run.exit_code == 0, run.output
        expected = evaluate(
            Encoder.load(bert, "mean"),
            data,
            "STS13 STS-B CR",
            folds=2,
            jobs=1,
            name=str(bert),
            progress=False,
        )
        assert run.stdout == f"{expected.table()}\n\nWrote {output}\n"
        assert "pooler mean" in run.stdout
        assert json.loads(output.read_text(encoding="utf-8")) == expected.to_dict()
