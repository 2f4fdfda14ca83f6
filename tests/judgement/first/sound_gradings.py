"""Sound set-ups: losses of graded pairs, of labels of pairs and of a teacher."""

from __future__ import annotations

from typing import Any

import torch
from sentence_transformers.sentence_transformer import losses

from tests.judgement.case import sound
from tests.judgement.first.bodies import encoder, words_of
from tests.judgement.first.fields import CLINIC, HELPDESK, KITCHEN, PAPERS, SCENES, SHOP, Field
from tests.judgement.first.turns import warmed
from tests.judgement.stage import Stage
from tests.judgement.truth import correlation, learns

QUICK = {"learning_rate": 2e-3}
LONG = {"learning_rate": 1e-3, "max_steps": 80}


def tuned_before(stage: Stage, field: Field, steps: int = 4, **options: Any) -> Any:
    """An encoder that was trained on a few batches of pairs of the field."""
    table = field.table(200, seed=4)
    return warmed(encoder(stage, words_of([field.table(200), table]), **options), table, steps)


def graded_by(field: Field) -> Any:
    """A score: rank correlation with the grades of pairs that were not trained on."""
    return lambda model: correlation(model, field.graded(50, seed=11))


@sound("graded pairs, cosine loss")
def scene_grades_divided_by_five(stage: Stage) -> None:
    """Grades from 0 to 5 of annotators, divided by 5."""
    table = SCENES.graded(200, most=5.0)
    table["score"] = [score / 5 for score in table["score"]]
    model = tuned_before(stage, SCENES, dropout=0.0)
    trainer = stage.trainer(losses.CosineSimilarityLoss, table, model, **LONG)
    learns(stage, trainer, graded_by(SCENES))


@sound("grades to five, order alone")
def cosent_on_clinic_grades_to_five(stage: Stage) -> None:
    """CoSENT asks for the order only, so that grades to 5 need no division."""
    table = CLINIC.graded(200, most=5.0)
    model = tuned_before(stage, CLINIC)
    learns(stage, stage.trainer(losses.CoSENTLoss, table, model, **LONG), graded_by(CLINIC))


@sound("angles of graded pairs")
def angles_of_graded_recipes(stage: Stage) -> None:
    """AnglE on pairs whose grade is the share of agreeing ingredients."""
    table = KITCHEN.graded(240)
    model = tuned_before(stage, KITCHEN, dropout=0.0)
    trainer = stage.trainer(losses.AnglELoss, table, model, per_device_train_batch_size=32, **LONG)
    learns(stage, trainer, graded_by(KITCHEN))


def hypotheses(count: int, seed: int = 0) -> dict[str, list[Any]]:
    """Premises with entailed (0), neutral (1) and contradicted (2) hypotheses in turns."""
    rows = SCENES.table(count, seed)
    entailed, neutral, contradicted = (
        rows["hypothesis"], SCENES.near(count, seed, slot=2), SCENES.near(count, seed, slot=1),
    )  # fmt: skip
    kinds = (entailed, neutral, contradicted)
    return {
        "premise": rows["premise"],
        "hypothesis": [kinds[at % 3][at] for at in range(count)],
        "label": [at % 3 for at in range(count)],
    }


@sound("three classes of hypotheses")
def hypotheses_classified_with_products(stage: Stage) -> None:
    """Softmax loss of NLI with products of both embeddings; entailed pairs get closer."""
    table, unseen = hypotheses(180), hypotheses(48, seed=11)
    entailed = unseen | {"label": [float(label == 0) for label in unseen["label"]]}
    model = tuned_before(stage, SCENES, 3, dropout=0.0)

    def classified(encoder_: Any) -> Any:
        return losses.SoftmaxLoss(encoder_, 48, 3, concatenation_sent_multiplication=True)

    trainer = stage.trainer(
        classified, table, model,
        per_device_train_batch_size=32, learning_rate=2e-3, max_steps=180,
    )  # fmt: skip
    learns(stage, trainer, lambda encoder_: correlation(encoder_, entailed))


def duplicates(field: Field, count: int) -> dict[str, list[Any]]:
    """Pairs of which every second is a duplicate; a near miss or a drawn row takes turns."""
    first, second = list(field.table(count).values())
    near = field.near(count, slot=1)
    wrong = [near[at] if at % 4 else second[(at + 7) % count] for at in range(count)]
    return {
        "sentence1": first,
        "sentence2": [second[at] if at % 2 else wrong[at] for at in range(count)],
        "label": [at % 2 for at in range(count)],
    }


@sound("duplicates and near misses")
def tickets_marked_as_duplicates(stage: Stage) -> None:
    """Contrastive loss with its own margin of 0.5 at cosine distances."""
    table = duplicates(HELPDESK, 200)
    model = tuned_before(stage, HELPDESK, dropout=0.0)
    trainer = stage.trainer(
        losses.ContrastiveLoss, table, model,
        per_device_train_batch_size=32, max_steps=120, learning_rate=3e-3,
    )  # fmt: skip
    learns(stage, trainer, HELPDESK.sought)


@sound("hard pairs of a batch")
def hardest_duplicates_of_each_batch(stage: Stage) -> None:
    """The online variant, which takes the hard pairs of a batch of 32."""
    table = duplicates(SHOP, 240)
    model = tuned_before(stage, SHOP, 2, dropout=0.0)
    trainer = stage.trainer(
        losses.OnlineContrastiveLoss, table, model,
        per_device_train_batch_size=32, max_steps=100, learning_rate=2e-3,
    )  # fmt: skip
    learns(stage, trainer, SHOP.sought)


def teacher_of(stage: Stage, field: Field, texts: list[str], width: int = 48) -> Any:
    """A teacher: an encoder that was trained on the field beforehand."""
    teacher = encoder(stage, texts, name="teacher", seed=5, width=width)
    table = dict(list(field.table(200, seed=4).items())[:2])
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, table, teacher, learning_rate=3e-3, max_steps=40
    )
    trainer.train()
    return teacher.eval()


@sound("embeddings of a wider teacher")
def student_projected_to_a_wider_teacher(stage: Stage) -> None:
    """The loss projects the student's 48 dimensions to the teacher's 64, by cosine."""
    rows = CLINIC.table(200)
    texts = words_of([rows])
    teacher = teacher_of(stage, CLINIC, texts, width=64)
    sentences = rows["complaint"] + rows["record"]
    table = {"text": sentences, "label": teacher.encode(sentences).tolist()}
    model = encoder(stage, texts)

    def distilled(encoder_: Any) -> Any:
        return losses.EmbedDistillLoss(encoder_, distance_metric="cosine", projection_dim=64)

    trainer = stage.trainer(
        distilled, table, model, per_device_train_batch_size=32, max_steps=60, learning_rate=3e-3
    )
    learns(stage, trainer, CLINIC.sought)


@sound("embeddings of a teacher, squared differences")
def deeper_teacher_by_squared_differences(stage: Stage) -> None:
    """A student of one layer learns the embeddings of a teacher of two."""
    rows = PAPERS.table(200)
    texts = words_of([rows])
    teacher = teacher_of(stage, PAPERS, texts)
    sentences = rows["title"] + rows["abstract"]
    table = {"text": sentences, "label": teacher.encode(sentences).tolist()}
    trainer = stage.trainer(
        losses.MSELoss, table, encoder(stage, texts, layers=1),
        per_device_train_batch_size=32, max_steps=60, learning_rate=3e-3,
    )  # fmt: skip
    learns(stage, trainer, PAPERS.sought)


def teacher_scores(teacher: Any, table: dict[str, list[str]]) -> torch.Tensor:
    """Dot products of a teacher's embeddings of the first column with the further columns'."""
    first, *remaining = (torch.tensor(teacher.encode(texts)) for texts in table.values())
    return torch.stack([(first * rows).sum(1) for rows in remaining], 1)


@sound("margins of a bi-encoder")
def margins_of_a_bi_encoder_as_teacher(stage: Stage) -> None:
    """Differences of a teacher's dot products of positive and negative."""
    table = SHOP.table(200) | {"negative": SHOP.near(200)}
    texts = words_of([table])
    scores = teacher_scores(teacher_of(stage, SHOP, texts), table)
    labels = (scores[:, 0] - scores[:, 1]).tolist()
    trainer = stage.trainer(
        losses.MarginMSELoss, table | {"label": labels}, encoder(stage, texts),
        max_steps=60, learning_rate=2e-3,
    )  # fmt: skip
    learns(stage, trainer, SHOP.sought)


@sound("shares of a teacher")
def shares_of_a_teacher_among_four_passages(stage: Stage) -> None:
    """The teacher's softmax over a positive and three negatives, at a temperature of 2."""
    table = HELPDESK.table(160)
    table |= {f"negative_{slot}": HELPDESK.near(160, slot=slot) for slot in range(3)}
    texts = words_of([table])
    scores = teacher_scores(teacher_of(stage, HELPDESK, texts), table)

    def distilled(encoder_: Any) -> Any:
        return losses.DistillKLDivLoss(encoder_, temperature=2.0)

    trainer = stage.trainer(
        distilled, table | {"label": scores.tolist()}, encoder(stage, texts),
        max_steps=60, learning_rate=2e-3,
    )  # fmt: skip
    learns(stage, trainer, HELPDESK.sought)
