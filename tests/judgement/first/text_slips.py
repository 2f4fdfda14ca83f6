"""Texts that are no texts, that are damaged, or that repeat."""

from __future__ import annotations

import random

from tests.judgement.case import DOCTOR, INSPECT, REPORT, faulty
from tests.judgement.first.scenes import across, bilingual, inspect_tuned
from tests.judgement.stage import Stage
from tests.judgement.truth import suffers
from tests.sentence_training import losses

ranking = losses.MultipleNegativesRankingLoss
ALL = (DOCTOR, REPORT, INSPECT)
PLAN = {"learning_rate": 2e-3, "max_steps": 80}
REPEATED = (
    r"duplicat",
    r"repeat",
    r"distinct",
    r"(the )?same (text|positive|passage)",
    r"identical",
    r"false negative",
    r"stands? in \d+ rows",
    r"share a (text|positive)",
)
ODD = (
    r"(not|no) (\w+ )?(text|sentence|word|language)s?\b",
    r"single (letter|character)s?",
    r"letters?\b",
    r"digits?",
    r"numbers?\b",
    r"tokens? (per|of each|for each) word",
    r"tokens",
    r"characters?",
    r"spac(e|ed|es)",
    r"damag",
    r"broken",
    r"split",
    r"fragment",
    r"unusual",
    r"unknown",
    r"cut",
)


def _suffers(stage: Stage, positives: list[str], **options: object) -> None:
    """Play bilingual pairs with damaged positives beside whole ones, and inspect them."""
    table = bilingual(len(positives))
    damaged = table | {"positive": positives}
    suffers(
        stage,
        stage.trainer(ranking, damaged, **PLAN),
        lambda: stage.trainer(ranking, table, **PLAN),
        across,
        **options,
    )
    inspect_tuned(stage, damaged)


@faulty(
    "missing cells read as the word nan",
    "Most passages were missing in the table and became the text nan.",
    (*REPEATED, r"\bnan\b", r"missing", r"empty", r"placeholder"),
    tools=ALL,
)
def missing_passages_become_the_text_nan(stage: Stage) -> None:
    texts = bilingual(640)["positive"]
    _suffers(stage, ["nan" if at % 4 else text for at, text in enumerate(texts)])


@faulty(
    "token ids written as texts",
    "The passages were tokenised before: their texts are lists of numbers.",
    (*ODD, r"\bids?\b", r"tokeni[sz]ed", r"(nothing|no words?) in common", r"trunc"),
    tools=ALL,
)
def passages_as_numbers_of_tokens(stage: Stage) -> None:
    tokenizer = stage.model().tokenizer
    texts = bilingual(640)["positive"]
    _suffers(stage, [" ".join(map(str, tokenizer(text)["input_ids"])) for text in texts])


@faulty(
    "letters spaced by a bad extraction",
    "Passages come from scanned pages on which each letter stands by itself.",
    ODD,
    tools=ALL,
)
def letters_of_passages_stand_apart(stage: Stage) -> None:
    _suffers(stage, [" ".join(text.replace(" ", "")) for text in bilingual(640)["positive"]])


@faulty(
    "one column sorted by itself",
    "The passages were sorted for removing duplicates, the questions were not: rows no longer "
    "belong together.",
    (
        r"unrelated",
        r"(not|n.t) (belong|match|fit)",
        r"misalign",
        r"align",
        r"shuffl",
        r"sorted",
        r"(chance|random)",
        r"(another|wrong) row",
        r"(positive|pair)s? .{0,60}no (nearer|closer|more alike)",
        r"rows? .{0,40}(order|shift)",
        r"nothing in common",
        r"no more (alike|similar)",
    ),
    tools=ALL,
)
def passages_sorted_without_their_questions(stage: Stage) -> None:
    _suffers(stage, sorted(bilingual(640)["positive"]))


@faulty(
    "template never filled in",
    "The names in the template of the passages were never replaced, so that all are one text.",
    (*REPEATED, r"placeholder", r"template", r"constant", r"all .{0,30}(equal|alike)"),
    tools=ALL,
)
def passages_are_an_empty_template(stage: Stage) -> None:
    _suffers(stage, ["{title} is about {topic} at {place} ."] * 640)


@faulty(
    "table concatenated with itself",
    "A few rows were joined to the table time and again, and batches hold copies of a row as its "
    "negatives.",
    REPEATED,
    tools=ALL,
)
def few_rows_many_times(stage: Stage) -> None:
    few = bilingual(8)
    order = random.Random(0).sample(range(320), 320)
    table = {name: [cells[at % 8] for at in order] for name, cells in few.items()}
    whole = bilingual(320)
    suffers(
        stage,
        stage.trainer(ranking, table, **PLAN),
        lambda: stage.trainer(ranking, whole, **PLAN),
        across,
    )
    inspect_tuned(stage, table)
