"""Tiny folders in the layout of SentEval's data/downstream, real oddities included, and of BEIR."""

from __future__ import annotations

import functools
import json
import random
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

WORDS = [
    a + b
    for a in ("ba", "de", "fi", "go", "lu", "ma", "ne", "pi", "ro", "su")
    for b in ("", "k", "m", "t")
]
SUBSETS = {
    "STS12": ("MSRpar", "MSRvid", "SMTeuroparl", "surprise.OnWN", "surprise.SMTnews"),
    "STS13": ("FNWN", "headlines", "OnWN"),
    "STS14": ("deft-forum", "deft-news", "headlines", "images", "OnWN", "tweet-news"),
    "STS15": ("answers-forums", "answers-students", "belief", "headlines", "images"),
    "STS16": ("answer-answer", "headlines", "plagiarism", "postediting", "question-question"),
}
TREC_CLASSES = ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM")


def encode(sentences: list[str]) -> NDArray[np.float32]:
    """Weighted sum of a random vector a word, (n, 12): sees shared words, and order a little."""
    return np.stack(
        [
            np.sum([_vector(w) / (3 + i) for i, w in enumerate(s.split() or [""])], axis=0)
            for s in sentences
        ]
    )


@functools.cache
def _vector(word: str) -> NDArray[np.float32]:
    return np.random.default_rng(zlib.crc32(word.encode())).standard_normal(12, dtype=np.float32)


def make_senteval(folder: Path, labelled: int = 48) -> Path:
    """Write all fourteen tasks into ``folder``; transfer tasks have 12 examples or more a class."""
    draw = random.Random(0)
    for year, subsets in SUBSETS.items():
        for subset in subsets:
            _write_year(folder / "STS" / f"{year}-en-test", subset, draw)
    benchmark = folder / "STS" / "STSBenchmark"
    for split, extra in (("train", ""), ("dev", ""), ("test", "\tsource\tlicence")):
        rows = [
            f"genre\tfile\t2012\t{place:04d}\t{gold:.3f}\t{first}\t{second}{extra}"
            for place, (first, second, gold) in enumerate(_pairs(draw, 30))
        ]
        # An unpaired quote, two spaces.
        rows[3] = rows[3].replace("file\t", 'fi"le\t').replace(" ", '  "', 1)
        _write(benchmark / f"sts-{split}.csv", rows)
    header = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment"
    for name, end in (("train", "\n"), ("trial", "\n"), ("test_annotated", "\r\n")):
        rows = [
            f"{i}\t{a}\t{b}\t{1 + 0.8 * gold:.1f}\tNEUTRAL"
            for i, (a, b, gold) in enumerate(_pairs(draw, 30))
        ]
        _write(folder / "SICK" / f"SICK_{name}.txt", [header, *rows], end)
    _write_two(
        folder / "MR", "rt-polarity.pos", "rt-polarity.neg", draw, labelled, odd="caf\xe9 \x96 "
    )
    _write_two(folder / "CR", "custrev.pos", "custrev.neg", draw, labelled, odd="")
    _write_two(
        folder / "SUBJ", "subj.objective", "subj.subjective", draw, labelled, odd="tab\tbed "
    )
    _write_two(folder / "MPQA", "mpqa.pos", "mpqa.neg", draw, labelled, odd="tw\xc3\xa0 ")
    for split, count in (("train", 2 * labelled), ("dev", labelled), ("test", labelled)):
        rows = [f"{_sentence(draw, place % 2)} \t{place % 2}" for place in range(count)]
        _write(folder / "SST" / "binary" / f"sentiment-{split}", rows)
    for name, count in (("train_5500", 3 * labelled), ("TREC_10", labelled)):
        rows = [f"{TREC_CLASSES[i % 6]}:fine {_sentence(draw, i % 6)} ?" for i in range(count)]
        rows[0] += " na\xefve"
        _write(folder / "TREC" / f"{name}.label", rows, encoding="latin-1")
    for split in ("train", "test"):
        rows = []
        for place in range(2 * labelled):
            first, second, gold = _pair(draw)
            noisy = int(gold + draw.gauss(0, 1) > 2.5)
            rows.append(f"{noisy}\t{place}\t{place}\t{first}\t{second}")
        header = "﻿Quality\t#1 ID\t#2 ID\t#1 String\t#2 String"
        _write(folder / "MRPC" / f"msr_paraphrase_{split}.txt", [header, *rows])
    return folder


def make_retrieval(folder: Path, sentences: list[str]) -> Path:
    """Write a task in BEIR's layout: 20 documents, four queries, one with a relevant document."""
    (folder / "qrels").mkdir(parents=True)
    for name, texts in (("corpus", sentences[:20]), ("queries", sentences[20:24])):
        rows = [
            json.dumps({"_id": f"{name}{place}", "text": text}) for place, text in enumerate(texts)
        ]
        _write(folder / f"{name}.jsonl", rows)
    for split in ("dev", "test"):
        _write(folder / "qrels" / f"{split}.tsv", ["q\td\tscore", "queries0\tcorpus3\t1"])
    return folder


def _pair(draw: random.Random) -> tuple[str, str, float]:
    """Two sentences of 4 to 8 words, and the share of them in common, times 5, with noise."""
    length = draw.randint(4, 8)
    first = draw.sample(WORDS, length)
    common = draw.randint(0, length)
    second = first[:common] + draw.sample(WORDS, length - common)
    return (
        " ".join(first),
        " ".join(second),
        min(5.0, max(0.0, 5 * common / length + draw.gauss(0, 0.5))),
    )


def _pairs(draw: random.Random, count: int) -> list[tuple[str, str, float]]:
    return [_pair(draw) for _ in range(count)]


def _sentence(draw: random.Random, group: int) -> str:
    """3 to 9 words, rather from one part of the vocabulary for each group; the groups overlap."""
    own = WORDS[6 * group : 6 * group + 8]
    return " ".join(
        draw.choice(own if draw.random() < 0.4 else WORDS) for _ in range(draw.randint(3, 9))
    )


def _write_year(folder: Path, subset: str, draw: random.Random) -> None:
    pairs = _pairs(draw, draw.randint(14, 24))
    pairs[0] = (pairs[0][0], pairs[0][0], 5.0)
    pairs[1] = (pairs[1][1], pairs[1][1], 5.0)
    _write(folder / f"STS.input.{subset}.txt", [f"{first}\t{second}" for first, second, _ in pairs])
    # Every fifth pair was never scored.
    _write(
        folder / f"STS.gs.{subset}.txt",
        ["" if i % 5 == 4 else f"{p[2]:.2f}" for i, p in enumerate(pairs)],
    )


def _write_two(
    folder: Path, file_of_ones: str, file_of_zeros: str, draw: random.Random, count: int, odd: str
) -> None:
    for name, group in ((file_of_ones, 1), (file_of_zeros, 0)):
        rows = [_sentence(draw, group) for _ in range(count + 3 * group)]
        rows[2] = odd and odd + rows[2]  # without an oddity, a blank line
        _write(folder / name, rows, encoding="latin-1")


def _write(file: Path, rows: list[str], end: str = "\n", encoding: str = "utf-8") -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes("".join(row + end for row in rows).encode(encoding))
