"""Files, tokens and batches: what is read or refused; grouping by length changes nothing."""

from __future__ import annotations

import bz2
import gzip
import itertools
import json
import lzma
import os
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas
import pytest
import torch

from gradlab import GradlabError
from gradlab.data import Roles, TrainingFile, read_sentences
from gradlab.data import tokens as tokens_module
from gradlab.data.tokens import cache_folder
from gradlab.encoder.model import Encoder
from gradlab.train.batches import BatchOrder, pack, split_held_out
from tests.fuzzing import damaged_files
from tests.tiny_models import make_roberta, make_sentences

SENTENCES = make_sentences(50, seed=5)


@pytest.fixture(autouse=True)
def _cache(tmp_path, monkeypatch):
    monkeypatch.setenv("GRADLAB_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture(scope="module", params=["bert", "roberta"])
def model(request, bert, tmp_path_factory) -> Path:
    return bert if request.param == "bert" else make_roberta(tmp_path_factory.mktemp("roberta"))


@pytest.fixture
def tokenizer(bert):
    return Encoder.load(bert).tokenizer


def write(path: Path, content: bytes) -> Path:
    opener = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}.get(path.suffix, open)
    with opener(path, "wb") as file:
        file.write(content)
    return path


def tokenize(path, tokenizer, max_length):
    return tokens_module.tokenize(TrainingFile.open(path), tokenizer, max_length)[0]


@pytest.fixture
def sentences(tmp_path) -> Path:
    return write(tmp_path / "s.txt", "\n".join(SENTENCES).encode())


@pytest.mark.parametrize("ending", ["", ".txt", ".txt.gz", ".xz", ".txt.bz2"])
def test_text_of_every_compression(tmp_path, ending):
    path = write(tmp_path / f"sentences{ending}", "\n".join(SENTENCES).encode())
    assert list(read_sentences(path)) == SENTENCES


@pytest.mark.parametrize("ending", ["jsonl", "jsonl.gz", "csv", "csv.xz", "tsv", "parquet"])
def test_tables_give_their_column(tmp_path, ending):
    awkward = [*SENTENCES, "Zürich – naïve"]
    if ending != "tsv":  # which has no quotes
        awkward.append('quoted "words", and a comma')
    frame = pandas.DataFrame({"number": range(len(awkward)), "text": awkward})
    path = tmp_path / f"table.{ending}"
    if "json" in ending:
        frame.to_json(path, orient="records", lines=True)
    elif ending == "parquet":
        frame.to_parquet(path)
    else:
        frame.to_csv(path, index=False, sep="\t" if ending == "tsv" else ",")
    assert list(read_sentences(path)) == awkward
    assert list(read_sentences(path, "text")) == awkward
    with pytest.raises(GradlabError, match=r"no column 'texts'; it has number, text"):
        list(read_sentences(path, "texts"))


def test_blank_lines_and_byte_order_mark_are_left_out(tmp_path):
    path = write(tmp_path / "s.txt", "\ufefffirst\r\n\n  \t\nsecond  \n\nafter".encode())
    assert list(read_sentences(path)) == ["first", "second", "after"]
    assert TrainingFile.open(path).census.blank == 3


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", b"fine\ncaf\xe9\n", "row 2: byte 0xe9 is not utf-8.*latin-1"),
        ("a.txt", b"first\rsecond\r", "row 1: lines end with carriage returns"),
        ("a.jsonl", b'{"text": "x"}\n{"text"', "row 2: not JSON"),
        (
            "a.jsonl",
            b'{"text": "\\ud83d\\ude00"}\n{"text": "half \\ud83d"}\n',
            r"row 2: \\ud83d is not utf-8",
        ),
        ("b.csv", b"one,text\n1,2\nlonely\n", "row 2: 1 columns where the header has 2"),
        (
            "c.csv",
            b"text\nHello, world\n",
            "row 1: 2 columns where the header has 1; does a sentence hold a ','",
        ),
        ("c.csv", b'text\n"Hello world\nnext\n', "row 1: unexpected end of data"),
        (
            "c.csv",
            b'text\n"Hello world\nnext\n"Bye" now\n',
            "row 1: ',' expected after",
        ),
        ("c.csv", b"text,text\na,b\n", "2 columns 'text'; rename them"),
        ("a.txt.gz", gzip.compress(b"some words\n" * 99, mtime=0)[:-9], "damaged"),
    ],
)
def test_damaged_files_are_explained(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(GradlabError, match=message):
        list(read_sentences(path))


@pytest.mark.parametrize("ending", ["txt", "csv", "jsonl.gz"])
@pytest.mark.parametrize("encoding", ["utf-16-be", "utf-32", "latin-1", "cp037"])
def test_files_of_other_encodings(tmp_path, ending, encoding):
    """In UTF-16 the letter \u010a holds the byte of a line feed."""
    texts = ["text", "caf\xe9", "a\u010ab" if "utf" in encoding else "ab"]
    rows = [json.dumps({"text": text}) for text in texts[1:]] if "json" in ending else texts
    path = write(tmp_path / f"a.{ending}", "\n".join(rows).encode(encoding))
    sentences_read = list(read_sentences(path, encoding=encoding))
    assert sentences_read == (texts if ending == "txt" else texts[1:])
    with pytest.raises(GradlabError, match="unknown encoding 'hex'"):
        list(read_sentences(path, encoding="hex"))


def test_equal_numbers_are_equal_labels_and_nan_is_none(tmp_path):
    path = tmp_path / "labels.jsonl"
    path.write_text(
        '{"text": "a", "kind": 1}\n{"text": "b", "kind": 1.0}\n{"text": "c", "kind": 1.5}\n'
    )
    file = TrainingFile.open(path, Roles("text", label="kind"))
    assert [example.label for example in file.examples()] == ["1", "1", "1.5"]
    path.write_text('{"text": "a", "kind": 1}\n{"text": "b", "kind": NaN}\n')
    with pytest.raises(GradlabError, match="row 2: 'kind' is blank"):
        list(TrainingFile.open(path, Roles("text", label="kind")).examples())


def test_tokens_equal_those_of_transformers(model, sentences):
    tokenizer = Encoder.load(model).tokenizer
    tokens = tokenize(sentences, tokenizer, 9)
    expected = tokenizer(SENTENCES, truncation=True, max_length=9)["input_ids"]
    assert [row.tolist() for row in tokens.take(range(len(tokens)))] == expected
    assert {len(row) == 9 for row in expected} == {True, False}


def test_second_time_the_cache_is_used_and_content_decides(tmp_path, tokenizer, monkeypatch):
    path = write(tmp_path / "s.txt", b"one\n\ntwo")
    first = tokenize(path, tokenizer, 9)
    with monkeypatch.context() as patch:
        patch.setattr(tokens_module, "_write", None)
        tokenizer("a call that sets truncation and padding", truncation=True, padding="max_length")
        moved = tokenize(path.rename(tmp_path / "moved.txt"), tokenizer, 9)
        assert np.array_equal(moved.ids, first.ids)
        assert moved.notes == "2 rows; 1 blank lines skipped"
    path.write_bytes(b"one\ntwo\nthree")
    assert len(tokenize(path, tokenizer, 9)) == 3
    assert len(tokenize(path, tokenizer, 4)) == 3
    assert len(list((cache_folder() / "tokens").iterdir())) == 3


def test_one_of_several_that_start_together_tokenises(sentences, tokenizer, monkeypatch):
    """By locks of files, which threads and processes heed alike."""
    readings = []

    write_tokens = tokens_module._write

    def slowly(*arguments):
        readings.append(arguments)
        time.sleep(0.2)
        return write_tokens(*arguments)

    monkeypatch.setattr(tokens_module, "_write", slowly)
    with ThreadPoolExecutor(4) as pool:
        tokens_of_threads = list(pool.map(lambda _: tokenize(sentences, tokenizer, 9), range(4)))
    assert len(readings) == 1
    assert all(np.array_equal(tokens.ids, tokens_of_threads[0].ids) for tokens in tokens_of_threads)


def test_a_cache_that_is_incomplete_is_made_anew(sentences, tokenizer):
    expected = np.array(tokenize(sentences, tokenizer, 9).ids)
    (cached,) = (cache_folder() / "tokens").iterdir()
    ids = next(cached.glob("ids-0.*"))
    ids.write_bytes(ids.read_bytes()[:-10])
    assert np.array_equal(tokenize(sentences, tokenizer, 9).ids, expected)
    # As a killed process leaves it.
    partial = cached.rename(cached.with_name(f".partial-{cached.name}-abc"))
    tokenize(sentences, tokenizer, 9)
    assert list((cache_folder() / "tokens").iterdir()) == [cached]
    assert not partial.exists()


def test_a_damaged_cache_is_made_anew(sentences, tokenizer):
    """Whichever of its files is damaged, and however: never other tokens, never an error."""
    intact = tokenize(sentences, tokenizer, 9)
    expected = np.array(intact.ids)
    (cached,) = (cache_folder() / "tokens").iterdir()
    for name in sorted(path.name for path in cached.iterdir()):
        for title, content in damaged_files((cached / name).read_bytes(), count=12):
            (cached / name).write_bytes(content)
            tokens = tokenize(sentences, tokenizer, 9)
            assert np.array_equal(tokens.ids, expected), (name, title)
            assert (len(tokens), tokens.notes) == (50, intact.notes), (name, title)
    # A file in place of the folder, and an empty folder.
    shutil.rmtree(cached)
    cached.write_bytes(b"")
    assert np.array_equal(tokenize(sentences, tokenizer, 9).ids, expected)
    shutil.rmtree(cached)
    cached.mkdir()
    assert np.array_equal(tokenize(sentences, tokenizer, 9).ids, expected)


def test_a_lock_that_is_never_released_does_not_keep_a_file_from_training(
    sentences, tokenizer, monkeypatch
):
    from filelock import FileLock

    monkeypatch.setattr(tokens_module, "PATIENCE", 0.0)
    tokenize(sentences, tokenizer, 9)
    (cached,) = (cache_folder() / "tokens").iterdir()
    lock = cache_folder() / "locks" / cached.name
    shutil.rmtree(cached)
    with FileLock(lock):  # of a process that hangs
        assert len(tokenize(sentences, tokenizer, 9)) == 50
    shutil.rmtree(cached)
    lock.unlink(missing_ok=True)
    lock.mkdir()
    assert len(tokenize(sentences, tokenizer, 9)) == 50


def test_the_share_of_texts_that_are_cut_is_said(sentences, tokenizer):
    lengths = [len(ids) for ids in tokenizer(SENTENCES)["input_ids"]]
    length = sorted(lengths)[len(lengths) // 2]
    cut = sum(count > length for count in lengths)
    assert 0 < cut < sum(count >= length for count in lengths)
    notes = tokenize(sentences, tokenizer, length).notes
    assert f"{100 * cut / 50:.1f}% of the texts in 'sentence' are cut at {length} tokens" in notes


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\n  \n", "holds no sentence"),
        (b"fine\n" * 5000 + b"\xff", "row 5001"),
        (b"one", "No space left"),
    ],
)
def test_what_fails_leaves_no_cache(tmp_path, tokenizer, monkeypatch, content, message):
    def full(*_):
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(tokens_module.np, "save", full)
    with pytest.raises(GradlabError, match=message):
        tokenize(write(tmp_path / "s.txt", content), tokenizer, 9)
    assert not list(cache_folder().rglob("*.*"))


def make_bare_tokenizer():
    """One that adds no token to a sentence."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    bare = Tokenizer(models.WordLevel({"[UNK]": 0, "one": 1}, unk_token="[UNK]"))
    bare.normalizer = normalizers.BertNormalizer()
    bare.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=bare, unk_token="[UNK]", pad_token="[UNK]")


def test_sentences_without_a_token_are_left_out(tmp_path):
    tokenizer = make_bare_tokenizer()
    tokens = tokenize(write(tmp_path / "s.txt", "one\n\u200b\none one".encode()), tokenizer, 9)
    assert [row.tolist() for row in tokens.take(range(len(tokens)))] == [[1], [1, 1]]
    assert tokens.notes == "3 rows; 1 row without a token left out"


def test_pairs_that_lack_tokens_in_different_rows_are_refused(tmp_path):
    """Each column keeps two sentences, and they do not belong together."""
    table = write(tmp_path / "pairs.csv", "a,b\none,one\n\u200b,one\none,\u200b\n".encode())
    with pytest.raises(
        GradlabError, match="column 'a' has no tokens in the row of 'one'; remove the row"
    ):
        file = TrainingFile.open(table, Roles("a", "b"))
        tokens_module.tokenize(file, make_bare_tokenizer(), 9)


def test_held_out_rows_are_drawn_by_seed():
    train, held_out = split_held_out(1000, 0.1, seed=3)
    assert len(held_out) == 100
    assert sorted([*train, *held_out]) == list(range(1000))
    assert np.array_equal(held_out, split_held_out(1000, 0.1, seed=3)[1])
    assert not np.array_equal(held_out, split_held_out(1000, 0.1, seed=4)[1])


def test_every_epoch_is_a_new_order_of_all_rows():
    rows = np.arange(100, 130)
    order = BatchOrder(rows, 8, seed=1)
    epochs = [np.concatenate([order[k] for k in range(start, start + 3)]) for start in (0, 3)]
    for epoch in epochs:
        assert len(set(epoch)) == 24
        assert set(epoch) <= set(rows)
    assert not np.array_equal(*epochs)
    # Any batch can be asked for first.
    assert np.array_equal(BatchOrder(rows, 8, seed=1)[4], order[4])


@pytest.mark.parametrize("tokens", [1, 20, 10**6])
def test_chunks_of_tokens_go_to_a_device_as_one_tensor(tokens):
    generator = np.random.default_rng(0)
    sequences = [generator.integers(5, 99, generator.integers(1, 13)) for _ in range(11)]
    packed = pack(sequences, padding=0, tokens=tokens)
    for group in packed.groups:
        assert group.input_ids.numel() <= tokens or len(group.input_ids) == 1
        assert group.padded == (not group.attention_mask.all())
    widths = [group.input_ids.shape[1] for group in packed.groups]
    assert widths == sorted(widths, reverse=True)
    for group, following in itertools.pairwise(packed.groups):
        assert (len(group.input_ids) + 1) * group.input_ids.shape[1] > tokens, following
    flat = torch.cat([tensor.flatten() for tensor in packed._tensors()])
    moved = packed._with_entries(flat)
    assert [group.padded for group in moved.groups] == [group.padded for group in packed.groups]
    for tensor, expected in zip(moved._tensors(), packed._tensors(), strict=True):
        assert torch.equal(tensor, expected)
    assert packed.to(torch.device("meta")).order.device.type == "meta"


@pytest.mark.parametrize("groups", [1, 2, 5])
@pytest.mark.parametrize("multiple", [1, 8])
def test_groups_hold_every_sequence_once_with_least_padding(groups, multiple):
    generator = np.random.default_rng(groups)
    sequences = [generator.integers(5, 99, generator.integers(1, 13)) for _ in range(11)]
    packed = pack(sequences, padding=0, groups=groups, multiple=multiple)
    rows = []
    for group in packed.groups:
        rows += [
            row[mask.bool()]
            for row, mask in zip(group.input_ids, group.attention_mask, strict=True)
        ]
        assert int(group.input_ids[~group.attention_mask.bool()].sum()) == 0
    for sequence, place in zip(sequences, packed.order, strict=True):
        assert rows[place].tolist() == sequence.tolist()
    lengths = sorted(-(-len(sequence) // multiple) * multiple for sequence in sequences)
    best = min(
        sum((end - start) * lengths[end - 1] for start, end in itertools.pairwise([0, *cuts, 11]))
        for number in range(groups)
        for cuts in itertools.combinations(range(1, 11), number)
    )
    assert sum(group.input_ids.numel() for group in packed.groups) == best
