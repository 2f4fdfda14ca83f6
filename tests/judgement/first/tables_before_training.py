"""Sound set-ups: tables of texts looked at before the training that proves them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.judgement.case import sound
from tests.judgement.first.bodies import encoder
from tests.judgement.first.everyday_subjects import ADDRESSES, PARTS, RECIPES
from tests.judgement.first.expert_subjects import CYRILLIC
from tests.judgement.first.subject_kit import Subject, schooled
from tests.judgement.stage import Stage
from tests.judgement.truth import learns
from tests.sentence_training import losses


def _looked_at(
    stage: Stage, subject: Subject, table: Mapping[str, Sequence[Any]], **options: Any
) -> Any:
    """An encoder that knows the subject a little; the table is inspected with it as saved."""
    model = encoder(stage, subject.words(), spread=0.05, **options)
    schooled(stage, model, subject.pairs(200, seed=7), steps=25)
    model.save(str(stage.folder / "first"))
    stage.inspect(table, str(stage.folder / "first"))
    return model


@sound("table of titles and long recipes")
def table_of_titles_and_recipes(stage: Stage) -> None:
    """Short titles and long recipes, each once: sound pairs, from which retrieval is learned."""
    table = RECIPES.pairs(320)
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, table, _looked_at(stage, RECIPES, table),
        max_steps=150, learning_rate=1e-3,
    )  # fmt: skip
    learns(stage, trainer, RECIPES.sought(50), least=0.1)


@sound("table of parts with a hard negative each")
def table_of_parts_with_near_misses(stage: Stage) -> None:
    """Each part stands beside one of another side, make, kind or year: a true hard negative."""
    table = PARTS.with_negatives(400)
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, table, _looked_at(stage, PARTS, table),
        max_steps=120, learning_rate=1e-3,
    )  # fmt: skip
    learns(stage, trainer, PARTS.sought(60), least=0.1)


@sound("table of translations into another script")
def table_of_cyrillic_translations(stage: Stage) -> None:
    """Sentences and their translations, which share no word and no letter."""
    table = CYRILLIC.pairs(500)
    trainer = stage.trainer(
        losses.MultipleNegativesSymmetricRankingLoss, table,
        _looked_at(stage, CYRILLIC, table, kind="distilbert"), max_steps=120, learning_rate=1e-3,
        per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, CYRILLIC.sought(60), least=0.1)


@sound("table of addresses, each with that of a neighbour")
def table_of_addresses_and_neighbours(stage: Stage) -> None:
    """Long and short forms of an address, and one that differs in number, street, town or flat."""
    table = ADDRESSES.with_negatives(400)
    trainer = stage.trainer(
        lambda model: losses.TripletLoss(
            model, distance_metric=losses.TripletDistanceMetric.COSINE, triplet_margin=0.2
        ),
        table, _looked_at(stage, ADDRESSES, table), max_steps=150, learning_rate=1e-3,
    )  # fmt: skip
    learns(stage, trainer, ADDRESSES.sought(60), least=0.05)
