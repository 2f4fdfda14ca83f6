"""Matryoshka combinator: a loss of leading coordinates (Kusupati et al. 2022)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from array_api_compat import array_namespace

from gradlab.arrays import Array, Float, require, unit_rows
from gradlab.batch.batch import Batch
from gradlab.errors import GradlabError
from gradlab.losses.base import Loss
from gradlab.losses.canonical_split import in_whole_rows
from gradlab.losses.combinator import Modifier, read_numbers, read_weights, write_weights
from gradlab.losses.components import Components, completed
from gradlab.losses.registry import register
from gradlab.settings import setting


@register("per_prefix")
class PerPrefix(Modifier):
    """Sum ``Σ_d w_d L`` over prefixes, the first d coordinates renormalised (Kusupati et al. 2022).

    There is one set of components for each prefix; see `PrefixComponents`.
    """

    dims: Any = setting("64+128+256", "lengths of the prefixes, joined by +", rule="text")
    weights: Any = setting("", "weight of each prefix, joined by +; empty for 1 each", rule="text")

    prefixes: ClassVar[Mapping[int, float]]  #: weight of each prefix, by length, shortest first
    example = "per_prefix(infonce, dims=32+64+128)"
    title = "per prefix"
    paper = "Kusupati et al. (2022)"
    formula = "Σ_d w_d L(h[:d]/|h[:d]|, h'[:d]/|h'[:d]|)"
    not_simulated = (
        "each prefix has angles of its own, and those of the whole embeddings do not tell them"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        dims = read_numbers(self.dims, "dims")
        if not dims or any(d != int(d) or d < 1 for d in dims) or len(set(dims)) < len(dims):
            raise GradlabError(
                "dims must be different whole numbers, joined by +, "
                f"such as 64+128, not {self.dims!r}"
            )
        weights = read_weights(self.weights, len(dims), "prefix")
        self._fix(dims="+".join(str(int(d)) for d in dims), weights=write_weights(weights))
        self._fix(prefixes=dict(sorted(zip(map(int, dims), weights, strict=True))))
        if self.loss.has(PerPrefix):
            raise GradlabError("per_prefix cannot change a loss that already has prefixes")

    def terms_of(self, batch: Batch) -> list[tuple[float, Loss, Batch]]:
        return [(weight, self.loss, prefix(batch, d)) for d, weight in self.prefixes.items()]

    def components_of(self, batch: Batch) -> Components:
        components = [self.loss.components_of(prefix(batch, d)) for d in self.prefixes]
        return self._gather(components, batch)

    def sides_of(self, batch: Batch) -> tuple[Components, Components]:
        pairs = [self.loss.sides_of(prefix(batch, d)) for d in self.prefixes]
        positives = self._gather([pair[1] for pair in pairs], batch.exchanged())
        anchors = self._gather([pair[0] for pair in pairs], batch)
        return completed(anchors, counterpart=positives), positives

    def displaced_pushes(self, batch: Batch) -> Sequence[Float[Array, "n"]] | None:
        """Return the pushes on the longest prefixes, whose positives are away."""
        return self.terms[0].displaced_pushes(prefix(batch, max(self.prefixes)))

    def _gather(self, components: list[Components], batch: Batch) -> PrefixComponents:
        factors, longest = self.prefixes, components[-1]
        prefixes = dict(zip(factors, components, strict=True))
        fields = {field.name: getattr(longest, field.name) for field in dataclasses.fields(longest)}
        return PrefixComponents(**fields, prefixes=prefixes, factors=factors, whole=batch)


@dataclasses.dataclass(frozen=True)
class PrefixComponents(Components):
    """Components of each prefix; the inherited attributes are those of the longest prefix.

    Attributes:
        prefixes: components by length; their ``views`` are the normalised prefixes.
        factors: weights of the prefixes in the loss, by length.
        whole: the embeddings.
    """

    prefixes: Mapping[int, Components] = dataclasses.field(default_factory=dict)
    factors: Mapping[int, float] = dataclasses.field(default_factory=dict)
    whole: Any = dataclasses.field(default=None, repr=False)

    def gradient(self, *, tangent: bool = True, exact: bool = False) -> Float[Array, "n d"]:
        """Return the gradient of all prefixes with respect to the whole rows.

        It is always tangent, because prefixes are normalised: ``tangent`` has no effect.
        """
        rows = self.whole.anchors
        xp = array_namespace(rows)
        total = xp.zeros_like(rows)
        for d, components in self.prefixes.items():
            norm = xp.linalg.vector_norm(rows[:, :d], axis=-1, keepdims=True)
            gradient = self.factors[d] / norm * components.gradient(exact=exact)
            total = total + in_whole_rows(gradient, self.whole)
        return total


def prefix(batch: Batch, d: int) -> Batch:
    """Return the batch with rows' first d coordinates, normalised; refuse zero or short rows."""
    if d > batch.anchors.shape[1]:
        raise GradlabError(
            f"a prefix of {d} is longer than the embedding, "
            f"which has {batch.anchors.shape[1]} dimensions"
        )

    def cut(name: str, rows: Float[Array, "*_ d"]) -> Float[Array, "*_ prefix"]:
        xp = array_namespace(rows)
        has_direction = xp.all(xp.any(rows[..., :d] != 0, axis=-1))
        zero = f"the first {d} coordinates of a row of {name} are zero, which has no direction"
        require(has_direction, zero)
        return unit_rows(rows[..., :d])

    return batch.mapped(cut)
