"""Compiles a loss to JavaScript, by evaluating the formulas of its file once on arrays that record.

No formula is written twice: a script computes what the loss computes. This includes registered
losses of users, recombined losses and combinators.
"""

from __future__ import annotations

import copy
import dataclasses
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from gradlab.errors import GradlabError
from gradlab.explorer.tracing import Trace, literal, symbols_pass
from gradlab.losses.base import Loss
from gradlab.losses.recombined import ComponentSource

NAME = re.compile(r"\bt\d+\b")


@dataclasses.dataclass(frozen=True)
class Script:
    """A compiled function.

    Attributes:
        text: a JavaScript function ``($, {inputs}, p) => ({outputs})`` of the functions in
            ``arrays.js``, of arrays of any size, and of hyper-parameters by name.
        numbers: hyper-parameters that it takes, with the loss's values; the text fixes others.
    """

    text: str
    numbers: dict[str, float]


def compile_script(
    function: Callable[..., Mapping[str, Any]],
    loss: Loss | None,
    examples: Callable[[int], Mapping[str, np.ndarray]],
) -> Script:
    """Compile ``function(loss, **arrays)``, which returns arrays by name.

    The function runs on examples with different sizes, entries and hyper-parameters. All must give
    the same script. A hyper-parameter that changes it, such as one that is compared, is fixed.

    Args:
        function: a function of a loss and of arrays by name.
        loss: the loss with its hyper-parameters; None if the function needs none.
        examples: returns arrays for 0, 1, …, with different sizes.

    Raises:
        GradlabError: a loss that cannot be compiled; the message names the operation.
    """
    name = "this" if loss is None else loss.name
    values = numbers_of(loss)

    def record(index: int, numbers: Mapping[str, float]) -> str:
        trace = Trace()

        def symbol(path: str, value: float) -> float:
            return trace.wrap(f'p["{path}"]', numbers[path]) if path in numbers else value

        inputs = {key: trace.wrap(key, np.asarray(value)) for key, value in examples(index).items()}
        try:
            with symbols_pass():
                outputs = function(replace_numbers(loss, symbol), **inputs)
        except (TypeError, AttributeError, ValueError, NotImplementedError) as error:
            kind = "" if isinstance(error, GradlabError) else f"{type(error).__name__}: "
            raise GradlabError(f"{name} cannot be compiled: {kind}{error}") from error
        return _text(trace, inputs, outputs)

    def same_with(numbers: Mapping[str, float]) -> bool:
        """Return False also if the function refuses the changed hyper-parameters."""
        try:
            return record(0, numbers) == first
        except GradlabError:
            return False

    first, moving = record(0, values), values
    # Close values are most likely to be admissible too.
    nudged = {path: value * (1 - 2.0**-7) or 2.0**-7 for path, value in values.items()}
    if not same_with(nudged):
        # Change one at a time, to find those that are more than numbers in a formula.
        moving = {
            path: number
            for path, number in values.items()
            if same_with({**values, path: nudged[path]})
        }
        first = record(0, moving)
    if record(1, moving) != first:
        raise GradlabError(
            f"{name} cannot be compiled: what it computes depends on sizes or entries of its arrays"
        )
    return Script(first, moving)


def numbers_of(loss: Loss | None) -> dict[str, float]:
    """Return numeric hyper-parameters by path: ``temperature``, or ``gate.margin`` of a part."""
    numbers: dict[str, float] = {}

    def note(path: str, value: float) -> float:
        numbers[path] = value
        return value

    replace_numbers(loss, note)
    return numbers


def replace_numbers(value: Any, replace: Callable[[str, float], float], *path: str) -> Any:
    """Return an unchecked copy of a loss with ``replace(path, x)`` for each number ``x``."""
    if isinstance(value, float):
        return replace(".".join(path), value)
    if isinstance(value, (tuple, list)):
        return type(value)(replace_numbers(v, replace, *path, str(i)) for i, v in enumerate(value))
    if isinstance(value, ComponentSource):
        source = copy.copy(value)
        for name, item in vars(value).items():
            at = path if name == "source" else (*path, name)
            setattr(source, name, replace_numbers(item, replace, *at))
        return source
    if isinstance(value, Loss):
        settings = {}
        for field in dataclasses.fields(value):
            item = getattr(value, field.name)
            if field.name == "clamp":  # used in training only
                continue
            if isinstance(field.default, float) and type(item) is int:
                item = float(item)
            settings[field.name] = replace_numbers(item, replace, *path, field.name)
        return value.unchecked(settings)
    return value


def _text(trace: Trace, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> str:
    """Return the script, without statements that nothing depends on."""
    requirements = [
        f"$.require({name}, {literal(way)});"
        for name, way in trace.conditions.items()
        if NAME.match(name)
    ]
    result = literal(dict(outputs))
    needed = set(NAME.findall(" ".join([*requirements, result])))
    declarations = []
    for expression, name in reversed(trace.statements.items()):
        if name in needed:
            needed |= set(NAME.findall(expression))
            declarations.append(f"const {name} = {expression};")
    text = "\n".join([*reversed(declarations), *requirements, f"return {result};"])
    # New numbers remove the traces of dropped statements.
    order: dict[str, str] = {}
    text = NAME.sub(lambda match: order.setdefault(match[0], f"t{len(order)}"), text)
    return f"($, {{{', '.join(inputs)}}}, p) => {{\n{text}\n}}"
