"""What the tokens of both views of a loop tell, against definitions by sets of words."""

from __future__ import annotations

import random

import pytest
import torch
from torch import Tensor, nn

from gradlab.monitor.view_texts import (
    EQUAL_TEXTS,
    FORETOLD_RANK,
    JOINED_TEXTS,
    OVERLAP_RANK,
    TEXT_NUMBERS,
    ViewTexts,
)

PAD, BEGIN, END = 0, 1, 2


class Encoder(nn.Module):
    """The mean of word and place vectors, of texts given as lists of tokens."""

    def __init__(self, words: int = 60) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, 8), nn.Embedding(40, 8)

    def forward(self, texts: list[list[int]], *, on_the_left: bool = False) -> Tensor:
        most = max(map(len, texts))
        rows = [
            [PAD] * (most - len(text)) + text if on_the_left else text + [PAD] * (most - len(text))
            for text in texts
        ]
        places = self.places(torch.arange(most)[None])
        return (self.words(torch.tensor(rows)) + places).mean(1)


def marked(words: list[int]) -> list[int]:
    return [BEGIN, *words, END]


def sentences(count: int, seed: int, least: int = 2, most: int = 7) -> list[list[int]]:
    draw = random.Random(seed)
    return [draw.sample(range(10, 30), draw.randint(least, most)) for _ in range(count)]


def numbers(first: list[list[int]], second: list[list[int]], **options: bool) -> dict[str, float]:
    encoder = Encoder()
    views = [encoder([marked(text) for text in texts], **options) for texts in (first, second)]
    return ViewTexts().numbers(views)


def overlap_rank(first: list[list[int]], second: list[list[int]]) -> float:
    """By sets of words: cosines of rows and partners, below and above that of the own partner."""
    cosines = [[len({*a} & {*b}) / (len({*a}) * len({*b})) ** 0.5 for b in second] for a in first]
    below = above = 0
    for row, values in enumerate(cosines):
        below += sum(value < values[row] - 1e-12 for value in values)
        above += sum(value > values[row] + 1e-12 for value in values)
    return below / (below + above)


@pytest.mark.parametrize("on_the_left", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_overlap_is_that_of_sets_of_words(seed: int, on_the_left: bool) -> None:
    first = sentences(12, seed)
    second = [text[:2] + further for text, further in zip(first, sentences(12, 9), strict=True)]
    for partners in (second, sentences(12, seed + 50)):
        measured = numbers(first, partners, on_the_left=on_the_left)
        assert measured[OVERLAP_RANK] == pytest.approx(overlap_rank(first, partners))
        assert measured[EQUAL_TEXTS] == measured[JOINED_TEXTS] == 0


def test_two_languages_have_no_overlap() -> None:
    first = sentences(8, 0)
    assert OVERLAP_RANK not in numbers(first, [[word + 25 for word in text] for text in first])


def test_equal_texts_are_counted_in_the_view_with_more_of_them() -> None:
    first, second = sentences(8, 1), sentences(8, 2)
    second[3] = second[5] = second[0]
    second[7] = second[6]
    assert numbers(first, second)[EQUAL_TEXTS] == 5 / 8
    assert numbers(second, first)[EQUAL_TEXTS] == 5 / 8


def test_texts_that_were_tokenised_as_one() -> None:
    first, second = sentences(8, 3), sentences(8, 4)
    both = [[*text, END, *partner] for text, partner in zip(first, second, strict=True)]
    assert numbers(both, second)[JOINED_TEXTS] == numbers(second, both)[JOINED_TEXTS] == 1
    # A text that ends with its partner, but has no end mark before it, is a crop.
    longer = [[*text, *partner] for text, partner in zip(first, second, strict=True)]
    assert numbers(longer, second)[JOINED_TEXTS] == 0
    assert numbers(both, second[1:] + second[:1])[JOINED_TEXTS] == 0


def test_views_of_one_forward_pass_have_the_texts_of_their_rows() -> None:
    first, second = sentences(8, 1), sentences(8, 2)
    second[3] = second[0]
    expected = numbers(first, second)
    in_turn = [text for row in zip(first, second, strict=True) for text in row]
    for texts, cut in (
        ([*first, *second], lambda rows: rows.split(8)),
        (in_turn, lambda rows: (rows[0::2], rows[1::2])),
        (in_turn, lambda rows: rows.unflatten(0, (8, 2)).unbind(1)),
    ):
        assert ViewTexts().numbers(cut(Encoder()([marked(text) for text in texts]))) == expected


def test_views_whose_texts_are_not_known_have_none() -> None:
    rows = Encoder()([marked(text) for text in sentences(16, 5)])
    assert ViewTexts().numbers([rows]) == {}
    assert ViewTexts().numbers([rows, rows]) == {}
    assert ViewTexts().numbers([torch.ones(8, 4), torch.ones(8, 4)]) == {}


def test_few_rows_are_not_compared() -> None:
    assert numbers(sentences(3, 6), sentences(3, 7)) == {}
    assert set(numbers(sentences(4, 6), sentences(4, 7))) <= set(TEXT_NUMBERS)


@pytest.mark.parametrize(("shuffles", "low", "high"), [(False, 0.8, 1.0), (True, 0.4, 0.6)])
def test_tokens_of_partners_are_foretold_from_the_rows_of_all_batches(shuffles, low, high) -> None:
    """The tokens of a translation go together with those of its source, 20 places further on."""
    encoder, texts, seen = Encoder(), ViewTexts(), {}
    sources = sentences(96, 3, least=3)
    translations = [[token + 20 for token in source] for source in sources]
    if shuffles:
        random.Random(1).shuffle(translations)
    for begin in range(0, 96, 16):
        rows = slice(begin, begin + 16)
        views = [encoder(list(map(marked, column[rows]))) for column in (sources, translations)]
        seen = texts.numbers(views)
        assert (FORETOLD_RANK in seen) == (begin + 16 >= 64)
    assert low < seen[FORETOLD_RANK] < high
    assert FORETOLD_RANK not in texts.numbers(views)  # rows that are known


def test_segments_are_no_tokens_where_words_are_frozen():
    """Of the lookups of an encoder whose words are frozen, only segments are of a batch."""
    words, segments = nn.Embedding(60, 8).requires_grad_(False), nn.Embedding(2, 8)
    views = []
    for seed in (0, 1):
        rows = torch.tensor([text[:2] for text in sentences(12, seed)])
        views.append((words(rows) + segments(torch.zeros_like(rows))).mean(1))
    assert ViewTexts().numbers(views) == {}
    words.requires_grad_(True)
    views = [
        (words(rows) + segments(torch.zeros_like(rows))).mean(1)
        for rows in (torch.tensor([text[:2] for text in sentences(12, seed)]) for seed in (0, 1))
    ]
    assert EQUAL_TEXTS in ViewTexts().numbers(views)
