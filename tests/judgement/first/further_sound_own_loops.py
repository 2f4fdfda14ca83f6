"""Sound loops of one's own: losses written out, teachers, moving averages, mined negatives."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as functional

import gradlab
from tests.judgement.case import sound
from tests.judgement.first.further_sound_tables import (
    bilingual,
    by_table,
    embedded,
    teacher,
    titled,
    unequal_classes,
)
from tests.judgement.stage import INTERVAL, Stage, facts, pairs, passage, triplets
from tests.judgement.truth import alike, among_alike, in_one_place, keep, reciprocal_rank, truth
from tests.sentence_training import features_of

STEPS = 60


def epochs(table: Mapping[str, Sequence[Any]], size: int = 16, seed: int = 0) -> Iterator[Any]:
    """Batches of rows, each row once in an epoch; what is left of an epoch is dropped."""
    draw, count = random.Random(seed), len(next(iter(table.values())))
    while True:
        order = draw.sample(range(count), count)
        for start in range(0, count - size + 1, size):
            rows = order[start : start + size]
            yield {name: [cells[at] for at in rows] for name, cells in table.items()}


def embed(model: Any, texts: Sequence[str]) -> torch.Tensor:
    """Embeddings with their gradient, (N, D)."""
    return model(features_of(model, {"text": list(texts)})[0])["sentence_embedding"]


def infonce(
    anchors: torch.Tensor, positives: torch.Tensor, negatives: torch.Tensor | None = None,
    temperature: float = 0.05,
) -> torch.Tensor:  # fmt: skip
    """Cross-entropy of the cosines of (N, D) anchors with all positives and negatives."""
    candidates = positives if negatives is None else torch.cat([positives, negatives])
    cosines = functional.normalize(anchors, dim=1) @ functional.normalize(candidates, dim=1).T
    return functional.cross_entropy(cosines / temperature, torch.arange(len(anchors)))


def learns_in_loop(
    stage: Stage,
    model: Any,
    loss: Callable[..., torch.Tensor],
    rows: Callable[[], tuple[Any, ...]],
    score: Callable[[Any], float] = among_alike,
    *,
    optimizer: Any = None,
    schedule: Any = None,
    steps: int = STEPS,
    views: Any = None,
) -> None:
    """Train a watched loop; training raises the score by .03 or more."""
    before = score(model)
    options = {"output": stage.folder / "loop", "total_steps": steps, "every": INTERVAL}
    criterion = gradlab.watch(loss, views=views, **options)
    model.train()
    optimizer = optimizer or torch.optim.AdamW(model.parameters(), lr=1e-3)
    if schedule is not None:
        optimizer.register_step_post_hook(lambda *_: schedule.step())
    stage.loop(criterion, optimizer, lambda: criterion(*rows()), steps=steps)
    model.eval()
    if "report" in stage.frozen:
        keep(stage, before=before, after=score(model))
        assert truth(stage)["after"] >= before + 0.03, truth(stage)


def columns(model: Any, batches: Iterator[Any]) -> Callable[[], tuple[torch.Tensor, ...]]:
    """Return a function that embeds each column of the next batch."""
    return lambda: tuple(embed(model, texts) for texts in next(batches).values())


@sound("loop with a cosine schedule and clipping")
def infonce_with_a_cosine_schedule_and_a_clip(stage: Stage) -> None:
    model = stage.model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)

    def clip(*_: Any) -> None:
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)

    optimizer.register_step_pre_hook(clip)
    rows = columns(model, epochs(pairs(240), 24))
    learns_in_loop(stage, model, infonce, rows, optimizer=optimizer, schedule=schedule)


@sound("loop of triplets by Euclidean distance")
def hinge_of_distances_between_three_texts(stage: Stage) -> None:
    model = stage.model()
    loss = torch.nn.TripletMarginLoss(margin=1.0)
    rows = columns(model, epochs(triplets(240)))
    learns_in_loop(stage, model, loss, rows, in_one_place)


@sound("loop of cosine embeddings with targets of 1 and -1")
def pulled_to_answers_and_pushed_from_others(stage: Stage) -> None:
    model = stage.model()

    def loss(
        anchors: torch.Tensor, positives: torch.Tensor, negatives: torch.Tensor
    ) -> torch.Tensor:
        targets = torch.ones(len(anchors))
        pull = functional.cosine_embedding_loss(anchors, positives, targets)
        return pull + functional.cosine_embedding_loss(anchors, negatives, -targets, margin=0.2)

    rows = columns(model, epochs(triplets(240), 24))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    learns_in_loop(stage, model, loss, rows, in_one_place, optimizer=optimizer, steps=80)


@sound("loop of two judgements for each question")
def right_and_wrong_answers_by_cross_entropy(stage: Stage) -> None:
    model = stage.model()
    weights = torch.nn.Parameter(torch.tensor([8.0, -4.0]))

    def loss(
        anchors: torch.Tensor, positives: torch.Tensor, negatives: torch.Tensor
    ) -> torch.Tensor:
        right = functional.cosine_similarity(anchors, positives)
        wrong = functional.cosine_similarity(anchors, negatives)
        logits = torch.cat([right, wrong]) * weights[0] + weights[1]
        targets = torch.cat([torch.ones_like(right), torch.zeros_like(wrong)])
        return functional.binary_cross_entropy_with_logits(logits, targets)

    groups = [{"params": model.parameters(), "lr": 2e-3}, {"params": [weights], "lr": 1e-2}]
    rows = columns(model, epochs(triplets(240)))
    optimizer = torch.optim.AdamW(groups)
    learns_in_loop(stage, model, loss, rows, in_one_place, optimizer=optimizer, steps=80)


@sound("loop of classes with several positives")
def all_texts_of_a_class_are_positives(stage: Stage) -> None:
    model, batches = stage.model(), epochs(unequal_classes(count=30), 32)

    def loss(first: torch.Tensor, second: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        rows = functional.normalize(torch.cat([first, second]), dim=1)
        labels = torch.cat([labels, labels])
        own = torch.eye(len(rows), dtype=torch.bool)
        logits = (rows @ rows.T / 0.1).masked_fill(own, -1e9)
        same = (labels[:, None] == labels) & ~own
        logarithms = logits.log_softmax(1)
        return -(logarithms * same).sum(1).div(same.sum(1)).mean()

    def rows() -> tuple[torch.Tensor, ...]:
        batch = next(batches)
        texts = batch["text"]
        return embed(model, texts), embed(model, texts), torch.tensor(batch["label"])

    learns_in_loop(stage, model, loss, rows, views=lambda first, second, labels: (first, second))


@sound("loop that learns a teacher's similarities")
def similarities_of_a_teacher_within_the_batch(stage: Stage) -> None:
    knows, model, batches = teacher(stage), stage.model(), epochs(pairs(240))

    def cosines(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        return functional.normalize(first, dim=1) @ functional.normalize(second, dim=1).T

    def loss(anchors: torch.Tensor, positives: torch.Tensor, taught: torch.Tensor) -> torch.Tensor:
        return functional.mse_loss(cosines(anchors, positives), taught)

    def rows() -> tuple[torch.Tensor, ...]:
        batch = next(batches)
        with torch.no_grad():
            taught = cosines(*(embed(knows, texts) for texts in batch.values()))
        return *(embed(model, texts) for texts in batch.values()), taught

    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    views = lambda anchors, positives, taught: (anchors, positives)  # noqa: E731
    learns_in_loop(stage, model, loss, rows, optimizer=optimizer, views=views, steps=80)


@sound("loop with a queue of a slow encoder's embeddings")
def queue_filled_by_a_slow_encoder(stage: Stage) -> None:
    model = stage.model()
    slow, batches, queue = copy.deepcopy(model), epochs(pairs(640)), []
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def follow(*_: Any) -> None:
        with torch.no_grad():
            for weight, newest in zip(slow.parameters(), model.parameters(), strict=True):
                weight.lerp_(newest, 0.05)

    optimizer.register_step_post_hook(follow)

    def rows() -> tuple[torch.Tensor, ...]:
        batch = next(batches)
        with torch.no_grad():
            positives = embed(slow, batch["positive"])
        earlier = queue[-4:]
        queue.append(positives)
        return embed(model, batch["anchor"]), positives, *([torch.cat(earlier)] if earlier else [])

    learns_in_loop(stage, model, infonce, rows, optimizer=optimizer, steps=80)


@sound("loop of two crops of a text")
def two_crops_of_each_body(stage: Stage) -> None:
    model, draw = stage.model(), random.Random(2)
    batches = epochs({"text": [passage(fact, 8) for fact in facts(320)]}, 32)

    def crop(text: str) -> str:
        words = text.split()
        start = draw.randint(0, 3)
        return " ".join(words[start : start + draw.randint(5, 9)])

    def rows() -> tuple[torch.Tensor, ...]:
        texts = next(batches)["text"]
        return tuple(embed(model, [crop(text) for text in texts]) for _ in range(2))

    learns_in_loop(stage, model, infonce, rows)


@sound("loop that mines its hard negatives anew")
def negatives_mined_every_twenty_steps(stage: Stage) -> None:
    model, table, count = stage.model(), pairs(200), [0]
    batches, nearest = epochs({**table, "row": range(200)}), []
    draw = random.Random(1)

    def mine() -> None:
        model.eval()
        first, second = (
            functional.normalize(torch.tensor(embedded(model, texts)), dim=1)
            for texts in table.values()
        )
        cosines = (first @ second.T).fill_diagonal_(-2)
        nearest[:] = cosines.topk(13).indices[:, 3:].tolist()
        model.train()

    def rows() -> tuple[torch.Tensor, ...]:
        if count[0] % 20 == 0:
            mine()
        count[0] += 1
        batch = next(batches)
        hard = [draw.choice([at for at in nearest[row] if at not in batch["row"]] or nearest[row])
                for row in batch["row"]]  # fmt: skip
        texts = (batch["anchor"], batch["positive"], [table["positive"][at] for at in hard])
        return tuple(embed(model, column) for column in texts)

    learns_in_loop(stage, model, infonce, rows)


@sound("loop under autocast")
def infonce_under_autocast_to_bfloat16(stage: Stage) -> None:
    model, batches = stage.model(), epochs(titled(240), 32)

    def rows() -> tuple[torch.Tensor, ...]:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            embeddings = [embed(model, texts) for texts in next(batches).values()]
        return tuple(rows.float() for rows in embeddings)

    learns_in_loop(stage, model, infonce, rows)


@sound("loop of an encoder for each side")
def dot_products_of_two_encoders(stage: Stage) -> None:
    questions, passages = stage.model(), stage.model()
    encoders = torch.nn.ModuleList([questions, passages])
    batches = epochs(pairs(320), 32)

    def loss(asked: torch.Tensor, answers: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(asked @ answers.T, torch.arange(len(asked)))

    def rows() -> tuple[torch.Tensor, ...]:
        batch = next(batches)
        return embed(questions, batch["anchor"]), embed(passages, batch["positive"])

    def score(_: Any) -> float:
        encoders.eval()
        asked, answers = alike().values()
        return reciprocal_rank(embedded(questions, asked), embedded(passages, answers))

    optimizer = torch.optim.AdamW(encoders.parameters(), lr=1e-3)
    learns_in_loop(stage, encoders, loss, rows, score, optimizer=optimizer, steps=80)


@sound("loop of translations with an additive margin")
def translations_with_an_additive_margin(stage: Stage) -> None:
    model = stage.model()

    def loss(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        cosines = functional.normalize(first, dim=1) @ functional.normalize(second, dim=1).T
        logits = (cosines - 0.1 * torch.eye(len(cosines))) / 0.05
        targets = torch.arange(len(cosines))
        ahead = functional.cross_entropy(logits, targets)
        return (ahead + functional.cross_entropy(logits.T, targets)) / 2

    rows = columns(model, epochs(bilingual(320), 32))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    score = by_table(bilingual(100, seed=11))
    learns_in_loop(stage, model, loss, rows, score, optimizer=optimizer, steps=80)


@sound("average of the weights that a loop went through")
def average_of_a_loops_weights_kept(stage: Stage) -> None:
    model = stage.model()
    average = torch.optim.swa_utils.AveragedModel(
        model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    optimizer.register_step_post_hook(lambda *_: average.update_parameters(model))
    rows = columns(model, epochs(triplets(240)))

    def score(_: Any) -> float:
        return in_one_place(average.module.eval())

    learns_in_loop(stage, model, infonce, rows, score, optimizer=optimizer)
