"""Options that the commands of several studies share."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import click

from gradlab.cli import CommandGroup, option

model = option(
    "--model",
    "Encoder to start from: a local folder or a hub name.",
    required=True,
    metavar="PATH_OR_NAME",
)
train_file = option(
    "--train-file",
    "Sentences: text, JSON lines, CSV, TSV or Parquet; .gz, .xz and .bz2 too.",
    kind=Path,
    required=True,
    metavar="FILE",
)
eval_data = option(
    "--eval-data",
    "SentEval's data/downstream folder.",
    kind=Path,
    required=True,
    metavar="SENTEVAL_DIR",
)


def inputs(function: Any) -> Any:
    """Options of the encoder and of all data."""
    return model(train_file(eval_data(function)))


def group(epilog: str, **settings: Any) -> Any:
    """Return a decorator that makes a group of commands in the style of gradlab's."""
    context = {"help_option_names": ["-h", "--help"]}
    return click.group(cls=CommandGroup, epilog=epilog, context_settings=context, **settings)


def first_sentence(sweep: Path) -> str:
    """Return what a sweep's file says it is about, in its first sentence."""
    about = str(tomllib.loads(sweep.read_text(encoding="utf-8"))["about"])
    return re.split(r"(?<! al)\. ", " ".join(about.split()))[0].rstrip(".")
