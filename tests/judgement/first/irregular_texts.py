"""Sound set-ups over irregular texts: several sentences in a row, slips of the pen, lists."""

from __future__ import annotations

import random
from typing import Any

import torch
import torch.nn.functional as F
from sentence_transformers.sentence_transformer import losses
from sentence_transformers.sentence_transformer.evaluation import InformationRetrievalEvaluator
from torch import Tensor
from transformers import EarlyStoppingCallback

from tests.judgement.case import sound
from tests.judgement.first.fields_of_scripts_and_signs import (
    CHEMISTRY,
    HANZI,
    MATCHES,
    METERS,
    RHYMES,
    SHELL,
    SHELVES,
    encoder_of,
    mistyped,
    pairs_of,
    seeks,
    stacked_pairs,
)
from tests.judgement.first.losses_in_loops import adam, step_of
from tests.judgement.first.rankings_by_trainer import ranking
from tests.judgement.first.texts_of_unlike_kinds import letters_encoder
from tests.judgement.first.turns import Rows, cosines, embed, infonce, stepped, turn
from tests.judgement.stage import Stage
from tests.judgement.truth import learns, retrieval


@sound("scripts of one to three commands")
def scripts_of_several_commands(stage: Stage) -> None:
    held = stacked_pairs(SHELL, 60, seed=11)
    trainer = stage.trainer(
        ranking, stacked_pairs(SHELL, 320), encoder_of(stage, SHELL), max_steps=70,
        per_device_train_batch_size=32, learning_rate=2e-3, lr_scheduler_type="cosine",
    )  # fmt: skip
    learns(stage, trainer, lambda model: retrieval(model, held))


@sound("best model of several evaluations, with early stopping")
def best_checkpoint_of_scripted_readings(stage: Stage) -> None:
    lines = stacked_pairs(METERS, 60, seed=13, most=2)
    spoken, logged = lines.values()
    evaluator = InformationRetrievalEvaluator(
        {f"q{at}": text for at, text in enumerate(spoken)},
        {f"d{at}": text for at, text in enumerate(logged)},
        {f"q{at}": {f"d{at}"} for at in range(len(spoken))},
        name="readings", main_score_function="cosine",
    )  # fmt: skip
    held = stacked_pairs(METERS, 60, seed=11, most=2)
    trainer = stage.trainer(
        ranking, stacked_pairs(METERS, 320, most=2), encoder_of(stage, METERS), max_steps=60,
        per_device_train_batch_size=32, learning_rate=2e-3, evaluator=evaluator,
        eval_strategy="steps", eval_steps=15, save_strategy="steps", save_steps=15,
        save_total_limit=2, load_best_model_at_end=True,
        metric_for_best_model="eval_readings_cosine_ndcg@10",
        callbacks=[EarlyStoppingCallback(early_stopping_patience=3)],
    )  # fmt: skip
    learns(stage, trainer, lambda model: retrieval(model, held))


@sound("queries with slips of the pen, read by letter")
def mistyped_hanzi_and_their_pinyin(stage: Stage) -> None:
    table, held = pairs_of(HANZI, 400), pairs_of(HANZI, 60, seed=11)
    typed = {"typed": mistyped(table["pinyin"]), "hanzi": table["hanzi"]}
    sought = {"typed": mistyped(held["pinyin"], 1), "hanzi": held["hanzi"]}
    trainer = stage.trainer(
        ranking, typed, letters_encoder(stage, [*table["hanzi"], *table["pinyin"]]),
        max_steps=90, per_device_train_batch_size=32, learning_rate=3e-3,
    )  # fmt: skip
    learns(stage, trainer, lambda model: retrieval(model, sought))


@sound("two hard negatives a row")
def formulas_beside_two_lookalikes(stage: Stage) -> None:
    table = pairs_of(CHEMISTRY, 280) | {
        "metal_changed": CHEMISTRY.near(280, slot=0), "state_changed": CHEMISTRY.near(280, slot=3),
    }  # fmt: skip
    trainer = stage.trainer(
        lambda model: losses.MultipleNegativesRankingLoss(model, scale=15.0), table,
        encoder_of(stage, CHEMISTRY, dropout=0.0), max_steps=60,
        per_device_train_batch_size=16, learning_rate=2e-3, batch_sampler="no_duplicates",
        lr_scheduler_type="inverse_sqrt",
    )  # fmt: skip
    learns(stage, trainer, seeks(CHEMISTRY))


@sound("decoder with a mean weighted by place")
def decoder_with_a_weighted_mean(stage: Stage) -> None:
    trainer = stage.trainer(
        lambda model: losses.MatryoshkaLoss(
            model, losses.MultipleNegativesSymmetricRankingLoss(model),
            matryoshka_dims=[48, 16], n_dims_per_step=1,
        ),
        pairs_of(SHELVES, 320), encoder_of(stage, SHELVES, kind="granite", pooling="weightedmean"),
        max_steps=70, per_device_train_batch_size=32, learning_rate=2e-3,
    )  # fmt: skip
    learns(stage, trainer, seeks(SHELVES))


@sound("lists of candidates in order of their grades")
def lists_of_graded_candidates(stage: Stage) -> None:
    """ListNet: five candidates for each headline, with none to all slots in common."""
    draw, slots = random.Random(8), list(MATCHES.slots.values())
    table: dict[str, list[Any]] = {"headline": [], "reports": []}
    for row in MATCHES.draws(260):
        changed = list(row)
        rows = [row]
        for at in draw.sample(range(4), 4):
            changed[at] = draw.choice([e for e in slots[at].split() if e != row[at]])
            rows.append(tuple(changed))
        table["headline"] += MATCHES.texts([row], 0)
        table["reports"].append(MATCHES.texts(rows, 1))
    grades = F.softmax(torch.tensor([4.0, 3.0, 2.0, 1.0, 0.0]), 0)

    def listnet(headlines: Tensor, reports: Tensor) -> Tensor:
        logits = 10 * F.cosine_similarity(headlines[:, None], reports, dim=-1)
        return -(F.log_softmax(logits, 1) * grades).sum(1).mean()

    model = encoder_of(stage, MATCHES)
    rows, optimizer = Rows(table, 12), adam(model)

    def update(criterion: Any, step: int) -> None:
        headlines, lists = rows()
        reports = embed(model, [text for texts in lists for text in texts])
        stepped(optimizer, criterion(embed(model, headlines), reports.view(len(lists), 5, -1)))

    turn(stage, model, listnet, update, seeks(MATCHES), steps=80)


@sound("slips of the pen drawn anew at each step")
def fresh_slips_at_each_step(stage: Stage) -> None:
    table, held = pairs_of(HANZI, 400), pairs_of(HANZI, 60, seed=11)
    model = letters_encoder(stage, [*table["hanzi"], *table["pinyin"]])
    rows, optimizer = Rows(table, 32), adam(model, 3e-3)
    sought = {"typed": mistyped(held["pinyin"], 1), "hanzi": held["hanzi"]}

    def update(criterion: Any, step: int) -> None:
        hanzi, pinyin = rows()
        stepped(optimizer, criterion(embed(model, mistyped(pinyin, step)), embed(model, hanzi)))

    turn(stage, model, infonce, update, lambda model: retrieval(model, sought), steps=90)


@sound("uneven rows of rhymes, with a temperature that is learned")
def learned_temperature_over_verses(stage: Stage) -> None:
    """As in CLIP: the logarithm of the scale is learned, and clamped."""
    scale = torch.nn.Parameter(torch.tensor(14.0).log())
    model = encoder_of(stage, RHYMES)
    optimizer = torch.optim.AdamW(
        [{"params": model.parameters()}, {"params": [scale], "weight_decay": 0.0}], lr=2e-3
    )

    def clip(lines: Tensor, songs: Tensor) -> Tensor:
        logits = scale.exp().clamp(max=100) * cosines(lines, songs)
        own = torch.arange(len(logits))
        return (F.cross_entropy(logits, own) + F.cross_entropy(logits.T, own)) / 2

    held = stacked_pairs(RHYMES, 60, seed=11, most=2)
    update = step_of(model, stacked_pairs(RHYMES, 320, most=2), optimizer, 32)
    turn(stage, model, clip, update, lambda model: retrieval(model, held), steps=60)
