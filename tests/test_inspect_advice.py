"""Advice of `inspect` can be followed: commands and code run, and give the promised rows."""

from __future__ import annotations

import csv
import gzip
import json
import re
import shlex
from pathlib import Path

import numpy as np
import pandas
import pytest

pytest.importorskip("rensa")

import gradlab
from gradlab.data import TrainingFile, read_sentences
from gradlab.data.row_subset import check_copy
from gradlab.errors import GradlabError
from gradlab.inspection.advice import steps_of
from tests.test_inspect import corpus, run
from tests.tiny_models import make_bert

NAMES = ["id", "query", "answer", "negative"]


def rows_of(count=40):
    """Rows of texts, of which some repeat others, and the numbers of those that stay, by design."""
    anchors, positives, hard = (corpus(count, seed, 10) for seed in (1, 2, 3))
    for row in range(5):
        # The whole row again, anchor and positive again with words shuffled, and another answer.
        for column in (anchors, positives, hard):
            column[20 + row] = column[row].upper() + "!"
        for column in (anchors, positives):
            column[25 + row] = " ".join(reversed(column[5 + row].split()))
        hard[25 + row] = hard[5 + row]
        anchors[30 + row] = anchors[10 + row]
    hard[35] = anchors[35] + "."
    hard[2] = positives[2]
    # Row 2 leaves, so that its copy, row 22, could stay but for its own false hard negative.
    hard[22] = positives[22].upper()
    rows = [
        [f"n{number}", *texts]
        for number, texts in enumerate(zip(anchors, positives, hard, strict=True))
    ]
    left_out = {2, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 35}
    return rows, [row for row in range(count) if row not in left_out]


def commands_of(output: str, word: str) -> list[str]:
    return [line.strip() for line in output.splitlines() if line.strip().startswith(word)]


def snippets_of(output: str) -> list[str]:
    """Blocks of code, which are indented below the line that says what they are for."""
    blocks = re.findall(r"^  \S.*:\n((?:    .*\n)+)", output, re.MULTILINE)
    return [re.sub(r"^    ", "", block, flags=re.MULTILINE) for block in blocks]


@pytest.fixture(scope="module")
def inspected(tmp_path_factory):
    folder = tmp_path_factory.mktemp("planted")
    rows, clean_rows = rows_of()
    path = folder / "triples.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([NAMES, *rows])
    options = ["--model", make_bert(folder / "bert"), "--train-file", path]
    options += ["--batch-size", 8, "--batches", 5, "--output", folder / "out here"]
    results = [run(*options), run(*options, "--write-clean", folder / "clean.csv")]
    assert [result.exit_code for result in results] == [0, 0], results
    return folder, options, rows, clean_rows, "".join(result.output for result in results)


def test_the_clean_file_has_the_rows_that_repeat_no_other(inspected):
    folder, _, rows, clean_rows, output = inspected
    with (folder / "clean.csv").open(encoding="utf-8", newline="") as file:
        clean = list(csv.reader(file))
    assert clean == [NAMES, *(rows[row] for row in clean_rows)]
    reasons = "28 of 40 rows; 4 repeat an earlier row, 5 nearly repeat an earlier row"
    assert f"({reasons} and 3 have a false hard negative)" in output
    assert f"clean.csv has {reasons} and 3 have a false hard negative" in output


def test_the_advice_carries_the_command_and_code_that_run(inspected, monkeypatch):
    """The command that it prints is the one that was run; the code makes a loss that masks."""
    pytest.importorskip("sentence_transformers")
    import torch

    folder, options, rows, clean_rows, output = inspected
    monkeypatch.chdir(folder)
    (command,) = [
        line for line in commands_of(output, "gradlab inspect") if "triples-clean" in line
    ]
    words = shlex.split(command)
    assert words == ["gradlab", "inspect", *map(str, options), "--write-clean", "triples-clean.csv"]
    result = run(*words[2:])
    assert result.exit_code == 0
    assert (folder / "triples-clean.csv").read_text() == (folder / "clean.csv").read_text()
    sampler, clean, mask = (
        code for code in snippets_of(output)[:4] if not code.startswith("gradlab")
    )
    names: dict = {"model": torch.nn.Identity()}
    exec(sampler, names)
    assert names["arguments"].batch_sampler.name == "NO_DUPLICATES"
    exec(clean, names)
    assert names["dataset"].column_names == ["query", "answer", "negative"]
    assert names["dataset"]["query"][:] == [rows[row][1] for row in clean_rows]
    exec(mask, names)
    assert names["dataset"]["label"][:3] == [0, 1, 2]
    assert len(names["dataset"]) == 40
    labels = torch.tensor([0, 20, 35])
    views = list(torch.randn(3, 3, 6))
    value = names["criterion"].compute_loss_from_embeddings(views, labels)
    listed = torch.zeros(3, 6, dtype=torch.bool)
    # The hard negatives of rows 0 and 20 are copies too, but say what no anchor says.
    listed[0, 1] = listed[1, 0] = listed[2, 5] = True
    expected = gradlab.get_loss("mask(infonce, by=given)")(*views, normalize=True, mask=listed)
    assert float(value) == pytest.approx(float(expected), rel=1e-6)


def test_the_command_that_masks_trains_on_the_columns_that_were_inspected(tmp_path, monkeypatch):
    rows, _ = rows_of()
    path = tmp_path / "pairs.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([["Frage", "Antwort"], *([a, b] for _, a, b, _ in rows)])
    monkeypatch.chdir(tmp_path)
    columns = ["--column", "Frage", "--positive-column", "Antwort"]
    options = ["--model", make_bert(tmp_path / "bert"), "--train-file", "pairs.csv", *columns]
    result = run(*options, "--batch-size", 8, "--batches", 2, "--max-length", 16)
    (command,) = commands_of(result.output, "gradlab train")
    trained = run(*shlex.split(command)[2:], "--max-steps", 1, command="train")
    assert trained.exit_code == 0, trained.output + str(trained.exception)
    manifest = json.loads(Path("runs/masked/manifest.json").read_text())
    assert manifest["data"]["sentences"] == 40
    settings = manifest["config"]
    assert (settings["column"], settings["positive_column"]) == ("Frage", "Antwort")
    assert (settings["max_length"], settings["batch_size"]) == (16, 8)


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
def test_a_clean_file_is_named_after_the_whole_name_of_its_source(name, clean, tmp_path):
    path = tmp_path / name
    opener = gzip.open if name.endswith(".gz") else open
    with opener(path, "wt") as file:
        file.write('{"text": "one"}\n' if "jsonl" in name else "text\none\n")
    numbers = {"can_mask": False, "rows_left_out": {"repeat": 1}, "sentences": 2}
    steps = steps_of(numbers, Path("."), {}, "gradlab inspect", TrainingFile.open(path))
    assert steps[0][1] == f"gradlab inspect --write-clean {clean}"
    check_copy(path, tmp_path / clean)


def write_table(folder: Path, form: str, rows: list[list[str]]) -> Path:
    """Write rows of an id, a query and its answer, with blank rows between where a format can."""
    frame = pandas.DataFrame([row[:3] for row in rows], columns=NAMES[:3])
    path = folder / f"table.{form.partition(' ')[0]}"
    lists = frame.assign(answer=[[answer, "another"] for answer in frame["answer"]])
    if form == "saved":
        datasets = pytest.importorskip("datasets")
        path = folder / "table"
        datasets.DatasetDict({"train": datasets.Dataset.from_pandas(frame)}).save_to_disk(path)
    elif form == "parquet":
        lists.to_parquet(path)
    elif form == "json":
        lists.to_json(path, orient="records", indent=1)
    elif form == "jsonl":
        lines = lists.to_json(orient="records", lines=True, force_ascii=False).split("\n")
        path.write_text("\n\n".join(lines))
    elif form == "tsv":
        path.write_text("\n".join("\t".join(row) for row in [NAMES[:3], *frame.to_numpy()]))
    elif form == "tsv quoted":
        frame.to_csv(path, sep="\t", index=False)
    else:
        frame.to_csv(path, sep=";", index=False, encoding="utf-16")
    return path


@pytest.mark.parametrize(
    "form", ["saved", "parquet", "json", "jsonl", "tsv", "tsv quoted", "csv semicolon"]
)
def test_clean_files_of_all_formats(form, tmp_path, monkeypatch):
    pytest.importorskip("datasets")
    rows = [
        ["0", 'He said "so be it" to her', "an answer"],
        ["1", "a quiet day", '"Never" – is\u2028that so?'],
        ["2", "HE said so be it, to her!", "An answer."],
        ["3", "the last of these", "one more answer"],
        ["4", "a quiet day", "not that kind of day"],
    ]
    if form in ("tsv quoted", "csv semicolon"):
        rows[3][1] = 'the "last";\tof\nthese'
    source = write_table(tmp_path, form, rows)
    np.save(tmp_path / "rows.npy", np.random.default_rng(0).normal(size=(10, 6)))
    monkeypatch.chdir(tmp_path)
    words = ["--train-file", source.name, "--embeddings", "rows.npy", "--batch-size", 2]
    result = run(*words)
    assert result.exit_code == 0, result.output + str(result.exception)
    (command,) = [line for line in commands_of(result.output, "gradlab inspect") if "clean" in line]
    assert "(4 of 5 rows; 1 repeat an earlier row)" in result.output
    cleaned = run(*shlex.split(command)[2:])
    assert cleaned.exit_code == 0, cleaned.output + str(cleaned.exception)
    names: dict = {}
    codes = [code for code in snippets_of(result.output) if code.startswith("from datasets")]
    exec(next(code for code in codes if "-clean" in code), names)
    clean_rows = [rows[number] for number in (0, 1, 3, 4)]
    assert names["dataset"]["query"][:] == [query for _, query, _ in clean_rows]
    assert names["dataset"]["answer"][:] == [answer for *_, answer in clean_rows]
    # All columns are copied.
    (clean,) = tmp_path.glob("table-clean*")
    assert "id" in TrainingFile.open(clean).roles.unused
    assert "is the training file itself" in str(run(*words, "--write-clean", source).exception)


@pytest.mark.parametrize("ending", [".txt", ".txt.gz"])
def test_clean_files_of_text(ending, tmp_path):
    texts = ['He said "so be it"', "a sentence", "HE said so be it!", "the last of these"]
    source, output = tmp_path / f"sentences{ending}", tmp_path / f"clean{ending}"
    content = "\n\n".join(texts).encode()
    source.write_bytes(gzip.compress(content) if ending.endswith(".gz") else content)
    np.save(tmp_path / "rows.npy", np.random.default_rng(0).normal(size=(4, 6)))
    options = ["--train-file", source, "--embeddings", tmp_path / "rows.npy"]
    options += ["--output", tmp_path / "out", "--batch-size", 2]
    result = run(*options, "--write-clean", output)
    assert result.exit_code == 0, result.output + str(result.exception)
    assert list(read_sentences(output)) == [texts[0], texts[1], texts[3]]
    wrong = run(*options, "--write-clean", tmp_path / "clean.dat")
    assert isinstance(wrong.exception, GradlabError)
    assert "must have the ending" in str(wrong.exception)
