"""Queue, momentum branch, heads and views in training: against plain loops, and over crashes."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch.nn.functional import normalize

import gradlab
from gradlab.gradient.statistics import diagnose
from gradlab.train import Callback, Objective, train
from tests import train_helpers
from tests.tiny_models import make_sentences
from tests.train_helpers import (
    ESIMCSE,
    MOCOSE,
    OutputRecorder,
    assert_is_plain_loop,
    recorded,
    run_and_crash,
    same_metrics,
    same_weights,
    sequences_of,
    small_config,
    write_columns,
)


def make_objective(bert, dropout=0.0, **settings):
    """With momentum copies that differ from what is trained."""
    objective = train_helpers.make_objective(bert, dropout, **settings)
    if objective.momentum is not None:
        generator = torch.Generator().manual_seed(1)
        with torch.no_grad():
            for parameter in objective.momentum.parameters():
                parameter += 0.02 * torch.randn(
                    parameter.shape, generator=generator, dtype=torch.float64
                )
    return objective


def step(objective, sequences):
    output = objective(objective.prepare(sequences))
    output.loss.backward()
    objective.after_batch(output)
    objective.after_step(output)
    return output


def encode(encoder, sequences):
    """[CLS] of each sentence on its own."""
    return torch.cat(
        [encoder(torch.from_numpy(row)[None], torch.ones(1, len(row))) for row in sequences]
    )


def naive_infonce(anchors, positives, queue, in_batch):
    anchors, positives, queue = (normalize(rows.detach()) for rows in (anchors, positives, queue))
    losses = []
    for i, anchor in enumerate(anchors):
        negatives = [row for j, row in enumerate(positives) if in_batch and j != i] + list(queue)
        logits = torch.stack([anchor @ row for row in [positives[i], *negatives]]) / 0.05
        losses.append(-torch.log_softmax(logits, 0)[0])
    return float(torch.stack(losses).mean())


@pytest.fixture(scope="module")
def sequences(bert):
    return sequences_of(bert, make_sentences(6))


@pytest.mark.parametrize("in_batch", [True, False])
def test_momentum_branch_makes_the_positives(bert, sequences, in_batch):
    objective = make_objective(bert, **MOCOSE | {"in_batch_negatives": in_batch, "fgsm": 0.0})
    output = objective(objective.prepare(sequences))
    copies = objective.momentum.copies
    anchors = objective.predictor(
        objective.projection(objective.head(encode(objective.encoder, sequences)))
    )
    keys = copies["projection"](copies["head"](encode(copies["encoder"], sequences)))
    torch.testing.assert_close(output.anchors, anchors, rtol=0, atol=1e-12)
    torch.testing.assert_close(output.positives, keys, rtol=0, atol=1e-12)
    assert torch.equal(output.keys, output.positives)
    expected = naive_infonce(anchors, keys, objective.queue.rows[:5], in_batch)
    assert float(output.loss.detach()) == pytest.approx(expected, abs=1e-11)


def test_momentum_branch_fills_the_queue_alone(bert, sequences):
    """ESimCSE: positives come from the trained branch, keys from averages that drop nothing out."""
    objective = make_objective(bert, dropout=0.3, **ESIMCSE | {"augment": None})
    outputs = [objective(objective.prepare(sequences)) for _ in range(2)]
    copies = objective.momentum.copies
    keys = copies["head"](encode(copies["encoder"], sequences))
    for output in outputs:
        torch.testing.assert_close(output.keys, keys, rtol=0, atol=1e-12)
        objective.after_batch(output)
    assert not torch.allclose(outputs[0].positives, outputs[1].positives)  # these do drop out
    objective.after_step(outputs[1])
    queue = normalize(keys).repeat(2, 1)
    torch.testing.assert_close(objective.queue.negatives()[0], queue.flip(0))
    output = objective(objective.prepare(sequences))
    expected = naive_infonce(output.anchors, output.positives, queue, True)
    assert float(output.loss.detach()) == pytest.approx(expected, abs=1e-11)


@pytest.mark.parametrize("settings", [MOCOSE, ESIMCSE])
def test_no_gradient_reaches_queue_or_averages(bert, sequences, settings):
    objective = make_objective(bert, **settings)
    output = [step(objective, sequences) for _ in range(2)][-1]
    assert not output.extra_negatives.requires_grad
    assert not output.keys.requires_grad
    assert all(p.grad is None and not p.requires_grad for p in objective.momentum.parameters())
    assert output.positives.requires_grad is (settings is ESIMCSE)
    assert not objective.queue.rows.requires_grad
    for module in (objective.encoder, objective.head, objective.predictor, objective.projection):
        assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in module.parameters())


def test_run_equals_a_plain_loop(bert, tmp_path):
    """MoCoSE's Algorithm 1 without dropout, heads or random vectors."""
    plain = {
        "projection_layers": 0, "predictor_layers": 0, "fgsm": 0.0, "pooler": "cls",
        "queue_initial": 0, "momentum_modules": "embeddings,encoder",
    }  # fmt: skip
    config = small_config(bert, tmp_path, dropout=0.0, learning_rate=1e-4, **MOCOSE | plain)
    train(config)

    def prepare(model):
        target, queue = copy.deepcopy(model), []

        def loss(inputs):
            negatives = torch.stack(queue) if queue else None
            with torch.no_grad():
                keys = normalize(target(**inputs).last_hidden_state[:, 0])
            queue[:] = [*queue, *keys][-config.queue_size :]
            anchors = normalize(model(**inputs).last_hidden_state[:, 0])
            positive = (anchors * keys).sum(1) / 0.05
            if negatives is None:
                return 0 * positive.sum()
            logits = torch.cat([positive[:, None], anchors @ negatives.T / 0.05], dim=1)
            return (torch.logsumexp(logits, 1) - positive).mean()

        def after_step(at):
            eta = 0.95 - 0.2 * (1 + math.cos(math.pi * at / (config.max_steps - 1))) / 2
            with torch.no_grad():
                for average, weights in zip(target.parameters(), model.parameters(), strict=True):
                    average.copy_(eta * average + (1 - eta) * weights)

        return loss, after_step

    assert_is_plain_loop(config, prepare)


def test_queue_statistics_and_diagnostics_are_of_what_the_loss_saw(bert, tmp_path):
    train(
        small_config(bert, tmp_path, diagnostics_every=1, **MOCOSE),
        callbacks=[recorder := OutputRecorder()],
    )
    gradients_of = {}
    for at, output in enumerate(recorder.outputs, start=1):
        views = [
            rows.detach().double()
            for rows in (output.anchors, output.positives, output.extra_negatives)
        ]
        value = gradlab.get_loss("infonce")(*views, normalize=True, in_batch_negatives=False)
        assert float(value) == pytest.approx(float(output.loss.detach()), rel=1e-5)
        for name, value in diagnose(
            "infonce", *views, normalize=True, in_batch_negatives=False
        ).items():
            gradients_of.setdefault(name, recorded(tmp_path / "run", name))
            assert gradients_of[name][at] == pytest.approx(value, nan_ok=True)
    # Batches of 8, a queue of 20 that begins with 5 random vectors.
    expected = {
        "queue_negatives": [5, 13, 20, 20],
        "uniform_share": [1 / 5, 1 / 13, 1 / 20, 1 / 20],
        "queue_random_share": [1, 5 / 13, 4 / 20, 0],
        "queue_age_max": [math.nan, 1, 2, 3],
        "queue_age_mean": [math.nan, 1, 24 / 16, (8 * 1 + 8 * 2 + 4 * 3) / 20],
    }
    for name, values in expected.items():
        written = list(recorded(tmp_path / "run", name).values())
        assert written[:4] == pytest.approx(values, nan_ok=True), name
    decay = recorded(tmp_path / "run", "momentum_decay")
    assert (decay[1], decay[6]) == (0.75, 0.95)
    assert 0 < recorded(tmp_path / "run", "fgsm_changed")[3] <= 1


def test_accumulated_batches_are_all_queued(bert, tmp_path):
    queued = []

    class Watch(Callback):
        def on_step(self, trainer, output):
            queued.append(trainer.objective.queue.ages[: len(trainer.objective.queue)].tolist())

    settings = ESIMCSE | {"queue_size": 30, "accumulation": 3, "batch_size": 4, "max_steps": 2}
    train(small_config(bert, tmp_path, **settings), callbacks=[Watch()])
    assert queued == [[1] * 12, [1] * 12 + [2] * 12]


@pytest.mark.parametrize(
    ("settings", "crash"),
    [
        (MOCOSE | {"keys_gradient": True, "head_rate": 3.0, "head_initial": "identity"}, 1),
        (
            MOCOSE | {
                "fgsm_gradient": "previous", "fgsm": 1e-3, "queue_ages": "0:4,9:20",
                "augment": "feature_cutoff",
            },
            5,
        ),
        (ESIMCSE | {"accumulation": 2}, 5),
        # The recorded loss is the mean of the steps before and after the interruption.
        ({"chunk_size": 3, "accumulation": 2, "log_every": 3}, 5),
        ({"loss": "siglip"}, 4),
    ],
)  # fmt: skip
def test_resumed_run_ends_with_the_same_bits(bert, tmp_path, monkeypatch, settings, crash):
    monkeypatch.chdir(tmp_path)
    train(small_config(bert, tmp_path, "whole", **settings))
    broken = small_config(bert, tmp_path, "broken", **settings)
    run_and_crash(broken, crash)
    train(broken, resume=True)
    assert same_weights("whole", "broken")
    assert same_metrics("whole", "broken")
    states = [
        load_file(f"{run}/checkpoints/step-00000006/model.safetensors")
        for run in ("whole", "broken")
    ]
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
    assert ({"queue.rows", "queue.ages"} <= states[0].keys()) == ("queue_size" in settings)
    assert ("momentum._extra_state" in states[0]) == ("momentum" in settings)


def test_token_ids_of_the_second_view_alone_are_augmented(bert):
    sequences = sequences_of(bert, make_sentences(20))
    for views in ("second", "both"):
        objective = make_objective(bert, augment="subword_repetition(rate=1)", augment_views=views)
        first, second = objective.views(sequences)
        same = [
            np.array_equal(row, sentence) for row, sentence in zip(first, sequences, strict=True)
        ]
        assert all(same) == (views == "second")
        assert any(
            len(row) > len(sentence) for row, sentence in zip(second, sequences, strict=True)
        )


@pytest.mark.parametrize("views", ["second", "both"])
def test_embeddings_of_the_second_view_alone_are_augmented(bert, sequences, views):
    """With every token cut off, augmented rows are those of empty sentences of the same length."""
    objective = make_objective(
        bert, augment="token_cutoff(rate=1)", augment_views=views, pooler="cls_mlp"
    )
    output = objective(objective.prepare(sequences))
    table = objective.encoder.model.get_input_embeddings().weight

    def embed(rows):
        return objective.head(
            objective.encoder(None, torch.ones(1, len(rows)), inputs_embeds=rows[None])
        )

    tables = [table[torch.from_numpy(row)] for row in sequences]
    plain = torch.cat([embed(rows) for rows in tables])
    cut = torch.cat([embed(torch.cat([rows[:1], 0 * rows[1:-1], rows[-1:]])) for rows in tables])
    torch.testing.assert_close(
        output.anchors, cut if views == "both" else plain, rtol=0, atol=1e-12
    )
    torch.testing.assert_close(output.positives, cut, rtol=0, atol=1e-12)


def test_second_views_from_a_column(bert, tmp_path):
    columns = {name: make_sentences(40, seed=seed) for seed, name in enumerate("ab")}
    settings = {
        "train_file": str(write_columns(tmp_path, columns)),
        "column": "a",
        "positive_column": "b",
    }
    calls = []

    class Watch(Objective):
        def views(self, sequences, second_views=None):
            calls.extend(
                (tuple(first_view), tuple(second_view))
                for first_view, second_view in zip(sequences, second_views, strict=True)
            )
            return super().views(sequences, second_views)

    train(small_config(bert, tmp_path, max_steps=3, **settings), objective=Watch)
    tokens = [
        [(*row[:15], 3)[: len(row)] for row in sequences_of(bert, columns[name])] for name in "ab"
    ]
    assert len(calls) == 24
    assert set(calls) <= set(zip(*tokens, strict=True))
