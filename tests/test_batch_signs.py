"""Signs in batches, and the reaction of losses to negatives, on embeddings made for each."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from gradlab.monitor.batch_measurement import MOST_ROWS, BatchSigns, Snapshot
from gradlab.monitor.formula_trials import values_on_known_batches
from gradlab.monitor.verdicts import formula


def rows(count=16, width=32, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return F.normalize(torch.randn(count, width, generator=generator), dim=1)


def near(embedded, seed=9):
    return F.normalize(embedded + 0.1 * rows(len(embedded), seed=seed), dim=1)


def signs_of(anchors, positives, signs=None):
    views = Snapshot(anchors, positives).pairs(MOST_ROWS)
    return (signs or BatchSigns()).of(views)


def test_fresh_batches_of_pairs_have_no_signs():
    signs = BatchSigns()
    for seed in range(4):
        anchors = rows(seed=seed)
        assert signs_of(anchors, near(anchors), signs) == {}


def test_a_batch_that_comes_again_is_noted():
    signs, anchors = BatchSigns(), rows()
    assert signs_of(anchors, near(anchors), signs) == {}
    moved = near(anchors, seed=5)
    assert signs_of(moved, near(moved), signs) == {"repeated_rows": 1.0}
    order = torch.randperm(16, generator=torch.Generator().manual_seed(0))
    assert signs_of(moved[order], near(moved)[order], signs) == {"repeated_rows": 1.0}
    half = torch.cat([moved[8:], rows(8, seed=3)])
    assert signs_of(half, near(half), signs) == {}


def test_alternating_views_are_told_from_sorted_rows():
    texts = rows()
    alternating = torch.stack([texts, near(texts)], dim=1).flatten(0, 1)
    first, second = alternating.view(2, 16, -1)
    assert signs_of(first, second)["alternating_rows"] > 0.9
    drawn_near = torch.cumsum(rows(seed=3), dim=0)  # each row is near the one before
    assert "alternating_rows" not in signs_of(drawn_near, near(drawn_near))


def test_pairs_in_opposite_directions_are_counted():
    anchors = rows()
    positives = torch.cat([-anchors[:4], anchors[4:]])
    assert signs_of(anchors, positives) == {"opposed_pairs": 0.25}


def test_cosines_that_are_not_trained_are_in_all_directions():
    generator = torch.Generator().manual_seed(0)
    anchors, positives = (torch.randn(32, 2, generator=generator) for _ in range(2))
    cosines = F.normalize(anchors, dim=1) @ F.normalize(positives, dim=1).T
    assert float((cosines.diagonal() < -0.5).double().mean()) > 0.2
    assert "opposed_pairs" not in signs_of(anchors, positives)
    assert signs_of(anchors, -anchors)["opposed_pairs"] == 1.0


def test_rows_that_are_no_pairs_or_not_finite_are_not_compared():
    anchors = rows(count=70)
    assert [len(view) for view in Snapshot(anchors, near(anchors)).pairs(MOST_ROWS)] == [64, 64]
    assert Snapshot(anchors, None).pairs(MOST_ROWS) == []
    assert Snapshot(anchors, anchors[1:]).pairs(MOST_ROWS) == []
    assert Snapshot(anchors, anchors.log()).pairs(MOST_ROWS) == []


def test_a_view_without_gradient_is_followed():
    first, positives = rows().requires_grad_(), rows(seed=1)
    assert Snapshot(first, positives).is_one_sided
    assert Snapshot(first, positives).copy().is_one_sided
    assert not Snapshot(first, near(first)).is_one_sided
    signs = BatchSigns()
    still = signs.of([first.detach(), positives], is_one_sided=True)
    assert still == {"anchor_drift": 0.0, "constant_drift": 0.0}
    moved = F.normalize(rows() + 0.5, dim=1)
    drift = signs.of([moved, positives], is_one_sided=True)
    assert drift["anchor_drift"] > 10 * drift["constant_drift"]


def logits(anchors, positives):
    return 20 * F.normalize(anchors, dim=1) @ F.normalize(positives, dim=1).T


def ranking(anchors, positives, **options):
    return F.cross_entropy(logits(anchors, positives), torch.arange(len(anchors)), **options)


def hinge(choose):
    def loss(anchors, positives):
        cosines = logits(anchors, positives) / 20
        return F.relu(0.3 - cosines.diagonal() + choose(cosines)).mean()

    return loss


def others(cosines):
    return cosines.masked_fill(torch.eye(len(cosines), dtype=torch.bool), -2)


def semi_hard(cosines):
    """The nearest negative that is farther than the positive; the farthest where there is none."""
    farther = others(cosines).masked_fill(cosines >= cosines.diagonal()[:, None], -2)
    highest = farther.amax(1)
    lowest = others(cosines).masked_fill(others(cosines) == -2, 2).amin(1)
    return torch.where(highest > -2, highest, lowest)


def in_pieces(size):
    def loss(anchors, positives):
        pieces = zip(anchors.split(size), positives.split(size), strict=True)
        return sum(ranking(*piece) for piece in pieces) / (len(anchors) / size)

    return loss


@pytest.mark.parametrize(
    ("loss", "name"),
    [
        (ranking, ""),
        (hinge(lambda cosines: others(cosines).amax(1)), ""),
        (lambda a, p: ranking(a, p, label_smoothing=0.05), ""),
        (lambda a, p: ranking(a, p) + ranking(p, a), ""),
        (in_pieces(4), "few negatives"),
        (in_pieces(2), "few negatives"),
        (hinge(lambda cosines: cosines.amax(1)), "positive as negative"),
        (hinge(lambda cosines: cosines.amin(1)), "easiest negative"),
        (hinge(semi_hard), ""),
        (lambda a, p: ranking(a.sign(), p.sign()), "no gradient"),
        (lambda a, p: ranking(a, p.detach()), "one-sided gradient"),
        (lambda a, p: 1 - F.cosine_similarity(a, p).mean(), "no negatives"),
        (lambda a, p: ranking(a, p, label_smoothing=0.9), "target is spread"),
        (lambda a, p: ranking(a, p) * torch.rand(()), ""),  # it draws numbers of its own
    ],
)
def test_reaction_to_negatives_is_named(loss, name):
    torch.manual_seed(0)
    values = values_on_known_batches(loss, 32)
    verdicts = [formula.formula(values), formula.reaction(values)]
    assert [verdict.name for verdict in verdicts if verdict] == [name] * bool(name)


def test_a_loss_that_draws_its_negatives_has_no_reaction():
    """Two draws have one value where all negatives are alike; nothing is said of their number."""

    def drawing(anchors, positives):
        shift = int(torch.randint(1, len(anchors), ()))
        unit = F.normalize(anchors, dim=1), F.normalize(positives, dim=1)
        own, drawn = ((unit[0] * rows).sum(1) for rows in (unit[1], unit[1].roll(shift, 0)))
        return -F.logsigmoid(5 * (own - drawn)).mean()

    torch.manual_seed(0)
    assert "others" not in values_on_known_batches(drawing, 32)
    assert "others" in values_on_known_batches(ranking, 32)
