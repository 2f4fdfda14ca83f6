"""Loops of one's own that draw other rows, or train other weights, than their author thinks."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.judgement.case import faulty
from tests.judgement.first.beside import IDLE, UNRELATED, Loop, adam, loops_beside
from tests.judgement.first.bodies import encoder, words_of
from tests.judgement.first.good_fields import requests
from tests.judgement.first.turns import Rows, cosines, embed, infonce, stepped
from tests.judgement.stage import Stage, pairs
from tests.judgement.truth import among_alike


def of_classes(rows: Tensor, labels: Tensor) -> Tensor:
    """The supervised contrastive loss: rows of a class attract each other."""
    logits = 10 * cosines(rows, rows) - 1e4 * torch.eye(len(rows))
    same = (labels[:, None] == labels[None]).float() - torch.eye(len(rows))
    chances = (same * logits.log_softmax(1)).sum(1) / same.sum(1).clamp(min=1)
    return -chances.mean()


def nearest_class(model: Any, table: dict[str, list[Any]], text: str = "text") -> float:
    """Share of texts whose nearest neighbour among the others has their class."""
    rows = torch.tensor(model.encode(table[text], show_progress_bar=False))
    near = (cosines(rows, rows) - 2 * torch.eye(len(rows))).argmax(1)
    labels = torch.tensor(table["label"])
    return float((labels[near] == labels).float().mean())


def streamed(table: dict[str, list[Any]], buffer: int, size: int = 16) -> Iterator[list[list[Any]]]:
    """Batches of a table that is read in order, shuffled by a buffer, over and over."""
    draw, held = random.Random(0), list[tuple[Any, ...]]()
    while True:
        batch: list[tuple[Any, ...]] = []
        for row in zip(*table.values(), strict=True):
            held.append(row)
            if len(held) >= buffer:
                batch.append(held.pop(draw.randrange(len(held))))
            if len(batch) == size:
                yield [list(column) for column in zip(*batch, strict=True)]
                batch = []


@faulty(
    "stream shuffled by too small a buffer",
    "Rows stand in the order of their classes, and the shuffling buffer is smaller than a class: "
    "nearly all batches hold one class.",
    [
        r"(?i)(one|single|same|few|equal) (class|label|topic)|classes? in (a|each|the) batch",
        r"(?i)sort|shuffl|buffer|order of (the )?rows",
        r"(?i)no negatives?|without negatives?|negatives? (are )?missing|few negatives",
        r"(?i)batch.{0,60}(class|label)",
    ],
)
def stream_with_a_small_buffer(stage: Stage) -> None:
    """A streamed data set, `shuffle(buffer_size=4)`, of files by class."""
    table = requests(480)
    order = sorted(range(480), key=lambda at: table["label"][at])
    ordered = {name: [table[name][at] for at in order] for name in ("request", "label")}
    sought = requests(80, seed=11)

    def build(slip: bool) -> Loop:
        model = encoder(stage, words_of([table, sought]))
        batches, optimizer = streamed(ordered, 4 if slip else 400), adam(model)

        def update(criterion: Any, step: int) -> None:
            texts, labels = next(batches)
            stepped(optimizer, criterion(embed(model, texts), torch.tensor(labels)))

        return Loop(model, of_classes, update)

    loops_beside(stage, build, lambda model: nearest_class(model, sought, "request"))


@faulty(
    "negatives drawn from the anchor's class",
    "The negative of a triplet is drawn from the class of its anchor, as the positive is.",
    [
        *UNRELATED,
        r"(?i)negatives?.{0,80}(same|own|anchor'?s?|equal|its|their) (class|label|topic|kind)",
        r"(?i)false negatives?|negatives?.{0,60}(as (close|near|similar|alike)|closer|true|fit)",
        r"(?i)(positives? and negatives?|negatives? and positives?).{0,60}(alike|same|equal|"
        r"interchang|not differ|indistinguish)",
    ],
)
def negatives_of_the_same_class(stage: Stage) -> None:
    """A slip in a sampler: `by_class[label]` for both columns."""
    table, sought = requests(240), requests(80, seed=11)
    by_class: dict[int, list[str]] = {}
    for text, label in zip(table["request"], table["label"], strict=True):
        by_class.setdefault(label, []).append(text)

    def hinge(anchors: Tensor, positives: Tensor, negatives: Tensor) -> Tensor:
        near, far = (F.cosine_similarity(anchors, rows) for rows in (positives, negatives))
        return F.relu(0.5 + far - near).mean()

    def build(slip: bool) -> Loop:
        model, draw = encoder(stage, words_of([table, sought])), random.Random(2)
        rows, optimizer = Rows({name: table[name] for name in ("request", "label")}), adam(model)

        def update(criterion: Any, step: int) -> None:
            texts, labels = rows()
            near = [draw.choice(by_class[label]) for label in labels]
            far_labels = [
                label if slip else draw.choice([name for name in by_class if name != label])
                for label in labels
            ]
            far = [draw.choice(by_class[label]) for label in far_labels]
            stepped(optimizer, criterion(*(embed(model, column) for column in (texts, near, far))))

        return Loop(model, hinge, update)

    loops_beside(stage, build, lambda model: nearest_class(model, sought, "request"))


class Factors(nn.Module):
    """A linear layer with a low-rank adapter, as adapters' libraries make it."""

    def __init__(self, base: nn.Linear, rank: int = 16) -> None:
        super().__init__()
        self.base = base.requires_grad_(False)
        self.lora_a = nn.Parameter(torch.randn(rank, base.in_features) / base.in_features**0.5)
        self.lora_b = nn.Parameter(torch.zeros(base.out_features, rank))

    def forward(self, rows: Tensor) -> Tensor:
        return self.base(rows) + 2 * rows @ self.lora_a.T @ self.lora_b.T


def adapted(model: Any) -> Any:
    """Freeze an encoder, and put adapters on the linear layers of its blocks."""
    model.requires_grad_(False)
    for block in list(model.modules()):
        for name, layer in list(block.named_children()):
            if isinstance(layer, nn.Linear) and not isinstance(block, Factors):
                setattr(block, name, Factors(layer))
    return model


@faulty(
    "adapters put in after the optimiser was made",
    "The optimiser was made of the encoder's weights before the adapters replaced its layers: it "
    "does not hold the only weights that may move.",
    [*IDLE, r"(?i)adapter|lora|optimi[sz]er.{0,80}(hold|lack|miss|not|without|only)"],
)
def adapters_later_than_the_optimiser(stage: Stage) -> None:
    """Common in notebooks, whose cells are run in another order."""

    def build(slip: bool) -> Loop:
        model, rows = stage.model(), Rows(pairs())
        optimizer = adam(model, rate=3e-3) if slip else None
        adapted(model)
        optimizer = optimizer or adam(model, rate=3e-3)

        def update(criterion: Any, step: int) -> None:
            stepped(optimizer, criterion(*(embed(model, column) for column in rows())))

        return Loop(model, infonce, update)

    loops_beside(stage, build, among_alike)


class Plain:
    """Parts of a network in a plain list, of which torch knows nothing."""

    def __init__(self, *layers: nn.Module) -> None:
        self.layers = layers


class Headed(nn.Module):
    """An encoder with one head of each of two roles; in a plain list they are not registered."""

    def __init__(self, model: Any, slip: bool) -> None:
        super().__init__()
        self.model = model.requires_grad_(False)
        torch.manual_seed(1)
        heads = [nn.Linear(32, 32), nn.Linear(32, 32)]
        self.heads: Any = Plain(*heads).layers if slip else nn.ModuleList(heads)

    def role(self, texts: list[str], role: int) -> Tensor:
        return self.heads[role](embed(self.model, texts))

    def encode(self, texts: list[str], **_: Any) -> Any:
        self.model.eval()
        with torch.no_grad():
            role = 0 if texts[0].startswith("ka ") else 1
            return self.role(texts, role).numpy()


@faulty(
    "heads in a plain list",
    "The heads stand in a tuple and not in a ModuleList: their weights are not among the network's "
    "parameters, and the encoder below is frozen but for its norms.",
    [*IDLE, r"(?i)\bheads?\b|modulelist|regist|optimi[sz]er.{0,80}(hold|lack|miss|not|without)"],
)
def heads_that_are_not_registered(stage: Stage) -> None:
    """Common with several heads: `self.heads = [nn.Linear(...), ...]`."""

    def build(slip: bool) -> Loop:
        network, rows = Headed(stage.model(), slip), Rows(pairs())
        for name, row in network.model.named_parameters():
            row.requires_grad_("LayerNorm" in name)
        optimizer = adam(network, rate=1e-2)

        def update(criterion: Any, step: int) -> None:
            columns = [network.role(texts, role) for role, texts in enumerate(rows())]
            stepped(optimizer, criterion(*columns))

        return Loop(network, infonce, update)

    loops_beside(stage, build, among_alike)


@faulty(
    "classes of a batch counted anew",
    "Labels are numbered by torch.unique within each batch, so that a proxy stands for another "
    "class in each.",
    [
        *UNRELATED,
        r"(?i)(labels?|class(es)?|prox(y|ies)).{0,80}(each|every|another|chang|differ|batch|"
        r"renumber|inconsisten|contradict|noise)",
    ],
)
def labels_numbered_within_the_batch(stage: Stage) -> None:
    """People use `torch.unique(labels, return_inverse=True)` against an index out of range."""
    whole, sought = requests(240), requests(80, seed=11)
    table = {name: whole[name] for name in ("request", "label")}

    def build(slip: bool) -> Loop:
        model = encoder(stage, words_of([table, sought]))
        torch.manual_seed(3)
        proxies, rows = nn.Linear(48, 10, bias=False), Rows(table, 6)
        optimizer = adam(model, proxies, rate=2e-3)

        def proxied(embeddings: Tensor, labels: Tensor) -> Tensor:
            return F.cross_entropy(10 * cosines(embeddings, proxies.weight), labels)

        def update(criterion: Any, step: int) -> None:
            texts, labels = rows()
            numbers = torch.tensor(labels)
            if slip:
                numbers = torch.unique(numbers, return_inverse=True)[1]
            stepped(optimizer, criterion(embed(model, texts), numbers))

        return Loop(model, proxied, update)

    loops_beside(stage, build, lambda model: nearest_class(model, sought, "request"))
