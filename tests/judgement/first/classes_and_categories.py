"""Sound set-ups: texts with classes, whose batches hold several texts of each."""

from __future__ import annotations

from tests.judgement.case import sound
from tests.judgement.first.bodies import encoder, words_of
from tests.judgement.first.everyday_subjects import WEATHER
from tests.judgement.first.expert_subjects import SPECIES
from tests.judgement.first.loose_subjects import payments, tickets
from tests.judgement.first.subject_kit import neighbours
from tests.judgement.stage import Stage
from tests.judgement.truth import learns
from tests.sentence_training import losses, modules

OF_CLASSES = {"batch_sampler": "group_by_label", "per_device_train_batch_size": 32}


@sound("all triplets of a batch")
def tickets_by_all_triplets(stage: Stage) -> None:
    """Every triplet of a batch of tickets; the sampler sees to two or more of each category."""
    table = tickets(400)
    trainer = stage.trainer(
        lambda model: losses.BatchAllTripletLoss(model, margin=1.0), table,
        encoder(stage, words_of([table]), spread=0.05), max_steps=120, learning_rate=1e-3,
        **OF_CLASSES,
    )  # fmt: skip
    learns(stage, trainer, neighbours(tickets(100, held_out=True)), least=0.1)


@sound("semi-hard triplets, cosine distance")
def tickets_by_semi_hard_triplets(stage: Stage) -> None:
    """Semi-hard triplets by cosine distance with its own smaller margin."""
    table = tickets(400)
    hard = losses.BatchHardTripletLossDistanceFunction
    trainer = stage.trainer(
        lambda model: losses.BatchSemiHardTripletLoss(
            model, distance_metric=hard.cosine_distance, margin=0.3
        ),
        table, encoder(stage, words_of([table]), spread=0.05, kind="distilbert"), max_steps=150,
        learning_rate=1e-3, **OF_CLASSES,
    )  # fmt: skip
    learns(stage, trainer, neighbours(tickets(100, held_out=True)), least=0.1)


@sound("hardest triplets of each batch")
def forecasts_by_hardest_triplets(stage: Stage) -> None:
    """Forecasts by their sky: the hardest positive and negative of each anchor of a batch."""
    trainer = stage.trainer(
        lambda model: losses.BatchHardTripletLoss(model, margin=1.0), WEATHER.by_slot("sky", 360),
        encoder(stage, WEATHER.words(), spread=0.05), max_steps=200, learning_rate=1e-3,
        **OF_CLASSES,
    )  # fmt: skip
    learns(stage, trainer, neighbours(WEATHER.by_slot("sky", 80, held_out=True)), least=0.1)


@sound("convolutions over word vectors, triplets of classes")
def payments_by_convolutions(stage: Stage) -> None:
    """A small network without attention: word vectors, convolutions, pooling by the maximum."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules.tokenizer import WhitespaceTokenizer

    table = payments(420)
    words = sorted({word for text in table["text"] for word in text.split()})
    tokenizer = WhitespaceTokenizer(words, stop_words=[], do_lower_case=True)
    torch.manual_seed(4)
    vectors = modules.WordEmbeddings(
        tokenizer, 0.1 * torch.randn(len(words), 32).numpy(), update_embeddings=True
    )
    network = modules.CNN(32, out_channels=16, kernel_sizes=[1, 3])
    pooling = modules.Pooling(32, pooling_mode="max")
    model = SentenceTransformer(modules=[vectors, network, pooling], device="cpu")
    trainer = stage.trainer(
        losses.BatchHardSoftMarginTripletLoss, table, model, max_steps=200, learning_rate=3e-3,
        **OF_CLASSES,
    )  # fmt: skip
    learns(stage, trainer, neighbours(payments(100, held_out=True)), least=0.1)


@sound("genera as classes, pooled with several modes")
def species_grouped_by_genus(stage: Stage) -> None:
    """Descriptions of plants by genus; mean and maximum of the tokens side by side."""
    table = SPECIES.by_slot("genus", 180)
    trainer = stage.trainer(
        lambda model: losses.BatchAllTripletLoss(model, margin=2.0), table,
        encoder(stage, SPECIES.words(), pooling=("mean", "max"), spread=0.05), max_steps=100,
        learning_rate=1e-3, **OF_CLASSES,
    )  # fmt: skip
    held_out = SPECIES.by_slot("genus", 38, held_out=True)
    learns(stage, trainer, neighbours(held_out), least=0.1)
