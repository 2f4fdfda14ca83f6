"""Sound set-ups: trainers with tokenizers, encoders, optimisers and plans of many kinds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from tests.judgement.case import sound
from tests.judgement.first import fields_of_wishes_and_mails as fields
from tests.judgement.first.bodies import body, encoder, words_of
from tests.judgement.stage import Stage
from tests.judgement.truth import in_one_place, learns
from tests.sentence_training import evaluation, losses
from tests.tiny_models import make_roberta


def ranking(model: Any) -> Any:
    return losses.MultipleNegativesRankingLoss(model)


def pieces_of(stage: Stage, texts: list[str]) -> Path:
    """A BERT whose WordPiece tokenizer was trained on texts, as a folder."""
    from tokenizers import BertWordPieceTokenizer
    from transformers import BertConfig, BertModel, BertTokenizerFast

    tokenizer = BertWordPieceTokenizer()
    tokenizer.train_from_iterator(texts, vocab_size=260, min_frequency=1, show_progress=False)
    folder = stage.folder / "pieces"
    folder.mkdir()
    tokenizer.save(str(folder / "tokenizer.json"))
    fast = BertTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"), model_max_length=64)
    fast.save_pretrained(folder)
    torch.manual_seed(3)
    BertModel(BertConfig(
        vocab_size=tokenizer.get_vocab_size(), hidden_size=32, num_hidden_layers=2,
        num_attention_heads=4, intermediate_size=64, max_position_embeddings=64,
    )).save_pretrained(folder)  # fmt: skip
    return folder


@sound("pieces of words")
def code_glued_into_identifiers(stage: Stage) -> None:
    def glued(count: int, seed: int = 0) -> dict[str, list[str]]:
        table = fields.CODE.table(count, seed)
        table["function"] = [text.replace(" ", "") for text in table["function"]]
        return table

    table = glued(360)
    model = stage.model(bert=pieces_of(stage, words_of([table])))
    trainer = stage.trainer(
        ranking, table, model, learning_rate=3e-3, max_steps=80, per_device_train_batch_size=24
    )
    learns(stage, trainer, fields.sought(glued))


@sound("byte-level pieces and a small batch")
def bytes_in_small_batches(stage: Stage) -> None:
    from tests.judgement.stage import pairs

    model = stage.model(bert=make_roberta(stage.folder / "roberta"))
    trainer = stage.trainer(
        ranking, pairs(320, seed=4), model, learning_rate=1e-3, max_steps=90,
        per_device_train_batch_size=8, warmup_steps=9,
    )  # fmt: skip
    learns(stage, trainer, in_one_place)


@sound("mean and maximum side by side")
def tickets_by_mean_and_maximum(stage: Stage) -> None:
    from sentence_transformers.sentence_transformer.modules import Dense

    torch.manual_seed(1)
    texts = fields.vocabulary(fields.ALARMS)
    model = encoder(stage, texts, Dense(96, 32), pooling=("mean", "max"))
    trainer = stage.trainer(
        ranking, fields.ALARMS.table(380), model, learning_rate=2e-3, max_steps=60,
        per_device_train_batch_size=32, gradient_accumulation_steps=2,
    )  # fmt: skip
    learns(stage, trainer, fields.ALARMS.sought)


@sound("embeddings of words and a recurrent net")
def songs_by_a_recurrent_net(stage: Stage) -> None:
    """Vectors of words of one's own, a two-way LSTM over them, and their mean."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import LSTM, Pooling, WordEmbeddings
    from sentence_transformers.sentence_transformer.modules.tokenizer import WhitespaceTokenizer

    words = sorted({w for text in fields.vocabulary(fields.REFRAINS) for w in text.split()})
    words = [word for word in words if word.isalpha()]
    torch.manual_seed(6)
    vectors = WordEmbeddings(
        WhitespaceTokenizer(words, stop_words=[], do_lower_case=True),
        0.5 * torch.randn(len(words), 32), update_embeddings=True,
    )  # fmt: skip
    net = LSTM(32, 24, num_layers=1, bidirectional=True)
    model = SentenceTransformer(modules=[vectors, net, Pooling(48)], device="cpu")
    trainer = stage.trainer(
        ranking, fields.REFRAINS.table(330), model, learning_rate=5e-3, max_steps=70,
        per_device_train_batch_size=24,
    )  # fmt: skip
    learns(stage, trainer, fields.REFRAINS.sought)


@sound("best checkpoint of an evaluated run")
def best_checkpoint_of_sums(stage: Stage) -> None:
    from datasets import Dataset

    check = fields.SUMS.table(60, 13)
    names = [[str(at) for at in range(60)] for _ in check]
    queries, corpus = (
        dict(zip(keys, texts, strict=True))
        for keys, texts in zip(names, check.values(), strict=True)
    )
    evaluator = evaluation.InformationRetrievalEvaluator(
        queries, corpus, {key: {key} for key in queries}, name="sums", mrr_at_k=[10],
        accuracy_at_k=[1], precision_recall_at_k=[1], ndcg_at_k=[10], map_at_k=[10],
    )  # fmt: skip
    model = fields.encoder_of(stage, fields.SUMS, width=32)
    trainer = stage.trainer(
        ranking, fields.SUMS.table(400), model, learning_rate=3e-3, max_steps=60,
        per_device_train_batch_size=32, eval_strategy="steps", eval_steps=20,
        save_strategy="steps", save_steps=20, load_best_model_at_end=True,
        metric_for_best_model="eval_sums_cosine_ndcg@10", evaluator=evaluator,
        eval_dataset=Dataset.from_dict(check),
    )  # fmt: skip
    learns(stage, trainer, fields.SUMS.sought)


@sound("optimizer and schedule of one's own")
def greek_with_groups_of_weights(stage: Stage) -> None:
    """Biases and norms are not decayed; the rate falls after each epoch."""
    model = fields.encoder_of(stage, fields.GREEK)
    named = [*model.named_parameters()]
    decayed = [weight for name, weight in named if weight.ndim > 1]
    plain = [weight for name, weight in named if weight.ndim < 2]
    optimizer = torch.optim.NAdam(
        [{"params": decayed, "weight_decay": 0.01}, {"params": plain}], lr=2e-3,
        decoupled_weight_decay=True,
    )  # fmt: skip
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=15, gamma=0.7)
    trainer = stage.trainer(
        ranking, fields.GREEK.table(360), model, max_steps=60, per_device_train_batch_size=24,
        optimizers=(optimizer, schedule),
    )  # fmt: skip
    learns(stage, trainer, fields.GREEK.sought)


@sound("epochs, checkpointed activations, another optimizer")
def mails_by_epochs_with_adafactor(stage: Stage) -> None:
    model = fields.encoder_of(stage, fields.MAILS, width=32)
    trainer = stage.trainer(
        ranking, fields.MAILS.table(320), model, learning_rate=5e-3, max_steps=-1,
        num_train_epochs=4, per_device_train_batch_size=20, optim="adafactor",
        gradient_checkpointing=True, gradient_checkpointing_kwargs={"use_reentrant": False},
    )  # fmt: skip
    learns(stage, trainer, fields.MAILS.sought)


@sound("weights of positions over a decoder")
def stars_by_weighted_positions(stage: Stage) -> None:
    model = fields.encoder_of(stage, fields.STARS, kind="granite", pooling="weightedmean")
    trainer = stage.trainer(
        ranking, fields.STARS.table(340), model, learning_rate=2e-3, max_steps=60,
        per_device_train_batch_size=24,
    )  # fmt: skip
    learns(stage, trainer, fields.STARS.sought)


@sound("lower layers at rest")
def tales_with_frozen_embeddings(stage: Stage) -> None:
    """A body that has been trained keeps its vectors of words; its layers are tuned."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling

    from tests.judgement.first.turns import warmed

    table = fields.tales(340)
    transformer = body(stage, words_of([table, fields.tales(60, 11)]))
    model = SentenceTransformer(modules=[transformer, Pooling(48)], device="cpu")
    warmed(model, {name: cells[:80] for name, cells in table.items()}, steps=10)
    model[0].auto_model.embeddings.requires_grad_(False)
    trainer = stage.trainer(
        ranking, {name: cells[80:] for name, cells in table.items()}, model, learning_rate=2e-3,
        max_steps=70, per_device_train_batch_size=20,
    )  # fmt: skip
    learns(stage, trainer, fields.sought(fields.tales))


@sound("cosine with a spread of directions")
def weather_with_orthogonal_directions(stage: Stage) -> None:
    """Ranking, and a term that spreads texts that do not belong together."""

    class Spread(torch.nn.Module):
        def __init__(self, model: Any) -> None:
            super().__init__()
            self.ranking = ranking(model)
            self.spread = losses.GlobalOrthogonalRegularizationLoss(model)

        def forward(self, sentence_features: Any, labels: Any = None) -> Any:
            features = [*sentence_features]
            value = self.ranking([dict(column) for column in features], labels)
            terms = self.spread([dict(column) for column in features], labels)
            return value + 0.1 * sum(terms.values())

    model = fields.encoder_of(stage, fields.WEATHER)
    trainer = stage.trainer(
        Spread, fields.WEATHER.table(340), model, learning_rate=2e-3, max_steps=60,
        per_device_train_batch_size=24,
    )  # fmt: skip
    learns(stage, trainer, fields.WEATHER.sought)
