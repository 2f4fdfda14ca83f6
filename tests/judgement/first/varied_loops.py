"""Sound loops with adapters, mining, averaging, tokens, sizes, curricula and plain words."""

from __future__ import annotations

import random
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.judgement.case import sound
from tests.judgement.first.daily_texts import BIRDS, CHATS, FORUM, MATCHES
from tests.judgement.first.daily_tools import (
    adamw,
    lexicon,
    reader,
    rises,
    simple,
    with_negatives,
)
from tests.judgement.first.foreign_texts import INVOICES, RADIO
from tests.judgement.first.loop_materials import looped
from tests.judgement.first.office_texts import PATENTS, SHELL
from tests.judgement.first.turns import Rows, cosines, embed, infonce, stepped, warmed
from tests.judgement.stage import Stage
from tests.judgement.truth import reciprocal_rank, retrieval


@sound("adapters of low rank over a trained body")
def patents_through_adapters_of_low_rank(stage: Stage) -> None:
    """LoRA by peft on a body that was trained on a few titles; all other weights stand still."""
    from peft import LoraConfig

    model = warmed(reader(stage, PATENTS), PATENTS.table(120, seed=2), steps=6)
    model.add_adapter(
        LoraConfig(r=16, lora_alpha=32, target_modules=["query", "key", "value", "dense"])
    )
    rows = Rows(PATENTS.table(360), 24)
    update = simple(model, rows, adamw(model, rate=1e-2))
    rises(stage, looped(stage, model, infonce, update, steps=70, score=PATENTS.sought))


def semi_hard(anchors: Tensor, positives: Tensor) -> Tensor:
    """FaceNet: for each pair the nearest negative that is farther away than the positive."""
    distances = 1 - cosines(anchors, positives)
    own = distances.diagonal()[:, None]
    counterparts = ~torch.eye(len(distances), dtype=torch.bool)
    farther = distances.masked_fill(~(counterparts & (distances > own)), torch.inf).amin(1)
    farthest = distances.masked_fill(~counterparts, -torch.inf).amax(1)
    negative = torch.where(farther.isinf(), farthest, farther)
    return F.relu(own[:, 0] - negative + 0.3).mean()


@sound("semi-hard negatives mined in the batch")
def radio_calls_with_semi_hard_negatives(stage: Stage) -> None:
    """Triplets with negatives mined in each batch of 48."""
    model = reader(stage, RADIO, spread=0.05)
    update = simple(model, Rows(RADIO.table(480), 48), adamw(model, rate=2e-3))
    rises(stage, looped(stage, model, semi_hard, update, steps=100, score=RADIO.sought))


@sound("moving average that is used in the end")
def matches_with_the_averaged_encoder(stage: Stage) -> None:
    """The weights that are kept are torch's moving average of those that learn."""
    from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

    model = reader(stage, MATCHES, pooling="max")
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
    rows, optimizer = Rows(MATCHES.table(400), 32), adamw(model, rate=2e-3)

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(embed(model, column) for column in rows())))
        average.update_parameters(model)

    def score(_: Any) -> float:
        return MATCHES.sought(average.module)

    rises(stage, looped(stage, model, infonce, update, steps=80, score=score))


@sound("late interaction of tokens")
def birds_by_late_interaction_of_tokens(stage: Stage) -> None:
    """ColBERT: each token of a sighting seeks its best token of the guide; pads count nothing."""
    model = reader(stage, BIRDS, width=32)

    def tokens(texts: list[str]) -> tuple[Tensor, Tensor]:
        features = model(model.preprocess(list(texts)))
        mask = features["attention_mask"].float()
        return F.normalize(features["token_embeddings"], dim=-1), mask

    def late(
        student_tokens: Tensor, seen_mask: Tensor, guide: Tensor, guide_mask: Tensor
    ) -> Tensor:
        like = torch.einsum("ash,bth->abst", student_tokens, guide)
        like = like.masked_fill(guide_mask[None, :, None] == 0, -1.0)
        best = (like.amax(3) * seen_mask[:, None]).sum(2)
        return best / seen_mask.sum(1)[:, None]

    def criterion_of(*rows: Tensor) -> Tensor:
        return F.cross_entropy(late(*rows) / 0.05, torch.arange(len(rows[0])))

    rows, optimizer = Rows(BIRDS.table(480), 24), adamw(model, rate=3e-3)
    unseen = BIRDS.table(60, seed=11)

    def update(criterion: Any, step: int) -> None:
        student_tokens, guide = rows()
        stepped(optimizer, criterion(*tokens(student_tokens), *tokens(guide)))

    def score(_: Any) -> float:
        model.eval()
        with torch.no_grad():
            said = late(*tokens(unseen["seen"]), *tokens(unseen["guide"]))
        return float((1 / (said >= said.diagonal()[:, None]).sum(1)).mean())

    rises(stage, looped(stage, model, criterion_of, update, steps=180, score=score))


@sound("first dimensions learn as well")
def commands_in_nested_dimensions(stage: Stage) -> None:
    """Matryoshka by hand: the mean of the losses of the first 8, 16 and all 48 dimensions.

    The score is that of the first 8 dimensions.
    """

    def nested(commands: Tensor, explanations: Tensor) -> Tensor:
        values = [infonce(commands[:, :size], explanations[:, :size]) for size in (8, 16, 48)]
        return torch.stack(values).mean()

    model = reader(stage, SHELL)
    unseen = SHELL.table(60, seed=11)

    def score(encoder: Any) -> float:
        rows = (encoder.encode(texts, show_progress_bar=False) for texts in unseen.values())
        return reciprocal_rank(*(columns[:, :8] for columns in rows))

    update = simple(model, Rows(SHELL.table(480), 32), adamw(model, rate=3e-3))
    rises(stage, looped(stage, model, nested, update, steps=80, score=score))


@sound("easy negatives first, hard ones later")
def invoices_from_easy_to_hard_negatives(stage: Stage) -> None:
    """The first half learns by pairs alone; then a negative with another ware comes in."""

    def among_all(orders: Tensor, lines: Tensor, *negatives: Tensor) -> Tensor:
        logits = cosines(orders, torch.cat([lines, *negatives])) / 0.07
        return F.cross_entropy(logits, torch.arange(len(orders)))

    model = reader(stage, INVOICES, kind="distilbert")
    rows, optimizer = Rows(with_negatives(INVOICES, 400, 2), 24), adamw(model, rate=2e-3)

    def update(criterion: Any, step: int) -> None:
        columns = rows() if step >= 40 else rows()[:2]
        stepped(optimizer, criterion(*(embed(model, column) for column in columns)))

    rises(stage, looped(stage, model, among_all, update, steps=80, score=INVOICES.sought))


class BagOfWords(nn.Module):
    """An encoder without transformer: the mean of word vectors and a layer."""

    def __init__(self, texts: list[str], width: int = 40) -> None:
        super().__init__()
        torch.manual_seed(6)
        words = dict.fromkeys(word for text in texts for word in text.split())
        self.places = {word: at for at, word in enumerate(words)}
        self.words = nn.EmbeddingBag(len(words), width, mode="mean")
        self.layer = nn.Linear(width, width)

    def forward(self, texts: list[str]) -> Tensor:
        rows = [[self.places[word] for word in text.split()] for text in texts]
        starts = torch.tensor([0, *(len(row) for row in rows)])[:-1].cumsum(0)
        return self.layer(self.words(torch.tensor([at for row in rows for at in row]), starts))


@sound("mean of word vectors without a transformer")
def forum_posts_as_bags_of_words(stage: Stage) -> None:
    """A plain PyTorch encoder learns word vectors by InfoNCE with Adam."""
    model = BagOfWords(lexicon(FORUM))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    rows, unseen = Rows(FORUM.table(400), 32), FORUM.table(60, seed=11)

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*map(model, rows())))

    def score(_: Any) -> float:
        with torch.no_grad():
            return reciprocal_rank(*(model(texts).numpy() for texts in unseen.values()))

    rises(stage, looped(stage, model, infonce, update, steps=80, score=score))


@sound("two views of one text by dropped words")
def sightings_with_words_dropped(stage: Stage) -> None:
    """Without pairs: two views of each text, each lacking a third of its words, as in ConSERT.

    The score seeks held-out texts by six in ten of their words.
    """
    draw, texts = random.Random(8), BIRDS.table(480)["seen"]

    def thinned(text: str, share: float) -> str:
        words = text.split()
        selection = sorted(draw.sample(range(len(words)), round(share * len(words))))
        return " ".join(words[at] for at in selection)

    unseen = BIRDS.table(100, seed=11)["seen"]
    sought = {"part": [thinned(text, 0.6) for text in unseen], "whole": unseen}
    model = reader(stage, BIRDS)
    rows, optimizer = Rows({"text": texts}, 32), adamw(model, rate=2e-3)

    def update(criterion: Any, step: int) -> None:
        (batch,) = rows()
        views = [[thinned(text, 0.67) for text in batch] for _ in range(2)]
        stepped(optimizer, criterion(*(embed(model, view) for view in views)))

    def score(encoder: Any) -> float:
        return retrieval(encoder, sought)

    rises(stage, looped(stage, model, infonce, update, steps=80, score=score))


@sound("projection head, thrown away afterwards")
def chats_through_a_projection_head(stage: Stage) -> None:
    """SimCLR: the loss sees a projection of the rows; the encoder is used without it."""
    model = reader(stage, CHATS, dropout=0.0)
    torch.manual_seed(9)
    head = nn.Sequential(nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 24))
    rows, optimizer = Rows(CHATS.table(400), 32), adamw(model, head, rate=2e-3)

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(head(embed(model, column)) for column in rows())))

    rises(stage, looped(stage, model, infonce, update, steps=80, score=CHATS.sought))
