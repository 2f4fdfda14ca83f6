"""Sound set-ups: loops of one's own that contrast pairs of texts within their batch."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.judgement.case import sound
from tests.judgement.first.bodies import encoder
from tests.judgement.first.numbered_fields import NOTES, POSTS
from tests.judgement.first.ordinary_fields import (
    BIRDS,
    CHANGES,
    FORECASTS,
    JOBS,
    QUERIES,
    RECIPES,
    RUSSIAN,
    STATUTES,
    TURNS,
)
from tests.judgement.first.training_kit import (
    adamw,
    by_rank,
    cross_entropy,
    down,
    rises,
    similarities,
    simple,
)
from tests.judgement.first.turns import Rows, counted, embed
from tests.judgement.stage import Stage


@sound("warm-up and cosine decay of the rate")
def wishes_matched_to_adverts_with_cosine_decay(stage: Stage) -> None:
    """Plain InfoNCE with the customary schedule: the rate warms up and falls along a cosine."""
    steps, model = 90, encoder(stage, JOBS.vocabulary())
    optimizer = adamw(model, rate=3e-3)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer,
        lambda at: min(1.0, (at + 1) / 9) * 0.5 * (1 + math.cos(math.pi * min(1.0, at / steps))),
    )
    update = simple(model, JOBS.table(400), optimizer, size=24, most=1.0, schedule=schedule)
    rises(stage, model, cross_entropy, update, by_rank(JOBS.sought()), steps=steps)


@sound("loss in both directions, with normalised embeddings")
def recipe_titles_and_steps_in_both_directions(stage: Stage) -> None:
    """CLIP's symmetric loss: titles seek steps and steps seek titles, at half weight each."""
    from sentence_transformers.sentence_transformer.modules import Normalize

    def two_views(titles: Tensor, steps: Tensor) -> Tensor:
        logits = titles @ steps.T / 0.07
        target = torch.arange(len(logits))
        return 0.5 * (F.cross_entropy(logits, target) + F.cross_entropy(logits.T, target))

    model = encoder(stage, RECIPES.vocabulary(), Normalize())
    update = simple(model, RECIPES.table(320), adamw(model), size=32)
    rises(stage, model, two_views, update, by_rank(RECIPES.sought(80)), steps=70)


@sound("two hard negatives of each row, shared by the batch")
def case_facts_with_two_hard_paragraphs(stage: Stage) -> None:
    """As dense passage retrieval does: candidates are all paragraphs and hard negatives."""
    table = STATUTES.table(240) | {
        "other_deed": STATUTES.near_misses(240, slot=0),
        "other_object": STATUTES.near_misses(240, slot=1),
    }

    model, rows = encoder(stage, STATUTES.vocabulary(), length=80), Rows(table, 12)
    optimizer = adamw(model)

    def among_all(facts: Tensor, paragraphs: Tensor, wrong: Tensor, own: Tensor) -> Tensor:
        logits = 20 * similarities(facts, torch.cat([paragraphs, wrong]))
        return F.cross_entropy(logits.masked_fill(own, -torch.inf), torch.arange(len(logits)))

    def update(criterion: Any, step: int) -> None:
        facts, paragraphs, deeds, objects = rows()
        columns = [embed(model, texts) for texts in (facts, paragraphs, deeds + objects)]
        candidates = paragraphs + deeds + objects  # a row's own paragraph may be another's negative
        own = torch.tensor(
            [
                [
                    text == counterpart and at != place
                    for place, counterpart in enumerate(candidates)
                ]
                for at, text in enumerate(paragraphs)
            ]
        )
        down(optimizer, criterion(*columns, own), most=1.0)

    rises(stage, model, among_all, update, by_rank(STATUTES.sought(50)), steps=90)


@sound("additive margin in a translation ranking")
def russian_translations_with_a_margin(stage: Stage) -> None:
    """LaBSE's loss: the cosine of the translation is lowered by a margin, both ways."""

    def with_margin(english: Tensor, russian: Tensor) -> Tensor:
        logits = 15 * (similarities(english, russian) - 0.2 * torch.eye(len(english)))
        target = torch.arange(len(logits))
        return F.cross_entropy(logits, target) + F.cross_entropy(logits.T, target)

    model = encoder(stage, RUSSIAN.vocabulary(), pooling="cls")
    update = simple(model, RUSSIAN.table(500), adamw(model), size=32)
    rises(stage, model, with_margin, update, by_rank(RUSSIAN.sought()), steps=220)


class LearnedScale(nn.Module):
    """InfoNCE whose scale is learned as its logarithm and held below 100, as in CLIP."""

    def __init__(self) -> None:
        super().__init__()
        self.logarithm = nn.Parameter(torch.tensor(math.log(1 / 0.07)))

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        scale = self.logarithm.clamp(max=math.log(100.0)).exp()
        return F.cross_entropy(scale * similarities(first, second), torch.arange(len(first)))


@sound("learned temperature")
def japanese_forecasts_with_a_learned_scale(stage: Stage) -> None:
    """The scale is a parameter of the criterion and is in the optimiser without decay."""
    model, criterion = encoder(stage, FORECASTS.vocabulary()), LearnedScale()
    optimizer = torch.optim.AdamW(
        [
            {"params": list(model.parameters()), "weight_decay": 0.01},
            {"params": list(criterion.parameters()), "weight_decay": 0.0},
        ],
        lr=2e-3,
    )
    update = simple(model, FORECASTS.table(400), optimizer, size=24)
    rises(stage, model, criterion, update, by_rank(FORECASTS.sought()), steps=90)


@sound("no decay for biases and norms")
def questions_to_statements_with_two_decay_groups(stage: Stage) -> None:
    """InfoNCE with the two groups of BERT's recipe: biases and norms do not decay."""
    model = encoder(stage, QUERIES.vocabulary(), width=64)
    bare = [row for name, row in model.named_parameters() if "bias" in name or "Norm" in name]
    remainder = [
        row for name, row in model.named_parameters() if not ("bias" in name or "Norm" in name)
    ]
    optimizer = torch.optim.AdamW(
        [{"params": remainder, "weight_decay": 0.05}, {"params": bare, "weight_decay": 0.0}],
        lr=2e-3, betas=(0.9, 0.98), eps=1e-6,
    )  # fmt: skip
    update = simple(model, QUERIES.table(480), optimizer, size=32, most=1.0)
    rises(stage, model, cross_entropy, update, by_rank(QUERIES.sought()), steps=80)


@sound("decoupled contrastive loss")
def bird_sightings_with_a_decoupled_loss(stage: Stage) -> None:
    """The positive is left out of the sum below, which helps small batches (Yeh et al.)."""

    def decoupled(sightings: Tensor, entries: Tensor) -> Tensor:
        logits = similarities(sightings, entries) / 0.1
        counterparts = logits.masked_fill(torch.eye(len(logits), dtype=torch.bool), -torch.inf)
        return (counterparts.logsumexp(1) - logits.diagonal()).mean()

    model = encoder(stage, BIRDS.vocabulary(), pooling="max")
    update = simple(model, BIRDS.table(360), adamw(model), size=12)
    rises(stage, model, decoupled, update, by_rank(BIRDS.sought()), steps=140)


@sound("rows with the same partner masked")
def medical_notes_with_equal_codes_masked(stage: Stage) -> None:
    """Synonyms of an organ share a code: rows of a batch with the same code are no negatives."""
    rows = Rows(NOTES.table(400), 24)
    model = encoder(stage, NOTES.vocabulary())
    optimizer = adamw(model)

    def masked(notes: Tensor, codes: Tensor, same: Tensor) -> Tensor:
        logits = 20 * similarities(notes, codes)
        logits = logits.masked_fill(same & ~torch.eye(len(same), dtype=torch.bool), -torch.inf)
        return F.cross_entropy(logits, torch.arange(len(logits)))

    def update(criterion: Any, step: int) -> None:
        notes, codes = rows()
        same = torch.tensor([[code == counterpart for counterpart in codes] for code in codes])
        down(optimizer, criterion(embed(model, notes), embed(model, codes), same))

    table = NOTES.table(100, held_out=True)
    selection = {code: note for note, code in zip(*table.values(), strict=True)}
    sought = {"note": list(selection.values()), "code": list(selection)}
    rises(stage, model, masked, update, by_rank(sought), steps=90)


@sound("accumulation over four small batches")
def commit_messages_with_accumulated_batches(stage: Stage) -> None:
    """Four batches of ten are averaged before each step, the norm is clipped once, at its end."""
    model, rows = encoder(stage, CHANGES.vocabulary()), Rows(CHANGES.table(240), 10)
    optimizer = adamw(model, rate=3e-3)

    def update(criterion: Any, step: int) -> None:
        counted(criterion, step)
        optimizer.zero_grad()
        for _ in range(4):
            messages, diffs = rows()
            (criterion(embed(model, messages), embed(model, diffs)) / 4).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    rises(stage, model, cross_entropy, update, by_rank(CHANGES.sought(60)), steps=50)


class Sigmoids(nn.Module):
    """The loss of SigLIP with learned scale and bias."""

    def __init__(self) -> None:
        super().__init__()
        self.logarithm = nn.Parameter(torch.tensor(math.log(10.0)))
        self.bias = nn.Parameter(torch.tensor(-5.0))

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        logits = self.logarithm.exp() * similarities(first, second) + self.bias
        signs = 2 * torch.eye(len(logits)) - 1
        return -F.logsigmoid(signs * logits).sum(1).mean()


@sound("sigmoid of each pair with learned scale and bias")
def chat_replies_with_learned_sigmoids(stage: Stage) -> None:
    """Each pair is judged alone; scale and bias begin as in SigLIP and train with the rest."""
    model, criterion = encoder(stage, TURNS.vocabulary(), kind="distilbert"), Sigmoids()
    update = simple(model, TURNS.table(500), adamw(model, criterion, decay=0.0), size=24)
    rises(stage, model, criterion, update, by_rank(TURNS.sought()), steps=110)


@sound("soft targets by common tags")
def posts_with_targets_softened_by_tags(stage: Stage) -> None:
    """Posts that share tags are partly right: targets are a softmax of the share of equal tags."""
    rows, model = Rows(POSTS.table(200), 20), encoder(stage, POSTS.vocabulary())
    optimizer = adamw(model)

    def softened(posts: Tensor, tags: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(15 * similarities(posts, tags), targets)

    def update(criterion: Any, step: int) -> None:
        posts, tags = rows()
        words = [set(text.split()) for text in tags]
        shared = torch.tensor(
            [[len(own & counterpart) / 3 for counterpart in words] for own in words]
        )
        targets = F.softmax(shared / 0.15, dim=1)
        down(optimizer, criterion(embed(model, posts), embed(model, tags), targets))

    rises(stage, model, softened, update, by_rank(POSTS.sought(45)), steps=130)
