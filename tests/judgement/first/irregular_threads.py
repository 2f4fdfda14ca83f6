"""Sound set-ups of texts of mixed lengths: threads, dates, chats and lists, in any order."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.judgement.case import sound
from tests.judgement.first.bodies import encoder, words_of
from tests.judgement.first.turns import Rows, cosines, embed, infonce, stepped, turn
from tests.judgement.stage import Stage
from tests.judgement.truth import correlation, learns, retrieval
from tests.sentence_training import losses

_PEOPLE, _DEEDS, _GOODS, _TOWNS, _MONTHS, _WARES = map(
    str.split,
    (
        "ines jakub kwame lotte mehmet nadia otto priya quentin rosa sven tariq",
        "booked/reserved lost/misplaced mended/repaired painted/coloured sold/traded",
        "kayak/boat tripod/camera tandem/bicycle anvil/smithy cello/orchestra wetsuit/diver "
        "projector/slides ladder/rungs samovar/tea toboggan/sledge",
        "bergen lyon porto gdansk malmo bari graz turku",
        "january february march april may june july august september october november december",
        "milk/dairy bread/bakery leeks/veg soap/hygiene nails/hardware wine/drinks rice/grains "
        "tape/stationery plums/fruit cod/seafood ham/meat salt/spices wool/haberdashery "
        "seeds/garden honey/spreads candles/lighting",
    ),
)
_ASIDES = (
    "thanks for your patience so far .",
    "sent from my phone",
    "by the way the meeting room has been moved to the second floor .",
    "> on friday you wrote :",
    "no news from the printers yet , and the coffee is out again .",
    "--",
    "see the attached file .",
    "we had rain all week .",
)


def drawn(count: int, seed: int, draw_row: Callable[[random.Random], Any]) -> list[Any]:
    """Different rows; an odd seed draws from the fifth of the rows that even seeds leave."""
    draw, rows = random.Random(seed), dict[Any, None]()
    while len(rows) < count:
        row = draw_row(draw)
        if (zlib.crc32(repr(row).encode()) % 5 == 0) == bool(seed % 2):
            rows[row] = None
    return list(rows)


def threads(count: int, seed: int = 0) -> dict[str, list[str]]:
    """Short searches, and mails with up to four asides around the sentence that answers."""
    draw, table = random.Random(seed + 50), {"search": list[str](), "mail": list[str]()}
    lists = (_PEOPLE, _DEEDS, _GOODS, _TOWNS)
    rows = drawn(count, seed, lambda draw: tuple(draw.choice(words) for words in lists))
    for who, deed, good, town in rows:
        (did, has), (ware, about) = deed.split("/"), good.split("/")
        searches = f"{who} {did} {ware} {town}", f"who {did} the {ware} in {town} ? {who}"
        table["search"].append(draw.choice(searches))
        sentences = draw.sample(_ASIDES, draw.randint(0, 4))
        answer = f"in {town} {who} has {has} something for the {about} ."
        sentences.insert(draw.randint(0, len(sentences)), answer)
        table["mail"].append(" ".join(sentences))
    return table


def dates(count: int, seed: int = 0) -> dict[str, list[str]]:
    """Dates in words and in digits."""
    rows = drawn(
        count,
        seed,
        lambda draw: (draw.randint(1, 28), draw.randint(1, 12), draw.randint(1990, 2019)),
    )
    return {
        "words": [f"{_MONTHS[month - 1]} {day} , {year}" for day, month, year in rows],
        "digits": [f"{year} - m{month:02} - {day:02}" for day, month, year in rows],
    }


def baskets(count: int, seed: int = 0) -> dict[str, list[str]]:
    """Lists of two to six wares, and the shelves to visit for them in another order."""
    draw, table = random.Random(seed + 60), {"list": list[str](), "shelves": list[str]()}
    rows = drawn(count, seed, lambda draw: tuple(sorted(draw.sample(_WARES, draw.randint(2, 6)))))
    for row in rows:
        pairs = [entry.split("/") for entry in draw.sample(row, len(row))]
        table["list"].append(" , ".join(ware for ware, _ in pairs))
        draw.shuffle(pairs)
        table["shelves"].append("go to " + " then ".join(shelf for _, shelf in pairs))
    return table


def shared_baskets(count: int, seed: int = 0) -> dict[str, list[Any]]:
    """Two lists of wares in their own words, with the share of wares that they have in common."""
    draw, table = random.Random(seed + 70), {"list": list[str](), "shelves": list[str]()}
    scores = []
    for row in drawn(count, seed, lambda draw: tuple(sorted(draw.sample(_WARES, 5)))):
        same = draw.randint(0, 5)
        strange = [ware for ware in _WARES if ware not in row]
        second = draw.sample(row, same) + draw.sample(strange, 5 - same)
        draw.shuffle(second)
        table["list"].append(" , ".join(entry.split("/")[0] for entry in row))
        table["shelves"].append(" then ".join(entry.split("/")[1] for entry in second))
        scores.append(same / 5)
    return {**table, "score": scores}


def chats(count: int, seed: int = 0) -> dict[str, list[str]]:
    """Messages with emoji, slang and doubled words, and what a moderator notes of them."""
    draw, table = random.Random(seed + 80), {"message": list[str](), "note": list[str]()}
    noise = ["lol", "😂", "🙏🙏", "omg", "...", "!!", "uh", "tbh", "imho", "🤷"]
    lists = (_GOODS, _TOWNS, _DEEDS, _PEOPLE)
    for row in drawn(count, seed, lambda draw: tuple(draw.choice(words) for words in lists)):
        good, town, deed, who = row
        words = [good.split("/")[0], town, deed.split("/")[0], f"@{who}"]
        draw.shuffle(words)
        for _ in range(draw.randint(0, 9)):
            words.insert(draw.randint(0, len(words)), draw.choice(noise))
        table["message"].append(" ".join(words))
        table["note"].append(f"{who} of {town} : {deed.split('/')[1]} {good.split('/')[1]}")
    return table


def of_texts(stage: Stage, maker: Callable[..., Any], **options: Any) -> Any:
    """An encoder with the words of a maker of tables."""
    return encoder(stage, words_of([maker(400), maker(100, seed=11)]), **options)


def finds(maker: Callable[..., dict[str, list[str]]], count: int = 60) -> Callable[[Any], float]:
    table = maker(count, seed=11)
    return lambda model: retrieval(model, table)


@sound("answers amid asides in mails of mixed lengths")
def answers_amid_asides_in_threads(stage: Stage) -> None:
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, threads(400), of_texts(stage, threads),
        max_steps=90, per_device_train_batch_size=32, learning_rate=2e-3,
        lr_scheduler_type="cosine", batch_sampler="no_duplicates",
    )  # fmt: skip
    learns(stage, trainer, finds(threads))


@sound("dates with near misses in a trainer")
def dates_with_near_misses(stage: Stage) -> None:
    """The negative of a date is of the same month, on another day or in another year."""
    draw, table = random.Random(9), dates(400)
    table["near"] = []
    for text in table["digits"]:
        year, dash, month, _, day = text.split()
        if draw.random() < 0.5:
            year = str(1990 + (int(year) - 1990 + draw.randint(1, 29)) % 30)
        else:
            day = f"{(int(day) - 1 + draw.randint(1, 27)) % 28 + 1:02}"
        table["near"].append(" ".join((year, dash, month, dash, day)))
    trainer = stage.trainer(
        losses.MultipleNegativesRankingLoss, table, of_texts(stage, dates, dropout=0.05),
        max_steps=90, per_device_train_batch_size=32, learning_rate=3e-3,
    )  # fmt: skip
    learns(stage, trainer, finds(dates))


@sound("chats with noise, symmetric loop")
def noisy_chats_in_a_symmetric_loop(stage: Stage) -> None:
    model, rows = of_texts(stage, chats), Rows(chats(400), 32)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)

    def symmetric(first: Tensor, second: Tensor) -> Tensor:
        return (infonce(first, second) + infonce(second, first)) / 2

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, column) for column in rows())))

    turn(stage, model, symmetric, update, finds(chats), steps=60)


@sound("graded overlap of lists")
def graded_overlap_of_baskets(stage: Stage) -> None:
    from sentence_transformers.sentence_transformer.evaluation import (
        EmbeddingSimilarityEvaluator,
    )

    tests = shared_baskets(100, seed=11)
    trainer = stage.trainer(
        losses.CoSENTLoss, shared_baskets(400), of_texts(stage, shared_baskets),
        evaluator=EmbeddingSimilarityEvaluator(*shared_baskets(60, seed=13).values()),
        eval_strategy="steps", eval_steps=25, max_steps=100, per_device_train_batch_size=32,
        learning_rate=2e-3,
    )  # fmt: skip
    learns(stage, trainer, lambda model: correlation(model, tests))


@sound("nested dimensions in a loop over lists of mixed lengths")
def nested_dimensions_of_baskets_in_a_loop(stage: Stage) -> None:
    def nested(first: Tensor, second: Tensor) -> Tensor:
        labels = torch.arange(len(first))
        return (
            sum(
                F.cross_entropy(cosines(first[:, :width], second[:, :width]) / 0.05, labels)
                for width in (48, 24, 12)
            )
            / 3
        )

    model, rows = of_texts(stage, baskets), Rows(baskets(400), 32)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, column) for column in rows())))

    turn(stage, model, nested, update, finds(baskets), steps=60)


@sound("batches of texts of like length, with rates that follow a warm-up")
def batches_of_like_length_over_threads(stage: Stage) -> None:
    """Pools of 96 rows are sorted by length and cut into batches, which are shuffled."""
    table, draw = threads(400), random.Random(2)
    model, batches = of_texts(stage, threads), list[list[int]]()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    warm = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 8))

    def update(criterion: Any, step: int) -> None:
        if not batches:
            order = draw.sample(range(400), 384)
            for start in range(0, 384, 96):
                pool = sorted(order[start : start + 96], key=lambda at: len(table["mail"][at]))
                batches.extend(pool[at : at + 24] for at in range(0, 96, 24))
            draw.shuffle(batches)
        batch = batches.pop()
        columns = [[cells[at] for at in batch] for cells in table.values()]
        stepped(optimizer, criterion(*(embed(model, column) for column in columns)))
        warm.step()

    turn(stage, model, infonce, update, finds(threads), steps=80)
