"""Sound trainings on several data sets, streams, prompts, and losses around other losses."""

from __future__ import annotations

from typing import Any

from tests.judgement.case import sound
from tests.judgement.first.sound_labels import judged
from tests.judgement.first.sound_texts import (
    asked,
    learned,
    made,
    searched,
    sold,
    sought,
    titled,
    translated,
)
from tests.judgement.stage import Stage, facts, pairs, passage, triplets
from tests.judgement.truth import retrieval
from tests.sentence_training import losses

ranking = losses.MultipleNegativesRankingLoss


def remade(plain: Any, rows: Any, loss: Any) -> Any:
    """The trainer with other rows and another loss, or one for each data set."""
    return type(plain)(model=plain.model, args=plain.args, train_dataset=rows, loss=loss)


def datasets_of(tables: dict[str, dict[str, Any]]) -> Any:
    """Data sets by name."""
    from datasets import Dataset, DatasetDict

    return DatasetDict({name: Dataset.from_dict(table) for name, table in tables.items()})


@sound("several data sets")
def pairs_and_scores_each_with_its_loss(stage: Stage) -> None:
    plain = stage.trainer(ranking, pairs(), max_steps=60)
    rows = datasets_of({"asked": made(asked), "judged": judged(160)})
    model = plain.model
    trainer = remade(plain, rows, {"asked": ranking(model), "judged": losses.CoSENTLoss(model)})
    learned(stage, trainer, sought(asked))


@sound("several data sets")
def large_and_small_sets_by_their_sizes(stage: Stage) -> None:
    plain = stage.trainer(
        ranking, pairs(), max_steps=50, multi_dataset_batch_sampler="proportional"
    )
    rows = datasets_of({"asked": made(asked, 400), "titled": made(titled, 64, seed=2)})
    learned(stage, remade(plain, rows, ranking(plain.model)), sought(asked))


@sound("several data sets")
def pairs_beside_triplets(stage: Stage) -> None:
    plain = stage.trainer(ranking, pairs(), max_steps=50, multi_dataset_batch_sampler="round_robin")
    rows = datasets_of({"sold": made(sold), "hard": triplets(160, seed=2)})
    learned(stage, remade(plain, rows, ranking(plain.model)))


@sound("data")
def stream_of_titles_shuffled_in_a_buffer(stage: Stage) -> None:
    from datasets import Dataset

    plain = stage.trainer(ranking, pairs(), max_steps=45)
    rows = Dataset.from_dict(made(titled, 800)).to_iterable_dataset(num_shards=4)
    rows = rows.shuffle(seed=3, buffer_size=200)
    learned(stage, remade(plain, rows, ranking(plain.model)), sought(titled))


@sound("prompts")
def queries_and_documents_with_prompts(stage: Stage) -> None:
    """The prompts are those with which the score is measured."""
    prompts = {"query": "ka : ", "document": "bo : "}
    model = stage.model()
    model.prompts = dict(prompts)
    trainer = stage.trainer(ranking, made(searched), model, prompts=prompts)
    learned(stage, trainer, sought(searched, prompts=tuple(prompts.values())))


@sound("matryoshka")
def shorter_vectors_drawn_at_random(stage: Stage) -> None:
    """Two lengths a step; the score is that of the first sixteen dimensions."""
    trainer = stage.trainer(
        lambda model: losses.MatryoshkaLoss(model, ranking(model), [32, 16, 8], n_dims_per_step=2),
        made(titled),
        max_steps=50,
    )

    def shortened(model: Any) -> float:
        model.truncate_dim = 16
        score = sought(titled)(model)
        model.truncate_dim = None
        return score

    learned(stage, trainer, shortened)


@sound("matryoshka")
def shorter_vectors_from_fewer_layers(stage: Stage) -> None:
    trainer = stage.trainer(
        lambda model: losses.Matryoshka2dLoss(model, ranking(model), [32, 16]),
        pairs(),
        max_steps=50,
    )
    learned(stage, trainer)


@sound("unsupervised")
def halves_of_a_document(stage: Stage) -> None:
    """Two spans of a document share its subject, and need no labels."""
    rows = facts(320)
    table = {
        "first": [f"{verb} {topic} {place} {near} ." for verb, topic, place, near, *_ in rows],
        "second": [passage(fact, fillers=6) for fact in rows],
    }
    learned(stage, stage.trainer(ranking, table))


@sound("hard negatives")
def three_lookalikes_beside_the_batch(stage: Stage) -> None:
    table = made(asked)
    for number in range(3):
        changed_facts = facts(160, seed=20 + number)
        table[f"negative_{number + 1}"] = [
            passage((*changed[:2], *fact[2:]), fillers=4)
            for changed, fact in zip(changed_facts, facts(160), strict=True)
        ]
    learned(stage, stage.trainer(ranking, table, per_device_train_batch_size=8), sought(asked))


@sound("data")
def translations_in_either_direction(stage: Stage) -> None:
    table = made(translated, 400)
    tables = {
        "first": table["home"] + table["abroad"][:200],
        "second": table["abroad"] + table["home"][:200],
    }
    trainer = stage.trainer(ranking, tables, max_steps=80, batch_sampler="no_duplicates")
    learned(stage, trainer, lambda model: retrieval(model, made(translated, 100, seed=11)))
