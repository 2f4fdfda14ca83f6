"""Settings of optimiser, schedule, batches and precision under which little is learned."""

from __future__ import annotations

from typing import Any

import torch
from torch.optim.lr_scheduler import LambdaLR

from tests.judgement.case import faulty
from tests.judgement.first.fault_subjects import (
    BANK,
    COLLAPSED,
    FLATS,
    JOBS,
    MATCHES,
    MUSEUM,
    NO_NEGATIVES,
    REVIEWS,
    SWIFT,
    UNMOVED,
    reader,
    sought_of,
    wordings,
)
from tests.judgement.first.fields import CODE, TRAVEL
from tests.judgement.first.good_fields import LOGS, SONGS
from tests.judgement.first.loop_materials import RATE, ranking
from tests.judgement.stage import Stage
from tests.judgement.truth import suffers

FEW_STEPS = (
    r"(?i)(few|only|one|two|single|\b[12]\b).{0,30}(optimi[sz]er |training )?(steps?|updates?)",
    r"(?i)accumulat",
)


@faulty(
    "warmup longer than the training",
    "The warmup of 1000 steps was kept for a run of 40: the learning rate never leaves its "
    "beginning.",
    [r"(?i)warm-?up", r"(?i)learning rate.{0,80}(never|low|small|reach|peak)", *UNMOVED],
)
def warmup_beyond_the_last_step(stage: Stage) -> None:
    """`warmup_steps=1000` from a paper, on little data."""
    table = FLATS.table(160)
    suffers(
        stage,
        stage.trainer(ranking, table, reader(stage, FLATS), warmup_steps=1000, **SWIFT),
        lambda: stage.trainer(ranking, table, reader(stage, FLATS), warmup_steps=4, **SWIFT),
        sought_of(FLATS),
    )


@faulty(
    "rate of a transformer for static vectors",
    "A table of static word vectors is trained at 2e-5, the rate of a transformer.",
    [rf"(?i){RATE}", *UNMOVED],
)
def transformer_rate_for_static_vectors(stage: Stage) -> None:
    """StaticEmbedding needs a rate of 0.01 and above."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding

    from tests.judgement.first.bodies import tokenizer_of

    def static() -> Any:
        torch.manual_seed(7)
        tokenizer = tokenizer_of(wordings(SONGS)).backend_tokenizer
        return SentenceTransformer(
            modules=[StaticEmbedding(tokenizer, embedding_dim=64)], device="cpu"
        )

    table = SONGS.table(200)
    suffers(
        stage,
        stage.trainer(ranking, table, static(), learning_rate=2e-5),
        lambda: stage.trainer(ranking, table, static(), learning_rate=5e-2),
        sought_of(SONGS),
    )


@faulty(
    "learning rate a thousand times too high",
    "A learning rate of 0.5 with AdamW, copied from plain gradient descent: the weights are torn "
    "apart and the texts are no longer told apart.",
    [
        rf"(?i){RATE}",
        r"(?i)diverg|explod|unstable|blow|blew|too (large|high|fast)|jump|overshoot",
        *COLLAPSED,
    ],
)
def descent_rate_for_adamw(stage: Stage) -> None:
    """`learning_rate=0.5`."""
    table = BANK.table(160)
    suffers(
        stage,
        stage.trainer(ranking, table, reader(stage, BANK), learning_rate=0.5),
        lambda: stage.trainer(ranking, table, reader(stage, BANK), **SWIFT),
        sought_of(BANK),
    )


@faulty(
    "rate of AdamW for plain descent",
    "Plain SGD without momentum at 5e-5, the rate meant for AdamW: the weights hardly move.",
    [rf"(?i){RATE}", r"(?i)\bsgd\b|optimi[sz]er", *UNMOVED],
)
def adamw_rate_for_plain_descent(stage: Stage) -> None:
    """`optim="sgd"` to save memory, and nothing else changed."""
    table = LOGS.table(160)
    suffers(
        stage,
        stage.trainer(ranking, table, reader(stage, LOGS), optim="sgd", learning_rate=5e-5),
        lambda: stage.trainer(
            ranking, table, reader(stage, LOGS), optim="adamw_torch", learning_rate=2e-3
        ),
        sought_of(LOGS),
    )


@faulty(
    "one update for the whole epoch",
    "Gradients are accumulated over twenty batches and the data hold ten: one epoch is a single "
    "update.",
    [*FEW_STEPS, *UNMOVED],
)
def accumulation_over_a_whole_epoch(stage: Stage) -> None:
    """`gradient_accumulation_steps=20` carried over from a set a thousand times as large."""
    table = JOBS.table(160)
    settings = {"max_steps": -1, "num_train_epochs": 4, "warmup_steps": 0, "learning_rate": 2e-3}
    suffers(
        stage,
        stage.trainer(
            ranking, table, reader(stage, JOBS), gradient_accumulation_steps=20, **settings
        ),
        lambda: stage.trainer(ranking, table, reader(stage, JOBS), **settings),
        sought_of(JOBS),
    )


@faulty(
    "batch of one for negatives from the batch",
    "Batches of one row, accumulated to eight: a ranking loss takes its negatives from the batch, "
    "and there are none.",
    [
        r"(?i)batch.{0,40}(size)?.{0,20}(of |is |= ?)?(1\b|one|small)",
        *NO_NEGATIVES,
        r"(?i)accumulat",
    ],
)
def single_rows_accumulated(stage: Stage) -> None:
    """Out of memory, so `per_device_train_batch_size=1, gradient_accumulation_steps=8`."""
    table = MATCHES.table(160)
    settings = {"max_steps": 25, **SWIFT}
    suffers(
        stage,
        stage.trainer(
            ranking, table, reader(stage, MATCHES), per_device_train_batch_size=1,
            gradient_accumulation_steps=8, **settings,
        ),
        lambda: stage.trainer(ranking, table, reader(stage, MATCHES), **settings),
        sought_of(MATCHES),
    )  # fmt: skip


@faulty(
    "optimiser of a model loaded before",
    "The optimiser was built over the weights of a model that was then loaded anew: it moves "
    "weights that no one uses.",
    [
        *UNMOVED,
        r"(?i)optimi[sz]er.{0,100}(other|another|different|not|none|no ).{0,40}"
        r"(weights?|parameters?|model)",
    ],
)
def optimizer_over_an_earlier_model(stage: Stage) -> None:
    """In a notebook: the cell that loads the model was run again."""
    table = MUSEUM.table(160)

    def with_optimizer_of(owner: Any, model: Any) -> Any:
        optimizer = torch.optim.AdamW(owner.parameters(), lr=1e-3)
        schedule = LambdaLR(optimizer, lambda step: 1.0)
        return stage.trainer(ranking, table, model, optimizers=(optimizer, schedule))

    def mended() -> Any:
        model = reader(stage, MUSEUM)
        return with_optimizer_of(model, model)

    suffers(
        stage,
        with_optimizer_of(reader(stage, MUSEUM), reader(stage, MUSEUM)),
        mended,
        sought_of(MUSEUM),
    )


@faulty(
    "only biases and norms in the optimiser",
    "Of the two groups of weights, with and without decay, only the latter was handed on: biases "
    "and norms are trained and no matrix.",
    [
        *UNMOVED,
        r"(?i)(only|few|part|share|most|missing|left out|outside).{0,80}(weights?|parameters?|"
        r"bias(es)?|norms?|layers?|optimi[sz]er)",
        r"(?i)(weights?|parameters?|layers?|matri).{0,80}(missing|left out|not in the opt)",
    ],
)
def group_with_decay_forgotten(stage: Stage) -> None:
    """`AdamW([groups[1]], ...)` instead of `AdamW(groups, ...)`."""
    table = REVIEWS.table(160)

    def trainer_of(groups: slice) -> Any:
        model = reader(stage, REVIEWS)
        rows = list(model.named_parameters())
        plain = [row for name, row in rows if "bias" in name or "LayerNorm" in name]
        decayed = [row for name, row in rows if "bias" not in name and "LayerNorm" not in name]
        halves = [{"params": decayed, "weight_decay": 0.01}, {"params": plain, "weight_decay": 0.0}]
        optimizer = torch.optim.AdamW(halves[groups], lr=1e-3)
        schedule = LambdaLR(optimizer, lambda step: 1.0)
        return stage.trainer(ranking, table, model, optimizers=(optimizer, schedule))

    suffers(stage, trainer_of(slice(1, 2)), lambda: trainer_of(slice(0, 2)), sought_of(REVIEWS))


@faulty(
    "schedule over after a tenth of the steps",
    "The schedule of one's own counts epochs and not steps: after four steps the rate is zero.",
    [
        rf"(?i){RATE}.{{0,80}}(zero|\b0\b|end|over|early|fall|fell|drop)",
        r"(?i)schedule",
        *UNMOVED,
    ],
)
def schedule_that_counts_epochs(stage: Stage) -> None:
    """`get_linear_schedule_with_warmup(optimizer, 0, num_epochs)`."""
    from transformers import get_linear_schedule_with_warmup

    table = CODE.table(160)

    def trainer_of(length: int) -> Any:
        model = reader(stage, CODE)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        schedule = get_linear_schedule_with_warmup(optimizer, 0, length)
        return stage.trainer(ranking, table, model, optimizers=(optimizer, schedule))

    suffers(stage, trainer_of(4), lambda: trainer_of(40), sought_of(CODE))


@faulty(
    "weights in bfloat16 at a small rate",
    "The weights themselves are bfloat16, whose steps are coarser than the updates: most updates "
    "are rounded away.",
    [
        r"(?i)bfloat16|bf16|half.precision|precision|16.bit|\bround|float16|coarse",
        *UNMOVED,
    ],
)
def bfloat16_weights_that_round_updates(stage: Stage) -> None:
    """`torch_dtype=torch.bfloat16` for training, without float32 weights behind it."""
    table = TRAVEL.table(160)
    settings = {"max_steps": 80, "learning_rate": 4e-4, "lr_scheduler_type": "constant"}

    def model() -> Any:
        return reader(stage, TRAVEL, spread=0.3)

    def score(model: Any) -> float:
        return sought_of(TRAVEL)(model.float())

    halved = model()
    trainer = stage.trainer(ranking, table, halved, **settings)

    def cast_score(encoder: Any) -> float:
        value = score(encoder)
        if encoder is halved:
            encoder.to(torch.bfloat16)
        return value

    suffers(stage, trainer, lambda: stage.trainer(ranking, table, model(), **settings), cast_score)
