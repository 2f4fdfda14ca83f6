"""Settings that describe, parse and check themselves, in losses, augmentations, training, study."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import json
import math
import numbers
import operator
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar, ParamSpec, Self, TypeVar

from gradlab.errors import GradlabError, check_known, described, nearest

P = ParamSpec("P")
T = TypeVar("T")

# Ranges with a name: limits as in `setting`, or none for values that the class checks itself.
_RULES: dict[str, dict[str, float]] = {
    "positive": {"above": 0},
    "non-negative": {"at_least": 0},
    "angle": {"at_least": -math.pi, "at_most": math.pi},
    "any": {},
    "text": {},
}
_LIMITS: dict[str, tuple[Callable[[Any, Any], bool], str]] = {
    "above": (operator.gt, "greater than"),
    "at_least": (operator.ge, "of at least"),
    "below": (operator.lt, "less than"),
    "at_most": (operator.le, "at most"),
}
# Types of annotations, which are texts; other annotations are not checked.
_KINDS = {"bool": bool, "int": int, "float": float, "str": str, "tuple": tuple, "dict": dict}
# What messages call a value of a type.
_WORDS = {
    bool: "true or false",
    int: "a whole number",
    float: "a finite number",
    str: "a string",
    dict: "a table (in JSON)",
    object: "of any type",
}
_ANGLE = "an angle in radians, between -π and π (10° is 0.1745)"
# What reads a text; other types take it as it is.
_READERS: dict[type, Callable[[str], Any]] = {
    bool: lambda text: bool(("false", "true").index(text.lower())),
    int: int,
    float: float,
    dict: json.loads,
}


def setting(
    default: Any = dataclasses.MISSING,
    text: str = "",
    *,
    factory: Callable[[], Any] | None = None,
    rule: str = "any",
    above: float | None = None,
    at_least: float | None = None,
    below: float | None = None,
    at_most: float | None = None,
    choices: tuple[str, ...] = (),
    unit: str = "",
    needs: str = "",
) -> Any:
    """Declare a field of `Settings`; its annotation is the type, and ``| None`` allows None.

    Args:
        default: the usual or published value; without a default the setting is required.
        text: description in a few words.
        factory: makes a mutable default, such as a dict.
        rule: a range by name: ``"positive"``, ``"non-negative"``, ``"angle"`` (radians) or
            ``"any"``; ``"text"`` if the class itself parses and checks the value.
        above, at_least, below, at_most: limits of a finite number, or of each in a tuple.
        choices: allowed values of a named option, or of each entry of a tuple.
        unit: unit such as ``"radians"``; empty for pure numbers.
        needs: another setting, without which this one has no effect.
    """
    limits = {"above": above, "at_least": at_least, "below": below, "at_most": at_most}
    explicit = {name: limit for name, limit in limits.items() if limit is not None}
    metadata = {
        "text": text,
        "rule": rule,
        "limits": _RULES[rule] | explicit,
        "choices": choices,
        "unit": unit,
        "needs": needs,
    }
    if factory is not None:
        return dataclasses.field(default_factory=factory, metadata=metadata)
    if default is dataclasses.MISSING:
        # Required, and allowed by position even if others are keyword-only.
        return dataclasses.field(metadata=metadata, kw_only=False)
    return dataclasses.field(default=default, metadata=metadata)


@dataclasses.dataclass(frozen=True)
class Declaration:
    """One setting as declared by its field.

    Attributes:
        name, text, rule, limits, choices, unit, needs: as passed to `setting`, limits joined.
        default: the default; `dataclasses.MISSING` if the setting is required.
        kind: bool, int, float, str, tuple or dict; object if any type is allowed.
        of: type of a tuple's entries.
        optional: whether None is allowed.
    """

    name: str
    default: Any
    kind: type
    of: type
    optional: bool
    text: str = ""
    rule: str = "text"
    limits: Mapping[str, float] = dataclasses.field(default_factory=dict)
    choices: tuple[str, ...] = ()
    unit: str = ""
    needs: str = ""

    @classmethod
    def of_field(cls, field: dataclasses.Field[Any]) -> Self:
        """Build from a field that `setting` made, or from any other, which is then not checked."""
        rule = field.metadata.get("rule")
        checked = rule not in (None, "text") or (rule == "text" and field.type in (str, "str"))
        kind = _kind(field) if checked else (object, object, True)
        default = field.default_factory() if callable(field.default_factory) else field.default
        return cls(field.name, default, *kind, **field.metadata)

    def check(self, value: Any) -> Any:
        """Check a value and convert it: numbers to int or float, lists to tuples, paths to text.

        Raises:
            GradlabError: wrong type, NaN or infinity, out of range, or not one of the choices.
        """
        if value is None and self.optional:
            return None
        try:
            if self.kind is not tuple:
                return self._checked(self.kind, value)
            if isinstance(value, str):
                raise TypeError
            return tuple(self._checked(self.of, member) for member in value)
        except (TypeError, ValueError):
            raise self._refusal(value) from None

    def read(self, text: str) -> Any:
        """Parse a text without checking ranges: ``null`` is None, and tables are JSON.

        Raises:
            GradlabError: the text is not of the setting's type.
        """
        if self.optional and self.kind is not object and text in ("null", "none"):
            return None
        try:
            if self.kind is not tuple:
                return _READERS.get(self.kind, str)(text)
            if text.lstrip().startswith("["):
                return tuple(json.loads(text))
            return tuple(map(_READERS.get(self.of, str), text.replace(",", " ").split()))
        except ValueError:
            raise self._refusal(text) from None

    def _checked(self, kind: type, value: Any) -> Any:
        """Return a value, or an entry of a tuple, as ``kind``; TypeError or ValueError if wrong."""
        if self.choices and value not in self.choices:
            raise ValueError
        if kind in (int, float):
            if not _is_number(value, numbers.Integral if kind is int else numbers.Real):
                raise TypeError
            # `all`, because the opposite comparison would accept NaN.
            if not all(_LIMITS[name][0](value, limit) for name, limit in self.limits.items()):
                raise ValueError
            if not math.isfinite(value):
                raise ValueError
            return kind(value)
        if kind is str and isinstance(value, Path):
            return str(value)
        if not isinstance(value, kind):
            raise TypeError
        if isinstance(value, dict):
            return {name: _plain(member) for name, member in value.items()}
        return value

    def _refusal(self, value: Any) -> GradlabError:
        limits = " and ".join(f"{_LIMITS[name][1]} {limit}" for name, limit in self.limits.items())
        if self.choices:
            right = f"one of {', '.join(self.choices)}"
        elif self.rule == "angle":
            right = _ANGLE
        else:
            right = f"{_WORDS[self.of if self.kind is tuple else self.kind]} {limits}".rstrip()
        right = f"a list, each entry {right}" if self.kind is tuple else right
        null = " or null" if self.optional else ""
        near = nearest(value, self.choices) if isinstance(value, str) else ""
        refusal = f"{self.name} must be {right}{null}, not {described(value)}.{near}"
        return GradlabError(refusal.rstrip("."))


def declarations(cls: type) -> Mapping[str, Declaration]:
    """Return the settings of a dataclass by name, in order of declaration."""
    if cls not in _declared:
        _declared[cls] = {
            field.name: Declaration.of_field(field) for field in dataclasses.fields(cls)
        }
    return _declared[cls]


# No functools.cache, because `torch.compile` would trace through it.
_declared: dict[type, Mapping[str, Declaration]] = {}


class Settings:
    """Base class of dataclasses of settings; names and values are checked at construction.

    Class attributes:
        setting_noun: word for a setting of this class in messages.

    Raises:
        GradlabError: an unknown name (the message suggests the nearest one), or a bad value.
    """

    setting_noun: ClassVar[str] = "setting"

    def __new__(cls, *args: Any, **settings: Any) -> Self:
        """Create an instance, and refuse unknown names."""
        if settings:
            check_names(cls, settings)
        return super().__new__(cls)

    def __post_init__(self) -> None:
        for name, declared in declarations(type(self)).items():
            current = getattr(self, name)
            if type(current) is declared.kind and current == declared.default:
                continue
            # The class itself checks the others.
            if declared.kind is not object or declared.choices:
                object.__setattr__(self, name, declared.check(current))

    def _fix(self, **attributes: Any) -> None:
        """Set attributes at construction: read settings, and what follows from them."""
        for name, value in attributes.items():
            object.__setattr__(self, name, value)


def check_names(cls: type, names: Iterable[str]) -> None:
    """Raise GradlabError for a name that is no setting of ``cls``, and suggest the nearest."""
    declared = declarations(cls)
    unknown = next((name for name in names if name not in declared), None)
    if unknown is None:
        return
    noun = getattr(cls, "setting_noun", Settings.setting_noun)
    # Registered classes have a name of their own.
    owner = cls.__name__ if "name" in declared else cls.__dict__.get("name", cls.__name__)
    check_known(noun, unknown, declared, f"{owner} has")


def parse_settings(cls: type, texts: Mapping[str, str]) -> dict[str, Any]:
    """Parse ``{"temperature": "0.1"}`` into typed values for ``cls``, which checks their ranges.

    Raises:
        GradlabError: an unknown name, or a text that is not of the setting's type.
    """
    check_names(cls, texts)
    declared = declarations(cls)
    return {name: declared[name].read(text) for name, text in texts.items()}


def call_text(instance: Any) -> str:
    """Return the text from which a registry builds an equal object; defaults are omitted.

    Example:
        >>> from gradlab import get_loss
        >>> call_text(get_loss("mpt", margin=0.3))
        'mpt(margin=0.3)'
    """
    if own := getattr(instance, "given_as", ""):  # a loss that is not registered
        return str(own)
    first = getattr(instance, "first_setting", "")
    changed = [plain_text(getattr(instance, first))] if first else []
    changed += [
        f"{field.name}={plain_text(getattr(instance, field.name))}"
        for field in dataclasses.fields(instance)
        if field.name != first and getattr(instance, field.name) != field.default
    ]
    # A subclass without a registered name would inherit its parent's.
    name = vars(type(instance)).get("name") or type(instance).__qualname__
    return f"{name}({', '.join(changed)})" if changed else name


def plain_text(value: Any) -> str:
    """Return a setting as `call_text` writes it, such as ``infonce, gor`` for a tuple of losses."""
    if isinstance(value, tuple) and all(map(dataclasses.is_dataclass, value)) and value:
        return ", ".join(map(plain_text, value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return call_text(value)
    return str(value) if isinstance(value, str) else repr(value)


def names_arguments(function: Callable[P, T]) -> Callable[P, T]:
    """Make a public function refuse unknown keyword arguments, with the nearest name."""
    names = list(inspect.signature(function).parameters)

    @functools.wraps(function)
    def call(*args: P.args, **arguments: P.kwargs) -> T:
        for name in arguments:
            if name not in names:
                raise unknown_argument(function, name, names)
        return function(*args, **arguments)

    return call


def unknown_argument(
    function: Callable[..., Any], name: str, names: Iterable[str], place: str = ""
) -> GradlabError:
    """Return the refusal of a keyword argument, with the nearest name or the ``place`` it has."""
    return GradlabError(
        f"{function.__name__} has no argument {name!r}{place or '.' + nearest(name, names)}"
    )


def _is_number(value: Any, kind: type = numbers.Real) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)


def _plain(value: Any) -> Any:
    """Return a number, such as numpy's, as int or float, which JSON represents."""
    if not _is_number(value):
        return value
    return int(value) if isinstance(value, numbers.Integral) else float(value)


def _kind(field: dataclasses.Field[Any]) -> tuple[type, type, bool]:
    """Return the type, the type of a tuple's entries, and whether None is allowed.

    They come from the annotation's text, whose names need not be imported, or from the default.
    """
    text = field.type.__name__ if isinstance(field.type, type) else str(field.type)
    types = [annotation.strip() for annotation in text.split("|")]
    names = [annotation for annotation in types if annotation != "None"]
    name, _, inner = names[0].partition("[")
    if len(names) == 1 and name in _KINDS:
        return _KINDS[name], _KINDS.get(inner.partition(",")[0], object), "None" in types
    return _KINDS.get(type(field.default).__name__, object), object, "None" in types
