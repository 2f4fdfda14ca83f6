"""Losses of published embedding models, read from a data file and named ``model:NAME/STAGE``."""

from __future__ import annotations

import dataclasses
import functools
import string
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gradlab.errors import GradlabError, check_known
from gradlab.losses.base import Loss
from gradlab.losses.registry import get_loss
from gradlab.settings import parse_call

PREFIX = "model:"


@dataclasses.dataclass(frozen=True)
class PublishedModel:
    """A training stage of a published model, ``model:NAME/STAGE``; ``model:NAME`` is the first."""

    name: str
    stage: str
    title: str
    year: int
    negatives: str  # in the publication's words, like batch and remarks
    batch: str
    source: str  # code or text that the row was read from
    # A: code or the paper's text, B: a secondary text, C: an abstract or model card
    confidence: str
    # "shared" if they push every anchor, "own" if only their own row, "both" if terms differ
    hard_negatives: str = ""
    remarks: str = ""
    loss: str = ""  # unpublished settings are names in braces; empty if gradlab has no such loss
    refused: str = ""  # why gradlab has no such loss

    @property
    def key(self) -> str:
        """The name ``NAME/STAGE``."""
        return f"{self.name}/{self.stage}"

    @property
    def expression(self) -> str:
        """The loss as text, or the reason why there is none."""
        return self.loss or f"none: {self.refused}"

    @property
    def unpublished(self) -> tuple[str, ...]:
        """Names of the settings that were not published."""
        names = [name for _, name, _, _ in string.Formatter().parse(self.loss) if name]
        return tuple(dict.fromkeys(names))

    def make(self, settings: Mapping[str, Any]) -> Loss:
        """Create the loss, given values for all `unpublished` settings.

        Raises:
            GradlabError: gradlab has no such loss, or settings are missing or unknown.
        """
        if self.refused:
            raise GradlabError(f"{self.title} has no loss here: {self.refused}")
        if unknown := [name for name in settings if name not in self.unpublished]:
            settings_names = ", ".join(self.unpublished) or "none"
            raise GradlabError(
                f"{PREFIX}{self.key} has no setting {unknown[0]!r}; it takes {settings_names}"
            )
        if missing := [name for name in self.unpublished if name not in settings]:
            assignments = ", ".join(f"{name}=NUMBER" for name in missing)
            raise GradlabError(
                f"nobody published the {' and the '.join(missing).replace('_', ' ')} of "
                f"{self.title}; say {PREFIX}{self.key}({assignments})"
            )
        return get_loss(self.loss.format(**settings))


@functools.cache
def published_models() -> tuple[PublishedModel, ...]:
    """Return all rows of the data file; the stages of a model are adjacent."""
    text = Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
    return tuple(PublishedModel(**row) for row in tomllib.loads(text)["model"])


def find_model(name: str) -> PublishedModel:
    """Return the row of a name such as ``"nv-embed/second"``; raise `GradlabError` if unknown."""
    key = name.removeprefix(PREFIX)
    for row in published_models():
        if key in (row.key, row.name):
            return row
    model, _, stage = key.partition("/")
    check_known("model", model, dict.fromkeys(row.name for row in published_models()))
    stages = [row.stage for row in published_models() if row.name == model]
    raise GradlabError(f"{model} has no stage {stage!r}; there are: {', '.join(stages)}")


def model_loss(text: str, settings: Mapping[str, Any]) -> Loss:
    """Create the loss of ``"model:gecko(temperature=0.05)"``; ``settings`` override the text's."""
    name, own = parse_call(text)
    return find_model(name).make({**own, **settings})
