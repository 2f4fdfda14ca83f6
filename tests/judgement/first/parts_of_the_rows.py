"""Slips that concern a part of the rows, or the form of texts, as files and joins make them."""

from __future__ import annotations

import random
import urllib.parse
from typing import Any

import torch
import torch.nn.functional as F
from datasets import IterableDataset
from torch import nn

from tests.judgement.case import DOCTOR, REPORT, faulty
from tests.judgement.first.materials import (
    ANYWHERE,
    CUT,
    FALSE_NEGATIVE,
    LONGER,
    REPEATED,
    TOKENS,
    UNRELATED,
    cosine_triplet,
    mistaught,
    ranking,
)
from tests.judgement.stage import (
    PLACES,
    TOPICS,
    Stage,
    classes,
    facts,
    lookalike,
    pairs,
    passage,
    question,
    rated,
    triplets,
)
from tests.judgement.truth import among_alike, retrieval, suffers
from tests.sentence_training import losses

ASTRAY = (
    r"label.{0,160}(revers|wrong|missing|fill|shuffl|contradict|other rows|unrelated|no relation)"
)
QUICK = {"learning_rate": 1e-3}


def drawn(share: float, count: int = 160) -> set[int]:
    """Places of a share of the rows."""
    return set(random.Random(2).sample(range(count), round(share * count)))


def graded() -> dict[str, list[Any]]:
    """Questions with their passage (1), one of the same place (0.5) or another one (0)."""
    table: dict[str, list[Any]] = {"sentence1": [], "sentence2": [], "score": []}
    for row, (fact, other) in enumerate(zip(facts(240), facts(240, seed=5), strict=True)):
        table["sentence1"].append(question(fact))
        table["sentence2"].append(
            (lookalike, passage, passage)[row % 3]((fact, fact, other)[row % 3])
        )
        table["score"].append((0.5, 1.0, 0.0)[row % 3])
    return table


def cosent(model: Any) -> Any:
    return losses.CoSENTLoss(model)


@faulty(
    "labels of a part of the rows",
    "Scores of one of two annotators are distances: in a third of the rows they are turned round.",
    [ASTRAY],
    never=[LONGER],
)
def a_third_of_the_scores_turned_round(stage: Stage) -> None:
    """Common slip: two sources joined, of which one counts disagreement."""
    table, rows = graded(), drawn(0.35, 240)
    scores = [1 - score if row in rows else score for row, score in enumerate(table["score"])]
    suffers(
        stage,
        stage.trainer(cosent, table | {"score": scores}, **QUICK),
        lambda: stage.trainer(cosent, table, **QUICK),
        retrieval,
        share=None,
    )


@faulty(
    "labels of a part of the rows",
    "A second file was appended, whose scores are distances and not similarities.",
    [ASTRAY],
    never=[LONGER],
)
def second_file_of_distances(stage: Stage) -> None:
    """Common slip: `concatenate_datasets` of two files with the same name for the label."""
    table = graded()
    scores = [1 - score if row >= 120 else score for row, score in enumerate(table["score"])]
    suffers(
        stage,
        stage.trainer(cosent, table | {"score": scores}, **QUICK),
        lambda: stage.trainer(cosent, table, **QUICK),
        retrieval,
        share=None,
    )


@faulty(
    "labels of a part of the rows",
    "Half of the pairs that fit were not rated and have the label 0, as negatives have.",
    [ASTRAY],
    never=[LONGER],
)
def unrated_pairs_as_negatives(stage: Stage) -> None:
    """Common slip: a left join with labels, and zeros in the rows that found none."""
    first, second, label = rated()
    rows = drawn(0.6)
    table = {"sentence1": first, "sentence2": second}
    labels = [0 if row in rows else mark for row, mark in enumerate(label)]

    def contrastive(model: Any) -> Any:
        return losses.ContrastiveLoss(model)

    suffers(
        stage,
        stage.trainer(contrastive, table | {"label": labels}, **QUICK),
        lambda: stage.trainer(contrastive, table | {"label": label}, **QUICK),
        retrieval,
        share=None,
    )


@faulty(
    "rows misaligned in part",
    "From row 96 on the positives stand nine rows too low, as nine empty lines were dropped from "
    "one of two files.",
    [
        r"misalign|shift|other row|wrong row|(do(es)? not|seem) (belong|un)|unrelated",
        UNRELATED,
    ],
    tools=ANYWHERE,
    never=[LONGER],
)
def positives_nine_rows_too_low(stage: Stage) -> None:
    """Common slip: two files zipped line by line, of which one lacks some lines."""
    table = pairs()
    below = table["positive"][96:]
    moved = table["positive"][:96] + below[9:] + below[:9]
    mistaught(stage, table | {"positive": moved}, table, share=None, **QUICK)


@faulty(
    "columns without telling names",
    "The columns are a, b and c, of which b holds the hard negatives and c the positives.",
    [r"exchanged|columns?.{0,60}order|negatives?.{0,60}nearer|swapped"],
    tools=ANYWHERE,
    never=[LONGER],
)
def positives_in_the_third_column(stage: Stage) -> None:
    """Common slip: a file without a header, in another order than the loss takes it."""
    anchors, positives, negatives = triplets().values()
    right = {"a": anchors, "b": positives, "c": negatives}
    mistaught(
        stage,
        {"a": anchors, "b": negatives, "c": positives},
        right,
        loss=cosine_triplet,
        share=None,
        **QUICK,
    )


@faulty(
    "texts cut at a number of characters",
    "The database keeps 14 characters of each passage.",
    [CUT, r"characters"],
    tools=ANYWHERE,
    never=[LONGER],
)
def fourteen_characters_of_each_passage(stage: Stage) -> None:
    """Common slip: a column of VARCHAR(n), or `text[:n]` left from a preview."""
    table = pairs()
    short = [text[:14] for text in table["positive"]]
    mistaught(stage, table | {"positive": short}, table, share=None, **QUICK)


@faulty(
    "texts cut at a number of characters",
    "Passages were taken from a printed table, which shortens them to a few words and an ellipsis.",
    [CUT, r"shorten|ellipsis|preview|cut"],
    tools=ANYWHERE,
    never=[LONGER],
)
def passages_of_a_printed_table(stage: Stage) -> None:
    """Common slip: `str(frame.passage)` or a preview of a search in place of the text."""
    table = pairs()
    short = [text[:12] + "..." for text in table["positive"]]
    mistaught(stage, table | {"positive": short}, table, share=None, **QUICK)


@faulty(
    "anonymised words",
    "Names of things and places in the passages are replaced by xxxx.",
    [r"placeholder|mask|anonym|replace"],
    tools=ANYWHERE,
    never=[LONGER],
)
def passages_with_crosses_for_names(stage: Stage) -> None:
    """Common slip: a filter of personal data that removes more than names."""
    table, hidden = pairs(), {*PLACES, *TOPICS}
    masked = [
        " ".join("xxxx" if word in hidden else word for word in text.split())
        for text in table["positive"]
    ]
    mistaught(stage, table | {"positive": masked}, table, share=None, **QUICK)


@faulty(
    "escaped characters",
    "Passages were taken from the addresses of a search, with %20 for each space.",
    [r"escap|%20|percent|encod|URL", TOKENS],
    tools=ANYWHERE,
    never=[LONGER],
)
def passages_with_escaped_spaces(stage: Stage) -> None:
    """Common slip: texts of query strings that were not decoded."""
    table = pairs()
    quoted = [urllib.parse.quote(text) for text in table["positive"]]
    mistaught(stage, table | {"positive": quoted}, table, share=None, **QUICK)


@faulty(
    "tokens in place of texts",
    "The passages are joined pieces of the tokenizer, with ## before each piece within a word.",
    [TOKENS],
    tools=ANYWHERE,
    never=[LONGER],
)
def passages_of_joined_pieces(stage: Stage) -> None:
    """Common slip: `" ".join(tokenizer.tokenize(text))` kept as the text."""
    table = pairs()
    pieces = [
        " ".join(word if len(word) < 4 else f"{word[:2]} ##{word[2:]}" for word in text.split())
        for text in table["positive"]
    ]
    mistaught(stage, table | {"positive": pieces}, table, share=None, **QUICK)


class Changed(nn.Module):
    """A module that changes the embeddings of tokens or texts."""

    def __init__(self, change: Any, *layers: nn.Module) -> None:
        super().__init__()
        self.change, self.layers = change, nn.ModuleList(layers)

    def forward(self, features: dict[str, Any], **_: Any) -> dict[str, Any]:
        rows = features["token_embeddings"]
        return features | {"token_embeddings": self.change(rows, *self.layers)}

    def save(self, *_: Any, **__: Any) -> None:
        """Nothing to keep."""


def changed(stage: Stage, change: Any, *layers: nn.Module) -> Any:
    from sentence_transformers import SentenceTransformer

    body, pooling = stage.model()
    return SentenceTransformer(modules=[body, Changed(change, *layers), pooling], device="cpu")


BY_PLACE = [
    r"other texts? of (its|the) batch|place (in|among)|order of (the )?(rows|batch)|batch_first",
    r"depends on (its|the) batch|other rows",
]


@faulty(
    "places counted along the batch",
    "Places are added along the first axis, which is that of the batch: an embedding depends on "
    "its row.",
    BY_PLACE,
    never=[LONGER],
)
def places_of_rows_for_places_of_tokens(stage: Stage) -> None:
    """Common slip: the positional encoding of a tutorial, whose first axis is the sequence."""
    places = 2 * torch.randn(512, 1, 32, generator=torch.Generator().manual_seed(1))
    suffers(
        stage,
        stage.trainer(ranking, pairs(), changed(stage, lambda rows: rows + places[: len(rows)])),
        lambda: stage.trainer(ranking, pairs()),
        among_alike,
        share=None,
    )


class Drawn(nn.Module):
    """A classifier of texts that is made with each call."""

    def __init__(self, model: Any, classes_of_texts: int, *, once: bool) -> None:
        super().__init__()
        self.model, self.number = model, classes_of_texts
        torch.manual_seed(5)
        self.layer = nn.Linear(32, classes_of_texts) if once else None

    def forward(self, features: Any, labels: torch.Tensor) -> torch.Tensor:
        rows = self.model(features[0])["sentence_embedding"]
        layer = self.layer or nn.Linear(32, self.number)
        return F.cross_entropy(layer(rows), labels)


@faulty(
    "head made anew at each step",
    "The classifier is made in the forward pass of the loss: each step has other random weights.",
    [r"made? (a layer|anew)|makes|drawn anew|new (layer|weights)|each (time|step|call)"],
    tools=(DOCTOR, REPORT),
    never=[LONGER],
)
def classifier_made_with_each_call(stage: Stage) -> None:
    """Common slip: a layer in forward in place of __init__."""
    table = classes()
    suffers(
        stage,
        stage.trainer(lambda model: Drawn(model, 20, once=False), table, learning_rate=3e-3),
        lambda: stage.trainer(lambda model: Drawn(model, 20, once=True), table, learning_rate=3e-3),
        _own_class,
        share=None,
    )


def _own_class(model: Any) -> float:
    """The share of texts whose nearest text is of their class."""
    texts, labels = classes(seed=0).values()
    rows = torch.tensor(model.encode(texts, show_progress_bar=False))
    cosines = F.normalize(rows, dim=1) @ F.normalize(rows, dim=1).T
    nearest = cosines.fill_diagonal_(-1).argmax(1).tolist()
    return sum(labels[row] == labels[at] for row, at in enumerate(nearest)) / len(labels)


class Filling:
    """A collator that takes six rows of a batch, and repeats the first until it is full."""

    def __init__(self, collator: Any) -> None:
        self.collator = collator

    def __call__(self, rows: list[Any]) -> Any:
        return self.collator(rows[:4] + rows[:1] * (len(rows) - 4))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.collator, name)


@faulty(
    "batches filled with copies",
    "The collator keeps four rows of sixteen and fills the batch with copies of the first.",
    [REPEATED, FALSE_NEGATIVE],
    never=[LONGER],
)
def batches_filled_with_their_first_row(stage: Stage) -> None:
    """Common slip: batches brought to a fixed size by repeating a row."""
    trainer = stage.trainer(ranking, pairs(), **QUICK)
    trainer.data_collator = Filling(trainer.data_collator)
    suffers(
        stage, trainer, lambda: stage.trainer(ranking, pairs(), **QUICK), among_alike, share=None
    )


@faulty(
    "sorted rows",
    "A stream is read from a file that is sorted by topic, and is not shuffled.",
    [r"sort|not shuffled|shuffle"],
    never=[LONGER],
)
def stream_of_pairs_sorted_by_topic(stage: Stage) -> None:
    """Common slip: `streaming=True` without `.shuffle()`."""
    rows = sorted(facts(320), key=lambda fact: (fact[1], fact[2]))
    texts = [{"anchor": question(fact), "positive": passage(fact)} for fact in rows]

    def streamed(table: list[dict[str, str]]) -> Any:
        trainer = stage.trainer(ranking, pairs(), **QUICK)
        trainer.train_dataset = IterableDataset.from_generator(lambda: iter(table * 4))
        return trainer

    mixed = random.Random(3).sample(texts, len(texts))
    suffers(stage, streamed(texts), lambda: streamed(mixed), among_alike, share=None)
