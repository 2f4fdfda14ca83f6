"""Whether a loss of one's own heeds which rows are pairs."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from gradlab.monitor.formula_trials import values_on_known_batches
from gradlab.monitor.verdicts import formula, pairing
from gradlab.monitor.watched_loss import _further_columns

WIDTH = 32


def cosines(first, second):
    return F.normalize(first, dim=-1) @ F.normalize(second, dim=-1).T


def own_rows(first):
    return torch.arange(len(first))


def ranking(anchors, *columns):
    return F.cross_entropy(cosines(anchors, torch.cat(columns)) / 0.05, own_rows(anchors))


def along_the_batch_axis(anchors, positives):
    logits = F.cosine_similarity(anchors[:, None], positives[None], dim=1) / 0.05
    return F.cross_entropy(logits, own_rows(anchors))


def itself_as_target(anchors, positives):
    both = torch.cat([anchors, positives])
    return F.cross_entropy(cosines(both, both) / 0.1, own_rows(both))


def into_a_queue(size):
    queue = torch.randn(size, WIDTH, generator=torch.Generator().manual_seed(5)).double()

    def loss(anchors, positives, first=0):
        logits = cosines(anchors, torch.cat([queue, positives])) / 0.05
        return F.cross_entropy(logits, own_rows(anchors) + first)

    return loss, lambda anchors, positives: loss(anchors, positives, size)


def sliced(rows_too):
    def loss(anchors, positives):
        cut = [slice(size) if rows_too else (slice(None), slice(size)) for size in (32, 8, 4)]
        return torch.stack([ranking(anchors[at], positives[at]) for at in cut]).mean()

    return loss


def triplet(margin):
    def loss(anchors, positives, negatives):
        near, far = (F.cosine_similarity(anchors, rows) for rows in (positives, negatives))
        return F.relu(far - near + margin).mean()

    return loss


def scores(anchors, *columns):
    return torch.stack([F.cosine_similarity(anchors, column) for column in columns], 1) / 0.1


def listwise(axis):
    grades = torch.tensor([9.0, 4.0, 3.0])

    def loss(anchors, *columns):
        wanted = grades.expand(len(anchors), -1).softmax(axis)
        return F.kl_div(scores(anchors, *columns).log_softmax(axis), wanted, reduction="batchmean")

    return loss


def chosen(anchors, *columns, at=0):
    return F.cross_entropy(scores(anchors, *columns), torch.full((len(anchors),), at))


def interleaved(step):
    def loss(anchors, *columns):
        candidates = torch.stack(columns, 1).flatten(0, 1)
        return F.cross_entropy(cosines(anchors, candidates) / 0.05, own_rows(anchors) * step)

    return loss


def of_stacked(axis):
    def loss(anchors, *columns):
        candidates = F.normalize(torch.stack(columns, 1), dim=axis)
        logits = torch.einsum("bd,bkd->bk", F.normalize(anchors), candidates) / 0.05
        return F.cross_entropy(logits, torch.zeros(len(anchors), dtype=torch.long))

    return loss


def several_positives(anchors, *columns):
    logits = cosines(anchors, torch.cat(columns)) / 0.05
    return F.cross_entropy(logits, torch.eye(len(anchors)).repeat(1, len(columns)) / len(columns))


def towards_a_teacher(anchors, positives, wanted):
    return (anchors - wanted).square().mean() + (positives - wanted).square().mean()


def of_relations(anchors, positives):
    targets = (cosines(positives, positives) / 0.1).softmax(1)
    return F.cross_entropy(cosines(anchors, anchors) / 0.1, targets)


@pytest.mark.parametrize(
    ("loss", "further", "name"),
    [
        (ranking, 0, ""),
        (ranking, 1, ""),
        (ranking, 3, ""),
        (along_the_batch_axis, 0, "pairs without a part"),
        (itself_as_target, 0, "pairs without a part"),
        (into_a_queue(24)[0], 0, "pairs without a part"),
        (into_a_queue(3)[0], 0, "targets misdirected"),
        (into_a_queue(3)[1], 0, ""),
        (into_a_queue(24)[1], 0, ""),
        (sliced(True), 0, "rows by their place"),
        (sliced(False), 0, ""),
        (lambda a, p: ranking(a, p) + ranking(p, a), 0, ""),
        (lambda a, p: triplet(0.3)(a, p, p.roll(1, 0)), 0, ""),
        (lambda a, p: triplet(0.3)(a, p, p.flip(0)), 0, ""),
        (lambda a, p: F.mse_loss(cosines(a, a), cosines(p, p)), 0, ""),
        (of_relations, 0, ""),
        (triplet(0.3), 1, ""),
        (triplet(1.0), 1, ""),
        (lambda a, p, n: -triplet(3.0)(a, p, n), 1, "target of another column"),
        (listwise(1), 2, ""),
        (listwise(0), 2, "softmax over the batch"),
        (chosen, 2, ""),
        (lambda *columns: chosen(*columns, at=1), 2, "target of another column"),
        (interleaved(3), 2, ""),
        (interleaved(1), 2, "targets misdirected"),
        (of_stacked(-1), 3, ""),
        (of_stacked(1), 3, "normalised along the candidates"),
        (towards_a_teacher, 1, ""),
        (several_positives, 1, ""),
        (several_positives, 3, ""),
    ],
)
def test_what_the_targets_of_a_loss_point_at_is_named(loss, further, name):
    values = values_on_known_batches(loss, WIDTH, further=further)
    assert values
    verdicts = [pairing.pairing(values) or formula.formula(values), pairing.place(values)]
    assert [verdict.name for verdict in verdicts if verdict] == [name] * bool(name)


def distances_like(anchors, positives):
    return (torch.pdist(anchors) - torch.pdist(positives)).pow(2).mean()


def distances_to_mean_like(anchors, positives):
    own, others = torch.pdist(anchors), torch.pdist(positives)
    return (own / own.mean() - others / others.mean()).abs().mean()


@pytest.mark.parametrize(
    ("loss", "compares"),
    [
        (distances_like, True),
        (distances_to_mean_like, True),
        (ranking, False),
        (lambda anchors, _: torch.pdist(anchors).mean(), False),
        (lambda anchors, positives: (anchors - positives).pow(2).mean(), False),
    ],
)
def test_a_loss_of_distances_within_each_view_is_told(loss, compares):
    values = values_on_known_batches(loss, WIDTH)
    assert values
    assert pairing.compares_structures(values) is compares
    assert not pairing.compares_structures({"drawn": 1.0, "exchanged": 2.0})


def test_values_of_further_columns_are_those_of_their_batches():
    calls = []

    def loss(*columns):
        calls.append(columns)
        return sum(rows.sum() for rows in columns)

    values = values_on_known_batches(loss, WIDTH, 2.0, further=2)
    assert values["further"] == 2
    assert "nearer" not in values
    drawn, exchanged, reordered = (
        next(call for call in calls if float(sum(r.sum() for r in call)) == values[name])
        for name in ("drawn", "exchanged", "reordered")
    )
    columns = drawn[2:]
    assert len(columns) == 2
    for rows in columns:
        torch.testing.assert_close(rows.norm(dim=1), torch.full((8,), 2.0).double())
    assert torch.equal(exchanged[0], drawn[0])
    scaled = next(call for call in calls if float(sum(r.sum() for r in call)) == values["scaled"])
    assert torch.equal(scaled[0], drawn[0])
    factors = [after / before for after, before in zip(scaled[1:], drawn[1:], strict=True)]
    for factor in factors[1:]:
        torch.testing.assert_close(factor, factors[0])
    assert (factors[0] > 0).all()
    assert len(factors[0].unique()) > WIDTH
    assert len(reordered[0]) == 8
    united = loss(*calls[0][:1] * 4)
    assert values["united"] == float(united)


def test_exchanged_and_reordered_are_of_the_rows_that_are_drawn():
    weights = torch.arange(1.0, 9.0).double()
    places = values_on_known_batches(lambda a, p: (weights * a.sum(1) * p.sum(1)).sum(), WIDTH)
    seen = []
    values_on_known_batches(lambda a, p: seen.append((a, p)) or (a * p).sum(), WIDTH)
    anchors, positives = next(
        (a, p) for a, p in seen if float((weights * a.sum(1) * p.sum(1)).sum()) == places["drawn"]
    )
    order = (torch.arange(8) - 3) % 8
    moved = (weights * anchors[order].sum(1) * positives[order].sum(1)).sum()
    assert places["reordered"] == pytest.approx(float(moved))
    following = positives[(torch.arange(8) - 1) % 8]
    exchanged = (weights * anchors.sum(1) * following.sum(1)).sum()
    assert places["exchanged"] == pytest.approx(float(exchanged))


def test_columns_beside_two_views_are_counted():
    rows = [torch.zeros(4, 6) for _ in range(4)]
    assert _further_columns(ranking, rows) == 2
    assert _further_columns(ranking, rows[:2]) == 0
    assert _further_columns(ranking, [*rows, torch.zeros(4)]) == 0
    assert _further_columns(ranking, [*rows, torch.zeros(5, 6)]) == 0
    assert _further_columns(triplet(0.3), rows[:3]) == 1
    assert _further_columns(lambda anchors, negatives, positives: 0, rows[:3]) == 0
    assert _further_columns(lambda a, n, p: 0, rows[:3]) == 0
