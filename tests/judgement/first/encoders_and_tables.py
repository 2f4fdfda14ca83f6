"""Sound set-ups: encoders of other kinds, and tables that are inspected before they are used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from tests.judgement.case import sound
from tests.judgement.first.bodies import body
from tests.judgement.first.made_fields import CHATS, QUERIES, addresses
from tests.judgement.first.ranking_tools import encoder_of, ranking, seeks, seeks_in
from tests.judgement.first.turns import warmed
from tests.judgement.first.wider_fields import (
    HEADLINES,
    RECIPES,
    RUSSIAN,
    WEATHER,
    amounts,
    diagnoses,
)
from tests.judgement.stage import Stage
from tests.judgement.truth import learns
from tests.sentence_training import losses


@sound("triplets by Euclidean distance")
def typed_addresses_in_triplets(stage: Stage) -> None:
    """The address of the next row is the negative; the usual margin for Euclidean distances.

    Remark: such negatives are easy, which short texts of few words bear well.
    """
    table = addresses(320)
    table["wrong"] = [*table["typed"][1:], table["typed"][0]]
    trainer = stage.trainer(
        losses.TripletLoss, table, encoder_of(stage, [table]), learning_rate=1e-3,
        max_steps=120, per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, seeks_in(addresses), least=0.1)


@sound("smaller head behind the pooling")
def recipes_through_a_smaller_head(stage: Stage) -> None:
    """A linear head halves the size, its rows are normalised, and all of it is trained."""
    from sentence_transformers.sentence_transformer.modules import Dense, Normalize

    torch.manual_seed(4)
    head = Dense(48, 24, activation_function=torch.nn.Identity())
    trainer = stage.trainer(
        ranking, RECIPES.answers(400, wrong=1), encoder_of(stage, RECIPES, head, Normalize()),
        learning_rate=2e-3, max_steps=100, weight_decay=0.01,
    )  # fmt: skip
    learns(stage, trainer, seeks(RECIPES), least=0.1)


@sound("recurrent encoder of words")
def amounts_by_a_recurrent_encoder(stage: Stage) -> None:
    """Digits need an order: an LSTM in both directions over word embeddings that are trained."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import LSTM, Pooling, WordEmbeddings
    from sentence_transformers.sentence_transformer.modules.tokenizer import WhitespaceTokenizer

    table, generator = amounts(400), torch.Generator().manual_seed(3)
    words_known = dict.fromkeys(w for column in table.values() for text in column
                                for w in text.lower().split())  # fmt: skip
    tokenizer = WhitespaceTokenizer(["[PAD]", *words_known], stop_words=[], do_lower_case=True)
    weights = torch.randn(len(words_known) + 1, 48, generator=generator) * 0.3
    torch.manual_seed(3)
    words = WordEmbeddings(tokenizer, weights.numpy(), update_embeddings=True)
    model = SentenceTransformer(
        modules=[words, LSTM(48, 32), Pooling(64, pooling_mode="mean")], device="cpu"
    )
    trainer = stage.trainer(
        ranking,
        table,
        model,
        learning_rate=8e-3,
        max_steps=110,
        per_device_train_batch_size=32,
    )
    learns(stage, trainer, seeks_in(amounts), least=0.1)


@sound("decoder, last token, one way")
def weather_by_a_decoder_and_its_last_token(stage: Stage) -> None:
    """A causal body padded on the left, read at its closing token, as for embeddings of LLMs."""
    model = encoder_of(stage, WEATHER, kind="granite", pooling="lasttoken")
    trainer = stage.trainer(
        ranking, WEATHER.answers(500, wrong=1), model, learning_rate=2e-3, max_steps=140,
        per_device_train_batch_size=24, warmup_steps=14,
    )  # fmt: skip
    learns(stage, trainer, seeks(WEATHER), least=0.1)


@sound("few answers, no duplicates in a batch")
def notes_of_patients_to_their_department(stage: Stage) -> None:
    """Many notes share a department; the sampler keeps each department once to a batch of six."""
    departments = (
        "cardiology heart clinic", "pneumology chest ward", "dermatology skin practice",
        "gastroenterology digestion unit", "ophthalmology eye hospital", "orthopaedics bones house",
        "nephrology kidney centre", "neurology nerves tower", "otology hearing rooms",
        "dentistry teeth surgery",
    )  # fmt: skip
    notes = diagnoses(500)
    table = {"note": notes["text"], "where": [departments[at] for at in notes["label"]]}

    def score(model: Any) -> float:
        held_out = diagnoses(160, 11)
        first, second = (
            model.encode(texts, normalize_embeddings=True, show_progress_bar=False)
            for texts in (held_out["text"], list(departments))
        )
        return float((np.argmax(first @ second.T, 1) == np.array(held_out["label"])).mean())

    trainer = stage.trainer(
        ranking, table, encoder_of(stage, [table]), learning_rate=2e-3, max_steps=100,
        per_device_train_batch_size=6, batch_sampler="no_duplicates",
    )  # fmt: skip
    learns(stage, trainer, score, least=0.1)


@sound("an encoder for each side")
def wishes_and_statements_with_own_encoders(stage: Stage) -> None:
    """Wishes and statements go through bodies of their own, told apart by the column's name."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Router

    sides = [
        [body(stage, QUERIES.words(), name=name, layers=layers, seed=layers),
         Pooling(48, pooling_mode="mean")]
        for name, layers in (("wishes", 1), ("statements", 2))
    ]  # fmt: skip
    model = SentenceTransformer(modules=[Router.for_query_document(*sides)], device="cpu")
    trainer = stage.trainer(
        ranking, QUERIES.table(480), model, learning_rate=2e-3, max_steps=110,
        router_mapping={"wish": "query", "sql": "document"},
    )  # fmt: skip

    def score(encoder: Any) -> float:
        from tests.judgement.truth import reciprocal_rank

        wishes, statements = QUERIES.table(80, seed=11).values()
        return reciprocal_rank(
            encoder.encode_query(wishes, show_progress_bar=False),
            encoder.encode_document(statements, show_progress_bar=False),
        )

    learns(stage, trainer, score, least=0.1)


@sound("any number of layers")
def chats_with_any_number_of_layers(stage: Stage) -> None:
    """The ranking holds after each layer, so that layers can be left out later."""
    trainer = stage.trainer(
        lambda model: losses.AdaptiveLayerLoss(model, ranking(model)), CHATS.table(480),
        encoder_of(stage, CHATS, layers=3), learning_rate=2e-3, max_steps=90,
    )  # fmt: skip
    learns(stage, trainer, seeks(CHATS), least=0.1)


class Spread(torch.nn.Module):
    """The ranking, and a tenth of the library's regularisation to orthogonal texts."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.ranking = ranking(model)
        self.spread = losses.GlobalOrthogonalRegularizationLoss(model, aggregation="sum")

    def forward(self, sentence_features: Any, labels: Any = None) -> torch.Tensor:
        features = list(sentence_features)
        first = self.ranking([dict(column) for column in features], labels)
        second = self.spread([dict(column) for column in features], labels)
        return first + 0.1 * (sum(second.values()) if isinstance(second, dict) else second)


@sound("ranking with texts kept orthogonal")
def translations_kept_orthogonal(stage: Stage) -> None:
    """The ranking of translations, with a small term that spreads texts of a column."""
    trainer = stage.trainer(
        Spread,
        RUSSIAN.table(500),
        encoder_of(stage, RUSSIAN),
        learning_rate=2e-3,
        max_steps=90,
    )
    learns(stage, trainer, seeks(RUSSIAN), least=0.1)


def look_at(stage: Stage, model: Any, table: Any) -> None:
    """Inspect a table with an encoder that has seen a little of its field."""
    folder = Path(stage.folder / "seen")
    model.save(str(folder))
    stage.inspect(table, model=str(folder))


@sound("table of headlines and stories")
def inspected_headlines_with_stories(stage: Stage) -> None:
    """Different headlines and stories that fit, seen by a trained encoder, then trained on."""
    table = HEADLINES.table(360)
    tuned_encoder = warmed(
        encoder_of(stage, HEADLINES, name="other", seed=5), HEADLINES.table(300, 2), 60
    )
    look_at(stage, tuned_encoder, table)
    trainer = stage.trainer(
        ranking,
        table,
        encoder_of(stage, HEADLINES),
        learning_rate=2e-3,
        max_steps=90,
    )
    learns(stage, trainer, seeks(HEADLINES), least=0.1)


@sound("table of chats with hard negatives")
def inspected_chats_with_near_replies(stage: Stage) -> None:
    """Replies that differ in one thing are hard, and not answers to the same turns."""
    table = CHATS.answers(400, wrong=1)
    tuned_encoder = warmed(encoder_of(stage, CHATS, name="other", seed=5), CHATS.table(400, 2), 90)
    look_at(stage, tuned_encoder, table)
    trainer = stage.trainer(
        ranking,
        table,
        encoder_of(stage, CHATS),
        learning_rate=2e-3,
        max_steps=100,
    )
    learns(stage, trainer, seeks(CHATS), least=0.1)
