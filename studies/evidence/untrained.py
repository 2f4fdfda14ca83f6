"""What needs no training: the encoder as it is, and whitened."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gradlab.batch import unit_rows
from gradlab.encoder import Encoder
from gradlab.evaluate import evaluate, stsb_dev

Encode = Callable[[Sequence[str]], Any]
POOLERS = ("cls", "first_last")


def whitening(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean (D,) and matrix (D, D) such that ``(rows - mean) @ matrix`` has no correlation.

    Rows are (N, D) embeddings, N > D. See Su et al. 2021.
    """
    mean = rows.mean(0)
    variance, directions = np.linalg.eigh(np.cov(rows - mean, rowvar=False))
    return mean, directions / np.sqrt(variance)


def score_untrained(
    model: str, sentences: Sequence[str], sts: str | Path
) -> Iterator[dict[str, Any]]:
    """STS-B dev, the seven STS sets and their average (-1 to 1), a row for each pooler.

    Scores are without and with whitening.

    Args:
        model: the encoder, a folder or a hub name.
        sentences: unlabelled sentences that the whitening is fitted on.
        sts: SentEval's ``data/downstream``.
    """
    for pooler in POOLERS:
        encoder = Encoder.load(model, pooler)
        fitted = whitening(np.asarray(encoder.encode(list(sentences)), dtype=float))
        whitened = functools.partial(_whitened, encoder, *fitted)
        encodings: dict[str, Encode] = {"as it is": encoder.encode, "whitened": whitened}
        for name, encode in encodings.items():
            result = evaluate(encode, sts, "sts", progress=False)
            average = result.averages["sts"]
            yield {
                "label": f"{pooler}, {name}",
                "stsb_dev": stsb_dev(encode, sts),
                "sts": average,
            } | result.sts


def _whitened(
    encoder: Encoder, mean: np.ndarray, matrix: np.ndarray, texts: Sequence[str]
) -> np.ndarray:
    rows: np.ndarray = unit_rows(
        (np.asarray(encoder.encode(list(texts)), dtype=float) - mean) @ matrix
    )
    return rows
