"""Hard negatives of sentence-transformers' positive-aware mining, and their effect on gradients."""

from __future__ import annotations

import contextlib
import inspect
import io
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from gradlab.encoder.files import check_place
from gradlab.encoder.model import Encoder, check_loads
from gradlab.errors import GradlabError, check_whole, reason
from gradlab.evaluate.embed import Embedder, as_encode
from gradlab.files import write_csv
from gradlab.inspection.inspecting import push_of_random_batches
from gradlab.inspection.same_meaning import looks_like_a_positive
from gradlab.inspection.vectors import ROUNDING
from gradlab.losses.base import Loss
from gradlab.losses.registry import get_loss
from gradlab.monitor.library_versions import require
from gradlab.progress_bars import no_bars_of_datasets, progress_bar

require("sentence-transformers")

if TYPE_CHECKING:
    from datasets import Dataset
    from sentence_transformers import SentenceTransformer

# Shares of the positive's similarity to compare; NV-Retriever (Moreira et al. 2024) takes .95.
SHARES = (0.8, 0.9, 0.95, 1.0)
# Candidates of each row that a judge sees, at least.
JUDGED = 20
# Number of nearest texts that are searched for each anchor.
LOOKED_AT = 100
_PAIRS = 256  # that a cross-encoder scores between two steps of the progress bar
# Number of rows on which the gradient is measured.
MEASURED = 2000


@dataclass(frozen=True)
class Choice:
    """Result of one limit on the similarity of hard negatives.

    Attributes:
        share: largest similarity of a hard negative, relative to the positive's; None for no limit.
        rows: (anchor, positive, hard negatives ...) of the anchors with enough hard negatives.
        false: number of rows with a hard negative whose words say the same as anchor or positive.
        refused: number of rows that have another hard negative, or none, because the judge refused
            the nearest; None without a judge.
        push: share of all push that the hard negatives receive in batches of these rows.
    """

    share: float | None
    rows: list[tuple[str, ...]]
    false: int
    push: float
    refused: int | None = None


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


def mine(
    model: str | Encoder | SentenceTransformer,
    anchors: Sequence[str],
    positives: Sequence[str],
    *,
    share: float | None = 0.9,
    negatives: int = 1,
    judge: Any = None,
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
    Similarities are cosines of embeddings less their mean.

    Args:
        model: an encoder's folder or hub name, an `Encoder` or a ``SentenceTransformer``. It need
            not be the one that is trained: a stronger one chooses fewer false negatives.
        anchors: N texts.
        positives: N texts.
        share: largest similarity of a hard negative, relative to the positive's; None for no limit.
        negatives: hard negatives of each anchor; anchors with fewer are left out.
        judge: a second model, for which a hard negative must also be at most ``share`` as similar
            as the positive; as ``model``, or a cross-encoder's folder, hub name or object.
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

    _check_pairs(anchors, positives, share, negatives)
    if check_loads(model, pooler=pooler, max_length=max_length, device=device):
        model = Encoder.load(model, pooler, max_length=max_length, device=device)
    embedded = _Embedded(model, "Encoding" if progress else "")
    loss, corpus = get_loss(loss), None if corpus is None else list(corpus)
    texts = [*anchors, *positives, *(corpus or [])]
    embedded.centre(texts)
    judging = None if judge is None else _load_judge(judge, texts, device, progress)
    pairs = Dataset.from_dict({"anchor": list(anchors), "positive": list(positives)})
    choices: list[Choice] = []
    rows: list[tuple[str, ...]] = []
    limits = (*sorted({*SHARES, share or 1.0}), None)
    for limit in progress_bar(limits, progress, desc="Limits"):
        candidates, refused = _candidates(embedded, judging, pairs, corpus, negatives, limit)
        sound = [row for row in candidates if not _is_false(row)]
        push = _push(embedded, loss, batch_size, candidates)
        false = len(candidates) - len(sound)
        choices.append(Choice(limit, candidates, false, push, refused))
        if limit == share:
            rows = sound
    if not rows:
        raise GradlabError(
            f"of the nearest texts none is at most {share} as similar to its anchor as the "
            "positive; take an encoder that is tuned for similarity, a larger share, or give a "
            "corpus"
        )
    return Mined(rows, choices, share)


def _check_pairs(
    anchors: Sequence[str], positives: Sequence[str], share: float | None, negatives: int
) -> None:
    if share is not None and not 0 < share <= 1:
        raise GradlabError(f"share must lie above 0 and at most at 1, or be None, not {share}")
    if len(anchors) != len(positives) or not len(anchors):
        raise GradlabError(
            f"{len(anchors)} anchors and {len(positives)} positives; each anchor needs one"
        )
    check_whole("negatives", negatives, 1)


class _Embedded:
    """A model for `mine_hard_negatives` that encodes each text once.

    Similarities are cosines of embeddings less their mean, because an encoder that was little tuned
    gives any two texts nearly the same cosine, and no text is then clearly less similar than the
    positive.
    """

    device = "cpu"
    model_card_data = SimpleNamespace(base_model=None)

    def __init__(self, model: Any, title: str) -> None:
        self._embed = Embedder(as_encode(model), title=title)
        self.mean: NDArray[np.float32] | float = 0.0

    def centre(self, texts: Sequence[str]) -> None:
        """Take the mean of these texts, each counted once."""
        self.mean = self.unit_rows(list(dict.fromkeys(texts))).mean(axis=0)

    def unit_rows(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the embeddings of texts, divided by their norms."""
        rows: NDArray[np.float32] = self._embed(texts).astype(np.float32)
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        return rows

    def encode(self, texts: Sequence[str], **options: Any) -> NDArray[np.float32]:
        rows = (self.unit_rows(texts) - self.mean).astype(np.float32)
        norms = np.linalg.norm(rows, axis=1, keepdims=True)
        # Equal embeddings have no direction once the mean is subtracted.
        rows /= np.where(norms > ROUNDING, norms, np.float32(np.inf))
        return rows

    encode_query = encode_document = encode

    def similarity(self, first: Any, second: Any) -> torch.Tensor:
        return torch.as_tensor(first) @ torch.as_tensor(second).T

    def similarity_pairwise(self, first: Any, second: Any) -> torch.Tensor:
        return (torch.as_tensor(first) * torch.as_tensor(second)).sum(1)

    def scores(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
        """Return the similarities of pairs of texts."""
        columns = [self.encode(column) for column in zip(*pairs, strict=True)]
        return (columns[0] * columns[1]).sum(1).astype(np.float64)


class _CrossEncoded:
    """A cross-encoder that scores each pair of texts once."""

    def __init__(self, model: Any, title: str) -> None:
        self._model, self._title = model, title
        self._scores: dict[tuple[str, str], float] = {}

    def scores(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
        """Return the scores of pairs of texts.

        Raises:
            GradlabError: the model gives a pair several scores.
        """
        unscored = [pair for pair in dict.fromkeys(pairs) if pair not in self._scores]
        with progress_bar(None, bool(self._title), desc=self._title, total=len(unscored)) as bar:
            for start in range(0, len(unscored), _PAIRS):
                block = unscored[start : start + _PAIRS]
                scores = np.asarray(self._model.predict(block, show_progress_bar=False), float)
                if scores.ndim != 1:
                    raise GradlabError(
                        f"the judge gives {scores.shape[1:]} scores to a pair; a cross-encoder "
                        "with one label is needed"
                    )
                self._scores.update(zip(block, scores.tolist(), strict=True))
                bar.update(len(block))
        return np.array([self._scores[pair] for pair in pairs])


def _candidates(
    embedded: _Embedded,
    judging: _Embedded | _CrossEncoded | None,
    pairs: Dataset,
    corpus: list[str] | None,
    negatives: int,
    limit: float | None,
) -> tuple[list[tuple[str, ...]], int | None]:
    """Return rows with hard negatives below a limit, and how many a judge refused, if there is one.

    With no limit nothing is refused.
    """
    nearest = _search(embedded, pairs, corpus, negatives, limit)
    if judging is None or limit is None:
        return nearest, None if judging is None else 0
    wide = _search(embedded, pairs, corpus, negatives, limit, several=True)
    judged = _judged(judging, wide, negatives, limit)
    return judged, len(set(nearest) - set(judged))


def _load_judge(
    judge: Any, texts: Sequence[str], device: str, progress: bool
) -> _Embedded | _CrossEncoded:
    """Return a second model, loaded if it is given by name."""
    title = "Judging" if progress else ""
    if isinstance(judge, str | Path):
        if _is_cross_encoder(str(judge)):
            from sentence_transformers import CrossEncoder

            judge = CrossEncoder(str(judge), device=None if device == "auto" else device)
        else:
            judge = Encoder.load(judge, device=device)
    if hasattr(judge, "predict"):
        return _CrossEncoded(judge, title)
    embedded = _Embedded(judge, title)
    embedded.centre(texts)
    return embedded


def _is_cross_encoder(name: str) -> bool:
    """Return whether a model's configuration says that it scores pairs."""
    from transformers import AutoConfig

    check_place(name)
    try:
        architectures = AutoConfig.from_pretrained(name).architectures
    except (OSError, ValueError) as error:
        raise GradlabError(f"cannot read the judge {name!r}: {reason(error)}") from error
    return any(str(kind).endswith("ForSequenceClassification") for kind in architectures or ())


def _search(
    embedded: _Embedded,
    pairs: Dataset,
    corpus: list[str] | None,
    negatives: int,
    share: float | None,
    several: bool = False,
) -> list[tuple[str, ...]]:
    """Return rows as in `Choice`, or with ``several`` as many as a judge sees, where there are."""
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
            num_negatives=max(JUDGED, 2 * negatives) if several else negatives,
            output_format="triplet" if several else "n-tuple",
            verbose=False,
        )
    rows = list(zip(*(dataset[name] for name in dataset.column_names), strict=True))
    if not several:
        return rows
    together: dict[tuple[str, str], list[str]] = {}
    for anchor, positive, negative in rows:
        together.setdefault((anchor, positive), []).append(negative)
    return [(*pair, *hard) for pair, hard in together.items()]


def _judged(
    judge: _Embedded | _CrossEncoded, rows: list[tuple[str, ...]], negatives: int, share: float
) -> list[tuple[str, ...]]:
    """Return rows with the nearest hard negatives that a judge, too, finds less similar."""
    if not rows:
        return []
    limits = judge.scores([(anchor, positive) for anchor, positive, *_ in rows])
    limits = limits - (1 - share) * np.abs(limits)
    scores = judge.scores([(anchor, text) for anchor, _, *hard in rows for text in hard])
    judged, start = [], 0
    for (anchor, positive, *hard), limit in zip(rows, limits, strict=True):
        accepted = scores[start : start + len(hard)] <= limit
        start += len(hard)
        accepted_negatives = list(itertools.compress(hard, accepted))[:negatives]
        if len(accepted_negatives) == negatives:
            judged.append((anchor, positive, *accepted_negatives))
    return judged


def _is_false(row: tuple[str, ...]) -> bool:
    anchor, positive, *hard = row
    return any(looks_like_a_positive(text, anchor, positive) for text in hard)


def _push(embedded: _Embedded, loss: Loss, batch_size: int, rows: list[tuple[str, ...]]) -> float:
    """Return `Choice.push` on some of the rows, from embeddings without dropout."""
    sample = rows[:: max(1, len(rows) // MEASURED)]
    if len(sample) < 2:
        return float("nan")
    anchors, positives, *hard = (embedded.unit_rows(column) for column in zip(*sample, strict=True))
    vectors = {"anchors": anchors, "positives": positives, "hard_negatives": hard}
    return push_of_random_batches(vectors, loss, batch_size=batch_size).hard_share
