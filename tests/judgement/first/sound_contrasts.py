"""Sound set-ups of which single signs look like faults: contradictions, sparse rows, high rates."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from tests.judgement.case import sound
from tests.judgement.first.scenes import by_hand, drawn, loop_learns
from tests.judgement.stage import (
    TOPICS,
    Stage,
    facts,
    pairs,
    passage,
)
from tests.judgement.truth import alike, among_alike, learns, reciprocal_rank
from tests.sentence_training import losses
from tests.tiny_models import make_bert

ranking = losses.MultipleNegativesRankingLoss


class LearnedTemperature(torch.nn.Module):
    """Ranking by cosines, whose temperature is trained from 1 on."""

    def __init__(self, model: Any = None) -> None:
        super().__init__()
        self.model = model
        self.logit_scale = torch.nn.Parameter(torch.tensor(0.0))

    def forward(self, first: Any, second: Any = None) -> torch.Tensor:
        """Take the features of a trainer and its labels, or two views."""
        if self.model is not None:
            first, second = (self.model(features)["sentence_embedding"] for features in first)
        cosines = F.normalize(first, dim=1) @ F.normalize(second, dim=1).T
        return F.cross_entropy(cosines * self.logit_scale.exp(), torch.arange(len(cosines)))


@sound("contradictions as hard negatives")
def contradictions_of_a_single_word(stage: Stage) -> None:
    """A contradiction has more words of its premise than what follows from it."""
    rows = facts(240)
    draws = [random.Random(" ".join(fact)) for fact in rows]
    table = {
        "premise": list(map(passage, rows)),
        "entailment": [f"{topic} {place} {verb} ." for verb, topic, place, *_ in rows],
        "contradiction": [
            passage((fact[0], draw.choice(TOPICS), *fact[2:]))
            for draw, fact in zip(draws, rows, strict=True)
        ],
    }
    learns(stage, stage.trainer(ranking, table, max_steps=60, learning_rate=1e-3), among_alike)


@sound("temperature that is trained from 1 on", allowed={
    r"hardly tells hard negatives": "the temperature is still high when the run ends",
})  # fmt: skip
def temperature_trained_from_one(stage: Stage) -> None:
    trainer = stage.trainer(LearnedTemperature, pairs(320), max_steps=120, learning_rate=5e-3)
    learns(stage, trainer, among_alike)


@sound("loop with a temperature that is trained from 1 on", allowed={
    r"hardly tells hard negatives": "the temperature is still above .1 when the run ends",
})  # fmt: skip
def loop_with_a_temperature_trained_from_one(stage: Stage) -> None:
    criterion = LearnedTemperature()

    def loop(watch: Any) -> tuple[float, float]:
        model = stage.model()
        weights = [*model.parameters(), *criterion.parameters()]
        optimizer = torch.optim.AdamW(weights, lr=6e-3)
        return by_hand(
            model, watch, drawn(pairs(320)), optimizer=optimizer, steps=120, score=among_alike
        )

    loop_learns(stage, loop, criterion, steps=120)


@sound("loop of triplets with the next row's positive")
def loop_of_triplets_with_the_next_positive(stage: Stage) -> None:
    def triplets(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        return F.triplet_margin_loss(first, second, second.roll(1, 0), margin=1.0)

    def loop(watch: Any) -> tuple[float, float]:
        return by_hand(stage.model(), watch, drawn(pairs(320)), steps=100, score=among_alike)

    loop_learns(stage, loop, triplets, steps=100)


@sound("high rate of a narrow encoder")
def narrow_encoder_at_six_thousandths(stage: Stage) -> None:
    trainer = stage.trainer(ranking, pairs(320), max_steps=60, learning_rate=6e-3)
    learns(stage, trainer, among_alike)


@sound("sparse embeddings of the vocabulary")
def sparse_weights_of_words(stage: Stage) -> None:
    """SPLADE: weights of words, none of them negative, under a penalty that grows."""
    from datasets import Dataset
    from sentence_transformers import (
        SparseEncoder,
        SparseEncoderTrainer,
        SparseEncoderTrainingArguments,
    )
    from sentence_transformers.sparse_encoder import losses as sparse
    from sentence_transformers.sparse_encoder.modules import MLMTransformer, SpladePooling
    from transformers import AutoTokenizer, BertForMaskedLM

    bert, folder = make_bert(stage.folder / "bert"), str(stage.folder / "masked")
    torch.manual_seed(7)
    BertForMaskedLM.from_pretrained(bert).save_pretrained(folder)
    AutoTokenizer.from_pretrained(bert).save_pretrained(folder)
    model = SparseEncoder(modules=[MLMTransformer(folder), SpladePooling()], device="cpu")
    loss = sparse.SpladeLoss(
        model,
        sparse.SparseMultipleNegativesRankingLoss(model),
        document_regularizer_weight=3e-5,
        query_regularizer_weight=5e-5,
    )
    settings = SparseEncoderTrainingArguments(
        str(stage.folder / "run"),
        max_steps=60,
        per_device_train_batch_size=16,
        learning_rate=2e-3,
        seed=7,
        use_cpu=True,
        report_to="none",
        save_strategy="no",
        logging_steps=5,
        disable_tqdm=True,
    )

    def score(encoder: Any) -> float:
        rows = (
            encoder.encode(texts, show_progress_bar=False, convert_to_sparse_tensor=False)
            for texts in alike().values()
        )
        return reciprocal_rank(*(np.asarray(row) + 1e-9 for row in rows))

    table = Dataset.from_dict(pairs(320))
    trainer = SparseEncoderTrainer(model=model, args=settings, train_dataset=table, loss=loss)
    learns(stage, trainer, score)
