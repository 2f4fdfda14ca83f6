"""The one exception that means 'your input is wrong', and helpers to phrase it."""

from __future__ import annotations

import difflib
import importlib
import numbers
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any


class GradlabError(ValueError):
    """Bad input. The message is one line: what is wrong, and what would be right.

    The command line prints it without a traceback and exits with code 2.
    """


class Diverged(GradlabError):
    """Training whose loss, weights or score are no longer finite."""


def reason(error: Exception) -> str:
    """What went wrong in the words of the operating system, without the path that its errors repeat; else the text."""
    return getattr(error, "strerror", None) or str(error)


def first_line(error: Exception) -> str:
    """The first line of an exception's message, without a full stop and of at most 300 characters; its kind if it has none."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return textwrap.shorten(lines[0], 300, placeholder=" …").rstrip(".")


def nearest(name: str, known: Iterable[str]) -> str:
    """Return ``" Did you mean 'x'?"`` for the closest known name, or an empty string."""
    match = difflib.get_close_matches(name.lower(), list(known), n=1, cutoff=0.5)
    return f" Did you mean {match[0]!r}?" if match else ""


def check_known(what: str, name: object, known: Iterable[str]) -> None:
    """Raise GradlabError unless ``name`` is one of the ``known``; the message lists them, and suggests the nearest one."""
    known = list(known)
    if name not in known:
        raise GradlabError(
            f"unknown {what} {name!r}; there are: {', '.join(known)}.{nearest(str(name), known)}"
        )


def check_whole(name: str, value: object, least: int) -> None:
    """Raise GradlabError unless a value is a whole number of at least ``least``."""
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not whole or value < least:  # type: ignore[operator]
        raise GradlabError(f"{name} must be a whole number of at least {least}, not {value!r}")


def listed(names: Sequence[str]) -> str:
    """``"a, b and c"``."""
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


# Extra -> the packages that it brings, as they are imported. A test holds this to pyproject.toml.
EXTRAS = {
    "train": (
        "sklearn", "accelerate", "filelock", "platformdirs", "pyarrow", "safetensors", "transformers", "tokenizers",
    ),
    "inspect": ("usearch", "rensa"),
    "sweep": ("optuna",),
    "notebooks": ("ipywidgets", "jupyterlab", "pytorch_metric_learning", "seaborn", "threadpoolctl"),
    "mteb": ("mteb",),
    "watch": ("sentence_transformers", "datasets"),
    "evidence": ("statsmodels",),
}  # fmt: skip


def missing(error: ImportError) -> GradlabError | None:
    """The error of a package that is not installed, with the command that installs it; None if no extra brings it."""
    package = (error.name or "").partition(".")[0]
    for extra, packages in EXTRAS.items():
        if package in packages:
            return GradlabError(
                f"this needs {package}, which is not installed; it comes with gradlab's extra [{extra}]: "
                f"pip install '.[{extra}]' in the folder of gradlab"
            )
    return None


def require_package(module: str) -> Any:
    """The module of a package that an extra brings; raises the error of `missing` if it is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        if (found := missing(error)) is None:
            raise
        raise found from error
