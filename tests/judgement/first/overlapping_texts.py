"""Sound set-ups on texts that share words or letters from the start, and on few labelled ones."""

from __future__ import annotations

import random
from typing import Any

import torch
import torch.nn.functional as F
from sentence_transformers.sentence_transformer import losses
from torch import Tensor

from tests.judgement.case import sound
from tests.judgement.first import rated_fields as rated
from tests.judgement.first import spelled_fields as spelled
from tests.judgement.first.bodies import encoder
from tests.judgement.first.training_kit import (
    adamw,
    by_neighbour,
    by_rank,
    cross_entropy,
    down,
    rises,
    similarities,
    simple,
)
from tests.judgement.first.turns import Rows, embed
from tests.judgement.stage import Stage
from tests.judgement.truth import learns


def of_letters(stage: Stage, **options: Any) -> Any:
    """An encoder that reads letters."""
    return encoder(stage, [" ".join(spelled.LETTERS)], **options)


def of_towns(stage: Stage, **options: Any) -> Any:
    """An encoder that reads the words of towns and sights."""
    return encoder(stage, rated.vocabulary(spelled.sights(900)), **options)


@sound("names by their letters with typing errors")
def drug_names_found_despite_typing_errors(stage: Stage) -> None:
    """Typed and right names of drugs as letters, by InfoNCE with batches of 64 and RAdam."""
    model = of_letters(stage, width=64)
    optimizer = torch.optim.RAdam(model.parameters(), lr=2e-3)
    update = simple(model, spelled.drug_names(600), optimizer, size=64, most=1.0)
    score = by_rank(spelled.drug_names(150, held_out=True))
    rises(stage, model, cross_entropy, update, score, steps=120, least=0.03)


@sound("masked words first, then pairs")
def sights_after_masked_words(stage: Stage) -> None:
    """The body first fills masked words of the passages; then questions seek their passages."""
    from transformers import BertForMaskedLM

    model, table = of_towns(stage), spelled.sights(500)
    network, tokenizer = model[0].auto_model, model.tokenizer
    masked = BertForMaskedLM(network.config)
    masked.bert.embeddings, masked.bert.encoder = network.embeddings, network.encoder
    rows, optimizer = Rows({"passage": table["passage"]}, 24), adamw(masked, rate=2e-3)
    masked.train()
    for _ in range(60):
        features = tokenizer(rows()[0], padding=True, return_tensors="pt")
        hidden = (torch.rand(features["input_ids"].shape) < 0.15) & (features["input_ids"] > 4)
        labels = features["input_ids"].masked_fill(~hidden, -100)
        ids = features["input_ids"].masked_fill(hidden, tokenizer.mask_token_id)
        down(optimizer, masked(ids, features["attention_mask"], labels=labels).loss)
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, table, model, max_steps=90, learning_rate=1e-3,
        lr_scheduler_type="cosine", warmup_steps=9,
    )  # fmt: skip
    learns(stage, trainer, by_rank(spelled.sights(120, held_out=True)), least=0.1)


@sound("hinge with negatives that are hard but not the hardest")
def sights_with_semi_hard_passages(stage: Stage) -> None:
    """VSE's hinge, but the negative is the hardest of those below the positive, where there are."""

    def semi_hard(questions: Tensor, passages: Tensor) -> Tensor:
        cosines = similarities(questions, passages)
        own = cosines.diagonal()[:, None]
        counterparts = cosines.masked_fill(torch.eye(len(cosines), dtype=torch.bool), -2.0)
        below = counterparts.masked_fill(counterparts >= own, -2.0).amax(1)
        hardest = torch.where(below > -2.0, below, counterparts.amax(1))
        return F.relu(0.25 - own.squeeze(1) + hardest).mean()

    model = of_towns(stage, pooling="max")
    update = simple(model, spelled.sights(500), adamw(model, rate=1e-3), size=32)
    score = by_rank(spelled.sights(120, held_out=True))
    rises(stage, model, semi_hard, update, score, steps=150)


@sound("two losses of different kinds added")
def sights_with_ranking_and_a_question_type(stage: Stage) -> None:
    """InfoNCE and, at a tenth of its weight, the type of the question from a linear map."""
    table = spelled.sights(500)
    types = sorted({question.split(" : ")[1] for question in table["question"]})
    model, head = of_towns(stage, dropout=0.05), torch.nn.Linear(48, len(types))
    rows, optimizer = Rows(table, 24), adamw(model, head)

    def added(questions: Tensor, passages: Tensor, kinds: Tensor) -> Tensor:
        typed = F.cross_entropy(head(questions), kinds)
        return cross_entropy(questions, passages) + 0.1 * typed

    def update(criterion: Any, step: int) -> None:
        questions, passages = rows()
        kinds = torch.tensor([types.index(text.split(" : ")[1]) for text in questions])
        down(optimizer, criterion(embed(model, questions), embed(model, passages), kinds))

    score = by_rank(spelled.sights(120, held_out=True))
    rises(stage, model, added, update, score, steps=100)


@sound("pairs of a few labelled texts")
def flight_wishes_from_pairs_of_few_texts(stage: Stage) -> None:
    """SetFit: of 20 texts of each intent, as many pairs of equal as of other intents are drawn."""
    table, draw = rated.flight_wishes(400), random.Random(2)
    by_intent: dict[int, list[str]] = {}
    for text, intent in zip(*table.values(), strict=True):
        texts = by_intent.setdefault(intent, [])
        if len(texts) < 20:
            texts.append(text)
    pairs: dict[str, list[Any]] = {"first": [], "second": [], "score": []}
    for number in range(600):
        intent, counterpart = draw.sample(sorted(by_intent), 2)
        first, second = draw.sample(by_intent[intent], 2)
        pairs["first"].append(first)
        pairs["second"].append(second if number % 2 else draw.choice(by_intent[counterpart]))
        pairs["score"].append(float(number % 2))
    trainer = stage.trainer(
        losses.CosineSimilarityLoss, pairs,
        encoder(stage, rated.vocabulary(rated.flight_wishes(700))), max_steps=-1,
        num_train_epochs=3, learning_rate=2e-3,
    )  # fmt: skip
    learns(stage, trainer, by_neighbour(rated.flight_wishes(120, held_out=True)), least=0.1)
