"""The one exception that means 'your input is wrong', and helpers to phrase it."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class GradlabError(ValueError):
    """Bad input. The message is one line: what is wrong, and what would be right.

    The command line prints it without a traceback and exits with code 2.
    """


class Diverged(GradlabError):
    """Training whose loss, weights or score are no longer finite."""


def reason(error: Exception) -> str:
    """What went wrong in the words of the operating system, without the path that its errors repeat; else the text."""
    return getattr(error, "strerror", None) or str(error)


def nearest(name: str, known: Iterable[str]) -> str:
    """Return ``" Did you mean 'x'?"`` for the closest known name, or an empty string."""
    match = difflib.get_close_matches(name.lower(), list(known), n=1, cutoff=0.5)
    return f" Did you mean {match[0]!r}?" if match else ""


def missing(package: str, extra: str) -> GradlabError:
    """The error of a package that is not installed, with the command that installs it with gradlab's ``extra``."""
    return GradlabError(
        f"this needs {package}, which is not installed; it comes with gradlab's extra [{extra}]: "
        f"pip install '.[{extra}]' in the folder of gradlab"
    )


def names_arguments(
    hint: Callable[[str, tuple[Any, ...], dict[str, Any]], str] | None = None,
    passed_on: Iterable[str] = (),
) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Decorator of a public function: an unknown keyword argument is one line with the nearest name, no TypeError.

    Args:
        hint: says where an unknown argument belongs, from its name and what the function was called with; "" if it
            does not know.
        passed_on: names that a function with ``**`` passes on.
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        parameters = inspect.signature(function).parameters
        any_name = [name for name, one in parameters.items() if one.kind is one.VAR_KEYWORD]
        known = [name for name in parameters if name not in any_name]
        known += passed_on if any_name else ()

        @functools.wraps(function)
        def call(*args: P.args, **given: P.kwargs) -> T:
            for name in given:
                if name not in known:
                    place = hint(name, args, given) if hint else ""
                    raise GradlabError(
                        f"{function.__name__} has no argument {name!r}{place or '.' + nearest(name, known)}"
                    )
            return function(*args, **given)

        return call

    return decorate
