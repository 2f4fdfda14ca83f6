"""Arguments of a run, of the trainer or of its optimiser, that hardly let it learn."""

from __future__ import annotations

from typing import Any

import torch
from sentence_transformers.sentence_transformer import losses
from torch.utils.data import BatchSampler, WeightedRandomSampler

from tests.judgement.case import faulty
from tests.judgement.first.beside import IDLE
from tests.judgement.first.bodies import encoder, words_of
from tests.judgement.first.fields import HELPDESK
from tests.judgement.stage import Stage, pairs
from tests.judgement.truth import among_alike, suffers

ranking = losses.MultipleNegativesRankingLoss
RATE = r"(?i)learning.?rate|\brates?\b|schedul|\blr\b|polynomial"


def runs_beside(stage: Stage, slip: dict[str, Any], mended: dict[str, Any]) -> None:
    """Train the same pairs by two groups of arguments."""

    def trainer(arguments: dict[str, Any]) -> Any:
        return stage.trainer(ranking, pairs(), **{"learning_rate": 1e-3, **arguments})

    suffers(stage, trainer(slip), lambda: trainer(mended), among_alike)


@faulty(
    "rate and weight decay exchanged",
    "The rate stands in the place of the weight decay and the weight decay, 0.1, in that of the "
    "rate.",
    [
        r"(?i)learning.?rate|\brates?\b|\blr\b",
        r"(?i)diverg|explod|destroy|too (high|large|big)|(weights?|steps?|updates?).{0,50}"
        r"(large|far|jump|huge)|unstable",
    ],
)
def decay_in_the_place_of_the_rate(stage: Stage) -> None:
    """Arguments of a function of one's own are passed by their places."""
    slip = {"learning_rate": 0.1, "weight_decay": 1e-3}
    runs_beside(stage, slip, {"learning_rate": 1e-3, "weight_decay": 0.1})


@faulty(
    "power of a polynomial schedule in the tens",
    "The rate falls with the fortieth power of what is left of the run: after a few steps it is 0.",
    [*IDLE, RATE],
)
def fortieth_power_of_what_remains(stage: Stage) -> None:
    """A power that was tuned in a run of few steps."""
    power = {"lr_scheduler_type": "polynomial", "warmup_steps": 0}
    runs_beside(
        stage,
        power | {"lr_scheduler_kwargs": {"power": 40.0}},
        power | {"lr_scheduler_kwargs": {"power": 1.0}},
    )


def groups(model: Any, *, slip: bool) -> list[dict[str, Any]]:
    """Two groups of weights, without and with decay; a slip fills both with the first kind."""
    named = list(model.named_parameters())
    bare = [row for name, row in named if "bias" in name or "LayerNorm" in name]
    decayed = [row for name, row in named if not ("bias" in name or "LayerNorm" in name)]
    both = [bare, bare[:0] if slip else decayed]
    return [
        {"params": rows, "weight_decay": decay}
        for rows, decay in zip(both, (0.0, 0.01), strict=True)
        if rows
    ]


@faulty(
    "both groups of weights filtered alike",
    "The filter of the second group lacks its 'not': the optimiser holds biases and norms only.",
    [*IDLE, r"(?i)optimi[sz]er.{0,80}(hold|lack|miss|not|only)|\bbias(es)?\b|norms?\b"],
)
def groups_of_biases_and_norms_only(stage: Stage) -> None:
    """Two groups by names are copied from scripts of old, with a slip in a filter."""

    def trainer(slip: bool) -> Any:
        model = stage.model()
        optimizer = torch.optim.AdamW(groups(model, slip=slip), lr=1e-3)
        return stage.trainer(ranking, pairs(), model, optimizers=(optimizer, None))

    suffers(stage, trainer(True), lambda: trainer(False), among_alike)


def trimmed_rate(step: int) -> float:
    """A share of the rate that was meant for percent."""
    return (1 - step / 40) / 100


@faulty(
    "share of the rate taken in percent",
    "A schedule of one's own gives shares that were divided by 100 once too often.",
    [*IDLE, RATE],
)
def shares_of_the_rate_in_percent(stage: Stage) -> None:
    """A schedule from a table of percents, beside an optimiser at the usual rate."""

    def trainer(times: float) -> Any:
        model = stage.model()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        schedule = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda step: times * trimmed_rate(step)
        )
        return stage.trainer(ranking, pairs(), model, optimizers=(optimizer, schedule))

    suffers(stage, trainer(1.0), lambda: trainer(100.0), among_alike)


def drawn(power: float) -> Any:
    """A maker of batches of rows that are drawn by a power of the length of their texts."""

    def batches(rows: Any, batch_size: int, drop_last: bool, **_: Any) -> BatchSampler:
        weights = [(len(text) / 40) ** power for text in rows["question"]]
        generator = torch.Generator().manual_seed(5)
        sampler = WeightedRandomSampler(weights, len(weights), generator=generator)
        return BatchSampler(sampler, batch_size, drop_last)

    return batches


@faulty(
    "sampling weights that favour a handful of rows",
    "Rows are drawn by a high power of their length: nearly all draws are of a few rows, and most "
    "rows are never trained on.",
    [
        r"(?i)(few|handful|\d+) (of the )?(distinct |different |unique )?(rows|texts|pairs)|never "
        r"(drawn|trained|used)|left out|sampl(er|ing)|weight(s|ed) (of rows|random)",
        r"(?i)duplicat|repeat|(same|equal|identical) (text|row|pair|passage|positive|batch)|"
        r"false negatives?|cop(y|ies)",
        r"(?i)(rows|data|table|texts|epoch).{0,60}(not (all )?(used|drawn|trained))",
    ],
)
def long_rows_drawn_nearly_always(stage: Stage) -> None:
    """Weights were to favour long texts a little, and an exponent was tuned too far."""
    table, sought = HELPDESK.table(200), HELPDESK.table(60, seed=11)

    def trainer(power: float) -> Any:
        model = encoder(stage, words_of([table, sought]))
        return stage.trainer(ranking, table, model, batch_sampler=drawn(power), learning_rate=1e-3)

    suffers(stage, trainer(60.0), lambda: trainer(0.0), HELPDESK.sought)
