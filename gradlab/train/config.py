"""Configuration of a training run: the same typed, checked settings in Python, JSON and the shell.

`TrainConfig` combines five groups of settings, each of which is a class. A function that needs only
the settings of the optimiser takes `OptimiserSettings`.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

from gradlab.encoder.pooling import POOLERS as encoder_poolers
from gradlab.errors import GradlabError, listed
from gradlab.files import read_object
from gradlab.settings import Settings, check_names, declarations, setting
from gradlab.settings.objects import named_files, source_files

# Poolers of the encoder, and SimCSE's MLP on the first token, which is not saved.
POOLERS = (*encoder_poolers, "cls_mlp")
PRECISIONS = ("auto", "float32", "bfloat16")
# More threads than any machine has cores; torch ends the process where it cannot start as many.
MOST_THREADS = 1024
# Settings that may differ when a run is resumed: paths, and settings that do not change the
# weights. A training file is compared by the hash of its content instead of its name.
RESUMABLE_CHANGES = frozenset(
    {"output", "train_file", "eval_data", "keep", "trackers", "device", "threads"}
)


def choice(text: str, *options: str, needs: str = "") -> Any:
    """Declare a setting out of ``options``, by default the first; for ``needs`` see `setting`."""
    return setting(options[0], text, choices=options, needs=needs)


@dataclass(frozen=True, kw_only=True)
class ModelSettings(Settings):
    """Settings of the encoder, the heads behind it, and the momentum branch."""

    heading: ClassVar = "Model"

    model: str = setting(
        MISSING, "Encoder to start from: a local folder or a Hugging Face hub name."
    )
    pooler: str = choice(
        f"One of {', '.join(POOLERS)}; the last is cls with an MLP in training only.", *POOLERS
    )
    dropout: float | None = setting(
        None, "Dropout of the encoder; unset: the model's own.", at_least=0, below=1
    )
    projection_layers: int = setting(
        0, "Layers of a projection behind the pooler, in both branches.", at_least=0
    )
    projection_width: int | None = setting(
        None,
        "Dimension that the loss compares in; unset: the embedding's.",
        at_least=1,
        needs="projection_layers",
    )
    predictor_layers: int = setting(
        0, "Layers of a predictor behind the projection, for the anchors alone.", at_least=0
    )
    predictor_width: int | None = setting(
        None,
        "Width of its hidden layers; unset: that of its input.",
        at_least=1,
        needs="predictor_layers",
    )
    pooler_activation: str = choice("Activation behind cls_mlp's linear layer.", "tanh", "none")
    head_initial: str = choice(
        "How linear layers of all heads begin.", "random", "identity", needs="heads"
    )
    momentum: float | None = setting(
        None, "Weight of the old average in a momentum branch; unset: none.", at_least=0, at_most=1
    )
    momentum_end: float = setting(
        1.0, "Weight of the old average at the end.", at_least=0, at_most=1, needs="momentum"
    )
    momentum_schedule: str = choice(
        "How the weight changes over the steps.", "constant", "cosine", "linear", needs="momentum"
    )
    momentum_dropout: bool = setting(
        True, "The momentum branch drops out as the trained one does.", needs="momentum"
    )
    momentum_modules: str = setting(
        "embeddings,encoder,head,projection",
        "Modules that are averaged; the branches share the others.",
        needs="momentum",
    )
    momentum_use: str = choice(
        "What the branch makes: positives, or rows of the queue.",
        "positives",
        "queue",
        needs="momentum",
    )
    keys_gradient: bool = setting(
        False, "The momentum branch passes gradient on to the modules that it shares."
    )


@dataclass(frozen=True, kw_only=True)
class DataSettings(Settings):
    """Settings of the sentences, and of how their second view is made."""

    heading: ClassVar = "Data"

    train_file: str = setting(
        MISSING,
        "Sentences, pairs or triples: text, CSV, TSV, JSON, Parquet, a saved dataset, or a folder "
        "in BEIR's layout.",
    )
    column: str | None = setting(
        None, "Column with the sentences; unset: all columns are found by their names."
    )
    positive_column: str | None = setting(
        None, "Column with their positives (answers, paraphrases, translations)."
    )
    label_column: str | None = setting(
        None, "Column with labels: sentences of the same label are positives of each other."
    )
    score_column: str | None = setting(
        None, "Column with how similar the two sentences of a row are, for cosent."
    )
    encoding: str = setting("utf-8", "Encoding of a text, JSON or CSV file.")
    positives_per_row: str = choice(
        "Of a list of positives: the first, or a row for each of them.", "first", "all"
    )
    negatives_per_row: int | None = setting(
        None, "Hard negatives taken from each row; unset: all.", at_least=1
    )
    faulty_rows: str = choice(
        "Rows such as 'nan' or without a text: refuse the file above a share of them, skip the "
        "rows, or keep what has a text.",
        "refuse",
        "skip",
        "keep",
    )
    max_length: int = setting(32, "Tokens of a sentence, special ones included.", at_least=3)
    held_out: float = setting(
        0.0, "Share of the sentences kept out of training, for analysis.", at_least=0, below=1
    )
    augment: str | None = setting(
        None, "Augmentation of the second view, such as subword_repetition(rate=0.32)."
    )
    augment_views: str = choice(
        "Views that the augmentation makes.", "second", "both", needs="augment"
    )
    fgsm: float = setting(0.0, "Step of FGSM on the looked-up embeddings; 0 for none.", at_least=0)
    fgsm_gradient: str = choice(
        "Gradient of FGSM: of this step or the previous one.", "step", "previous", needs="fgsm"
    )


@dataclass(frozen=True, kw_only=True)
class LossSettings(Settings):
    """Settings of the loss, and of the negatives beside those of the batch."""

    heading: ClassVar = "Loss"

    loss: str = setting("infonce", "A loss of `gradlab losses`.")
    loss_settings: dict[str, Any] = setting(
        factory=dict, text="Its hyper-parameters; those left out keep their published values."
    )
    in_batch_negatives: bool = setting(True, "The other sentences of the batch are negatives.")
    negative_columns: str | None = setting(
        None, "Columns of hard negatives, joined by +; unset: found by their names."
    )
    hard_negatives: str = choice(
        "Which anchors they push: own, that of their row alone; shared, every anchor.",
        "own",
        "shared",
    )
    queue_size: int = setting(0, "Negatives from earlier steps; 0 for no queue.", at_least=0)
    queue_initial: int = setting(0, "Random vectors that the queue begins with.", at_least=0)
    queue_ages: str | None = setting(
        None, "Positions of the queue, newest first, such as 0:256,768:1024."
    )
    guide: str | None = setting(
        None, "Frozen model by whose cosines mask(by=guide) finds likely false negatives."
    )
    teacher: str | None = setting(
        None, "Frozen model that kl, margin_mse and embedding_distillation learn from."
    )

    @property
    def negatives(self) -> tuple[str, ...]:
        """Names of the columns of hard negatives."""
        return tuple(
            name.strip() for name in (self.negative_columns or "").split("+") if name.strip()
        )


@dataclass(frozen=True, kw_only=True)
class OptimiserSettings(Settings):
    """Settings of batches, steps and learning rate."""

    heading: ClassVar = "Optimiser"

    batch_size: int = setting(
        64, "Sentences that meet in one loss, all processes together.", at_least=2
    )
    accumulation: int = setting(1, "Batches whose gradients are averaged for one step.", at_least=1)
    epochs: int = setting(
        1, "Passes over the sentences, unless max_steps says otherwise.", at_least=1
    )
    max_steps: int | None = setting(
        None, "Optimiser steps; unset: as many as the epochs have.", at_least=1
    )
    learning_rate: float = setting(3e-5, "Peak learning rate of AdamW.", at_least=0)
    head_rate: float = setting(
        1.0, "Factor on the learning rate of the heads.", at_least=0, needs="heads"
    )
    weight_decay: float = setting(
        0.0, "Decoupled weight decay, also in steps without a gradient.", at_least=0
    )
    schedule: str = choice(
        "Decay of the learning rate to 0, or none (constant).", "linear", "constant", "cosine"
    )
    warmup_steps: int = setting(0, "Steps of linear warm-up.", at_least=0)
    clip: float = setting(1.0, "Largest norm of the gradient; 0 for no clipping.", at_least=0)


@dataclass(frozen=True, kw_only=True)
class RunSettings(Settings):
    """Settings of the run folder, the hardware, the evaluation and the records."""

    heading: ClassVar = "Run"

    output: str = setting(
        MISSING, "Run folder: manifest, metrics, checkpoints, best and final encoder."
    )
    recipe: str | None = setting(
        None, "Published settings for what is not given: unified, simcse, esimcse or mocose."
    )
    backbone: str | None = setting(
        None, "Backbone of the recipe, such as bert-base; unset: the model's.", needs="recipe"
    )
    seed: int = setting(42, "Seed of order, dropout, held-out share and new layers.", at_least=0)
    device: str = setting("auto", "auto (CUDA if there is one), cpu, cuda or cuda:N.")
    precision: str = choice(
        "bfloat16 (autocast; weights stay float32), float32, or auto: bfloat16 where the device "
        "computes it natively.",
        *PRECISIONS,
    )
    threads: int | None = setting(
        None,
        "Threads on a CPU; unset: OMP_NUM_THREADS, else those that are free.",
        at_least=1,
        at_most=MOST_THREADS,
    )
    chunk_size: int | None = setting(
        None,
        "Sequences encoded at a time, without the activations of the others (gradient cache): "
        "memory for batches of any size, at about 4/3 of the time. Unset: all at once.",
        at_least=1,
    )
    chunk_memory: float | None = setting(
        None,
        "GiB of activations that a chunk keeps, in place of chunk_size: chunks of as many tokens "
        "as fit, which keep a GPU busier than small chunks do.",
        above=0,
    )
    length_groups: int | None = setting(
        None, "Groups by length in a batch, for speed; unset: 2 on a CPU, else 1.", at_least=1
    )
    compile: bool = setting(False, "Compile the encoder with torch.compile.")
    eval_data: str | None = setting(
        None,
        "SentEval's data/downstream, or a retrieval task in BEIR's layout: keep the encoder that "
        "is best on its dev set.",
    )
    eval_every: int = setting(125, "Steps between evaluations.", at_least=1, needs="eval_data")
    eval_start: bool = setting(True, "Evaluate before the first step too.", needs="eval_data")
    save_every: int = setting(125, "Steps between checkpoints.", at_least=1)
    keep: int = setting(2, "Newest checkpoints kept.", at_least=1)
    log_every: int = setting(5, "Steps between records of loss and throughput.", at_least=1)
    diagnostics_every: int = setting(25, "Steps between diagnostics; 0 for none.", at_least=0)
    analysis_batch: int = setting(
        128, "Sentences of a batch of the held-out share.", at_least=2, needs="held_out"
    )
    analysis_batches: int = setting(
        1, "Held-out batches that the diagnostics average over.", at_least=1, needs="held_out"
    )
    trackers: tuple[str, ...] = setting(
        (), "tensorboard or wandb: log there too; repeatable.", choices=("tensorboard", "wandb")
    )


# What the required settings name.
_KINDS_OF_PLACE = {
    "model": "folder or hub name", "train_file": "file of sentences", "output": "folder",
}  # fmt: skip
# Settings of earlier versions that no run has now, and their value where they were off.
_RETIRED = {"open_shares": None, "open_shares_use": "random"}
# Settings of earlier versions by the name that they have now.
RENAMED = {
    "second_column": "positive_column",
    "positives": "positives_per_row",
    "sts": "eval_data",
}
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

    @property
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
        content = _without_retired(content)
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


def _without_retired(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings without those of earlier versions; GradlabError if one was in use."""
    for name, off in _RETIRED.items():
        if content.get(name, off) != off:
            raise GradlabError(
                f"the setting {name} no longer exists; runs that used it are continued by gradlab "
                "at the commit in their manifest"
            )
    return {
        RENAMED.get(name, name): entry for name, entry in content.items() if name not in _RETIRED
    }
