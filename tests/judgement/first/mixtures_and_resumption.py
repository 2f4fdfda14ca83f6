"""Sound set-ups: several data sets at once, one after the other, and training taken up again."""

from __future__ import annotations

import contextlib
import io
from typing import Any

from sentence_transformers import SentenceTransformerTrainer

from tests.judgement.case import sound
from tests.judgement.first.bodies import encoder, words_of
from tests.judgement.first.fields import CLINIC, CODE, TRAVEL, Field
from tests.judgement.first.good_fields import LETTERS, requests
from tests.judgement.first.trades_and_texts import (
    BANK,
    BRISK,
    CHEMISTRY,
    GARDEN,
    HOUSES,
    JOBS,
    QUERIES,
    SPORT,
    TWEETS,
    agrees,
    encoder_of,
    finds,
    ranks,
    trainer_of_several,
    triples,
)
from tests.judgement.stage import Stage
from tests.judgement.truth import learns, retrieval
from tests.sentence_training import losses

WIDE = BRISK | {"max_steps": 80, "per_device_train_batch_size": 32}


def found_in_all(*fields: Field) -> Any:
    """A score: the mean of the retrieval in several fields."""
    return lambda model: sum(field.sought(model, 40) for field in fields) / len(fields)


@sound("two data sets of pairs, proportional")
def bank_and_garden_by_their_sizes(stage: Stage) -> None:
    """Two trades; batches come from each by its number of rows."""
    model = encoder_of(stage, BANK, GARDEN)
    tables = {"bank": BANK.table(480), "garden": GARDEN.table(320)}
    trainer = trainer_of_several(
        stage, model, tables, ranks(model), **WIDE, multi_dataset_batch_sampler="proportional"
    )
    learns(stage, trainer, found_in_all(BANK, GARDEN))


@sound("pairs and scores with a loss each")
def sport_pairs_and_house_scores_together(stage: Stage) -> None:
    """One data set of pairs for the ranking loss, and one of scores for CoSENT."""
    model = encoder_of(stage, SPORT, HOUSES)
    tables = {"pairs": SPORT.table(400), "scores": HOUSES.graded(400)}
    trainer = trainer_of_several(
        stage, model, tables, {"pairs": ranks(model), "scores": losses.CoSENTLoss(model)},
        **WIDE, multi_dataset_batch_sampler="round_robin",
    )  # fmt: skip
    learns(stage, trainer, lambda model: (SPORT.sought(model) + agrees(HOUSES)(model)) / 2)


@sound("pairs, triplets and another width")
def three_trades_of_other_shapes(stage: Stage) -> None:
    """Pairs, triplets and rows of four columns, each within batches of its own."""
    model = encoder_of(stage, JOBS, QUERIES, CHEMISTRY)
    tables = {
        "jobs": JOBS.table(400),
        "queries": triples(QUERIES, 320),
        "chemistry": triples(CHEMISTRY, 320, slots=(0, 1)),
    }
    trainer = trainer_of_several(
        stage, model, tables, ranks(model), **WIDE, batch_sampler="no_duplicates"
    )
    learns(stage, trainer, found_in_all(JOBS, QUERIES, CHEMISTRY))


@sound("prompts by data set")
def prompt_for_each_data_set(stage: Stage) -> None:
    """Each data set has its own task in front of its queries, as in E5 and its kin."""
    prompts = {"code": "find code : ", "clinic": "find record : "}
    model = encoder_of(stage, CODE, CLINIC, further=list(prompts.values()))
    tables = {"code": CODE.table(240), "clinic": CLINIC.table(200)}
    trainer = trainer_of_several(
        stage, model, tables, ranks(model), **WIDE,
        prompts={
            "code": {"description": prompts["code"]}, "clinic": {"complaint": prompts["clinic"]},
        },
    )  # fmt: skip

    def score(model: Any) -> float:
        return (
            CODE.sought(model, 40, prompts=(prompts["code"], ""))
            + CLINIC.sought(model, 40, prompts=(prompts["clinic"], ""))
        ) / 2

    learns(stage, trainer, score)


@sound("three languages, pair by pair")
def pairs_of_three_languages(stage: Stage) -> None:
    """English is paired with German and with Italian, so that the two meet through it."""
    english, german, italian = LETTERS.table(230).values()
    model = encoder_of(stage, LETTERS)
    tables = {
        "german": {"english": english, "other": german},
        "italian": {"english": english, "other": italian},
    }
    trainer = trainer_of_several(stage, model, tables, ranks(model), **WIDE)
    _, unseen_german, unseen_italian = LETTERS.table(40, seed=11).values()
    unseen = {"german": unseen_german, "italian": unseen_italian}
    learns(stage, trainer, lambda model: retrieval(model, unseen))


@sound("answers that many questions share")
def shared_answers_kept_apart_in_batches(stage: Stage) -> None:
    """Requests for ten answers: batches of 8 hold no answer twice."""
    table, unseen = requests(320), requests(80, seed=11)
    model = encoder(stage, words_of([table, unseen]))
    columns = {name: table[name] for name in ("request", "answer")}
    trainer = stage.trainer(
        ranks, columns, model, **(BRISK | {"max_steps": 80}), per_device_train_batch_size=8,
        batch_sampler="no_duplicates",
    )  # fmt: skip
    answers = dict(zip(unseen["label"], unseen["answer"], strict=True))

    def right(model: Any) -> float:
        queries = model.encode(unseen["request"], show_progress_bar=False)
        similar = model.similarity(
            queries, model.encode(list(answers.values()), show_progress_bar=False)
        )
        labels = list(answers)
        return sum(
            labels[place] == label
            for place, label in zip(similar.argmax(1).tolist(), unseen["label"], strict=True)
        ) / len(unseen["label"])

    learns(stage, trainer, right)


class TakenUp(SentenceTransformerTrainer):
    """A trainer that goes on from the last checkpoint in its folder."""

    def train(self, *arguments: Any, **options: Any) -> Any:
        return super().train(resume_from_checkpoint=True)


@sound("training taken up from a checkpoint")
def travel_taken_up_after_an_interruption(stage: Stage) -> None:
    """A run that ended after a sixth of its steps goes on with its optimiser and schedule."""
    from transformers import TrainerCallback

    class Interruption(TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **options: Any) -> None:
            control.should_training_stop = state.global_step >= 10

    settings = WIDE | {"max_steps": 60, "save_strategy": "steps", "save_steps": 10}
    table = TRAVEL.table(400)
    earlier = stage.trainer(
        ranks, table, encoder_of(stage, TRAVEL), callbacks=[Interruption()], **settings
    )
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        earlier.train()
    model = encoder_of(stage, TRAVEL)
    learns(stage, stage.trainer(ranks, table, model, kind=TakenUp, **settings), finds(TRAVEL))


@sound(
    "general pairs first, own trade afterwards",
    allowed={"duplicates": "Rows of the general stage share texts by chance."},
)
def general_stage_before_own_trade(stage: Stage) -> None:
    """A first stage on other trades; the second, watched, on a smaller set of one's own."""
    model = encoder_of(stage, BANK, JOBS, TWEETS)
    first = trainer_of_several(
        stage, model, {"bank": BANK.table(320), "jobs": JOBS.table(320)}, ranks(model),
        **(WIDE | {"max_steps": 40}),
    )  # fmt: skip
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        first.train()
    trainer = stage.trainer(
        ranks, TWEETS.table(200), model, learning_rate=1e-3, max_steps=50, warmup_steps=5
    )
    learns(stage, trainer, finds(TWEETS))
