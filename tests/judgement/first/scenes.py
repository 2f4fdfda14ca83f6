"""Texts, encoders and loops by hand that several modules of cases share."""

from __future__ import annotations

import contextlib
import io
import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

import gradlab
from tests.judgement.stage import BATCH, TOPICS, Stage, facts, pairs, passage, question, scored
from tests.judgement.truth import SHARE, correlation, falls_short, keep, retrieval, truth
from tests.tiny_models import WORDS

# Each word in another language.
LEXICON = dict(zip(WORDS, reversed(WORDS), strict=True))


def translated(text: str) -> str:
    """The text in another language, of which numbers and marks are the same."""
    return " ".join(LEXICON.get(word, word) for word in text.split())


def bilingual(count: int = 160, seed: int = 0) -> dict[str, list[str]]:
    """Questions and passages in another language that answer them."""
    table = pairs(count, seed)
    return table | {"positive": list(map(translated, table["positive"]))}


def uneven(count: int = 160, seed: int = 0) -> dict[str, list[str]]:
    """Questions and passages of which some are several times as long as others."""
    draw = random.Random(seed + 1)
    statements = facts(count, seed)
    return {
        "anchor": list(map(question, statements)),
        "positive": [passage(fact, fillers=draw.choice((0, 2, 30))) for fact in statements],
    }


def among_uneven(model: Any) -> float:
    """The reciprocal rank among passages of different lengths."""
    return retrieval(model, uneven(100, seed=11))


def quietly(trainer: Any) -> Any:
    """Train without a word and return the model."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        trainer.train()
    return trainer.model


def across(model: Any) -> float:
    """The reciprocal rank of passages in the other language."""
    return retrieval(model, bilingual(100, seed=11))


def inspect_tuned(stage: Stage, table: Mapping[str, Any], **options: Any) -> None:
    """Inspect texts with an encoder that was trained a little on other pairs."""
    from tests.sentence_training import losses

    if stage._tools and "inspect" not in stage._tools:
        return
    folder = str(stage.folder / "tuned")
    model = quietly(
        stage.trainer(
            losses.MultipleNegativesRankingLoss,
            bilingual(320, seed=8),
            max_steps=60,
            learning_rate=2e-3,
        )
    )
    model[0].auto_model.save_pretrained(folder)
    model.tokenizer.save_pretrained(folder)
    stage.inspect(table, folder, pooler="mean", **options)


Batch = tuple[list[str], list[str]]


def drawn(table: Mapping[str, list[str]], size: int = BATCH, seed: int = 0) -> Iterator[Batch]:
    """Batches of a table's first two columns, shuffled anew with each epoch."""
    draw, (first, second, *_) = random.Random(seed), table.values()
    while True:
        order = draw.sample(range(len(first)), len(first))
        for start in range(0, len(order) - size + 1, size):
            rows = order[start : start + size]
            yield [first[at] for at in rows], [second[at] for at in rows]


def embed(model: Any, texts: list[str]) -> torch.Tensor:
    """Embeddings of texts with gradient."""
    return model(model.preprocess(texts))["sentence_embedding"]


def descend(optimizer: torch.optim.Optimizer, loss: torch.Tensor, _step: int) -> None:
    """One ordinary step."""
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def by_hand(
    model: Any,
    criterion: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    batches: Iterator[Batch] | None = None,
    *,
    update: Callable[[torch.optim.Optimizer, torch.Tensor, int], None] = descend,
    optimizer: torch.optim.Optimizer | None = None,
    steps: int = 80,
    score: Callable[[Any], float] = across,
) -> tuple[float, float]:
    """Train an encoder in a loop by hand; return its score before and after."""
    before = score(model)
    batches = batches or drawn(bilingual(640))
    optimizer = optimizer or torch.optim.AdamW(model.parameters(), lr=2e-3)
    model.train()
    for step in range(steps):
        first, second = (embed(model, texts) for texts in next(batches))
        update(optimizer, criterion(first, second), step)
    model.eval()
    return before, score(model)


def infonce(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """InfoNCE of cosines at a temperature of 0.05, from the first view to the second."""
    cosines = F.normalize(first, dim=1) @ F.normalize(second, dim=1).T
    return F.cross_entropy(cosines / 0.05, torch.arange(len(cosines)))


def watched(stage: Stage, criterion: Any, steps: int = 80) -> Any:
    """A criterion that is watched while a loop by hand uses it."""
    return gradlab.watch(criterion, output=stage.folder / "loop", total_steps=steps, every=4)


def loop_suffers(
    stage: Stage,
    faulty: Callable[[Any], tuple[float, float]],
    mended: Callable[[Any], tuple[float, float]],
    criterion: Any = infonce,
    mended_criterion: Any = infonce,
    *,
    steps: int = 80,
    share: float | None = SHARE,
) -> None:
    """Play a faulty loop under watch, and its mended counterpart, which gains clearly more."""
    if stage._tools and "report" not in stage._tools:
        return
    watch = watched(stage, criterion, steps)
    scores = faulty(watch)
    watch.finish()
    stage.run(stage.folder / "loop")
    falls_short(stage, scores, mended(mended_criterion), share=share)


def loop_learns(
    stage: Stage,
    loop: Callable[[Any], tuple[float, float]],
    criterion: Any = infonce,
    *,
    steps: int = 80,
) -> None:
    """Play a sound loop under watch: it raises its score."""
    if stage._tools and "report" not in stage._tools:
        return
    watch = watched(stage, criterion, steps)
    before, after = loop(watch)
    watch.finish()
    stage.run(stage.folder / "loop")
    keep(stage, before=before, after=after)
    assert after >= before + 0.03, truth(stage)


def kindred(model: Any) -> float:
    """The reciprocal rank of texts of a class, sought by others of it."""
    statements = facts(100, seed=11)
    first, second = (
        [passage((*fact[:4], person, number)) for fact in statements]
        for person, number in (("ba", "3"), ("zulo", "96"))
    )
    return retrieval(model, {"text": first, "other": second})


def graded(count: int = 640, seed: int = 0) -> dict[str, list[Any]]:
    """Pairs in two languages, with scores by the share of words that are translations."""
    table = scored(count, seed)
    return table | {"sentence2": list(map(translated, table["sentence2"]))}


def agreement(model: Any) -> float:
    """The rank correlation of cosines and scores of pairs in two languages."""
    return correlation(model, graded(200, seed=11))


def topical(count: int = 480, seed: int = 0, topics: int = 12) -> dict[str, list[Any]]:
    """Texts in either language with their topic as the class."""
    statements = [
        (verb, TOPICS[at % topics], *rest) for at, (verb, _, *rest) in enumerate(facts(count, seed))
    ]
    texts = [passage(fact, fillers=1) for fact in statements]
    halves = [translated(text) if at // topics % 2 else text for at, text in enumerate(texts)]
    order = random.Random(seed).sample(range(count), count)
    return {"text": [halves[at] for at in order], "label": [at % topics for at in order]}


def by_topic(model: Any) -> float:
    """The share of unseen texts whose nearest neighbour among others is of their topic."""
    texts, labels = topical(192, seed=11).values()
    rows = model.encode(texts, normalize_embeddings=True, show_progress_bar=False)
    nearest = (rows @ rows.T - 2 * np.eye(len(rows))).argmax(axis=1)
    return float((np.array(labels)[nearest] == np.array(labels)).mean())
