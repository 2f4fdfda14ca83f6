"""Which column plays which part: keys for anchors, a column twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.judgement.case import DOCTOR, INSPECT, REPORT, faulty
from tests.judgement.first.hand_loops import batches, compare, fit, infonce
from tests.judgement.stage import Stage, pairs
from tests.judgement.truth import among_alike, suffers
from tests.sentence_training import losses

ranking = losses.MultipleNegativesRankingLoss
KEYS = (
    r"\b(id|ids|identifier|key|index|row number|number)s?\b", r"digit", r"numeric",
    r"column.{0,80}(order|first|role|anchor|names?|extra|third|three)", r"not (a )?text",
    r"(no|without|few) (letters|words)", r"(short|single.token|one word)",
    r"negatives?.{0,80}(closer|more similar|nearer|positive|answer)",
    r"(positives?|anchors?).{0,60}(unrelated|nothing in common|no (word|overlap))",
)  # fmt: skip
TWICE = (
    r"same (text|column|input|row|embedding|view)s?", r"identical", r"twice", r"duplicat",
    r"cop(y|ies)", r"(views|columns|embeddings).{0,60}(equal|alike|the same|do not differ)",
    r"(positive|cosine|similarit)\w*.{0,60}(\b1\b|\b1\.0|0\.9\d|from the (start|beginning|first))",
    r"(too )?(easy|trivial)", r"solved", r"from the (start|first step)", r"shortcut",
    r"(loss|gradient)s?.{0,60}(near 0|close to 0|tiny|nearly zero|vanish|little|small)",
    r"only dropout",
)  # fmt: skip


@faulty(
    "number of the row read as anchor",
    "The table still has its first column, the keys of the rows: keys are anchors, questions are "
    "positives, and the right answers are hard negatives.",
    KEYS,
    tools=(DOCTOR, REPORT, INSPECT),
)
def keys_before_the_questions(stage: Stage) -> None:
    table = {"id": [str(40000 + 7 * at) for at in range(160)], **pairs()}
    suffers(stage, stage.trainer(ranking, table), lambda: stage.trainer(ranking, pairs()))
    stage.inspect(table)


@faulty(
    "question encoded in place of its answer",
    "A slip of copying encodes the questions twice; the answers are never read.",
    TWICE,
    tools=(REPORT,),
    never=(r"(lower|smaller|reduce the) (learning )?rate",),
)
def questions_encoded_twice(stage: Stage) -> None:
    def training(model: Any, watch: Callable[[Any], Any], is_faulty: bool) -> None:
        read = batches(pairs(), 50)
        rows = ((first, first if is_faulty else second) for first, second in read)
        fit(model, watch(infonce), rows=rows)

    compare(stage, training, among_alike, steps=50)
