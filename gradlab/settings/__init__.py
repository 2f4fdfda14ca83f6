"""Declaration, parsing and checking of settings, and lookup of objects and classes by name.

A declaration serves Python, the command line and files:

>>> import dataclasses
>>> from gradlab.settings import Settings, parse_settings, setting
>>> @dataclasses.dataclass(frozen=True)
... class Cooling(Settings):
...     temperature: float = setting(0.05, "softmax temperature τ", rule="positive")
...     steps: int = setting(10, "steps of cooling", at_least=1)
>>> Cooling(**parse_settings(Cooling, {"temperature": "0.1"}))
Cooling(temperature=0.1, steps=10)
>>> Cooling(temprature=0.1)  # doctest: +NORMALIZE_WHITESPACE
Traceback (most recent call last):
    ...
gradlab.errors.GradlabError: unknown setting 'temprature'. Did you mean 'temperature'? Cooling
has: temperature, steps.
"""

from gradlab.settings.call_parsing import parse_call, read_assignments, read_json
from gradlab.settings.declaration import (
    Settings,
    call_text,
    check_names,
    declarations,
    names_arguments,
    parse_settings,
    setting,
    unknown_argument,
)

__all__ = [
    "Settings",
    "call_text",
    "check_names",
    "declarations",
    "names_arguments",
    "parse_call",
    "parse_settings",
    "read_assignments",
    "read_json",
    "setting",
    "unknown_argument",
]
