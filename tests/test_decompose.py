"""Any loss taken apart by its gradients alone, against closed forms, loops and other libraries."""

from __future__ import annotations

import itertools
import math
import re

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy, mse_loss, normalize

import gradlab
from gradlab.batch import unit_rows
from gradlab.decomposition import coefficients as coefficient_reading
from gradlab.decomposition import matching
from gradlab.gradient.verification import BATCHES

# GOR is of one view alone, which decompose refuses: it asks for the alignment term, too.
NAMES = [name for name in gradlab.loss_names() if name != "gor"]


def batch(n: int, d: int, seed: int = 0, kind: str = "paired") -> tuple[torch.Tensor, torch.Tensor]:
    anchors, positives = BATCHES[kind](np.random.default_rng(seed), n, d)
    return torch.from_numpy(anchors), torch.from_numpy(positives)


def infonce(anchors, positives, *extra, temperature=0.1, own_negatives=None):
    """A user's InfoNCE: cross-entropy over all logits, averaged."""
    logits = anchors @ torch.cat([positives, *extra]).T
    if own_negatives is not None:
        logits = torch.cat([logits, torch.einsum("nd,nhd->nh", anchors, own_negatives)], dim=1)
    return cross_entropy(logits / temperature, torch.arange(len(anchors)))


def triplet(anchors, positives, margin=0.3):
    similarity = anchors @ positives.T
    negative_cosines = similarity.masked_fill(torch.eye(len(anchors), dtype=torch.bool), -2)
    return (negative_cosines.max(dim=1).values - similarity.diagonal() + margin).relu().sum()


def push(components):
    """Coefficients of negatives."""
    return components.gradient_dissipation[:, None] * components.weight


def closed_form(name, anchors, positives):
    """Coefficients (other view, same view, positive) of a registered loss.

    None where its form is none of dot products.
    """
    components = gradlab.components(name, anchors, positives)
    if components.positive_weight.ndim != 1 or components.extra_terms:
        return None
    negatives = push(components)
    zero = torch.zeros_like(negatives)
    other_view, same_view = (
        (negatives, zero) if components.negative_view == "other" else (zero, negatives)
    )
    return other_view, same_view, components.pull


def assert_same(actual, expected, relative=1e-6):
    """To ``relative`` of the largest expected entry (and something must be there)."""
    scale = float(abs(expected).max())
    assert float(abs(actual - expected).max()) <= relative * scale


DOT_PRODUCT_NAMES = [name for name in NAMES if closed_form(name, *batch(4, 3)) is not None]


# Registered losses, found without being named


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("kind", "n", "d"), [*((kind, 24, 7) for kind in BATCHES), ("paired", 12, 64)]
)
def test_recovers_the_closed_form_of_every_registered_loss(name, kind, n, d):
    anchors, positives = batch(n, d, kind=kind)
    loss = gradlab.get_loss(name)
    anonymous = lambda a, p: loss(a, p, reduction="sum")  # noqa: E731
    expected = closed_form(name, anchors, positives)
    if expected is None:
        with pytest.raises(gradlab.GradlabError, match="not a function of dot products"):
            gradlab.decompose(anonymous, anchors, positives)
        return
    decomposition = gradlab.decompose(anonymous, anchors, positives)
    coefficients = (
        decomposition.other_view_gradient,
        decomposition.same_view_gradient,
        decomposition.pull,
    )
    pairs = list(zip(coefficients, expected, strict=True))
    for actual, exact in pairs:
        assert_same(actual, exact)
    assert decomposition.method == "lifted"
    assert decomposition.relative_residual < 1e-9
    assert not decomposition.unreliable.any()
    torch.testing.assert_close(
        decomposition.gradient() + decomposition.residual, decomposition.tangent_gradient
    )
    # The estimate of the error must not promise what is not kept; closed forms have rounding errors
    # too, near vectors more.
    scale = max(float(exact.abs().max()) for _, exact in pairs)
    worst = max(float((actual - exact).abs().max()) for actual, exact in pairs)
    smallest = torch.cdist(anchors, torch.cat([anchors, positives])).fill_diagonal_(1).min()
    assert worst / scale <= 10 * decomposition.relative_error + 1e-14 / float(smallest)


# Losses of nobody's registry, against loops


def test_both_kinds_of_negatives_apart():
    """Both views as anchors against everything (SimCLR): coefficients by loops over the softmax."""
    anchors, positives = batch(6, 4)
    tau = 0.2

    def simclr(a, p):
        rows = torch.cat([a, p])
        logits = (rows @ rows.T / tau).masked_fill(torch.eye(12, dtype=torch.bool), float("-inf"))
        return cross_entropy(logits, torch.arange(12).roll(6), reduction="sum")

    decomposition = gradlab.decompose(simclr, anchors, positives)
    rows = torch.cat([anchors, positives])
    weight = np.zeros((12, 12))
    for i in range(12):
        total = sum(math.exp(float(rows[i] @ rows[k]) / tau) for k in range(12) if k != i)
        for j in range(12):
            weight[i, j] = 0 if i == j else math.exp(float(rows[i] @ rows[j]) / tau) / total / tau
    symmetric_weight = torch.from_numpy(weight + weight.T)
    same_view, other_view = symmetric_weight[:6, :6], symmetric_weight[:6, 6:]
    torch.testing.assert_close(decomposition.same_view_gradient, same_view, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(
        decomposition.pull, 2 / tau - other_view.diagonal(), rtol=1e-9, atol=0
    )
    other_view = other_view - torch.diag(other_view.diagonal())
    torch.testing.assert_close(decomposition.other_view_gradient, other_view, rtol=1e-9, atol=1e-12)
    dissipation = (same_view + other_view).sum(1)
    torch.testing.assert_close(decomposition.total_push, dissipation)
    torch.testing.assert_close(decomposition.other_view, other_view / dissipation[:, None])
    torch.testing.assert_close(decomposition.ratio, decomposition.pull / dissipation)
    torch.testing.assert_close(decomposition.same_view_share, same_view.sum(1) / dissipation)
    largest = torch.maximum(other_view.amax(1), same_view.amax(1)) / dissipation
    torch.testing.assert_close(decomposition.hardest_share, largest)


@pytest.mark.parametrize(
    "transform", [lambda rows: normalize(rows, dim=1), lambda rows: 3 * rows], ids=["unit", "3x"]
)
def test_a_loss_may_normalise_or_scale_its_input(transform):
    anchors, positives = batch(9, 4)
    plain = gradlab.decompose(infonce, anchors, positives)
    factor = float(transform(anchors).norm(dim=1)[0]) ** 2
    transformed = gradlab.decompose(
        lambda a, p: infonce(transform(a), transform(p), temperature=0.1 * factor),
        anchors,
        positives,
    )
    torch.testing.assert_close(
        transformed.other_view_gradient, plain.other_view_gradient, rtol=1e-9, atol=1e-12
    )
    assert transformed.relative_residual < 1e-12


@pytest.mark.parametrize("open_", [True, False])
def test_gates_next_to_their_threshold_keep_their_state(open_):
    """A margin 1e-9 to either side of one anchor's gap: cosines shrunk by δ² must not decide it."""
    anchors, positives = batch(12, 6)
    cosines = anchors[4] @ positives.T
    gap = float(cosines[4] - cosines[torch.arange(12) != 4].max())
    margin = gap + (1e-9 if open_ else -1e-9)
    decomposition = gradlab.decompose(lambda a, p: triplet(a, p, margin), anchors, positives)
    assert (float(decomposition.total_push[4]) > 0) is open_
    assert not decomposition.unreliable.any()


def test_inverses_need_a_larger_delta():
    """log det(I + c HᵀH) mixes all coordinates: its rounding, divided by a tiny δ, would be all."""
    anchors, positives = batch(8, 5)
    c = 50.0

    def determinant(a, p):
        return torch.logdet(torch.eye(a.shape[1], dtype=a.dtype) + c * a.T @ a) - (a * p).sum()

    decomposition = gradlab.decompose(determinant, anchors, positives)
    exact = 2 * c * torch.linalg.inv(torch.eye(8, dtype=torch.float64) + c * anchors @ anchors.T)
    exact.fill_diagonal_(0)
    error = float((decomposition.same_view_gradient - exact).abs().max())
    assert error <= 1e-8 * float(exact.abs().max())
    assert error <= 10 * float(decomposition.error.max()) + 1e-13 * float(exact.abs().max())


def test_extrapolation_removes_the_error_that_is_estimated(monkeypatch):
    """A coarse δ has an error of order δ², which two readings tell; what is left is of order δ⁴."""
    anchors, positives = batch(9, 5)
    monkeypatch.setattr(coefficient_reading, "DELTAS", (2.0**-7,))
    decomposition = gradlab.decompose(
        lambda a, p: infonce(a, p, temperature=0.5), anchors, positives
    )
    expected = push(gradlab.components("infonce(temperature=0.5)", anchors, positives)) / 9
    left = float((decomposition.other_view_gradient - expected).abs().max())
    assert left < 0.05 * float(decomposition.error.max())


# Losses of other libraries


@pytest.mark.parametrize(("metric", "name"), [("COSINE", "mpt"), ("EUCLIDEAN", "met")])
def test_sentence_transformers_triplet(metric, name):
    losses = pytest.importorskip("sentence_transformers.losses")
    anchors, positives = batch(20, 64)
    native = losses.TripletLoss(
        torch.nn.Identity(), getattr(losses.TripletDistanceMetric, metric), triplet_margin=0.4
    )
    decomposition = gradlab.decompose(native, anchors, positives)
    expected = gradlab.components(gradlab.get_loss(name, margin=0.4), anchors, positives)
    assert_same(decomposition.other_view_gradient, push(expected) / 20)
    assert_same(decomposition.pull, expected.gradient_dissipation * expected.positive_weight / 20)
    assert 0 < int((decomposition.total_push == 0).sum()) < 20


def test_sentence_transformers_with_a_queue_of_hard_negatives():
    losses = pytest.importorskip("sentence_transformers.losses")
    anchors, positives = batch(7, 4)
    hard, _ = batch(14, 4, seed=5)
    loss = losses.MultipleNegativesRankingLoss(torch.nn.Identity())
    decomposition = gradlab.decompose(loss, anchors, positives, hard)
    expected = gradlab.components("infonce", anchors, positives, hard)
    assert_same(decomposition.other_view_gradient, push(expected) / 7)
    with pytest.raises(gradlab.GradlabError, match="not whole columns"):
        gradlab.decompose(loss, anchors, positives, hard[:9])


@pytest.mark.parametrize(
    "name", ["BatchHardTripletLoss", "ContrastiveLoss", "CoSENTLoss", "OnlineContrastiveLoss"]
)
def test_sentence_transformers_losses_of_labels(name):
    losses = pytest.importorskip("sentence_transformers.losses")
    anchors, positives = batch(9, 4)
    decomposition = gradlab.decompose(
        getattr(losses, name)(torch.nn.Identity()), anchors, positives
    )
    assert decomposition.relative_residual < 1e-9
    assert float(decomposition.pull.min()) >= 0
    assert float(decomposition.total_push.max()) > 0
    assert bool(decomposition.same_view_gradient.any()) is name.startswith("Batch")


@pytest.mark.parametrize(
    ("make", "temperature"),
    [(lambda m: m.NTXentLoss(temperature=0.1), 0.1), (lambda m: m.NPairsLoss(), 1.0)],
)
def test_metric_learning_softmax_losses(make, temperature):
    """With the other view as references; N-pairs, which takes none, gets both views stacked."""
    losses = pytest.importorskip("pytorch_metric_learning.losses")
    anchors, positives = batch(20, 8)
    decomposition = gradlab.decompose(make(losses), anchors, positives)
    expected = gradlab.components(f"infonce(temperature={temperature})", anchors, positives)
    assert_same(decomposition.other_view_gradient, push(expected) / 20)


# Losses outside the paradigm


def barlow_twins(anchors, positives, nu=0.5):
    c = anchors.T @ positives / len(anchors)
    return (1 - c.diagonal()).square().sum() + nu * (c.square().sum() - c.diagonal().square().sum())


def test_projection_of_a_loss_on_features_is_least_squares():
    anchors, positives = batch(5, 24)
    decomposition = gradlab.decompose(barlow_twins, anchors, positives, allow_residual=True)
    assert decomposition.method == "span"
    assert decomposition.rotation_change > 1e-3
    assert 0.01 < decomposition.relative_residual < 1
    assert decomposition.unreliable.all()
    for i in range(5):
        # Orthogonal to everything the paradigm can use at anchor i, and found anew by numpy.
        usable = np.vstack([positives.numpy(), np.delete(anchors.numpy(), i, axis=0)])
        h = anchors[i].numpy()
        usable = usable - np.outer(usable @ h, h)
        assert np.abs(usable @ decomposition.residual[i].numpy()).max() < 1e-12
        best, *_ = np.linalg.lstsq(usable.T, decomposition.tangent_gradient[i].numpy(), rcond=None)
        own = np.insert(
            decomposition.other_view_gradient[i].numpy()[np.arange(5) != i],
            i,
            -float(decomposition.pull[i]),
        )
        np.testing.assert_allclose(best[:5], own, rtol=0, atol=1e-10)


def test_a_mean_over_coordinates_is_found_by_least_squares_or_refused():
    """``mse_loss`` divides by D: a function of dot products, but another one in more dimensions."""

    def aligned(a, p):
        return mse_loss(a, p) + infonce(a, p)

    anchors, positives = batch(6, 32)
    decomposition = gradlab.decompose(aligned, anchors, positives)
    plain = gradlab.decompose(infonce, anchors, positives)
    assert decomposition.method == "span"
    torch.testing.assert_close(decomposition.pull, plain.pull + 2 / (6 * 32), rtol=0, atol=1e-12)
    torch.testing.assert_close(
        decomposition.other_view_gradient, plain.other_view_gradient, rtol=0, atol=1e-12
    )
    assert not decomposition.same_view_gradient.any()
    with pytest.raises(gradlab.GradlabError, match="at most 3 sentences"):
        gradlab.decompose(aligned, anchors[:, :8] * 1, positives[:, :8] * 1, normalize=True)


# Bad input


def counter():
    calls = itertools.count()
    return lambda a, p: infonce(a, p) * (1 + next(calls))


def in_place(a, p):
    a.mul_(2)
    return infonce(a, p)


BAD = {
    "detached": (lambda a, p: infonce(a.detach(), p), "not differentiable"),
    "ignores anchors": (
        lambda a, p: (p.requires_grad_() ** 2).sum(),
        "does not depend on the anchors",
    ),
    "state": (counter(), "two calls on the same batch"),
    "in place": (in_place, "changes its anchors in place"),
    "raises": (lambda a, p: a @ p, "raised RuntimeError"),
    "infinite gradient": (
        lambda a, p: (a[:1] - p[:1] * 0 - a[:1].detach()).square().sum().sqrt(),
        "not finite at anchor 0",
    ),
}


@pytest.mark.parametrize(("loss", "message"), BAD.values(), ids=BAD)
def test_bad_losses_are_refused_in_one_line(loss, message):
    with pytest.raises(gradlab.GradlabError, match=message):
        gradlab.decompose(loss, *batch(6, 4))


def test_a_loss_without_a_positive_says_so_first():
    """As a regulariser has none; a forgotten alignment term is the first thing to look for."""
    anchors, positives = batch(6, 4)
    of_anchors, of_positives = gradlab.decompose(
        lambda a, p: (2 * a @ a.T).exp().sum(), anchors, positives, side="both"
    )
    assert of_anchors.findings[0].startswith("Nothing pulls an anchor to its positive")
    assert of_anchors.summary().startswith("Nothing pulls")
    assert of_anchors.coefficients.any()
    assert not of_positives.coefficients.any()
    assert not of_positives.tangent_gradient.any()


def test_bad_batches_are_refused():
    with pytest.raises(gradlab.GradlabError, match="normalize=True"):
        gradlab.decompose(infonce, 2 * torch.eye(3, 4), torch.eye(3, 4))


@pytest.mark.parametrize(("take", "share"), [("max", [0, 1, 0]), ("amax", [0, 0.5, 0.5])])
def test_a_tie_gives_the_subgradient_that_the_loss_takes(take, share):
    """Two equal hardest negatives: ``max`` takes the first, ``amax`` halves; both are found."""
    positives = normalize(
        torch.tensor([[1.0, 0.2, 0], [1, 1, 0], [1, 1, 0]], dtype=torch.float64), dim=1
    )
    anchors = normalize(
        torch.tensor([[1.0, 0, 0.1], [0, 0, 1], [0, 1, 1]], dtype=torch.float64), dim=1
    )

    def hardest(a, p):
        s = (a @ p.T).masked_fill(torch.eye(3, dtype=torch.bool), -2)
        top = s.max(dim=1).values if take == "max" else s.amax(dim=1)
        return (top - (a * p).sum(1)).sum()

    decomposition = gradlab.decompose(hardest, anchors, positives)
    assert decomposition.other_view[0].tolist() == pytest.approx(share)
    assert decomposition.relative_residual < 1e-12


def test_closed_gates_have_no_weight_and_no_ratio():
    anchors, positives = batch(8, 32)
    decomposition = gradlab.decompose(lambda a, p: triplet(a, p, -5.0), anchors, positives)
    assert not decomposition.weight.any()
    assert decomposition.ratio.isnan().all()
    assert decomposition.hardest_share.isnan().all()
    assert decomposition.relative_residual == 0
    assert decomposition.matches == []
    assert "no negative acts" in decomposition.report()


# The result


def test_numpy_in_numpy_out_in_double_and_nothing_else_changes():
    anchors, positives = batch(7, 4)
    state = torch.get_rng_state()
    with torch.no_grad():
        decomposition = gradlab.decompose(
            infonce, anchors.float().numpy(), positives.float().numpy()
        )
    assert torch.equal(torch.get_rng_state(), state)
    tensors = gradlab.decompose(infonce, anchors.float(), positives.float().requires_grad_())
    for name in (
        "relative_push",
        "total_push",
        "weight",
        "ratio",
        "residual",
        "error",
        "unreliable",
        "same_view",
    ):
        value = getattr(decomposition, name)
        assert isinstance(value, np.ndarray)
        np.testing.assert_allclose(value, getattr(tensors, name).numpy(), rtol=1e-12, atol=1e-14)
    assert tensors.pull.dtype == torch.float64
    assert tensors.relative_error < 1e-12


@pytest.mark.parametrize("name", DOT_PRODUCT_NAMES)
def test_every_registered_loss_is_recognised_by_its_components(monkeypatch, name):
    """Averaged, with extra negatives; where it has a temperature or margin, not at the default."""
    monkeypatch.setattr(matching, "loss_names", lambda: [name])  # each is fitted by itself
    fields = gradlab.get_loss(name).__dataclass_fields__
    changed = {}
    if "temperature" in fields:
        changed = {"temperature": 0.083}
    elif "margin" in fields:
        changed = {"margin": 0.4}
    loss = gradlab.get_loss(name, **changed)
    anchors, positives = batch(16, 40)
    queue, _ = batch(3, 40, seed=3)
    decomposition = gradlab.decompose(
        lambda a, p, q: loss(a, p, q, reduction="sum") / 16, anchors, positives, queue
    )
    assert decomposition.extra.shape == (16, 3)
    assert decomposition.extra.any()
    (best,) = decomposition.matches
    assert best.same
    assert best.factor == pytest.approx(1 / 16, rel=1e-5)
    if "temperature" in changed:
        assert best.loss.temperature == pytest.approx(0.083, rel=1e-4)
    for low, high in best.undetermined.values():
        assert low < loss.margin < high


@pytest.mark.parametrize(
    ("loss", "registered", "views", "sentence"),
    [
        (infonce, ["infonce", "mpt"], batch(12, 30), "temperature 0.1, averaged over 12 anchors."),
        (
            lambda a, p: 24 * infonce(a.float(), p.float()),
            ["infonce", "mpt"],
            batch(12, 30),
            "temperature 0.1, times 2.",
        ),
        # One anchor among extra negatives: MHE, with its own factor, has InfoNCE's components too.
        (
            infonce,
            ["mhe", "infonce"],
            [rows[:1] for rows in batch(6, 16)] + [batch(6, 16)[1][1:]],
            "temperature 0.1, averaged over 1 anchor.",
        ),
        # t-vMF on two equal views: coefficients of 1e-200, whose squares underflow.
        (
            lambda a, p: infonce(a, p, temperature=0.05),
            ["tvmf", "infonce"],
            [batch(8, 16)[0]] * 2,
            "temperature 0.05, averaged over 8 anchors.",
        ),
    ],
    ids=["mean", "twice, in single precision", "a single anchor", "underflow"],
)
def test_the_sentence_names_the_loss(monkeypatch, loss, registered, views, sentence):
    monkeypatch.setattr(matching, "loss_names", lambda: registered)
    decomposition = gradlab.decompose(loss, *views)
    assert decomposition.summary() == f"This is InfoNCE with {sentence}"
    assert all(math.isfinite(match.mismatch) for match in decomposition.matches)
    if "mhe" in registered:
        assert all(match.same for match in decomposition.matches)  # or this says nothing


def test_the_sentence_says_what_differs(monkeypatch):
    """Against shares and counts from the logits, computed here."""
    monkeypatch.setattr(matching, "loss_names", lambda: ["infonce"])
    anchors, positives = batch(40, 60)
    smoothed = lambda a, p: cross_entropy(  # noqa: E731
        a @ p.T / 0.05, torch.arange(40), label_smoothing=0.2
    )
    words = gradlab.decompose(smoothed, anchors, positives).summary()
    (temperature,) = map(float, re.findall(r"InfoNCE with temperature ([\d.]+)", words))

    def traits(temperature, smoothing):
        push = (anchors @ positives.T / temperature).softmax(dim=1) - smoothing / 40
        push.fill_diagonal_(0)
        hardest = float((push.abs().amax(dim=1) / push.abs().sum(dim=1)).mean())
        relative = push.sum(dim=1).abs() / push.sum(dim=1).abs().max()
        return (
            round(100 * hardest),
            int((relative <= 0.01).sum()),
            round(100 * float(relative.mean())),
        )

    smoothed_traits, softmax_traits = traits(0.05, 0.2), traits(temperature, 0)
    assert f"has {smoothed_traits[0]}% of it instead of {softmax_traits[0]}%" in words
    assert (
        f"leaves {smoothed_traits[1] or 'none'} of 40 anchors alone instead of {softmax_traits[1]}"
        in words
    )
    assert f"is {smoothed_traits[2]}% of the largest instead of {softmax_traits[2]}%" in words


def test_a_rough_fit_that_suffices_is_fitted_to_the_last_digit_too(monkeypatch):
    """A mean over 16 anchors was *times 0.0625001*: the rough fit left 6e-7 of coefficients."""
    monkeypatch.setattr(matching, "loss_names", lambda: ["infonce"])
    rng = np.random.default_rng(0)
    rows = [torch.from_numpy(rng.normal(size=(n, 8))) for n in (16, 16, 4)]
    decomposition = gradlab.decompose(infonce, *rows, normalize=True)
    assert "infonce(temperature=0.1), divided by N = 16\n" in decomposition.report()
    assert decomposition.matches[0].mismatch < 1e-12


@pytest.mark.parametrize("seed", [0, 2])
def test_a_margin_of_nothing_does_not_name_a_symmetric_loss(seed):
    """On few rows other symmetric losses fit CLIP's too, a further hyper-parameter being near 0."""

    def clip(a, p):
        return (infonce(a, p, temperature=0.07) + infonce(p, a, temperature=0.07)) / 2

    drawn = torch.randn(
        2, 16, 64, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)
    )
    anchors = normalize(drawn[0], dim=1)
    decomposition = gradlab.decompose(clip, anchors, normalize(anchors + 0.5 * drawn[1], dim=1))
    assert decomposition.summary().startswith("This is symmetric InfoNCE with temperature 0.07,")


def test_two_settings_that_fit_the_noise_of_single_precision_do_not_name_the_loss(monkeypatch):
    """CosFace with margin -0.00026 is nearer than InfoNCE, by less than half of what is left."""
    monkeypatch.setattr(matching, "loss_names", lambda: ["infonce", "cosface", "arccon"])
    generator = np.random.default_rng(0)
    anchors = unit_rows(generator.normal(size=(8, 16)))
    positives = unit_rows(anchors + 0.9 * generator.normal(size=(8, 16)) / 4)
    loss = lambda a, p: infonce(a.float(), p.float(), temperature=0.05)  # noqa: E731
    decomposition = gradlab.decompose(loss, anchors, positives)
    # Or this says nothing.
    assert (
        min(match.mismatch for match in decomposition.matches) < decomposition.matches[0].mismatch
    )
    assert decomposition.summary().startswith(
        "This is InfoNCE with temperature 0.05, averaged over 8 anch"
    )


def test_the_report_counts_what_acts(monkeypatch):
    monkeypatch.setattr(matching, "loss_names", lambda: ["infonce"])
    anchors, positives = batch(3, 24)
    own = unit_rows(
        torch.randn(3, 2, 24, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    )

    def loss(first, second, own_negatives):
        return infonce(first, second, own_negatives=own_negatives) * first.shape[1]

    decomposition = gradlab.decompose(loss, anchors, positives, own_negatives=own)
    text = decomposition.report()
    assert "3 sentences in 24 dimensions, 2 own negatives of each" in text
    assert re.search(r"negatives +other view and own negatives only", text)
    assert "12 vectors in 24 dimensions" in text  # three of each view, and six own negatives
    across = (anchors @ positives.T).fill_diagonal_(-2)
    hardest = torch.cat([across, torch.einsum("nd,nhd->nh", anchors, own)], dim=1).amax(1)
    np.testing.assert_allclose(
        decomposition.to_frame()["hardest_negative_cosine"], hardest, rtol=1e-12
    )


def test_a_pull_alone_is_no_closed_gate():
    decomposition = gradlab.decompose(lambda first, second: -(first * second).sum(), *batch(4, 8))
    assert re.search(
        r"4 of 4 anchors: no negative acts on them$", decomposition.report(), re.MULTILINE
    )
    closed = gradlab.decompose(lambda first, second: triplet(first, second, -3.0), *batch(4, 8))
    assert "no negative acts on them (a closed gate)" in closed.report()


def test_negatives_read_from_gradients_are_without_what_a_mask_leaves_out():
    """A gradient does not tell a pair that is left out from one that a closed gate spares."""
    anchors, positives = batch(9, 6)
    cosines = (anchors @ positives.T).masked_fill(torch.eye(9, dtype=torch.bool), -2)
    hardest = cosines.masked_fill(cosines > 0.2, -2).amax(1)
    assert bool((hardest < cosines.amax(1)).any())
    expected = hardest.masked_fill(hardest == -2, float("nan"))
    text = "symmetric(mask(infonce, above=0.2))"
    read = gradlab.components(text, anchors, positives, method="autograd")
    for decomposition in (gradlab.decompose(text, anchors, positives), read):
        np.testing.assert_allclose(
            decomposition.to_frame()["hardest_negative_cosine"], expected, rtol=1e-12
        )


def test_the_positives_of_anchors_with_own_negatives_have_the_same_name():
    """Own negatives push no positive, but are in the anchors' softmax, so in every coefficient."""
    anchors, positives = batch(9, 6)
    own = unit_rows(anchors.numpy()[:, None] + np.random.default_rng(1).normal(size=(9, 2, 6)))
    of = {"own_negatives": torch.from_numpy(own)}
    for decomposition in gradlab.decompose(infonce, anchors, positives, side="both", **of):
        assert decomposition.summary().endswith(
            f"temperature 0.1, averaged over 9 {decomposition.side}."
        )


@pytest.mark.parametrize("side", ["anchors", "positives"])
def test_a_gate_of_each_pair_determines_the_margin(side):
    """Several margins open the same anchors; the number of triplets tells them apart."""
    anchors, positives = batch(12, 16)

    def loss(first, second):
        excess = 0.3 + first @ second.T - (first * second).sum(1, keepdim=True)
        return excess.clamp(min=0)[~torch.eye(12, dtype=torch.bool)].mean()

    decomposition = gradlab.decompose(loss, anchors, positives, side=side)
    assert decomposition.matches[0].same
    assert decomposition.summary().startswith("This is Triplet with margin 0.3")


def test_a_batch_that_any_temperature_fits_names_none() -> None:
    orthogonal = torch.eye(6, dtype=torch.float64)
    summary = gradlab.decompose(infonce, orthogonal, orthogonal).summary()
    assert summary.startswith("On this batch it cannot be told from InfoNCE and others: any temp")
    told_apart = normalize(orthogonal + orthogonal.roll(1, 0) / 3, dim=1)
    told_apart[0] = normalize(told_apart[0] + told_apart[2], dim=0)
    summary = gradlab.decompose(infonce, told_apart, orthogonal).summary()
    assert "InfoNCE with temperature 0.1," in summary
