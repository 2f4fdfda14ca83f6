"""Settings of a training run in five groups: model, data, loss, optimiser and run.

A function that needs only the settings of the optimiser takes `OptimiserSettings`.
"""

from __future__ import annotations

from dataclasses import MISSING, dataclass
from typing import Any, ClassVar

from gradlab.encoder.pooling import POOLERS as encoder_poolers
from gradlab.settings import Settings, setting

# Poolers of the encoder, and SimCSE's MLP on the first token, which is not saved.
POOLERS = (*encoder_poolers, "cls_mlp")
PRECISIONS = ("auto", "float32", "bfloat16")
# More threads than any machine has cores; torch ends the process where it cannot start as many.
MOST_THREADS = 1024


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
