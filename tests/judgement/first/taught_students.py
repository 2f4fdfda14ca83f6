"""Sound set-ups: students that learn from the embeddings, scores or margins of a teacher."""

from __future__ import annotations

from tests.judgement.case import sound
from tests.judgement.first.common_tools import embedded, fresh, nearer, warm, with_near
from tests.judgement.first.slot_fields import CHATS, FUNCTIONS, JOBS, PHRASES
from tests.judgement.stage import Stage
from tests.judgement.truth import learns, retrieval
from tests.sentence_training import evaluation, losses


@sound("teacher's embeddings for two languages")
def spanish_learns_from_an_english_teacher(stage: Stage) -> None:
    """A student meets the teacher's embedding of an English text in English and in Spanish."""
    pairs, rows = PHRASES.table(400, seed=2), PHRASES.table(360)
    teacher = warm(stage, pairs, rows, steps=70, name="teacher")
    table = {
        "english": rows["english"],
        "spanish": rows["spanish"],
        "label": teacher.encode(rows["english"], show_progress_bar=False).tolist(),
    }
    tested = PHRASES.table(40, seed=11)
    asked = {name: tested[name] for name in ("spanish", "english")}
    trainer = stage.trainer(
        losses.MSELoss, table, fresh(stage, pairs, rows, seed=4), learning_rate=3e-3,
        max_steps=150,
        evaluator=evaluation.TranslationEvaluator(*asked.values(), show_progress_bar=False),
        eval_strategy="steps", eval_steps=75,
    )  # fmt: skip
    learns(stage, trainer, lambda model: retrieval(model, asked), least=0.1)


@sound(
    "margins of a teacher",
    allowed={
        r"teacher": "The student compares dot products with a teacher's cosines, as a kind of "
        "faults does."
    },
)
def functions_by_margins_of_a_teacher(stage: Stage) -> None:
    """Labels are the teacher's dot product with the positive less that with the negative."""
    table = with_near(FUNCTIONS, 480, 0, 1)
    teacher = warm(stage, FUNCTIONS.table(400, seed=2), table, steps=70, name="teacher")
    asked, right, wrong = (teacher.encode(texts, show_progress_bar=False)
                           for texts in table.values())  # fmt: skip
    table["label"] = ((asked * right).sum(1) - (asked * wrong).sum(1)).tolist()
    trainer = stage.trainer(
        losses.MarginMSELoss, table, warm(stage, FUNCTIONS.table(200, seed=2), table, steps=8),
        learning_rate=1e-3, max_steps=120,
    )  # fmt: skip
    tested = with_near(FUNCTIONS, 100, 11, 1)
    learns(stage, trainer, lambda model: nearer(model, tested), least=0.1)


@sound("distributions of a teacher over candidates")
def chats_by_distributions_of_a_teacher(stage: Stage) -> None:
    """The student meets the teacher's softmax over a reply and two near ones."""
    table = with_near(CHATS, 400, 0, 1, 2)
    teacher = warm(stage, CHATS.table(400, seed=2), table, steps=160, name="teacher")
    asked, *replies = (20 * embedded(teacher, texts) if not column else embedded(teacher, texts)
                       for column, texts in enumerate(table.values()))  # fmt: skip
    table["label"] = [
        list(map(float, cells))
        for cells in zip(*((asked * rows).sum(1) for rows in replies), strict=True)
    ]
    student = warm(stage, CHATS.table(200, seed=2), table, steps=25)
    trainer = stage.trainer(
        lambda model: losses.DistillKLDivLoss(model, temperature=2.0), table, student,
        learning_rate=1.5e-3, max_steps=160,
    )  # fmt: skip
    tested = with_near(CHATS, 100, 11, 1)
    learns(stage, trainer, lambda model: nearer(model, tested), least=0.1)


@sound("narrow student with a projection to a wide teacher")
def slim_student_of_a_broad_teacher(stage: Stage) -> None:
    """A learned projection maps 32 dimensions to the teacher's 64, as they cannot be compared.

    Remark: the projection is dropped after training; cosines of the student do not need it.
    """
    table = JOBS.table(400)
    teacher = warm(stage, JOBS.table(400, seed=2), table, steps=70, width=64, name="teacher")
    vectors = {name: teacher.encode(texts, show_progress_bar=False)
               for name, texts in table.items()}  # fmt: skip
    labels = [
        list(map(list, map(lambda row: row.tolist(), rows)))
        for rows in zip(*vectors.values(), strict=True)
    ]
    trainer = stage.trainer(
        lambda model: losses.EmbedDistillLoss(model, projection_dim=64),
        {**table, "label": labels}, fresh(stage, table, width=32), learning_rate=3e-3,
        max_steps=150,
    )  # fmt: skip
    learns(stage, trainer, JOBS.sought, least=0.1)
