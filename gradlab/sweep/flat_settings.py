"""Flat settings of runs: ``loss_settings.temperature`` belongs to the table ``loss_settings``."""

from __future__ import annotations

import functools
import hashlib
import json
import os
from collections.abc import Collection, Mapping
from typing import Any

from gradlab.errors import GradlabError
from gradlab.settings import check_names as check_settings
from gradlab.settings import declarations, read_json
from gradlab.train.config import RESUMABLE_CHANGES, TrainConfig
from gradlab.train.former_names import RENAMED

FlatSettings = dict[str, Any]
# Settings that are tables.
_TABLES = frozenset({"loss_settings"})


def flatten(table: Mapping[str, Any], depth: int = 8) -> FlatSettings:
    """Flatten a table of settings; GradlabError beyond a ``depth`` of tables in tables.

    ``{"loss_settings": {"temperature": 1}}`` becomes ``{"loss_settings.temperature": 1}``, and a
    setting of an earlier version gets the name that it has now.
    """
    if depth == 0:
        raise GradlabError("the tables of settings are nested too deeply")
    flat: FlatSettings = {}
    for name, entry in table.items():
        if isinstance(entry, Mapping):
            nested = flatten(entry, depth - 1)
            flat |= {f"{name}.{inner}": setting for inner, setting in nested.items()}
        else:
            flat[RENAMED.get(name, name)] = entry
    return flat


def unflatten(flat: Mapping[str, Any]) -> FlatSettings:
    """Return the nested table of flat settings, the inverse of `flatten`."""
    table: FlatSettings = {}
    for name, setting in flat.items():
        *tables, last = name.split(".")
        place = table
        for inner in tables:
            place = place.setdefault(inner, {})
        place[last] = setting
    return table


def check_names(names: Collection[str], where: str) -> None:
    """Raise GradlabError for a name that `TrainConfig` lacks, or that a sweep sets itself."""
    for name in names:
        table = name.partition(".")[0]
        if table in ("seed", "output"):
            right = "seeds, above the tables" if table == "seed" else "--output"
            raise GradlabError(f"{where} sets {table!r}, which a sweep sets itself; use {right}")
        check_settings(TrainConfig, [table if table in _TABLES else name])


def parse_value(name: str, text: str) -> Any:
    """Return a setting's value from text; GradlabError for an unknown name or a wrong type."""
    check_names([name], "--base")
    return read_json(text) if "." in name else declarations(TrainConfig)[name].read(text)


def configure(settings: Mapping[str, Any], output: str = "-") -> TrainConfig:
    """Return a run's configuration from its flat settings; GradlabError if they are invalid."""
    return TrainConfig.from_dict(unflatten(settings) | {"output": output})


def identify(settings: Mapping[str, Any], varied: Collection[str] = ()) -> str:
    """Return a key that two runs share if they train the same encoder.

    Paths and other settings of `RESUMABLE_CHANGES` do not count unless ``varied``, a training file
    then by content. Settings at their defaults do not count either, so that new ones change no key.
    """
    varied_settings = {name: settings[name] for name in RESUMABLE_CHANGES.intersection(varied)}
    if "train_file" in varied_settings:
        varied_settings["train_file"] = (
            content_of(varied_settings["train_file"]) or varied_settings["train_file"]
        )
    return _identify(
        json.dumps(settings, sort_keys=True), json.dumps(varied_settings, sort_keys=True)
    )


def content_of(file: str) -> str | None:
    """Return the SHA-256 of a training file, or None if it cannot be read."""
    try:
        about = os.stat(file)
        return _hash(os.path.abspath(file), about.st_mtime_ns, about.st_size)
    except OSError:
        return None


def content_of_development(path: str) -> str | None:
    """Return the SHA-256 of the data that select the best encoders, or None if they are absent."""
    from gradlab.evaluate.selection import development_files

    try:
        hashes = [content_of(str(file)) for file in development_files(path)]
    except GradlabError:
        return None
    return None if None in hashes else " ".join(map(str, hashes))


def content_of_code(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the SHA-256 of each file of user code that a run's loss or augmentation is from."""
    hashes = {file: content_of(file) for file in _code(json.dumps(settings, sort_keys=True))}
    return {file: content for file, content in hashes.items() if content is not None}


def settings_text(settings: Mapping[str, Any]) -> str:
    """Return settings as text for display: ``a=1, b=x``."""
    return ", ".join(f"{name}={plain(value)}" for name, value in settings.items())


def plain(value: Any) -> str:
    """Return a value as text: strings without quotes, everything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value)


@functools.cache  # every claim needs the keys of all runs
def _identify(settings: str, varied_settings: str) -> str:
    config = configure(json.loads(settings))
    content = {
        name: value
        for name, declared in declarations(TrainConfig).items()
        if name not in RESUMABLE_CHANGES
        and ((value := getattr(config, name)) != declared.default or name == "seed")
    } | json.loads(varied_settings)
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


@functools.cache
def _code(settings: str) -> tuple[str, ...]:
    code = configure(json.loads(settings)).code
    return tuple(str(file) for files in code.values() for file in files)


@functools.cache  # time and size are in the key, because they change with the file
def _hash(file: str, time: int, size: int) -> str:
    from gradlab.data.tokens import hash_file

    return hash_file(file)
