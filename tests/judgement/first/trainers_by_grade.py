"""Sound set-ups of trainers: grades, classes, teachers, two data sets, own parts."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.judgement.case import sound
from tests.judgement.first.loop_helpers import encoder_of, pretrain
from tests.judgement.first.texts_of_every_day import (
    MACHINES,
    implications,
    words_of_implications,
)
from tests.judgement.first.texts_of_offices import ADDRESSES, FLATS, REVIEWS, TICKETS
from tests.judgement.first.texts_of_trades import (
    CHATS,
    JAPANESE,
    LABORATORY,
    QUERIES,
    SUMS,
)
from tests.judgement.stage import Stage
from tests.judgement.truth import learns
from tests.sentence_training import losses


@sound("grades by CoSENT with an evaluator")
def reviews_graded_by_trainer(stage: Stage) -> None:
    """Pairs of reviews with grades from 0 to 1, and rank correlation on others as evaluator."""
    from sentence_transformers.sentence_transformer.evaluation import EmbeddingSimilarityEvaluator

    evaluator = EmbeddingSimilarityEvaluator(*REVIEWS.graded(100, held=True, seed=1).values())
    trainer = stage.trainer(
        losses.CoSENTLoss, REVIEWS.graded(600), encoder_of(stage, REVIEWS), evaluator=evaluator,
        eval_strategy="steps", eval_steps=50, per_device_train_batch_size=32, learning_rate=2e-3,
        max_steps=150,
    )  # fmt: skip
    learns(stage, trainer, REVIEWS.agrees, least=0.1)


@sound("grades by angles, in epochs")
def flats_graded_by_angles(stage: Stage) -> None:
    """AnglE on graded pairs for eight epochs, with warm-up as a share of all steps."""
    trainer = stage.trainer(
        losses.AnglELoss, FLATS.graded(600), encoder_of(stage, FLATS), max_steps=-1,
        num_train_epochs=8, per_device_train_batch_size=32, learning_rate=2e-3, warmup_steps=0.1,
    )  # fmt: skip
    learns(stage, trainer, FLATS.agrees, least=0.1)


@sound("grades by the square of the cosine's error")
def queries_graded_by_cosine(stage: Stage) -> None:
    """Questions and queries that agree in some of their parts, graded by the share."""
    model = pretrain(encoder_of(stage, QUERIES, dropout=0.0), QUERIES.table(150, seed=3), steps=12,
                     rate=1e-3)  # fmt: skip
    trainer = stage.trainer(
        losses.CosineSimilarityLoss, QUERIES.graded(600), model, learning_rate=1e-3,
        per_device_train_batch_size=32, max_steps=150, lr_scheduler_type="cosine",
        weight_decay=0.01,
    )  # fmt: skip
    learns(stage, trainer, QUERIES.agrees, least=0.1)


@sound("labelled duplicates")
def addresses_as_labelled_duplicates(stage: Stage) -> None:
    """Half of the pairs are one address written twice, half differ in one part."""
    table = ADDRESSES.table(300)
    labelled = {
        "typed": table["typed"] * 2, "register": table["register"] + ADDRESSES.near(300),
        "label": [1] * 300 + [0] * 300,
    }  # fmt: skip
    model = pretrain(encoder_of(stage, ADDRESSES), ADDRESSES.table(100, seed=3), steps=10,
                     rate=1e-3)  # fmt: skip
    trainer = stage.trainer(
        losses.OnlineContrastiveLoss, labelled, model, per_device_train_batch_size=32,
        learning_rate=1e-3, max_steps=130,
    )  # fmt: skip
    learns(stage, trainer, ADDRESSES.sought, least=0.1)


@sound("classifier of pairs with three classes")
def implications_by_softmax(stage: Stage) -> None:
    """Sentence-BERT's first recipe: implied, contradicted or open, by a classifier of both."""
    from tests.judgement.first.bodies import encoder

    def labelled(count: int, **options: Any) -> dict[str, list[Any]]:
        table = implications(count, **options)
        thirds = [("implied", "against", "open")[at % 3] for at in range(count)]
        return {
            "premise": table["premise"],
            "hypothesis": [table[name][at] for at, name in enumerate(thirds)],
            "label": [at % 3 for at in range(count)],
        }

    def score(model: Any) -> float:
        table = implications(80, held=True, seed=3)
        premises, implied, against = (
            F.normalize(torch.tensor(model.encode(table[name])))
            for name in ("premise", "implied", "against")
        )
        right = (premises * implied).sum(1) > (premises * against).sum(1)
        return float(right.float().mean())

    model = encoder(stage, words_of_implications())
    trainer = stage.trainer(
        lambda encoder: losses.SoftmaxLoss(
            encoder, 48, 3, concatenation_sent_multiplication=True
        ),
        labelled(600), model, per_device_train_batch_size=32, learning_rate=3e-3, max_steps=250,
    )  # fmt: skip
    learns(stage, trainer, score, least=0.1)


@sound("triplets of classes in batches grouped by label")
def tickets_as_triplets_of_categories(stage: Stage) -> None:
    """All triplets of a batch, whose sampler sees to several tickets of each category."""
    distance = losses.BatchHardTripletLossDistanceFunction.cosine_distance
    trainer = stage.trainer(
        lambda model: losses.BatchAllTripletLoss(model, distance, margin=0.3),
        TICKETS.labelled(480, 0), encoder_of(stage, TICKETS), batch_sampler="group_by_label",
        per_device_train_batch_size=32, learning_rate=1e-3, max_steps=90,
    )  # fmt: skip
    learns(stage, trainer, lambda encoder: TICKETS.sorts(encoder, 0), least=0.1)


@sound("a teacher's embeddings in two languages")
def japanese_taught_by_english(stage: Stage) -> None:
    """A trained teacher embeds the glosses; gloss and Japanese text both learn that embedding.

    Remark: the aims are not of unit length, and lengths are learned with them.
    """
    teacher = pretrain(encoder_of(stage, JAPANESE, name="teacher"), JAPANESE.table(500), steps=50)
    glosses, originals = JAPANESE.table(600).values()
    aims = [row.tolist() for row in teacher.encode(glosses)]
    table = {"text": [*glosses, *originals], "label": aims * 2}
    trainer = stage.trainer(
        losses.MSELoss, table, encoder_of(stage, JAPANESE, spread=0.05), learning_rate=3e-3,
        per_device_train_batch_size=64, max_steps=160,
    )  # fmt: skip
    learns(stage, trainer, JAPANESE.sought, least=0.1)


@sound("a teacher's margins")
def chats_with_margins_of_a_teacher(stage: Stage) -> None:
    """MarginMSE: the difference of two scores of a trained teacher, at its scale, is matched."""
    table = CHATS.table(480) | {"negative": CHATS.near(480)}
    names = list(table)
    answers = table[names[1]]
    table["negative"] = [
        near if at % 2 else answers[at - 7] for at, near in enumerate(table["negative"])
    ]
    teacher = pretrain(encoder_of(stage, CHATS, name="teacher", width=64), CHATS.table(480))
    first, second, third = (
        F.normalize(torch.tensor(teacher.encode(texts))) for texts in table.values()
    )
    margins = 20 * (first * (second - third)).sum(1)
    trainer = stage.trainer(
        losses.MarginMSELoss, table | {"label": margins.tolist()},
        encoder_of(stage, CHATS, spread=0.05), per_device_train_batch_size=32,
        learning_rate=2e-3, max_steps=200, max_grad_norm=1.0,
    )  # fmt: skip
    learns(stage, trainer, CHATS.sought, least=0.1)


@sound("two data sets with losses of their own")
def sums_ranked_and_laboratory_graded(stage: Stage) -> None:
    """Pairs by a ranking loss and grades by CoSENT take turns; both scores are averaged."""
    from datasets import Dataset
    from sentence_transformers import (
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
    )

    from tests.judgement.first.bodies import encoder

    model = encoder(stage, [*SUMS.all_texts(), *LABORATORY.all_texts()])
    arguments = SentenceTransformerTrainingArguments(
        output_dir=str(stage.folder / "run"), max_steps=160, learning_rate=2e-3, seed=7,
        per_device_train_batch_size=16, multi_dataset_batch_sampler="round_robin", use_cpu=True,
        report_to="none", save_strategy="no", logging_steps=5, disable_tqdm=True,
    )  # fmt: skip
    trainer = SentenceTransformerTrainer(
        model=model, args=arguments,
        train_dataset={"sums": Dataset.from_dict(SUMS.table(500)),
                       "values": Dataset.from_dict(LABORATORY.graded(500))},
        loss={"sums": losses.MultipleNegativesRankingLoss(model),
              "values": losses.CoSENTLoss(model)},
    )  # fmt: skip
    learns(stage, trainer, lambda encoder: (SUMS.sought(encoder) + LABORATORY.agrees(encoder)) / 2,
           least=0.1)  # fmt: skip


class NormalisedEntropy(nn.Module):
    """NT-Xent as a module of one's own: both columns are anchors, each row has one partner."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, sentence_features: Any, labels: Tensor | None = None) -> Tensor:
        columns = [self.model(features)["sentence_embedding"] for features in sentence_features]
        rows, half = F.normalize(torch.cat(columns)), len(columns[0])
        logits = (rows @ rows.T / 0.1).fill_diagonal_(-torch.inf)
        return F.cross_entropy(logits, torch.arange(2 * half).roll(half))


@sound("loss of one's own and an optimiser of one's own")
def machine_lines_by_own_entropy(stage: Stage) -> None:
    """A hand-written NT-Xent in the trainer, with RAdam and exponential decay handed over."""
    model = encoder_of(stage, MACHINES, kind="distilbert")
    optimizer = torch.optim.RAdam(model.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.985)
    trainer = stage.trainer(
        NormalisedEntropy, MACHINES.table(500), model, optimizers=(optimizer, schedule),
        per_device_train_batch_size=24, max_steps=110,
    )  # fmt: skip
    learns(stage, trainer, MACHINES.sought, least=0.1)
