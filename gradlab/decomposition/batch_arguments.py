"""Which arguments beside embeddings does a loss given as code get, such as labels or a teacher?

Their names are `gradlab.batch.check.CONTEXT`, beside the function that checks them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gradlab.batch.batch import Batch
from gradlab.batch.check import CONTEXT
from gradlab.decomposition.two_view_losses import POSITIONAL, parameters_of
from gradlab.errors import GradlabError, listed


def context_names(loss: Any) -> frozenset[str]:
    """Return which of `CONTEXT` the signature of a loss has."""
    return frozenset(CONTEXT) & parameters_of(loss).keys()


def context_of(batch: Batch, names: Iterable[str]) -> dict[str, Any]:
    """Return the arguments of a batch beside embeddings, by name; those that it lacks are left out.

    Labels, relation, scores and mask are arrays; a guide and a teacher are tuples of embeddings
    (anchors, positives, and any negatives), a teacher's scores one array.
    """
    context: dict[str, Any] = {}
    for name in names:
        value = getattr(batch, name, None)
        if value is None and hasattr(batch.supervision, name):
            value = getattr(batch.supervision, name)
        if isinstance(value, Batch):
            value = tuple(rows for rows in value.embeddings if rows is not None)
        if value is not None:
            context[name] = value
    return context


def check_context(name: str, arguments: Mapping[str, Any], names: Iterable[str]) -> None:
    """Raise `GradlabError` if the loss ``name`` gets arguments that its signature lacks."""
    surplus = [key for key, value in arguments.items() if value is not None and key not in names]
    if surplus:
        raise GradlabError(
            f"{name} has no argument {listed(surplus)}; "
            f"define it as loss_fn(anchors, positives, *, {', '.join(surplus)}), or leave it out"
        )


def needed_names(loss: Any) -> tuple[str, ...]:
    """Return which of `CONTEXT` and of the kinds of negatives a loss cannot be called without."""
    known_names = (*CONTEXT, "extra_negatives", "own_negatives")
    parameters = parameters_of(loss)
    needed = [name for name, given in parameters.items() if given.default is given.empty]
    third = [name for name in needed if parameters[name].kind in POSITIONAL][2:]
    return tuple(
        "extra_negatives" if name in third and name not in known_names else name
        for name in needed
        if name in known_names or name in third[:1]
    )


def check_needed(loss: Any, name: str, batch: Batch) -> None:
    """Raise `GradlabError` if a batch lacks what a loss given as code cannot be called without."""
    present = set(context_of(batch, CONTEXT))
    kinds = {"extra_negatives": batch.extra_negatives, "own_negatives": batch.own_negatives}
    present |= {kind for kind, rows in kinds.items() if rows is not None}
    if missing := [f"{argument}=" for argument in needed_names(loss) if argument not in present]:
        parameters = parameters_of(loss)
        third = ""
        if "extra_negatives=" in missing and "extra_negatives" not in parameters:
            positional = [key for key in parameters if parameters[key].kind in POSITIONAL]
            third = f"; they are its {positional[2]}: fix any other argument by functools.partial"
        raise GradlabError(
            f"{name} needs {listed(missing)}: pass it with the embeddings; batches that gradlab "
            f"draws itself (simulate, plot_curves, the atlas, explore) have none{third}"
        )
