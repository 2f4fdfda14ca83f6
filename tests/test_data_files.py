"""Files as people have them: each kind is read with its roles, or refused with a way out."""

from __future__ import annotations

import csv
import io
import json

import pandas
import pytest

from gradlab import GradlabError
from gradlab.data import Roles, TrainingFile
from tests.fuzzing import check_read_or_refused, damaged_files
from tests.tiny_models import make_sentences

COUNT = 24
QUERIES = [f"Which town is number {number}?" for number in range(COUNT)]
ANSWERS = [f"{text} So it is." for text in make_sentences(COUNT, seed=3)]
WRONG = make_sentences(3 * COUNT, seed=4)


def rows_of(path, roles=None, **options):
    return list(TrainingFile.open(path, roles, **options).rows())


def separated(rows, separator=",", ending="\n", **options):
    text = io.StringIO()
    csv.writer(text, delimiter=separator, lineterminator=ending, **options).writerows(rows)
    return text.getvalue()


PAIRS = list(zip(QUERIES, ANSWERS, strict=True))
# Cells that need quotes, whatever separates them.
AWKWARD = [(query, f'{answer}\n"So;\tit, is", he said') for query, answer in PAIRS]


@pytest.mark.parametrize(
    ("name", "separator", "said"),
    [
        ("a.csv", ",", "CSV"),
        ("a.csv", ";", "CSV, separated by ';'"),
        ("a.csv", "\t", "CSV, separated by tabs, quotes enclose cells"),
        ("a.csv", "|", "CSV, separated by '|'"),
        ("a.tsv", "\t", "TSV, quotes enclose cells"),
        ("a.tsv", ",", "TSV, separated by ','"),
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_the_separator_is_found_and_said(tmp_path, name, separator, said, encoding):
    path = tmp_path / name
    content = separated([("query", "answer"), *AWKWARD], separator, "\r\n")
    path.write_bytes(content.encode(encoding))
    file = TrainingFile.open(path)
    assert file.table.form == said + ", UTF-16 by its byte-order mark" * (encoding == "utf-16")
    assert list(file.rows()) == AWKWARD
    assert file.roles == Roles("query", "answer")
    assert "anchor" in file.describe()


@pytest.mark.parametrize(
    "answers",
    [
        ['"' * (number % 3 == 0) + text for number, text in enumerate(ANSWERS)],
        [f'"{text}"' for text in ANSWERS],
        [f'"So" said "{text}"' for text in ANSWERS],
        [f'{text} 5" wide' for text in ANSWERS],
    ],
    ids=["stray", "around each", "begins and ends", "inches"],
)
def test_quotes_of_a_tsv_that_enclose_nothing_belong_to_the_text(tmp_path, answers):
    path = tmp_path / "a.tsv"
    pairs = list(zip(QUERIES, answers, strict=True))
    path.write_text("\n".join("\t".join(row) for row in [("query", "answer"), *pairs]))
    assert rows_of(path) == pairs


def test_huge_cells_are_read(tmp_path):
    path = tmp_path / "a.csv"
    long = "word " * 60_000
    path.write_text(separated([["query", "answer"], ["a question", long], ["another", "text"]]))
    assert rows_of(path) == [("a question", long.strip()), ("another", "text")]


def test_a_quoted_tsv_of_pandas_is_read_as_it_was_written(tmp_path):
    path = tmp_path / "a.tsv"
    frame = pandas.DataFrame({"anchor": QUERIES, "positive": [f'"{text}"' for text in ANSWERS]})
    frame.to_csv(path, sep="\t", index=False)
    assert rows_of(path) == list(frame.itertuples(index=False, name=None))
    frame.to_csv(path, sep="\t", index=False, quoting=csv.QUOTE_ALL)
    assert rows_of(path) == list(frame.itertuples(index=False, name=None))


def test_spaces_after_the_separators_of_a_header_are_left_out(tmp_path):
    path = tmp_path / "a.csv"
    lines = [f'"{query}", "{answer}"' for query, answer in PAIRS]
    path.write_text("\n".join(["query, answer", *lines]))
    assert rows_of(path) == PAIRS


LISTS = [
    {"query": query, "pos": [answer, "another"], "neg": WRONG[row : row + 1 + row % 3]}
    for row, (query, answer) in enumerate(PAIRS)
]
PASSAGES = [
    {
        "query_id": str(number),
        "query": row["query"],
        "positive_passages": [{"docid": "1", "title": "", "text": text} for text in row["pos"]],
        "negative_passages": [{"docid": "2", "title": "On", "text": text} for text in row["neg"]],
    }
    for number, row in enumerate(LISTS)
]


@pytest.mark.parametrize("form", ["jsonl", "json", "parquet", "arrow", "saved", "tevatron"])
def test_lists_are_positives_and_own_hard_negatives(tmp_path, form):
    path, records = tmp_path / f"a.{form}", PASSAGES if form == "tevatron" else LISTS
    if form in ("arrow", "saved"):
        datasets = pytest.importorskip("datasets")
        path = tmp_path / "saved"
        saved = datasets.DatasetDict({"train": datasets.Dataset.from_list(records)})
        saved.save_to_disk(path)
        if form == "arrow":
            (path,) = path.glob("train/*.arrow")
    elif form == "parquet":
        pandas.DataFrame(records).to_parquet(path)
    elif form == "json":
        path.write_text(json.dumps(records, indent=1))
    else:
        path = tmp_path / "a.jsonl"
        path.write_text("\n".join(map(json.dumps, records)))
    file = TrainingFile.open(path)
    title = "On " * (form == "tevatron")
    # A row with fewer hard negatives repeats its own.
    expected = []
    for row in LISTS:
        hard = [title + text for text in row["neg"]]
        expected.append((row["query"], row["pos"][0], *(hard * 3)[:3]))
    assert list(file.rows()) == expected
    assert file.columns[2:] == ("negative_1", "negative_2", "negative_3")
    assert "1 to 3 hard negatives a row" in file.summary()
    assert f"{COUNT} further positives not used; --positives-per-row all" in file.summary()
    all_pairs = list(TrainingFile.open(path, positives_per_row="all", negatives_per_row=1).rows())
    assert [row[:2] for row in all_pairs] == [
        (row["query"], text) for row in LISTS for text in row["pos"]
    ]
    assert {len(row) for row in all_pairs} == {3}


def test_rows_of_json_may_be_lists_of_texts(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(map(json.dumps, PAIRS)))
    assert rows_of(path) == PAIRS
    path = tmp_path / "a.json"
    path.write_text(json.dumps(QUERIES))
    assert rows_of(path) == [(query,) for query in QUERIES]


def test_a_folder_of_beir_gives_queries_with_their_documents(tmp_path):
    (tmp_path / "qrels").mkdir()
    documents = [{"_id": f"d{n}", "title": "T", "text": text} for n, text in enumerate(ANSWERS)]
    queries = [{"_id": f"q{n}", "text": text} for n, text in enumerate(QUERIES)]
    for name, rows in (("corpus", documents), ("queries", queries)):
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    lines = [f"q{n}\td{n}\t1\nq{n}\td{(n + 1) % COUNT}\t{2 * (n == 0)}" for n in range(COUNT)]
    relevances = tmp_path / "qrels" / "test.tsv"
    relevances.write_text("\n".join(["query-id\tcorpus-id\tscore", *lines]))
    with pytest.raises(GradlabError, match=r"no qrels/train.tsv; name another split: .*test\.tsv"):
        TrainingFile.open(tmp_path)
    expected = [(query, f"T {answer}") for query, answer in PAIRS]
    expected[0] = (QUERIES[0], f"T {ANSWERS[1]}")  # the more relevant one
    assert rows_of(relevances) == expected
    relevances.rename(relevances.with_name("train.tsv"))
    assert rows_of(tmp_path) == expected
    assert len(rows_of(tmp_path, positives_per_row="all")) == COUNT + 1


@pytest.mark.parametrize(
    ("names", "roles"),
    [
        (["sent0", "sent1", "hard_neg"], Roles("sent0", "sent1", ("hard_neg",))),
        (["id", "Sentence 1", "sentence2"], Roles("Sentence 1", "sentence2")),
        (["premise", "hypothesis"], Roles("premise", "hypothesis")),
        (
            ["anchor", "positive", "negative_1", "negative_2"],
            Roles("anchor", "positive", ("negative_1", "negative_2")),
        ),
        (["idx", "text", "label"], Roles("text")),
        (["negative", "query", "score", "passage"], Roles("query", "passage", ("negative",))),
        (["only"], Roles("only")),
    ],
)
def test_roles_are_found_by_name(tmp_path, names, roles):
    path = tmp_path / "a.csv"
    path.write_text(separated([names, *[[f"{name} {row}." for name in names] for row in range(3)]]))
    file = TrainingFile.open(path)
    assert file.roles == roles
    for name in set(names) - set(roles.texts):
        assert name in file.describe().splitlines()[-1]
    # What is named is all that is used.
    assert TrainingFile.open(path, Roles(names[-1])).roles == Roles(names[-1])


def test_hard_negatives_or_scores_are_named_and_the_pair_is_found_by_name(tmp_path):
    path = tmp_path / "a.csv"
    names = ["query", "hard", "answer", "negative", "rating"]
    path.write_text(separated([names, *[[f"{name} {row}." for name in names] for row in range(3)]]))
    pairs = {"anchor": "query", "positive": "answer"}
    file = TrainingFile.open(path, Roles(negatives=("hard",)))
    assert file.roles == Roles(**pairs, negatives=("hard",))
    file = TrainingFile.open(path, Roles(score="rating"))
    assert file.roles == Roles(**pairs, negatives=("negative",), score="rating")
    with pytest.raises(GradlabError, match="hard negatives need positives too"):
        TrainingFile.open(path, Roles("query", negatives=("hard",)))


def table(answers, name="answer", **columns):
    return separated(zip(["query", *QUERIES], [name, *answers], *columns.values(), strict=True))


def changed(texts, interval, text):
    return [text if row % interval == 0 else answer for row, answer in enumerate(texts)]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", table(changed(ANSWERS, 8, "")), "row 1: 3 of 24 rows lack a text in 'answer'"),
        (
            "a.csv",
            table(changed(ANSWERS, 8, "NaN")),
            r"row 1: 3 of 24 rows have a placeholder text in 'answer' \(NaN\)",
        ),
        ("a.csv", table(changed(ANSWERS, 8, "N/A")), "placeholder text"),
        (
            "a.csv",
            table([str([text, text]) for text in ANSWERS]),
            "list written as text.*to_json",
        ),
        ("a.csv", table([str(row * 1.5) for row in range(COUNT)]), "24 of 24 rows have a number"),
        ("a.csv", table(changed(ANSWERS, 8, "a\0b")), "a text with NUL characters"),
        ("a.csv", table([f"'{text}'" for text in ANSWERS]), "a text in single quotes"),
        (
            "a.txt",
            "\n".join("\t".join(row) for row in PAIRS),
            "line with a tab.*name the file .tsv",
        ),
        ("a.tsv", "\n".join("\t".join(row) for row in PAIRS), "looks like a row, not like names"),
        ("a.csv", separated([("Frage", "Antwort"), *PAIRS], ";"), "by ';'.*columns Frage, Antwort"),
        ("a.csv", separated([("text", "text"), *PAIRS]), "2 columns 'text'; rename them"),
        ("a.csv", separated([("query", "neg"), *PAIRS]), None),
    ],
)
def test_what_would_be_misread_is_refused_with_a_way_out(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_text(content)
    if message is None:  # nothing that looks like positives: anchors only
        assert TrainingFile.open(path).roles == Roles("query")
        return
    with pytest.raises(GradlabError, match=message) as refusal:
        TrainingFile.open(path).count_rows()
    assert "\n" not in str(refusal.value)
    if "--faulty-rows skip" in str(refusal.value):
        skipped = TrainingFile.open(path, faulty_rows="skip").census
        assert skipped.rows + skipped.left_out == COUNT
        assert skipped.left_out > 0
    if "--faulty-rows keep" in str(refusal.value):
        assert TrainingFile.open(path, faulty_rows="keep").census.rows == COUNT


def test_a_few_faults_are_counted_and_shown(tmp_path):
    texts = [f"This is sentence {number}." for number in range(500)]
    texts[7], texts[8], texts[9] = "nan", "", texts[10]
    path = tmp_path / "a.txt"
    path.write_text("\n".join(texts))
    assert TrainingFile.open(path).summary() == (
        "499 rows; 1 blank lines skipped; 1 repeat an earlier row; 1 × placeholder text "
        "(row 8: 'nan')"
    )


def test_labels_and_scores_beside_pairs_are_flagged(tmp_path):
    path = tmp_path / "a.csv"
    kinds = ["entailment", "neutral", "contradiction"]
    labels = [kinds[row % 3] for row in range(COUNT)]
    path.write_text(table(ANSWERS, label=["label", *labels]))
    with pytest.raises(GradlabError, match=r"labels \(entailment 8, neutral 8, contradiction 8\)"):
        TrainingFile.open(path).count_rows()
    summary = TrainingFile.open(path, Roles("query", "answer")).summary()
    assert "column 'label' (entailment 8, neutral 8, contradiction 8) is not used" in summary
    path.write_text(table(ANSWERS, kind=["entailment_judgment", *map(str.upper, labels)]))
    with pytest.raises(GradlabError, match=r"labels \(ENTAILMENT 8"):
        TrainingFile.open(path).count_rows()
    path.write_text(table(ANSWERS, score=["score", *map(str, range(COUNT))]))
    assert "column 'score' is not used: every row is a positive pair" in (
        TrainingFile.open(path).summary()
    )


@pytest.mark.parametrize(
    "name", ["a.txt", "a.csv", "a.tsv", "a.jsonl", "a.json", "a.parquet", "a.arrow", "a.txt.gz"]
)
def test_a_damaged_file_is_read_or_refused_in_a_line(tmp_path, name):
    source, path = tmp_path / f"good-{name}", tmp_path / name
    frame = pandas.DataFrame(LISTS)
    if name.endswith("parquet"):
        frame.to_parquet(source)
    elif name.endswith("arrow"):
        datasets = pytest.importorskip("datasets")
        datasets.Dataset.from_list(LISTS).save_to_disk(tmp_path / "saved")
        (source,) = (tmp_path / "saved").glob("*.arrow")
    elif "json" in name:
        frame.to_json(source, orient="records", lines=name.endswith("l"))
    elif name.startswith("a.txt"):
        pandas.Series(QUERIES).to_csv(source, index=False, header=False)
    else:
        source.write_text(separated([("query", "answer"), *AWKWARD], ",\t"[name == "a.tsv"]))
    for title, content in damaged_files(source.read_bytes(), count=60):
        path.write_bytes(content)
        check_read_or_refused(lambda: len(list(TrainingFile.open(path).rows())), title)
        check_read_or_refused(lambda: TrainingFile.open(path).describe(), title)


@pytest.mark.parametrize(
    ("path", "encoding"),
    [
        ("x" * 300, "utf-8"),
        ("\0", "utf-8"),
        ("/dev/null", "utf-8"),
        (".", "utf-8"),
        ("a.txt", "undefined"),
    ],
)
def test_odd_names_are_refused_in_a_line(tmp_path, monkeypatch, path, encoding):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("text\n")
    with pytest.raises(GradlabError):
        TrainingFile.open(path, encoding=encoding)


def test_a_saved_dataset_reads_no_file_outside_its_folder(tmp_path):
    (tmp_path / "state.json").write_text(json.dumps({"_data_files": [{"filename": "../a.arrow"}]}))
    with pytest.raises(GradlabError, match="no file in that folder"):
        TrainingFile.open(tmp_path)


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_without_a_mark_is_named(encoding, tmp_path):
    path = tmp_path / "pairs.csv"
    path.write_bytes("anchor,positive\na text,its positive\n".encode(encoding))
    with pytest.raises(GradlabError, match=f"UTF-16 without a byte-order mark.*: {encoding}"):
        TrainingFile.open(path)
    assert list(TrainingFile.open(path, encoding=encoding).rows()) == [("a text", "its positive")]
