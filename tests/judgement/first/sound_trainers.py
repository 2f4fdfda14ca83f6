"""Sound set-ups of trainers, some of them unusual, that raise the score of unseen texts."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from tests.judgement.case import sound
from tests.judgement.first.labels import tuned
from tests.judgement.first.optimisation import Bound, averaging
from tests.judgement.first.rows import _foreign
from tests.judgement.first.runs import PLAN, translations
from tests.judgement.first.runs import retrieval as searching
from tests.judgement.stage import (
    Stage,
    facts,
    lookalike,
    pairs,
    passage,
    question,
)
from tests.judgement.truth import among_alike, learns, retrieval
from tests.sentence_training import evaluation, losses

ranking = losses.MultipleNegativesRankingLoss


@sound("encoder")
def static_embeddings_at_a_rate_of_their_own(stage: Stage) -> None:
    """One vector for each token and no layers: the usual rate is a hundred times that of BERT."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding

    torch.manual_seed(7)
    tokenizer = stage.model().tokenizer.backend_tokenizer
    model = SentenceTransformer(
        modules=[StaticEmbedding(tokenizer, embedding_dim=32)], device="cpu"
    )
    learns(stage, stage.trainer(ranking, pairs(), model, learning_rate=0.05), among_alike)


@sound("encoder")
def first_layer_of_a_pruned_encoder(stage: Stage) -> None:
    model = stage.model()
    body = model[0].auto_model
    body.encoder.layer = body.encoder.layer[:1]
    body.config.num_hidden_layers = 1
    learns(stage, stage.trainer(ranking, pairs(), model), among_alike)


@sound("encoder")
def first_token_beside_the_mean(stage: Stage) -> None:
    learns(stage, stage.trainer(ranking, pairs(), stage.model(("cls", "mean"))), among_alike)


@sound("encoder")
def layers_released_one_after_the_other(stage: Stage) -> None:
    """Word embeddings and the first layer are frozen on purpose for the first fifteen steps."""
    from transformers import TrainerCallback

    class Release(TrainerCallback):
        def on_train_begin(self, args: Any, state: Any, control: Any, **objects: Any) -> None:
            self._set(objects["model"], False)

        def on_step_end(self, args: Any, state: Any, control: Any, **objects: Any) -> None:
            if state.global_step == 15:
                self._set(objects["model"], True)

        def _set(self, model: Any, learn: bool) -> None:
            body = model[0].auto_model
            body.embeddings.requires_grad_(learn)
            body.encoder.layer[0].requires_grad_(learn)

    learns(stage, stage.trainer(ranking, pairs(), callbacks=[Release()], max_steps=60), among_alike)


@sound("adapters")
def adapters_with_magnitudes(stage: Stage) -> None:
    """DoRA, on the attention of a tuned encoder, for another field."""
    from peft import LoraConfig, TaskType

    model = stage.model()
    model.add_adapter(
        LoraConfig(
            TaskType.FEATURE_EXTRACTION,
            r=8,
            lora_alpha=16,
            use_dora=True,
            target_modules=["query", "key", "value", "dense"],
        )
    )
    learns(
        stage, stage.trainer(ranking, pairs(), model, learning_rate=1e-2, max_steps=60), among_alike
    )


@sound("distillation")
def unit_student_of_a_teacher_with_long_vectors(stage: Stage) -> None:
    """The loss cannot come near 0, as lengths differ, and directions are learned all the same."""
    teacher, table = tuned(stage), translations(320)
    labels = (3 * teacher.encode(table["english"], show_progress_bar=False)).tolist()
    learns(
        stage,
        stage.trainer(
            losses.MSELoss, {**table, "label": labels}, stage.model(normalize=True), max_steps=160
        ),
        lambda model: retrieval(model, translations(100, seed=11)),
    )


@sound("temperature")
def high_temperature_that_works(stage: Stage) -> None:
    """A scale of 7, as made for easy pairs with some false negatives."""
    learns(stage, stage.trainer(lambda model: ranking(model, scale=7.0), pairs()), among_alike)


@sound("temperature")
def hardness_of_five(stage: Stage) -> None:
    learns(
        stage,
        stage.trainer(
            lambda model: ranking(model, hardness_mode="in_batch_negatives", hardness_strength=5.0),
            pairs(),
        ),
        among_alike,
    )


@sound("batches")
def two_rows_with_four_hard_negatives_each(stage: Stage) -> None:
    """Long texts leave room for two rows; each brings its own negatives."""
    table = pairs(320)
    for number in range(4):
        moved = facts(320)[number + 1 :] + facts(320)[: number + 1]
        table[f"negative_{number + 1}"] = [lookalike(fact) for fact in moved]
    learns(
        stage,
        stage.trainer(
            ranking, table, per_device_train_batch_size=2, max_steps=120, learning_rate=3e-4
        ),
        among_alike,
        every=6,
    )


@sound("batches")
def three_data_sets_in_turns(stage: Stage) -> None:
    """Two languages and their translations; each batch is of one of the three."""
    from datasets import Dataset, DatasetDict

    plain = stage.trainer(ranking, pairs(), multi_dataset_batch_sampler="round_robin", max_steps=60)
    foreign = {name: _foreign(cells) for name, cells in pairs(seed=5).items()}
    rows: Any = DatasetDict(
        {
            "home": Dataset.from_dict(pairs()),
            "abroad": Dataset.from_dict(foreign),
            "between": Dataset.from_dict(translations(160)),
        }
    )
    learns(
        stage,
        type(plain)(
            model=plain.model, args=plain.args, train_dataset=rows, loss=ranking(plain.model)
        ),
        among_alike,
    )


@sound("data")
def rows_from_a_stream(stage: Stage) -> None:
    """An iterable data set has no length, so that the number of steps is set."""
    from datasets import Dataset

    plain = stage.trainer(ranking, pairs(), max_steps=50)
    rows = Dataset.from_dict(pairs(800)).to_iterable_dataset()
    learns(
        stage,
        type(plain)(
            model=plain.model, args=plain.args, train_dataset=rows, loss=ranking(plain.model)
        ),
        among_alike,
    )


@sound("data")
def titles_before_the_passages(stage: Stage) -> None:
    """Each passage has its title before it, two words that questions use as well."""
    table = pairs()
    titles = [f"{place} {topic} ." for _, topic, place, *_ in facts(160)]
    table["positive"] = [
        f"{title} {text}" for title, text in zip(titles, table["positive"], strict=True)
    ]
    learns(stage, stage.trainer(ranking, table), among_alike)


@sound("data")
def each_text_in_four_scored_pairs(stage: Stage) -> None:
    """A text that repeats is no false negative where each pair has its own score."""
    table: dict[str, list[Any]] = {"sentence1": [], "sentence2": [], "score": []}
    subjects, strangers = facts(80), facts(160, seed=5)
    for at, fact in enumerate(subjects):
        seconds = [passage(fact), lookalike(fact), *map(passage, strangers[2 * at : 2 * at + 2])]
        table["sentence1"] += 4 * [question(fact)]
        table["sentence2"] += seconds
        table["score"] += [1.0, 0.5, 0.0, 0.0]
    learns(stage, stage.trainer(losses.CosineSimilarityLoss, table, max_steps=80), among_alike)


@sound("schedule")
def constant_rate_without_warm_up(stage: Stage) -> None:
    learns(
        stage,
        stage.trainer(ranking, pairs(), lr_scheduler_type="constant", warmup_steps=0),
        among_alike,
    )


@sound("schedule")
def nesterov_and_adam(stage: Stage) -> None:
    model = stage.model()
    optimizer = torch.optim.NAdam(model.parameters(), lr=5e-4)
    learns(stage, stage.trainer(ranking, pairs(), model, optimizers=(optimizer, None)), among_alike)


@sound("schedule")
def gradients_never_clipped(stage: Stage) -> None:
    """A largest norm of 0 turns clipping off."""
    learns(stage, stage.trainer(ranking, pairs(), max_grad_norm=0.0), among_alike)


@sound("schedule")
def weight_decay_of_a_tenth(stage: Stage) -> None:
    learns(stage, stage.trainer(ranking, pairs(), weight_decay=0.1), among_alike)


@sound("schedule")
def average_over_the_last_steps(stage: Stage) -> None:
    """A moving average of the weights that reaches back five steps is kept at the end."""
    learns(
        stage,
        stage.trainer(ranking, pairs(), callbacks=[averaging(0.8)], max_steps=60),
        among_alike,
    )


@sound("schedule")
def small_penalty_on_the_distance_from_the_start(stage: Stage) -> None:
    learns(
        stage, stage.trainer(lambda model: Bound(model, 1e-4), pairs(), max_steps=60), among_alike
    )


@sound("schedule")
def sixteen_steps_for_a_new_field(stage: Stage) -> None:
    """A tuned encoder is adapted in few steps on purpose, and an evaluator shows that they do."""
    held = {name: _foreign(cells) for name, cells in pairs(60, seed=3).items()}
    table = {name: _foreign(cells) for name, cells in pairs(256).items()}
    learns(
        stage,
        stage.trainer(
            ranking,
            table,
            tuned(stage),
            max_steps=16,
            warmup_steps=2,
            learning_rate=1e-3,
            evaluator=searching(held),
            **{**PLAN, "eval_steps": 4},
        ),
        lambda model: retrieval(model, {name: _foreign(cells) for name, cells in
                                        pairs(100, seed=11).items()}),
        every=1,
    )  # fmt: skip


@sound("evaluation")
def two_evaluators_of_two_names(stage: Stage) -> None:
    second = searching(pairs(90, seed=4))
    second.name = "second"
    evaluator = evaluation.SequentialEvaluator([searching(pairs(60, seed=3)), second])
    learns(stage, stage.trainer(ranking, pairs(), evaluator=evaluator, **PLAN), among_alike)


@sound("loss")
def ranking_of_ones_own_in_a_module(stage: Stage) -> None:
    """A module with the trainer's signature, both directions, and a margin of 0.1."""

    class Directions(torch.nn.Module):
        def __init__(self, model: Any) -> None:
            super().__init__()
            self.model = model

        def forward(self, features: Any, labels: torch.Tensor) -> torch.Tensor:
            first, second = (
                F.normalize(self.model(feature)["sentence_embedding"], dim=-1)
                for feature in features
            )
            logits = 20 * (first @ second.T - 0.1 * torch.eye(len(first)))
            labels = torch.arange(len(first))
            return (F.cross_entropy(logits, labels) + F.cross_entropy(logits.T, labels)) / 2

    learns(stage, stage.trainer(Directions, pairs()), among_alike)


@sound("data sets taken in turn")
def two_sets_with_a_loss_in_common(stage: Stage) -> None:
    from datasets import Dataset

    options = {"multi_dataset_batch_sampler": "round_robin", "max_steps": 20}
    first = stage.trainer(ranking, pairs(), learning_rate=1e-3, **options)
    sets = {"faq": Dataset.from_dict(pairs()), "web": Dataset.from_dict(pairs(160, seed=2))}
    trainer = type(first)(
        model=first.model, args=first.args, train_dataset=sets, loss=ranking(first.model)
    )
    learns(stage, trainer, among_alike)
