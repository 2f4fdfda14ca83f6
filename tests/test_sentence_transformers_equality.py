"""Combinators against the losses of sentence-transformers: value and gradients, in float64."""

from __future__ import annotations

import importlib
import itertools

import pytest
import torch
from torch import nn

import gradlab
from gradlab.monitor.recognition import recognise
from gradlab.settings import call_text

adapter = pytest.importorskip("gradlab.integrations.sentence_transformers")
losses = pytest.importorskip("sentence_transformers.losses")
TOLERANCE = 1e-10
COUNT, DIMENSION = 7, 6


class Placeholder(nn.Module):
    """In the place of the model, which is not called."""

    def __getitem__(self, index: int) -> nn.Module:
        return self


def columns(number: int, seed: int = 0, dimension: int = DIMENSION) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    base = torch.randn(COUNT, dimension, dtype=torch.float64, generator=generator)
    noise = [torch.randn(COUNT, dimension, dtype=torch.float64, generator=generator) for _ in range(number)]
    return [nn.functional.normalize(base + 0.8 * one, dim=1) for one in noise]


def assert_equal(theirs, ours, rows: list[torch.Tensor], **context) -> None:
    """Value and gradients of a function of columns and a gradlab loss."""
    first = [row.clone().requires_grad_() for row in rows]
    second = [row.clone().requires_grad_() for row in rows]
    value = theirs(first)
    anchors, positives, *hard = second
    extra = torch.cat(hard) if hard else None
    if hard:
        context["owners"] = torch.arange(COUNT).repeat(len(hard))
    found = ours(anchors, positives, extra, normalize=True, **context)
    assert float((value - found).abs().detach()) <= TOLERANCE * max(1, abs(float(value.detach())))
    expected = torch.autograd.grad(value, first, allow_unused=True)
    got = torch.autograd.grad(found, second, allow_unused=True)
    for one, other in zip(expected, got, strict=True):
        one = torch.zeros_like(rows[0]) if one is None else one
        other = torch.zeros_like(rows[0]) if other is None else other
        assert float((one - other).abs().max()) <= TOLERANCE * max(1, float(one.abs().max()))
    # The components are those of the same gradient, on both sides.
    anchors, positives, *_ = (row.detach() for row in second)
    pair = gradlab.components(
        ours,
        anchors,
        positives,
        None if extra is None else extra.detach(),
        side="both",
        normalize=True,
        **context,
    )
    for parts, one, row in zip(pair, expected, rows, strict=False):
        tangent = one - (one * row).sum(1, keepdim=True) * row
        error = float((parts.gradient() / COUNT - tangent).abs().max())
        assert error <= TOLERANCE * max(1, float(one.abs().max()))


DIRECTIONS = [
    ("query_to_doc", *more)
    for count in range(4)
    for more in itertools.combinations(("query_to_query", "doc_to_query", "doc_to_doc"), count)
]
MODES = [None, "in_batch_negatives", "hard_negatives", "all_negatives"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("partition", ["joint", "per_direction"])
@pytest.mark.parametrize("directions", DIRECTIONS, ids="+".join)
def test_multiple_negatives_ranking(directions, partition, mode) -> None:
    if partition == "per_direction" and {"query_to_query", "doc_to_doc"} & set(directions):
        with pytest.raises(ValueError, match="per_direction"):
            losses.MultipleNegativesRankingLoss(
                Placeholder(), directions=directions, partition_mode=partition
            )
        return
    options = {"directions": directions, "partition_mode": partition, "hardness_mode": mode}
    made = losses.MultipleNegativesRankingLoss(
        Placeholder(), scale=8.0, **options, hardness_strength=3.0 if mode else 0
    )
    ours = recognise(made)
    assert ours is not None
    assert gradlab.get_loss(call_text(ours)) == ours
    for number in (2, 3, 4):
        assert_equal(lambda rows: made.compute_loss_from_embeddings(rows, None), ours, columns(number))
    cached = losses.CachedMultipleNegativesRankingLoss(
        Placeholder(), scale=8.0, mini_batch_size=3, **options, hardness_strength=3.0 if mode else 0
    )
    assert recognise(cached) == ours
    rows = columns(3)
    value = cached.calculate_loss([list(row.split(3)) for row in rows])
    torch.testing.assert_close(value, made.compute_loss_from_embeddings(rows, None), rtol=1e-12, atol=0)


GTE = {"directions": DIRECTIONS[-1], "hardness_mode": "all_negatives", "hardness_strength": 2.0}


@pytest.mark.filterwarnings("ignore:The .*SymmetricRankingLoss is deprecated")
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("MultipleNegativesSymmetricRankingLoss", {}),
        ("CachedMultipleNegativesSymmetricRankingLoss", {"mini_batch_size": 3}),
        ("CachedMultipleNegativesRankingLoss", {"mini_batch_size": 3}),
        ("CachedMultipleNegativesRankingLoss", {"mini_batch_size": 3, **GTE}),
    ],
)
def test_symmetric_and_cached(name: str, options: dict) -> None:
    made = getattr(losses, name)(Placeholder(), scale=12.0, **options)
    ours = recognise(made)
    if "Symmetric" in name:
        assert call_text(ours) == f"symmetric(infonce(temperature={1 / 12!r}))"

    def theirs(rows):
        if "Cached" in name:
            return made.calculate_loss([list(row.split(3)) for row in rows])
        return made.compute_loss_from_embeddings(rows, None)

    for number in (2, 3):
        assert_equal(theirs, ours, columns(number))


@pytest.mark.parametrize("cached", [False, True])
@pytest.mark.parametrize("strategy", ["absolute", "relative"])
@pytest.mark.parametrize("contrast", list(itertools.product([False, True], repeat=2)))
def test_gist(contrast, strategy, cached, monkeypatch) -> None:
    """The guide keeps some pairs and leaves others out; all its positives are below 1, so that own columns are masked."""
    kind = losses.CachedGISTEmbedLoss if cached else losses.GISTEmbedLoss
    module = importlib.import_module(kind.__module__)
    made = kind.__new__(kind)
    nn.Module.__init__(made)
    made.mini_batch_size, made.show_progress_bar = 3, False
    made.model, made.guide, made.must_retokenize = "model", "guide", False
    made.similarity_fct, made.cross_entropy_loss = nn.CosineSimilarity(dim=-1), nn.CrossEntropyLoss()
    made.temperature, made.margin_strategy, made.margin = 0.2, strategy, 0.1
    made.contrast_anchors, made.contrast_positives = contrast
    made.gather_across_devices = False
    ours = recognise(made)
    assert gradlab.get_loss(call_text(ours)) == ours
    for number in (2, 3):
        rows, guide = columns(number), columns(number, seed=1, dimension=4)

        def theirs(given, guide=guide):
            if cached:
                return made.calculate_loss(*([list(row.split(3)) for row in part] for part in (given, guide)))
            monkeypatch.setattr(
                module, "embed_columns", lambda model, features: given if model == "model" else guide
            )
            return made([{} for _ in given], None)

        context = {"guide": [*guide[:2], torch.cat(guide[2:])] if number > 2 else guide}
        assert_equal(theirs, ours, rows, **context)
        parts = gradlab.components(ours, *rows[:2], normalize=True, guide=context["guide"][:2])
        assert 0.05 < parts.statistics["masked_pairs"] < 0.95


def test_other_similarities_are_not_recognised() -> None:
    from sentence_transformers import util

    assert (
        recognise(losses.MultipleNegativesRankingLoss(Placeholder(), similarity_fct=util.dot_score)) is None
    )
