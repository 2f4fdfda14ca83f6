"""Sound set-ups: schedules, optimisers, batches and data, ordinary and odd."""

from __future__ import annotations

import random
from typing import Any

from tests.judgement.case import sound
from tests.judgement.first.damaged_texts import EVALUATED, searching
from tests.judgement.first.materials import pretrained, ranking, translated
from tests.judgement.first.pair_labels import cosent, labelled
from tests.judgement.first.repeated_rows import shuffled
from tests.judgement.first.used_otherwise import PASSAGE, QUERY, asked_both
from tests.judgement.stage import PEOPLE, Stage, facts, pairs, passage, question
from tests.judgement.truth import alike, among_alike, learns, retrieval

FAST = {"learning_rate": 1e-3}


@sound("warm-up over half of the run")
def warm_up_for_half_of_the_steps(stage: Stage) -> None:
    learns(stage, stage.trainer(ranking, pairs(), warmup_steps=20, **FAST), among_alike)


@sound("cosine schedule")
def rate_falls_as_a_cosine(stage: Stage) -> None:
    settings = {"lr_scheduler_type": "cosine", "warmup_steps": 0, **FAST}
    learns(stage, stage.trainer(ranking, pairs(), **settings), among_alike)


@sound("constant rate")
def rate_stays(stage: Stage) -> None:
    settings = {"lr_scheduler_type": "constant", "warmup_steps": 0}
    learns(stage, stage.trainer(ranking, pairs(), **settings), among_alike)


@sound("epochs in place of steps")
def four_epochs(stage: Stage) -> None:
    settings = {"max_steps": -1, "num_train_epochs": 4, "warmup_steps": 0.1}
    learns(stage, stage.trainer(ranking, pairs(), **settings, **FAST), among_alike)


@sound("accumulated gradients")
def gradients_of_four_batches(stage: Stage) -> None:
    settings = {"gradient_accumulation_steps": 4, "max_steps": 20}
    learns(stage, stage.trainer(ranking, pairs(), **settings, **FAST), among_alike)


@sound("small batches")
def batches_of_four_pairs(stage: Stage) -> None:
    settings = {"per_device_train_batch_size": 4, "max_steps": 80}
    learns(stage, stage.trainer(ranking, pairs(), **settings, **FAST), among_alike)


@sound("batches as large as the data")
def one_batch_of_all_rows(stage: Stage) -> None:
    settings = {"per_device_train_batch_size": 96, "max_steps": 24}
    learns(stage, stage.trainer(ranking, pairs(96), **settings, **FAST), among_alike)


@sound("tiny data")
def forty_pairs_for_many_epochs(stage: Stage) -> None:
    settings = {"per_device_train_batch_size": 8, "max_steps": 40}
    learns(stage, stage.trainer(ranking, pairs(40), **settings, **FAST), retrieval)


@sound("plain gradient descent")
def sgd_with_momentum(stage: Stage) -> None:
    settings = {"optim": "sgd", "optim_args": "momentum=0.9", "learning_rate": 0.05}
    learns(stage, stage.trainer(ranking, pairs(), **settings), among_alike)


@sound("Adafactor")
def adafactor_at_a_fixed_rate(stage: Stage) -> None:
    settings = {"optim": "adafactor", "learning_rate": 5e-3}
    learns(stage, stage.trainer(ranking, pairs(), **settings), among_alike)


@sound("weight decay")
def decay_of_a_tenth(stage: Stage) -> None:
    learns(stage, stage.trainer(ranking, pairs(), weight_decay=0.1, **FAST), among_alike)


@sound("scale of 50")
def sharp_scale(stage: Stage) -> None:
    from tests.sentence_training import losses

    def loss(model: Any) -> Any:
        return losses.MultipleNegativesRankingLoss(model, scale=50.0)

    learns(stage, stage.trainer(loss, pairs(), **FAST), among_alike)


@sound("scale of 10")
def gentle_scale(stage: Stage) -> None:
    from tests.sentence_training import losses

    def loss(model: Any) -> Any:
        return losses.MultipleNegativesRankingLoss(model, scale=10.0)

    learns(stage, stage.trainer(loss, pairs(), **FAST), among_alike)


@sound("answers shared by questions, kept apart by the sampler")
def twenty_answers_of_a_help_desk(stage: Stage) -> None:
    table: dict[str, list[str]] = {"question": [], "answer": []}
    for fact in facts(40):
        words = question(fact).split()[1:-1]
        for at in range(4):
            turned = words[at:] + words[:at]
            table["question"].append(" ".join([("ka", "ti", "lo", "ra")[at], *turned, "?"]))
            table["answer"].append(passage(fact))
    settings = {"batch_sampler": "no_duplicates", **FAST}
    learns(stage, stage.trainer(ranking, shuffled(table), **settings), among_alike)


@sound("a few repeated questions")
def questions_asked_twice(stage: Stage) -> None:
    asked = facts(150)
    asked += [(*fact[:4], PEOPLE[3], "41") for fact in asked[:10]]
    table = {"anchor": [*map(question, asked)], "positive": [*map(passage, asked)]}
    learns(stage, stage.trainer(ranking, shuffled(table), **FAST), among_alike)


@sound("some pairs wrong, as in any data")
def one_pair_in_twenty_is_wrong(stage: Stage) -> None:
    table = pairs()
    positives = list(table["positive"])
    wrong = random.Random(5).sample(range(160), 8)
    for at, source in zip(wrong, wrong[1:] + wrong[:1], strict=True):
        positives[at] = table["positive"][source]
    learns(stage, stage.trainer(ranking, table | {"positive": positives}, **FAST), among_alike)


@sound("some rows without a label of their own")
def scores_with_few_values(stage: Stage) -> None:
    table = labelled()
    thirds = [(0.0, 0.5, 1.0)[int(2 * mark) if at % 8 else 1] for at, mark in
              enumerate(table["label"])]  # fmt: skip
    learns(stage, stage.trainer(cosent, {**table, "label": thirds}, **FAST), retrieval)


@sound("two languages")
def translations_as_pairs(stage: Stage) -> None:
    texts = [question(fact) for fact in facts(320)]
    table = {"english": texts, "german": [translated(text) for text in texts]}
    unseen = [question(fact) for fact in facts(100, seed=11)]
    searched = {"english": unseen, "german": [translated(text) for text in unseen]}
    settings = {"learning_rate": 2e-3, "max_steps": 60}
    learns(
        stage,
        stage.trainer(ranking, table, **settings),
        lambda model: retrieval(model, searched),
    )


@sound("two data sets with a loss each")
def pairs_and_scored_pairs(stage: Stage) -> None:
    from datasets import Dataset

    first = stage.trainer(ranking, pairs(), **FAST)
    sets = {"faq": Dataset.from_dict(pairs()), "sts": Dataset.from_dict(labelled())}
    of_sets = {"faq": ranking(first.model), "sts": cosent(first.model)}
    trainer = type(first)(model=first.model, args=first.args, train_dataset=sets, loss=of_sets)
    learns(stage, trainer, among_alike)


@sound("prompts for both columns")
def prompt_for_each_column(stage: Stage) -> None:
    evaluator = searching(alike(), query_prompt=QUERY, corpus_prompt=PASSAGE)
    prompts = {"anchor": QUERY, "positive": PASSAGE}
    settings = {"prompts": prompts, "evaluator": evaluator, **EVALUATED, **FAST}
    learns(stage, stage.trainer(ranking, pairs(), **settings), asked_both)


@sound("a trained encoder trained further")
def second_training(stage: Stage) -> None:
    folder = pretrained(stage, pairs(), max_steps=40, learning_rate=1e-3)
    trainer = stage.trainer(ranking, pairs(160, seed=5), stage.model(bert=folder), **FAST)
    learns(stage, trainer, among_alike)


@sound("best checkpoint kept")
def best_checkpoint_by_search(stage: Stage) -> None:
    settings = {
        "save_strategy": "steps",
        "save_steps": 10,
        "load_best_model_at_end": True,
        "metric_for_best_model": "search_cosine_ndcg@10",
        "save_total_limit": 2,
        **EVALUATED,
        **FAST,
    }
    evaluator = searching(alike())
    learns(stage, stage.trainer(ranking, pairs(), evaluator=evaluator, **settings), among_alike)


@sound("keywords as questions")
def two_words_for_a_question(stage: Stage) -> None:
    asked = facts(160)
    table = {
        "anchor": [f"{fact[1]} {fact[2]}" for fact in asked],
        "positive": [*map(passage, asked)],
    }
    unseen = alike()
    unseen["anchor"] = [" ".join(text.split()[2:4]) for text in unseen["anchor"]]
    learns(
        stage,
        stage.trainer(ranking, table, **FAST),
        lambda model: retrieval(model, unseen),
    )


@sound("some long passages cut off")
def ends_of_some_passages_cut_off(stage: Stage) -> None:
    asked = facts(160)
    table = {
        "anchor": [*map(question, asked)],
        "positive": [passage(fact, 2 + 2 * (at % 7)) for at, fact in enumerate(asked)],
    }
    trainer = stage.trainer(ranking, table, stage.model(length=16), **FAST)
    learns(stage, trainer, among_alike)
