"""Options that several commands share."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import click

from gradlab.errors import GradlabError
from gradlab.settings import read_assignments


def loss_option(**settings: Any) -> Callable[[Any], Any]:
    """``--loss NAME``."""
    return click.option("--loss", "loss_name", metavar="NAME", help="A loss of `gradlab losses`.", **settings)


def set_option(function: Any) -> Any:
    """``--set NAME=VALUE``, repeatable: hyper-parameters of the loss."""
    return click.option(
        "--set",
        "assignments",
        metavar="NAME=VALUE",
        multiple=True,
        help="A hyper-parameter, e.g. temperature=0.1, or preset=NAME; repeatable. Angles are in radians.",
    )(function)


class OutputFolder(click.Path):
    """A folder to write to, tried when it is given: before anything long, and without making it."""

    def __init__(self) -> None:
        """A path."""
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path."""
        from gradlab.files import check_writable

        check_writable(value, folder=True)
        return super().convert(value, param, ctx)


device_option = click.option(
    "--device", default="auto", show_default=True, help="auto (CUDA if there is one), cpu, cuda or cuda:N."
)
pooler_option = click.option(
    "--pooler", help="cls, mean or first_last.  [default: the one saved with the model, else cls]"
)
data_option = click.option(
    "--data",
    required=True,
    type=click.Path(path_type=Path),
    metavar="SENTEVAL_DIR",
    help="SentEval's data/downstream folder, or a SentEval checkout.",
)


def build_loss(name: str, assignments: Iterable[str]) -> Any:
    """The loss of ``--loss`` and ``--set``."""
    from gradlab.losses.registry import read_loss

    return read_loss(name, read_assignments(assignments))


def check_existing(base: Path, suffixes: Iterable[str], manifest: dict[str, Any], overwrite: bool) -> bool:
    """Whether files of this name exist; refuse to replace those that other settings made.

    Args:
        base: the files' path without suffix; ``base.json`` holds the manifest that an earlier run wrote.
        suffixes: of the files about to be written.
        manifest: the one about to be written; its versions and results need not be the same.
        overwrite: replace anything.

    Raises:
        GradlabError: files exist that were not made with these settings.
    """
    existing = [path for suffix in suffixes if (path := Path(f"{base}{suffix}")).exists()]
    if not existing or overwrite:
        return bool(existing)
    try:
        before = json.loads(Path(f"{base}.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        before = None
    same = json.loads(json.dumps(manifest))
    free = {"versions": 0, "results": 0}
    if not isinstance(before, dict) or {**before, **free} != {**same, **free}:
        raise GradlabError(
            f"{existing[0]} exists and was not made with these settings; pass --overwrite or another --output"
        )
    return True
