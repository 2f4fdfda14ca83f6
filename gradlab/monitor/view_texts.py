"""Do the texts of a loop's views belong together, by the tokens that their embeddings come from?

`gradlab.monitor.token_signs` finds the tokens of a batch in the graph of its loss. Here the views
are kept apart: the tokens of each are those that its own rows were computed from.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from gradlab.data.cooccurrence import FEWEST_ROWS, foretold_ranks
from gradlab.data.partners import numbers_of_words
from gradlab.monitor.rows_of_view import rows_of_view
from gradlab.monitor.token_signs import looked_up

# Numbers of the records: share of the rows of a view whose tokens another row has as well; share of
# rows whose text ends with the whole text of the other view; share of other texts that have fewer
# tokens in common with a row than its partner; share of other partners whose tokens are foretold
# less by those of a row, learnt from half of the rows of all records.
EQUAL_TEXTS, JOINED_TEXTS, OVERLAP_RANK = "equal_texts", "joined_texts", "overlap_rank"
FORETOLD_RANK = "foretold_rank"
# Numbers of `gradlab.data.partners.numbers_of_words` of the rows of all records, by their names.
PARTNERS = {
    name: f"partners_{name}"
    for name in ("rows", "told", "strangers", "matched", "between", "recurring", "within")
}
TEXT_NUMBERS = (EQUAL_TEXTS, JOINED_TEXTS, OVERLAP_RANK, FORETOLD_RANK, *PARTNERS.values())
FEWEST_OF_BATCH = 4
MOST_ROWS = 64  # of a batch that are compared
KEPT_ROWS = 512  # of all batches, whose tokens are remembered
IN_COMMON = 0.1  # share of texts of both views with a token in common, from which on it is counted


class ViewTexts:
    """The texts of both views of the batches of a loop, and which tokens go together in them."""

    def __init__(self) -> None:
        self._rows: dict[tuple[tuple[int, ...], tuple[int, ...]], None] = {}

    def numbers(self, views: Sequence[Tensor]) -> dict[str, float]:
        """Return numbers of the texts that views of one batch were computed from.

        Args:
            views: embeddings of anchors, positives and, perhaps, negatives, with their graph.

        Nothing of views that share a forward pass, where it is not known which rows are whose, or
        whose encoder looks up no tokens.
        """
        texts = _texts_of_views(views)
        if texts is None:
            return {}
        pairs = [texts_of(column) for column in texts]
        return {
            EQUAL_TEXTS: max(map(_repeated, texts)),
            JOINED_TEXTS: max(_joined(*pairs), _joined(*reversed(pairs))),
            **_overlap(*pairs),
            **self._foretold(*pairs),
        }

    def _foretold(self, texts: list[list[int]], partners: list[list[int]]) -> dict[str, float]:
        """Remember rows, and return how far tokens foretell those of partners, of new rows only."""
        count = len(self._rows)
        for row in zip(map(tuple, texts), map(tuple, partners), strict=True):
            if len(self._rows) < KEPT_ROWS:
                self._rows[row] = None
        if len(self._rows) == count or len(self._rows) < FEWEST_ROWS:
            return {}
        first, second = (list(map(set, column)) for column in zip(*self._rows, strict=True))
        ranks = foretold_ranks(first, second)
        numbers = numbers_of_words(first, second, ranks)
        return {FORETOLD_RANK: float(ranks.mean())} | {
            PARTNERS[name]: number for name, number in numbers.items()
        }


def texts_of(rows: Tensor) -> list[list[int]]:
    """Return the tokens of each row without padding.

    Padding is a token that makes up one end of some rows, not of all, and stands nowhere else.
    """
    texts: list[list[int]] = rows.tolist()
    for end in (-1, 0):
        for padding in sorted({text[end] for text in texts}):
            lengths = [_run(text, padding, end) for text in texts]
            only = all(text.count(padding) == n for text, n in zip(texts, lengths, strict=True))
            if only and 0 in lengths:
                return [
                    (text[:-n] if end else text[n:]) if n else text
                    for text, n in zip(texts, lengths, strict=True)
                ]
    return texts


def _texts_of_views(views: Sequence[Tensor]) -> list[Tensor] | None:
    """Return the tokens of the rows of the first two views; None if they are not known."""
    tokens = [looked_up(view) for view in views]
    rows = [batch for batch in tokens if batch is not None]
    if len(rows) < 2 or len(rows) != len(views):
        return None
    nodes = {id(node) for node, _ in rows}
    texts = [batch.cpu() for _, batch in rows]
    if len(nodes) == 1:  # one forward pass of all views
        places = [rows_of_view(view, len(texts[0])) for view in views]
        if any(place is None for place in places):
            return None
        texts = [texts[0][place] for place in places if place is not None]
    elif len(nodes) < len(rows):
        return None
    if any(len(view) != len(batch) for view, batch in zip(views, texts, strict=True)):
        return None
    first, second = texts[:2]
    if len(first) != len(second) or len(first) < FEWEST_OF_BATCH:
        return None
    return [first[:MOST_ROWS], second[:MOST_ROWS]]


def _repeated(rows: Tensor) -> float:
    """Return the share of rows that stand more than once."""
    _, kinds, counts = rows.unique(dim=0, return_inverse=True, return_counts=True)
    return float((counts[kinds] > 1).double().mean())


def _joined(texts: list[list[int]], partners: list[list[int]]) -> float:
    """Return the share of rows that end with all of their partner, behind an end mark of their own.

    A tokenizer called with two texts makes one row of them: [CLS] first [SEP] second [SEP].
    """
    joined = 0
    for text, partner in zip(texts, partners, strict=True):
        ending = partner[1:]
        if len(text) > len(partner) > 2 and text[-len(ending) :] == ending:
            joined += text.count(partner[-1]) > partner.count(partner[-1])
    return joined / len(texts)


def _overlap(texts: list[list[int]], partners: list[list[int]]) -> dict[str, float]:
    """Return the share of other partners that have fewer tokens in common with a row than its own.

    Tokens of every row do not count, nor partners that have as many in common. Nothing where few
    texts have any in common, as in two languages.
    """
    of_rows, of_partners = ([set(text) for text in view] for view in (texts, partners))
    universal = set.intersection(*of_rows, *of_partners)
    in_both_views = sorted(set.union(*of_rows) & set.union(*of_partners) - universal)
    columns = {token: column for column, token in enumerate(in_both_views)}
    first, second = (
        torch.zeros(len(texts), len(columns), dtype=torch.float64) for _ in (texts, partners)
    )
    for holds, tokens_of_texts in ((first, of_rows), (second, of_partners)):
        for row, tokens in enumerate(tokens_of_texts):
            holds[row, [columns[token] for token in tokens & columns.keys()]] = 1.0
    common = first @ second.T
    off_diagonal = ~torch.eye(len(texts), dtype=torch.bool)
    if not float((common[off_diagonal] > 0).double().mean()) >= IN_COMMON:
        return {}
    # Squares of cosines with a row, times the sizes of both partners: whole numbers, so that equal
    # ones are equal.
    sizes = torch.tensor([len(tokens - universal) for tokens in of_partners]).double()
    own = common.diagonal()[:, None].square() * sizes
    common = common.square() * sizes[:, None]
    smaller, larger = (int(pairs[off_diagonal].sum()) for pairs in (common < own, common > own))
    return {OVERLAP_RANK: smaller / (smaller + larger)} if smaller + larger else {}


def _run(text: list[int], token: int, end: int) -> int:
    """Return how often a token is repeated at an end of a text."""
    ordered = text[::-1] if end else text
    return next((at for at, entry in enumerate(ordered) if entry != token), len(ordered))
