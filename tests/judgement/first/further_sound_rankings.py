"""Sound set-ups: losses that rank within a batch, with the options and texts that they have."""

from __future__ import annotations

from tests.judgement.case import sound
from tests.judgement.first.further_sound_tables import (
    FAST,
    around,
    bilingual,
    by_table,
    foreign,
    identifiers,
    library,
    negatives_of_places,
    of_sets,
    ranking,
    several_answers,
    shuffled,
    teacher,
    titled,
)
from tests.judgement.stage import Stage, facts, pairs, passage, question, triplets
from tests.judgement.truth import alike, among_alike, in_one_place, learns, retrieval


@sound("symmetric ranking of titles and bodies")
def bodies_sought_by_titles_and_titles_by_bodies(stage: Stage) -> None:
    loss = library("MultipleNegativesSymmetricRankingLoss")
    settings = {"per_device_train_batch_size": 32, "warmup_steps": 0.1, **FAST}
    learns(stage, stage.trainer(loss, titled(240), **settings), among_alike)


@sound("two hard negatives in each row")
def two_negatives_of_the_same_place(stage: Stage) -> None:
    settings = {"batch_sampler": "no_duplicates", **FAST}
    learns(stage, stage.trainer(ranking, negatives_of_places(), **settings), in_one_place)


@sound("gradient caching of batches of 64")
def cache_of_chunks_of_eight(stage: Stage) -> None:
    loss = library("CachedMultipleNegativesRankingLoss", mini_batch_size=8)
    settings = {"per_device_train_batch_size": 64, "max_steps": 24, **FAST}
    learns(stage, stage.trainer(loss, pairs(384), **settings), among_alike)


@sound("dot products of normalised embeddings")
def scaled_dot_products_of_unit_length(stage: Stage) -> None:
    from sentence_transformers.util import dot_score

    loss = library("MultipleNegativesRankingLoss", similarity_fct=dot_score, scale=20.0)
    learns(stage, stage.trainer(loss, pairs(), stage.model(normalize=True), **FAST), among_alike)


@sound("a guide trained before")
def cached_guide_of_the_same_field(stage: Stage) -> None:
    loss = library("CachedGISTEmbedLoss", guide=teacher(stage), mini_batch_size=8, temperature=0.05)
    settings = {"per_device_train_batch_size": 32, **FAST}
    learns(stage, stage.trainer(loss, pairs(), **settings), among_alike)


@sound("several right answers to a question")
def two_or_three_answers_to_each_question(stage: Stage) -> None:
    settings = {"batch_sampler": "no_duplicates", **FAST}
    learns(stage, stage.trainer(ranking, several_answers(), **settings), among_alike)


@sound("embeddings from early layers")
def every_layer_made_an_embedding(stage: Stage) -> None:
    loss = around("AdaptiveLayerLoss", ranking, n_layers_per_step=-1)
    learns(stage, stage.trainer(loss, pairs(), **FAST), among_alike)


@sound("two dimensions drawn in each step")
def two_nested_dimensions_of_each_step(stage: Stage) -> None:
    dims = {"matryoshka_dims": [32, 24, 16, 8], "n_dims_per_step": 2}
    loss = around("MatryoshkaLoss", library("MultipleNegativesSymmetricRankingLoss"), **dims)
    learns(stage, stage.trainer(loss, pairs(), **FAST), among_alike)


@sound("identifiers of code")
def dotted_identifiers_and_what_they_do(stage: Stage) -> None:
    settings = {"per_device_train_batch_size": 32, "learning_rate": 2e-3}
    trainer = stage.trainer(ranking, identifiers(320), **settings)
    learns(stage, trainer, by_table(identifiers(200, seed=11)))


@sound("upper and lower case")
def every_third_question_shouted(stage: Stage) -> None:
    table = pairs()
    asked = [text if at % 3 else text.upper() for at, text in enumerate(table["anchor"])]
    learns(stage, stage.trainer(ranking, {**table, "anchor": asked}, **FAST), among_alike)


@sound("long bodies")
def last_words_of_some_bodies_cut_off(stage: Stage) -> None:
    short, long = titled(110), titled(50, seed=2, sentences=5)
    table = shuffled({name: short[name] + long[name] for name in short})
    trainer = stage.trainer(ranking, table, stage.model(length=40), **FAST)
    learns(stage, trainer, among_alike)


@sound("two sets in turns")
def faq_and_translations_by_round_robin(stage: Stage) -> None:
    loss = library("MultipleNegativesSymmetricRankingLoss")
    settings = {"multi_dataset_batch_sampler": "round_robin", "max_steps": 60, **FAST}
    sets = {"faq": pairs(), "translations": bilingual()}
    trainer = of_sets(stage, sets, {"faq": ranking, "translations": loss}, **settings)
    learns(stage, trainer, among_alike)


@sound("three sets in proportion to their sizes")
def faq_titles_and_triplets_in_proportion(stage: Stage) -> None:
    sets = {"faq": pairs(96), "titles": titled(160, seed=2), "hard": triplets(64, seed=3)}
    settings = {"multi_dataset_batch_sampler": "proportional", "batch_sampler": "no_duplicates"}
    trainer = of_sets(stage, sets, dict.fromkeys(sets, ranking), **settings, **FAST)
    learns(stage, trainer, among_alike)


@sound("instruction left out of the mean")
def instruction_that_is_not_pooled(stage: Stage) -> None:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling

    body = stage.model()[0]
    modules = [body, Pooling(32, pooling_mode="mean", include_prompt=False)]
    model = SentenceTransformer(modules=modules, device="cpu")
    asked = "ra lo : "
    trainer = stage.trainer(ranking, pairs(), model, prompts={"anchor": asked}, **FAST)
    learns(stage, trainer, lambda model: retrieval(model, alike(), prompts=(asked, "")))


@sound("questions in one language, passages in another")
def passages_of_another_language(stage: Stage) -> None:
    def across(count: int, seed: int) -> dict[str, list[str]]:
        asked = facts(count, seed)
        return {
            "anchor": [question(fact) for fact in asked],
            "positive": [foreign(passage(fact)) for fact in asked],
        }

    settings = {"per_device_train_batch_size": 32, "max_steps": 80, "learning_rate": 3e-3}
    trainer = stage.trainer(ranking, across(480, 0), **settings)
    learns(stage, trainer, by_table(across(100, 11)))
