"""Signs of labels: batches of one class, and texts whose label changes from batch to batch."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from gradlab.monitor.label_signs import LabelSigns, order_of_labels

EMBEDDING = nn.Embedding(50, 8)


def embedded(tokens):
    """Rows of a batch of token ids, (N, T), with their graph."""
    return EMBEDDING(tokens).mean(1)


def tokens_of(*first):
    return torch.tensor([[1, at, at + 1, 2] for at in first])


def test_batches_of_one_class_are_noted_beside_the_share_of_all_rows():
    signs = LabelSigns()
    assert signs.of(torch.arange(16) % 4, [], []) == {"classes_counted": 4}
    assert signs.of(torch.arange(16) % 4 * 2, [], []) == {}
    signs = LabelSigns()
    signs.of(torch.arange(16) % 4, [], [])
    counts = signs.of(torch.tensor([5] * 7 + [6]), [], [])
    pairs = [(a, b) for a in range(24) for b in range(24) if a != b]
    labels = [*(n % 4 for n in range(16)), *[5] * 7, 6]
    chance = sum(labels[a] == labels[b] for a, b in pairs) / len(pairs)
    assert counts == pytest.approx({"class_share": 42 / 56, "class_chance": chance})


@pytest.mark.parametrize("kind", [torch.int64, torch.float32])
def test_texts_that_come_again_with_another_label_are_counted(kind):
    signs, texts = LabelSigns(), tokens_of(5, 9, 13, 17, 21, 25)
    labels = torch.tensor([0, 1, 2, 0, 1, 2], dtype=kind)
    assert signs.of(None, [labels], [embedded(texts)]) == {}
    assert signs.of(None, [labels], [embedded(texts)]) == {"relabelled_texts": 0.0}
    order = torch.tensor([3, 1, 5, 0, 2, 4])
    same = signs.of(None, [labels[order]], [embedded(texts[order])])
    assert same == {"relabelled_texts": 0.0}
    changed = signs.of(None, [labels.roll(1)], [embedded(texts)])
    assert changed == {"relabelled_texts": 1.0}
    padded = torch.nn.functional.pad(texts, (0, 2), value=0)
    padded[0, 4:] = torch.tensor([7, 2])
    assert signs.of(None, [labels], [embedded(padded)]) == {"relabelled_texts": 0.0}


def test_a_pair_is_known_by_both_of_its_texts():
    signs, texts = LabelSigns(), tokens_of(5, 9, 13, 17, 21)
    scores = torch.tensor([0.1, 0.3, 0.5, 0.7, 0.9])
    views = [embedded(texts), embedded(texts.roll(1, 0))]
    assert signs.of(None, [scores], views) == {}
    assert signs.of(None, [scores.flip(0)], [views[0], embedded(texts.roll(2, 0))]) == {}
    views = [embedded(texts), embedded(texts.roll(1, 0))]
    assert signs.of(None, [scores + 0.01], views) == {"relabelled_texts": 0.0}
    assert signs.of(None, [scores.flip(0)], views)["relabelled_texts"] == 0.8


def test_places_in_the_batch_and_rows_without_tokens_are_no_labels_of_texts():
    signs, texts = LabelSigns(), tokens_of(5, 9, 13, 17)
    for labels in (torch.arange(4), torch.arange(4).flip(0)):
        assert signs.of(None, [labels], [embedded(texts)]) == {}
    for _ in range(2):
        assert signs.of(None, [torch.tensor([0, 0, 1, 1])], [torch.randn(4, 8)]) == {}


def test_cosines_follow_labels_in_a_share_of_the_comparisons():
    first = torch.eye(4)
    second = torch.tensor([[0.9], [0.1], [0.5], [0.5]]) * first + 0.5 * first.roll(1, 0)
    labels = torch.tensor([3, 1, 2, 2])
    assert order_of_labels([labels], [first, second]) == {"label_order": 1.0}
    assert order_of_labels([-labels.float()], [first, 7 * second]) == {"label_order": 0.0}
    tied = order_of_labels([torch.tensor([3.0, 1.0, 2.5, 2.0])], [first, second])
    assert tied == {"label_order": pytest.approx(5.5 / 6)}


def test_the_order_of_labels_needs_one_label_for_each_pair():
    rows, labels = torch.eye(4), torch.tensor([3, 1, 2, 2])
    assert order_of_labels([], [rows, rows]) == {}
    assert order_of_labels([torch.arange(4)], [rows, rows.roll(1, 0)]) == {}  # places of a softmax
    assert order_of_labels([labels], [rows]) == {}
    assert order_of_labels([labels], [rows, rows[:, :3]]) == {}
    assert order_of_labels([labels], [rows.repeat(2, 1), rows.repeat(2, 1)]) == {}
    assert order_of_labels([torch.tensor([1, 1, 1, 1])], [rows, rows]) == {}
    assert order_of_labels([labels], [rows, rows * float("nan")]) == {}
