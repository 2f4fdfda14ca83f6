"""``gradlab flow``: what it writes, prints and refuses."""

import json
from pathlib import Path

import numpy as np
import pandas
import pytest
from PIL import Image

from gradlab.flow import flow, synthetic_batch

SMALL = ("--topics", 3, "--sentences", 2, "--dim", 5, "--duplicates", 1, "--steps", 30)


@pytest.fixture
def run(shell, monkeypatch, tmp_path):
    """In an empty folder."""
    monkeypatch.chdir(tmp_path)
    return shell


def test_losses_flow_beside_each_other(run, monkeypatch):
    monkeypatch.setattr("gradlab.flow.picture.FRAMES", 5)
    code, text, error = run("flow", "--loss", "infonce", "--loss", "mpt", *SMALL, "--animate")
    assert code == 0, error
    assert "Synthetic batch: 3 topics of 2 sentences in 5 dimensions" in text
    assert "Flow of infonce, 6 sentences" in text
    base = "flow/flow_infonce_mpt_topics-3_sentences-2_dim-5_duplicates-1_steps-30"
    frame = pandas.read_csv(f"{base}.csv")
    batch = synthetic_batch(3, 2, 5, duplicates=1)
    for loss in ("infonce", "mpt"):
        ended = flow(loss, batch.anchors, batch.positives, groups=batch.topics, steps=30)
        rows = frame[frame["loss"] == loss]
        np.testing.assert_allclose(rows["same_group_cosine"], ended.curves["same_group_cosine"])
    settings = json.loads(Path(f"{base}.json").read_text())
    assert [ended["loss"] for ended in settings["results"]] == ["infonce", "mpt"]
    assert settings["versions"]["torch"]
    with Image.open(f"{base}.gif") as film, Image.open(f"{base}.png") as picture:
        assert film.n_frames == 5
        assert picture.width > 500
    assert run("flow", "--loss", "infonce", "--loss", "mpt", *SMALL)[0] == 0


def test_embeddings_of_a_file_flow(run):
    batch = synthetic_batch(3, 2, 5, duplicates=1)
    arrays = {"anchors": 3 * batch.anchors, "positives": batch.positives, "labels": batch.topics}
    np.savez("rows.npz", **arrays)
    code, text, error = run("flow", "--loss", "infonce", "--embeddings", "rows.npz", "--steps", 5)
    assert code == 0, error
    assert "same group" in text
    np.save("rows.npy", batch.anchors)
    code, text, _ = run("flow", "--loss", "infonce", "--embeddings", "rows.npy", "--steps", 5)
    assert code == 0
    assert "each sentence is its own" in text


def test_a_model_with_topics_flows(run, bert):
    rows = [f"word{i % 5} text number {i},{i // 4}" for i in range(12)]
    Path("train.csv").write_text("\n".join(["text,topic", *rows]), encoding="utf-8")
    options = (
        "--train-file",
        "train.csv",
        "--column",
        "text",
        "--label-column",
        "topic",
        "--steps",
        5,
    )
    code, text, error = run("flow", "--loss", "infonce", "--model", bert, *options)
    assert code == 0, error
    assert "The first 12 sentences of train.csv" in text
    assert "same group" in text


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("--loss infonc", "Did you mean 'infonce'"),
        ("--loss infonce --last-time 0", "--last-time must be a time above 0"),
        ("--loss infonce --tolerance 1", "tolerance must be"),
        ("--loss infonce --label-column topic", "--label-column: only with --model"),
        ("--loss infonce --model m", "add --train-file"),
        ("--loss infonce --model m --train-file t --topics 3", "--topics: only without"),
        ("--loss infonce --embeddings no.npz", "cannot read 'no.npz'"),
        ("--loss infonce --embeddings e.npz --count 4", "leave --count out"),
        ("--loss infonce --embeddings names.npz", "no array 'anchors'"),
        ("--loss kl", "teacher"),
        ("--loss infonce --topics 2 --sentences 1", "4 duplicates need"),
        ("--loss infonce --batch-size 500", "exceeds the 120 sentences"),
    ],
)
def test_bad_input_is_refused_in_a_line(run, command, words):
    np.savez("names.npz", rows=np.eye(3))
    code, _, error = run("flow", *command.split())
    assert code == 2
    assert words in error
    assert error.count("\n") == 1
    assert not Path("flow").exists()
