"""Sound set-ups: encoders of other shapes, poolings, adapters and nested dimensions."""

from __future__ import annotations

from typing import Any

import torch

from tests.judgement.case import sound
from tests.judgement.first.bodies import body, tokenizer_of, words_of
from tests.judgement.first.common_tools import Table, fresh, warm
from tests.judgement.first.loop_materials import ranking
from tests.judgement.first.slot_fields import (
    ALARMS,
    CHATS,
    JOBS,
    MAILS,
    PHRASES,
    QUERIES,
    RUSSIAN,
)
from tests.judgement.stage import Stage
from tests.judgement.truth import learns, retrieval
from tests.sentence_training import losses, modules


def stacked(*segments: Any) -> Any:
    """An encoder of modules."""
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(modules=list(segments), device="cpu")


def static(table: Table, width: int = 64) -> Any:
    """Embeddings of words that are averaged without a transformer."""
    torch.manual_seed(6)
    return modules.StaticEmbedding(tokenizer_of(words_of([table])), embedding_dim=width)


@sound("static embeddings, nested dimensions, high rate")
def static_embeddings_of_queries(stage: Stage) -> None:
    """Words without a transformer bear rates of 0.05; nested dimensions as the authors have it.

    Remark: the rate would be far too high for a transformer.
    """
    table = QUERIES.table(500)
    trainer = stage.trainer(
        lambda model: losses.MatryoshkaLoss(
            model, losses.MultipleNegativesRankingLoss(model), [64, 32, 16]
        ),
        table, stacked(static(table)), learning_rate=5e-2, max_steps=60,
        per_device_train_batch_size=64,
    )  # fmt: skip
    learns(stage, trainer, QUERIES.sought, least=0.1)


def word_vectors(table: Table, width: int = 48) -> Any:
    """Trainable vectors of words."""
    from sentence_transformers.sentence_transformer.modules.tokenizer import WhitespaceTokenizer

    torch.manual_seed(6)
    words = list(dict.fromkeys(" ".join(words_of([table])).lower().split()))
    tokenizer = WhitespaceTokenizer(words, stop_words=[], do_lower_case=True)
    return modules.WordEmbeddings(
        tokenizer, torch.randn(len(words), width).numpy(), update_embeddings=True
    )


@sound("recurrent network over word vectors")
def recurrent_encoder_of_chats(stage: Stage) -> None:
    """A bidirectional LSTM reads word vectors, which are trained as well; its mean is pooled."""
    table = CHATS.table(400)
    segments = word_vectors(table), modules.LSTM(48, 32), modules.Pooling(64, pooling_mode="mean")
    trainer = stage.trainer(ranking, table, stacked(*segments), learning_rate=5e-3, max_steps=80)
    learns(stage, trainer, CHATS.sought, least=0.1)


@sound("first token, no dropout")
def first_token_of_alarms(stage: Stage) -> None:
    """The first token is pooled; it needs more steps at a lower rate than a mean of tokens."""
    table = ALARMS.table(400, seed=2)
    model = fresh(stage, table, pooling="cls", spread=0.1, dropout=0.0)
    trainer = stage.trainer(
        ranking, table, model, learning_rate=5e-4, max_steps=200, warmup_steps=20
    )
    learns(stage, trainer, ALARMS.sought, least=0.1)


@sound("decoder, last token, padded on the left")
def last_token_of_a_decoder_for_jobs(stage: Stage) -> None:
    """A causal body is pooled at its last token, the end mark, which left padding keeps last."""
    table = JOBS.table(400)
    model = fresh(stage, table, kind="granite", pooling="lasttoken")
    trainer = stage.trainer(
        ranking, table, model, learning_rate=2e-3, max_steps=120, per_device_train_batch_size=24
    )
    learns(stage, trainer, JOBS.sought, least=0.1)


@sound("projection to fewer dimensions")
def mails_in_sixteen_dimensions(stage: Stage) -> None:
    """A linear layer, trained along, maps to 16 dimensions, which are normalised at last."""
    table = MAILS.table(150)
    torch.manual_seed(6)
    narrow = modules.Dense(48, 16, bias=False, activation_function=torch.nn.Identity())
    model = fresh(stage, table, behind=[narrow, modules.Normalize()])
    trainer = stage.trainer(ranking, table, model, learning_rate=2e-3, max_steps=80)
    learns(stage, trainer, MAILS.sought, least=0.1)


@sound("two towers")
def two_towers_for_russian(stage: Stage) -> None:
    """Questions and answers go through bodies of their own, in training and in use."""
    table = RUSSIAN.table(240)
    texts = words_of([table])
    towers = {
        name: [body(stage, texts, name=name, seed=seed), modules.Pooling(48, pooling_mode="mean")]
        for seed, name in enumerate(("query", "document"))
    }
    model = stacked(modules.Router.for_query_document(*towers.values()))
    trainer = stage.trainer(
        ranking, table, model, learning_rate=2e-3, max_steps=80,
        router_mapping={"вопрос": "query", "ответ": "document"},
    )  # fmt: skip

    def score(model: Any) -> float:
        from tests.judgement.truth import reciprocal_rank

        questions, answers = RUSSIAN.table(40, seed=11).values()
        return reciprocal_rank(
            model.encode_query(questions, show_progress_bar=False),
            model.encode_document(answers, show_progress_bar=False),
        )

    learns(stage, trainer, score, least=0.1)


@sound(
    "adapters of low rank on a pre-trained body",
    allowed={r"saved model": "The base was tuned before, and is not saved with its adapter."},
)
def low_rank_adapters_for_phrases(stage: Stage) -> None:
    """A body that was trained on English and French gets adapters for Spanish at a high rate."""
    from peft import LoraConfig, TaskType

    rows = PHRASES.table(400)
    table = {name: rows[name] for name in ("english", "spanish")}
    tested = {name: PHRASES.table(40, seed=11)[name] for name in table}
    model = warm(stage, PHRASES.table(300, seed=2), rows, steps=60)
    model.add_adapter(LoraConfig(
        task_type=TaskType.FEATURE_EXTRACTION, r=16, lora_alpha=32, lora_dropout=0.05,
        target_modules=["query", "key", "value", "dense", "word_embeddings"],
    ))  # fmt: skip
    trainer = stage.trainer(ranking, table, model, learning_rate=5e-3, max_steps=120)
    learns(stage, trainer, lambda model: retrieval(model, tested), least=0.1)
