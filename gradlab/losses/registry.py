"""The registry of losses: look up, list and create losses by name."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import inspect
import os
import re
import threading
import tomllib
from collections.abc import Callable, Iterable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, dataclass_transform

from gradlab.batch.check import CONTEXT
from gradlab.errors import ALIASES, GradlabError, described, nearest
from gradlab.losses.base import Loss
from gradlab.settings import call_text, declarations, parse_settings, unknown_argument
from gradlab.settings.objects import import_module
from gradlab.settings.registry import Registry

# Environment variable with further files or modules of losses, separated as in PATH;
# entry point of packages.
OWN_LOSSES, ENTRY_POINTS = "GRADLAB_LOSSES", "gradlab.losses"
L = TypeVar("L", bound="type[Loss]")
P = ParamSpec("P")
T = TypeVar("T")


class _LossRegistry(Registry[Loss]):
    """Losses of gradlab, and losses registered by a user's files or other packages."""

    def also(self) -> list[str]:
        models = importlib.import_module("gradlab.losses.published_models")
        return [f"{models.PREFIX}{row.name}" for row in models.published_models()]

    def _knows(self, name: str) -> bool:
        _import_own_files()
        return super()._knows(name)

    def _discover(self) -> None:
        super()._discover()
        _import_own_files()
        _load_entry_points()


_registry = _LossRegistry("a loss", "gradlab.losses")
# Losses by their text and the files of own losses: as a loss never changes, it is read once.
_losses_by_text: dict[tuple[str, str], Loss] = {}
_MOST_TEXTS = 256
# Files and entry points of own losses whose import has begun, and has ended.
_begun: set[Any] = set()
_imported: set[Any] = set()
_importing = threading.RLock()


@dataclass_transform(frozen_default=True)
def register(name: str, *, cites: str = "") -> Callable[[L], L]:
    """Class decorator: make a loss a frozen dataclass, registered for `get_loss` and all commands.

    Args:
        name: name of the loss.
        cites: key of its paper in ``papers.bib``, for ``bibtex`` and, unless the class
            has one, ``paper``.

    Raises:
        GradlabError: another class already has the name.
    """

    def add(cls: L) -> L:
        if name in (table := _table()):
            cls.table_order, cls.latex = list(table).index(name), table[name]
        if not hasattr(cls, "title"):
            cls.title = cls.__name__
        if cites:
            cls.bibtex = cited(cites)
            cls.paper = vars(cls).get("paper") or _reference(cls.bibtex)
        if "__dataclass_params__" not in vars(cls):
            dataclasses.dataclass(frozen=True)(cls)  # changes the class in place
        _losses_by_text.clear()  # a text may mean another loss now
        return _registry.register(name)(cls)

    return add


def own_files() -> list[str]:
    """Return the files and modules that the user names in ``GRADLAB_LOSSES`` or ``--loss-file``."""
    return [file for file in os.environ.get(OWN_LOSSES, "").split(os.pathsep) if file]


def loss_names() -> list[str]:
    """Return all names but `taught_names` and `combinator_names`, in the papers' order."""
    return _names(lambda cls: not cls.is_combinator and "teacher" not in cls.looks_at)


def taught_names() -> list[str]:
    """Return the names of the losses that require ``teacher=``, such as ``kl``."""
    return _names(lambda cls: not cls.is_combinator and "teacher" in cls.looks_at)


def combinator_names() -> list[str]:
    """Return the names of the combinators, such as ``symmetric``."""
    return _names(lambda cls: cls.is_combinator)


def loss_classes() -> dict[str, type[Loss]]:
    """Return gradlab's classes of losses and combinators, by class name."""
    classes = map(_registry.classes.__getitem__, _registry.names())
    return {cls.__name__: cls for cls in classes if cls.__module__.startswith("gradlab.losses.")}


def loss_class(name: str) -> type[Loss]:
    """Return the class registered under ``name``, which may be followed by settings in parentheses.

    Raises:
        GradlabError: an unknown name (the message suggests the nearest one), or a loss of your own.
    """
    if is_own(name):
        raise GradlabError(
            f"{name} is not registered; `gradlab decompose {name}` shows what it does"
        )
    return _registry.read(name)[0]


def get_loss(name: str | Loss, *, preset: str | None = None, **hyperparameters: Any) -> Loss:
    """Return a loss by name, or adapt one of your own.

    Args:
        name: one of `loss_names`, or a text such as ``"mpt(margin=0.3)"``. A loss object is
            returned unchanged, or with the given hyper-parameters. A loss of your own is
            ``"module:Name"`` or ``"path/file.py:Name(margin=0.3)"``, a torch module, a function
            ``loss(anchors, positives)`` that returns a scalar, or a loss object of
            sentence-transformers or pytorch-metric-learning (see
            `gradlab.decomposition.two_views`). Its components are computed from its gradients, and
            it is simulated by sampling.
        preset: name of published settings other than the defaults, a key of the loss's ``presets``
            such as ``"roberta"``; in a text, ``"modified_mhe(preset=roberta)"``.
        **hyperparameters: fields of the loss, such as ``temperature=0.1``; angles in radians. They
            override the preset.

    Raises:
        GradlabError: an unknown loss, preset or hyper-parameter, a value out of range, or no loss.

    Example:
        >>> get_loss("arccon", temperature=0.1)
        ArcCon(temperature=0.1, learnable=False, clamp=0.0, margin=0.17453292519943295)
    """
    if isinstance(name, Loss):
        if preset is None and not hyperparameters:
            return name
        cls = type(name)
        own = {field.name: getattr(name, field.name) for field in dataclasses.fields(name)}
        return cls.build(**own | _preset(cls, preset) | hyperparameters)
    if isinstance(name, str) and preset is None and not hyperparameters:
        return _losses_by_text.get((name, os.environ.get(OWN_LOSSES, ""))) or _from_text(name)
    if isinstance(name, str) and not is_own(name):
        cls, texts = _registry.read(name)
        return _build(cls, {"preset": preset} | parse_hyperparameters(cls, texts) | hyperparameters)
    if isinstance(name, str) or (callable(name) and not isinstance(name, type)):
        return _adapt(name, hyperparameters)
    kind = described(name)
    if isinstance(name, type):
        kind = f"the class; make an instance of {name.__name__}"
    elif hasattr(name, "shape"):
        kind += "; the loss comes first, as in gradlab.components('infonce', anchors, positives)"
    raise GradlabError(
        "a loss is wanted: a name such as 'infonce', 'file.py:Name', a gradlab.Loss, "
        f"a torch module or a function of two views, not {kind}"
    )


def takes_loss(function: Callable[P, T]) -> Callable[P, T]:
    """Make a public function of a loss refuse an unknown keyword argument, in one line.

    A function with ``**`` passes arguments of `gradlab.batch.check.check_batch` on.
    """
    parameters = inspect.signature(function).parameters.values()
    names = [argument.name for argument in parameters if argument.kind != argument.VAR_KEYWORD]
    names += ("own_negatives", *CONTEXT) if len(names) < len(parameters) else ()

    @functools.wraps(function)
    def call(*args: P.args, **arguments: P.kwargs) -> T:
        for name in arguments:
            if name not in names:
                place = _belongs_to_loss(name, args, arguments)
                raise unknown_argument(function, name, names, place)
        return function(*args, **arguments)

    return call


def by_text(losses: Iterable[Any]) -> dict[str, Loss]:
    """Return losses, given as in `get_loss`, by their texts.

    Raises:
        GradlabError: different losses have one text, such as two `functools.partial` of a function.
    """
    entries: dict[str, tuple[Any, Loss]] = {}
    for source in losses:
        loss = get_loss(source)
        text = call_text(loss)
        first_source, first_loss = entries.setdefault(text, (source, loss))
        if source != first_source and loss != first_loss:
            raise GradlabError(
                f"two different losses are called {text!r}; give each a __name__ of its own, "
                "such as 'margin 0.2'"
            )
    return {text: loss for text, (_, loss) in entries.items()}


def read_loss(name: str, texts: Mapping[str, str]) -> Loss:
    """Return the loss of a text as `get_loss` does; settings in ``texts`` override ``name``'s."""
    if not texts:
        return get_loss(name)
    if is_own(name):
        return _adapt(name, texts)
    cls, own = _registry.read(name)
    return _build(cls, parse_hyperparameters(cls, own | dict(texts)))


def parse_hyperparameters(cls: type[Loss], texts: Mapping[str, str]) -> dict[str, Any]:
    """Convert hyper-parameters from texts to their types; a ``preset`` stays a name."""
    preset = {name: text for name, text in texts.items() if name == "preset"}
    own = {name: text for name, text in texts.items() if name != "preset"}
    return preset | parse_settings(cls, own)


def cited(key: str) -> str:
    """Return the BibTeX entry of a key in ``papers.bib``, for a loss's ``bibtex``."""
    return _papers()[key]


def check_closed_form(loss: Loss, purpose: str) -> None:
    """Raise `GradlabError` for a loss given as code, whose components have no formulas."""
    if not loss.closed_form:
        raise GradlabError(
            f"{loss.name} is given as code, and {purpose} needs formulas; "
            "gradlab.Loss says how to write them, and gradlab.decompose, components, "
            "verify and simulate take it as it is"
        )


def is_of_gradlab(loss: Loss) -> bool:
    """Return True if gradlab defines the formulas of the loss and of every loss nested in it."""
    return all(
        nested.closed_form and type(nested).__module__.startswith("gradlab.")
        for nested in loss.within
    )


def is_own(text: str) -> bool:
    """Return True if a text names an unregistered loss: ``module:Name`` or a ``.py`` file."""
    name = text.partition("(")[0]
    return ":" in name or name.endswith(".py")


def _belongs_to_loss(name: str, args: tuple[Any, ...], arguments: dict[str, Any]) -> str:
    loss = args[0] if args else arguments.get("loss")
    owner = get_loss(loss) if isinstance(loss, (str, Loss)) else None
    setting = ALIASES.get(name, name)
    if owner is None or setting not in declarations(type(owner)):
        return ""
    loss_text = repr(loss) if isinstance(loss, str) else owner.name
    call = f"gradlab.get_loss({loss_text}, {setting}={described(arguments[name])})"
    return f"; it is a hyper-parameter of the loss: {call}"


def _import_own_files() -> None:
    for file in own_files():
        _import_once(file, functools.partial(import_module, file))


def _load_entry_points() -> None:
    for entry_point in _entry_points():
        _import_once(entry_point, entry_point.load)


@functools.cache
def _entry_points() -> metadata.EntryPoints:
    return metadata.entry_points(group=ENTRY_POINTS)


def _import_once(source: Any, load: Callable[[], Any]) -> None:
    if source in _imported:
        return
    with _importing:  # another thread waits here until the losses are registered
        if source in _begun:  # own losses may ask for a loss while they are imported
            return
        _begun.add(source)
        try:
            load()
        except Exception:
            _begun.remove(source)
            raise
        _imported.add(source)


def _adapt(loss: Any, settings: Mapping[str, Any]) -> Loss:
    """Turn a function or module into a loss."""
    # By name, as gradlab.decomposition imports this package. It cannot register itself here
    # instead: rooms are loaded when they are first asked for.
    adapted: Loss = importlib.import_module("gradlab.decomposition.own_loss").own_loss(
        loss, settings
    )
    return adapted


def _names(selected: Callable[[type[Loss]], bool]) -> list[str]:
    return [name for name in _registry.names() if selected(_registry.classes[name])]


@functools.cache
def _table() -> dict[str, dict[str, str]]:
    """Return the papers' tables: losses in the order of the rows, with their components in TeX."""
    return tomllib.loads(Path(__file__).with_name("tables.toml").read_text(encoding="utf-8"))


@functools.cache
def _papers() -> dict[str, str]:
    entries = Path(__file__).with_name("papers.bib").read_text(encoding="utf-8").split("\n\n")
    return {
        entry[entry.index("{") + 1 : entry.index(",")]: f"\n{entry.strip()}\n" for entry in entries
    }


def _reference(entry: str) -> str:
    """Return a reference to a BibTeX entry, such as ``Wang and Isola (2020)``."""
    authors, year = (
        re.findall(rf"^ *{field} = {{(.*)}},", entry, re.MULTILINE)[0]
        for field in ("author", "year")
    )
    names = [author.partition(",")[0] for author in authors.split(" and ")]
    who = " and ".join(names) if len(names) < 3 else f"{names[0]} et al."
    return f"{who} ({year})"


def _from_text(text: str) -> Loss:
    """Read the loss of a text; keep it for `get_loss` if it is made of gradlab's, of no file."""
    if is_own(text):
        return _adapt(text, {})
    cls, texts = _registry.read(text)
    loss = _build(cls, parse_hyperparameters(cls, texts))
    reads_file = "sentences" in loss.looks_at  # a mask's pairs
    if is_of_gradlab(loss) and not reads_file:
        if len(_losses_by_text) == _MOST_TEXTS:
            _losses_by_text.clear()
        _losses_by_text[text, os.environ.get(OWN_LOSSES, "")] = loss
    return loss


def _build(cls: type[Loss], values: dict[str, Any]) -> Loss:
    """Create a loss from settings, which override those of their ``preset``."""
    return cls.build(**_preset(cls, values.pop("preset", None)) | values)


def _preset(cls: type[Loss], preset: str | None) -> dict[str, Any]:
    if preset is None:
        return {}
    if preset not in cls.presets:
        presets = ", ".join(cls.presets) or "none"
        hint = nearest(preset, cls.presets)
        raise GradlabError(f"{cls.name} has no preset {preset!r}.{hint} It has: {presets}.")
    return dict(cls.presets[preset].hyperparameters)
