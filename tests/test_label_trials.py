"""Trials of losses with labels: ignored ones, and scores in other units than cosines."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from gradlab.monitor.label_trials import classes_of, label_trials, labels_in
from gradlab.monitor.verdicts import formula

GENERATOR = torch.Generator().manual_seed(0)
FIRST, SECOND = torch.randn(2, 12, 8, generator=GENERATOR)
SCORES = torch.linspace(0, 1, 12)


def fitted(times=1.0, offset=0.0):
    def loss(first, second, scores):
        return F.mse_loss(times * F.cosine_similarity(first, second) + offset, scores)

    return loss


def cosent(first, second, scores):
    cosines = 20 * F.cosine_similarity(first, second)
    differences = cosines[None] - cosines[:, None]
    lower = scores[None] < scores[:, None]
    return torch.logsumexp(torch.cat([torch.zeros(1), differences[lower]]), 0)


def of_distances(first, second, distances):
    return F.mse_loss(1 - F.cosine_similarity(first, second), distances)


def weighted(first, second, weights):
    losses = F.cross_entropy(10 * first @ second.T, torch.arange(len(first)), reduction="none")
    return (weights * losses).mean()


def trials(loss, scores=SCORES):
    return label_trials(loss, (FIRST, SECOND, scores), {}, len(FIRST))


@pytest.mark.parametrize(
    ("times", "scores"), [(1.0, SCORES), (5.0, 5 * SCORES), (100.0, SCORES), (1.0, 100 * SCORES)]
)
def test_values_are_those_of_pairs_with_the_cosines_of_their_scores(times, scores):
    values, cosines = trials(fitted(times), scores), SCORES.double()
    expected = {
        name: float((times * cosine - scores.double()).square().mean())
        for name, cosine in {
            "as_scored": cosines, "at_right_angles": 0 * cosines, "against_scores": 1 - cosines
        }.items()
    }  # fmt: skip
    assert values == pytest.approx(expected)


@pytest.mark.parametrize("loss", [fitted(), cosent, of_distances, weighted])
@pytest.mark.parametrize("scores", [SCORES, (SCORES > 0.5).float(), 2 * SCORES - 1])
def test_losses_of_scores_distances_and_weights_are_not_accused(loss, scores):
    assert formula.scores(trials(loss, scores)) is None


def test_cosines_in_percent_beside_scores_up_to_1_are_named():
    verdict = formula.scores(trials(fitted(100.0)))
    assert verdict.name == "scores in other units"
    assert "different units" in verdict.finding


def test_labels_without_a_part_are_told_from_others():
    assert trials(lambda first, second, _: F.mse_loss(first, second)) == {"labels_ignored": 1.0}
    assert "labels_ignored" not in trials(fitted())
    assert label_trials(fitted(), (FIRST, SECOND), {"scores": SCORES[:3]}, 12) == {}


def test_losses_with_a_place_for_each_class_are_told_from_those_of_equality():
    torch.manual_seed(0)
    proxies, classes = torch.randn(5, 8), torch.arange(12) // 3

    def of_proxies(rows, labels):
        return F.cross_entropy(rows @ proxies.to(rows).T, labels)

    def of_equality(rows, labels):
        return (rows @ rows.T)[labels[:, None] == labels].mean()

    assert label_trials(of_proxies, (FIRST, classes), {}, 12) == {"classes_have_places": 1.0}
    assert label_trials(of_equality, (FIRST, classes), {}, 12) == {}


def test_labels_and_classes_are_told_from_other_arguments():
    labels, mask = torch.arange(12) // 3, torch.ones(12, dtype=torch.bool)
    arguments = (FIRST, labels, SCORES, mask, torch.ones(12), torch.arange(3))
    assert [id(entry) for entry in labels_in(arguments, {12})] == [id(labels), id(SCORES)]
    assert classes_of((mask, SCORES, labels), FIRST) is labels
    assert classes_of((mask, SCORES), FIRST) is None


@pytest.mark.parametrize(
    ("classes", "are_labels"),
    [
        (list(range(12)), False),  # targets, each of which is its own row
        ([3] * 12, False),
        ([*range(6), *range(6)], True),  # two texts of each class, one behind the other
        ([row // 2 for row in range(12)], True),
    ],
)
def test_whole_numbers_are_labels_where_some_rows_have_one_in_common(classes, are_labels):
    labels = torch.tensor(classes)
    assert bool(labels_in((FIRST, SECOND, labels), {len(FIRST)})) is are_labels
