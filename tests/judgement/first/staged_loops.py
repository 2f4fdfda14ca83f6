"""Loops in which parts are frozen, cached, cut, resumed or stopped, and loops over tokens."""

from __future__ import annotations

import copy
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.judgement.case import sound
from tests.judgement.first.drawn_rows import seeks
from tests.judgement.first.loop_materials import looped
from tests.judgement.first.private_texts import mails, numerals, nursing, recipes
from tests.judgement.first.public_texts import FORECASTS, PATENTS, STATUTES
from tests.judgement.first.stepwise_updates import adam, parted, plain, prepared, rises, taught
from tests.judgement.first.turns import Rows, embed, infonce, stepped, turn
from tests.judgement.stage import Stage


@sound("cached gradients")
def patents_in_large_batches_by_cached_gradients(stage: Stage) -> None:
    """GradCache: embed without graph, cache the loss's gradient, encode again piece by piece."""
    model, train, held = prepared(stage, PATENTS, 256, 60)
    rows, optimizer = Rows(train, 48), adam(model)

    def update(criterion: Any, step: int) -> None:
        columns = rows()
        pieces = [(side, column[at : at + 16]) for side, column in enumerate(columns)
                  for at in range(0, 48, 16)]  # fmt: skip
        states, leaves = [], []
        with torch.no_grad():
            for _, texts in pieces:
                states.append(torch.get_rng_state())
                leaves.append(embed(model, texts))
        sides = [torch.cat(leaves[:3]).requires_grad_(), torch.cat(leaves[3:]).requires_grad_()]
        criterion(*sides).backward()
        gradients = [piece for side in sides for piece in side.grad.split(16)]
        ahead = torch.get_rng_state()
        optimizer.zero_grad()
        for (_, texts), state, gradient in zip(pieces, states, gradients, strict=True):
            torch.set_rng_state(state)
            embed(model, texts).backward(gradient)
        torch.set_rng_state(ahead)
        optimizer.step()

    turn(stage, model, infonce, update, seeks(held), steps=30)


@sound("low-rank adapters")
def law_questions_by_low_rank_adapters(stage: Stage) -> None:
    """A ready-made encoder is frozen, and LoRA of rank eight is trained in its attention."""
    from peft import LoraConfig

    model, train, held = prepared(stage, STATUTES, 240, 80)
    taught(model, STATUTES.table(160, seed=2), steps=6)
    model.add_adapter(LoraConfig(r=8, lora_alpha=16, target_modules=["query", "value", "dense"]))
    update = plain(model, Rows(train, 24), adam(model, rate=5e-3))
    turn(stage, model, infonce, update, seeks(held), steps=50)


@sound("embeddings and first layer frozen")
def recipes_with_the_lower_layers_frozen(stage: Stage) -> None:
    """Of an encoder that was trained a little, only the upper layer is tuned further.

    Remark: the encoder is good before, so that there is little left to gain.
    """
    model, train, held = prepared(stage, recipes, 320)
    taught(model, recipes(160, seed=2), steps=10)
    network = model[0].auto_model
    for weight in [*network.embeddings.parameters(), *network.encoder.layer[0].parameters()]:
        weight.requires_grad_(False)
    update = plain(model, Rows(train, 32), adam(model, rate=2e-3))
    turn(stage, model, infonce, update, seeks(held), steps=50)


@sound("smaller rates for lower layers")
def forecasts_with_a_rate_for_each_layer(stage: Stage) -> None:
    """The rate decays from layer to layer downwards; biases and norms have no weight decay."""
    model, train, held = prepared(stage, FORECASTS, 400)
    network = model[0].auto_model
    layers = [network.embeddings, *network.encoder.layer]
    sets = []
    for depth, layer in enumerate(reversed(layers)):
        for vectors in (False, True):
            weights = [row for row in layer.parameters() if (row.dim() < 2) == vectors]
            sets.append({"params": weights, "lr": 3e-3 * 0.8**depth,
                         "weight_decay": 0.0 if vectors else 0.05})  # fmt: skip
    update = plain(model, Rows(train, 32), torch.optim.AdamW(sets))
    turn(stage, model, infonce, update, seeks(held), steps=70)


@sound("nested dimensions")
def numbers_in_words_in_nested_dimensions(stage: Stage) -> None:
    """Matryoshka by hand: the mean loss of the first 12, 24 and 48 dimensions."""

    def nested(first: Tensor, second: Tensor) -> Tensor:
        return sum(infonce(first[:, :size], second[:, :size]) for size in (12, 24, 48)) / 3

    model, train, held = prepared(stage, numerals, 500, 100, spread=0.1)
    update = plain(model, Rows(train, 32), adam(model))

    def cut(encoder: Any) -> float:
        with encoder.truncate_sentence_embeddings(12):
            return seeks(held)(encoder)

    turn(stage, model, nested, update, cut, steps=100)


@sound("stopped early, best weights kept")
def mails_stopped_when_a_validation_set_gets_no_better(stage: Stage) -> None:
    """Every ten steps a validation set is scored; the best weights are kept, three tries more.

    Remark: the loop may end before the number of steps that was planned.
    """
    model, train, held = prepared(stage, mails, 380, 60)
    train, validation = parted(train, 320)
    valid = seeks(validation)
    step_once, best = plain(model, Rows(train, 32), adam(model)), {"score": -1.0, "bad": 0.0}
    weights: dict[str, Tensor] = {}

    def update(criterion: Any, step: int) -> None:
        if best["bad"] >= 3:
            return
        step_once(criterion, step)
        if step % 10 == 9:
            score = valid(model)
            model.train()
            best["bad"] = 0.0 if score > best["score"] else best["bad"] + 1
            if score > best["score"]:
                best["score"] = score
                weights.update(copy.deepcopy(model.state_dict()))

    score = seeks(held)
    before, _ = looped(stage, model, infonce, update, steps=90, score=score)
    model.load_state_dict(weights)
    rises(stage, before, score(model))


@sound("interrupted and resumed")
def nurses_notes_resumed_from_a_checkpoint(stage: Stage) -> None:
    """After thirty steps weights, optimiser and schedule are saved, made anew and loaded."""
    model, train, held = prepared(stage, nursing, 400, 60)
    rows, place = Rows(train, 32), stage.folder / "checkpoint.pt"

    def fresh() -> tuple[Any, Any]:
        optimizer = adam(model, rate=3e-3)
        return optimizer, torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.05, 70)

    segments = dict(zip(("optimizer", "schedule"), fresh(), strict=True))

    def update(criterion: Any, step: int) -> None:
        if step == 30:
            states = {name: segment.state_dict() for name, segment in segments.items()}
            torch.save({"model": model.state_dict(), **states}, place)
            saved = torch.load(place)
            model.load_state_dict(saved["model"])
            for name, segment in zip(segments, fresh(), strict=True):
                segment.load_state_dict(saved[name])
                segments[name] = segment
        plain(model, rows, segments["optimizer"], segments["schedule"])(criterion, step)

    turn(stage, model, infonce, update, seeks(held), steps=70)


@sound("late interaction of tokens")
def numbers_by_the_late_interaction_of_tokens(stage: Stage) -> None:
    """ColBERT: each token of the words seeks its nearest token of the figures, pads left out."""
    model, train, held = prepared(stage, numerals, 500, 100, spread=0.1)
    rows, optimizer = Rows(train, 24), adam(model)

    def tokens(texts: Any) -> Tensor:
        states = model(model.preprocess(list(texts)))
        return F.normalize(states["token_embeddings"], dim=-1) * states["attention_mask"][..., None]

    def sums_of_nearest(first: Tensor, second: Tensor) -> Tensor:
        near = torch.einsum("aid,bjd->abij", first, second)
        near = near.masked_fill((second.abs().sum(2) == 0)[None, :, None], -1e4).amax(3)
        return near.masked_fill((first.abs().sum(2) == 0)[:, None], 0.0).sum(2)

    def late(first: Tensor, second: Tensor) -> Tensor:
        return F.cross_entropy(sums_of_nearest(first, second) / 0.5, torch.arange(len(first)))

    def score(_: Any) -> float:
        model.eval()
        with torch.no_grad():
            sums = sums_of_nearest(*(tokens(column) for column in held.values()))
        return float((1.0 / (sums >= sums.diagonal()[:, None]).sum(1)).mean())

    def update(criterion: Any, step: int) -> None:
        stepped(optimizer, criterion(*(tokens(column) for column in rows())))

    turn(stage, model, late, update, score, steps=80)
