"""Translate a loss's logit to Triton: torch traces its formula and derivative on a few cosines.

A logit is refused if it depends on sizes or other pairs, branches on values, or has no translation.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import operator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.fx import Node

from gradlab.batch.similarity import Negatives, OfEach
from gradlab.errors import GradlabError

CONSTANT = "tl.full(cosine.shape, {}, tl.float32)"
# Operations of a trace and their translation to Triton.
OPERATIONS = {
    "abs": "tl.abs({0})",
    "add": "({0} + {1})",
    "clone": "{0}",
    "cos": "tl.cos({0})",
    "detach": "{0}",
    "div": "({0} / {1})",
    "eq": "({0} == {1})",
    "exp": "tl.exp({0})",
    "full_like": CONSTANT.format("{1}"),
    "ge": "({0} >= {1})",
    "gt": "({0} > {1})",
    "isinf": "(tl.abs({0}) == float('inf'))",
    "le": "({0} <= {1})",
    "log": "tl.log({0})",
    "lt": "({0} < {1})",
    "maximum": "tl.maximum({0}, {1})",
    "minimum": "tl.minimum({0}, {1})",
    "mul": "({0} * {1})",
    "ne": "({0} != {1})",
    "neg": "(-{0})",
    "ones_like": CONSTANT.format("1.0"),
    "reciprocal": "(1.0 / {0})",
    "rsub": "({1} - {0})",
    "scalar_tensor": "{0}",
    "sigmoid": "tl.sigmoid({0})",
    "sin": "tl.sin({0})",
    "sqrt": "tl.sqrt({0})",
    "sub": "({0} - {1})",
    "threshold": "tl.where({0} > {1}, {0}, {2})",
    "threshold_backward": "tl.where({1} > {2}, {0}, 0.0)",
    "where": "tl.where({0}, {1}, {2})",
    "zeros_like": CONSTANT.format("0.0"),
}
POWERS = (1, 2, 3, 4)
# Largest range of logits whose exponentials float32 represents relative to the largest of all.
RANGE = 80.0


class NotServed(GradlabError):
    """Kernels do not serve a loss."""


class Link(NamedTuple):
    """A logit φ of a cosine.

    Attributes:
        source: a Triton function ``link(cosine)``, which returns φ and dφ/d cos θ.
        reference: the largest φ, if ``exp(φ - reference)`` does not underflow for any cosine.
    """

    source: str
    reference: float | None


def link_at(temperature: float) -> Link:
    """Return the logit ``cos θ/τ``, whose derivative is 1/τ."""
    factor = repr(1 / temperature)
    source = f"def link(cosine):\n    return cosine * {factor}, {CONSTANT.format(factor)}\n"
    return Link(source, 1 / temperature if 2 / temperature < RANGE else None)


@functools.lru_cache(maxsize=256)
def link_of(logit: OfEach) -> Link:
    """Return a logit that torch has traced.

    Args:
        logit: maps negatives to their logits ``φ``, each of which depends only on its own cosine.

    Raises:
        GradlabError: the logit cannot be translated.
    """
    examples = (torch.linspace(-0.9, 0.8, 6).view(2, 3), torch.linspace(0.7, -0.6, 20).view(4, 5))
    try:
        first, second = (_source(logit, example) for example in examples)
    except GradlabError:
        raise
    except (RuntimeError, TypeError, ValueError) as error:
        raise NotServed(
            f"no kernel can be made of this logit: {str(error).splitlines()[0]}"
        ) from error
    if first != second:
        raise NotServed(
            "no kernel can be made of a logit that depends on sizes or on other cosines"
        )
    logits = logit(Negatives.from_cosines(torch.linspace(-1, 1, 2001).view(1, -1))).detach()
    smallest, largest = float(logits.min()), float(logits.max())
    return Link(first, largest if largest - smallest < RANGE else None)  # a NaN is no reference


def _source(logit: OfEach, example: Tensor) -> str:
    from torch.fx.experimental.proxy_tensor import make_fx  # slow to import

    def with_slope(cosine: Tensor) -> tuple[Tensor, Tensor]:
        value = logit(dataclasses.replace(Negatives.from_cosines(cosine), gaps=_refuse))
        (slope,) = torch.autograd.grad(value, cosine, torch.ones_like(value))
        return value, slope

    with torch.enable_grad():
        trace = make_fx(with_slope)(example.requires_grad_())
    trace.graph.eliminate_dead_code()
    lines, names = ["def link(cosine):"], {}
    for node in trace.graph.nodes:
        if node.op == "placeholder":
            names[node] = "cosine"
        elif node.op == "get_attr":
            names[node] = repr(float(operator.attrgetter(node.target)(trace)))
        elif node.op == "output":
            lines.append(f"    return {', '.join(names[argument] for argument in node.args[0])}")
        else:
            names[node] = f"t{len(lines)}"
            lines.append(f"    {names[node]} = {_expression(node, names)}")
    return "\n".join([*lines, ""])


def _refuse(sign: int) -> Tensor:
    raise NotServed(
        "no kernel can be made of this logit: it measures vectors that are nearly equal"
    )


def _expression(node: Node, names: dict[Node, str]) -> str:
    name = str(node.target).split(".")[1]
    arguments = [_literal(argument, names) for argument in node.args]
    if name == "pow" and node.args[1] in POWERS:
        return " * ".join(arguments[:1] * int(node.args[1]))  # type: ignore[arg-type]  # it is one of POWERS
    if name not in OPERATIONS or "alpha" in node.kwargs:
        raise NotServed(f"no kernel can be made of this logit: the kernels have no {name!r}")
    return OPERATIONS[name].format(*arguments)


def _literal(value: Any, names: dict[Node, str]) -> str:
    if isinstance(value, Node):
        return names[value]
    return (
        f"float('{value}')"
        if isinstance(value, float) and not math.isfinite(value)
        else repr(value)
    )
