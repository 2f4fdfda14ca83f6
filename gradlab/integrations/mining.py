"""Hard negatives of sentence-transformers' positive-aware mining, and their effect on gradients."""

from __future__ import annotations

import contextlib
import inspect
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from gradlab.encoder.model import Encoder, check_loads
from gradlab.errors import GradlabError, check_whole
from gradlab.evaluate.embed import Embedder, as_encode
from gradlab.files import write_csv
from gradlab.inspection import find_false_negatives
from gradlab.inspection.words import looks_like_a_positive
from gradlab.losses.base import Loss
from gradlab.losses.registry import get_loss
from gradlab.monitor.library_versions import require
from gradlab.waiting import no_bars_of_datasets

require("sentence-transformers")

if TYPE_CHECKING:
    from datasets import Dataset
    from sentence_transformers import SentenceTransformer

# Shares of the positive's similarity to compare; NV-Retriever (Moreira et al. 2024) takes .95.
SHARES = (0.9, 0.95, 1.0)
# Number of nearest texts that are searched for each anchor.
LOOKED_AT = 100
# Number of rows on which the gradient is measured.
MEASURED = 2000


@dataclass(frozen=True)
class Choice:
    """Result of one limit on the similarity of hard negatives.

    Attributes:
        share: largest similarity of a hard negative, relative to the positive's; None for no limit.
        rows: (anchor, positive, hard negatives ...) of the anchors with enough hard negatives.
        false: number of rows with a hard negative whose words say the same as anchor or positive.
        push: share of all push that the hard negatives receive in batches of these rows.
    """

    share: float | None
    rows: list[tuple[str, ...]]
    false: int
    push: float


@dataclass(frozen=True)
class Mined:
    """Mined hard negatives, and the results of other limits.

    Attributes:
        rows: rows as in `Choice`, without those that have a false hard negative.
        choices: results of the limits that were compared, the strictest first.
        share: the limit that was asked for.
    """

    rows: list[tuple[str, ...]]
    choices: list[Choice]
    share: float | None

    def write(self, path: str | Path, names: Sequence[str] = ("anchor", "positive")) -> Path:
        """Write a CSV file with the columns anchor, positive, negative_1, negative_2 and so on."""
        columns = [*names, *(f"negative_{place}" for place in range(1, len(self.rows[0]) - 1))]
        table = dict(zip(columns, zip(*self.rows, strict=True), strict=True))
        return write_csv(path, table, exact=True)  # training data


class _Embedded(Embedder):
    """A model for `mine_hard_negatives` that encodes each text once."""

    device = "cpu"
    model_card_data = SimpleNamespace(base_model=None)

    def encode(self, texts: Sequence[str], **options: Any) -> NDArray[np.float32]:
        rows = self(texts).astype(np.float32)
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    encode_query = encode_document = encode

    def similarity(self, first: Any, second: Any) -> torch.Tensor:
        return torch.as_tensor(first) @ torch.as_tensor(second).T

    def similarity_pairwise(self, first: Any, second: Any) -> torch.Tensor:
        return (torch.as_tensor(first) * torch.as_tensor(second)).sum(1)


def mine(
    model: str | Encoder | SentenceTransformer,
    anchors: Sequence[str],
    positives: Sequence[str],
    *,
    share: float | None = 0.95,
    negatives: int = 1,
    corpus: Sequence[str] | None = None,
    loss: str | Loss = "infonce",
    batch_size: int = 64,
    max_length: int | None = None,
    pooler: str | None = None,
    device: str = "auto",
    progress: bool = False,
) -> Mined:
    """Mine hard negatives that are clearly less similar to the anchor than its positive.

    This calls ``sentence_transformers.util.mine_hard_negatives`` with ``relative_margin``. Rows
    with a hard negative that says the same as the anchor or positive by its words are left out.

    Args:
        model: an encoder's folder or hub name, an `Encoder` or a ``SentenceTransformer``.
        anchors: N texts.
        positives: N texts.
        share: largest similarity of a hard negative, relative to the positive's; None for no limit.
        negatives: hard negatives of each anchor; anchors with fewer are left out.
        corpus: texts to search besides the positives.
        loss: the loss whose push is measured.
        batch_size: sentences that meet in one loss.
        max_length, pooler, device: for a model given by name; see
            `gradlab.encoder.model.Encoder.load`.
        progress: show progress.

    Raises:
        GradlabError: no hard negatives found, or texts and settings that do not fit.
    """
    from datasets import Dataset

    if share is not None and not 0 < share <= 1:
        raise GradlabError(f"share must lie above 0 and at most at 1, or be None, not {share}")
    if len(anchors) != len(positives) or not len(anchors):
        raise GradlabError(
            f"{len(anchors)} anchors and {len(positives)} positives; each anchor needs one"
        )
    check_whole("negatives", negatives, 1)
    if check_loads(model, pooler=pooler, max_length=max_length, device=device):
        model = Encoder.load(model, pooler, max_length=max_length, device=device)
    embedded = _Embedded(as_encode(model), title="Encoding" if progress else "")
    loss, corpus = get_loss(loss), None if corpus is None else list(corpus)
    pairs = Dataset.from_dict({"anchor": list(anchors), "positive": list(positives)})
    choices: list[Choice] = []
    rows: list[tuple[str, ...]] = []
    for limit in (*sorted({*SHARES, share or 1.0}), None):
        candidates = _search(embedded, pairs, corpus, negatives, limit)
        sound = [row for row in candidates if not _is_false(row)]
        push = _push(embedded, loss, batch_size, candidates)
        choices.append(Choice(limit, candidates, len(candidates) - len(sound), push))
        if limit == share:
            rows = sound
    if not rows:
        raise GradlabError(
            f"of the nearest texts none is at most {share} as similar to its anchor as the "
            "positive; take an encoder that is tuned for similarity, a larger share, or give a "
            "corpus"
        )
    return Mined(rows, choices, share)


def _search(
    embedded: _Embedded,
    pairs: Dataset,
    corpus: list[str] | None,
    negatives: int,
    share: float | None,
) -> list[tuple[str, ...]]:
    """Return rows as in `Choice`."""
    from sentence_transformers.util import mine_hard_negatives

    if "relative_margin" not in inspect.signature(mine_hard_negatives).parameters:
        raise GradlabError(
            "mining needs sentence-transformers 4.1 or newer; pip install -U sentence-transformers"
        )
    # Hides the library's short-lived progress bars.
    with no_bars_of_datasets(), contextlib.redirect_stderr(io.StringIO()):
        dataset = mine_hard_negatives(
            pairs,
            embedded,  # type: ignore[arg-type]  # only its encoding is used
            anchor_column_name="anchor",
            positive_column_name="positive",
            corpus=corpus,
            relative_margin=None if share is None else 1 - share,
            range_max=max(LOOKED_AT, 10 * negatives),
            num_negatives=negatives,
            output_format="n-tuple",
            verbose=False,
        )
    return list(zip(*(dataset[name] for name in dataset.column_names), strict=True))


def _is_false(row: tuple[str, ...]) -> bool:
    anchor, positive, *hard = row
    return any(looks_like_a_positive(text, anchor, positive) for text in hard)


def _push(embedded: _Embedded, loss: Loss, batch_size: int, rows: list[tuple[str, ...]]) -> float:
    """Return `Choice.push` on some of the rows, from embeddings without dropout."""
    sample = rows[:: max(1, len(rows) // MEASURED)]
    if len(sample) < 2:
        return float("nan")
    anchors, positives, *hard = (embedded.encode(column) for column in zip(*sample, strict=True))
    vectors = {"anchors": anchors, "positives": positives, "hard_negatives": hard}
    inspection = find_false_negatives(embeddings=vectors, loss=loss, batch_size=batch_size)
    return float(inspection.numbers["hard_negatives_share"])
