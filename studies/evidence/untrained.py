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
from studies.statistics import Array

Encode = Callable[[Sequence[str]], Any]
POOLERS = ("cls", "first_last")


def whitening(rows: Array) -> tuple[Array, Array]:
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
        mean, matrix = whitening(np.asarray(encoder.encode(list(sentences)), dtype=float))
        whitened = functools.partial(_whitened, encoder, mean, matrix)
        encodings: dict[str, Encode] = {"as it is": encoder.encode, "whitened": whitened}
        for name, encode in encodings.items():
            result = evaluate(encode, sts, "sts", progress=False)
            about = {"label": f"{pooler}, {name}", "stsb_dev": stsb_dev(encode, sts)}
            yield about | {"sts": result.averages["sts"]} | result.sts


def _whitened(encoder: Encoder, mean: Array, matrix: Array, texts: Sequence[str]) -> Array:
    rows: Array = np.asarray(encoder.encode(list(texts)), dtype=float)
    return unit_rows((rows - mean) @ matrix)
