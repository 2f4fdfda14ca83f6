"""Advice of `inspect` can be followed: findings in order, code that runs, files without copies."""

from __future__ import annotations

import csv
import gzip
import json
import shlex
from pathlib import Path

import numpy as np
import pandas
import pytest

pytest.importorskip("usearch")

import gradlab
from gradlab.data.sentences import read_sentences
from gradlab.errors import GradlabError
from gradlab.inspection.advice import steps_of
from gradlab.inspection.texts import check_ending
from tests.test_inspect import corpus, run
from tests.tiny_models import make_bert


def planted(folder):
    """40 rows: 5 copies, 5 near copies, 3 false hard negatives; the rows that remain, by loops."""
    anchors, positives, hard = (corpus(40, seed, 10) for seed in (1, 2, 3))
    for row in range(5):
        anchors[20 + row] = anchors[row].upper() + "!"
        words = positives[5 + row].split()
        positives[25 + row] = " ".join(reversed(words))
    hard[30] = anchors[30] + "."
    hard[2] = positives[2]
    hard[22] = positives[22].upper()
    rows = [
        [f"n{number}", *row]
        for number, row in enumerate(zip(anchors, positives, hard, strict=True))
    ]
    path = folder / "triples.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([["id", "q", "a", "n"], *rows])
    # Row 2 leaves, so that its copy, row 22, could stay but for its own false hard negative.
    left_out = {2, 20, 21, 22, 23, 24, *range(25, 30), 30}
    return path, rows, [row for row in range(40) if row not in left_out]


@pytest.fixture(scope="module")
def inspected(tmp_path_factory):
    folder = tmp_path_factory.mktemp("planted")
    path, rows, kept = planted(folder)
    bert = make_bert(folder / "bert")
    columns = ["--column", "q", "--positives", "a", "--hard-negatives", "n"]
    given = ["--model", bert, "--train-file", path, *columns]
    given += ["--batch-size", 8, "--output", folder / "out here"]
    results = [run(*given), run(*given, "--write-clean", folder / "clean.csv")]
    assert [one.exit_code for one in results] == [0, 0], results
    return folder, given, rows, kept, "".join(one.output for one in results)


def test_the_clean_file_has_the_rows_that_repeat_no_other(inspected):
    folder, _, rows, kept, output = inspected
    with (folder / "clean.csv").open(encoding="utf-8", newline="") as file:
        clean = list(csv.reader(file))
    assert clean == [["id", "q", "a", "n"], *(rows[row] for row in kept)]
    assert f"has {len(kept)} of 40 rows" in output


def test_the_advice_carries_the_command_and_code_that_run(inspected, monkeypatch):
    """The command that it prints is the one that was run; the code makes a loss that masks."""
    pytest.importorskip("sentence_transformers")
    import torch
    from datasets import load_dataset

    folder, given, _, _, output = inspected
    monkeypatch.chdir(folder)
    command = next(line.strip() for line in output.splitlines() if "--write-clean" in line)
    words = shlex.split(command)
    assert words == ["gradlab", "inspect", *map(str, given), "--write-clean", "triples-clean.csv"]
    result = run(*words[2:])
    assert result.exit_code == 0
    assert 'data_files="triples-clean.csv"' in result.output
    assert "Write the file" not in result.output
    assert (folder / "triples-clean.csv").read_text() == (folder / "clean.csv").read_text()
    lines = output.splitlines()
    start = next(number for number, line in enumerate(lines) if "from datasets import" in line)
    names = {}
    exec("\n".join(line.strip() for line in lines[start : start + 2]), names)
    assert len(names["dataset"]) == len((folder / "clean.csv").read_text().splitlines()) - 1
    start = next(
        number for number, line in enumerate(lines) if "integrations.sentence_transformers" in line
    )
    names = {
        "model": torch.nn.Identity(),
        "dataset": load_dataset("csv", data_files=str(folder / "triples.csv"), split="train"),
    }
    exec("\n".join(line.strip() for line in lines[start : start + 3]), names)
    assert names["dataset"]["label"][:3] == [0, 1, 2]
    rows = torch.tensor([0, 20, 30])
    views = list(torch.randn(3, 3, 6))
    value = names["criterion"].compute_loss_from_embeddings(views, rows)
    listed = torch.zeros(3, 6, dtype=torch.bool)
    listed[0, 1] = listed[1, 0] = listed[2, 5] = True
    expected = gradlab.get_loss("mask(infonce, by=given)")(*views, normalize=True, mask=listed)
    assert float(value) == pytest.approx(float(expected), rel=1e-6)


@pytest.mark.parametrize(
    ("name", "clean"),
    [
        ("pairs.v2.csv", "pairs.v2-clean.csv"),
        ("pairs.2024.01.tsv.gz", "pairs.2024.01-clean.tsv.gz"),
        (".pairs.jsonl", ".pairs-clean.jsonl"),
        ("sentences.gz", "sentences-clean.gz"),
        ("sentences", "sentences-clean"),
    ],
)
def test_a_clean_file_is_named_after_the_whole_name_of_its_source(name, clean):
    steps = steps_of({"can_mask": False}, Path("."), {"train_file": name}, "gradlab inspect")
    assert steps[0][1] == f"gradlab inspect --write-clean {clean}"
    check_ending(Path(name), Path(clean))


@pytest.mark.parametrize("ending", [".txt", ".txt.gz", ".jsonl", ".tsv", ".parquet"])
def test_clean_files_of_all_formats(ending, tmp_path):
    texts = [
        'He said "so be it" to her',
        "a sentence",
        "HE said so be it, to her!",
        "the last of these",
    ]
    source, output = tmp_path / f"sentences{ending}", tmp_path / f"clean{ending}"
    if ending == ".parquet":
        pandas.DataFrame({"id": range(5), "text": [texts[0], "", *texts[1:]]}).to_parquet(source)
    else:
        lines = {
            ".jsonl": [json.dumps({"text": text, "more": 1}) for text in texts],
            ".tsv": ["id\ttext", *(f"{number}\t{text}" for number, text in enumerate(texts))],
        }.get(ending, texts)
        content = "\n\n".join(lines).encode()
        source.write_bytes(gzip.compress(content) if ending.endswith(".gz") else content)
    embeddings = tmp_path / "rows.npy"
    np.save(embeddings, np.random.default_rng(0).normal(size=(4, 6)))
    column = [] if ".txt" in ending else ["--column", "text"]
    given = ["--train-file", source, "--embeddings", embeddings, *column]
    given += ["--output", tmp_path / "out", "--batch-size", 2]
    result = run(*given, "--write-clean", output)
    assert result.exit_code == 0, result.output + str(result.exception)
    assert list(read_sentences(output, "text" if column else None)) == [
        texts[0],
        texts[1],
        texts[3],
    ]
    if ending == ".parquet":
        assert pandas.read_parquet(output)["id"].tolist() == [0, 2, 4]
    wrong = run(*given, "--write-clean", tmp_path / "clean.dat")
    assert isinstance(wrong.exception, GradlabError)
    assert "must have the ending" in str(wrong.exception)
    assert "is the training file itself" in str(run(*given, "--write-clean", source).exception)
