"""What an inspection advises can be followed: findings in order, code that runs, files without copies."""

from __future__ import annotations

import csv
import gzip
import json
import random
import re
import shlex
import sys

import numpy as np
import pytest

pytest.importorskip("transformers")
pytest.importorskip("rensa")
pytest.importorskip("usearch")

import gradlab
from gradlab import waiting
from gradlab.errors import GradlabError
from gradlab.inspection.advice import advise
from tests.tiny_models import WORDS, make_bert

BASE = {
    "sentences": 1000, "batch_size": 64, "loss": "infonce", "can_mask": True, "duplicates": 0, "candidate_lines": 0,
    "candidate_row_pairs": 0, "candidate_share_of_push": 0.0, "candidate_share_error": 0.0, "candidate_share_when_met": 0.03,
    "pair_share_on_average": 1 / 63, "hidden_by_dropout": float("nan"), "positives_that_repeat": 0, "mask_above": float("nan"),
    "mask_removes": float("nan"), "cosine_levels": [], "hubs": 10, "hub_share": 0.02, "temperatures": [], "negative_cosine": 0.1,
    "hard_negatives": {}, "hard_negatives_false": 0, "hard_negatives_false_share": float("nan"),
}  # fmt: skip


def texts_of(count, seed, length=10):
    generator = random.Random(seed)
    return [" ".join(generator.sample(WORDS, length)) for _ in range(count)]


def test_findings_stand_by_their_share_of_the_push_and_negligible_ones_last():
    assert advise(BASE) == []
    found = advise(
        BASE
        | {"candidate_lines": 3, "candidate_row_pairs": 3, "candidate_share_of_push": 0.002}
        | {"hard_negatives_false": 7, "hard_negatives_false_share": 0.31, "hub_share": 0.07}
        | {"positives_that_repeat": 2}
    )
    assert [(one.size, one.share) for one in found] == [
        ("large", 0.31),
        ("small", 0.07),
        ("", None),
        ("negligible", 0.002),
    ]


def planted(folder):
    """A table of 40 rows: 5 copies, 5 near copies, 3 false hard negatives; and the rows that remain, by loops."""
    anchors, positives, hard = texts_of(40, 1), texts_of(40, 2), texts_of(40, 3)
    for row in range(5):
        anchors[20 + row] = anchors[row].upper() + "!"
        words = positives[5 + row].split()
        positives[25 + row] = " ".join(reversed(words))
    hard[30] = anchors[30] + "."
    hard[2] = positives[2]
    hard[22] = positives[22].upper()
    rows = [[f"n{number}", *row] for number, row in enumerate(zip(anchors, positives, hard, strict=True))]
    path = folder / "triples.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([["id", "q", "a", "n"], *rows])
    # Row 2 leaves, so that its copy, row 22, could stay but for its own false hard negative.
    left_out = {2, 20, 21, 22, 23, 24, *range(25, 30), 30}
    return path, rows, [row for row in range(40) if row not in left_out]


def run(*arguments):
    from click.testing import CliRunner

    from gradlab.cli.commands import cli

    return CliRunner().invoke(cli, ["inspect", *map(str, arguments)])


@pytest.fixture(scope="module")
def inspected(tmp_path_factory):
    folder = tmp_path_factory.mktemp("planted")
    path, rows, kept = planted(folder)
    bert = make_bert(folder / "bert")
    given = [
        "--model",
        bert,
        "--train-file",
        path,
        "--column",
        "q",
        "--positives",
        "a",
        "--hard-negatives",
        "n",
    ]
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
    start = next(number for number, line in enumerate(lines) if "integrations.sentence_transformers" in line)
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


def test_the_page_says_where_each_text_stands(inspected):
    page = (inspected[0] / "out here/inspect.html").read_text(encoding="utf-8")
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL).group(1)
    lists = {one["title"]: one for one in json.loads(data)}
    pairs = {
        tuple(cell[0] for cell in row if isinstance(cell, list))
        for row in lists["Texts that say the same"]["rows"]
    }
    assert ("row 0, anchor", "row 20, anchor") in pairs
    assert ("row 5, positive", "row 25, positive") in pairs
    cells = [cell[0] for cell in lists["Hard negatives"]["rows"][0] if isinstance(cell, list)]
    assert [re.sub(r"\d+", "#", cell) for cell in cells] == [
        "row #, anchor", "row #, positive", "row #, hard negative (n)",
    ]  # fmt: skip


@pytest.mark.parametrize("ending", [".txt", ".txt.gz", ".jsonl", ".tsv", ".parquet"])
def test_clean_files_of_all_formats(ending, tmp_path):
    texts = [
        'He said "so be it" to her',
        "a sentence about copper wire",
        "HE said so be it, to her!",
        "the last of these",
    ]
    source, output = tmp_path / f"sentences{ending}", tmp_path / f"clean{ending}"
    if ending == ".parquet":
        import pandas

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
    given = [
        "--train-file",
        source,
        "--embeddings",
        embeddings,
        "--output",
        tmp_path / "out",
        "--batch-size",
        2,
    ]
    if ending not in (".txt", ".txt.gz"):
        given += ["--column", "text"]
    result = run(*given, "--write-clean", output)
    assert result.exit_code == 0, result.output + str(result.exception)
    from gradlab.train.sentences import read_sentences

    assert list(read_sentences(output, "text" if "--column" in given else None)) == [
        texts[0],
        texts[1],
        texts[3],
    ]
    if ending == ".parquet":
        import pandas

        assert pandas.read_parquet(output)["id"].tolist() == [0, 2, 4]
    wrong = run(*given, "--write-clean", tmp_path / "clean.dat")
    assert isinstance(wrong.exception, GradlabError)
    assert "must have the ending" in str(wrong.exception)
    assert "is the training file itself" in str(run(*given, "--write-clean", source).exception)


def test_progress_goes_to_a_file_as_a_line_every_ten_seconds(monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr(waiting.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False, raising=False)
    with waiting.counted("Encoding", 1000) as advance:
        for _ in range(100):
            now[0] += 0.5
            advance(10)
    assert capsys.readouterr().err.splitlines() == [
        "Encoding: 200 of 1,000, about 40 s left",
        "Encoding: 400 of 1,000, about 30 s left",
        "Encoding: 600 of 1,000, about 20 s left",
        "Encoding: 800 of 1,000, about 10 s left",
        "Encoding: 1,000 of 1,000, about 0 s left",
    ]
    with waiting.counted("Encoding", 1000, visible=False) as advance:
        now[0] += 50
        advance(1000)
    assert capsys.readouterr().err == ""
