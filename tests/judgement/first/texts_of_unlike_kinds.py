"""Sound set-ups with the trainer: adapters, bags, letters, texts alone and large batches."""

from __future__ import annotations

import random
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import losses
from sentence_transformers.sentence_transformer.modules import (
    Dense,
    Normalize,
    Pooling,
    StaticEmbedding,
    Transformer,
)

from tests.judgement.case import sound
from tests.judgement.first.bodies import body, encoder, tokenizer_of
from tests.judgement.first.fields_of_scripts_and_signs import (
    CHEMISTRY,
    HANZI,
    JOBS,
    MATCHES,
    METERS,
    RHYMES,
    SCRIPTS,
    SHELVES,
    encoder_of,
    pairs_of,
    ragged,
    seeks,
    vocabulary,
)
from tests.judgement.first.rankings_by_trainer import ranking
from tests.judgement.first.turns import warmed
from tests.judgement.stage import Stage
from tests.judgement.truth import learns, retrieval


@sound(
    "adapter of low rank on a pretrained encoder",
    allowed={r"saved model": "The base was tuned before, and is not saved with its adapter."},
)
def adapter_on_an_encoder_of_another_field(stage: Stage) -> None:
    from peft import LoraConfig, TaskType

    model = encoder(stage, vocabulary(SCRIPTS, JOBS), dropout=0.0)
    model = warmed(model, pairs_of(JOBS, 240), 30)
    model.add_adapter(LoraConfig(
        task_type=TaskType.FEATURE_EXTRACTION, r=16, lora_alpha=32, lora_dropout=0.05,
        target_modules=["query", "key", "value", "dense", "word_embeddings"],
    ))  # fmt: skip
    trainer = stage.trainer(
        ranking, pairs_of(SCRIPTS, 320), model, max_steps=80, per_device_train_batch_size=32,
        learning_rate=5e-3,
    )  # fmt: skip
    learns(stage, trainer, seeks(SCRIPTS))


@sound("bag of static word vectors")
def static_vectors_for_shelf_marks(stage: Stage) -> None:
    tokenizer = tokenizer_of(vocabulary(SHELVES)).backend_tokenizer
    torch.manual_seed(7)
    bag = StaticEmbedding(tokenizer, embedding_dim=64)
    trainer = stage.trainer(
        ranking, pairs_of(SHELVES, 360), SentenceTransformer(modules=[bag], device="cpu"),
        max_steps=90, per_device_train_batch_size=48, learning_rate=5e-2,
        batch_sampler="no_duplicates",
    )  # fmt: skip
    learns(stage, trainer, seeks(SHELVES))


@sound("texts alone, twice through dropout")
def dropout_views_of_ragged_adverts(stage: Stage) -> None:
    """As in SimCSE: each text is its own positive; idle sentences should weigh less."""
    texts = ragged(pairs_of(JOBS, 400)["candidate"], 1, most=1)
    random.Random(4).shuffle(texts)
    plain = pairs_of(JOBS, 60, seed=11)["candidate"]
    held = {"ragged": ragged(plain, 5, most=2), "plain": plain}
    trainer = stage.trainer(
        ranking, {"text": texts, "same": list(texts)}, encoder_of(stage, JOBS),
        max_steps=60, per_device_train_batch_size=32, learning_rate=2e-3,
        batch_sampler="no_duplicates",
    )  # fmt: skip
    learns(stage, trainer, lambda model: retrieval(model, held))


@sound("layers that may be dropped from the top")
def each_layer_learns_to_embed(stage: Stage) -> None:
    model = SentenceTransformer(
        modules=[body(stage, vocabulary(RHYMES), layers=3), Pooling(48)], device="cpu"
    )
    trainer = stage.trainer(
        lambda model: losses.AdaptiveLayerLoss(model, ranking(model), n_layers_per_step=1),
        pairs_of(RHYMES, 300), model, max_steps=60, per_device_train_batch_size=24,
        learning_rate=2e-3,
    )  # fmt: skip
    learns(stage, trainer, seeks(RHYMES))


def letters_encoder(stage: Stage, texts: list[str]) -> Any:
    """A BERT that reads letter by letter, for texts without blanks between words."""
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers, processors
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    marks = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
    letters = sorted({letter for text in texts for letter in text})
    tokenizer = Tokenizer(models.WordLevel(
        {letter: at for at, letter in enumerate([*marks, *letters])}, unk_token="[UNK]"
    ))  # fmt: skip
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    folder = stage.folder / "letters"
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]",
        sep_token="[SEP]", mask_token="[MASK]", model_max_length=64,
    ).save_pretrained(folder)  # fmt: skip
    torch.manual_seed(3)
    BertModel(BertConfig(
        vocab_size=len(marks) + len(letters), hidden_size=48, num_hidden_layers=2,
        num_attention_heads=4, intermediate_size=96, max_position_embeddings=64,
    )).save_pretrained(folder)  # fmt: skip
    return SentenceTransformer(modules=[Transformer(str(folder)), Pooling(48)], device="cpu")


@sound("Chinese read by letter, beside pinyin")
def hanzi_and_pinyin_letter_by_letter(stage: Stage) -> None:
    table = pairs_of(HANZI, 400)
    trainer = stage.trainer(
        ranking, table, letters_encoder(stage, [*table["hanzi"], *table["pinyin"]]),
        max_steps=90, per_device_train_batch_size=32, learning_rate=3e-3,
    )  # fmt: skip
    learns(stage, trainer, seeks(HANZI))


@sound("cached guided ranking")
def cached_guide_for_chemistry(stage: Stage) -> None:
    guide = warmed(encoder_of(stage, CHEMISTRY, name="guide", seed=8), pairs_of(CHEMISTRY, 320), 40)
    trainer = stage.trainer(
        lambda model: losses.CachedGISTEmbedLoss(model, guide, mini_batch_size=16),
        pairs_of(CHEMISTRY, 320), encoder_of(stage, CHEMISTRY, width=32), max_steps=40,
        per_device_train_batch_size=48, learning_rate=4e-3,
    )  # fmt: skip
    learns(stage, trainer, seeks(CHEMISTRY))


@sound("margin to the hardest of a large batch")
def margin_in_large_batches_of_headlines(stage: Stage) -> None:
    model = warmed(encoder_of(stage, MATCHES), pairs_of(MATCHES, 320), 8)
    trainer = stage.trainer(
        lambda model: losses.MegaBatchMarginLoss(model, mini_batch_size=32),
        pairs_of(MATCHES, 384), model, max_steps=40, per_device_train_batch_size=64,
        learning_rate=1e-3,
    )  # fmt: skip
    learns(stage, trainer, seeks(MATCHES))


@sound("dense head that narrows, accumulation of gradients")
def narrow_head_with_accumulation(stage: Stage) -> None:
    torch.manual_seed(7)
    head = Dense(48, 24, activation_function=torch.nn.Tanh())
    trainer = stage.trainer(
        ranking, pairs_of(METERS, 384), encoder_of(stage, METERS, head, Normalize()),
        max_steps=50, per_device_train_batch_size=32, gradient_accumulation_steps=2,
        learning_rate=3e-3, lr_scheduler_type="constant_with_warmup",
    )  # fmt: skip
    learns(stage, trainer, seeks(METERS))


@sound("cached symmetric ranking, Adafactor")
def greek_beside_english_at_a_low_temperature(stage: Stage) -> None:
    table = SCRIPTS.table(320)
    held = SCRIPTS.table(60, seed=11)
    trainer = stage.trainer(
        lambda model: losses.CachedMultipleNegativesSymmetricRankingLoss(
            model, scale=30.0, mini_batch_size=16
        ),
        {"greek": table["greek"], "english": table["english"]}, encoder_of(stage, SCRIPTS),
        max_steps=50, per_device_train_batch_size=48, learning_rate=2e-3, optim="adafactor",
    )  # fmt: skip
    columns = {"greek": held["greek"], "english": held["english"]}
    learns(stage, trainer, lambda model: retrieval(model, columns))
