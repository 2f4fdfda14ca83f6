"""Configuration of a training run: the same typed, checked settings in Python, JSON and the shell.

`TrainConfig` combines the groups of `gradlab.train.settings`, and checks what belongs
together.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from gradlab.errors import GradlabError, listed
from gradlab.files import read_object
from gradlab.settings import check_names, declarations
from gradlab.settings.objects import named_files, source_files
from gradlab.train.former_names import with_present_names
from gradlab.train.settings import (
    DataSettings,
    LossSettings,
    ModelSettings,
    OptimiserSettings,
    RunSettings,
)

# Settings that may differ when a run is resumed: paths, and settings that do not change the
# weights. A training file is compared by the hash of its content instead of its name.
RESUMABLE_CHANGES = frozenset(
    {"output", "train_file", "eval_data", "keep", "trackers", "device", "threads"}
)


# What the required settings name.
_KINDS_OF_PLACE = {
    "model": "folder or hub name", "train_file": "file of sentences", "output": "folder",
}  # fmt: skip
# Settings that cannot do without another one.
_REQUIRED = {
    "queue_ages": "queue_size",
    "keys_gradient": "momentum",
}
# Pairs of settings that exclude each other, and why.
_EXCLUSIVE = (
    ("augment", "positive_column", "both make the second view"),
    ("negative_columns", "momentum", "a momentum branch embeds no hard negatives"),
    ("label_column", "queue_size", "sentences in a queue have no labels"),
    ("guide", "queue_size", "a guide does not know the sentences of a queue"),
    ("teacher", "queue_size", "a teacher does not know the sentences of a queue"),
    ("fgsm", "chunk_size", "fgsm needs the whole batch's activations"),
    ("fgsm", "chunk_memory", "fgsm needs the whole batch's activations"),
    ("chunk_size", "chunk_memory", "both set the size of a chunk"),
)


# Fields come in the reverse order of the bases.
@dataclass(frozen=True, kw_only=True)
class TrainConfig(RunSettings, OptimiserSettings, LossSettings, DataSettings, ModelSettings):
    """All settings of a training run, the same as the options of ``gradlab train``.

    :meth:`from_dict` applies a recipe, because it knows which settings were given.

    Raises:
        GradlabError: a value has the wrong type or is out of range, settings contradict each other,
            or a loss, hyper-parameter or augmentation does not exist.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("model", "train_file", "output"):
            if not getattr(self, name).strip():
                raise GradlabError(f"{name} is empty; give a {_KINDS_OF_PLACE[name]}")
        if self.recipe is not None and self.backbone is None:
            raise GradlabError(
                f"the recipe {self.recipe!r} is not applied here; give it to TrainConfig.from_dict"
            )
        for name, needed in _REQUIRED.items():
            if self._changed(name) and not self._changed(needed):
                raise GradlabError(f"{name} needs {needed}; give that too, or leave {name} out")
        for name, excluded, why in _EXCLUSIVE:
            if self._changed(name) and self._changed(excluded):
                raise GradlabError(f"{why}; leave {name} or {excluded} out")
        if self.queue_initial > self.queue_size:
            raise GradlabError(f"queue_initial is larger than queue_size, {self.queue_size}")
        if self.momentum_use == "queue" and self.momentum is not None:
            if not self.queue_size:
                raise GradlabError("momentum_use is 'queue', but there is none; give queue_size")
            if self.keys_gradient:
                raise GradlabError("keys_gradient needs momentum_use positives")
        if self.negative_columns is not None and not self.negatives:
            raise GradlabError(f"negative_columns names no column: {self.negative_columns!r}")
        if twice := [column for column in self.columns if self.columns.count(column) > 1]:
            raise GradlabError(f"the column {twice[0]!r} is named twice; name different ones")
        if self.augment is not None:
            # Imported here, because most runs need none.
            from gradlab.train.augment import get_augmentation

            get_augmentation(self.augment)
        self._check_loss()

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of first views, second views and hard negatives, if named."""
        return tuple(filter(None, (self.column, self.positive_column, *self.negatives)))

    @property
    def heads(self) -> bool:
        """True if a head stands between the encoder and the loss."""
        return self.pooler == "cls_mlp" or self.projection_layers + self.predictor_layers > 0

    @property
    def code(self) -> dict[str, list[Path]]:
        """Files of user code that settings name or, for a registered loss, that register losses."""
        from gradlab.losses.registry import get_loss, own_files

        loss = get_loss(self.loss, **self.loss_settings)
        files = named_files(self.loss) + named_files(str(self.loss_settings))
        if any(not type(nested).__module__.startswith("gradlab.") for nested in loss.within):
            files += [file for name in own_files() for file in source_files(name)]
        by_setting = {"loss": files, "augment": named_files(self.augment or "")}
        return {name: list(dict.fromkeys(files)) for name, files in by_setting.items() if files}

    @cached_property
    def chunked(self) -> bool:
        """Whether sequences are encoded in chunks, with a gradient cache."""
        return self.chunk_size is not None or self.chunk_memory is not None

    @property
    def without_effect(self) -> list[str]:
        """Messages about changed settings that do nothing without another; none with a recipe."""
        if self.recipe is not None:
            return []
        declared = declarations(type(self))
        reasons = {  # because of another setting's value
            "pooler_activation": ("without pooler cls_mlp", self.pooler != "cls_mlp"),
            "predictor_width": ("with predictor_layers 1", self.predictor_layers == 1),
            "momentum_end": (
                "with momentum_schedule constant",
                self.momentum_schedule == "constant",
            ),
            "epochs": ("beside max_steps", self.max_steps is not None),
            "length_groups": ("with chunks", self.chunked),
        } | {
            name: (f"without {declaration.needs}", True)
            for name, declaration in declared.items()
            if declaration.needs and self._is_off(declaration.needs)
        }
        return [
            f"{name} has no effect {why}"
            for name, (why, idle) in reasons.items()
            if idle and self._changed(name)
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready dictionary; :meth:`from_dict` is the inverse."""
        content: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(self)))
        return content

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """Return the configuration of a dictionary such as :meth:`to_dict` returns.

        With a "recipe", settings not given come from the recipe; see `gradlab.train.recipes`.

        Raises:
            GradlabError: a setting is unknown, missing or of a wrong type, or the recipe unknown.
        """
        content = with_present_names(content)
        check_names(cls, content)
        declared = declarations(cls)
        content = {name: declared[name].check(entry) for name, entry in content.items()}
        if missing := [name for name in ("model", "train_file", "output") if name not in content]:
            raise GradlabError(
                f"the configuration lacks {listed(missing)}; gradlab train --help has examples"
            )
        if content.get("recipe") is not None:
            from gradlab.train.recipes import complete

            content = complete(content)
        return cls(**content)

    @classmethod
    def of_run(cls, content: Mapping[str, Any]) -> Self:
        """As :meth:`from_dict`, for a recorded run whose loss or augmentation may be unknown."""
        unchecked: dict[str, Any] = {"loss": "infonce", "loss_settings": {}}
        unchecked |= dict.fromkeys(("guide", "teacher", "augment", "label_column", "score_column"))
        config = cls.from_dict({**content, **unchecked})
        for name in unchecked:
            object.__setattr__(config, name, content.get(name, getattr(config, name)))
        return config

    @classmethod
    def from_json(cls, path: str | Path) -> Self:
        """Read a JSON file; GradlabError if absent, not a JSON object, or with invalid settings."""
        return cls.from_dict(read_object(path, "the configuration "))

    def differences(self, config: TrainConfig) -> list[str]:
        """Return the settings in which ``config`` differs, as "name: own value, not its value".

        :data:`RESUMABLE_CHANGES` do not count, nor does the precision if it is "auto" in
        ``config``.
        """
        free = RESUMABLE_CHANGES | ({"precision"} if config.precision == "auto" else set())
        return [
            f"{name}: {getattr(self, name)!r}, not {getattr(config, name)!r}"
            for name in declarations(type(self))
            if name not in free and getattr(self, name) != getattr(config, name)
        ]

    def _check_loss(self) -> None:
        """Raise GradlabError if the loss does not exist, or does not go with the other settings."""
        from gradlab.losses.batch_loss import BatchLoss
        from gradlab.losses.registry import get_loss, taught_names
        from gradlab.losses.symmetric import Symmetric

        loss = get_loss(self.loss, **self.loss_settings)
        if not self.in_batch_negatives:
            whole = [base.name for base in loss.bases if isinstance(base, BatchLoss)]
            if whole or loss.has(Symmetric):
                raise GradlabError(
                    f"{[*whole, 'symmetric'][0]} compares the batch; leave in_batch_negatives on"
                )
        if self.negatives and self.hard_negatives == "own" and "own_negatives" not in loss.looks_at:
            raise GradlabError(f"{loss.name} compares whole views; give hard_negatives shared")
        for name, argument, users in (
            ("guide", "guide", "one with mask(by=guide)"),
            ("teacher", "teacher", " or ".join(taught_names())),
            # Labels are used by losses with candidates: those that take own negatives.
            ("label_column", "own_negatives", "supcon"),
            ("score_column", "scores", "cosent"),
        ):
            used = any(argument in nested.looks_at for nested in loss.within)
            configured, column = getattr(self, name) is not None, name.endswith("_column")
            if configured and not used:
                raise GradlabError(
                    f"{self.loss} does not look at {name.removesuffix('_column')}s; "
                    f"leave {name} out, or train {users}"
                )
            if used and not configured and not column:
                raise GradlabError(f"{self.loss} needs a {name}; give {name}, its name or folder")

    def _changed(self, name: str) -> bool:
        return bool(getattr(self, name) != declarations(type(self))[name].default)

    def _is_off(self, name: str) -> bool:
        value = getattr(self, name)
        return value is None or (not value and name != "momentum")  # 0 is a momentum, too
