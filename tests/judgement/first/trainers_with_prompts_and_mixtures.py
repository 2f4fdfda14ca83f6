"""Sound trainers of further kinds: inference, regularisers, stopping, recurrent bodies."""

from __future__ import annotations

import random
from typing import Any

import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import losses
from sentence_transformers.sentence_transformer.evaluation import EmbeddingSimilarityEvaluator
from torch import Tensor, nn
from transformers import EarlyStoppingCallback

from tests.judgement.case import sound
from tests.judgement.first.fields_of_museums_and_skies import (
    ACCIDENTS,
    COMMITS,
    LEAGUE,
    MENU,
    METRO,
    NOTICES,
    POSTS,
    QUERIES,
    REAGENTS,
    encoder_of,
    grader,
    pretrained,
    seeker,
    whole,
)
from tests.judgement.first.turns import warmed
from tests.judgement.stage import Stage
from tests.judgement.truth import correlation, learns


@sound("nested sizes and layers")
def commits_in_nested_sizes_and_layers(stage: Stage) -> None:
    trainer = stage.trainer(
        lambda model: losses.Matryoshka2dLoss(
            model, losses.MultipleNegativesRankingLoss(model), [48, 24]
        ),
        COMMITS.table(320), encoder_of(stage, COMMITS, layers=3),
        learning_rate=2e-3, max_steps=50, per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, seeker(COMMITS))


def inferences(count: int, seed: int = 0) -> dict[str, list[Any]]:
    """Premises and hypotheses: entailed (0), open (1: the time is another), or denied (2)."""
    draw, rows = random.Random(seed), ACCIDENTS.draws(count, seed)
    table: dict[str, list[Any]] = {
        "premise": ACCIDENTS.texts(rows, 0), "hypothesis": [], "label": []
    }  # fmt: skip
    lists = [entries.split() for entries in ACCIDENTS.slots.values()]
    for row in rows:
        label, changed = draw.randrange(3), list(row)
        for slot in ((), (3,), (0, 1, 2))[label]:
            changed[slot] = draw.choice([entry for entry in lists[slot] if entry != row[slot]])
        table["hypothesis"] += ACCIDENTS.texts([tuple(changed)], 1)
        table["label"].append(label)
    return table


@sound("softmax over inference labels")
def accidents_by_inference_labels(stage: Stage) -> None:
    """The score is the rank correlation of cosines with the degree of agreement."""

    def agreement(model: Any) -> float:
        table = inferences(150, 11)
        return correlation(model, table | {"label": [-label for label in table["label"]]})

    trainer = stage.trainer(
        lambda model: losses.SoftmaxLoss(
            model, embedding_dimension=48, num_labels=3, concatenation_sent_multiplication=True
        ),
        inferences(600), pretrained(stage, ACCIDENTS, 4, dropout=0.0),
        learning_rate=3e-3, max_steps=130, per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, agreement)


@sound("vectors of a teacher by cosine through a projection")
def reagents_towards_vectors_of_a_wider_teacher(stage: Stage) -> None:
    """Texts of each row and their own vectors of a teacher twice as wide."""
    teacher = warmed(
        encoder_of(stage, REAGENTS, name="teacher", width=96), REAGENTS.table(320, 2), 40
    )
    texts = [text for column in REAGENTS.table(320).values() for text in column]
    targets = teacher.encode(texts, show_progress_bar=False).tolist()
    trainer = stage.trainer(
        lambda model: losses.EmbedDistillLoss(model, distance_metric="cosine", projection_dim=96),
        {"text": texts, "label": targets}, encoder_of(stage, REAGENTS),
        learning_rate=2e-3, max_steps=70, per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, seeker(REAGENTS))


class Spread(nn.Module):
    """A ranking loss and, at a tenth, the orthogonal regulariser of unrelated embeddings."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model
        self.ranking = losses.MultipleNegativesRankingLoss(model)
        self.spread = losses.GlobalOrthogonalRegularizationLoss(
            model, mean_weight=0.1, second_moment_weight=0.1
        )

    def forward(self, features: Any, labels: Tensor | None = None) -> dict[str, Tensor]:
        rows = [self.model(column)["sentence_embedding"] for column in features]
        ranking = self.ranking.compute_loss_from_embeddings(rows, labels)
        return {"ranking": ranking, **self.spread.compute_loss_from_embeddings(rows, labels)}


@sound("ranking with an orthogonal regulariser")
def league_by_ranking_with_a_regulariser(stage: Stage) -> None:
    trainer = stage.trainer(
        Spread, LEAGUE.table(320), encoder_of(stage, LEAGUE),
        learning_rate=2e-3, max_steps=50, per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, seeker(LEAGUE))


@sound("best checkpoint with early stopping")
def posts_with_the_best_checkpoint(stage: Stage) -> None:
    development = POSTS.graded(80, seed=13)
    trainer = stage.trainer(
        losses.CoSENTLoss, POSTS.graded(400), pretrained(stage, POSTS, 6),
        evaluator=EmbeddingSimilarityEvaluator(*development.values(), name="dev"),
        callbacks=[EarlyStoppingCallback(early_stopping_patience=2)],
        eval_strategy="steps", eval_steps=20, save_strategy="steps", save_steps=20,
        save_total_limit=1, save_only_model=True, load_best_model_at_end=True,
        metric_for_best_model="dev_spearman_cosine", greater_is_better=True,
        learning_rate=1e-3, max_steps=80, per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, grader(POSTS))


@sound("AnglE over maxima of tokens")
def notices_by_angle_over_maxima(stage: Stage) -> None:
    trainer = stage.trainer(
        losses.AnglELoss, NOTICES.graded(400), pretrained(stage, NOTICES, 5, pooling="max"),
        learning_rate=1e-3, max_steps=80, per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, grader(NOTICES))


@sound("recurrent body over word vectors")
def menu_by_a_recurrent_body(stage: Stage) -> None:
    """A bidirectional LSTM over word vectors that are learned too."""
    from sentence_transformers.sentence_transformer.modules import (
        LSTM,
        Pooling,
        WordEmbeddings,
    )
    from sentence_transformers.sentence_transformer.modules.tokenizer import WhitespaceTokenizer

    words = list(dict.fromkeys(word for text in whole(MENU) for word in text.split()))
    torch.manual_seed(6)
    vectors = WordEmbeddings(
        WhitespaceTokenizer(words, stop_words=[]), torch.randn(len(words), 32) * 0.3,
        update_embeddings=True,
    )  # fmt: skip
    model = SentenceTransformer(
        modules=[vectors, LSTM(32, 32), Pooling(64, pooling_mode="mean")], device="cpu"
    )
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, MENU.table(400), model,
        learning_rate=5e-3, max_steps=60, per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, seeker(MENU))


@sound("hardest negatives of large batches by margins")
def metro_by_margins_of_large_batches(stage: Stage) -> None:
    trainer = stage.trainer(
        lambda model: losses.MegaBatchMarginLoss(
            model, positive_margin=0.8, negative_margin=0.3, mini_batch_size=32
        ),
        METRO.table(384), pretrained(stage, METRO, 3, dropout=0.0),
        learning_rate=2e-3, max_steps=30, per_device_train_batch_size=96,
    )  # fmt: skip
    learns(stage, trainer, seeker(METRO))


@sound("adafactor and losses of evaluation rows")
def queries_by_adafactor_with_evaluation_rows(stage: Stage) -> None:
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, QUERIES.table(320),
        encoder_of(stage, QUERIES, kind="distilbert", spread=0.05),
        eval_dataset=Dataset.from_dict(QUERIES.table(60, 13)), eval_strategy="steps",
        eval_steps=30, optim="adafactor",
        learning_rate=3e-3, max_steps=60, per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, seeker(QUERIES))
