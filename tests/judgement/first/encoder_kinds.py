"""Sound set-ups: encoders of many kinds, whole and in part: towers, adapters, frozen layers."""

from __future__ import annotations

from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import losses, modules

from tests.judgement.case import sound
from tests.judgement.first.bodies import body, tokenizer_of
from tests.judgement.first.everyday_fields import ADDRESSES, CHATS, HEADLINES
from tests.judgement.first.expert_fields import COMMITS, METARS, NUMBERS, PATENTS
from tests.judgement.first.language_fields import LIVES, RECIPES, RUSSIAN, WORKS
from tests.judgement.first.training_parts import encoder_of, ranking, trained_before
from tests.judgement.stage import Stage
from tests.judgement.truth import learns

QUICK = {"max_steps": 100, "learning_rate": 1e-3}


@sound("decoder, last token")
def addresses_by_the_last_token_of_a_decoder(stage: Stage) -> None:
    """A causal body, padded at the left, whose last token stands for the text."""
    model = encoder_of(stage, ADDRESSES, kind="granite", pooling="lasttoken")
    trainer = stage.trainer(
        ranking(), ADDRESSES.table(480), model, max_steps=140, learning_rate=2e-3,
        per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, ADDRESSES.sought("typed", "registered"))


@sound("decoder, weighted mean")
def lives_by_a_weighted_mean_of_a_decoder(stage: Stage) -> None:
    """The weighted mean of a causal body, as in SGPT: later tokens have read more."""
    model = encoder_of(stage, LIVES, kind="granite", pooling="weightedmean")
    trainer = stage.trainer(ranking(), LIVES.table(400, "question", "paragraph"), model, **QUICK)
    learns(stage, trainer, LIVES.sought("question", "paragraph"))


@sound("static embeddings")
def static_embeddings_of_numbers(stage: Stage) -> None:
    """A vector for each token and their mean, at a high rate as is usual for them.

    Remark: the order of words is lost, which these texts do not need.
    """
    tokenizer = tokenizer_of(NUMBERS.texts(400))
    torch.manual_seed(7)
    static = modules.StaticEmbedding(tokenizer, embedding_dim=64)
    trainer = stage.trainer(
        ranking(), NUMBERS.table(560), SentenceTransformer(modules=[static], device="cpu"),
        max_steps=120, learning_rate=2e-2, per_device_train_batch_size=64,
    )  # fmt: skip
    learns(stage, trainer, NUMBERS.sought("spoken", "expanded"))


def words_embedded(texts: list[str], width: int = 40) -> Any:
    """A module of word embeddings, which are trained along."""
    torch.manual_seed(7)
    vocabulary = list(dict.fromkeys(word for text in texts for word in text.split()))
    tokenizer = modules.tokenizer.WhitespaceTokenizer(
        ["[PAD]", *vocabulary], stop_words=(), do_lower_case=False
    )
    weights = torch.randn(len(vocabulary) + 1, width) * 0.3
    return modules.WordEmbeddings(tokenizer, weights, update_embeddings=True)


@sound("word embeddings and LSTM")
def captions_by_a_recurrent_encoder(stage: Stage) -> None:
    """Word embeddings, an LSTM in both directions, and the mean of its states."""
    words = words_embedded(WORKS.texts(400))
    recurrent = modules.LSTM(40, 24)
    model = SentenceTransformer(
        modules=[words, recurrent, modules.Pooling(48, "mean")], device="cpu"
    )
    trainer = stage.trainer(
        ranking(), WORKS.table(400), model, max_steps=120, learning_rate=5e-3,
        per_device_train_batch_size=24,
    )  # fmt: skip
    learns(stage, trainer, WORKS.sought("caption", "tags"))


@sound("word embeddings and convolutions")
def recipes_by_convolutions_and_maxima(stage: Stage) -> None:
    """Windows of one and three words, and the maximum of each channel."""
    words = words_embedded(RECIPES.texts(400))
    windows = modules.CNN(40, out_channels=32, kernel_sizes=[1, 3])
    model = SentenceTransformer(modules=[words, windows, modules.Pooling(64, "max")], device="cpu")
    trainer = stage.trainer(
        ranking(), RECIPES.table(480), model, max_steps=120, learning_rate=3e-3,
        per_device_train_batch_size=32, optim="adafactor",
    )  # fmt: skip
    learns(stage, trainer, RECIPES.sought("title", "steps"))


@sound("maximum of the tokens")
def headlines_by_the_maximum_of_tokens(stage: Stage) -> None:
    """Max pooling over a body that was trained with it before."""
    model = trained_before(stage, HEADLINES, "headline", "lead", pooling="max", steps=6)
    trainer = stage.trainer(
        ranking(), HEADLINES.table(400), model, max_steps=120, learning_rate=1e-3,
        per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, HEADLINES.sought("headline", "lead"))


@sound("first token and mean, side by side")
def chats_by_first_token_and_mean(stage: Stage) -> None:
    """[CLS] and mean are concatenated to 96 dimensions."""
    text_body = body(stage, CHATS.texts(320), width=48)
    model = SentenceTransformer(
        modules=[text_body, modules.Pooling(48, pooling_mode=("cls", "mean"))], device="cpu"
    )
    trainer = stage.trainer(ranking(), CHATS.table(400), model, **QUICK)
    learns(stage, trainer, CHATS.sought("context", "reply"))


@sound("towers for queries and for documents")
def towers_for_reports_and_forecasts(stage: Stage) -> None:
    """Two towers without common weights; training routes each column to its own."""
    texts = METARS.texts(300)
    towers = [
        [body(stage, texts, name=name, width=32, seed=seed), modules.Pooling(32, "mean")]
        for name, seed in (("asking", 3), ("answering", 4))
    ]
    router = modules.Router.for_query_document(*towers)
    model = SentenceTransformer(modules=[router], device="cpu")
    table = METARS.table(300)
    held_out = METARS.table(60, seed=1)

    def score(encoder: Any) -> float:
        from tests.judgement.truth import reciprocal_rank

        return reciprocal_rank(
            encoder.encode_query(held_out["coded"], show_progress_bar=False),
            encoder.encode_document(held_out["forecast"], show_progress_bar=False),
        )

    trainer = stage.trainer(
        ranking(), table, model, max_steps=120, learning_rate=2e-3,
        router_mapping={"coded": "query", "forecast": "document"},
    )  # fmt: skip
    learns(stage, trainer, score)


@sound(
    "low-rank adapter on a trained body",
    allowed={r"saved model": "The base was tuned before, and is not saved with its adapter."},
)
def adapter_for_translated_sentences(stage: Stage) -> None:
    """LoRA of rank 8 on queries and values; the rest of the trained body stands still."""
    from peft import LoraConfig, TaskType

    model = trained_before(stage, RUSSIAN, "english", "russian", steps=4)
    model.add_adapter(
        LoraConfig(
            task_type=TaskType.FEATURE_EXTRACTION, r=8, lora_alpha=16, lora_dropout=0.05,
            target_modules=["query", "value", "dense"],
        )
    )  # fmt: skip
    trainer = stage.trainer(
        ranking(), RUSSIAN.table(500), model, max_steps=120, learning_rate=3e-3,
        per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, RUSSIAN.sought("english", "russian"))


@sound("frozen embeddings and first layer")
def upper_layers_only_for_commits(stage: Stage) -> None:
    """Word embeddings and the first layer of a trained body are kept; the rest learns on."""
    model = trained_before(stage, COMMITS, "message", "diff", steps=6, layers=3)
    network = model[0].auto_model
    for frozen in (network.embeddings, network.encoder.layer[0]):
        frozen.requires_grad_(False)
    trainer = stage.trainer(
        losses.MultipleNegativesSymmetricRankingLoss, COMMITS.table(480), model, max_steps=100,
        learning_rate=2e-3, per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, COMMITS.sought("message", "diff"))


@sound("frozen body, new head")
def new_head_on_a_still_body(stage: Stage) -> None:
    """Only a dense layer is trained, upon the embeddings of a body trained for the field.

    Remark: most of the weights stand still, as is meant.
    """
    model = trained_before(stage, PATENTS, "title", "claim", steps=8)
    model[0].requires_grad_(False)
    torch.manual_seed(7)
    model.append(modules.Dense(48, 64, activation_function=torch.nn.Identity()))
    trainer = stage.trainer(
        ranking(), PATENTS.table(400), model, max_steps=140, learning_rate=1e-2,
        per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, PATENTS.sought("title", "claim"))
