"""Losses of published models side by side: the shares of the push, the ratio and the gate."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from gradlab.arrays import divide, unit_rows
from gradlab.atlas.entries import (
    EASY,
    NEGATIVE,
    POSITIVE,
    SPREADS,
    concentration,
    half_open_angle,
    of_pushed,
    sampled_batch,
    sigma_neg,
)
from gradlab.batch.triple import tangent
from gradlab.drawable import Drawable
from gradlab.errors import GradlabError
from gradlab.gradient.components_and_autograd import components
from gradlab.losses.base import Loss
from gradlab.losses.components import Components
from gradlab.losses.published_models import PREFIX, PublishedModel, find_model, published_models
from gradlab.losses.registry import get_loss, loss_names
from gradlab.settings import parse_call

if TYPE_CHECKING:
    from pandas import DataFrame

SENTENCES, DIMENSIONS, HARD = 64, 1024, 4  # published models' prefixes have up to 1,024 dimensions
# Angle by which hard negatives are nearer to their anchor than other sentences.
NEARER = math.radians(10)
TEMPERATURE = 0.02  # for models that published none
# Kinds of negatives: from the other view, from the own view, and hard negatives.
KINDS = {"other": "documents", "same": "queries", "hard": "hard negatives"}
SETTING = (
    f"Each batch has {SENTENCES} sentences in {DIMENSIONS} dimensions. "
    f"Positives are at {math.degrees(POSITIVE):.0f}°, "
    f"anchors at {math.degrees(NEGATIVE):.0f}° to each other. "
    f"A model that trains with hard negatives has {HARD} a sentence, "
    f"{math.degrees(NEARER):.0f}° nearer than other sentences. "
    f"Angles to positives spread by {SPREADS[0]:g} radians, others by {SPREADS[1]:g}."
)


@dataclasses.dataclass(frozen=True)
class ModelEntry:
    """Properties of a model's loss in the stated batch."""

    name: str
    loss: Loss
    shares: dict[str, float]  # kind of negatives, see `KINDS` -> share of the push
    hardest_share: float  # share of the hardest negative in an anchor's push, mean over anchors
    effective_negatives: float  # mean number of equal negatives that spread the push as widely
    ratio: float  # pull over push of an anchor, median over anchors
    # Mean angle between sentences in degrees at which the dissipation is half of its value where
    # negatives are as close as positives; NaN if it stays above.
    half_open: float


class PublishedModels(tuple[PublishedModel, ...], Drawable):
    """Losses of published models, as read from the data file."""

    def columns(self) -> dict[str, list[Any]]:
        """Return one column per attribute."""
        names = "key title year expression negatives batch confidence source remarks"
        return {name: [getattr(row, name) for row in self] for name in names.split()}

    def headline(self) -> str:
        """Return the number of models and of their stages."""
        return f"Losses of {len({row.name for row in self})} published models in {len(self)} stages"

    def brief(self) -> DataFrame:
        """Return the most important columns."""
        return self.to_frame()[["key", "year", "expression", "confidence"]]


def models() -> PublishedModels:
    """Return the losses of published embedding models as a table; `to_frame` has all columns."""
    return PublishedModels(published_models())


def is_model(text: str) -> bool:
    """Return whether a text like ``"qwen3(temperature=0.05)"`` names a model and not a loss."""
    name = parse_call(text)[0].removeprefix(PREFIX).partition("/")[0]
    return text.startswith(PREFIX) or (
        name not in loss_names() and name in {row.name for row in published_models()}
    )


def measure_model(text: str) -> ModelEntry:
    """Measure a model's loss in the stated batch.

    Raises:
        GradlabError: the model is unknown, its loss has no expression, a setting was not published,
            or the loss needs a teacher or scores.
    """
    row = find_model(parse_call(text)[0])
    loss = get_loss(PREFIX + text.removeprefix(PREFIX))
    if _asks_for_more(loss):
        raise GradlabError(
            f"{row.title} learns from a teacher or from scores, which this batch does not have"
        )
    measured = _components(loss, row, NEGATIVE)
    push = np.abs(measured.gradient_dissipation[:, None] * measured.weight)
    shares = dict.fromkeys(KINDS, 0.0)
    for kind, columns in measured.columns.items():
        shares["hard" if kind in ("extra", "own") else kind] += float(
            divide(push[:, columns].sum(), push.sum())
        )
    angles = np.linspace(POSITIVE, EASY[1], 23)
    strengths = [_components(loss, row, angle).total_push for angle in angles]
    gate = np.mean(strengths, axis=1)
    return ModelEntry(
        row.key,
        loss,
        shares,
        *concentration(push),
        of_pushed(np.median, measured.scalar_ratio),
        half_open_angle(np.degrees(angles), divide(gate, gate[0]))[0],
    )


def measurable_models() -> list[ModelEntry]:
    """Measure every model the stated batch allows, with `TEMPERATURE` for unpublished settings."""
    measured = []
    for row in published_models():
        settings = ", ".join(f"{name}={TEMPERATURE}" for name in row.unpublished)
        if row.loss and not _asks_for_more(row.make(dict.fromkeys(row.unpublished, TEMPERATURE))):
            measured.append(measure_model(f"{row.key}({settings})" if settings else row.key))
    return measured


def _asks_for_more(loss: Loss) -> bool:
    return not loss.looks_at.isdisjoint({"teacher", "scores"})


@functools.lru_cache(maxsize=32)  # of all angles that one model needs, for the next model
def _sampled_views(
    between: float, sentences: int, dimensions: int
) -> tuple[np.ndarray, np.ndarray]:
    return sampled_batch(POSITIVE, between, sentences, dimensions, seed=0)


def _components(loss: Loss, row: PublishedModel, between: float) -> Components:
    views = _sampled_views(between, SENTENCES, DIMENSIONS)
    anchors, positives = (rows @ _turn() for rows in views)
    rng = np.random.default_rng(0)
    noise = rng.standard_normal((SENTENCES, HARD, DIMENSIONS))
    noise = unit_rows(tangent(anchors[:, None], noise))
    angle = rng.normal(max(between - NEARER, POSITIVE), sigma_neg(between), (SENTENCES, HARD, 1))
    hard = np.cos(angle) * anchors[:, None] + np.sin(angle) * noise
    context: dict[str, Any] = {}
    if "mask" in loss.looks_at:
        context["mask"] = np.zeros((SENTENCES, SENTENCES), dtype=bool)
    if row.hard_negatives == "own":
        context["own_negatives"] = hard
    elif row.hard_negatives == "shared":
        context["extra_negatives"] = hard.reshape(-1, DIMENSIONS)
    return components(loss, anchors, positives, **context)


@functools.cache
def _turn() -> np.ndarray:
    """Return a random rotation, (D, D), so that every prefix sees all directions alike."""
    gaussian_matrix = np.random.default_rng(1).standard_normal((DIMENSIONS, DIMENSIONS))
    return np.linalg.qr(gaussian_matrix)[0]
