"""Files, tokens and batches: what is read, what is refused, and that grouping by length changes nothing."""

from __future__ import annotations

import bz2
import gzip
import itertools
import json
import lzma
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch

from gradlab import GradlabError
from gradlab.train import tokens as tokens_module
from gradlab.train.batches import BatchOrder, pack, split_held_out
from gradlab.train.sentences import LONGEST, Skipped, read_sentences
from gradlab.train.tokens import cache_folder, tokenize
from tests.tiny_models import make_bert, make_roberta, make_sentences

SENTENCES = make_sentences(50, seed=5)


@pytest.fixture(autouse=True)
def _cache(tmp_path, monkeypatch):
    monkeypatch.setenv("GRADLAB_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture(scope="module", params=["bert", "roberta"])
def tokenizer(request, tmp_path_factory):
    from transformers import AutoTokenizer

    make = {"bert": make_bert, "roberta": make_roberta}[request.param]
    return AutoTokenizer.from_pretrained(make(tmp_path_factory.mktemp(request.param)))


def write(path: Path, content: bytes) -> Path:
    opener = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}.get(path.suffix, open)
    with opener(path, "wb") as file:
        file.write(content)
    return path


@pytest.mark.parametrize("ending", ["", ".txt", ".txt.gz", ".txt.xz", ".xz", ".txt.bz2"])
def test_text_of_every_compression(tmp_path, ending):
    path = write(tmp_path / f"sentences{ending}", "\n".join(SENTENCES).encode())
    assert list(read_sentences(path)) == SENTENCES


@pytest.mark.parametrize("ending", ["jsonl", "jsonl.gz", "csv", "csv.xz", "tsv", "parquet"])
def test_tables_give_their_column(tmp_path, ending):
    import pandas

    awkward = ['quoted "words", and a comma', *SENTENCES, "Zürich – naïve"]
    frame = pandas.DataFrame({"number": range(len(awkward)), "text": awkward})
    path = tmp_path / f"table.{ending}"
    if "json" in ending:
        write(path, "\n".join(json.dumps(row) for row in frame.to_dict("records")).encode())
    elif "csv" in ending:
        write(path, frame.to_csv(index=False).encode())
    elif "tsv" in ending:
        write(path, "".join(f"{row.number}\t{row.text}\n" for row in [frame.columns.to_frame().T.iloc[0], *frame.itertuples()]).encode())  # fmt: skip
    else:
        frame.to_parquet(path)
    assert list(read_sentences(path)) == awkward
    assert list(read_sentences(path, "text")) == awkward
    with pytest.raises(GradlabError, match=r"no column 'texts'; it has number, text"):
        list(read_sentences(path, "texts"))


def test_blank_lines_and_byte_order_mark_are_left_out(tmp_path):
    skipped = Skipped()
    path = write(tmp_path / "s.txt", "\ufefffirst\r\n\n  \t\nsecond  \n\n".encode())
    assert list(read_sentences(path, skipped=skipped)) == ["first", "second"]
    assert skipped.message() == "skipped 3 blank lines"


def test_very_long_line_is_cut_and_counted(tmp_path):
    skipped = Skipped()
    path = write(tmp_path / "s.txt", ("é" * (20 * LONGEST) + "\nafter\n" + "b" * (LONGEST + 1)).encode())
    found = list(read_sentences(path, skipped=skipped))
    assert [len(sentence) for sentence in found] == [LONGEST, len("after"), LONGEST]
    assert set(found[0]) == {"é"}
    assert skipped.message() == f"cut 2 sentences longer than {LONGEST:,} characters"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", b"fine\ncaf\xe9\n", "line 2: byte 0xe9 is not utf-8.*latin-1"),
        ("a.csv", b"text\nfine\ncaf\xe9\n", "line 3: byte 0xe9 is not utf-8"),
        ("a.jsonl", b'{"text": "x"}\n{"text"', "line 2: not JSON"),
        ("a.jsonl", b'{"text": 3}\n', "line 1: 'text' is not a string"),
        ("a.csv", b"one,two\n1,2\n", "has the columns one, two; name the one"),
        ("a.csv", b"text,two\n1,2\n\n", None),
        ("b.csv", b"one,text\n1,2\nlonely\n", "line 3: 1 columns where the header has 2"),
        ("a.parquet", b"PAR1 nothing of the kind", "not a Parquet file"),
        ("a.txt.xz", None, "damaged"),
        ("a.txt.gz", None, "damaged"),
    ],
)
def test_damaged_files_are_explained(tmp_path, name, content, message):
    path = tmp_path / name
    if content is None:
        write(path, "\n".join(SENTENCES * 20).encode())
        path.write_bytes(path.read_bytes()[:-40])
    else:
        path.write_bytes(content)
    if message is None:
        assert list(read_sentences(path)) == ["1"]
        return
    with pytest.raises(GradlabError, match=message) as caught:
        list(read_sentences(path))
    assert "\n" not in str(caught.value)


def test_half_a_character_in_json_is_refused_with_its_line(tmp_path):
    path = write(tmp_path / "a.jsonl", b'{"text": "whole \\ud83d\\ude00"}\n{"text": "half \\ud83d"}\n')
    sentences = read_sentences(path)
    assert next(sentences) == "whole 😀"
    with pytest.raises(GradlabError, match="line 2: half of a surrogate pair"):
        next(sentences)


def test_tokens_equal_those_of_transformers(tmp_path, tokenizer):
    path = write(tmp_path / "s.txt", "\n".join(SENTENCES).encode())
    tokens = tokenize(path, tokenizer, 9)
    expected = tokenizer(SENTENCES, truncation=True, max_length=9)["input_ids"]
    assert [row.tolist() for row in tokens.take(range(len(tokens)))] == expected
    assert max(map(len, expected)) == 9
    assert min(map(len, expected)) < 9


def test_second_time_the_cache_is_used_and_content_decides(tmp_path, tokenizer, monkeypatch):
    path = write(tmp_path / "s.txt", b"one\n\ntwo")
    first = tokenize(path, tokenizer, 9)
    with monkeypatch.context() as patch:
        patch.setattr(tokens_module, "_write", None)
        tokenizer("a call that sets truncation and padding", truncation=True, padding="max_length")
        again = tokenize(path, tokenizer, 9)
        assert np.array_equal(again.ids, first.ids)
        assert again.notes == "skipped 1 blank lines"
        moved = write(tmp_path / "other.txt", b"one\n\ntwo")
        assert len(tokenize(moved, tokenizer, 9)) == 2
    path.write_bytes(b"one\ntwo\nthree")
    assert len(tokenize(path, tokenizer, 9)) == 3
    assert len(tokenize(path, tokenizer, 4)) == 3
    assert len(list((cache_folder() / "tokens").iterdir())) == 3


def test_one_of_several_that_start_together_tokenises(tmp_path, tokenizer, monkeypatch):
    path = write(tmp_path / "a.txt", "\n".join(SENTENCES).encode())
    readings = []

    def slowly(*arguments):
        readings.append(arguments)
        time.sleep(0.2)
        return read_sentences(*arguments)

    monkeypatch.setattr(tokens_module, "read_sentences", slowly)
    with ThreadPoolExecutor(
        4
    ) as pool:  # locks are held by handles of the file, threads' and processes' alike
        found = list(pool.map(lambda _: tokenize(path, tokenizer, 9), range(4)))
    assert len(readings) == 1
    assert all(np.array_equal(tokens.ids, found[0].ids) for tokens in found)


def test_what_a_killed_process_left_in_the_cache_is_deleted(tmp_path, tokenizer):
    path = write(tmp_path / "a.txt", "\n".join(SENTENCES).encode())
    tokenize(path, tokenizer, 9)
    (cached,) = (cache_folder() / "tokens").iterdir()
    partial = cached.rename(cached.with_name(f".partial-{cached.name}-abc"))
    tokenize(path, tokenizer, 9)
    assert cached.is_dir()
    assert not partial.exists()


def test_incomplete_cache_is_made_anew(tmp_path, tokenizer):
    path = write(tmp_path / "s.txt", "\n".join(SENTENCES).encode())
    expected = np.array(tokenize(path, tokenizer, 9).ids)
    ids = next((cache_folder() / "tokens").glob("*/ids.*"))
    ids.write_bytes(ids.read_bytes()[:-10])
    assert np.array_equal(tokenize(path, tokenizer, 9).ids, expected)


def test_empty_file_is_refused_and_leaves_no_cache(tmp_path, tokenizer):
    path = write(tmp_path / "s.txt", b"\n  \n")
    with pytest.raises(GradlabError, match="holds no sentence"):
        tokenize(path, tokenizer, 9)
    bad = write(tmp_path / "bad.txt", b"fine\n" * 5000 + b"\xff")
    with pytest.raises(GradlabError, match="line 5001"):
        tokenize(bad, tokenizer, 9)
    assert not list(cache_folder().rglob("*.*"))


def test_sentences_without_a_token_are_left_out(tmp_path):
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    bare = Tokenizer(models.WordLevel({"[UNK]": 0, "one": 1}, unk_token="[UNK]"))
    bare.normalizer = normalizers.BertNormalizer()
    bare.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=bare, unk_token="[UNK]", pad_token="[UNK]")
    path = write(tmp_path / "s.txt", "one\n\u200b\none one".encode())
    tokens = tokenize(path, tokenizer, 9)
    assert [row.tolist() for row in tokens.take(range(len(tokens)))] == [[1], [1, 1]]
    assert tokens.notes == "skipped 1 blank lines"


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
    with pytest.raises(GradlabError, match="30 training sentences do not fill a batch of 31"):
        BatchOrder(rows, 31, seed=1)


@pytest.mark.parametrize("groups", [1, 2, 3, 5])
@pytest.mark.parametrize("multiple", [1, 8])
def test_groups_hold_every_sequence_once_with_least_padding(groups, multiple):
    generator = np.random.default_rng(groups)
    sequences = [generator.integers(5, 99, generator.integers(1, 13)) for _ in range(11)]
    packed = pack(sequences, padding=0, groups=groups, multiple=multiple)
    rows = [row[mask.bool()] for group in packed.groups for row, mask in zip(group.input_ids, group.attention_mask, strict=True)]  # fmt: skip
    for sequence, place in zip(sequences, packed.order, strict=True):
        assert rows[place].tolist() == sequence.tolist()
    lengths = sorted(-(-len(sequence) // multiple) * multiple for sequence in sequences)
    best = min(
        sum((end - start) * lengths[end - 1] for start, end in itertools.pairwise([0, *cuts, 11]))
        for number in range(groups)
        for cuts in itertools.combinations(range(1, 11), number)
    )
    assert sum(group.input_ids.numel() for group in packed.groups) == best
    assert all(int(group.input_ids[~group.attention_mask.bool()].sum()) == 0 for group in packed.groups)


@pytest.mark.parametrize("make", [make_bert, make_roberta])
@pytest.mark.parametrize("pooler", ["cls", "mean", "first_last"])
def test_grouping_changes_no_embedding(tmp_path, make, pooler):
    from gradlab.encoder.model import Encoder

    encoder = Encoder.load(make(tmp_path / "model"), pooler)
    sequences = [np.array(encoder.tokenizer(sentence)["input_ids"]) for sentence in SENTENCES]
    with torch.no_grad():
        whole, grouped = (
            torch.cat([encoder(group.input_ids, group.attention_mask) for group in packed.groups])[
                packed.order
            ]
            for packed in (pack(sequences, encoder.tokenizer.pad_token_id, groups) for groups in (1, 3))
        )
        alone = torch.cat([encoder(torch.tensor(row)[None], torch.ones(1, len(row))) for row in sequences])
    torch.testing.assert_close(grouped, alone, rtol=0, atol=2e-6)  # float32 sums in another order
    torch.testing.assert_close(whole, alone, rtol=0, atol=2e-6)


def test_disk_full_while_caching_leaves_nothing(tmp_path, tokenizer, monkeypatch):
    path = write(tmp_path / "s.txt", b"one\ntwo")

    def full(*_):
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(tokens_module.np, "save", full)
    with pytest.raises(GradlabError, match="No space left on device"):
        tokenize(path, tokenizer, 9)
    assert not list((cache_folder() / "tokens").iterdir())
