"""Settings by dotted names: ``loss_settings.temperature`` is one entry of the table ``loss_settings``."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import itertools
import json
import os
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from gradlab.errors import GradlabError, nearest
from gradlab.settings import declarations, read_json
from gradlab.train.config import RESUMABLE_CHANGES, TrainConfig

FlatSettings = dict[str, Any]
# Settings that are tables themselves.
_TABLES = frozenset({"loss_settings"})


def flatten(table: Mapping[str, Any]) -> FlatSettings:
    """``{"loss_settings": {"temperature": 1}}`` -> ``{"loss_settings.temperature": 1}``."""
    flat: FlatSettings = {}
    for name, value in table.items():
        if isinstance(value, Mapping):
            flat |= {f"{name}.{inner}": one for inner, one in flatten(value).items()}
        else:
            flat[name] = value
    return flat


def unflatten(flat: Mapping[str, Any]) -> FlatSettings:
    """The inverse of :func:`flatten`."""
    table: FlatSettings = {}
    for name, value in flat.items():
        *path, last = name.split(".")
        place = table
        for part in path:
            place = place.setdefault(part, {})
        place[last] = value
    return table


def combinations(grid: Mapping[str, list[Any]]) -> Iterator[FlatSettings]:
    """Every choice of one value a setting, the last setting changing fastest."""
    for values in itertools.product(*grid.values()):
        yield dict(zip(grid, values, strict=True))


def check_names(names: Mapping[str, Any], where: str) -> None:
    """Raise GradlabError for a name that is no setting of `TrainConfig`, or one that a sweep sets itself."""
    known = declarations(TrainConfig)
    for name in names:
        first, dot, _ = name.partition(".")
        if first in ("seed", "output"):
            right = "seeds, above the tables" if first == "seed" else "--output"
            raise GradlabError(f"{where} sets {first!r}, which a sweep sets itself; use {right}")
        if first not in known or (dot and first not in _TABLES):
            raise GradlabError(f"{where}: unknown setting {name!r}.{nearest(first, known)}")


def parse_value(name: str, text: str) -> Any:
    """The value of a setting given as text: a number, true or false, null, text, or JSON for the others.

    Raises:
        GradlabError: an unknown name, or a text of another type.
    """
    check_names({name: text}, "--set")
    return read_json(text) if "." in name else declarations(TrainConfig)[name].read(text)


def configure(settings: Mapping[str, Any], output: str = "-") -> TrainConfig:
    """The configuration of a run, with everything in it checked that costs nothing to check.

    Raises:
        GradlabError: for bad settings of run, loss or augmentation.
    """
    config = TrainConfig.from_dict(unflatten(settings) | {"output": output})
    if config.augment is not None:
        from gradlab.train.augment import get_augmentation

        get_augmentation(config.augment)
    return config


def identify(settings: Mapping[str, Any], varied: Collection[str] = ()) -> str:
    """A key that two runs share if they train the same.

    Where things lie does not count, nor what is at its default, so that a new setting with a default changes no key.

    Args:
        settings: of the run, flat.
        varied: names of those in which the runs of the sweep differ; they count whatever they are, a training file by
            its content.
    """
    counted = {name: settings[name] for name in RESUMABLE_CHANGES.intersection(varied)}
    if "train_file" in counted:
        counted["train_file"] = content_of(counted["train_file"]) or counted["train_file"]
    return _identify(json.dumps(settings, sort_keys=True), json.dumps(counted, sort_keys=True))


@functools.cache  # every claim asks for all of them
def _identify(settings: str, counted: str) -> str:
    config = configure(json.loads(settings))
    content = {}
    for item in dataclasses.fields(config):
        default = item.default_factory() if callable(item.default_factory) else item.default
        value = getattr(config, item.name)
        if item.name not in RESUMABLE_CHANGES and (value != default or item.name == "seed"):
            content[item.name] = value
    content |= json.loads(counted)
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def content_of(file: str) -> str | None:
    """SHA-256 of a training file, wherever it lies; None if it is not there."""
    try:
        about = os.stat(file)
        return _hash(os.path.abspath(file), about.st_mtime_ns, about.st_size)
    except OSError:
        return None


@functools.cache  # the time and the size are there to tell when it changes
def _hash(file: str, time: int, size: int) -> str:
    from gradlab.train.tokens import hash_file

    return hash_file(file)


def settings_text(settings: Mapping[str, Any]) -> str:
    """``a=1, b=x``, for people."""
    return ", ".join(f"{name}={_plain(value)}" for name, value in settings.items())


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
