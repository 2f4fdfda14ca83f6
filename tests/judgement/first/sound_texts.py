"""Made-up texts of several fields for the sound set-ups, and their truth on unseen texts."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from tests.judgement.stage import (
    FILLERS,
    PEOPLE,
    PLACES,
    TOPICS,
    VERBS,
    Stage,
    facts,
    passage,
)
from tests.judgement.truth import among_alike, learns, retrieval
from tests.tiny_models import WORDS

Fact = tuple[str, ...]
Maker = Callable[[Sequence[Fact]], dict[str, list[str]]]
# Evaluated and logged at the same steps.
EVALUATED = {"eval_strategy": "steps", "eval_steps": 10}


def close(count: int = 100, seed: int = 11, *, places: int = 5, others: int = 6) -> list[Fact]:
    """Different facts of few words, so that each has most of them in common with many."""
    draw = random.Random(seed)
    few = [draw.sample(words, number) for words, number in
           ((VERBS, others), (TOPICS, others), (PLACES, places), (PLACES, places))]  # fmt: skip
    answers: dict[Fact, Fact] = {}
    while len(answers) < count:
        fact = tuple(draw.choice(words) for words in few)
        answers.setdefault(fact, (draw.choice(PEOPLE), str(draw.randint(3, 97))))
    return [(*fact, *answer) for fact, answer in answers.items()]


def sought(maker: Maker, *, prompts: Any = None) -> Callable[[Any], float]:
    """A score: how well texts of a form are found among texts much like them."""
    table = dict(list(maker(close()).items())[:2])
    return lambda model: retrieval(model, table, prompts=prompts)


def learned(
    stage: Stage,
    trainer: Any,
    score: Callable[[Any], float] = among_alike,
    **options: Any,
) -> None:
    """Play a sound trainer, which raises the score by 0.05 or more."""
    learns(stage, trainer, score, least=0.05, **options)


def abroad(text: str) -> str:
    """A text of another language, word by word; numbers and marks stay."""
    place = {word: at for at, word in enumerate(WORDS)}
    return " ".join(
        WORDS[(place[word] + 131) % len(WORDS)] if word in place else word for word in text.split()
    )


def filling(fact: Fact, count: int, salt: str = "") -> str:
    """Words that say nothing, always the same ones for a fact."""
    return " ".join(random.Random(" ".join(fact) + salt).choices(FILLERS, k=count))


def titled(rows: Sequence[Fact]) -> dict[str, list[str]]:
    """Titles and abstracts: an abstract says what its title says, and much more."""
    return {
        "title": [f"{verb} {topic} . {place} {near}" for verb, topic, place, near, *_ in rows],
        "abstract": [f"{filling(fact, 6)} . {passage(fact)}" for fact in rows],
    }


def coded(rows: Sequence[Fact]) -> dict[str, list[str]]:
    """Descriptions of functions, and their code."""
    return {
        "description": [
            f"{verb} {topic} bi {place} ma {near} ." for verb, topic, place, near, *_ in rows
        ],
        "code": [
            f"def {verb}_{topic}({place}, {near}={number}): return {person}.{verb}({place}, {near})"
            for verb, topic, place, near, person, number in rows
        ],
    }


def translated(rows: Sequence[Fact]) -> dict[str, list[str]]:
    """Sentences and their translations."""
    home = [passage(fact, fillers=3) for fact in rows]
    return {"home": home, "abroad": [abroad(text) for text in home]}


def searched(rows: Sequence[Fact]) -> dict[str, list[str]]:
    """Queries of three key words, and the documents that people opened."""
    draws = [random.Random(" ".join(fact)) for fact in rows]
    return {
        "query": [
            " ".join(draw.sample(fact[:4], 3)) for draw, fact in zip(draws, rows, strict=True)
        ],
        "document": [passage(fact, fillers=5) for fact in rows],
    }


def sold(rows: Sequence[Fact]) -> dict[str, list[str]]:
    """Names of products as two shops write them."""
    return {
        "ours": [f"{place} {near} {topic} {number}" for _, topic, place, near, _, number in rows],
        "theirs": [
            f"{place} {near} {topic} {verb} , {number} {filling(fact, 2)}"
            for fact in rows
            for verb, topic, place, near, _, number in [fact]
        ],
    }


def asked(rows: Sequence[Fact]) -> dict[str, list[str]]:
    """Frequent questions, politely put, and their answers."""
    return {
        "question": [
            f"{filling(fact, 2, '?')} ka {verb} {topic} {place} {near} ?"
            for fact in rows
            for verb, topic, place, near, *_ in [fact]
        ],
        "answer": [passage(fact, fillers=4) for fact in rows],
    }


def made(maker: Maker, count: int = 160, seed: int = 0) -> dict[str, list[str]]:
    """Rows of a form for training."""
    return maker(facts(count, seed))
