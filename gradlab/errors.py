"""`GradlabError`, the exception for bad input, and helpers that phrase its message."""

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
    """Training in which a loss, weight or score is not finite, or a learned setting invalid."""


# Of more names, a message suggests only the nearest.
MANY = 60


def reason(error: Exception) -> str:
    """Return the operating system's text of an error, without its path, or else the error's own."""
    return getattr(error, "strerror", None) or str(error)


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, up to 300 characters.

    If the error has no message, return its type.
    """
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return textwrap.shorten(lines[0], 300, placeholder=" …").rstrip(".")


# What papers and other libraries call a setting, and its name here.
ALIASES = {"tau": "temperature", "lr": "learning_rate", "bs": "batch_size"}


# Smallest similarity of a name that a message suggests, from 0 to 1.
NEAR = 0.6


def nearest(name: str, names: Iterable[str]) -> str:
    """Return ``" Did you mean 'x'?"`` for the closest known name, or an empty string.

    Dashes of options and the prefix of ``model:NAME`` do not count, and `ALIASES` are known.
    Before a similar name, the longest known one is taken with which the words of ``name`` begin.
    """
    by_key = {_key(known.rpartition(":")[2]): known for known in names}
    key = _key(name)
    keys = [ALIASES[key]] if ALIASES.get(key) in by_key else []
    beginnings = [known for known in by_key if f"{key}_".startswith(f"{known}_")]
    keys = keys or sorted(beginnings, key=len)[-1:]
    keys = keys or difflib.get_close_matches(key, by_key, n=1, cutoff=NEAR)
    return f" Did you mean {by_key[keys[0]]!r}?" if keys else ""


def described(value: object) -> str:
    """Return a value for a message: an array by its shape, and anything else by its repr."""
    shape = getattr(value, "shape", None)
    if shape is None:
        return textwrap.shorten(repr(value), 300, placeholder=" …")
    return f"{'a tensor' if type(value).__name__ == 'Tensor' else 'an array'} of shape {(*shape,)}"


def check_known(
    kind: str,
    name: object,
    names: Iterable[str],
    heading: str = "there are",
    also: Iterable[str] = (),
) -> None:
    """Raise GradlabError unless ``name`` is in ``names``.

    The message suggests the nearest name, of ``also`` too, and lists ``names`` after ``heading``,
    if they are not many.
    """
    names = list(names)
    if name not in names:
        hint = nearest(str(name), [*names, *also]) if isinstance(name, str) else ""
        listing = f"{heading}: {', '.join(names) or 'none'}." if len(names) <= MANY else ""
        if hint:
            listing = listing.replace("there", "There", 1) if heading == "there are" else listing
            ending = f".{hint} {listing}".rstrip()
        else:
            ending = f"; {listing}" if listing else "."
        raise GradlabError(f"unknown {kind} {described(name)}{ending}")


def check_whole(name: str, value: object, least: int) -> None:
    """Raise GradlabError unless ``value`` is a whole number of at least ``least``."""
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not whole or value < least:  # type: ignore[operator]
        raise GradlabError(
            f"{name} must be a whole number of at least {least}, not {described(value)}"
        )


def listed(names: Sequence[str]) -> str:
    """Join names as text, such as ``"a, b and c"``."""
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: ``1 pair``, ``12 pairs``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


# Packages of each extra, by import name. A test compares them with pyproject.toml.
EXTRAS = {
    "train": (
        "sklearn", "accelerate", "filelock", "huggingface_hub", "joblib", "platformdirs", "psutil",
        "pyarrow", "safetensors", "threadpoolctl", "transformers", "tokenizers",
    ),
    "inspect": ("rensa",),
    "sweep": ("optuna", "sqlalchemy"),
    "notebooks": ("ipywidgets", "jupyterlab", "pytorch_metric_learning", "seaborn"),
    "mteb": ("mteb",),
    "watch": ("sentence_transformers", "datasets"),
    "evidence": ("statsmodels",),
}  # fmt: skip


def missing(error: ImportError) -> GradlabError | None:
    """Return an error that says how to install the missing package; None if no extra has it."""
    package = (error.name or "").partition(".")[0]
    for extra, packages in EXTRAS.items():
        if package in packages:
            return GradlabError(
                f"this needs {package}, which is not installed; it comes with gradlab's extra "
                f"[{extra}]: pip install '.[{extra}]' in the folder of gradlab"
            )
    return None


def require_package(module: str) -> Any:
    """Import a module of an extra; if it is not installed, raise the error from `missing`."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        if (explained := missing(error)) is None:
            raise
        raise explained from error


def _key(name: str) -> str:
    return name.lower().strip("-").replace("-", "_")
