"""The one configuration of a training run: typed, checked, and the same in Python, JSON and the shell."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import Any, Self

from gradlab.errors import GradlabError, reason
from gradlab.settings import Settings, check_names, declarations, setting
from gradlab.train.heads import ACTIVATIONS, INITIAL
from gradlab.train.open_share import USES as OPEN_SHARE_USES

POOLERS = ("cls", "cls_mlp", "mean", "first_last")
PRECISIONS = ("auto", "float32", "bfloat16")
SCHEDULES = ("linear", "constant", "cosine")
TRACKERS = ("tensorboard", "wandb")
MOMENTUM_USES = ("positives", "queue")
MOMENTUM_SCHEDULES = ("constant", "cosine", "linear")
FGSM_GRADIENTS = ("step", "previous")
AUGMENT_VIEWS = ("second", "both")
# What may differ when a run is resumed: places, and what is written beside the weights. The file's content is
# checked by its hash instead of its name.
RESUMABLE_CHANGES = frozenset({"output", "train_file", "sts", "keep", "trackers", "device", "threads"})


@dataclass(frozen=True)
class TrainConfig(Settings):
    """Everything that determines a training run; ``gradlab train --help`` lists the same settings.

    A recipe is applied by :meth:`from_dict`, which knows what was given and what was not.

    Raises:
        GradlabError: if a value has the wrong type or is out of range, or there is no such loss or hyper-parameter.
    """

    model: str = setting(MISSING, "Encoder to start from: a local folder or a Hugging Face hub name.",
                         heading="What to train")  # fmt: skip
    train_file: str = setting(
        MISSING, "Sentences: text, JSON lines, CSV, TSV or Parquet; .gz, .xz and .bz2 too."
    )
    output: str = setting(MISSING, "Run folder: manifest, metrics, checkpoints, best and final encoder.")

    recipe: str | None = setting(None, "Published settings for all that is not given: unified, simcse, esimcse or mocose.",
                                 heading="Recipe and loss")  # fmt: skip
    backbone: str | None = setting(
        None, "The recipe's: bert-base, bert-large, roberta-base or roberta-large; unset asks the model."
    )
    loss: str = setting("infonce", "A loss of `gradlab losses`.")
    loss_settings: dict[str, Any] = setting(
        factory=dict, text="Its hyper-parameters; those left out keep their published values."
    )

    open_shares: str | None = setting(
        None, "CSV (seed, step, share) of the anchors that count in each step: those open in another run."
    )
    open_shares_use: str = setting(
        "random",
        "What is made of it: a random gate that opens as many, or all anchors at that scale.",
        choices=OPEN_SHARE_USES,
    )
    guide: str | None = setting(
        None,
        "Model, frozen, whose cosines tell a loss with mask(by=guide) which negatives are likely to be false.",
    )

    column: str | None = setting(
        None, "Column with the sentences (JSON lines, CSV, TSV, Parquet).", heading="Sentences"
    )
    encoding: str = setting("utf-8", "Encoding of a text, JSON or CSV file.")
    max_length: int = setting(
        32, "Tokens that a training sentence is cut to, special tokens included.", at_least=3
    )
    held_out: float = setting(0.0, "Share of the sentences kept from training for analysis, drawn by seed.",
                              at_least=0, below=1)  # fmt: skip

    pooler: str = setting("cls", "cls, cls_mlp (its MLP in training only), mean or first_last.", choices=POOLERS,
                          heading="Encoder and heads")  # fmt: skip
    dropout: float | None = setting(None, "Dropout of the encoder; unset keeps the model's own.",
                                    at_least=0, below=1)  # fmt: skip
    projection_layers: int = setting(
        0, "Layers of a projection behind the pooler, in both branches.", at_least=0
    )
    projection_width: int | None = setting(
        None, "Width of its layers, and of what the loss compares; unset is the embedding's.", at_least=1
    )
    predictor_layers: int = setting(
        0, "Layers of a predictor behind the projection, on the anchors alone.", at_least=0
    )
    predictor_width: int | None = setting(
        None, "Width of its hidden layers; unset is that of what it takes.", at_least=1
    )

    pooler_activation: str = setting(
        "tanh", "Behind the linear layer of cls_mlp: tanh, or none.", choices=ACTIVATIONS
    )
    head_initial: str = setting(
        "random",
        "How the linear layers of cls_mlp, projection and predictor begin: random, or identity.",
        choices=INITIAL,
    )
    head_rate: float = setting(1.0, "Factor on the learning rate of these heads.", at_least=0)

    augment: str | None = setting(None, "Augmentation that makes the second view, such as subword_repetition(rate=0.32).",
                                  heading="Second view")  # fmt: skip
    augment_views: str = setting("second", "Views that it makes: second or both.", choices=AUGMENT_VIEWS)
    second_column: str | None = setting(
        None, "Column with the second views (paraphrases, translations), beside --column."
    )
    fgsm: float = setting(0.0, "Step of FGSM on the looked-up embeddings; 0 for none.", at_least=0)
    fgsm_gradient: str = setting("step", "Gradient of FGSM: of this step, or the one of the previous step.",
                                 choices=FGSM_GRADIENTS)  # fmt: skip

    queue_size: int = setting(0, "Negatives from earlier steps; 0 for no queue.", at_least=0,
                              heading="Queue and momentum branch")  # fmt: skip
    queue_initial: int = setting(0, "Random vectors that the queue begins with.", at_least=0)
    queue_ages: str | None = setting(
        None, "Positions of the queue that are used, newest first, such as 0:256,768:1024."
    )
    in_batch_negatives: bool = setting(True, "The other sentences of the batch are negatives.")
    momentum: float | None = setting(None, "Weight of the old average in a momentum branch; unset for no such branch.",
                                     at_least=0, at_most=1)  # fmt: skip
    momentum_end: float = setting(
        1.0, "That weight in the last step, unless it is constant.", at_least=0, at_most=1
    )
    momentum_schedule: str = setting("constant", "How it gets there: constant (not at all), cosine or linear.",
                                     choices=MOMENTUM_SCHEDULES)  # fmt: skip
    momentum_dropout: bool = setting(True, "The momentum branch drops out as the trained one does.")
    momentum_modules: str = setting(
        "embeddings,encoder,head,projection",
        "What is averaged; the others are shared with the trained branch.",
    )
    momentum_use: str = setting("positives", "What the momentum branch makes: positives, or rows of the queue alone.",
                                choices=MOMENTUM_USES)  # fmt: skip
    keys_gradient: bool = setting(
        False, "Gradient flows through the momentum branch into the modules that it shares."
    )

    batch_size: int = setting(64, "Sentences that meet in one loss, all processes together.", at_least=2,
                              heading="Optimisation")  # fmt: skip
    chunk_size: int | None = setting(
        None,
        "Sequences that are encoded at a time, without keeping the activations of the others (gradient cache): memory "
        "for batches of any size, at about 4/3 of the time. Unset: all at once.",
        at_least=1,
    )
    accumulation: int = setting(1, "Batches whose gradients are averaged for one step.", at_least=1)
    epochs: int = setting(1, "Passes over the sentences, unless max_steps says otherwise.", at_least=1)
    max_steps: int | None = setting(None, "Optimiser steps; unset takes all of the epochs.", at_least=1)
    learning_rate: float = setting(3e-5, "Peak learning rate of AdamW.", at_least=0)
    weight_decay: float = setting(0.0, "Decoupled weight decay.", at_least=0)
    schedule: str = setting("linear", "Decay of the learning rate to 0: linear, cosine or constant (none).",
                            choices=SCHEDULES)  # fmt: skip
    warmup_steps: int = setting(0, "Steps of linear warm-up.", at_least=0)
    clip: float = setting(1.0, "Largest norm of the gradient; 0 for no clipping.", at_least=0)

    seed: int = setting(42, "Seed of order, dropout, held-out share and new layers.", at_least=0,
                        heading="Computing")  # fmt: skip
    device: str = setting("auto", "auto (CUDA if there is one), cpu, cuda or cuda:N.")
    precision: str = setting(
        "auto",
        "bfloat16 (autocast; weights stay float32), float32, or auto: bfloat16 where the device computes it natively.",
        choices=PRECISIONS,
    )
    threads: int | None = setting(
        None,
        "Threads on a CPU; unset: OMP_NUM_THREADS, else as many as other programs leave cores free.",
        at_least=1,
    )
    compile: bool = setting(False, "Compile the encoder with torch.compile.")
    length_groups: int | None = setting(None, "Groups by length that a batch is encoded in to save padding; changes "
                                        "speed alone. Unset: 2 on a CPU, 1 elsewhere.", at_least=1)  # fmt: skip

    sts: str | None = setting(None, "SentEval's data/downstream folder, or a retrieval task in BEIR's layout: evaluate on its dev "
                              "set, keep the best.",
                              heading="Evaluation and records")  # fmt: skip
    eval_every: int = setting(125, "Steps between evaluations.", at_least=1)
    eval_start: bool = setting(True, "Evaluate before the first step too.")
    save_every: int = setting(125, "Steps between checkpoints.", at_least=1)
    keep: int = setting(2, "Newest checkpoints kept.", at_least=1)
    log_every: int = setting(5, "Steps between records of loss and throughput.", at_least=1)
    diagnostics_every: int = setting(25, "Steps between diagnostics; 0 for none.", at_least=0)
    analysis_batch: int = setting(
        128, "Sentences that meet in the diagnostics on the held-out share.", at_least=2
    )
    analysis_batches: int = setting(
        1, "Batches of held-out sentences that the diagnostics average over.", at_least=1
    )
    trackers: tuple[str, ...] = setting((), "tensorboard, wandb: log there too.")

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in self.trackers:
            if name not in TRACKERS:
                raise GradlabError(f"unknown tracker {name!r}; there are {', '.join(TRACKERS)}")
        self._check_parts()
        from gradlab.losses.mask import is_guided  # here, as help and plans need no loss
        from gradlab.losses.registry import get_loss

        guided = is_guided(get_loss(self.loss, **self.loss_settings))
        if guided and self.guide is None:
            raise GradlabError(
                "mask(by=guide) goes by the cosines of another model; give guide, its name or folder"
            )
        if self.guide is not None and not guided:
            raise GradlabError(f"guide is for a loss with mask(by=guide), which {self.loss} has not")
        if guided and self.queue_size:
            raise GradlabError(
                "a guide knows no embeddings of a queue's sentences; leave queue_size or guide out"
            )

    def _check_parts(self) -> None:
        """Raise GradlabError for settings that contradict each other."""
        if self.queue_initial > self.queue_size:
            raise GradlabError(
                f"queue_initial is {self.queue_initial}, more than the {self.queue_size} of queue_size"
            )
        if self.queue_ages is not None and not self.queue_size:
            raise GradlabError("queue_ages selects from a queue; give queue_size too")
        if not self.in_batch_negatives and not self.queue_size:
            raise GradlabError(
                "without in_batch_negatives the negatives come from a queue; give queue_size too"
            )
        if self.momentum is not None and self.momentum_use == "queue" and not self.queue_size:
            raise GradlabError("momentum_use is 'queue', but there is none; give queue_size too")
        if self.keys_gradient and (self.momentum is None or self.momentum_use != "positives"):
            raise GradlabError(
                "keys_gradient is of positives that a momentum branch makes; give momentum, and momentum_use positives"
            )
        if self.chunk_size is not None and self.fgsm:
            raise GradlabError(
                "fgsm needs the whole batch's activations; leave chunk_size out, or train without fgsm"
            )
        if self.second_column is not None and self.column is None:
            raise GradlabError("second_column needs column, the name of the first one")
        if self.second_column is not None and self.augment is not None:
            raise GradlabError("augment and second_column both make the second view; give one of them")

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready dictionary; :meth:`from_dict` is its inverse."""
        content: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(self)))
        return content

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """Build a configuration from a dictionary such as :meth:`to_dict` makes.

        With a "recipe", what is not given is the recipe's; see `gradlab.train.recipes`.

        Raises:
            GradlabError: for unknown, missing or ill-typed settings, or an unknown recipe.
        """
        check_names(cls, content)
        known = declarations(cls)
        content = {name: known[name].check(value) for name, value in content.items()}
        for name in ("model", "train_file", "output"):
            if name not in content:
                raise GradlabError(f"the configuration lacks {name!r}")
        if content.get("recipe") is not None:
            from gradlab.train.recipes import complete

            content = complete(content)
        return cls(**content)

    @classmethod
    def of_run(cls, content: Mapping[str, Any]) -> Self:
        """The configuration that a run recorded. Its loss need not be known here: it may be one of the user's.

        Raises:
            GradlabError: as :meth:`from_dict`, but for the loss.
        """
        config = cls.from_dict({**content, "loss": "infonce", "loss_settings": {}, "guide": None})
        for name in ("loss", "loss_settings", "guide"):
            object.__setattr__(config, name, content.get(name, getattr(config, name)))
        return config

    @classmethod
    def from_json(cls, path: str | Path) -> Self:
        """Read a configuration from a JSON file.

        Raises:
            GradlabError: if the file is absent, no JSON object, or holds bad settings.
        """
        return cls.from_dict(read_settings(path))

    def differences(self, other: TrainConfig) -> list[str]:
        """Settings, beside :data:`RESUMABLE_CHANGES`, in which ``other`` differs: "name: mine, not theirs".

        A precision that ``other`` leaves to the machine is none.
        """
        free = RESUMABLE_CHANGES | ({"precision"} if other.precision == "auto" else set())
        return [
            f"{item.name}: {getattr(self, item.name)!r}, not {getattr(other, item.name)!r}"
            for item in dataclasses.fields(self)
            if item.name not in free and getattr(self, item.name) != getattr(other, item.name)
        ]


def read_settings(path: str | Path) -> dict[str, Any]:
    """The JSON object in a file.

    Raises:
        GradlabError: if the file is absent, or holds no JSON object.
    """
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise GradlabError(f"cannot read the configuration {str(path)!r}: {reason(error)}") from error
    if not isinstance(content, dict):
        raise GradlabError(f"{str(path)!r} is no JSON object of settings")
    return content
