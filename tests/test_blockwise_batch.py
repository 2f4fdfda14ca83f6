"""Blockwise losses of whole batches: at any temperature, and losses that are served or refused."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import weakref

import pytest
import torch
from blockwise_helpers import assert_equal_to_autograd, exact, gradients, unit, views

import gradlab
from gradlab.losses.batch_loss import BatchLoss
from gradlab.scale import block_loop


@pytest.mark.parametrize("temperature", [0.002, 0.05, 5.0])
def test_any_temperature_in_float32(temperature: float) -> None:
    """At τ = 0.002 exp of a cosine overflows; relative to the largest, most are 0."""
    loss = gradlab.get_loss("mhe", temperature=temperature)
    rows = views(120, 0, 16, torch.float32)
    value, computed = gradients(gradlab.blockwise(loss, 25), rows, "mean", torch.tensor(1.0))
    total, *expected = exact(loss, rows, "mean", torch.tensor(1.0))
    assert float(value) == pytest.approx(float(total), rel=1e-5)
    largest = max(float(gradient.abs().max()) for gradient in expected)
    for actual, reference in zip(computed, expected, strict=True):
        # Cosines are rounded to 1e-7 before they are divided by τ.
        assert float((actual - reference).abs().max()) <= (1e-6 + 4e-7 / temperature) * largest


@dataclasses.dataclass(frozen=True)
class Unregistered(BatchLoss):
    """What a loss of one's own has to say besides its value."""

    name = "unregistered"

    def dissipation(self, views):
        return 1 + 0 * views.positive.chord

    def negative_weight(self, views):
        return views.other_view.softmax(0.3)

    def positive_weight(self, views, total):
        return total


class EverySummary(Unregistered):
    """All summaries of all comparisons, and of rows that move on both sides."""

    def value(self, views):
        total, cosines = views.weighted_cosines(self.negative_weight, views.other_view)
        of_all = views.other_view.log_sum_exp_of_all(0.2) + views.positive_view.log_sum_exp_of_all(
            0.5
        )
        shares = views.other_view.shares_of_all(0.2) + views.same_view.shares_of_all(0.4)
        nearest = views.other_view.hardest.chord * views.same_view.hardest.angle
        rows = views.same_view.log_sum_exp(0.3) - views.other_view.log_sum_exp(0.1)
        return rows**2 + cosines * total + nearest * of_all + shares * views.positive.angle


class OfItsOwnRows(Unregistered):
    """Weights that are made of all columns of a row, and other rows in the place of the batch's."""

    def value(self, views):
        turned = dataclasses.replace(
            views, anchors=unit(views.anchors.flip(-1) + 0.3 * views.positives)
        )
        _, cosines = turned.weighted_cosines(self.negative_weight, turned.other_view)
        return cosines + turned.same_view.log_sum_exp_of_all(0.3) * views.other_view.hardest.chord

    def negative_weight(self, views):
        cosines = views.other_view.finite_cosine
        return cosines / cosines.norm(dim=-1, keepdim=True)


def test_a_loss_that_takes_all_similarities_is_refused() -> None:
    class Everything(Unregistered):
        def value(self, views):
            return views.same_view.finite_cosine.square().sum()

    with pytest.raises(gradlab.GradlabError, match="needs all similarities of the batch at once"):
        gradlab.blockwise(Everything(), 3)(*views(5))


def test_what_is_not_finite_is_refused() -> None:
    class Root(Unregistered):
        def value(self, views):
            return views.positive.chord.sqrt().sum()

    class Pole(Unregistered):
        def value(self, views):
            return (1 / views.positive.chord).sum()

    anchors, positives, _ = views(6)
    positives = torch.cat([anchors[:1], positives[1:]])
    with pytest.raises(
        gradlab.GradlabError, match="gradient of unregistered is not finite on these rows"
    ):
        gradlab.blockwise(Root())(anchors, positives)
    with pytest.raises(gradlab.GradlabError, match="unregistered is inf on these rows"):
        gradlab.blockwise(Pole())(anchors, positives)


@pytest.mark.parametrize(
    "spec", ["modified_vicreg", "symmetric(infonce)", "per_prefix(dhel, dims=3+6)"]
)
def test_nothing_of_an_evaluation_outlives_it(spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even until the next collection of circles, or large batches would pile up."""
    references = []

    class Watched(block_loop.StreamedComparison):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            references.append(weakref.ref(self))

    monkeypatch.setattr(block_loop, "StreamedComparison", Watched)
    rows = views(530, 0, 6)
    gc.disable()
    try:
        gradlab.blockwise(spec)(*rows).backward()
        gradlab.blockwise(spec)(*(None if tensor is None else tensor.detach() for tensor in rows))
        assert references
        assert not any(reference() for reference in references)
    finally:
        gc.enable()


def test_nothing_of_a_refused_evaluation_outlives_it(monkeypatch: pytest.MonkeyPatch) -> None:
    class Everything(Unregistered):
        def value(self, views):
            return views.same_view.hardest.cosine.sum() + views.same_view.finite_cosine.sum()

    laps = []

    class Watched(block_loop.StreamedComparison):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            laps.append(weakref.ref(self))

    monkeypatch.setattr(block_loop, "StreamedComparison", Watched)
    rows = views(530, 0, 6)
    gc.disable()
    try:
        with contextlib.suppress(gradlab.GradlabError):
            gradlab.blockwise(Everything())(*rows)
        assert laps
        assert not any(reference() for reference in laps)
    finally:
        gc.enable()


class ChangesWhatItIsGiven(Unregistered):
    """Its functions write over the cosines."""

    def value(self, views):
        return views.negatives.sum_of(self.overwritten).log()

    def overwritten(self, negatives):
        return negatives.cosine.mul_(-3.0).exp_()


class ToTheMiddle(Unregistered):
    """One row beside all of them."""

    def value(self, views):
        middle = unit(views.anchors.mean(0, keepdim=True))
        return views.pair(views.anchors, middle).chord + views.pair(middle, views.positives).angle


class OfTensors(Unregistered):
    """A function of rows around it."""

    def value(self, views):
        shift = views.positives.mean().detach()
        return views.negatives.sum_of(lambda negatives: (negatives.finite_cosine - shift).exp())


MANY = [EverySummary(), OfItsOwnRows()]
OWN = [*MANY, ChangesWhatItIsGiven(), ToTheMiddle(), OfTensors()]


@pytest.mark.parametrize(
    "loss", [*OWN, *(gradlab.recombine(gate=a, weight=a, ratio=a) for a in MANY)]
)
def test_a_new_loss_is_served(loss: BatchLoss) -> None:
    assert_equal_to_autograd(loss, views(30, 4, 6), 8, 1e-12)
