"""The real evaluation sets and the small BERT; skipped without ``shared/`` beside the checkout."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cosine
from scipy.stats import spearmanr
from test_evaluate_sts import STS_TASKS, assert_agrees
from test_evaluate_transfer import (
    FOLDS,
    TRANSFER_TASKS,
    Plain,
    by_loops,
    encode,
    evaluate,
    load_transfer,
    parse,
)
from transformers import AutoModel, AutoTokenizer

from gradlab.encoder.model import Encoder
from gradlab.evaluate import stsb_dev

SHARED = Path(__file__).resolve().parents[2] / "shared"
SENTEVAL = SHARED / "data" / "senteval"
PAIRS = dict(zip(STS_TASKS, (3108, 1500, 3750, 3000, 1186, 1379, 4927), strict=True))
EXAMPLES = {
    "MR": 10662,
    "CR": 3775,
    "SUBJ": 10000,
    "MPQA": 10606,
    "SST-2": 67349,
    "TREC": 5452,
    "MRPC": 4076,
}

pytestmark = pytest.mark.skipif(
    not SENTEVAL.is_dir(), reason="there is no shared data beside the checkout"
)


@pytest.mark.parametrize("task", STS_TASKS)
def test_similarity_agrees(task: str) -> None:
    assert assert_agrees(SENTEVAL, task, "test")["pairs"] == PAIRS[task]


@pytest.mark.parametrize("task", TRANSFER_TASKS)
def test_order_of_the_examples(task: str) -> None:
    expected, splits = parse(SENTEVAL, task), load_transfer(SENTEVAL, task).splits
    assert len(splits["train"].texts) == EXAMPLES[task]
    for split, (texts, labels) in expected.items():
        assert splits[split].texts == texts
        np.testing.assert_array_equal(splits[split].labels, labels)


def test_cr_against_plain_loops() -> None:
    expected = by_loops(parse(SENTEVAL, "CR"), Plain(), tuple(2.0**t for t in range(-2, 4)))
    scores = evaluate(encode, SENTEVAL, "CR", folds=FOLDS, progress=False).scores["CR"]
    for score in ("acc", "devacc"):
        assert scores[score] == pytest.approx(expected[score], abs=2 / 3775)


def test_untuned_small_bert(tmp_path: Path) -> None:
    """The first 100 pairs, against transformers and scipy alone."""
    model, file = SHARED / "models/tinybert-4l-312d", SENTEVAL / "STS/STSBenchmark/sts-dev.csv"
    lines = file.read_text(encoding="utf-8").splitlines()[:100]
    (tmp_path / "sts-dev.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    tokenizer, bert = AutoTokenizer.from_pretrained(model), AutoModel.from_pretrained(model).eval()
    cells = [line.split("\t") for line in lines]
    with torch.no_grad():
        u, v = (
            [
                bert(**tokenizer(cell[at], return_tensors="pt")).last_hidden_state[0, 0]
                for cell in cells
            ]
            for at in (5, 6)
        )
    similar = [1 - cosine(a, b) for a, b in zip(u, v, strict=True)]
    expected = spearmanr(similar, [float(cell[4]) for cell in cells]).statistic
    assert stsb_dev(Encoder.load(model, pooler="cls"), tmp_path / "sts-dev.csv") == pytest.approx(
        expected, abs=1e-3
    )
