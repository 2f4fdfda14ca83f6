"""Sound trainers of word tables, joined poolings, and of rows that share an answer."""

from __future__ import annotations

import random
from typing import Any

import torch
from sentence_transformers.sentence_transformer import evaluation, losses, modules

from tests.judgement.case import sound
from tests.judgement.first.bodies import body, tokenizer_of
from tests.judgement.first.homes_and_studies import LETTERS_TO_EDITORS, MUSIC, PROPERTY, SPACE
from tests.judgement.first.talk_and_reports import WEATHER
from tests.judgement.first.trades_of_text import JOBS, MUSEUM, PHARMACY
from tests.judgement.first.turns import warmed
from tests.judgement.stage import Stage
from tests.judgement.truth import learns, retrieval

USUAL = {"learning_rate": 1e-3, "max_steps": 60, "warmup_steps": 6}


@sound("a table of word vectors at the high rate that it needs")
def word_table_for_weather(stage: Stage) -> None:
    """Static embeddings have no layers, and learn at a rate of some hundredths or more."""
    from sentence_transformers import SentenceTransformer

    torch.manual_seed(4)
    tokenizer = tokenizer_of(WEATHER.words()).backend_tokenizer
    model = SentenceTransformer(
        modules=[modules.StaticEmbedding(tokenizer, embedding_dim=64)], device="cpu"
    )
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss,
        WEATHER.pairs(360),
        model,
        per_device_train_batch_size=32,
        **{**USUAL, "learning_rate": 5e-2},
    )
    learns(stage, trainer, WEATHER.sought)


@sound("mean and maximum of the tokens joined")
def mean_and_maximum_joined(stage: Stage) -> None:
    """Two poolings side by side, in training as in use."""
    from sentence_transformers import SentenceTransformer

    network = body(stage, MUSEUM.words(), dropout=0.0)
    model = SentenceTransformer(
        modules=[network, modules.Pooling(48, pooling_mode=("mean", "max"))], device="cpu"
    )
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss,
        MUSEUM.pairs(320),
        model,
        per_device_train_batch_size=32,
        **USUAL,
    )
    learns(stage, trainer, MUSEUM.sought)


@sound("several wishes for each piece, no duplicates within a batch")
def wishes_that_share_a_piece(stage: Stage) -> None:
    """Three wishes lead to each piece; the sampler keeps a piece from being its own negative."""
    templates = MUSIC.columns["wish"]
    wishes, pieces = [], []
    for row in MUSIC.rows(150):
        words = dict(zip(MUSIC.slots, (entry.split("/")[0] for entry in row), strict=True))
        for template in templates:
            wishes.append(template.format(**words))
            pieces.append(MUSIC.text(row, 1))
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss,
        {"wish": wishes, "piece": pieces},
        MUSIC.encoder(stage),
        per_device_train_batch_size=24,
        batch_sampler="no_duplicates",
        **USUAL,
    )
    learns(stage, trainer, MUSIC.sought)


@sound("activations computed again in the backward pass")
def leaflets_with_checkpointing(stage: Stage) -> None:
    """Gradient checkpointing saves memory and changes no result."""
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss,
        PHARMACY.pairs(320),
        PHARMACY.encoder(stage, layers=3),
        per_device_train_batch_size=32,
        gradient_checkpointing=True,
        gradient_checkpointing_kwargs={"use_reentrant": False},
        **USUAL,
    )
    learns(stage, trainer, PHARMACY.sought)


@sound("abstracts with a limit of length that keeps every text whole")
def abstracts_within_their_length(stage: Stage) -> None:
    """The limit is above the longest text; titles have hard negatives of other studies."""
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss,
        SPACE.triplets(300, changes=2),
        SPACE.encoder(stage, length=64, kind="distilbert"),
        lr_scheduler_type="cosine",
        **USUAL,
    )
    learns(stage, trainer, SPACE.sought)


@sound("a student of a teacher's embeddings by cosine")
def student_by_cosine_of_embeddings(stage: Stage) -> None:
    """Fewer layers than the teacher and the same size of embedding."""
    guide = warmed(
        PROPERTY.encoder(stage, name="teacher", layers=3, dropout=0.0), PROPERTY.pairs(320), 60
    )
    texts = [text for column in PROPERTY.pairs(320, seed=2).values() for text in column]
    random.Random(3).shuffle(texts)
    vectors = guide.encode(texts, show_progress_bar=False).tolist()
    trainer = stage.trainer(
        lambda model: losses.EmbedDistillLoss(model, distance_metric="cosine"),
        {"sentence": texts, "label": vectors},
        PROPERTY.encoder(stage, layers=1, dropout=0.0),
        per_device_train_batch_size=32,
        **{**USUAL, "learning_rate": 2e-3, "max_steps": 100},
    )
    learns(stage, trainer, PROPERTY.sought)


@sound("candidates ranked anew by an evaluator of reranking")
def adverts_with_reranking_evaluator(stage: Stage) -> None:
    """Each held-out advert has its résumé and eight that miss one or two wishes."""
    rows = JOBS.rows(60, seed=11)
    draw = random.Random(6)
    samples = [
        {"query": JOBS.text(row, 0), "positive": [JOBS.text(row, 1)],
         "negative": [JOBS.text(JOBS.changed(row, draw.sample(range(4), 1 + at % 2), draw), 1)
                      for at in range(8)]}
        for row in rows
    ]  # fmt: skip
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss,
        JOBS.triplets(320),
        JOBS.encoder(stage, dropout=0.0),
        eval_strategy="steps",
        eval_steps=20,
        evaluator=evaluation.RerankingEvaluator(samples, name="resumes"),
        **USUAL,
    )
    learns(stage, trainer, JOBS.sought)


@sound("every layer trained to be usable")
def letters_at_every_layer(stage: Stage) -> None:
    """Adaptive layers: earlier layers learn the search too."""
    trainer = stage.trainer(
        lambda model: losses.AdaptiveLayerLoss(model, losses.MultipleNegativesRankingLoss(model)),
        LETTERS_TO_EDITORS.pairs(320),
        LETTERS_TO_EDITORS.encoder(stage, layers=3),
        per_device_train_batch_size=32,
        **{**USUAL, "learning_rate": 2e-3},
    )
    learns(stage, trainer, LETTERS_TO_EDITORS.sought)


@sound("duplicate questions by ranking, sought among their kind")
def weather_sentences_both_ways(stage: Stage) -> None:
    """Sentences of the same weather, either of which may be sought by the other."""

    def both_ways(model: Any) -> float:
        first, second = WEATHER.pairs(80, seed=11).values()
        forth = retrieval(model, {"first": first, "second": second})
        return (forth + retrieval(model, {"second": second, "first": first})) / 2

    trainer = stage.trainer(
        losses.MultipleNegativesSymmetricRankingLoss,
        WEATHER.pairs(360),
        WEATHER.encoder(stage, kind="distilbert", dropout=0.1),
        per_device_train_batch_size=48,
        lr_scheduler_type="polynomial",
        **USUAL,
    )
    learns(stage, trainer, both_ways)
