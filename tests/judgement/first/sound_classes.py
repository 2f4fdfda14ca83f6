"""Sound set-ups: losses of classes, nested losses, and losses that need no pairs."""

from __future__ import annotations

from typing import Any

from sentence_transformers.sentence_transformer import losses

from tests.judgement.case import sound
from tests.judgement.first.bodies import encoder, words_of
from tests.judgement.first.fields import CLINIC, HELPDESK, KITCHEN, PAPERS, SHOP, Field
from tests.judgement.stage import Stage
from tests.judgement.truth import learns, retrieval

Distance = losses.BatchHardTripletLossDistanceFunction


def by_first_slot(field: Field, count: int) -> dict[str, list[Any]]:
    """Texts of both columns' wordings, labelled by their entry of the first slot."""
    rows = field.draws(count)
    names = sorted({row[0] for row in rows})
    halves = [field.texts([row], at % 2)[0] for at, row in enumerate(rows)]
    return {"text": halves, "label": [names.index(row[0]) for row in rows]}


def nearest_is_of_its_class(field: Field) -> Any:
    """A score: the share of unseen texts whose nearest neighbour is of their class."""

    def score(model: Any) -> float:
        rows = field.draws(60, seed=11)
        texts = [field.texts([row], at % 2)[0] for at, row in enumerate(rows)]
        rows_of = model.encode(texts, normalize_embeddings=True, show_progress_bar=False)
        cosines = rows_of @ rows_of.T
        cosines[range(60), range(60)] = -2
        return sum(rows[at][0] == rows[int(near)][0]
                   for at, near in enumerate(cosines.argmax(1))) / 60  # fmt: skip

    return score


def by_class(stage: Stage, loss: Any, field: Field, count: int, **arguments: Any) -> None:
    table = by_first_slot(field, count)
    model = encoder(stage, words_of([table]))
    settings = {
        "learning_rate": 1e-3, "per_device_train_batch_size": 24, "max_steps": 50,
        "batch_sampler": "group_by_label", **arguments,
    }  # fmt: skip
    trainer = stage.trainer(loss, table, model, **settings)
    learns(stage, trainer, nearest_is_of_its_class(field))


@sound("all triplets of classes")
def troubles_of_tickets_by_all_triplets(stage: Stage) -> None:
    """Eight classes, batches grouped by label, cosine distances and a margin of 0.3."""

    def triplets(model: Any) -> Any:
        return losses.BatchAllTripletLoss(
            model, distance_metric=Distance.cosine_distance, margin=0.3
        )

    by_class(stage, triplets, HELPDESK, 240)


@sound("hardest triplets of classes")
def signs_of_patients_by_hardest_triplets(stage: Stage) -> None:
    """Cosine distances, a margin of 0.2."""

    def triplets(model: Any) -> Any:
        return losses.BatchHardTripletLoss(
            model, distance_metric=Distance.cosine_distance, margin=0.2
        )

    by_class(stage, triplets, CLINIC, 200)


@sound("semi-hard triplets of classes, trained by label")
def wares_by_semi_hard_triplets(stage: Stage) -> None:
    """Ten classes, Euclidean distances with the library's margin of 5."""
    by_class(stage, losses.BatchSemiHardTripletLoss, SHOP, 280, learning_rate=2e-3)


@sound("soft margins of classes")
def dishes_by_soft_margins(stage: Stage) -> None:
    """Twelve classes and no margin to choose."""
    by_class(stage, losses.BatchHardSoftMarginTripletLoss, KITCHEN, 280)


@sound("nested dimensions")
def nested_dimensions_weighted_to_the_front(stage: Stage) -> None:
    """Three dimensions, of which the smallest weighs most; the score is of 12 dimensions."""
    table = PAPERS.table(240)
    model = encoder(stage, words_of([table]))

    def nested(encoder_: Any) -> Any:
        ranking = losses.MultipleNegativesRankingLoss(encoder_)
        return losses.MatryoshkaLoss(encoder_, ranking, [48, 24, 12], [1.0, 1.5, 2.0])

    def in_twelve(encoder_: Any) -> float:
        with encoder_.truncate_sentence_embeddings(12):
            return PAPERS.sought(encoder_)

    learns(stage, stage.trainer(nested, table, model, learning_rate=2e-3), in_twelve)


@sound("nested layers and dimensions")
def nested_layers_and_dimensions_of_triplets(stage: Stage) -> None:
    """Each step draws a layer and a dimension, above a cosine triplet of four layers."""
    table = CLINIC.table(160) | {"negative": CLINIC.near(160)}
    model = encoder(stage, words_of([table]), layers=4)

    def nested(encoder_: Any) -> Any:
        ranking = losses.MultipleNegativesRankingLoss(encoder_)
        return losses.Matryoshka2dLoss(encoder_, ranking, [48, 24])

    learns(stage, stage.trainer(nested, table, model, learning_rate=1e-3), CLINIC.sought)


@sound("layers as encoders of their merit")
def layers_of_a_graded_encoder(stage: Stage) -> None:
    """Each layer of three is trained to embed products by the ranking loss."""
    table = SHOP.table(200)
    model = encoder(stage, words_of([table]), layers=3)

    def adaptive(encoder_: Any) -> Any:
        return losses.AdaptiveLayerLoss(
            encoder_, losses.MultipleNegativesRankingLoss(encoder_), n_layers_per_step=-1
        )

    learns(stage, stage.trainer(adaptive, table, model, learning_rate=1e-3), SHOP.sought)


@sound("contrastive tension within the batch")
def tension_of_paraphrases_in_the_batch(stage: Stage) -> None:
    """Two encoders that drift from each other, by in-batch negatives of damaged sentences."""
    rows = HELPDESK.table(240)
    texts = rows["question"] + rows["answer"]
    table = {"first": texts, "second": texts}
    model = encoder(stage, words_of([rows]))
    unseen = HELPDESK.table(60, seed=11)["answer"]
    shorter = [" ".join(text.split()[2:10:2]) for text in unseen]

    def of_views(encoder_: Any) -> float:
        return retrieval(encoder_, {"short": shorter, "long": unseen})

    trainer = stage.trainer(
        losses.ContrastiveTensionLossInBatchNegatives, table, model,
        learning_rate=1e-3, max_steps=90,
    )  # fmt: skip
    learns(stage, trainer, of_views)


@sound("ranking and orthogonal classes")
def ranking_with_spread_by_orthogonality(stage: Stage) -> None:
    """A ranking loss and a spread term in a loss of both, weighted a tenth."""
    from torch import nn

    table = PAPERS.table(240)
    model = encoder(stage, words_of([table]))

    class Spread(nn.Module):
        def __init__(self, encoder_: Any) -> None:
            super().__init__()
            self.model = encoder_
            self.ranking = losses.MultipleNegativesRankingLoss(encoder_)
            self.spread = losses.GlobalOrthogonalRegularizationLoss(encoder_)

        def forward(self, features: Any, labels: Any = None) -> Any:
            embeddings = [self.model(column)["sentence_embedding"] for column in features]
            spread = self.spread.compute_loss_from_embeddings(embeddings, labels)
            terms = {"ranking": self.ranking.compute_loss_from_embeddings(embeddings, labels)}
            return terms | {name: 0.1 * value for name, value in spread.items()}

    learns(stage, stage.trainer(Spread, table, model, learning_rate=2e-3), PAPERS.sought)
