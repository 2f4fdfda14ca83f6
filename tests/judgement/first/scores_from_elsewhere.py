"""Scores and classes that were made for another purpose than the loss takes them for."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from sentence_transformers.sentence_transformer import losses

from tests.judgement.case import faulty
from tests.judgement.first.bodies import encoder, words_of
from tests.judgement.first.fields import CODE, HELPDESK, KITCHEN, TRAVEL, Field
from tests.judgement.first.good_fields import requests
from tests.judgement.first.loop_rows import nearest_class
from tests.judgement.first.turns import warmed
from tests.judgement.stage import Stage, facts, lookalike, passage, question
from tests.judgement.truth import correlation, in_one_place, suffers

QUICK = {"learning_rate": 2e-3, "max_steps": 60}
SCALE = (
    r"(?i)(scores?|labels?).{0,80}(range|scale|beyond|outside|exceed|greater than 1|above 1|"
    r"below -?[01]|units?\b|from -?\d)",
    r"(?i)\[?(0|-1)\]?.{0,12}(to|and|\.\.) ?1\b.{0,40}(expect|need|want)|cosines? can",
)


def graded_beside(
    stage: Stage,
    field: Field,
    slip: Callable[[float], float],
    loss: Any = losses.CosineSimilarityLoss,
    mended: Callable[[float], float] = float,
) -> None:
    """Train with scores changed by ``slip``, and with those changed by ``mended``."""
    table, sought = field.graded(240), field.graded(60, seed=11)

    def trainer(change: Callable[[float], float]) -> Any:
        changed = table | {"score": [change(score) for score in table["score"]]}
        model = encoder(stage, words_of([table, sought]))
        model = warmed(model, field.table(240), steps=12)
        return stage.trainer(loss, changed, model, **QUICK)

    suffers(stage, trainer(slip), lambda: trainer(mended), lambda model: correlation(model, sought))


@faulty(
    "certainty of annotators as similarity",
    "The score tells how sure annotators were and not how alike the texts are: it is highest for "
    "pairs that clearly differ, too.",
    [
        r"(?i)(scores?|labels?).{0,100}(not (tell|fit|follow|match|agree|go|correl)|unrelated|"
        r"contradict|no (relation|correlation)|noise|weak|chance)",
        r"(?i)correlat.{0,60}(weak|low|none|no|little|0|negative|fall)",
        r"(?i)(differ|unlike|unrelated|low overlap).{0,60}(high|great) scores?|"
        r"high(est)? scores?.{0,80}(differ|unlike|unrelated|share no)",
    ],
)
def certainty_in_the_column_of_scores(stage: Stage) -> None:
    """Tables of crowd work have both columns, and the wrong one is renamed to `score`."""
    graded_beside(stage, CODE, lambda score: abs(2 * score - 1))


@faulty(
    "scores of a keyword search as cosines",
    "Raw scores of a search engine, from 4 to 32, are fitted by cosines.",
    [*SCALE, r"(?i)normali[sz]e the (scores|labels)|rescal"],
)
def search_scores_in_place_of_cosines(stage: Stage) -> None:
    """Pairs that were mined by a search keep its score."""
    graded_beside(stage, TRAVEL, lambda score: 4 + 28 * score)


@faulty(
    "answers of a survey centred on its mean",
    "Answers from 1 to 5 had their mean subtracted: cosines are to be -2 for what differs and 2 "
    "for what is alike.",
    [*SCALE, r"(?i)negative (scores|labels)|rescal|normali[sz]e the (scores|labels)"],
)
def survey_answers_less_their_mean(stage: Stage) -> None:
    """Scores were standardised as targets of a regression are."""
    graded_beside(stage, KITCHEN, lambda score: round(4 * score) - 2.0)


def coded(names: list[str], *, fits: str | None = None) -> list[int]:
    """Numbers of names in alphabetical order, or 1 for the name that fits."""
    order = sorted(set(names))
    return [order.index(name) if fits is None else int(name == fits) for name in names]


@faulty(
    "names of labels numbered by the alphabet",
    "The labels 'equivalent' and 'unrelated' were numbered in alphabetical order: 0 stands for "
    "pairs that fit.",
    [
        r"(?i)revers|invert|flip|opposite|swapp|exchang|wrong way|upside|\bsigns?\b",
        r"(?i)(label|class)e?s? (of )?(0|1)\b.{0,80}(alike|fit|similar|close|overlap|differ|"
        r"unrelated|words)",
        r"(?i)(label|score)s?.{0,80}(contradict|wrong|against|disagree)",
    ],
)
def labels_in_alphabetical_order(stage: Stage) -> None:
    """`class_encode_column("label")` sorts the names of the labels."""
    table_facts = facts(160)
    firsts = list(map(question, table_facts))
    seconds = [passage(fact) if at % 2 else lookalike(fact) for at, fact in enumerate(table_facts)]
    names = ["equivalent" if at % 2 else "unrelated" for at in range(160)]

    def trainer(fits: str | None) -> Any:
        table = {"sentence1": firsts, "sentence2": seconds, "label": coded(names, fits=fits)}
        return stage.trainer(losses.ContrastiveLoss, table, **QUICK)

    suffers(stage, trainer(None), lambda: trainer("equivalent"), in_one_place)


@faulty(
    "source of a text as its class",
    "The class is the channel that a request came by and not what it is about.",
    [
        r"(?i)(labels?|class(es)?).{0,100}(not (tell|fit|follow|match|agree)|unrelated|wrong|"
        r"no (relation|more)|noise|chance|not (more )?(alike|similar|closer)|do(es)? not)",
        r"(?i)(within|inside|same|of a|of one) class.{0,80}(not|no) (more|closer|nearer)",
        r"(?i)(not learn|nothing (is )?learn|loss.{0,40}(not fall|flat|stuck|at the margin))",
    ],
)
def channel_in_the_column_of_classes(stage: Stage) -> None:
    """The wrong column of a table of tickets is renamed to `label`."""
    table, sought = requests(240), requests(80, seed=11)
    draw = random.Random(4)
    channels = [draw.randrange(10) for _ in range(240)]

    def trainer(labels: list[int]) -> Any:
        model = encoder(stage, words_of([table, sought]))
        rows = {"text": table["request"], "label": labels}
        return stage.trainer(losses.BatchHardSoftMarginTripletLoss, rows, model, **QUICK)

    suffers(
        stage,
        trainer(channels),
        lambda: trainer(table["label"]),
        lambda model: nearest_class(model, sought, "request"),
    )


@faulty(
    "price in the column of scores",
    "The column of scores holds prices in thousands and not how alike the texts are.",
    [
        *SCALE,
        r"(?i)(scores?|labels?).{0,100}(not (tell|fit|follow|match|correl)|unrelated|"
        r"no relation|noise)",
    ],
)
def price_in_the_column_of_scores(stage: Stage) -> None:
    """The first column of numbers of a table was taken for its scores."""
    draw = random.Random(8)
    graded_beside(stage, HELPDESK, lambda _: 5 + 990 * draw.random())
