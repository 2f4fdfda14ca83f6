"""Labels that do not fit the loss: of other rows, beyond the classifier, of one text each."""

from __future__ import annotations

import random
from typing import Any

from tests.judgement.case import faulty
from tests.judgement.stage import Stage, classes, pairs, scored
from tests.judgement.truth import correlation, suffers
from tests.sentence_training import losses

UNRELATED = (
    r"shuffl", r"(another|other|wrong) (row|order|pair|text)s?", r"unrelated", r"misalign",
    r"not belong", r"chance", r"mismatch", r"(un|not |no |in)correlat", r"noise", r"random",
    r"contradict",
    r"(score|label)s?.{0,80}(overlap|common words|similar|do not (follow|agree|fit))",
    r"sorted", r"agree",
)  # fmt: skip
BEYOND = (
    r"num_labels", r"out of (bounds|range)", r"classes", r"number of (labels|outputs)",
    r"label.{0,80}(beyond|exceed|larger|greater|above|at most|below|outside|range|\b2\b|\b3\b)",
    r"classifier", r"target 2", r"index",
)  # fmt: skip
LONE = (
    r"(no|without|few|lack\w*|hardly any) (positive|partner|other (text|row)|pair)s?",
    r"(class|label)(es|s)?.{0,80}(one|single|once|1) (row|text|time|example|sample|member)?",
    r"(unique|distinct|different|own) (label|class)", r"(label|class)\w*.{0,60}(unique|distinct)",
    r"singleton", r"(each|every) (row|text|label|class).{0,60}(own|different|once|single|alone)",
    r"as many (labels|classes) as", r"positives?.{0,60}(none|missing|no\b|itself)",
    r"(need|require|expect)s? .{0,60}(two|at least 2|several|more than one)",
)  # fmt: skip


@faulty(
    "scores sorted apart from their pairs",
    "The score column was sorted on its own before the table was put together: each pair of texts "
    "has the score of another pair.",
    UNRELATED,
    never=(r"(larger|bigger|raise the) batch",),
)
def scores_sorted_apart(stage: Stage) -> None:
    table = scored()
    spoilt = table | {"score": sorted(table["score"])}
    suffers(
        stage,
        stage.trainer(losses.CosineSimilarityLoss, spoilt, learning_rate=2e-3),
        lambda: stage.trainer(losses.CosineSimilarityLoss, table, learning_rate=2e-3),
        correlation,
    )


def _relations() -> dict[str, list[Any]]:
    """Pairs of three classes: the answer, another text of the place, an unrelated text."""
    table = pairs()
    unrelated_texts, draw = pairs(seed=9)["positive"], random.Random(2)
    seconds, labels = [], []
    for text, unrelated in zip(table["positive"], unrelated_texts, strict=True):
        label = draw.randrange(3)
        mixed = " ".join(text.split()[:4] + unrelated.split()[4:])
        seconds.append((text, mixed, unrelated)[label])
        labels.append(label)
    return {"premise": table["anchor"], "hypothesis": seconds, "label": labels}


@faulty(
    "three classes for a classifier of two",
    "SoftmaxLoss was made with num_labels=2, and the labels of the table are 0, 1 and 2: the first "
    "batch with a 2 ends the training.",
    BEYOND,
)
def three_classes_for_two_outputs(stage: Stage) -> None:
    def of(outputs: int) -> Any:
        return stage.trainer(
            lambda model: losses.SoftmaxLoss(model, 32, num_labels=outputs),
            _relations(),
            learning_rate=1e-3,
        )

    suffers(stage, of(2), lambda: of(3), fails=True)


@faulty(
    "row number for a class",
    "The label column holds the number of the row, so that each text is a class of its own and no "
    "triplet has a positive.",
    LONE,
)
def row_numbers_for_classes(stage: Stage) -> None:
    table = classes()
    spoilt = table | {"label": list(range(160))}

    def of(rows: dict[str, list[Any]]) -> Any:
        return stage.trainer(losses.BatchHardSoftMarginTripletLoss, rows, learning_rate=1e-3)

    suffers(stage, of(spoilt), lambda: of(table))
