"""The truth of a case, measured while it is played: what training does to a score.

The score is of texts that no tool sees. A faulty set-up is trained beside its mended counterpart,
of which it must reach clearly less; a sound one must raise its score. The numbers stand with the
frozen measurements, under "truth".
"""

from __future__ import annotations

import contextlib
import io
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tests.judgement.stage import (
    PEOPLE,
    PLACES,
    TOPICS,
    VERBS,
    Stage,
    pairs,
    passage,
    question,
    scored,
)

TRUTH = "truth"
# A faulty set-up reaches at most this share of what its mended counterpart gains.
SHARE = 0.6


def retrieval(
    model: Any, table: Mapping[str, Sequence[str]] | None = None, *, prompts: Any = None
) -> float:
    """Return the mean reciprocal rank of the second column's texts, sought by the first's."""
    columns = list((pairs(100, seed=11) if table is None else table).values())
    prompts = prompts or ("", "")
    first, second = (
        model.encode(list(texts), prompt=prompt, show_progress_bar=False)
        for texts, prompt in zip(columns, prompts, strict=False)
    )
    return reciprocal_rank(first, second)


def alike(
    count: int = 100, seed: int = 11, *, places: int = 5, others: int = 6
) -> dict[str, list[str]]:
    """Questions and passages made of so few words that each has most of them in common with many.

    They have ``places`` different words at each of two places, and ``others`` verbs and things. A
    score among them separates encoders that all find the passages of `pairs`.
    """
    draw = random.Random(seed)
    few = [draw.sample(words, number) for words, number in
           ((VERBS, others), (TOPICS, others), (PLACES, places), (PLACES, places))]  # fmt: skip
    answers: dict[tuple[str, ...], tuple[str, str]] = {}
    while len(answers) < count:
        fact = tuple(draw.choice(words) for words in few)
        answers.setdefault(fact, (draw.choice(PEOPLE), str(draw.randint(3, 97))))
    made = [(*fact, *answer) for fact, answer in answers.items()]
    return {
        "anchor": list(map(question, made)),
        "positive": [passage(fact, fillers=6) for fact in made],
    }


def among_alike(model: Any) -> float:
    """Return the mean reciprocal rank among the passages of `alike`."""
    return retrieval(model, alike())


def in_one_place(model: Any) -> float:
    """The reciprocal rank among passages of one place, which differ by verb and thing."""
    return retrieval(model, alike(places=1, others=14))


def reciprocal_rank(first: np.ndarray, second: np.ndarray) -> float:
    """Return the mean reciprocal rank of each row's partner by cosine; NaN counts as 0."""
    first, second = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (first, second))
    cosines = first @ second.T
    ranks = (cosines >= np.diag(cosines)[:, None]).sum(1)
    return float(np.where(ranks > 0, 1 / np.maximum(ranks, 1), 0).mean())


def correlation(model: Any, table: Mapping[str, Sequence[Any]] | None = None) -> float:
    """Return the rank correlation of cosines and scores of held-out pairs; NaN counts as 0."""
    from scipy.stats import spearmanr

    first, second, scores = (scored(200, seed=11) if table is None else table).values()
    first, second = (
        model.encode(list(texts), show_progress_bar=False) for texts in (first, second)
    )
    cosines = (first * second).sum(1) / np.linalg.norm(first, axis=1)
    cosines /= np.linalg.norm(second, axis=1)
    return float(np.nan_to_num(spearmanr(cosines, scores)[0]))


def learns(
    stage: Stage,
    trainer: Any,
    score: Callable[[Any], float] = retrieval,
    *,
    least: float = 0.03,
    **options: Any,
) -> None:
    """Play a sound set-up: training raises the score by ``least`` or more."""
    before = score(trainer.model)
    stage.play(trainer, **options)
    if trainer.state.global_step:
        keep(stage, before=before, after=score(trainer.model))
        assert truth(stage)["after"] >= before + least, truth(stage)


def suffers(
    stage: Stage,
    trainer: Any,
    mended: Callable[[], Any],
    score: Callable[[Any], float] = retrieval,
    *,
    share: float | None = SHARE,
    **options: Any,
) -> None:
    """Play a faulty set-up: it gains at most ``share`` of what the mended trainer gains."""
    before = score(trainer.model)
    stage.play(trainer, **options)
    if "report" not in stage.frozen or "error" in stage.frozen["report"]:
        return
    sound = mended()
    start = score(sound.model)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        sound.train()
    after, best = score(trainer.model), score(sound.model)
    falls_short(stage, (before, after), (start, best), share=share)


def falls_short(
    stage: Stage,
    faulty: tuple[float, float],
    mended: tuple[float, float],
    *,
    share: float | None = SHARE,
) -> None:
    """Keep the scores before and after both trainings, and hold the faulty one to be the worse.

    With ``share`` None, only the scores after training are compared.
    """
    (before, after), (start, best) = faulty, mended
    keep(stage, before=before, after=after, mended_before=start, mended_after=best)
    assert best >= start - 0.02, truth(stage)
    assert best - after >= 0.03, truth(stage)
    assert share is None or after - before <= share * (best - start), truth(stage)


def keep(stage: Stage, **numbers: float) -> None:
    """Keep numbers with the measurements."""
    stage.frozen[TRUTH] = {name: round(number, 4) for name, number in numbers.items()}


def truth(stage: Stage) -> dict[str, float]:
    """Return the numbers that were kept."""
    return stage.frozen[TRUTH]
