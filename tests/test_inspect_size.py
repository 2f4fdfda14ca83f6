"""Inspections of many rows: samples, going on after a stop, other processes, estimates."""

from __future__ import annotations

import os
import re
import shlex

import joblib
import numpy as np
import pytest

pytest.importorskip("rensa")

import gradlab
from gradlab.encoder.model import Encoder
from gradlab.errors import GradlabError
from gradlab.inspection import model_source, neighbours, word_index, workspace
from gradlab.inspection.duration import announcement, expected_seconds
from gradlab.inspection.neighbours import nearest_neighbours
from gradlab.inspection.texts import Texts
from gradlab.inspection.workspace import workspace as open_workspace
from tests.test_inspect import corpus, run


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("GRADLAB_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "cache").mkdir()
    return tmp_path / "cache"


def stop(*arguments, **options):
    raise KeyboardInterrupt


def stop_at(call, function):
    """The function, of which the given call is interrupted; and the number of calls so far."""
    calls = []

    def interrupted(*arguments, **options):
        calls.append(arguments)
        if len(calls) == call:
            raise KeyboardInterrupt
        return function(*arguments, **options)

    return interrupted, calls


def test_a_short_inspection_that_is_interrupted_leaves_nothing_behind(bert, cache, monkeypatch):
    monkeypatch.setattr("gradlab.inspection.candidate_pairs.nearest_pairs", stop)
    with pytest.raises(KeyboardInterrupt):
        gradlab.inspect(bert, corpus(20), batch_size=8)
    assert not any(cache.iterdir())


def test_texts_that_were_embedded_before_a_stop_are_not_embedded_again(
    bert, cache, monkeypatch, capsys
):
    monkeypatch.setattr(workspace, "WORTH_KEEPING", 0.0)
    monkeypatch.setattr(model_source, "_CHUNK", 8)
    encode = Encoder.encode
    texts, options = corpus(30, length=20), {"batch_size": 8, "batches": 2, "max_length": 16}
    whole = gradlab.inspect(bert, texts, **options)
    interrupted, calls = stop_at(3, encode)
    monkeypatch.setattr(Encoder, "encode", interrupted)
    with pytest.raises(KeyboardInterrupt):
        gradlab.inspect(bert, texts, progress=True, **options)
    (folder,) = cache.glob("inspect-*")
    assert f"until then, {folder} keeps 1 MB" in capsys.readouterr().err
    with (folder / "embeddings.float16").open("ab") as file:
        file.write(b"beginning of a row")
    # Another inspection has another folder.
    gradlab.inspect(bert, corpus(9), batch_size=4, batches=1)
    assert list(cache.glob("inspect-*")) == [folder]
    calls.clear()
    interrupted, calls = stop_at(0, encode)
    monkeypatch.setattr(Encoder, "encode", interrupted)
    resumed = gradlab.inspect(bert, texts, progress=True, **options)
    assert [arguments[1] for arguments in calls] == [texts[16:24], texts[24:]]
    assert "16 of 30 texts were embedded before a stop" in capsys.readouterr().err
    # Texts that are cut are counted among all.
    assert str(resumed.numbers) == str(whole.numbers)
    assert resumed.numbers["cut"] == 30
    assert not any(cache.iterdir())


def test_a_search_for_neighbours_goes_on_after_a_stop(cache, monkeypatch):
    monkeypatch.setattr(neighbours, "BUCKET", 40)
    monkeypatch.setattr(neighbours, "PROBES", 3)
    monkeypatch.setattr(neighbours, "SAVE_EVERY", 0.0)
    monkeypatch.setattr(workspace, "WORTH_KEEPING", 0.0)
    rows = np.random.default_rng(0).normal(size=(1000, 8))
    rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float16)
    whole = nearest_neighbours(rows, 5)
    merge = neighbours._merge
    interrupted, calls = stop_at(20, merge)
    monkeypatch.setattr(neighbours, "_merge", interrupted)
    with pytest.raises(KeyboardInterrupt), open_workspace(["key"]) as work:
        nearest_neighbours(rows, 5, work=work)
    saved_tasks = int(work.arrays("neighbours")["tasks_finished"])
    assert 0 < saved_tasks < 20
    interrupted, calls = stop_at(0, merge)
    monkeypatch.setattr(neighbours, "_merge", interrupted)
    with open_workspace(["key"]) as work:
        resumed = nearest_neighbours(rows, 5, work=work)
    assert len(calls) == 25 - saved_tasks
    for before, after in zip(whole, resumed, strict=True):
        assert (before == after).all()
    assert not any(cache.iterdir())
    # What is damaged is made anew.
    with open_workspace(["key"]) as work:
        work.path("neighbours.npz").write_bytes(b"PK damaged")
        assert work.arrays("neighbours") is None


def test_a_workspace_that_nobody_continues_is_deleted_after_a_week(cache):
    from filelock import FileLock

    running, fresh, old = (cache / f"inspect-{name}" for name in "abc")
    for folder in (running, fresh, old):
        folder.mkdir()
        (folder / "embeddings.float16").write_bytes(b"1234")
        (folder / "lock").touch()
    for folder in (running, old):
        for path in (folder, *folder.iterdir()):
            os.utime(path, (0, 0))
    with (
        FileLock(running / "lock"),
        open_workspace(["key"]) as work,
        open_workspace(["key"]) as two,
    ):
        os.utime(running, (0, 0))
        assert work.path("a").parent != two.path("a").parent  # two processes, the same inspection
        assert not old.exists()
        assert running.exists()
    assert sorted(cache.iterdir()) == [running, fresh]


def test_other_processes_read_the_same_words(monkeypatch):
    texts = [*corpus(40), corpus(1)[0].upper(), "İki 3 söz, ve 1 sayı"]
    alone = word_index.WordIndex.build(texts, len(texts))
    monkeypatch.setattr(word_index, "PARALLEL", 0)
    monkeypatch.setattr(word_index, "_CHUNK", 7)
    with joblib.parallel_config(backend="threading", n_jobs=2):
        together = word_index.WordIndex.build(texts, len(texts))
    for name in ("group", "first", "close", "_weights", "_numerals", "_capitals"):
        assert (getattr(alone, name) == getattr(together, name)).all(), name
    assert (alone._words != together._words).nnz == 0


@pytest.mark.parametrize("columns", [1, 3])
def test_a_sample_numbers_rows_as_the_file_does_and_measures_the_same_shares(columns, bert):
    texts = corpus(60)
    texts[40:50] = [text.upper() for text in texts[10:20]]
    further = [corpus(60, seed) for seed in range(1, columns)]
    table = Texts(texts) if columns == 1 else Texts(texts, further[0], {"hard": further[1]})
    inspection = gradlab.inspect(bert, table, batch_size=8, batches=3, sample=45)
    sample = inspection.sample
    assert len(sample.rows) == 45
    assert sample.corpus == 60
    assert inspection.numbers["pairs_seen"] == pytest.approx(45 * 44 / (60 * 59))
    rows = set(sample.rows.tolist())
    expected = {(row, row + 30) for row in range(10, 20) if {row, row + 30} <= rows}
    candidates = inspection.table("candidates")
    row_pairs = set(zip(candidates["first_row"], candidates["second_row"], strict=True))
    assert row_pairs == expected
    assert len(row_pairs) > 1
    for name, place, text in (
        ("candidates", "first_row", "first"),
        ("sentences", "row", "sentence"),
        ("hard-negatives", "row", "sentence"),
    ):
        frame = inspection.table(name)
        assert (columns == 3 or name != "hard-negatives") == (len(frame) > 0)
        assert [texts[row] for row in frame[place]] == list(frame.get(text, []))
    assert not inspection.can_mask
    changes = [verdict.change for verdict in inspection.advice]
    assert "Inspect all rows before you clean the file." in changes
    with pytest.raises(GradlabError, match="a sample of 45 rows does not tell"):
        inspection.distinct_rows()
    # Given embeddings are drawn with their texts.
    rows = np.random.default_rng(0).normal(size=(60 * columns, 6))
    sampled = gradlab.inspect(None, table, embeddings=rows, batch_size=8, batches=2, sample=45)
    assert (sampled.sample.rows == sample.rows).all()
    assert gradlab.inspect(embeddings=rows, batch_size=8, sample=9**9).sample is None


def test_the_command_inspects_a_sample_and_says_how_to_inspect_all(bert, tmp_path, monkeypatch):
    texts = corpus(40)
    texts[30:] = texts[:10]
    (tmp_path / "texts.txt").write_text("\n".join(texts))
    monkeypatch.chdir(tmp_path)
    options = ["--model", bert, "--train-file", "texts.txt", "--batch-size", 8, "--batches", 2]
    result = run(*options, "--sample", 20)
    assert result.exit_code == 0, result.output + str(result.exception)
    assert re.search(r"20 of 40 rows were drawn\. They hold 24\S*% of all pairs", result.output)
    (command,) = [line for line in result.output.splitlines() if "--write-clean" in line]
    cleaned = run(*shlex.split(command)[2:])
    assert cleaned.exit_code == 0, cleaned.output + str(cleaned.exception)
    assert (tmp_path / "texts-clean.txt").read_text().split("\n")[:-1] == texts[:30]
    options += ["--output", "another", "--sample", 20, "--write-clean", "clean.txt"]
    refused = run(*options)
    assert "leave --sample out" in str(refused.exception)


def test_the_estimate_names_the_stages_that_take_long(bert):
    table = Texts(corpus(20))
    encoder_source = model_source.ModelSource(bert, table, None, None, "cpu")
    stages = expected_seconds(20, table, encoder_source, 3, 8)
    assert sorted(stages) == ["batches", "encoding", "nearest neighbours", "words"]
    assert all(seconds > 0 for seconds in stages.values())
    assert announcement({"encoding": 59.0}, 10**6) == ""
    line = announcement({"words": 20.0, "encoding": 7200.0, "batches": 300.0}, 10**6)
    assert line == (
        "This takes about 2 h 5 min: encoding 2 h 0 min, batches 5 min; --sample 100000 takes a "
        "tenth and sees 1.0% of all pairs"
    )
