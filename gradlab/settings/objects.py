"""Objects by name: ``package.module:Name``, or ``path/to/file.py:Name``."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from typing import Any

from gradlab.errors import GradlabError, nearest


def import_object(target: str) -> Any:
    """What ``package.module:Name``, or ``path/to/file.py:Name``, names; ``Name`` may have dots.

    A module of the current folder is found too.

    Raises:
        GradlabError: there is no such file or name, or importing it raises an error of any kind.
    """
    module_name, _, attribute = target.rpartition(":")
    try:
        module = _load_file(Path(module_name)) if module_name.endswith(".py") else _load_module(module_name)
    except GradlabError:
        raise
    except Exception as error:
        raise GradlabError(f"cannot import {module_name!r}: {type(error).__name__}: {error}") from error
    found: Any = module
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise GradlabError(f"{module_name} has no {attribute!r}.{nearest(part, dir(found))}")
        found = getattr(found, part)
    return found


def _load_module(name: str) -> Any:
    # A console script, unlike `python -m`, does not look in the current folder.
    if "" not in sys.path:
        sys.path.insert(0, "")
    return importlib.import_module(name)


def _load_file(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise GradlabError(f"there is no file {str(path)!r}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
