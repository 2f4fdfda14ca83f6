"""Retrieval by mteb on a local folder, against scores computed by hand."""

from __future__ import annotations

import importlib.util
import json
import math
from pathlib import Path

import numpy as np
import pytest

from gradlab import GradlabError
from gradlab.encoder.model import Encoder
from gradlab.evaluate.retrieval import evaluate_retrieval
from gradlab.sweep.worker import measure
from gradlab.train import train
from gradlab.train.run_folder import RunFolder, finished
from tests.train_helpers import recorded, small_config, write_stsb

pytestmark = pytest.mark.skipif(importlib.util.find_spec("mteb") is None, reason="needs mteb")
WORDS = ["red", "green", "blue", "cold", "warm", "loud"]


def bag(sentences: list[str]) -> np.ndarray:
    """Counts of words, and a little of something that no word has."""
    return np.array(
        [[text.split().count(word) for word in WORDS] + [0.1] for text in sentences], dtype=float
    )


@pytest.fixture
def folder(tmp_path) -> Path:
    place = tmp_path / "colours"
    (place / "qrels").mkdir(parents=True)
    corpus = {
        "d1": "red",
        "d2": "red green",
        "d3": "blue cold",
        "d4": "warm",
        "d5": "loud loud red",
    }
    queries = {"q1": "red", "q2": "blue", "q3": "never asked"}
    for name, texts in (("corpus", corpus), ("queries", queries)):
        rows = (json.dumps({"_id": key, "text": text}) for key, text in texts.items())
        (place / f"{name}.jsonl").write_text("".join(f"{row}\n" for row in rows))
    (place / "qrels" / "test.tsv").write_text(
        "query-id\tcorpus-id\tscore\nq1\td2\t1\nq1\td5\t1\nq2\td3\t1\n"
    )
    return place


def test_scores_are_those_of_the_definition(folder):
    """By cosine q1 ranks d1, d2, d5: the relevant ones are second and third; q2 finds d3 first."""
    scores = evaluate_retrieval(bag, folder)
    gain = (1 / math.log2(3) + 1 / math.log2(4)) / (1 + 1 / math.log2(3))
    # mteb rounds to five digits.
    assert scores["ndcg_at_10"] == pytest.approx((gain + 1) / 2, abs=1e-5)
    assert scores["mrr_at_10"] == pytest.approx((1 / 2 + 1) / 2, abs=1e-5)
    assert scores["map_at_10"] == pytest.approx(((1 / 2 + 2 / 3) / 2 + 1) / 2, abs=1e-5)
    assert scores["recall_at_100"] == 1


@pytest.mark.parametrize(
    ("file", "line", "message"),
    [
        ("corpus.jsonl", '{"_id": "d2", "text": "other"}', "line 6: .* an _id of its own"),
        ("queries.jsonl", '{"_id": "q1", "text": "other"}', "line 4: .* an _id of its own"),
        ("qrels/test.tsv", "q1\td2\t0", "line 5: 'q1' and 'd2' are in an earlier line"),
        ("qrels/test.tsv", "q1\t0\td1\t1", "line 5: .* is not a query and a document of the task"),
    ],
)
def test_what_would_be_counted_once_of_two_is_refused(folder, file, line, message):
    with (folder / file).open("a") as stream:
        stream.write(f"{line}\n")
    with pytest.raises(GradlabError, match=message):
        evaluate_retrieval(bag, folder)


def test_relevances_without_a_header_do_not_lose_their_first_line(folder):
    file = folder / "qrels" / "test.tsv"
    file.write_text(file.read_text().partition("\n")[2])
    with pytest.raises(GradlabError, match="line 1 is a relevance; the first line names"):
        evaluate_retrieval(bag, folder)


def test_command_knows_a_retrieval_task(shell, bert, folder, tmp_path):
    output = tmp_path / "scores.json"
    arguments = ["evaluate", "--model", bert, "--eval-data", folder]
    code, out, err = shell(*arguments, "--output", output)
    assert code == 0, err
    assert "ndcg_at_10" in out
    assert 0 <= json.loads(output.read_text())["scores"]["ndcg_at_10"] <= 1
    dev_relevances = folder / "qrels" / "dev.tsv"
    dev_relevances.write_text("query-id\tcorpus-id\tscore\nq2\td4\t1\n")
    shell(*arguments, "--split", "dev", "--output", output)
    assert json.loads(output.read_text())["scores"] == evaluate_retrieval(
        Encoder.load(bert), folder, "dev"
    )
    for option in (
        ["--tasks", "sts"],
        ["--classifier", "mlp"],
        ["--folds", "3"],
        ["--format", "latex"],
    ):
        assert f"leave {option[0]} out" in shell(*arguments, *option)[2]


def test_training_keeps_the_best_step_by_retrieval(bert, folder, tmp_path):
    settings = {"eval_every": 2, "max_steps": 4, "diagnostics_every": 0}
    config = small_config(bert, tmp_path, eval_data=str(folder), **settings)
    with pytest.raises(GradlabError, match=r"dev\.tsv"):  # never selected on test relevances
        train(config)
    (folder / "qrels" / "dev.tsv").write_text((folder / "qrels" / "test.tsv").read_text())
    result = train(config)
    assert (result.selection, sorted(result.scores)) == ("ndcg_at_10", [0, 2, 4])
    assert result == finished(config)
    run = RunFolder(tmp_path / "run")
    best = Encoder.load(run.best)
    assert evaluate_retrieval(best, folder, "dev")["ndcg_at_10"] == result.best_score
    assert measure(run, result)["ndcg_at_10"] == result.best_score
    assert recorded(run.path, "ndcg_at_10") == result.scores
    # Scores of two kinds are never compared.
    run.manifest_file.write_text(json.dumps(run.read_manifest() | {"status": "running"}))
    changed_config = small_config(bert, tmp_path, eval_data=str(write_stsb(tmp_path)), **settings)
    with pytest.raises(GradlabError, match=r"the content of eval_data .* has changed"):
        train(changed_config, resume=True)
