"""Sound set-ups that raise the score of texts that no tool sees: losses, data, schedules."""

from __future__ import annotations

import random
from typing import Any

import torch

from tests.judgement.case import sound
from tests.judgement.first.architectures import by_routes, routed
from tests.judgement.first.encoders import lora, make_decoder
from tests.judgement.first.labels import inspect, tuned
from tests.judgement.first.runs import PLAN, translations
from tests.judgement.first.runs import retrieval as searching
from tests.judgement.first.scores import _partners
from tests.judgement.stage import (
    FILLERS,
    Stage,
    classes,
    facts,
    pairs,
    passage,
    rated,
    scored,
    triplets,
    word_cosines,
)
from tests.judgement.truth import learns, retrieval
from tests.sentence_training import evaluation, losses

ranking = losses.MultipleNegativesRankingLoss


def _pairs_with_labels(scale: float = 1.0) -> dict[str, list[Any]]:
    first, second, labels = rated()
    return {"sentence1": first, "sentence2": second, "score": [scale * one for one in labels]}


@sound("labels")
def cosent_on_scores_to_five(stage: Stage) -> None:
    """CoSENT compares scores with each other, so that their unit does not matter."""
    learns(stage, stage.trainer(losses.CoSENTLoss, _pairs_with_labels(5.0)))


@sound("labels")
def online_contrastive_loss_of_two_labels(stage: Stage) -> None:
    table = _pairs_with_labels()
    table["label"] = [int(score) for score in table.pop("score")]
    learns(stage, stage.trainer(losses.OnlineContrastiveLoss, table, max_steps=60))


@sound("labels")
def contrastive_loss_with_a_fifth_of_positives(stage: Stage) -> None:
    """Four pairs that differ to each one that fits, as in logs of clicks."""
    made, draw = facts(160), random.Random(6)
    first, second, labels = [], [], []
    for at, (question, answer) in enumerate(zip(*pairs().values(), strict=True)):
        fits = at % 5 == 0
        first.append(question)
        second.append(answer if fits else passage(draw.choice(made)))
        labels.append(int(fits))
    table = {"sentence1": first, "sentence2": second, "label": labels}
    learns(stage, stage.trainer(losses.ContrastiveLoss, table, max_steps=80))


@sound("labels")
def cosine_loss_with_unequal_shares(stage: Stage) -> None:
    table = _pairs_with_labels()
    learns(stage, stage.trainer(losses.CosineSimilarityLoss, table, max_steps=80))


@sound("classes")
def all_triplets_of_five_classes(stage: Stage) -> None:
    learns(
        stage,
        stage.trainer(losses.BatchAllTripletLoss, classes(of_each=32), max_steps=60),
        lambda model: retrieval(model, _partners()),
        least=0.0,
    )


@sound("classes")
def hard_soft_margin_grouped_by_label(stage: Stage) -> None:
    learns(
        stage,
        stage.trainer(
            losses.BatchHardSoftMarginTripletLoss, classes(), batch_sampler="group_by_label"
        ),
        lambda model: retrieval(model, _partners()),
        least=0.0,
    )


@sound("hard negatives")
def hard_negatives_from_a_file(stage: Stage) -> None:
    """Triplets are read from a CSV file, as where they were mined beforehand."""
    import csv

    from datasets import Dataset

    table, path = triplets(), stage.folder / "triplets.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(table)
        writer.writerows(zip(*table.values(), strict=True))
    rows = Dataset.from_csv(str(path), cache_dir=str(stage.folder / "cache")).to_dict()
    learns(stage, stage.trainer(ranking, rows))


@sound("hard negatives")
def second_stage_with_hard_negatives(stage: Stage) -> None:
    """A short first stage on pairs, then hard negatives at a lower rate."""
    model = tuned(stage, 16)
    learns(stage, stage.trainer(ranking, triplets(), model, learning_rate=2e-4))


@sound("hard negatives")
def triplets_by_a_margin_between_euclidean_distances(stage: Stage) -> None:
    loss = losses.TripletLoss
    learns(
        stage, stage.trainer(lambda model: loss(model, triplet_margin=2), triplets(), max_steps=80)
    )


@sound("distillation")
def margins_of_a_teacher_in_its_unit(stage: Stage) -> None:
    table = triplets()
    margins = [one - other for one, other in word_cosines(table)]
    model = stage.model(normalize=True)
    learns(
        stage, stage.trainer(losses.MarginMSELoss, {**table, "label": margins}, model, max_steps=80)
    )


@sound("distillation")
def translations_after_a_teacher(stage: Stage) -> None:
    """A tuned teacher's embeddings of texts are learned for the texts and their translations."""
    teacher, table = tuned(stage), translations(320)
    labels = teacher.encode(table["english"], show_progress_bar=False).tolist()
    learns(
        stage,
        stage.trainer(losses.MSELoss, {**table, "label": labels}, max_steps=240),
        lambda model: retrieval(model, translations(100, seed=11)),
    )


@sound("adapters")
def adapters_of_rank_sixteen_on_all_layers(stage: Stage) -> None:
    from peft import LoraConfig, TaskType

    model, targets = stage.model(), ["query", "key", "value", "dense"]
    model.add_adapter(
        LoraConfig(
            TaskType.FEATURE_EXTRACTION,
            r=16,
            lora_alpha=32,
            lora_dropout=0.05,
            target_modules=targets,
        )
    )
    learns(stage, stage.trainer(ranking, pairs(), model, learning_rate=2e-3))


@sound("adapters")
def adapters_with_checkpointing(stage: Stage) -> None:
    """Reentrant checkpointing, for which transformers gives the input of layers a gradient."""
    model = stage.model()
    lora(model)
    model[0].auto_model.gradient_checkpointing_enable({"use_reentrant": True})
    learns(stage, stage.trainer(ranking, pairs(), model, learning_rate=2e-3, max_steps=60))


@sound("encoder")
def word_embeddings_frozen(stage: Stage) -> None:
    model = stage.model()
    model[0].auto_model.embeddings.requires_grad_(False)
    learns(stage, stage.trainer(ranking, pairs(), model, max_steps=80))


@sound("encoder")
def dense_layer_to_sixteen(stage: Stage) -> None:
    from sentence_transformers.base.modules import Dense

    model = stage.model()
    torch.manual_seed(3)
    model.append(Dense(32, 16, activation_function=torch.nn.Identity()))
    learns(stage, stage.trainer(ranking, pairs(), model))


@sound("encoder")
def encoder_without_dropout(stage: Stage) -> None:
    learns(stage, stage.trainer(ranking, pairs(), stage.model(dropout=0.0)))


@sound("encoder")
def two_encoders_behind_a_router(stage: Stage) -> None:
    learns(stage, routed(stage, {"anchor": "query", "positive": "document"}), by_routes)


@sound("encoder")
def decoder_with_an_instruction_for_queries(stage: Stage) -> None:
    """The last token is pooled, padding is on the left, and only queries have an instruction."""
    model = stage.model("lasttoken", bert=make_decoder(stage.folder))
    model.tokenizer.padding_side = "left"
    prompts = {"anchor": "zu zo . "}
    learns(
        stage,
        stage.trainer(ranking, pairs(), model, prompts=prompts, max_steps=60),
        lambda model: retrieval(model, prompts=("zu zo . ", "")),
    )


@sound("matryoshka")
def matryoshka_with_falling_weights(stage: Stage) -> None:
    learns(
        stage,
        stage.trainer(
            lambda model: losses.MatryoshkaLoss(
                model, ranking(model), [32, 16, 8, 4], matryoshka_weights=[1.0, 0.8, 0.5, 0.2]
            ),
            pairs(),
        ),
    )


@sound("matryoshka")
def layers_trained_to_end_early(stage: Stage) -> None:
    learns(
        stage,
        stage.trainer(lambda model: losses.AdaptiveLayerLoss(model, ranking(model)), pairs()),
    )


@sound("batches")
def accumulated_triplets(stage: Stage) -> None:
    """A triplet loss has its own negatives, so that accumulation takes nothing away."""
    learns(
        stage,
        stage.trainer(
            losses.TripletLoss,
            triplets(),
            per_device_train_batch_size=8,
            gradient_accumulation_steps=2,
            max_steps=60,
        ),
    )


@sound("batches")
def cached_batches_of_sixty_four(stage: Stage) -> None:
    learns(
        stage,
        stage.trainer(
            lambda model: losses.CachedMultipleNegativesRankingLoss(model, mini_batch_size=8),
            pairs(320),
            per_device_train_batch_size=64,
            max_steps=20,
            warmup_steps=2,
        ),
        every=1,
    )


@sound("batches")
def batches_of_eight_with_symmetric_loss(stage: Stage) -> None:
    learns(
        stage,
        stage.trainer(
            losses.MultipleNegativesSymmetricRankingLoss,
            pairs(),
            per_device_train_batch_size=8,
            max_steps=80,
        ),
    )


@sound("batches")
def one_loss_for_two_kinds_of_pairs(stage: Stage) -> None:
    """Two data sets of different sizes, drawn from by their sizes."""
    from datasets import Dataset, DatasetDict

    trainer = stage.trainer(ranking, pairs(), max_steps=60)
    model = trainer.model
    table: Any = DatasetDict(
        {"first": Dataset.from_dict(pairs(240)), "second": Dataset.from_dict(triplets(80, seed=5))}
    )
    learns(
        stage,
        type(trainer)(model=model, args=trainer.args, train_dataset=table, loss=ranking(model)),
    )


@sound("batches", allowed={r"48|epochs?|few (rows|pairs)": "48 rows are few, which may be said"})
def three_epochs_of_forty_eight_rows(stage: Stage) -> None:
    learns(
        stage,
        stage.trainer(
            ranking, pairs(48), per_device_train_batch_size=8, max_steps=-1, num_train_epochs=4
        ),
        every=1,
    )


@sound("schedule")
def warm_up_of_seven_tenths(stage: Stage) -> None:
    learns(stage, stage.trainer(ranking, pairs(), warmup_steps=42, max_steps=60))


@sound("schedule")
def momentum_at_a_rate_of_its_own(stage: Stage) -> None:
    """SGD with momentum at a thousand times the rate of AdamW."""
    model = stage.model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    learns(
        stage, stage.trainer(ranking, pairs(), model, optimizers=(optimizer, None), max_steps=60)
    )


@sound("schedule")
def rates_that_fall_by_layer(stage: Stage) -> None:
    model = stage.model()
    body = model[0].auto_model
    groups = [
        {"params": list(part.parameters()), "lr": rate}
        for part, rate in (
            (body.embeddings, 1e-4),
            (body.encoder.layer[0], 3e-4),
            (body.encoder.layer[1], 5e-4),
        )
    ]
    learns(
        stage, stage.trainer(ranking, pairs(), model, optimizers=(torch.optim.AdamW(groups), None))
    )


@sound("schedule", allowed={r"clip": "nearly every step is clipped, which may be said"})
def gradients_clipped_at_a_tenth(stage: Stage) -> None:
    """Adam divides by the size of gradients, so that clipping all of them changes little."""
    learns(stage, stage.trainer(ranking, pairs(), max_grad_norm=0.1))


@sound("schedule")
def early_stopping_with_patience(stage: Stage) -> None:
    from transformers import EarlyStoppingCallback

    plan = PLAN | {"save_strategy": "steps", "save_steps": 8, "load_best_model_at_end": True}
    learns(
        stage,
        stage.trainer(
            ranking,
            pairs(),
            evaluator=searching(pairs(60, seed=3)),
            max_steps=120,
            metric_for_best_model="eval_made-up_cosine_ndcg@10",
            callbacks=[EarlyStoppingCallback(3)],
            **plan,
        ),
    )


@sound("data")
def documents_of_sixty_tokens(stage: Stage) -> None:
    table = pairs()
    draw = random.Random(2)
    table["positive"] = [
        f"{text} {' '.join(draw.choices(FILLERS, k=44))}" for text in table["positive"]
    ]
    learns(stage, stage.trainer(ranking, table, max_steps=60))
    inspect(stage, table)


@sound("data")
def queries_of_two_keywords(stage: Stage) -> None:
    made = facts(160)
    table = {
        "query": [f"{fact[2]} {fact[3]}" for fact in made],
        "document": list(map(passage, made)),
    }
    held = facts(100, seed=11)
    held_out = {
        "query": [f"{fact[2]} {fact[3]}" for fact in held],
        "document": list(map(passage, held)),
    }
    learns(stage, stage.trainer(ranking, table), lambda model: retrieval(model, held_out))


@sound("data", allowed={r"repeat|duplicat|stands in|distinct": "a few repeat, which may be said"})
def a_twentieth_of_the_passages_twice(stage: Stage) -> None:
    table = pairs()
    table["positive"] = [
        table["positive"][at - 1] if at % 20 == 19 else text
        for at, text in enumerate(table["positive"])
    ]
    learns(stage, stage.trainer(ranking, table))


@sound("evaluation")
def evaluator_of_triplets(stage: Stage) -> None:
    held = triplets(60, seed=3)
    evaluator = evaluation.TripletEvaluator(*held.values(), name="made-up")
    learns(stage, stage.trainer(ranking, pairs(), evaluator=evaluator, **PLAN))


@sound("evaluation")
def evaluator_of_two_classes_of_pairs(stage: Stage) -> None:
    draw, held = random.Random(8), pairs(60, seed=3)
    others = held["positive"][30:] + held["positive"][:30]
    labels = [draw.randint(0, 1) for _ in range(60)]
    second = [held["positive"][at] if label else others[at] for at, label in enumerate(labels)]
    evaluator = evaluation.BinaryClassificationEvaluator(
        held["anchor"], second, labels, name="made-up"
    )
    learns(stage, stage.trainer(ranking, pairs(), evaluator=evaluator, **PLAN))


@sound("evaluation")
def evaluator_that_ranks_again(stage: Stage) -> None:
    held = pairs(60, seed=3)
    samples = [
        {"query": query, "positive": [text], "negative": held["positive"][at + 1 : at + 6]}
        for at, (query, text) in enumerate(zip(*held.values(), strict=True))
        if at < 50
    ]
    evaluator = evaluation.RerankingEvaluator(samples, name="made-up")
    learns(stage, stage.trainer(ranking, pairs(), evaluator=evaluator, **PLAN))


@sound("evaluation")
def similarity_and_a_ranking_loss(stage: Stage) -> None:
    """Two evaluators one after the other; the first one's metric is the primary one."""
    gold = scored(80, seed=4)
    evaluator = evaluation.SequentialEvaluator(
        [
            searching(pairs(60, seed=3)),
            evaluation.EmbeddingSimilarityEvaluator(*gold.values(), name="pairs"),
        ]
    )
    learns(stage, stage.trainer(ranking, pairs(), evaluator=evaluator, **PLAN))
