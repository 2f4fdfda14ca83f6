"""Components of both sides of a batch, and of sums of losses, in the canonical split.

In that split, the dissipation is the sum of the coefficients of all pushes, and the weights are
their shares. What a loss declares of its anchors determines the components of the positives.
"""

from __future__ import annotations

import dataclasses
import itertools
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from array_api_compat import array_namespace, is_numpy_array

from gradlab.arrays import Array, Float, divide, finite, of_rows
from gradlab.batch.batch import Batch
from gradlab.batch.comparison import joined, own_pairs
from gradlab.losses.components import (
    Components,
    LeftOut,
    as_columns,
    completed,
)


def canonical(
    coefficients: Mapping[str, Float[Array, "n _"] | None],
    pull: Float[Array, "n"] | Float[Array, "n d"],
    batch: Batch,
    *,
    pulls: Mapping[str, Float[Array, "n *_"] | None] | None = None,
    beside: Float[Array, "n"] | None = None,
    left_out: Mapping[str, LeftOut] | None = None,
    overwrite: bool = False,
    **attributes: Any,
) -> Components:
    """Split a gradient canonically: GD is the sum of the coefficients, and W holds their shares.

    Args:
        coefficients: of the other view (``"other"``, (n, n)), the own view (``"same"``, (n, n)),
            both zero at j = i, the extra negatives (``"extra"``, (n, m)) and the own negatives
            (``"own"``, (n, h)); None or missing if the loss has no such negatives.
        pull: ``a``.
        batch: the embeddings, with those of this side as the anchors.
        pulls: the parts of a shared ``a``: of the ``"positive"``, (n,), and of other candidates in
            the shapes of ``coefficients``.
        beside: a push that GD counts although W has no column for it.
        left_out: see `Components`. A kind without coefficients has no negatives.
        overwrite: whether the weights may take the memory of the coefficients.
        **attributes: further attributes of the `Components`, such as ``side``.
    """
    xp = array_namespace(batch.anchors)
    across = batch.in_batch_negatives and coefficients.get("other") is not None
    negative_view = "other" if coefficients.get("same") is None else "both" if across else "same"
    sizes = batch.column_sizes(negative_view)
    zero = xp.zeros_like(batch.anchors[:, 0])
    coefficient_blocks = [
        coefficients[name] for name in sizes if coefficients.get(name) is not None
    ]
    total = sum(
        (xp.sum(block, axis=-1) for block in coefficient_blocks), zero if beside is None else beside
    )
    # Coefficients of both signs can sum to 0: the dissipation is then 1, and they are the weights.
    unit = xp.where(total == 0, xp.ones_like(total), total)
    weight = _by_kind(coefficients, sizes, zero)
    if (overwrite or len(sizes) > 1) and is_numpy_array(weight):  # joined blocks are a copy
        weight /= unit[:, None]
    else:
        weight = weight / unit[:, None]
    # No branch: the explorer compiles this.
    total = xp.where((total == 0) & xp.any(weight != 0, axis=-1), unit, total)
    shares = None
    if pulls is not None:
        pull, shares = _pull_shares(pull, pulls, sizes, batch.in_batch_negatives)
    return Components(
        total,
        weight,
        divide(pull, of_rows(total, pull)),
        negative_view=negative_view,
        views=batch,
        given_pull=pull,
        pull_shares=shares,
        left_out={
            name: True if coefficients.get(name) is None else (left_out or {}).get(name, False)
            for name in sizes
        },
        **attributes,
    )


def positives_from_anchors(
    anchors: Components, batch: Batch, *, push: bool = True, pull: bool = True
) -> Components:
    """Derive the components of the positives from those of the anchors.

    An anchor and a negative push each other with the same coefficient. The same holds for the
    pull of a pair. Extra negatives, own negatives and those of the anchors' own view do not act
    on the positives.

    Args:
        anchors: components of the anchors.
        batch: their embeddings.
        push: whether the negatives move.
        pull: whether the positives move.
    """
    pushes, columns = None, anchors.columns.get("other")
    if push and columns is not None:
        # One N x N array, transposed; `canonical` turns it into shares.
        pushes = (anchors.weight[:, columns] * anchors.gradient_dissipation[:, None]).T
    return canonical(
        {"other": pushes},
        anchors.pull if pull else 0 * anchors.pull,
        batch.exchanged(),
        overwrite=True,
        side="positives",
        left_out={"other": transposed(anchors.left_out.get("other", False))},
    )


def with_positives(
    components_of: Callable[[Batch], Components], batch: Batch, moves: str
) -> tuple[Components, Components]:
    """Return both sides' components, the anchors' with their `counterpart`.

    Args:
        components_of: returns the components of a batch's anchors.
        batch: the embeddings.
        moves: how the positives move, as of `gradlab.Loss.moves_positives`.
    """
    anchors = components_of(batch)
    if moves == "mirror":
        positives = dataclasses.replace(components_of(batch.exchanged()), side="positives")
    else:
        push, pull = moves == "all", moves != "nothing"
        positives = positives_from_anchors(anchors, batch, push=push, pull=pull)
    return completed(anchors, counterpart=positives), positives


def both_sides(
    push: Float[Array, "n k"],
    pull: Float[Array, "n"],
    batch: Batch,
    *,
    left_out: Mapping[str, LeftOut],
    pull_of_positive: Float[Array, "n"] | None = None,
    pulls: Float[Array, "n k"] | None = None,
    **attributes: Any,
) -> tuple[Components, Components]:
    """Return the components of both sides, given how the candidates of each row push and pull.

    Two sentences of one view meet in both of their rows, and both count.

    Args:
        push: coefficients of the pushes, with one column per candidate.
        pull: coefficient of the whole pull of each row.
        batch: the embeddings.
        left_out: which candidates are not negatives, by the names of their blocks.
        pull_of_positive, pulls: the parts of a shared pull, of the positive and of the candidates.
        **attributes: further arguments of `canonical` for the anchors.
    """
    blocks = {block.name: block.columns for block in batch.candidate_blocks}
    push_on_anchors, push_on_positives = _by_side(
        {name: push[:, at] for name, at in blocks.items()}, operator.add
    )
    left_out_of_anchors, left_out_of_positives = _by_side(
        {name: left_out.get(name, False) for name in blocks}, operator.and_
    )
    pull_on_positives: Any = pull
    pulls_on_anchors: Any = None
    pulls_on_positives: Any = None
    if pulls is not None:
        pull_blocks = {name: pulls[:, at] for name, at in blocks.items()}
        sums = {
            name: array_namespace(pulls).sum(block, axis=0) for name, block in pull_blocks.items()
        }
        pull, pull_on_positives = (
            pull + sums.get("same", 0),
            pull_of_positive + sums.get("other", 0),
        )
        pulls_on_anchors, pulls_on_positives = _by_side(pull_blocks, operator.add)
        pulls_on_anchors["positive"] = pulls_on_positives["positive"] = pull_of_positive
    options: dict[str, Any] = {
        "pulls": pulls_on_positives,
        "left_out": left_out_of_positives,
        "side": "positives",
    }
    positives = canonical(push_on_positives, pull_on_positives, batch.exchanged(), **options)
    options = attributes | {
        "pulls": pulls_on_anchors,
        "left_out": left_out_of_anchors,
        "counterpart": positives,
    }
    return canonical(push_on_anchors, pull, batch, **options), positives


def from_pools(rows: Components, batch: Batch) -> tuple[Components, Components]:
    """Return both sides' components for a loss whose rows have several kinds of negatives.

    Args:
        rows: the declared components of each row; the weight has the columns of the candidates.
        batch: the embeddings.
    """
    xp, dissipation, pull = array_namespace(rows.weight), rows.gradient_dissipation, rows.pull
    push = rows.weight * dissipation[:, None]
    for block in batch.candidate_blocks:
        if block.name == "positive_other" and block.own is None:
            # The pair itself is among the negatives: its push is subtracted from its pull.
            own, zero = own_pairs(push, block.columns.start), xp.zeros_like(push)
            remaining_pull = pull - xp.sum(xp.where(own, push, zero), axis=-1)
            # At the ratio 1 the other weights are what is left of the pull; the difference would
            # be rounding near a full softmax.
            other_pushes = xp.sum(xp.where(own, zero, rows.weight), axis=-1) * dissipation
            pull = xp.where(pull == rows.total_push, other_pushes, remaining_pull)
            push = xp.where(own, zero, push)
    attributes = {"statistics": rows.statistics, "given_gate": rows.gate}
    return both_sides(push, pull, batch, left_out=rows.left_out, **attributes)


def weighted_sum(
    terms: Sequence[tuple[float, Components]],
    batch: Batch,
    side: str,
    gate: Float[Array, "n"] | None = None,
) -> Components:
    """Return the components of a weighted sum of losses, in the canonical split.

    Args:
        terms: the factor and the components of each loss, all on the same rows.
        batch: the embeddings, with those of this side as the anchors.
        side: ``"anchors"`` or ``"positives"``.
        gate: see `Components`.
    """
    coefficients: dict[str, Any] = {}
    extra_terms: dict[str, Any] = {}
    pulls: dict[str, Any] = {}
    left_out: dict[str, LeftOut] = {}
    diagonal = any(components.pull.ndim == 2 for _, components in terms)
    for factor, components in terms:
        size = factor * components.gradient_dissipation[:, None]
        for name, columns in components.columns.items():
            _add(coefficients, name, components.weight[:, columns] * size)
            left_out[name] = left_out.get(name, True) & components.left_out.get(name, False)
        for name, omitted in components.extra_terms.items():
            _add(extra_terms, name, in_whole_rows(factor * omitted, batch))
        for name, pull in components.pulls.items() if not diagonal else ():
            _add(pulls, name, factor * pull)
    attractions = [
        in_whole_rows(factor * _net_pull(components), batch) for factor, components in terms
    ]
    if diagonal:
        attractions = [as_columns(pull) for pull in attractions]
    total_pull = sum(attractions[1:], attractions[0])
    target = _target(terms, total_pull, batch, diagonal)
    shared = target is not None or any(
        components.pull_shares is not None for _, components in terms
    )
    total = canonical(
        coefficients,
        total_pull,
        batch,
        pulls=pulls if shared and not diagonal else None,
        left_out=left_out,
        overwrite=True,
        side=side,
        extra_terms=extra_terms,
        statistics=_numbered_statistics([components for _, components in terms]),
        target=target,
        given_gate=gate,
        terms=tuple(terms),
    )
    plain = all(type(components) is Components for _, components in terms)
    return total if plain else TermwiseComponents(**vars(total))


class TermwiseComponents(Components):
    """Components of a sum with a term whose gradient does not combine whole rows.

    `per_prefix` is such a term.
    """

    def gradient(self, *, tangent: bool = True, exact: bool = False) -> Float[Array, "n d"]:
        gradients = [
            factor * components.gradient(tangent=tangent, exact=exact)
            for factor, components in self.terms
        ]
        return sum(gradients[1:], gradients[0])


def in_whole_rows(pull: Float[Array, "n *_"], batch: Batch) -> Float[Array, "n *d"]:
    """Return a pull per row as it is; pad a pull per coordinate of a prefix with zeros."""
    if pull.ndim == 1 or pull.shape[1] == batch.anchors.shape[1]:
        return pull
    padding = array_namespace(pull).zeros_like(batch.anchors[:, pull.shape[1] :])
    return joined([pull, padding], axis=-1)


def transposed(pairs: Any) -> Any:
    """Return an array of pairs as the columns see them; what holds for all pairs as it is."""
    return pairs if isinstance(pairs, bool) else pairs.T


def _by_kind(
    blocks_by_kind: Mapping[str, Any],
    sizes: Mapping[str, int],
    zero: Float[Array, "n"],
    *before: Float[Array, "n 1"],
) -> Float[Array, "n _"]:
    """Join one block per kind of columns behind those ``before``; an absent kind has zeros."""
    xp, blocks = array_namespace(zero), list(before)
    for name, size in sizes.items():
        block = blocks_by_kind.get(name)
        if block is None:
            block = xp.zeros((zero.shape[0], size), dtype=zero.dtype, device=zero.device)
        blocks.append(block)
    return joined(blocks, zero[:, None][:, :0], axis=-1)


def _pull_shares(
    pull: Float[Array, "n"],
    pulls: Mapping[str, Any],
    sizes: Mapping[str, int],
    in_batch_negatives: bool,
) -> tuple[Float[Array, "n"], Float[Array, "n c"]]:
    """Return the pull, 1 where its parts cancel, and the shares of its parts in it."""
    xp, own = array_namespace(pull), pulls["positive"][:, None]
    if in_batch_negatives:
        shares = _by_kind(pulls, sizes, pull)
        shares = xp.where(own_pairs(shares, 0), own, shares)
    else:
        shares = _by_kind(pulls, sizes, pull, own)
    pull = xp.where((pull == 0) & xp.any(shares != 0, axis=-1), xp.ones_like(pull), pull)
    return pull, shares / xp.where(pull == 0, xp.ones_like(pull), pull)[:, None]


def _by_side(
    rows: Mapping[str, Any], combine: Callable[[Any, Any], Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Arrange values of rows' candidates by the columns of the anchors, and of the positives.

    ``combine`` joins the two values of a pair that occurs in two rows.
    """
    of_anchors = dict(rows)
    for name in ("same", "positive_same"):
        if name in of_anchors:
            of_anchors[name] = combine(of_anchors[name], transposed(of_anchors[name]))
    if "positive_other" in of_anchors:
        transpose = transposed(of_anchors["positive_other"])
        of_anchors["other"] = (
            combine(of_anchors["other"], transpose) if "other" in of_anchors else transpose
        )
    of_positives = {
        name.removeprefix("positive_"): values
        for name, values in of_anchors.items()
        if name.startswith("positive_")
    }
    if "other" in of_anchors:
        of_positives["other"] = transposed(of_anchors["other"])
    return of_anchors, of_positives


def _add(sums: dict[str, Any], name: str, summand: Array) -> None:
    """Add a summand that nothing else holds, in place after the first."""
    if name in sums:
        sums[name] += summand
    else:
        sums[name] = summand


def _net_pull(components: Components) -> Float[Array, "n"] | Float[Array, "n d"]:
    """Return the sum of all pulls on each row: the `pull`, but 0 where they cancel."""
    pull, shares = components.pull, components.pull_shares
    if shares is None or components.target is not None:
        return pull
    xp = array_namespace(pull)
    cancel = xp.sum(shares, axis=-1) < 0.5  # 0 or 1, up to rounding
    return xp.where(cancel, xp.zeros_like(pull), pull)


def _target(
    terms: Sequence[tuple[float, Components]],
    total_pull: Float[Array, "n"] | Float[Array, "n d"],
    batch: Batch,
    diagonal: bool,
) -> Float[Array, "n d"] | None:
    """Return the vector that pulls each row of a sum, or None if candidates do."""
    has_target = any(components.target is not None for _, components in terms)
    has_shares = any(components.pull_shares is not None for _, components in terms)
    if not has_target and not (has_shares and diagonal):
        return None
    pulls = [
        in_whole_rows(factor * as_columns(components.pull) * components.towards, batch)
        for factor, components in terms
    ]
    return finite(divide(sum(pulls[1:], pulls[0]), as_columns(total_pull)))


def _numbered_statistics(terms: Sequence[Components]) -> dict[str, Any]:
    """Return the statistics of all terms; a name that an earlier term has gets a number."""
    statistics: dict[str, Any] = {}
    for components in terms:
        for name, number in components.statistics.items():
            plain = re.sub(r"_\d+$", "", name)  # a sum within the sum has numbered its own
            names = itertools.chain([plain], (f"{plain}_{at}" for at in itertools.count(2)))
            statistics[next(name for name in names if name not in statistics)] = number
    return statistics
