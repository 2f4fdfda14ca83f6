"""The result object, its table, and ``gradlab evaluate`` from the shell's point of view."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from senteval_folder import encode

from gradlab.encoder.model import Encoder
from gradlab.errors import GradlabError
from gradlab.evaluate import STS_TASKS, TRANSFER_TASKS, EvaluationResult, evaluate


@pytest.fixture(scope="module")
def result(senteval: Path) -> EvaluationResult:
    return evaluate(
        encode, senteval, "all", folds=3, jobs=1, name="words", pooler="sum", progress=False
    )


def test_averages_and_tables_hold_every_number(result: EvaluationResult) -> None:
    sts = [result.scores[task]["all"] for task in STS_TASKS]
    accuracies = [result.scores[task]["acc"] for task in TRANSFER_TASKS]
    assert result.averages == pytest.approx({"sts": np.mean(sts), "transfer": np.mean(accuracies)})
    table = result.table()
    for word in ("Model words, pooler sum, test split", "aggregation 'all'", "3 folds, seed 1111"):
        assert word in table
    rows = {line.split()[0]: line.split()[1:] for line in table.split("\n") if line.strip()}
    assert rows["STS12"] == [*STS_TASKS[1:], "Avg."]
    assert rows["Spearman"] == [f"{100 * value:.2f}" for value in (*sts, np.mean(sts))]
    for score in ("acc", "devacc"):
        values = [*result.transfer(score).values(), np.mean(list(result.transfer(score).values()))]
        assert rows[score] == [f"{100 * value:.2f}" for value in values]
    cell = f"{100 * result.sts['STS-B']:.2f}"
    assert f"| {cell} |" in result.table("markdown").replace("  ", " ")
    assert f"& {cell} &" in result.table("latex")


def test_an_interruption_loses_no_finished_task(senteval: Path, tmp_path: Path) -> None:
    last = set((senteval / "CR" / "custrev.pos").read_text(encoding="latin-1").split("\n"))

    def interrupted(sentences: list[str]) -> Any:
        if {text for text in sentences if len(text.split()) > 4} & last:
            raise KeyboardInterrupt
        return encode(sentences)

    options: dict[str, Any] = {
        "folds": 2,
        "jobs": 1,
        "progress": False,
        "output": tmp_path / "result.json",
    }
    with pytest.raises(KeyboardInterrupt):
        evaluate(interrupted, senteval, "STS-B MR CR", **options)
    finished = json.loads((tmp_path / "result.json").read_text(encoding="utf-8"))["scores"]
    whole = evaluate(encode, senteval, "STS-B MR CR", **options).scores
    assert finished == {task: whole[task] for task in ("STS-B", "MR")}


def test_collapsed_encoder_shows_no_number(senteval: Path) -> None:
    collapsed = evaluate(lambda s: np.ones((len(s), 2)), senteval, "STS-B", progress=False)
    assert math.isnan(collapsed.sts["STS-B"])
    assert collapsed.table().split("\n")[-1].split() == ["Spearman", "-", "-"]
    assert json.loads(collapsed.to_json())["scores"]["STS-B"]["all"] is None


def test_of_what_is_missing_only_that_is_left_out(senteval: Path, tmp_path: Path) -> None:
    for subfolder in ("STS/STSBenchmark", "STS/STS12-en-test", "STS/STS13-en-test", "CR"):
        shutil.copytree(senteval / subfolder, tmp_path / subfolder)
    (tmp_path / "STS/STS12-en-test/STS.gs.MSRvid.txt").unlink()
    result = evaluate(encode, tmp_path, "all", folds=2, jobs=1, progress=False)
    assert set(result.scores) == {"STS13", "STS-B", "CR"}
    assert set(result.not_evaluated) == {*STS_TASKS, *TRANSFER_TASKS} - set(result.scores)
    assert "STS.gs.MSRvid.txt is absent" in result.not_evaluated["STS12"]
    assert "Avg. of 2" in result.table()
    assert f"MRPC: {result.not_evaluated['MRPC']}" in result.table()
    assert json.loads(result.to_json())["not_evaluated"] == result.not_evaluated
    dev = evaluate(encode, tmp_path, "STS-B STS13", split="dev", progress=False)
    assert set(dev.sts) == {"STS-B"}
    assert dev.not_evaluated["STS13"] == "has no dev split"


@pytest.mark.parametrize(
    ("folder", "settings", "message"),
    [
        ("CR", {"tasks": "STS-B"}, "holds no task in SentEval's layout"),
        ("", {"tasks": "STS11"}, "unknown task 'STS11'. Did you mean 'sts1.*There are: .*STS-B"),
        ("", {"split": "train"}, "unknown split"),
    ],
)
def test_what_cannot_be_evaluated(
    senteval: Path, folder: str, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(GradlabError, match=message):
        evaluate(encode, senteval / folder, progress=False, **settings)


def test_command_evaluates_a_model_folder(
    shell: Any, bert: Path, senteval: Path, tmp_path: Path
) -> None:
    output = tmp_path / "result.json"
    arguments = [
        "evaluate",
        "--model",
        bert,
        "--eval-data",
        senteval,
        "--tasks",
        "STS13",
        "stsb",
        "CR",
    ]
    code, out, err = shell(
        *arguments, "--pooler", "mean", "--folds", 2, "--jobs", 1, "--output", output
    )
    assert code == 0, err
    options = {"folds": 2, "jobs": 1, "name": str(bert), "progress": False}
    expected = evaluate(Encoder.load(bert, "mean"), senteval, "STS13 STS-B CR", **options)
    assert out == f"{expected.table()}\n\nWrote {output}\n"
    assert json.loads(output.read_text(encoding="utf-8")) == expected.to_dict()


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_a_file_of_scored_pairs_gives_their_correlation(bert, tmp_path, ending) -> None:
    import pandas
    from click.testing import CliRunner

    from gradlab.cli.commands import cli
    from gradlab.evaluate.sts import cosines, spearman
    from tests.tiny_models import make_sentences

    first, second = make_sentences(20, seed=1), make_sentences(20, seed=2)
    gold = [round(place % 7 / 2, 1) for place in range(20)]
    frame = pandas.DataFrame({"sentence1": first, "sentence2": second, "rating": gold})
    path = tmp_path / f"pairs.{ending}"
    if ending == "parquet":
        frame.to_parquet(path)
    elif ending == "jsonl":
        frame.to_json(path, orient="records", lines=True)
    else:
        frame.to_csv(path, sep=";", index=False)

    def run(*arguments):
        words = ["evaluate", "--model", bert, "--eval-data", path, *arguments]
        return CliRunner().invoke(cli, list(map(str, words)))

    output = tmp_path / "scores.json"
    result = run("--score-column", "rating", "--output", output)
    assert result.exit_code == 0, result.output + str(result.exception)
    encoder = Encoder.load(bert)
    expected = spearman(cosines(encoder.encode(first), encoder.encode(second)), gold)
    assert json.loads(output.read_text())["scores"]["spearman"] == pytest.approx(expected, abs=1e-6)
    assert "(20 pairs)" in result.output
    assert "name it by --score-column" in str(run().exception)
    assert "leave --tasks out" in str(run("--tasks", "STS-B", "--score-column", "rating").exception)
