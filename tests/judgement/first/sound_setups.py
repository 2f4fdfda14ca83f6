"""Sound set-ups and runs of the held-out half, usual ones and odd ones."""

from __future__ import annotations

import random
from typing import Any

import torch
import torch.nn.functional as F

from tests.judgement.case import sound
from tests.judgement.first.encoders import make_decoder
from tests.judgement.first.labels import inspect, tuned
from tests.judgement.first.runs import (
    PLAN,
    Views,
    infonce,
    loop,
    plain_trainer,
    resumed,
    retrieval,
    similarity,
    translations,
)
from tests.judgement.stage import (
    FILLERS,
    STEPS,
    Stage,
    classes,
    facts,
    lookalike,
    pairs,
    passage,
    question,
    rated,
    scored,
    triplets,
)
from tests.sentence_training import losses
from tests.tiny_models import make_roberta

ranking = losses.MultipleNegativesRankingLoss


@sound("labels")
def cosent_on_two_labels(stage: Stage) -> None:
    first, second, labels = rated()
    table = {"sentence1": first, "sentence2": second, "score": [float(one) for one in labels]}
    stage.play(stage.trainer(losses.CoSENTLoss, table))


@sound("labels")
def cosine_loss_on_scores_from_minus_one(stage: Stage) -> None:
    """Scores from -1 to 1 are cosines that can be reached."""
    table = scored()
    table["score"] = [2 * score - 1 for score in table["score"]]
    stage.play(stage.trainer(losses.CosineSimilarityLoss, table, evaluator=similarity(), **PLAN))


@sound("labels")
def angle_loss_on_two_labels(stage: Stage) -> None:
    first, second, labels = rated()
    table = {"sentence1": first, "sentence2": second, "score": [float(one) for one in labels]}
    stage.play(stage.trainer(losses.AnglELoss, table))


@sound("classes")
def semi_hard_triplets_grouped_by_label(stage: Stage) -> None:
    stage.play(
        stage.trainer(losses.BatchSemiHardTripletLoss, classes(), batch_sampler="group_by_label")
    )


@sound("classes")
def soft_margin_of_four_classes(stage: Stage) -> None:
    """Four balanced classes need no sampler."""
    stage.play(stage.trainer(losses.BatchHardSoftMarginTripletLoss, classes(of_each=40)))


@sound("hard negatives")
def three_hard_negatives(stage: Stage) -> None:
    table = triplets() | {
        f"negative_{number}": [lookalike((*fact[:4], str(number), fact[5])) for fact in facts(160)]
        for number in (2, 3)
    }
    stage.play(stage.trainer(ranking, table))


@sound("hard negatives")
def triplets_with_a_small_margin_between_unit_vectors(stage: Stage) -> None:
    model = stage.model(normalize=True)
    stage.play(
        stage.trainer(lambda one: losses.TripletLoss(one, triplet_margin=0.3), triplets(), model)
    )


@sound("hard negatives")
def random_negatives_of_other_rows(stage: Stage) -> None:
    """Negatives are passages of other questions, as where none were mined."""
    table = pairs()
    table["negative"] = table["positive"][37:] + table["positive"][:37]
    stage.play(stage.trainer(losses.TripletLoss, table))


@sound("loss")
def symmetric_ranking_loss(stage: Stage) -> None:
    stage.play(stage.trainer(losses.MultipleNegativesSymmetricRankingLoss, pairs()))


@sound("loss")
def mega_batch_margins(stage: Stage) -> None:
    stage.play(
        stage.trainer(
            lambda model: losses.MegaBatchMarginLoss(model, use_mini_batched_version=False), pairs()
        )
    )


@sound("loss")
def cached_guided_loss(stage: Stage) -> None:
    guide = stage.model()
    stage.play(
        stage.trainer(
            lambda model: losses.CachedGISTEmbedLoss(
                model, guide, temperature=0.05, mini_batch_size=4
            ),
            pairs(),
        )
    )


@sound("loss")
def unit_vectors_by_dot_products(stage: Stage) -> None:
    from sentence_transformers.util import dot_score

    model = stage.model(normalize=True)
    stage.play(
        stage.trainer(
            lambda one: ranking(one, scale=20.0, similarity_fct=dot_score), pairs(), model
        )
    )


@sound("matryoshka")
def matryoshka_of_cosent(stage: Stage) -> None:
    stage.play(
        stage.trainer(
            lambda model: losses.MatryoshkaLoss(model, losses.CoSENTLoss(model), [32, 16, 8]),
            scored(),
        )
    )


@sound("matryoshka")
def layers_and_dimensions(stage: Stage) -> None:
    stage.play(
        stage.trainer(
            lambda model: losses.Matryoshka2dLoss(model, ranking(model), [32, 16]), pairs()
        )
    )


@sound("distillation")
def scores_of_a_list_of_negatives(stage: Stage) -> None:
    """A teacher that counts common words scores a positive and two negatives."""
    table = triplets()
    table["negative_2"] = [table["negative"][(at + 1) % 160] for at in range(160)]
    columns = [[set(text.split()) for text in table[name]] for name in table]
    label = [
        [4.0 * len(row[0] & other) / len(row[0]) for other in row[1:]]
        for row in zip(*columns, strict=True)
    ]
    model = stage.model(normalize=True)
    stage.play(
        stage.trainer(
            lambda one: losses.DistillKLDivLoss(one, temperature=0.5),
            {**table, "label": label},
            model,
        )
    )


@sound("distillation")
def embeddings_of_a_wider_teacher(stage: Stage) -> None:
    texts = pairs()["positive"]
    projection = torch.randn(32, 48, generator=torch.Generator().manual_seed(2))
    teacher = stage.model(normalize=True).encode(texts, convert_to_tensor=True)
    table = {"text": texts, "label": (teacher @ projection).cpu().tolist()}
    stage.play(stage.trainer(lambda model: losses.MSELoss(model, projection_dim=48), table))


@sound("adapters")
def adapters_of_rank_one(stage: Stage) -> None:
    from peft import LoraConfig, TaskType

    model = stage.model()
    model.add_adapter(
        LoraConfig(TaskType.FEATURE_EXTRACTION, r=1, lora_alpha=16, target_modules=["value"])
    )
    stage.play(stage.trainer(ranking, pairs(), model, learning_rate=1e-3, max_steps=80))


@sound("adapters")
def decoder_with_adapters(stage: Stage) -> None:
    from peft import LoraConfig, TaskType

    model = stage.model("lasttoken", bert=make_decoder(stage.folder))
    model.tokenizer.padding_side = "left"
    targets = ["q_proj", "v_proj"]
    model.add_adapter(
        LoraConfig(TaskType.FEATURE_EXTRACTION, r=8, lora_alpha=16, target_modules=targets)
    )
    stage.play(stage.trainer(ranking, pairs(), model, learning_rate=1e-3))


@sound("adapters")
def adapters_with_a_cache_of_gradients(stage: Stage) -> None:
    from peft import LoraConfig, TaskType

    model, targets = stage.model(), ["query", "value", "dense"]
    model.add_adapter(
        LoraConfig(TaskType.FEATURE_EXTRACTION, r=4, lora_alpha=16, target_modules=targets)
    )
    stage.play(
        stage.trainer(
            lambda one: losses.CachedMultipleNegativesRankingLoss(one, mini_batch_size=8),
            pairs(), model, learning_rate=1e-3, per_device_train_batch_size=32,
        )
    )  # fmt: skip


@sound("encoder")
def mean_of_a_decoder(stage: Stage) -> None:
    model = stage.model("mean", bert=make_decoder(stage.folder))
    model.tokenizer.padding_side = "right"
    stage.play(stage.trainer(ranking, pairs(), model))


@sound("encoder")
def roberta_with_a_maximum(stage: Stage) -> None:
    model = stage.model("max", bert=make_roberta(stage.folder / "roberta"))
    stage.play(stage.trainer(ranking, pairs(), model, max_steps=80))


@sound("encoder")
def only_the_last_layer_trained(stage: Stage) -> None:
    model = stage.model()
    model.requires_grad_(False)
    model[0].auto_model.encoder.layer[-1].requires_grad_(True)
    stage.play(stage.trainer(ranking, pairs(), model, max_steps=80))


@sound("batches", allowed={r"4 candidates": "four are few, which may be said"})
def batches_of_four(stage: Stage) -> None:
    stage.play(stage.trainer(ranking, pairs(), per_device_train_batch_size=4, max_steps=80))


@sound("batches")
def one_epoch_of_large_batches(stage: Stage) -> None:
    """1,280 rows in twenty batches of 64."""
    stage.play(
        stage.trainer(ranking, pairs(1280), per_device_train_batch_size=64, max_steps=-1,
                      num_train_epochs=1, warmup_steps=1),
        every=1,
    )  # fmt: skip


@sound("batches")
def easy_rows_first_and_shuffled_in_blocks(stage: Stage) -> None:
    """A curriculum: shorter passages first, and chance within blocks of 40."""
    from torch.utils.data import BatchSampler

    made, draw = facts(160), random.Random(4)
    table = {
        "anchor": list(map(question, made)),
        "positive": [passage(fact, fillers=1 + at // 16) for at, fact in enumerate(made)],
    }
    order = [place for at in range(0, 160, 40) for place in draw.sample(range(at, at + 40), 40)]
    trainer = stage.trainer(ranking, table)
    trainer.get_batch_sampler = lambda dataset, batch_size, drop_last, **_: BatchSampler(
        order, batch_size, drop_last
    )
    stage.play(trainer)


@sound("batches")
def two_datasets_with_a_loss_each(stage: Stage) -> None:
    from datasets import Dataset, DatasetDict

    trainer = stage.trainer(ranking, pairs(), max_steps=60)
    model = trainer.model
    table: Any = DatasetDict(
        {"pairs": Dataset.from_dict(pairs()), "scored": Dataset.from_dict(scored())}
    )
    chosen = {"pairs": ranking(model), "scored": losses.CoSENTLoss(model)}
    stage.play(type(trainer)(model=model, args=trainer.args, train_dataset=table, loss=chosen))


@sound("schedule")
def warm_up_of_half_the_run(stage: Stage) -> None:
    stage.play(stage.trainer(ranking, pairs(), warmup_steps=STEPS // 2))


@sound("schedule")
def cosine_with_restarts(stage: Stage) -> None:
    stage.play(
        stage.trainer(ranking, pairs(), lr_scheduler_type="cosine_with_restarts",
                      lr_scheduler_kwargs={"num_cycles": 3}, max_steps=60)
    )  # fmt: skip


@sound("schedule")
def adafactor_at_a_constant_rate(stage: Stage) -> None:
    stage.play(
        stage.trainer(ranking, pairs(), optim="adafactor", lr_scheduler_type="constant",
                      warmup_steps=0)
    )  # fmt: skip


@sound("precision")
def mixed_precision_of_brain_floats(stage: Stage) -> None:
    stage.play(stage.trainer(ranking, pairs(), bf16=True))


@sound("tuned encoder")
def short_fine_tune_that_improves_little(stage: Stage) -> None:
    model, evaluator = tuned(stage, 16), retrieval(pairs(60, seed=3))
    stage.play(
        stage.trainer(ranking, pairs(), model, evaluator=evaluator, learning_rate=5e-5, **PLAN)
    )


@sound(
    "tuned encoder", allowed={r"learning rate": "it is tiny; the tool may ask whether on purpose"}
)
def tiny_rate_on_purpose(stage: Stage) -> None:
    """The last polish of a tuned encoder: it must hardly move."""
    model, evaluator = tuned(stage, 16), retrieval(pairs(60, seed=3))
    stage.play(
        stage.trainer(ranking, pairs(), model, evaluator=evaluator, learning_rate=2e-6, **PLAN)
    )


@sound("data")
def translations_without_a_common_word(stage: Stage) -> None:
    """Good pairs that an untuned encoder cannot know."""
    stage.play(stage.trainer(ranking, translations(160)))


@sound("data")
def keywords_and_long_passages(stage: Stage) -> None:
    made = facts(160)
    table = {
        "query": [f"{fact[1]} {fact[2]}" for fact in made],
        "document": [passage(fact, fillers=30) for fact in made],
    }
    stage.play(stage.trainer(ranking, table))
    inspect(stage, table)


@sound("data", allowed={r"truncat|cut off|length": "a tenth of the texts is cut; it may be said"})
def a_tenth_of_the_passages_cut_off(stage: Stage) -> None:
    draw, table = random.Random(1), pairs()
    table["positive"] = [
        f"{text} {' '.join(draw.choices(FILLERS, k=40))}" if at % 10 == 0 else text
        for at, text in enumerate(table["positive"])
    ]
    stage.play(stage.trainer(ranking, table, stage.model(length=24)))


@sound("data")
def four_questions_to_each_passage(stage: Stage) -> None:
    """Passages repeat, and a sampler keeps them apart."""
    made = facts(40)
    table: dict[str, list[str]] = {"question": [], "passage": []}
    for verb, thing, place, near, *rest in made:
        for words in (f"{verb} {thing}", f"{thing} {place}", f"{place} {near} {verb}",
                      f"{near} {thing}"):  # fmt: skip
            table["question"].append(f"ka {words} ?")
            table["passage"].append(passage((verb, thing, place, near, *rest)))
    stage.play(stage.trainer(ranking, table, batch_sampler="no_duplicates"))


@sound("evaluation")
def prompts_in_training_and_evaluation(stage: Stage) -> None:
    prompts = {"anchor": "zu zo : ", "positive": "vu vo : "}
    evaluator = retrieval(
        pairs(60, seed=3), query_prompt=prompts["anchor"], corpus_prompt=prompts["positive"]
    )
    stage.play(stage.trainer(ranking, pairs(), evaluator=evaluator, prompts=prompts, **PLAN))


@sound("evaluation")
def best_checkpoint_by_a_held_out_loss(stage: Stage) -> None:
    from datasets import Dataset

    stage.play(
        stage.trainer(ranking, pairs(), eval_dataset=Dataset.from_dict(pairs(64, seed=3)),
                      save_strategy="steps", save_steps=8, load_best_model_at_end=True,
                      metric_for_best_model="eval_loss", greater_is_better=False, **PLAN)
    )  # fmt: skip


@sound("resumed")
def resumed_in_the_middle(stage: Stage) -> None:
    resumed(stage, ranking, pairs(), (STEPS // 2, 2 * STEPS))


@sound("own loop")
def loop_of_alignment_and_uniformity(stage: Stage) -> None:
    def criterion(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        first, second = F.normalize(first, dim=1), F.normalize(second, dim=1)
        apart = torch.pdist(first).square().mul(-2).exp().mean().log()
        return (first - second).square().sum(1).mean() + apart

    loop(stage, criterion)


@sound("own loop")
def loop_of_a_ranking_loss_of_ones_own(stage: Stage) -> None:
    loop(stage, infonce)


@sound("own trainer")
def plain_trainer_of_both_directions(stage: Stage) -> None:
    def criterion(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        targets, logits = torch.arange(len(first)), first @ second.T / 0.1
        return (F.cross_entropy(logits, targets) + F.cross_entropy(logits.T, targets)) / 2

    trainer = plain_trainer(stage, Views(criterion))
    stage.play(trainer, views=("z1", "z2"), loss="symmetric(infonce(temperature=0.1))", every=5)
