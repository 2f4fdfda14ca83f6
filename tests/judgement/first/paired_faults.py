"""Set-ups with two faults at once, each of which would do harm by itself."""

from __future__ import annotations

from typing import Any

from sentence_transformers.sentence_transformer import losses
from torch import nn

from tests.judgement.case import faulty
from tests.judgement.first.beside import IDLE, UNRELATED, Loop, adam, loops_beside
from tests.judgement.first.bodies import encoder, words_of
from tests.judgement.first.fields import HELPDESK, TRAVEL
from tests.judgement.first.tables_from_files import REFUSAL, REPEATED
from tests.judgement.first.turns import Rows, embed, infonce
from tests.judgement.stage import Stage, pairs
from tests.judgement.truth import suffers

RATE = r"(?i)learning.?rate|\brates?\b|schedul|warm-?up"


def trainers_beside(
    stage: Stage, field: Any, table: dict[str, list[str]], slip: dict[str, Any]
) -> None:
    """Train a faulty table of a field with faulty arguments beside the mended ones."""
    sound, sought = field.table(200), field.table(60, seed=11)

    def trainer(rows: dict[str, list[str]], arguments: dict[str, Any]) -> Any:
        model = encoder(stage, words_of([table, sound, sought]))
        return stage.trainer(losses.MultipleNegativesRankingLoss, rows, model, **arguments)

    usual = {"learning_rate": 2e-3}
    suffers(stage, trainer(table, usual | slip), lambda: trainer(sound, usual), field.sought)


@faulty(
    "refused positives at a rate in millionths of a millionth",
    "Nine of ten positives are the same refusal, and the rate is nearly 0.",
    (),
    causes=[[*REPEATED, r"(?i)refus|sorry|boilerplate"], [*IDLE, RATE]],
)
def refusals_at_hardly_any_rate(stage: Stage) -> None:
    """Generated positives that nobody read, and an exponent with a digit too many."""
    table = HELPDESK.table(200)
    texts = [text if at % 10 == 0 else REFUSAL for at, text in enumerate(table["answer"])]
    trainers_beside(stage, HELPDESK, table | {"answer": texts}, {"learning_rate": 2e-12})


@faulty(
    "translations of other rows under an endless warm-up",
    "The translations were sorted by themselves, and the warm-up is a hundred times as long as the "
    "run.",
    (),
    causes=[[*UNRELATED, r"(?i)sort|order of (the )?rows"], [*IDLE, RATE]],
)
def sorted_translations_under_a_warm_up(stage: Stage) -> None:
    """A column cleaned by `sorted(set(...))`, and a warm-up for a run of many epochs."""
    table = TRAVEL.table(200)
    trainers_beside(
        stage, TRAVEL, table | {"german": sorted(set(table["german"]))}, {"warmup_steps": 4000}
    )


@faulty(
    "halves of alternating rows, clipped to nothing",
    "Partners are rows of another pair, and all gradients are clipped to 0.",
    (),
    causes=[[*UNRELATED, r"(?i)interleav|halves|alternat"], [*IDLE, r"(?i)clip"]],
)
def halves_of_alternating_rows_with_clipping(stage: Stage) -> None:
    """Two slips of one script: `chunk(2)` of a flat batch and a clipping norm of 0."""

    def build(slip: bool) -> Loop:
        model, rows = stage.model(), Rows(pairs())
        optimizer = adam(model)

        def update(criterion: Any, step: int) -> None:
            flat = embed(model, [text for pair in zip(*rows(), strict=True) for text in pair])
            loss = criterion(*(flat.chunk(2) if slip else (flat[::2], flat[1::2])))
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.0 if slip else 1.0)
            optimizer.step()

        return Loop(model, infonce, update)

    loops_beside(stage, build)
