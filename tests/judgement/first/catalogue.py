"""Texts of a shop: searches, offers, tickets and rated pairs; plain loops beside watched ones."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.judgement.first.loop_materials import looped
from tests.judgement.stage import Stage
from tests.judgement.truth import correlation, falls_short, retrieval
from tests.tiny_models import WORDS

KINDS, BRANDS, COLOURS, STUFFS, CHAT = (
    WORDS[20:80], WORDS[80:120], WORDS[120:150], WORDS[150:190], WORDS[190:],
)  # fmt: skip
Product = tuple[str, str, str, str, str]
Update = Callable[[Any, int], None]
Setting = tuple[Any, Any, Update]


def products(count: int, seed: int = 3, few: int = 0) -> list[Product]:
    """Different products: kind, brand, colour, stuff, size; of ``few`` words each, if not 0."""
    draw = random.Random(seed)
    pools = [draw.sample(words, few or len(words)) for words in (KINDS, BRANDS, COLOURS, STUFFS)]
    sizes: dict[tuple[str, ...], str] = {}
    while len(sizes) < count:
        sizes.setdefault(tuple(map(draw.choice, pools)), str(draw.randint(2, 98)))
    return [(*words, size) for words, size in sizes.items()]  # type: ignore[misc]


def search(product: Product) -> str:
    kind, brand, colour, ware, _ = product
    return f"du {colour} {kind} lo {ware} {brand} ?"


def offer(product: Product, chat: int = 3) -> str:
    kind, brand, colour, ware, size = product
    draw = random.Random(" ".join(product))
    words = " ".join(draw.choices(CHAT, k=chat))
    return f"{brand} {kind} {size} , {ware} {words} {colour} ."


def rival(product: Product) -> str:
    """An offer of the brand and stuff that is of a different kind and colour."""
    draw = random.Random(" ".join(product) + "?")
    _, brand, _, ware, size = product
    return offer((draw.choice(KINDS), brand, draw.choice(COLOURS), ware, size))


def sales(count: int = 192, seed: int = 3, chat: int = 3) -> dict[str, list[str]]:
    """Searches and the offers that were bought."""
    goods = products(count, seed)
    return {"query": list(map(search, goods)), "offer": [offer(row, chat) for row in goods]}


def contested(count: int = 192, seed: int = 3) -> dict[str, list[str]]:
    """Sales with a rival offer each."""
    return sales(count, seed) | {"rival": list(map(rival, products(count, seed)))}


def shelf(chat: int = 5) -> dict[str, list[str]]:
    """Searches and offers of unseen products that have many words in common."""
    goods = products(100, seed=41, few=4)
    return {"query": list(map(search, goods)), "offer": [offer(row, chat) for row in goods]}


def on_shelf(model: Any) -> float:
    """Reciprocal rank of the offers of `shelf`."""
    return retrieval(model, shelf())


def rivalled(model: Any) -> float:
    """Reciprocal rank among offers of a brand and stuff, which differ by kind and colour."""
    draw = random.Random(8)
    kinds, colours = draw.sample(KINDS, 12), draw.sample(COLOURS, 12)
    goods = [
        (kind, BRANDS[5], colour, STUFFS[7], str(at + 2))
        for at, (kind, colour) in enumerate((kind, colour) for kind in kinds for colour in colours)
    ]
    return retrieval(model, {"query": list(map(search, goods)), "offer": list(map(offer, goods))})


def rated(count: int = 240, seed: int = 5) -> dict[str, list[Any]]:
    """Pairs of offers with the share of words that they have in common, from 0 to 1."""
    draw, table = random.Random(seed), dict[str, list[Any]](text_a=[], text_b=[], score=[])
    for product in products(count, seed):
        words = offer(product, chat=4).split()
        shared = draw.randint(0, len(words))
        second = words[:shared] + draw.choices(CHAT, k=len(words) - shared)
        table["text_a"].append(" ".join(words))
        table["text_b"].append(" ".join(second))
        table["score"].append(shared / len(words))
    return table


def agrees(model: Any) -> float:
    """Rank correlation with the scores of held-out rated pairs."""
    return correlation(model, rated(200, seed=77))


def ticket(topic: tuple[str, str], number: int) -> str:
    draw = random.Random(f"{topic} {number}")
    words = [*topic, *draw.choices(CHAT, k=6)]
    draw.shuffle(words)
    return " ".join(words)


def tickets(
    topics: int = 24, of_each: int = 8, seed: int = 9, shuffled: bool = True
) -> dict[str, list[Any]]:
    """Tickets with their class: those of a class have two words in common."""
    draw = random.Random(seed)
    pairs_of_words = [(draw.choice(KINDS), draw.choice(BRANDS)) for _ in range(topics)]
    rows = [(ticket(topic, number), label) for label, topic in enumerate(pairs_of_words)
            for number in range(of_each)]  # fmt: skip
    if shuffled:
        draw.shuffle(rows)
    return {"text": [row[0] for row in rows], "label": [row[1] for row in rows]}


def sorts(model: Any) -> float:
    """Reciprocal rank of a second ticket of its class among those of 80 unseen classes."""
    table = tickets(80, 2, seed=50, shuffled=False)["text"]
    return retrieval(model, {"first": table[::2], "second": table[1::2]})


def embed(model: Any, texts: Sequence[str]) -> Tensor:
    """Embeddings with gradient, in training mode."""
    model.train()
    return model(model.preprocess(list(texts)))["sentence_embedding"]


def draws(table: Mapping[str, Sequence[Any]], size: int = 16, seed: int = 1) -> Callable[[], Any]:
    """Return a function that draws columns of a batch of random rows."""
    rows, draw = list(zip(*table.values(), strict=True)), random.Random(seed)
    return lambda: list(zip(*draw.sample(rows, size), strict=True))


def info_nce(queries: Tensor, offers: Tensor) -> Tensor:
    cosines = F.normalize(queries, dim=1) @ F.normalize(offers, dim=1).T
    return F.cross_entropy(cosines / 0.05, torch.arange(len(queries)))


def adamw(model: Any, rate: float = 1e-3) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=rate)


def plain(model: Any, table: Mapping[str, Sequence[Any]] | None = None, **options: Any) -> Update:
    """An update by a batch of texts, as it should be."""
    draw, optimizer = draws(sales() if table is None else table, **options), adamw(model)

    def update(criterion: Any, step: int) -> None:
        optimizer.zero_grad()
        criterion(*(embed(model, column) for column in draw())).backward()
        optimizer.step()

    return update


def slips(
    stage: Stage,
    faulty: Callable[[], Setting],
    mended: Callable[[], Setting],
    score: Callable[[Any], float] = on_shelf,
    *,
    steps: int = 60,
    share: float | None = 0.6,
) -> None:
    """Play a faulty loop; it must gain less than its mended counterpart, which nobody watches."""
    torch.manual_seed(0)
    model, criterion, update = faulty()
    before = score(model)
    looped(stage, model, criterion, update, steps=steps)
    if "report" not in stage.frozen or "error" in stage.frozen["report"]:
        return
    after = score(model)
    torch.manual_seed(0)
    sound, criterion, update = mended()
    start = score(sound)
    for step in range(steps):
        update(criterion, step)
    falls_short(stage, (before, after), (start, score(sound)), share=share)
