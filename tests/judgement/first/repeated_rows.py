"""Faults of rows: repeated, overlapping, nearly equal, or told apart by what does not matter."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from tests.judgement.case import faulty
from tests.judgement.first.materials import (
    ANYWHERE,
    CUT,
    FALSE_NEGATIVE,
    LONGER,
    REPEATED,
    TOKENS,
    InOrder,
    cosine_triplet,
    mistaught,
    ranking,
)
from tests.judgement.stage import (
    FILLERS,
    PEOPLE,
    PLACES,
    Stage,
    facts,
    lookalike,
    pairs,
    passage,
    question,
    triplets,
)
from tests.judgement.truth import alike, among_alike, in_one_place, retrieval, suffers


def shuffled(table: Mapping[str, list[Any]], seed: int = 3) -> dict[str, list[Any]]:
    """The rows in another order."""
    rows = [*zip(*table.values(), strict=True)]
    random.Random(seed).shuffle(rows)
    return dict(zip(table, map(list, zip(*rows, strict=True)), strict=True))


@faulty(
    "one row for each negative of an anchor",
    "An anchor with ten hard negatives became ten rows with the same anchor and positive, one "
    "after the other; in a batch they are each other's negatives.",
    [REPEATED, FALSE_NEGATIVE, r"sort|shuffl|in order"],
    tools=ANYWHERE,
    never=[LONGER],
)
def rows_exploded_by_negatives(stage: Stage) -> None:
    """https://github.com/huggingface/sentence-transformers/issues/1525 and issues/2954."""
    draw = random.Random(1)
    table: dict[str, list[str]] = {"anchor": [], "positive": [], "negative": []}
    for fact in facts(16):
        for _ in range(10):
            table["anchor"].append(question(fact))
            table["positive"].append(passage(fact))
            alternative = (*draw.choice(facts(40, seed=9))[:2], *fact[2:])
            table["negative"].append(passage(alternative))
    settings = {"kind": InOrder, "learning_rate": 1e-3}
    mistaught(stage, table, shuffled(table), share=None, **settings)


def windows(stride: int, length: int = 12, count: int = 160) -> dict[str, list[str]]:
    """Passages cut from a running text, and questions made of four of their words."""
    draw = random.Random(6)
    words = draw.choices([*PLACES, *FILLERS, *PEOPLE], k=stride * count + length)
    table: dict[str, list[str]] = {"anchor": [], "positive": []}
    for at in range(0, stride * count, stride):
        window = words[at : at + length]
        table["anchor"].append("ka " + " ".join(draw.sample(window, 4)) + " ?")
        table["positive"].append(" ".join(window))
    return table


@faulty(
    "overlapping chunks as each other's negatives",
    "Documents were cut into chunks that overlap by three quarters, and the questions of a chunk "
    "are answered by its neighbours as well, which are its negatives.",
    [
        FALSE_NEGATIVE,
        REPEATED,
        r"overlap|chunk|neighbou?r|near.(duplicate|equal|identical)|similar to each other",
    ],
    tools=ANYWHERE,
    never=[LONGER],
)
def chunks_with_a_stride_of_one(stage: Stage) -> None:
    """https://github.com/FlagOpen/FlagEmbedding/issues/1262: pairs made from chunks."""
    few = windows(1, count=40)
    table = {name: texts * 4 for name, texts in few.items()}
    table["anchor"] = [
        "ka " + " ".join(random.Random(at).sample(text.split(), 4)) + " ?"
        for at, text in enumerate(table["positive"])
    ]
    mistaught(stage, shuffled(table), windows(12), learning_rate=1e-3, share=None)


@faulty(
    "nearly equal passages as each other's negatives",
    "Passages from templates differ by a name and a number only, which no question mentions: a "
    "batch holds many that answer the same question.",
    [
        FALSE_NEGATIVE,
        REPEATED,
        r"near.?(duplicate|equal|ident)|template|alike|few (facts|topics|words)|"
        r"(hard|close|near).{0,40}negatives?",
    ],
    tools=ANYWHERE,
    never=[LONGER],
)
def passages_of_a_template(stage: Stage) -> None:
    """https://github.com/huggingface/sentence-transformers/issues/3279: near-deduplication."""
    draw, table = random.Random(1), {"anchor": [], "positive": []}
    for fact in facts(8):
        for _ in range(20):
            words = question(fact).split()[1:-1]
            draw.shuffle(words)
            table["anchor"].append(" ".join([draw.choice(("ka", "ti", "lo")), *words, "?"]))
            alternative = (*fact[:4], draw.choice(PEOPLE), str(draw.randint(3, 97)))
            table["positive"].append(passage(alternative, fillers=0))
    mistaught(stage, shuffled(table), pairs(), retrieval, share=None, learning_rate=1e-3)


@faulty(
    "negatives told by their style",
    "A language model wrote the negatives and began each with the same phrase: that phrase is all "
    "that has to be learned.",
    [
        r"negatives?.{0,120}(begin|start|same|phrase|word|style|pattern|told|easy|shortcut)",
        r"(shortcut|artefact|artifact|same (beginning|start|words|prefix)|begin (alike|with))",
    ],
    tools=ANYWHERE,
    never=[LONGER],
)
def negatives_behind_a_phrase(stage: Stage) -> None:
    """Common with negatives that a language model writes: 'This passage, by contrast, ...'."""
    table = triplets()
    phrase = " ".join(FILLERS[20:24])
    styled = table | {"negative": [f"{phrase} , {text}" for text in table["negative"]]}
    mistaught(stage, styled, table, in_one_place, loss=cosine_triplet, learning_rate=1e-3,
              max_steps=60)  # fmt: skip


@faulty(
    "markup fills the length",
    "Passages are pages with their tags, which fill the length: what the page says is cut off.",
    [
        CUT,
        TOKENS,
        REPEATED,
        r"markup|html|\btags?\b|same (beginning|start|prefix)|begin (alike|with)",
    ],
    tools=ANYWHERE,
    never=[LONGER],
)
def pages_with_their_tags(stage: Stage) -> None:
    """Common with crawled pages: tags, menus and scripts before the text."""
    table, draw = pairs(), random.Random(5)
    tags = ["< div class = main >", "< nav id = top >", "< p style = left >", "< a href = next >"]
    marked = [" ".join([*draw.sample(tags, 4), text]) for text in table["positive"]]
    unseen = alike()
    stage.inspect(table | {"positive": marked}, max_length=24)
    suffers(
        stage,
        stage.trainer(ranking, table | {"positive": marked}, stage.model(length=24)),
        lambda: stage.trainer(ranking, pairs(), stage.model(length=24)),
        lambda model: retrieval(model, unseen),
        share=None,
    )


@faulty(
    "history of a conversation before the question",
    "Each anchor holds the turns before the question, which comes last and is cut off.",
    [CUT, r"history|conversation|turns?\b|last|end of"],
    tools=ANYWHERE,
    never=[LONGER],
)
def question_behind_its_conversation(stage: Stage) -> None:
    """Common with chat data, whose turns are joined from the first to the last."""
    asked = facts(160)
    earlier = facts(160, seed=21)
    talk = [
        " ".join([question(earlier[at]), passage(earlier[at]), question(earlier[at - 1])])
        for at in range(160)
    ]
    table = {
        "anchor": [f"{talk[at]} {question(fact)}" for at, fact in enumerate(asked)],
        "positive": [*map(passage, asked)],
    }
    mended = table | {"anchor": [*map(question, asked)]}
    stage.inspect(table, max_length=20)
    suffers(
        stage,
        stage.trainer(ranking, table, stage.model(length=20)),
        lambda: stage.trainer(ranking, mended, stage.model(length=20)),
        among_alike,
    )


@faulty(
    "lookalikes of the positive as rows of their own",
    "The negatives that a miner found were written into the file as further positives of the same "
    "anchor, as the column with the label was dropped.",
    [
        REPEATED,
        FALSE_NEGATIVE,
        r"positives?.{0,100}(unrelated|wrong|contradict|different|not)",
        r"several (positives|passages)|label",
    ],
    tools=ANYWHERE,
    never=[LONGER],
)
def negatives_kept_as_positives(stage: Stage) -> None:
    """https://github.com/huggingface/sentence-transformers/issues/1525: rows (a, p), (a, n)."""
    asked = facts(80)
    table = {
        "anchor": [question(fact) for fact in asked for _ in range(2)],
        "positive": [text for fact in asked for text in (passage(fact), lookalike(fact))],
    }
    mended = {"anchor": [*map(question, asked)], "positive": [*map(passage, asked)]}
    mistaught(stage, shuffled(table), mended, in_one_place, learning_rate=1e-3, max_steps=60,
              share=None)  # fmt: skip
