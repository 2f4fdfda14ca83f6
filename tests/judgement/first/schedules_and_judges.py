"""Sound set-ups: rates, optimisers and evaluators of many kinds."""

from __future__ import annotations

from typing import Any

import torch

from tests.judgement.case import sound
from tests.judgement.first.bodies import encoder, words_of
from tests.judgement.first.fields import HELPDESK, KITCHEN, Field
from tests.judgement.first.good_fields import minutes
from tests.judgement.first.trades_and_texts import (
    BANK,
    BRISK,
    GARDEN,
    JOBS,
    MUSEUM,
    PROTEINS,
    RUSSIAN,
    SPORT,
    TWEETS,
    agrees,
    encoder_of,
    finds,
    ranks,
    triples,
)
from tests.judgement.stage import Stage, triplets
from tests.judgement.truth import among_alike, learns, retrieval
from tests.sentence_training import evaluation, losses

OFTEN = {"eval_strategy": "steps", "eval_steps": 20}
BEST = OFTEN | {
    "save_strategy": "steps", "save_steps": 20, "save_total_limit": 1,
    "load_best_model_at_end": True,
}  # fmt: skip


def search_in(field: Field, name: str, seed: int = 3) -> Any:
    """An evaluator that seeks the second texts of 40 rows apart from training by the first."""
    first, second = list(field.table(40, seed).values())[:2]
    return evaluation.InformationRetrievalEvaluator(
        {f"q{row}": text for row, text in enumerate(first)},
        {f"d{row}": text for row, text in enumerate(second)},
        {f"q{row}": {f"d{row}"} for row in range(len(first))},
        name=name,
        show_progress_bar=False,
    )


@sound("constant rate after a warm-up")
def minutes_at_a_constant_rate(stage: Stage) -> None:
    """Decisions and minutes of any length, at a rate that rises and then stays."""
    table, unseen = minutes(320), minutes(60, seed=11)
    model = encoder(stage, words_of([table, unseen]))
    trainer = stage.trainer(
        ranks, table, model, **BRISK, lr_scheduler_type="constant_with_warmup",
        per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, lambda model: retrieval(model, unseen))


@sound("long warm-up, cosine decay")
def kitchen_with_long_warm_up(stage: Stage) -> None:
    """A third of all steps is warm-up, the rest a cosine down to zero."""
    trainer = stage.trainer(
        ranks, KITCHEN.table(400), encoder_of(stage, KITCHEN), learning_rate=3e-3, max_steps=60,
        warmup_steps=20, lr_scheduler_type="cosine", per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, finds(KITCHEN))


@sound("small batches accumulated")
def batches_of_eight_accumulated_with_negatives(stage: Stage) -> None:
    """Batches of 8 for want of memory, four of them a step, and a hard negative for each row."""
    trainer = stage.trainer(
        ranks, triples(HELPDESK, 300), encoder_of(stage, HELPDESK), learning_rate=3e-3,
        max_steps=40, per_device_train_batch_size=8, gradient_accumulation_steps=4,
        batch_sampler="no_duplicates",
    )  # fmt: skip
    learns(stage, trainer, finds(HELPDESK))


@sound("Adafactor")
def sequences_by_adafactor(stage: Stage) -> None:
    """Adafactor with a rate of its own, as where memory is short."""
    trainer = stage.trainer(
        ranks, PROTEINS.table(320), encoder_of(stage, PROTEINS), **BRISK, optim="adafactor",
        per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, finds(PROTEINS))


@sound("rates that fall with depth")
def lower_layers_at_lower_rates(stage: Stage) -> None:
    """An optimiser of one's own: each layer below learns at 0.8 of the rate above."""
    model = encoder_of(stage, SPORT, layers=3)
    network = model[0].auto_model
    depths = [network.embeddings, *network.encoder.layer]
    groups = [{"params": list(layer.parameters()), "lr": 3e-3 * 0.8 ** (len(depths) - 1 - depth)}
              for depth, layer in enumerate(depths)]  # fmt: skip
    optimizer = torch.optim.AdamW(groups, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.05, total_iters=60)
    trainer = stage.trainer(
        ranks, SPORT.table(400), model, max_steps=60, optimizers=(optimizer, schedule),
        per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, finds(SPORT))


@sound("epochs instead of steps")
def three_epochs_over_museum_pairs(stage: Stage) -> None:
    """Three epochs over 480 pairs in batches of 24, with the last batch left out."""
    trainer = stage.trainer(
        ranks, MUSEUM.table(480), encoder_of(stage, MUSEUM), learning_rate=2e-3, max_steps=-1,
        num_train_epochs=3, warmup_steps=6, per_device_train_batch_size=24,
        dataloader_drop_last=True,
    )  # fmt: skip
    learns(stage, trainer, finds(MUSEUM))


@sound("retrieval evaluator, best encoder kept")
def best_by_retrieval_of_garden_advice(stage: Stage) -> None:
    """The evaluator searches rows apart from training; the best encoder is loaded at the end."""
    trainer = stage.trainer(
        ranks, GARDEN.table(400), encoder_of(stage, GARDEN), **BRISK, **BEST,
        evaluator=search_in(GARDEN, "garden"),
        metric_for_best_model="eval_garden_cosine_ndcg@10", greater_is_better=True,
    )  # fmt: skip
    learns(stage, trainer, finds(GARDEN))


@sound("evaluation loss of held-out pairs")
def loss_of_held_out_bank_pairs(stage: Stage) -> None:
    """The loss of held-out pairs is followed, and the encoder with the least one is kept."""
    from datasets import Dataset

    trainer = stage.trainer(
        ranks, BANK.table(400), encoder_of(stage, BANK), **BRISK, **BEST,
        eval_dataset=Dataset.from_dict(BANK.table(96, seed=3)), metric_for_best_model="eval_loss",
        greater_is_better=False, per_device_eval_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, finds(BANK))


@sound("triplet evaluator")
def triplet_accuracy_of_unseen_facts(stage: Stage) -> None:
    """Triplets apart from training say how often the positive is nearer than the negative."""
    unseen = triplets(120, seed=3)
    evaluator = evaluation.TripletEvaluator(*unseen.values(), name="facts")
    trainer = stage.trainer(
        ranks, triplets(320), **BRISK, **OFTEN, evaluator=evaluator,
        batch_sampler="no_duplicates",
    )  # fmt: skip
    learns(stage, trainer, among_alike)


@sound("correlation evaluator")
def rank_correlation_of_unseen_scores(stage: Stage) -> None:
    """Scores apart from training, compared with cosines by rank."""
    unseen = TWEETS.graded(120, seed=3)
    evaluator = evaluation.EmbeddingSimilarityEvaluator(*unseen.values(), name="tweets")
    trainer = stage.trainer(
        losses.CoSENTLoss, TWEETS.graded(600), encoder_of(stage, TWEETS),
        **(BRISK | {"max_steps": 100}), **OFTEN, evaluator=evaluator,
        per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, agrees(TWEETS))


@sound("translation evaluator, two evaluators at once")
def translations_judged_twice(stage: Stage) -> None:
    """Sentences in two alphabets; their translations are sought, and a search is judged too."""
    russian, english = RUSSIAN.table(50, seed=3).values()
    evaluator = evaluation.SequentialEvaluator([
        evaluation.TranslationEvaluator(russian, english, show_progress_bar=False),
        search_in(RUSSIAN, "translations"),
    ])  # fmt: skip
    trainer = stage.trainer(
        ranks, RUSSIAN.table(400), encoder_of(stage, RUSSIAN), **(BRISK | {"max_steps": 80}),
        **OFTEN, evaluator=evaluator, per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, finds(RUSSIAN))


@sound("reranking evaluator")
def reranked_adverts_in_evaluation(stage: Stage) -> None:
    """For each search the evaluator orders its advert and three near misses."""
    unseen = triples(JOBS, 40, slots=(0, 1, 2), seed=3)
    searches, adverts, *further = unseen.values()
    samples = [
        {"query": searches[row], "positive": [adverts[row]],
         "negative": [texts[row] for texts in further]}
        for row in range(40)
    ]  # fmt: skip
    evaluator = evaluation.RerankingEvaluator(samples, name="adverts", show_progress_bar=False)
    trainer = stage.trainer(
        ranks, triples(JOBS, 400), encoder_of(stage, JOBS), **BRISK, **OFTEN,
        evaluator=evaluator, batch_sampler="no_duplicates",
    )  # fmt: skip
    learns(stage, trainer, finds(JOBS))
