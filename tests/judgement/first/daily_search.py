"""Sound set-ups: search in everyday fields by ranking losses."""

from __future__ import annotations

from tests.judgement.case import sound
from tests.judgement.first.common_tools import QUICK, fresh, warm
from tests.judgement.first.drawn_texts import photos
from tests.judgement.first.loop_materials import ranking
from tests.judgement.first.slot_fields import (
    ADDRESSES,
    CHATS,
    FUNCTIONS,
    HEADLINES,
    JAPANESE,
    JOBS,
    MAILS,
    QUERIES,
    RECIPES,
    RUSSIAN,
    STATUTES,
)
from tests.judgement.stage import Stage
from tests.judgement.truth import learns, retrieval
from tests.sentence_training import losses


@sound("recipes, titles and long steps")
def recipe_titles_find_their_steps(stage: Stage) -> None:
    """The usual ranking loss on pairs; rows differ, so other rows of a batch are negatives."""
    table = RECIPES.table(400)
    trainer = stage.trainer(ranking, table, fresh(stage, table), **QUICK)
    learns(stage, trainer, RECIPES.sought, least=0.1)


@sound("statutes, normalised encoder, cosine schedule")
def laymen_ask_about_statutes(stage: Stage) -> None:
    """Short questions and long articles, which are kept whole; cosine decay after a warm-up."""
    from sentence_transformers.sentence_transformer.modules import Normalize

    table = STATUTES.table(500)
    model = fresh(stage, table, behind=[Normalize()])
    trainer = stage.trainer(
        ranking, table, model, learning_rate=2e-3, max_steps=80, warmup_steps=8,
        lr_scheduler_type="cosine", per_device_train_batch_size=24,
    )  # fmt: skip
    learns(stage, trainer, STATUTES.sought, least=0.1)


@sound("addresses, symmetric loss")
def addresses_matched_with_the_register(stage: Stage) -> None:
    """Both directions are wanted in record linkage: the symmetric ranking loss is apt."""
    table = ADDRESSES.table(360)
    trainer = stage.trainer(
        losses.MultipleNegativesSymmetricRankingLoss, table, fresh(stage, table), **QUICK
    )
    learns(stage, trainer, ADDRESSES.sought, least=0.1)


@sound("code search, cached loss with a large batch")
def docstrings_find_their_functions(stage: Stage) -> None:
    """A batch of 64 by gradient caching in parts of 16; embeddings are those of one batch."""
    table = FUNCTIONS.table(480)
    trainer = stage.trainer(
        lambda model: losses.CachedMultipleNegativesRankingLoss(model, mini_batch_size=16),
        table, fresh(stage, table), per_device_train_batch_size=64, learning_rate=2e-3,
        max_steps=35,
    )  # fmt: skip
    learns(stage, trainer, FUNCTIONS.sought, least=0.1)


@sound("questions and SQL, max pooling, small batch")
def analysts_questions_find_sql(stage: Stage) -> None:
    """Eight rows a batch suffice, since rows that differ by a word or two are common."""
    table = QUERIES.table(600)
    model = fresh(stage, table, pooling="max")
    trainer = stage.trainer(
        ranking, table, model, per_device_train_batch_size=8, learning_rate=1.5e-3, max_steps=120
    )
    learns(stage, trainer, QUERIES.sought, least=0.1)


@sound("posts and profiles, prompts on both sides")
def posts_find_profiles_with_prompts(stage: Stage) -> None:
    """Prompts as in E5 in training and in use alike."""
    prompts = {"post": "query : ", "profile": "passage : "}
    table = JOBS.table(400)
    model = fresh(stage, table, extras=["query : passage :"], prompts=prompts)
    trainer = stage.trainer(ranking, table, model, prompts=prompts, **QUICK)
    learns(
        stage, trainer, lambda model: JOBS.sought(model, prompts=("query : ", "passage : ")),
        least=0.1,
    )  # fmt: skip


@sound("mails, pre-trained encoder, low rate and weight decay")
def subjects_find_mails_after_pretraining(stage: Stage) -> None:
    """An encoder that already knows the field is tuned on further rows at a lower rate."""
    earlier, table = MAILS.table(120, seed=2), MAILS.table(120, seed=4)
    model = warm(stage, earlier, table, steps=15)
    trainer = stage.trainer(
        ranking, table, model, learning_rate=8e-4, weight_decay=0.05, max_steps=60,
        warmup_ratio=0.1,
    )  # fmt: skip
    learns(stage, trainer, MAILS.sought, least=0.1)


@sound("Russian, evaluator of retrieval while training")
def russian_travellers_find_answers(stage: Stage) -> None:
    """Cyrillic texts; held-out questions are evaluated every 20 steps."""
    from tests.sentence_training import evaluation

    table, tested = RUSSIAN.table(240), RUSSIAN.table(40, seed=11)
    questions, answers = tested.values()
    evaluator = evaluation.InformationRetrievalEvaluator(
        {f"q{row}": text for row, text in enumerate(questions)},
        {f"d{row}": text for row, text in enumerate(answers)},
        {f"q{row}": {f"d{row}"} for row in range(len(questions))},
        mrr_at_k=[10], ndcg_at_k=[10], accuracy_at_k=[1], precision_recall_at_k=[1], map_at_k=[10],
    )  # fmt: skip
    trainer = stage.trainer(
        ranking, table, fresh(stage, table), evaluator=evaluator, eval_strategy="steps",
        eval_steps=20, **QUICK,
    )  # fmt: skip
    learns(stage, trainer, RUSSIAN.sought, least=0.1)


@sound("Japanese, dot products and a wider body")
def japanese_shoppers_find_wares(stage: Stage) -> None:
    """Dot products of unnormalised embeddings at scale one, as dense retrievers have them.

    Remark: dot products are compared in training, and cosines in the score.
    """
    from sentence_transformers.util import dot_score

    table = JAPANESE.table(400)
    trainer = stage.trainer(
        lambda model: losses.MultipleNegativesRankingLoss(
            model, scale=1.0, similarity_fct=dot_score
        ),
        table, fresh(stage, table, width=64), learning_rate=1e-3, max_steps=70,
    )  # fmt: skip
    learns(stage, trainer, JAPANESE.sought, least=0.1)


@sound("chat turns, whole epochs, no dropout")
def turns_find_the_reply(stage: Stage) -> None:
    """Four epochs over the turns; without dropout, since no view is compared with itself.

    Remark: without dropout a small set may be learned by heart; held-out turns are found.
    """
    table = CHATS.table(320)
    trainer = stage.trainer(
        ranking, table, fresh(stage, table, dropout=0.0), num_train_epochs=4, max_steps=-1,
        learning_rate=1.5e-3,
    )  # fmt: skip
    learns(stage, trainer, CHATS.sought, least=0.1)


@sound("headlines, accumulation and clipping")
def headlines_find_their_leads(stage: Stage) -> None:
    """Two batches of 16 are accumulated for a step, and gradients are clipped at one."""
    table = HEADLINES.table(480)
    trainer = stage.trainer(
        ranking, table, fresh(stage, table), gradient_accumulation_steps=2, max_grad_norm=1.0,
        learning_rate=2e-3, max_steps=45,
    )  # fmt: skip
    learns(stage, trainer, HEADLINES.sought, least=0.1)


@sound("captions and tags in any order")
def captions_find_their_tags(stage: Stage) -> None:
    """Tags in any order are a text as well; a batch holds no text twice."""
    table = photos(320)
    trainer = stage.trainer(
        ranking, table, fresh(stage, table, photos(40, True)), batch_sampler="no_duplicates",
        **QUICK,
    )  # fmt: skip
    learns(stage, trainer, lambda model: retrieval(model, photos(40, True)), least=0.1)
