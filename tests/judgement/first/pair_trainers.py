"""Trainers of sentence-transformers over pairs and hard negatives."""

from __future__ import annotations

from typing import Any

from sentence_transformers.sentence_transformer import losses
from sentence_transformers.sentence_transformer.modules import Dense, Normalize
from sentence_transformers.sentence_transformer.training_args import BatchSamplers

from tests.judgement.case import sound
from tests.judgement.first.drawn_rows import seeks
from tests.judgement.first.labelled_texts import duplicates, posts
from tests.judgement.first.loop_materials import ranking
from tests.judgement.first.private_texts import captions, mails, nursing
from tests.judgement.first.public_texts import PHRASEBOOK, SHELL, STATUTES, TRIVIA, VACANCIES
from tests.judgement.first.stepwise_updates import prepared, taught
from tests.judgement.first.told_texts import headlines
from tests.judgement.stage import Stage
from tests.judgement.truth import learns

QUICK: dict[str, Any] = {"learning_rate": 2e-3, "max_steps": 70, "warmup_steps": 7,
                         "per_device_train_batch_size": 24}  # fmt: skip


def pairs_of(table: dict[str, list[Any]]) -> dict[str, list[Any]]:
    return dict(list(table.items())[:2])


@sound("everyday pairs, whole epochs")
def headlines_with_leads_over_whole_epochs(stage: Stage) -> None:
    """Six epochs of in-batch negatives with a linear decay; leads are sought by headlines."""
    model, train, held = prepared(stage, headlines, 300)
    settings = {**QUICK, "max_steps": -1, "num_train_epochs": 6, "weight_decay": 0.01}
    learns(stage, stage.trainer(ranking, train, model, **settings), seeks(held), least=0.1)


@sound("prompts for questions and articles")
def law_questions_and_articles_with_prompts(stage: Stage) -> None:
    """Each column has its prompt in training, and the same prompts in the search."""
    prompts = {"question": "query : ", "article": "passage : "}
    model, train, held = prepared(stage, STATUTES, 240, 60, further=prompts.values())
    trainer = stage.trainer(ranking, train, model, prompts=prompts, **{**QUICK, "max_steps": 50})
    learns(stage, trainer, seeks(held, prompts=tuple(prompts.values())), least=0.1)


@sound("cached negatives, large batch")
def mails_in_large_batches_by_cached_gradients(stage: Stage) -> None:
    """Batches of 64 in mini-batches of 16, whose loss equals that of the whole batch."""
    model, train, held = prepared(stage, mails, 400, 60)
    trainer = stage.trainer(
        lambda model: losses.CachedMultipleNegativesRankingLoss(model, mini_batch_size=16),
        train, model, **{**QUICK, "per_device_train_batch_size": 64, "max_steps": 40},
    )  # fmt: skip
    learns(stage, trainer, seeks(held), least=0.1)


@sound("four hard negatives a row")
def vacancies_with_four_near_misses_each(stage: Stage) -> None:
    """Each vacancy has a fitting life and four that differ in one trait, one for each trait."""
    model, train, held = prepared(stage, VACANCIES, 300, 60)
    for slot in range(4):
        train[f"negative_{slot}"] = VACANCIES.near(300, slot=slot)
    settings = {**QUICK, "per_device_train_batch_size": 12, "max_steps": 60}
    learns(stage, stage.trainer(ranking, train, model, **settings), seeks(held), least=0.1)


@sound("both directions")
def phrases_of_two_scripts_in_both_directions(stage: Stage) -> None:
    """Translations are sought from either language: the symmetric loss of bitext mining."""
    model, train, held = prepared(stage, PHRASEBOOK, 320)
    loss = losses.MultipleNegativesSymmetricRankingLoss
    learns(stage, stage.trainer(loss, train, model, **QUICK), seeks(held), least=0.1)


@sound("no text twice in a batch")
def tags_of_posts_without_doubles_in_a_batch(stage: Stage) -> None:
    """Many posts have the same tags; the sampler keeps a text from being its own negative."""
    model, train, held = prepared(stage, posts, 400, 200)
    posts_by_tags = dict(zip(held["tags"], held["post"], strict=True))
    once = {"post": list(posts_by_tags.values()), "tags": list(posts_by_tags)}
    trainer = stage.trainer(
        ranking, pairs_of(train), model, batch_sampler=BatchSamplers.NO_DUPLICATES,
        **{**QUICK, "per_device_train_batch_size": 16},
    )  # fmt: skip
    learns(stage, trainer, seeks(once), least=0.1)


@sound("dense layer and unit length behind")
def commands_through_a_dense_layer_to_unit_length(stage: Stage) -> None:
    """Mean of tokens, a dense layer to 32 dimensions, and embeddings of length one."""
    import torch

    torch.manual_seed(1)
    model, train, held = prepared(
        stage, SHELL, 320, 60, Dense(48, 32, activation_function=torch.nn.Tanh()), Normalize()
    )
    learns(stage, stage.trainer(ranking, train, model, **QUICK), seeks(held), least=0.1)


@sound("nested dimensions")
def quiz_entries_in_nested_dimensions(stage: Stage) -> None:
    """Matryoshka: 48, 24 and 12 dimensions learn together; the cut embeddings are scored."""
    model, train, held = prepared(stage, TRIVIA, 320, 60)

    def nested(model: Any) -> Any:
        return losses.MatryoshkaLoss(model, ranking(model), matryoshka_dims=[48, 24, 12])

    def cut(model: Any) -> float:
        with model.truncate_sentence_embeddings(12):
            return seeks(held)(model)

    learns(stage, stage.trainer(nested, train, model, **QUICK), cut, least=0.1)


@sound("a guide against false negatives")
def duplicate_questions_with_a_guide(stage: Stage) -> None:
    """GIST: a trained guide leaves out negatives that are nearer to it than the positive."""
    guide, train, held = prepared(stage, duplicates, 250, 50, name="guide")
    taught(guide, train, steps=60, size=16)
    model, _, _ = prepared(stage, duplicates, 250, 50, seed=8)
    trainer = stage.trainer(
        lambda model: losses.GISTEmbedLoss(model, guide, temperature=0.05), train, model,
        **{**QUICK, "per_device_train_batch_size": 16},
    )  # fmt: skip
    learns(stage, trainer, seeks(held), least=0.1)


@sound("decoder, last token, instruction")
def captions_by_a_decoder_with_an_instruction(stage: Stage) -> None:
    """A causal body, padded on the left, gives its last token; the caption has an instruction."""
    prompt = "find the same caption : "
    model, train, held = prepared(
        stage, captions, 400, 60, kind="granite", pooling="lasttoken", further=[prompt]
    )
    trainer = stage.trainer(
        ranking, train, model, prompts={"english": prompt}, **{**QUICK, "max_steps": 90}
    )
    learns(stage, trainer, seeks(held, prompts=(prompt, "")), least=0.1)


@sound("accumulation, cosine decay, half precision")
def nurses_notes_accumulated_in_half_precision(stage: Stage) -> None:
    """Two batches of 16 to a step, bfloat16, a cosine decay and clipping at one."""
    model, train, held = prepared(stage, nursing, 400, 60)
    trainer = stage.trainer(
        ranking, train, model, gradient_accumulation_steps=2, bf16=True, max_grad_norm=1.0,
        lr_scheduler_type="cosine", **{**QUICK, "per_device_train_batch_size": 16, "max_steps": 50},
    )  # fmt: skip
    learns(stage, trainer, seeks(held), least=0.1)
