"""Tables of texts in the forms that people train on, and losses and evaluators of the library."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.judgement.stage import (
    FILLERS,
    PEOPLE,
    PLACES,
    TOPICS,
    VERBS,
    Stage,
    facts,
    lookalike,
    pairs,
    passage,
    question,
)
from tests.judgement.truth import alike, retrieval

FAST = {"learning_rate": 1e-3}
EVALUATED = {"eval_strategy": "steps", "eval_steps": 10}
BEST = {
    "save_strategy": "steps",
    "save_steps": 10,
    "save_total_limit": 2,
    "load_best_model_at_end": True,
    **EVALUATED,
}


def library(name: str, **options: Any) -> Callable[[Any], Any]:
    """Return a function that makes a loss of sentence-transformers for a model."""

    def loss(model: Any) -> Any:
        from tests.sentence_training import losses

        return getattr(losses, name)(model, **options)

    return loss


def around(name: str, inner: Callable[[Any], Any], **options: Any) -> Callable[[Any], Any]:
    """Return a function that makes a loss around another loss."""

    def loss(model: Any) -> Any:
        from tests.sentence_training import losses

        return getattr(losses, name)(model, inner(model), **options)

    return loss


ranking = library("MultipleNegativesRankingLoss")


def shuffled(table: Mapping[str, Sequence[Any]], seed: int = 0) -> dict[str, list[Any]]:
    """Return the rows of a table in a random order."""
    count = len(next(iter(table.values())))
    order = random.Random(seed).sample(range(count), count)
    return {name: [cells[at] for at in order] for name, cells in table.items()}


def several_answers(count: int = 60, seed: int = 0) -> dict[str, list[str]]:
    """Questions with two or three right answers each, one pair in a row."""
    table: dict[str, list[str]] = {"question": [], "answer": []}
    for at, fact in enumerate(facts(count, seed)):
        for number in range(2 + at % 2):
            table["question"].append(question(fact))
            answer = (*fact[:4], PEOPLE[(at + 7 * number) % 40], str(number + 3))
            table["answer"].append(passage(answer, 2 + number))
    return shuffled(table, seed)


def titled(count: int = 160, seed: int = 0, sentences: int = 3) -> dict[str, list[str]]:
    """Titles, and bodies of several sentences of which the first tells what the title says."""
    draw, table = random.Random(seed), {"title": [], "body": []}
    for fact in facts(count, seed):
        verb, topic, place, near, *_ = fact
        later = [
            " ".join([place, draw.choice(PEOPLE), verb, *draw.choices(FILLERS, k=4), "."])
            for _ in range(sentences - 1)
        ]
        table["title"].append(f"{topic} {verb} {place} {near}")
        table["body"].append(" ".join([passage(fact), *later]))
    return table


def identifiers(count: int = 160, seed: int = 0) -> dict[str, list[str]]:
    """Dotted names as in code, and sentences that describe them."""
    table: dict[str, list[str]] = {"code": [], "description": []}
    for verb, topic, place, near, person, number in facts(count, seed):
        table["code"].append(f"{place}.{near}.{verb}{topic.title()} {number}")
        table["description"].append(f"{verb} ka {topic} {number} , {place} {near} {person} .")
    return table


def foreign(text: str) -> str:
    """A text in a language of its own: each word is another, and their order is turned round."""
    words = [*VERBS, *TOPICS, *PLACES, *PEOPLE, *FILLERS]
    dictionary = dict(zip(words, words[91:] + words[:91], strict=True))
    return " ".join(dictionary.get(word, word) for word in reversed(text.split()))


def bilingual(count: int = 160, seed: int = 0) -> dict[str, list[str]]:
    """Sentences and their translations."""
    texts = [question(fact) for fact in facts(count, seed)]
    return {"english": texts, "other": [foreign(text) for text in texts]}


def judged_pairs(count: int = 160, seed: int = 0) -> dict[str, list[Any]]:
    """Questions with the passage that answers them (1) or one of the same place (0)."""
    table: dict[str, list[Any]] = {"sentence1": [], "sentence2": [], "label": []}
    for at, fact in enumerate(facts(count, seed)):
        table["sentence1"].append(question(fact))
        table["sentence2"].append(passage(fact) if at % 2 else lookalike(fact))
        table["label"].append(at % 2)
    return shuffled(table, seed)


def graded(count: int = 240, seed: int = 0) -> dict[str, list[Any]]:
    """Pairs of sentences with a score: the share of verb, thing and place that they have in common.

    They have other words in common as well, which do not count.
    """
    draw, table = random.Random(seed), {"sentence1": [], "sentence2": [], "score": []}
    for fact, foil in zip(facts(count, seed), facts(count, seed + 1), strict=True):
        common = draw.randint(0, 4)
        places = set(draw.sample(range(4), common))
        second = [fact[at] if at in places else foil[at] for at in range(4)]
        filling = draw.choices(FILLERS, k=5)
        shared = draw.randint(0, 5)
        fillers = filling[:shared] + draw.choices(FILLERS, k=5 - shared)
        table["sentence1"].append(" ".join([*fact[:4], *filling, "."]))
        table["sentence2"].append(" ".join([*second, *fillers, "."]))
        table["score"].append(common / 4)
    return table


def negatives_of_places(count: int = 160, seed: int = 0, of_each: int = 2) -> dict[str, list[str]]:
    """Pairs with several hard negatives, which tell something else of the same place."""
    draw, table = random.Random(seed + 1), pairs(count, seed)
    for number in range(of_each):
        table[f"negative_{number + 1}"] = [
            passage((draw.choice(VERBS), draw.choice(TOPICS), *fact[2:]))
            for fact in facts(count, seed)
        ]
    return table


def unequal_classes(seed: int = 0, count: int = 24) -> dict[str, list[Any]]:
    """Texts of classes with 4 to 10 texts each."""
    table: dict[str, list[Any]] = {"text": [], "label": []}
    for label, fact in enumerate(facts(count, seed)):
        for number in range(4 + label % 7):
            table["text"].append(passage((*fact[:4], PEOPLE[number], str(number + 3))))
            table["label"].append(label)
    return shuffled(table, seed)


def searching(table: Mapping[str, Sequence[str]] | None = None, name: str = "search") -> Any:
    """An evaluator that searches the second column by the first."""
    from tests.sentence_training import evaluation

    queries, corpus = (alike(80, seed=21) if table is None else table).values()
    numbers = [str(at) for at in range(len(queries))]
    return evaluation.InformationRetrievalEvaluator(
        dict(zip(numbers, queries, strict=True)),
        dict(zip(numbers, corpus, strict=True)),
        {number: {number} for number in numbers},
        name=name,
    )


def by_table(table: Mapping[str, Sequence[str]]) -> Callable[[Any], float]:
    """Return a score: the reciprocal rank of the second column's texts, sought by the first's."""
    return lambda model: retrieval(model, table)


def of_sets(
    stage: Stage,
    sets: Mapping[str, Any],
    losses: Mapping[str, Any],
    model: Any = None,
    **settings: Any,
) -> Any:
    """A trainer of several data sets with a loss each."""
    from datasets import Dataset

    first = stage.trainer(ranking, pairs(), model, **settings)
    return type(first)(
        model=first.model,
        args=first.args,
        train_dataset={name: Dataset.from_dict(dict(table)) for name, table in sets.items()},
        loss={name: loss(first.model) for name, loss in losses.items()},
    )


def teacher(stage: Stage, *, steps: int = 120, seed: int = 3) -> Any:
    """An encoder trained before on other pairs of the field."""
    import contextlib
    import io

    trainer = stage.trainer(ranking, pairs(240, seed=seed), max_steps=steps, **FAST)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        trainer.train()
    return trainer.model.eval()


def embedded(model: Any, texts: Sequence[str]) -> Any:
    return model.encode(list(texts), show_progress_bar=False)
