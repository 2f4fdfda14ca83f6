"""Combinators against the losses of sentence-transformers: value and gradients, in float64."""

from __future__ import annotations

import importlib
import itertools

import pytest
import torch
from torch import nn

import gradlab
from gradlab.monitor.batch_measurement import Probe, Snapshot
from gradlab.monitor.library_losses import recognise, seen_by, share_in_order
from gradlab.settings import call_text

adapter = pytest.importorskip("gradlab.integrations.sentence_transformers")
losses = pytest.importorskip("sentence_transformers.losses")
util = pytest.importorskip("sentence_transformers.util")
TOLERANCE = 1e-10
COUNT, DIMENSION = 7, 6


class Placeholder(nn.Module):
    """In the place of the model, which is not called."""

    def __getitem__(self, index: int) -> nn.Module:
        return self


def columns(number: int, seed: int = 0, dimension: int = DIMENSION) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    base = torch.randn(COUNT, dimension, dtype=torch.float64, generator=generator)
    noise = [
        torch.randn(COUNT, dimension, dtype=torch.float64, generator=generator)
        for _ in range(number)
    ]
    return [nn.functional.normalize(base + 0.8 * direction, dim=1) for direction in noise]


def assert_near(actual: torch.Tensor, expected: torch.Tensor) -> None:
    assert float((actual - expected).detach().abs().max()) <= TOLERANCE * max(
        1, float(expected.detach().abs().max())
    )


def assert_equal(reference, ours, rows: list[torch.Tensor], **context) -> None:
    """Value and gradients of a function of columns and a gradlab loss."""
    first, second = ([row.clone().requires_grad_() for row in rows] for _ in range(2))
    value = reference(first)
    anchors, positives, *hard = second
    extra = torch.cat(hard) if hard else None
    if hard:
        context["owners"] = torch.arange(COUNT).repeat(len(hard))
    loss_value = ours(anchors, positives, extra, normalize=True, **context)
    assert_near(loss_value, value)
    expected, got = (
        torch.autograd.grad(scalar, leaves, allow_unused=True, materialize_grads=True)
        for scalar, leaves in ((value, first), (loss_value, second))
    )
    for actual, expected_gradient in zip(got, expected, strict=True):
        assert_near(actual, expected_gradient)
    # The components are those of the same gradient, on both sides.
    rows_of_loss = [
        None if tensor is None else tensor.detach() for tensor in (anchors, positives, extra)
    ]
    pair = gradlab.components(ours, *rows_of_loss, side="both", normalize=True, **context)
    for components, gradient, row in zip(pair, expected, rows, strict=False):
        assert_near(
            components.gradient() / COUNT, gradient - (gradient * row).sum(1, keepdim=True) * row
        )


DIRECTIONS = [
    ("query_to_doc", *further)
    for count in range(4)
    for further in itertools.combinations(("query_to_query", "doc_to_query", "doc_to_doc"), count)
]
MODES = [None, "in_batch_negatives", "hard_negatives", "all_negatives"]


@pytest.mark.parametrize(
    ("directions", "partition", "mode"),
    [
        (directions, partition, MODES[(at + shift) % 4])
        for at, directions in enumerate(DIRECTIONS)
        for partition in ("joint", "per_direction")
        for shift in (0, 1)
        if partition == "joint" or not {"query_to_query", "doc_to_doc"} & set(directions)
    ],
)
def test_multiple_negatives_ranking(directions, partition, mode) -> None:
    options = {"directions": directions, "partition_mode": partition, "hardness_mode": mode}
    criterion = losses.MultipleNegativesRankingLoss(
        Placeholder(), scale=8.0, **options, hardness_strength=3.0 if mode else 0
    )
    ours = recognise(criterion)
    assert ours is not None
    assert gradlab.get_loss(call_text(ours)) == ours
    for number in (2, 3, 4):
        assert_equal(
            lambda rows: criterion.compute_loss_from_embeddings(rows, None), ours, columns(number)
        )
    cached = losses.CachedMultipleNegativesRankingLoss(
        Placeholder(), scale=8.0, mini_batch_size=3, **options, hardness_strength=3.0 if mode else 0
    )
    assert recognise(cached) == ours
    rows = columns(3)
    value = cached.calculate_loss([list(row.split(3)) for row in rows])
    torch.testing.assert_close(
        value, criterion.compute_loss_from_embeddings(rows, None), rtol=1e-12, atol=0
    )


@pytest.mark.filterwarnings("ignore:The .*SymmetricRankingLoss is deprecated")
@pytest.mark.parametrize("cached", [False, True])
def test_symmetric_and_cached(cached: bool) -> None:
    name, options = (
        "MultipleNegativesSymmetricRankingLoss",
        {"mini_batch_size": 3} if cached else {},
    )
    criterion = getattr(losses, "Cached" * cached + name)(Placeholder(), scale=12.0, **options)
    ours = recognise(criterion)
    assert call_text(ours) == f"symmetric(infonce(temperature={1 / 12!r}))"

    def library_value(rows):
        if cached:
            return criterion.calculate_loss([list(row.split(3)) for row in rows])
        return criterion.compute_loss_from_embeddings(rows, None)

    for number in (2, 3):
        assert_equal(library_value, ours, columns(number))


@pytest.mark.parametrize("cached", [False, True])
@pytest.mark.parametrize("strategy", ["absolute", "relative"])
@pytest.mark.parametrize("contrast", list(itertools.product([False, True], repeat=2)))
def test_gist(contrast, strategy, cached, monkeypatch) -> None:
    """The guide keeps some pairs and leaves others out.

    All its positives are below 1, so that own columns are masked.
    """
    kind = losses.CachedGISTEmbedLoss if cached else losses.GISTEmbedLoss
    module = importlib.import_module(kind.__module__)
    criterion = kind.__new__(kind)
    nn.Module.__init__(criterion)
    criterion.mini_batch_size, criterion.show_progress_bar = 3, False
    criterion.model, criterion.guide, criterion.must_retokenize = "model", "guide", False
    criterion.similarity_fct, criterion.cross_entropy_loss = (
        nn.CosineSimilarity(dim=-1),
        nn.CrossEntropyLoss(),
    )
    criterion.temperature, criterion.margin_strategy, criterion.margin = 0.2, strategy, 0.1
    criterion.contrast_anchors, criterion.contrast_positives = contrast
    criterion.gather_across_devices = False
    ours = recognise(criterion)
    assert gradlab.get_loss(call_text(ours)) == ours
    for number in (2, 3):
        rows, guide = columns(number), columns(number, seed=1, dimension=4)

        def library_value(batch_columns, guide=guide):
            if cached:
                return criterion.calculate_loss(
                    *(
                        [list(row.split(3)) for row in column_list]
                        for column_list in (batch_columns, guide)
                    )
                )
            monkeypatch.setattr(
                module,
                "embed_columns",
                lambda model, features: batch_columns if model == "model" else guide,
            )
            return criterion([{} for _ in batch_columns], None)

        context = {"guide": [*guide[:2], torch.cat(guide[2:])] if number > 2 else guide}
        assert_equal(library_value, ours, rows, **context)
        components = gradlab.components(ours, *rows[:2], normalize=True, guide=context["guide"][:2])
        assert 0.05 < components.statistics["masked_pairs"] < 0.95


class WithDimension(Placeholder):
    def get_embedding_dimension(self) -> int:
        return DIMENSION


def normal(*shape: int) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(5))


def unit(*shape: int) -> torch.Tensor:
    return nn.functional.normalize(normal(*shape), dim=-1)


CLASSES, COSINE = torch.tensor([0, 1, 0, 2, 1, 0, 3]), {"similarity_fct": util.pairwise_cos_sim}
ONE_COLUMN = {"distance_metric": losses.BatchHardTripletLossDistanceFunction.cosine_distance}
TRIPLET = {"distance_metric": losses.TripletDistanceMetric.COSINE}
LABELLED = [
    ("MarginMSELoss", COSINE, 4, normal(COUNT, 3)),
    ("MarginMSELoss", COSINE, 4, normal(COUNT, 2)),
    ("MarginMSELoss", COSINE, 3, normal(COUNT)),
    ("DistillKLDivLoss", COSINE | {"temperature": 0.3}, 4, normal(COUNT, 3)),
    (
        "DistillKLDivLoss", COSINE | {"student_temperature": 0.2, "teacher_temperature": 2.0}, 3,
        normal(COUNT, 2),
    ),
    ("EmbedDistillLoss", {}, 1, normal(COUNT, DIMENSION)),
    ("EmbedDistillLoss", {}, 2, normal(COUNT, DIMENSION)),
    ("EmbedDistillLoss", {"distance_metric": "mse"}, 2, unit(COUNT, 2, DIMENSION)),
    ("MSELoss", {}, 1, unit(COUNT, DIMENSION)),
    ("GlobalOrthogonalRegularizationLoss", {}, 2, None),
    (
        "GlobalOrthogonalRegularizationLoss",
        {"mean_weight": 0.3, "second_moment_weight": 2.0, "aggregation": "sum"}, 2, None,
    ),
    (
        "GlobalOrthogonalRegularizationLoss", {"mean_weight": 0.7, "second_moment_weight": None}, 2,
        None,
    ),
    ("CoSENTLoss", {}, 2, torch.tensor([0.1, 0.5, 0.5, 1.0, 0.0, 0.3, 0.9])),
    ("TripletLoss", TRIPLET | {"triplet_margin": 0.2}, 3, None),
    *[(f"Batch{kind}TripletLoss", ONE_COLUMN | {"margin": margin}, 1, CLASSES)
      for kind in ("All", "Hard", "SemiHard") for margin in (0.1, 5.0)],
]  # fmt: skip


@pytest.mark.parametrize(("name", "options", "number", "labels"), LABELLED)
def test_losses_with_labels_and_teachers(name, options, number, labels) -> None:
    """Value and gradients, and the batch that a watched trainer sees.

    What it sees of the columns and labels is a batch of the loss that is recognised.
    """
    criterion = getattr(losses, name)(WithDimension(), **options)
    ours = recognise(criterion, number)
    assert gradlab.get_loss(call_text(ours)) == ours
    rows = [row.requires_grad_() for row in columns(number)]
    value = criterion.compute_loss_from_embeddings(rows, *teacher_of(name, labels, number))
    value = sum(value.values()) if isinstance(value, dict) else value
    observed = {"positives": rows[-1]} | seen_by(criterion, rows, labels)
    batch = Snapshot(rows[0], **observed).views()
    losses_of_rows = ours.value_of(batch)
    assert abs(float(losses_of_rows.mean()) - float(value.detach())) <= TOLERANCE * max(
        1, abs(float(value.detach()))
    )
    expected = torch.autograd.grad(value, rows)
    count = 1 if ours.is_scalar(batch) else COUNT
    for components, gradient, row in zip(ours.sides_of(batch), expected[:2], rows, strict=False):
        tangent = gradient - (gradient * row).sum(1, keepdim=True) * row
        assert float((components.gradient() / count - tangent).abs().max().detach()) <= TOLERANCE
        assert float(tangent.abs().max().detach()) > 1e-3


def teacher_of(name: str, labels, number: int) -> tuple:
    """What the library's loss takes behind the columns."""
    if name in ("EmbedDistillLoss", "MSELoss"):
        return ([labels[:, i] if labels.ndim == 3 else labels for i in range(number)],)
    return (labels,)


def test_a_batch_of_classes_is_cut_to_its_first_sentences() -> None:
    criterion = losses.BatchAllTripletLoss(Placeholder(), **ONE_COLUMN, margin=0.3)
    (rows,) = columns(1)
    few, all_rows = (
        Snapshot(embeddings, **seen_by(criterion, [embeddings], classes)).views()
        for embeddings, classes in ((rows[:5], CLASSES[:5]), (rows, CLASSES))
    )
    loss = recognise(criterion, 1)
    torch.testing.assert_close(
        loss.components_of(all_rows.first(5)).weight, loss.components_of(few).weight
    )


@pytest.mark.parametrize(
    ("name", "options", "reason"),
    [
        ("MarginMSELoss", {}, "pairwise_dot_score of embeddings that the model does not normalize"),
        ("BatchHardTripletLoss", {}, "cosine_distance only"),
        ("TripletLoss", {}, "COSINE"),
        ("CosineSimilarityLoss", {}, "gradlab has no formula"),
        ("MultipleNegativesRankingLoss", {"similarity_fct": util.dot_score}, ""),
    ],
)
def test_what_is_not_recognised_says_why(name, options, reason) -> None:
    criterion = getattr(losses, name)(Placeholder(), **options)
    assert reason in recognise(criterion)


@pytest.mark.parametrize("weights", [[1.0, 1.0], [1.0, 0.3], [0.0, 2.0]])
@pytest.mark.parametrize("cached", [False, True])
def test_matryoshka_is_a_sum_over_prefixes(cached, weights) -> None:
    model = Placeholder()
    model.get_embedding_dimension = lambda: DIMENSION
    name = "CachedMultipleNegativesRankingLoss" if cached else "MultipleNegativesRankingLoss"
    sizes = [DIMENSION, 3]
    criterion = losses.MatryoshkaLoss(model, getattr(losses, name)(model, scale=10.0), sizes,
                                      matryoshka_weights=weights)  # fmt: skip
    ours = recognise(criterion)
    rows = [row.requires_grad_() for row in columns(2)]
    value = torch.zeros((), dtype=torch.float64)
    for size, weight in zip(sizes, weights, strict=True):
        first, second = (nn.functional.normalize(row[:, :size], dim=1) for row in rows)
        target = torch.arange(COUNT)
        value = value + weight * nn.functional.cross_entropy(10 * first @ second.T, target)
    batch = Snapshot(rows[0], **(seen_by(criterion, rows, None) or {"positives": rows[1]})).views()
    torch.testing.assert_close(ours.value_of(batch).mean(), value)
    expected = torch.autograd.grad(value, rows)
    for components, gradient, row in zip(ours.sides_of(batch), expected, rows, strict=True):
        tangent = gradient - (gradient * row).sum(1, keepdim=True) * row
        torch.testing.assert_close(components.gradient() / COUNT, tangent)


def test_matryoshka_of_other_losses_and_of_drawn_prefixes_says_why() -> None:
    model = Placeholder()
    model.get_embedding_dimension = lambda: DIMENSION
    ranking = losses.MultipleNegativesRankingLoss(model)
    drawn = losses.MatryoshkaLoss(model, ranking, [DIMENSION, 3], n_dims_per_step=1)
    assert "draws some of its prefixes" in str(recognise(drawn))
    angle = losses.MatryoshkaLoss(model, losses.AnglELoss(model), [DIMENSION, 3])
    assert "compares angles" in str(recognise(angle))


RATED = ("CosineSimilarityLoss", "CoSENTLoss", "AnglELoss", "ContrastiveLoss",
         "OnlineContrastiveLoss")  # fmt: skip


@pytest.mark.parametrize("name", RATED)
def test_the_order_of_rated_pairs_is_counted_pair_by_pair(name) -> None:
    rows = columns(2, seed=3)
    labels = torch.tensor([float(at % 3 != 0) for at in range(COUNT)])
    cosines = (rows[0] * rows[1]).sum(1).tolist()
    right = [
        float(cosines[i] > cosines[j])
        for i, j in itertools.product(range(COUNT), repeat=2)
        if labels[i] > labels[j]
    ]
    criterion = getattr(losses, name)(Placeholder())
    share = share_in_order(criterion, [5 * row for row in rows], labels)
    assert share == pytest.approx(sum(right) / len(right))
    assert share_in_order(criterion, rows, torch.ones(COUNT)) is None
    equal = [rows[0][:1].repeat(COUNT, 1), rows[1][:1].repeat(COUNT, 1)]
    assert share_in_order(criterion, equal, labels) == 0.5


@pytest.mark.parametrize("name", ["TripletLoss", "MarginMSELoss"])
def test_the_order_of_triplets_is_that_of_positive_and_negatives(name) -> None:
    rows = columns(4, seed=4)
    positive, *negatives = ((rows[0] * row).sum(1) for row in rows[1:])
    right = [float((positive > negative).double().mean()) for negative in negatives]
    criterion = getattr(losses, name)(Placeholder())
    assert share_in_order(criterion, rows, None) == pytest.approx(sum(right) / len(right))


def test_losses_without_an_order_have_none() -> None:
    rows = columns(2)
    ranking = losses.MultipleNegativesRankingLoss(Placeholder())
    assert share_in_order(ranking, rows, torch.arange(COUNT)) is None
    assert share_in_order(None, rows, None) is None


def test_the_order_is_recorded_where_components_are_not() -> None:
    rows = columns(2)
    probe = Probe(losses.CosineSimilarityLoss(Placeholder()))
    measured = probe.measure(Snapshot(*rows, labels=True, order=0.7))["diagnostics"]
    assert measured["order"] == 0.7
    assert "gradient_dissipation" not in measured
    assert "order" not in probe.measure(Snapshot(*rows, labels=True))["diagnostics"]
