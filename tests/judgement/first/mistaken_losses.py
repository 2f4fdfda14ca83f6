"""Trainers with a mistake in the loss: scales, margins, labels, teachers."""

from __future__ import annotations

import random
from typing import Any

from tests.judgement.case import faulty
from tests.judgement.first.mistake_fields import (
    BEES,
    GARDEN,
    HARBOUR,
    MUSEUM,
    SEWING,
    STARS,
    encoder_of_field,
    losses,
    ranking,
    training,
)
from tests.judgement.stage import Stage
from tests.judgement.truth import suffers

NO_NEGATIVES = (
    r"(?i)(no|without|lack of|missing|0|never any) (negatives?|push|repuls|dissimilar)",
    r"(?i)(label|score|target)s?.{0,40}(all|constant|only|same|equal|one value|single)",
)
VOID = r"(?i)loss.{0,40}(is|are|of|always|exactly|near|at) (0|zero)|no (gradient|triplet)"


def classes(field: Any, of_its_own: bool) -> dict[str, list[Any]]:
    """Texts of both columns; both of a row are of one class, or each is ``of_its_own``."""
    first, second = field.table(120).values()
    labels = [*range(120), *(range(120, 240) if of_its_own else range(120))]
    rows = list(zip([*first, *second], labels, strict=True))
    random.Random(3).shuffle(rows)
    return {"text": [text for text, _ in rows], "label": [label for _, label in rows]}


@faulty(
    "numbers of rows as classes",
    "The label column holds numbers of rows: no two texts are of one class, and no triplet exists.",
    [
        VOID,
        r"(?i)(label|class)(es|s)?.{0,60}(unique|own|single|different|once|one (text|"
        r"row)|no two|all)",
        r"(?i)(no|without|0) (positives?|triplets?|pairs?|two texts)",
    ],
)
def every_text_is_a_class_of_its_own(stage: Stage) -> None:
    def built(slip: bool) -> Any:
        return training(
            stage, STARS, losses.BatchHardSoftMarginTripletLoss, classes(STARS, slip),
            batch_sampler="batch_sampler" if slip else "group_by_label", max_steps=100,
        )  # fmt: skip

    suffers(stage, built(True), lambda: built(False), STARS.sought)


@faulty(
    "classes not grouped in batches",
    "Batches are drawn without regard to classes of two texts: hardly any has two of one class.",
    [
        r"(?i)sampler|group_by_label|group",
        r"(?i)(few|no|hardly|rare|without|seldom).{0,30}(positives?|triplets?|(same|one) "
        r"class|pairs?)",
        r"(?i)(batch|class).{0,60}(one|single|same|two|fewer than 2) (text|row|class|"
        r"label|example)",
        VOID,
    ],
)
def batches_without_two_texts_of_a_class(stage: Stage) -> None:
    def built(sampler: str) -> Any:
        return training(
            stage, SEWING, losses.BatchAllTripletLoss, classes(SEWING, False),
            batch_sampler=sampler, max_steps=60,
        )  # fmt: skip

    suffers(stage, built("batch_sampler"), lambda: built("group_by_label"), SEWING.sought)


@faulty(
    "margins of a teacher with the wrong sign",
    "Margins are the score of the negative less that of the positive: the student learns to rank "
    "negatives first.",
    [
        r"(?i)(margin|label|score)s?.{0,60}(\bsign|negative (values?|numbers?|margin)|"
        r"revers|invert|opposite|wrong way|swap)",
        r"(?i)negatives?.{0,60}(closer|nearer|above|higher|before|over|more alike).{0,30}positive",
        r"(?i)positives?.{0,60}(farther|below|lower|behind|less|no closer|pushed)",
    ],
)
def margins_of_negatives_less_positives(stage: Stage) -> None:
    right = HARBOUR.table(200)
    right["negative"] = [*right["log"][11:], *right["log"][:11]]
    wrong = right | {"label": [-8.0] * 200}
    right["label"] = [8.0] * 200
    suffers(
        stage,
        training(stage, HARBOUR, losses.MarginMSELoss, wrong),
        lambda: training(stage, HARBOUR, losses.MarginMSELoss, right),
        HARBOUR.sought,
    )


@faulty(
    "teacher's vectors of other rows",
    "The texts were shuffled after the teacher's vectors were computed: each has another's vector.",
    [
        r"(?i)(unrelated|mismatch|misalign|do(es)? not (fit|match|belong)|shuffl|shift|other row)",
        r"(?i)(teacher|label|target)s?.{0,80}(wrong|chance|random|other|another|order|unrelated|"
        r"not (follow|predict|fit|match))",
        r"(?i)(loss).{0,40}(not fall|stall|plateau|hardly fall|does not|floor|stuck)",
    ],
)
def teacher_vectors_of_shuffled_rows(stage: Stage) -> None:
    def built(shift: int) -> Any:
        teacher = training(stage, MUSEUM, model=encoder_of_field(stage, MUSEUM, seed=8))
        teacher.train()
        texts = [text for column in MUSEUM.table(200).values() for text in column]
        vectors = teacher.model.encode(texts, show_progress_bar=False).tolist()
        table = {"text": texts, "label": [*vectors[shift:], *vectors[:shift]]}
        return training(stage, MUSEUM, losses.MSELoss, table, max_steps=100)

    suffers(stage, built(37), lambda: built(0), MUSEUM.sought)


@faulty(
    "filter of false negatives drops all",
    "With the margin 1.5 the guide counts every text of the batch as a false negative: "
    "none is left.",
    [
        r"(?i)margin|guide|false negative|filter|mask",
        VOID,
        *NO_NEGATIVES,
    ],
)
def guide_counts_every_text_as_false_negative(stage: Stage) -> None:
    def built(margin: float) -> Any:
        guide = encoder_of_field(stage, GARDEN, seed=9)
        return training(
            stage, GARDEN, lambda model: losses.GISTEmbedLoss(
                model, guide, temperature=0.05, margin_strategy="absolute", margin=margin
            ),
        )  # fmt: skip

    suffers(stage, built(1.5), lambda: built(-1.5), GARDEN.sought)


@faulty(
    "only the first dimensions trained",
    "The list of nested dimensions lacks the full size: only the first two dimensions are trained.",
    [
        r"(?i)matryoshka|dimension|(low|effective) rank|nested",
        r"(?i)(few|most|part|some).{0,30}(components?|coordinates?).{0,30}(gradient|train|used)",
    ],
)
def only_the_first_two_dimensions_trained(stage: Stage) -> None:
    def built(sizes: list[int]) -> Any:
        return training(
            stage, BEES, lambda model: losses.MatryoshkaLoss(model, ranking(model), sizes),
            max_steps=50,
        )  # fmt: skip

    suffers(stage, built([2]), lambda: built([48, 16]), BEES.sought)
