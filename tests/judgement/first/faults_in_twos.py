"""Set-ups with two faults at once, each of which does harm."""

from __future__ import annotations

from typing import Any

from tests.judgement.case import REPORT, faulty
from tests.judgement.first.beside import UNRELATED, Loop, adam, loops_beside
from tests.judgement.first.fault_subjects import (
    FLATS,
    MUSEUM,
    NO_NEGATIVES,
    PLANTS,
    REVIEWS,
    SWIFT,
    UNMOVED,
    reader,
    rolled,
    sought_of,
)
from tests.judgement.first.good_fields import CONTRACTS
from tests.judgement.first.loop_materials import RATE, ranking
from tests.judgement.first.turns import Rows, embed, infonce, stepped
from tests.judgement.stage import Stage
from tests.judgement.truth import suffers

TOO_LONG = (r"(?i)truncat|cut (off|short)|longer than|max_seq_length|length limit|exceed",)
WARMING = (r"(?i)warm-?up", rf"(?i){RATE}", *UNMOVED)


@faulty(
    "partners shifted, and warmup without end",
    "The partners are shifted by seven rows, and the warmup is longer than the training.",
    (),
    causes=[UNRELATED, WARMING],
)
def shifted_partners_under_endless_warmup(stage: Stage) -> None:
    """A sorted export, and the settings of a long run."""
    table = PLANTS.table(160)
    shifted = table | {"name": rolled(table["name"], 7)}
    suffers(
        stage,
        stage.trainer(ranking, shifted, reader(stage, PLANTS), warmup_steps=600, **SWIFT),
        lambda: stage.trainer(ranking, table, reader(stage, PLANTS), **SWIFT),
        sought_of(PLANTS),
    )


@faulty(
    "clauses cut, and negatives that are the positives",
    "The encoder reads the preamble only, and the mined negatives are the positives themselves.",
    (),
    causes=[
        TOO_LONG,
        [r"(?i)negatives?.{0,100}(same|identical|equal|positives?|duplicat|cop(y|ies)|false)",
         r"(?i)(positives?).{0,60}(equal|identical|same|duplicat|among).{0,40}negatives?"],
    ],
)  # fmt: skip
def cut_clauses_beside_false_negatives(stage: Stage) -> None:
    """Short inputs, and a search whose first hit is the answer."""
    table = CONTRACTS.table(160)
    wrong = table | {"negative": list(table["clause"])}
    right = table | {"negative": rolled(table["clause"], 50)}
    settings = {"max_steps": 40, "learning_rate": 2e-3}
    suffers(
        stage,
        stage.trainer(ranking, wrong, reader(stage, CONTRACTS, length=12), **settings),
        lambda: stage.trainer(ranking, right, reader(stage, CONTRACTS, length=90), **settings),
        sought_of(CONTRACTS),
    )


@faulty(
    "batch of one, and a frozen encoder",
    "Batches hold one row, so that there are no negatives, and the transformer is frozen but for "
    "its last norm.",
    (),
    causes=[
        [r"(?i)batch.{0,60}(1\b|one|small|size)", *NO_NEGATIVES],
        [r"(?i)frozen|froze|requires_grad|trainable", r"(?i)(only|few|part).{0,60}(weights?|"
         r"parameters?)"],
    ],
)  # fmt: skip
def single_rows_into_a_frozen_encoder(stage: Stage) -> None:
    """Two remedies against too little memory, both at once."""

    def model(frozen: bool) -> Any:
        encoder = reader(stage, MUSEUM)
        if frozen:
            encoder.requires_grad_(False)
            encoder[0].auto_model.encoder.layer[1].output.LayerNorm.requires_grad_(True)
        return encoder

    table = MUSEUM.table(160)
    suffers(
        stage,
        stage.trainer(ranking, table, model(True), per_device_train_batch_size=1, **SWIFT),
        lambda: stage.trainer(ranking, table, model(False), **SWIFT),
        sought_of(MUSEUM),
    )


@faulty(
    "loaders apart, and a rate near zero",
    "In a loop, anchors and positives come from loaders that shuffle apart, and the rate is a "
    "thousandth of what is needed.",
    (),
    tools=(REPORT,),
    causes=[UNRELATED, [rf"(?i){RATE}", *UNMOVED]],
)
def apart_loaders_at_a_vanishing_rate(stage: Stage) -> None:
    """A loop put together from two scripts."""

    def build(slip: bool) -> Loop:
        model, table = reader(stage, REVIEWS), REVIEWS.table(160)
        optimizer = adam(model, rate=1e-6 if slip else 1e-3)
        first, second = (Rows(table, seed=seed) for seed in ((3, 4) if slip else (3, 3)))

        def update(criterion: Any, step: int) -> None:
            anchors, positives = first()[0], second()[1]
            stepped(optimizer, criterion(embed(model, anchors), embed(model, positives)))

        return Loop(model, infonce, update)

    loops_beside(stage, build, sought_of(REVIEWS))


@faulty(
    "one category for all, and rates of plain descent",
    "The positives are the categories, of which there are three, and AdamW has a rate of 0.5.",
    (),
    causes=[
        [r"(?i)duplicat|repeat|identical|same (text|positive)|distinct|unique|false negatives?"],
        [rf"(?i){RATE}", r"(?i)diverg|explod|unstable|collaps"],
    ],
)
def categories_trained_at_wild_rate(stage: Stage) -> None:
    """A first draft with two hasty choices."""
    table = FLATS.table(160)
    groups = {"wish": table["wish"], "category": [text.split()[0] for text in table["wish"]]}
    suffers(
        stage,
        stage.trainer(ranking, groups, reader(stage, FLATS), learning_rate=0.5),
        lambda: stage.trainer(ranking, table, reader(stage, FLATS), **SWIFT),
        sought_of(FLATS),
    )
