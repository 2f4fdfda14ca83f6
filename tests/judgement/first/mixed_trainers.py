"""Sound set-ups: trainers with more than one data set, resumed, with heads and new marks."""

from __future__ import annotations

import functools
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import losses
from transformers import TrainerCallback

from tests.judgement.case import sound
from tests.judgement.first import rated_fields as rated
from tests.judgement.first import spelled_fields as spelled
from tests.judgement.first.bodies import encoder
from tests.judgement.first.loop_materials import quiet
from tests.judgement.first.numbered_fields import HOMES, NEWS, SALTS
from tests.judgement.first.ordinary_fields import QUERIES, TURNS
from tests.judgement.first.training_kit import by_grades, by_neighbour, by_rank, several
from tests.judgement.first.turns import warmed
from tests.judgement.stage import Stage
from tests.judgement.truth import learns


@sound("two data sets with a loss of each")
def salts_and_homes_with_a_loss_each(stage: Stage) -> None:
    """Pairs by ranking and graded pairs by CoSENT, batch by batch in proportion to their sizes."""
    model = encoder(stage, [*SALTS.vocabulary(), *HOMES.vocabulary()])
    trainer = several(
        stage, model, {"salts": SALTS.table(400), "homes": HOMES.graded(320)},
        {"salts": losses.MultipleNegativesRankingLoss(model), "homes": losses.CoSENTLoss(model)},
        max_steps=120, multi_dataset_batch_sampler="proportional",
    )  # fmt: skip
    salts_sought = by_rank(SALTS.sought())
    graded_homes = by_grades(HOMES.graded(150, held_out=True))
    learns(stage, trainer, lambda trained: (salts_sought(trained) + graded_homes(trained)) / 2,
           least=0.1)  # fmt: skip


@sound("a trained head on a frozen body")
def chat_replies_with_a_head_on_a_frozen_body(stage: Stage) -> None:
    """A body that was trained a little stays as it is; a linear map with its own rate trains."""
    from sentence_transformers.sentence_transformer.modules import Dense

    frozen_encoder = warmed(encoder(stage, TURNS.vocabulary(), width=64), TURNS.table(300), 6)
    frozen_encoder.requires_grad_(False)
    torch.manual_seed(5)
    head = Dense(64, 64, bias=False, activation_function=torch.nn.Identity())
    model = SentenceTransformer(modules=[*frozen_encoder, head], device="cpu")
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, TURNS.table(500, seed=2), model, max_steps=150,
        learning_rate=3e-3, per_device_train_batch_size=64, weight_decay=0.01,
    )  # fmt: skip
    learns(stage, trainer, by_rank(TURNS.sought()), least=0.1)


class Interruption(TrainerCallback):
    """Ends training after a step, as where a machine is taken away."""

    def __init__(self, last: int) -> None:
        self.last = last

    def on_step_end(self, args: Any, state: Any, control: Any, **options: Any) -> Any:
        control.should_training_stop = state.global_step >= self.last
        return control


@sound("resumed from a checkpoint")
def headlines_resumed_from_a_checkpoint(stage: Stage) -> None:
    """A run was interrupted after 20 of 90 steps; it goes on with its optimiser and schedule."""
    settings = {"max_steps": 90, "learning_rate": 1e-3, "save_strategy": "steps",
                "save_steps": 20, "save_total_limit": 1}  # fmt: skip

    def trainer_of_run(**own: Any) -> Any:
        return stage.trainer(
            losses.MultipleNegativesRankingLoss, NEWS.table(450),
            encoder(stage, NEWS.vocabulary()), **settings, **own,
        )  # fmt: skip

    with quiet():
        trainer_of_run(callbacks=[Interruption(20)]).train()
    trainer = trainer_of_run()
    checkpoint = f"{trainer.args.output_dir}/checkpoint-20"
    trainer.train = functools.partial(trainer.train, resume_from_checkpoint=checkpoint)
    learns(stage, trainer, by_rank(NEWS.sought()), least=0.1)


@sound("marks added to the vocabulary of a pre-trained encoder")
def questions_with_added_marks(stage: Stage) -> None:
    """Two new marks say what a text is; the embeddings grow before training, and all train."""
    marks = ["[QST]", "[SQL]"]
    model = warmed(encoder(stage, QUERIES.vocabulary()), QUERIES.table(200), 4)
    model.tokenizer.add_special_tokens({"additional_special_tokens": marks})
    model[0].auto_model.resize_token_embeddings(len(model.tokenizer))
    marked, sought = (
        {name: [f"{mark} {text}" for text in texts]
         for mark, (name, texts) in zip(marks, table.items(), strict=True)}
        for table in (QUERIES.table(480, seed=2), QUERIES.sought())
    )  # fmt: skip
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, marked, model, max_steps=80, learning_rate=1e-3,
        lr_scheduler_type="cosine", per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, by_rank(sought), least=0.1)


@sound("evaluation loss on development rows and two rates of learning")
def hotel_reviews_with_two_rates(stage: Stage) -> None:
    """A new linear head learns five times as fast as the body; each epoch the loss is evaluated."""
    from datasets import Dataset
    from sentence_transformers.sentence_transformer.modules import Dense

    reviews = rated.hotel_reviews(560)
    texts = {"text": reviews["review"], "label": reviews["stars"]}
    torch.manual_seed(6)
    head = Dense(48, 32, activation_function=torch.nn.Tanh())
    model = encoder(stage, rated.vocabulary(rated.hotel_reviews(700)), head)
    optimizer = torch.optim.AdamW([
        {"params": model[0].parameters(), "lr": 1e-3}, {"params": head.parameters(), "lr": 5e-3},
    ])  # fmt: skip
    trainer = stage.trainer(
        losses.BatchSemiHardTripletLoss, {name: cells[:480] for name, cells in texts.items()},
        model, max_steps=-1, num_train_epochs=5, batch_sampler="group_by_label",
        optimizers=(optimizer, None), eval_strategy="epoch",
        eval_dataset=Dataset.from_dict({name: cells[480:] for name, cells in texts.items()}),
    )  # fmt: skip
    learns(stage, trainer, by_neighbour(rated.hotel_reviews(150, held_out=True)), least=0.1)


@sound("two fields turn about with prompts of each")
def sights_and_salts_turn_about(stage: Stage) -> None:
    """Two sets of pairs in turn, of which no batch mixes; each has prompts of its own."""
    prompts = {
        "sights": {"question": "ask : ", "passage": "tell : "},
        "salts": {"name": "name : ", "formula": "formula : "},
    }
    tables = {"sights": spelled.sights(400), "salts": SALTS.table(400)}
    held_out = {"sights": spelled.sights(100, held_out=True), "salts": SALTS.sought()}
    model = encoder(stage, [*rated.vocabulary(spelled.sights(900)),
                            *SALTS.vocabulary("ask : tell : name : formula :")])  # fmt: skip
    ranking = losses.MultipleNegativesRankingLoss(model)
    trainer = several(
        stage, model, tables, dict.fromkeys(tables, ranking), prompts=prompts, max_steps=160,
        multi_dataset_batch_sampler="round_robin", learning_rate=1e-3,
        num_train_epochs=8,
    )  # fmt: skip
    scores = [by_rank(held_out[name], prompts=tuple(prompts[name].values())) for name in tables]
    learns(stage, trainer, lambda trained: sum(score(trained) for score in scores) / 2, least=0.1)
