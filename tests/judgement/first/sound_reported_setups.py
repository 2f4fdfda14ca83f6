"""Sound set-ups of trainers, ordinary and odd, that raise the score of unseen texts."""

from __future__ import annotations

import contextlib
import io
from typing import Any

from tests.judgement.case import sound
from tests.judgement.first.reported_encoders import (
    EVALUATED,
    adapted,
    among_classmates,
    graded,
    in_grades,
    many_for_one,
    ranking,
    searching,
    tuned,
)
from tests.judgement.stage import (
    Stage,
    classes,
    pairs,
    rated,
    triplets,
)
from tests.judgement.truth import alike, among_alike, keep, learns, retrieval, truth
from tests.sentence_training import evaluation, losses


@sound("loss")
def cosent_with_scores_to_one(stage: Stage) -> None:
    learns(stage, stage.trainer(losses.CoSENTLoss, graded(), max_steps=60), in_grades)


@sound("loss")
def angles_with_scores_to_one(stage: Stage) -> None:
    learns(stage, stage.trainer(losses.AnglELoss, graded(), max_steps=60), in_grades)


@sound("loss")
def squared_differences_of_cosines(stage: Stage) -> None:
    """CosineSimilarityLoss, with an evaluator of the rank correlation."""
    held = list(graded(80, seed=3).values())
    evaluator = evaluation.EmbeddingSimilarityEvaluator(*held, name="grades")
    learns(
        stage,
        stage.trainer(
            losses.CosineSimilarityLoss,
            graded(),
            evaluator=evaluator,
            **EVALUATED,
            max_steps=100,
            learning_rate=2e-3,
        ),
        in_grades,
    )


@sound("loss")
def triplets_at_euclidean_distances(stage: Stage) -> None:
    """The default of TripletLoss, a margin of 5 between vectors that may grow."""
    learns(
        stage,
        stage.trainer(losses.TripletLoss, triplets(320), max_steps=120, learning_rate=1e-3),
        among_alike,
    )


@sound("loss")
def both_directions(stage: Stage) -> None:
    learns(stage, stage.trainer(losses.MultipleNegativesSymmetricRankingLoss, pairs()), among_alike)


@sound("loss")
def contrastive_with_labels_of_pairs(stage: Stage) -> None:
    first, second, labels = rated()
    table = {"sentence1": first, "sentence2": second, "label": labels}
    learns(stage, stage.trainer(losses.OnlineContrastiveLoss, table, max_steps=100), among_alike)


@sound("loss")
def hard_negatives_of_a_large_batch(stage: Stage) -> None:
    learns(
        stage,
        stage.trainer(
            losses.MegaBatchMarginLoss, pairs(320), per_device_train_batch_size=64, max_steps=60
        ),
        among_alike,
    )


@sound("label loss")
def hardest_triplets_of_classes(stage: Stage) -> None:
    learns(
        stage,
        stage.trainer(
            losses.BatchHardSoftMarginTripletLoss,
            classes(320),
            batch_sampler="group_by_label",
            per_device_train_batch_size=32,
            max_steps=80,
            learning_rate=1e-3,
        ),
        among_classmates,
    )


@sound("distillation")
def cosines_of_a_teacher(stage: Stage) -> None:
    """A student learns the margins of a tuned teacher's dot products."""
    table = triplets(240)
    teacher = tuned(stage)
    first, second, third = (
        teacher.encode(texts, show_progress_bar=False) for texts in table.values()
    )
    margins = ((first * second).sum(1) - (first * third).sum(1)).tolist()
    student = stage.model()
    learns(
        stage,
        stage.trainer(
            losses.MarginMSELoss,
            table | {"label": margins},
            student,
            max_steps=120,
            learning_rate=1e-3,
        ),
        among_alike,
    )


@sound("adapters")
def adapters_of_rank_eight(stage: Stage) -> None:
    learns(
        stage,
        stage.trainer(ranking, pairs(), adapted(stage.model()), learning_rate=1e-2, max_steps=60),
        among_alike,
    )


@sound("batches")
def four_rows_in_a_batch(stage: Stage) -> None:
    learns(
        stage,
        stage.trainer(
            ranking, pairs(), per_device_train_batch_size=4, max_steps=120, learning_rate=3e-4
        ),
        among_alike,
        every=4,
    )


@sound("batches")
def four_batches_accumulated(stage: Stage) -> None:
    learns(
        stage,
        stage.trainer(ranking, pairs(), gradient_accumulation_steps=4, max_steps=30),
        among_alike,
    )


@sound("batches")
def cached_in_small_parts(stage: Stage) -> None:
    learns(
        stage,
        stage.trainer(
            lambda model: losses.CachedMultipleNegativesRankingLoss(model, mini_batch_size=8),
            pairs(320),
            per_device_train_batch_size=32,
        ),
        among_alike,
    )


@sound("batches")
def several_questions_without_duplicates(stage: Stage) -> None:
    """Seven questions have one passage, and the sampler keeps them apart."""
    learns(
        stage,
        stage.trainer(ranking, many_for_one(), batch_sampler="no_duplicates", max_steps=60),
        among_alike,
    )


@sound("schedule")
def frozen_word_embeddings(stage: Stage) -> None:
    model = stage.model()
    model[0].auto_model.embeddings.requires_grad_(False)
    learns(stage, stage.trainer(ranking, pairs(), model, learning_rate=1e-3), among_alike)


@sound("schedule")
def half_of_the_run_is_warm_up(stage: Stage) -> None:
    learns(stage, stage.trainer(ranking, pairs(), warmup_steps=30, max_steps=60), among_alike)


@sound("schedule")
def momentum_without_adam(stage: Stage) -> None:
    learns(
        stage,
        stage.trainer(
            ranking,
            pairs(),
            optim="sgd",
            optim_args="momentum=0.9",
            learning_rate=0.1,
            max_steps=60,
        ),
        among_alike,
    )


@sound("schedule")
def cosine_rate_with_restarts(stage: Stage) -> None:
    learns(
        stage,
        stage.trainer(
            ranking,
            pairs(),
            lr_scheduler_type="cosine_with_restarts",
            lr_scheduler_kwargs={"num_cycles": 3},
            max_steps=60,
        ),
        among_alike,
    )


@sound("schedule")
def resumed_from_a_checkpoint(stage: Stage) -> None:
    """A run stops at step 30 and is resumed by another trainer, as after a crash."""
    plan = {"save_strategy": "steps", "save_steps": 30, "max_steps": 60}
    before = among_alike(stage.model())
    first = stage.trainer(ranking, pairs(), **plan)
    _stop_at(first, 30)
    with contextlib.redirect_stdout(io.StringIO()):
        first.train()
    second = stage.trainer(ranking, pairs(), **plan)
    resume = second.train
    second.train = lambda: resume(resume_from_checkpoint=True)
    stage.play(second)
    if not second.state.global_step:
        return
    keep(stage, before=before, after=among_alike(second.model))
    assert truth(stage)["after"] >= before + 0.1, truth(stage)


def _stop_at(trainer: Any, step: int) -> None:
    from transformers import TrainerCallback

    class Stop(TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **objects: Any) -> Any:
            control.should_training_stop = state.global_step >= step
            return control

    trainer.add_callback(Stop())


@sound("evaluation")
def prompts_for_training_and_evaluation(stage: Stage) -> None:
    """Questions have one prompt and passages another, in training and in the evaluator."""
    prompts = {"anchor": "ran lera : ", "positive": "zo tulo : "}
    evaluator = searching(
        pairs(60, seed=3), query_prompt=prompts["anchor"], corpus_prompt=prompts["positive"]
    )
    learns(
        stage,
        stage.trainer(ranking, pairs(), prompts=prompts, evaluator=evaluator, **EVALUATED),
        lambda model: retrieval(model, alike(), prompts=list(prompts.values())),
    )


@sound("evaluation")
def a_loss_of_held_out_pairs_alone(stage: Stage) -> None:
    """No evaluator, and the loss of other pairs every tenth step."""
    from datasets import Dataset

    held: Any = Dataset.from_dict(pairs(64, seed=3))
    learns(stage, stage.trainer(ranking, pairs(), eval_dataset=held, **EVALUATED), among_alike)


@sound("evaluation")
def best_checkpoint_is_loaded(stage: Stage) -> None:
    learns(
        stage,
        stage.trainer(
            ranking,
            pairs(),
            evaluator=searching(alike(60, seed=3)),
            **EVALUATED,
            save_strategy="steps",
            save_steps=10,
            load_best_model_at_end=True,
            metric_for_best_model="eval_search_cosine_mrr@10",
        ),
        among_alike,
    )


@sound("dimensions")
def nested_dimensions(stage: Stage) -> None:
    """Matryoshka, of which the first eight dimensions are asked as well."""
    learns(
        stage,
        stage.trainer(
            lambda model: losses.MatryoshkaLoss(model, ranking(model), [32, 16, 8]),
            pairs(),
            max_steps=60,
        ),
        among_alike,
    )
