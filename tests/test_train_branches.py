"""Queue, momentum branch, heads and views in training: against plain loops, over crashes, in several processes."""

from __future__ import annotations

import copy
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn.functional import normalize

import gradlab
from gradlab import GradlabError
from gradlab.encoder.model import Encoder
from gradlab.gradient.diagnostics import diagnose
from gradlab.monitor.metrics import read_metrics
from gradlab.train import Callback, Objective, TrainConfig, train
from gradlab.train.distributed import Processes
from gradlab.train.heads import MLP
from gradlab.train.parts import Parts
from tests.branches_worker import SETTINGS, two_steps, work
from tests.gradient_worker import sequences_of
from tests.processes import together
from tests.test_train_checkpoint import run_and_crash, steady
from tests.tiny_models import make_sentences
from tests.train_helpers import final_weights, same_weights, small_config

MOCOSE = {
    "queue_size": 20, "queue_initial": 5, "in_batch_negatives": False, "momentum": 0.75, "momentum_end": 0.95,
    "momentum_schedule": "cosine", "momentum_modules": "encoder,head,projection", "projection_layers": 1,
    "predictor_layers": 2, "fgsm": 5e-9, "pooler": "cls_mlp",
}  # fmt: skip
ESIMCSE = {
    "queue_size": 20, "momentum": 0.995, "momentum_dropout": False, "momentum_use": "queue", "pooler": "cls_mlp",
    "augment": "subword_repetition(rate=0.32)",
}  # fmt: skip


def make_objective(bert, dropout=0.0, **settings):
    """In float64, with momentum copies that differ from what is trained."""
    config = TrainConfig(model=str(bert), train_file="-", output="-", **settings)
    encoder = Encoder.load(bert, dropout=dropout).double()
    head = MLP(encoder.dimension).double()
    parts = Parts.build(config, encoder, head, steps=4)
    objective = Objective(encoder, gradlab.get_loss("infonce"), head=head, parts=parts).double().train()
    if objective.momentum is not None:
        generator = torch.Generator().manual_seed(1)
        with torch.no_grad():
            for parameter in objective.momentum.parameters():
                parameter += 0.02 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
    return objective


def encode(encoder, sequences):
    """[CLS] of each sentence on its own."""
    return torch.cat([encoder(torch.from_numpy(row)[None], torch.ones(1, len(row))) for row in sequences])


def naive_infonce(anchors, positives, queue, in_batch):
    anchors, positives, queue = (normalize(rows.detach()) for rows in (anchors, positives, queue))
    losses = []
    for i, anchor in enumerate(anchors):
        negatives = [row for j, row in enumerate(positives) if in_batch and j != i] + list(queue)
        logits = torch.stack([anchor @ row for row in [positives[i], *negatives]]) / 0.05
        losses.append(-torch.log_softmax(logits, 0)[0])
    return torch.stack(losses).mean()


@pytest.mark.parametrize("in_batch", [True, False])
def test_momentum_branch_makes_the_positives(bert, in_batch):
    objective = make_objective(bert, **MOCOSE | {"in_batch_negatives": in_batch, "fgsm": 0.0})
    sequences = sequences_of(str(bert), make_sentences(6))
    output = objective(objective.prepare(sequences))
    copies = objective.momentum.copies
    anchors = objective.predictor(objective.projection(objective.head(encode(objective.encoder, sequences))))
    keys = copies["projection"](copies["head"](encode(copies["encoder"], sequences)))
    queue = objective.queue.rows[:5]
    torch.testing.assert_close(output.anchors, anchors, rtol=0, atol=1e-12)
    torch.testing.assert_close(output.positives, keys, rtol=0, atol=1e-12)
    assert torch.equal(output.keys, output.positives)
    assert float(output.loss.detach()) == pytest.approx(
        float(naive_infonce(anchors, keys, queue, in_batch)), abs=1e-11
    )


def test_momentum_branch_fills_the_queue_alone(bert):
    """ESimCSE: positives come from the trained branch, keys from the averages, which drop nothing out."""
    objective = make_objective(bert, dropout=0.3, **ESIMCSE | {"augment": None})
    sequences = sequences_of(str(bert), make_sentences(6))
    outputs = [objective(objective.prepare(sequences)) for _ in range(2)]
    copies = objective.momentum.copies
    keys = copies["head"](encode(copies["encoder"], sequences))
    for output in outputs:
        torch.testing.assert_close(output.keys, keys, rtol=0, atol=1e-12)
        assert output.positives.requires_grad
        objective.after_batch(output)
    assert not torch.allclose(outputs[0].positives, outputs[1].positives)  # these do drop out
    objective.after_step(outputs[1])
    torch.testing.assert_close(objective.queue.negatives()[0], normalize(keys).repeat(2, 1).flip(0))
    output = objective(objective.prepare(sequences))
    expected = naive_infonce(output.anchors, output.positives, normalize(keys).repeat(2, 1), True)
    assert float(output.loss.detach()) == pytest.approx(float(expected), abs=1e-11)


@pytest.mark.parametrize("settings", [MOCOSE, ESIMCSE])
def test_no_gradient_reaches_queue_or_averages(bert, settings):
    objective = make_objective(bert, **settings)
    sequences = sequences_of(str(bert), make_sentences(6))
    for _ in range(2):
        output = objective(objective.prepare(sequences))
        output.loss.backward()
        objective.after_batch(output)
        objective.after_step(output)
    assert not output.extra_negatives.requires_grad
    assert not output.keys.requires_grad
    assert all(p.grad is None and not p.requires_grad for p in objective.momentum.parameters())
    assert output.positives.requires_grad is (settings is ESIMCSE)
    assert not objective.queue.rows.requires_grad
    for module in (objective.encoder, objective.head, objective.predictor, objective.projection):
        assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in module.parameters())


def test_without_negatives_the_loss_is_constant(bert):
    """Of a queue that begins empty; the steps after it have negatives."""
    objective = make_objective(bert, **MOCOSE | {"queue_initial": 0})
    sequences = sequences_of(str(bert), make_sentences(4))
    output = objective(objective.prepare(sequences))
    output.loss.backward()
    assert float(output.loss.detach()) == 0
    assert not output.has_negatives
    assert all(float(p.grad.abs().sum()) == 0 for p in objective.encoder.parameters() if p.grad is not None)
    objective.after_batch(output)
    objective.after_step(output)
    assert len(objective(objective.prepare(sequences)).extra_negatives) == 4


def plain_loop(config):
    """MoCoSE's Algorithm 1 with transformers and torch alone: no dropout, heads or random vectors."""
    from transformers import AutoModel, AutoTokenizer

    sentences = Path(config.train_file).read_text().splitlines()
    tokenizer = AutoTokenizer.from_pretrained(config.model)
    model = AutoModel.from_pretrained(config.model, add_pooling_layer=False)
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    model.train()
    target = copy.deepcopy(model)
    optimiser = torch.optim.AdamW(model.parameters(), lr=config.learning_rate, weight_decay=0.0)
    order = np.random.default_rng([config.seed, 1, 0]).permutation(len(sentences))
    losses, queue = [], []
    for step in range(config.max_steps):
        optimiser.param_groups[0]["lr"] = config.learning_rate * (1 - step / config.max_steps)
        batch = [sentences[i] for i in order[step * config.batch_size : (step + 1) * config.batch_size]]
        inputs = tokenizer(batch, padding=True, truncation=True, max_length=16, return_tensors="pt")
        with torch.no_grad():
            keys = normalize(target(**inputs).last_hidden_state[:, 0])
        anchors = normalize(model(**inputs).last_hidden_state[:, 0])
        positive = (anchors * keys).sum(1) / 0.05
        if queue:
            logits = torch.cat([positive[:, None], anchors @ torch.stack(queue).T / 0.05], dim=1)
            loss = (torch.logsumexp(logits, 1) - positive).mean()
        else:
            loss = 0 * positive.sum()
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        eta = 0.95 - 0.2 * (1 + math.cos(math.pi * step / (config.max_steps - 1))) / 2
        with torch.no_grad():
            for mine, theirs in zip(target.parameters(), model.parameters(), strict=True):
                mine.copy_(eta * mine + (1 - eta) * theirs)
        queue = (queue + list(keys))[-config.queue_size :]
        losses.append(float(loss.detach()))
    return model.state_dict(), losses


def test_run_equals_a_plain_loop(bert, tmp_path):
    plain = {"projection_layers": 0, "predictor_layers": 0, "fgsm": 0.0, "pooler": "cls", "queue_initial": 0,
             "momentum_modules": "embeddings,encoder"}  # fmt: skip
    config = small_config(bert, tmp_path, dropout=0.0, learning_rate=1e-4, **MOCOSE | plain)
    train(config)
    expected, losses = plain_loop(config)
    rows = [value for _, _, name, value in read_metrics(tmp_path / "run" / "metrics.csv") if name == "loss"]
    assert rows == pytest.approx(losses, rel=1e-4)
    found, start = final_weights(tmp_path / "run"), Encoder.load(bert).model.state_dict()
    moved = sum(float((expected[name] - start[name]).square().sum()) for name in expected)
    apart = sum(float((expected[name] - found[name]).square().sum()) for name in expected)
    assert moved > 0
    assert math.sqrt(apart / moved) < 0.02  # Adam makes whole steps of the smallest gradients


def test_queue_statistics_and_diagnostics_are_of_what_the_loss_saw(bert, tmp_path):
    seen = []

    class Watch(Callback):
        def on_step(self, trainer, output):
            views = (output.anchors, output.positives, output.extra_negatives)
            views = [rows.detach().double() for rows in views]
            loss = gradlab.get_loss("infonce")
            value = loss(*views, normalize=True, in_batch_negatives=False)
            assert float(value) == pytest.approx(float(output.loss.detach()), rel=1e-5)
            seen.append(diagnose("infonce", *views, normalize=True, in_batch_negatives=False))

    config = small_config(bert, tmp_path, diagnostics_every=1, **MOCOSE)
    train(config, callbacks=[Watch()])
    rows = {(step, name): value for step, _, name, value in read_metrics(tmp_path / "run" / "metrics.csv")}
    for step, expected in enumerate(seen, start=1):
        for name, value in expected.items():
            assert rows[step, name] == pytest.approx(value, nan_ok=True)
    # Batches of 8, a queue of 20 that begins with 5 random vectors.
    assert [rows[step, "queue_negatives"] for step in (1, 2, 3, 4)] == [5, 13, 20, 20]
    assert [rows[step, "uniform_share"] for step in (1, 2, 3, 4)] == [1 / 5, 1 / 13, 1 / 20, 1 / 20]
    assert [rows[step, "queue_random_share"] for step in (1, 2, 3, 4)] == pytest.approx(
        [1, 5 / 13, 4 / 20, 0]
    )
    assert [rows[step, "queue_age_max"] for step in (2, 3, 4, 6)] == [1, 2, 3, 3]
    assert rows[4, "queue_age_mean"] == pytest.approx((8 * 1 + 8 * 2 + 4 * 3) / 20)
    assert rows[1, "momentum_decay"] == 0.75
    assert rows[6, "momentum_decay"] == 0.95
    assert 0 < rows[3, "fgsm_changed"] <= 1


def test_empty_queue_and_held_out_diagnostics(bert, tmp_path):
    settings = MOCOSE | {"queue_initial": 0, "held_out": 0.2, "analysis_batch": 16, "diagnostics_every": 1}
    train(small_config(bert, tmp_path, **settings))
    steps = [row[0] for row in read_metrics(tmp_path / "run" / "metrics.csv") if row[2] == "uniformity"]
    assert steps == [1, 2, 3, 4, 5, 6]  # at step 0 there is nothing to compare with


def test_accumulated_batches_are_all_queued(bert, tmp_path):
    queued = []

    class Watch(Callback):
        def on_step(self, trainer, output):
            queued.append((len(trainer.objective.queue), trainer.objective.queue.ages.tolist()))

    config = small_config(
        bert, tmp_path, accumulation=3, batch_size=4, max_steps=2, **ESIMCSE | {"queue_size": 30}
    )
    train(config, callbacks=[Watch()])
    assert [count for count, _ in queued] == [12, 24]
    assert queued[1][1][:24] == [1] * 12 + [2] * 12


@pytest.mark.parametrize(
    ("settings", "crash"),
    [
        (MOCOSE, 1),
        (MOCOSE | {"keys_gradient": True, "head_rate": 3.0, "head_initial": "identity"}, 5),
        (ESIMCSE | {"accumulation": 2}, 5),
        (
            MOCOSE
            | {
                "fgsm_gradient": "previous",
                "fgsm": 1e-3,
                "queue_ages": "0:4,9:20",
                "augment": "feature_cutoff",
            },
            5,
        ),
        ({"chunk_size": 3, "accumulation": 2}, 5),
        ({"loss": "siglip"}, 4),
        ({"loss": "mask(infonce, by=guide, margin=0.1)", "guide": "the model itself"}, 3),
        ({"open_shares": "a file"}, 3),
    ],
)
def test_resumed_run_ends_with_the_same_bits(bert, tmp_path, settings, crash):
    if "guide" in settings:
        settings = settings | {"guide": str(bert)}
    if "open_shares" in settings:
        shares = "\n".join(f"42,{step},{share}" for step, share in enumerate([1, 0.5, 0.25, 0.75, 0.5, 1], 1))
        (tmp_path / "shares.csv").write_text(f"seed,step,share\n{shares}")
        settings = settings | {"open_shares": str(tmp_path / "shares.csv")}
    train(small_config(bert, tmp_path, "whole", **settings))
    broken = small_config(bert, tmp_path, "broken", **settings)
    run_and_crash(broken, crash)
    train(broken, resume=True)
    assert same_weights(tmp_path / "whole", tmp_path / "broken")
    metrics = [steady(read_metrics(tmp_path / run / "metrics.csv")) for run in ("whole", "broken")]
    assert repr(metrics[0]) == repr(metrics[1])
    states = [load_file(next((tmp_path / run / "checkpoints").glob("*6")) / "model.safetensors")
              for run in ("whole", "broken")]  # fmt: skip
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
    assert ({"queue.rows", "queue.ages"} <= states[0].keys()) == ("queue_size" in settings)
    assert ("momentum._extra_state" in states[0]) == ("momentum" in settings)


def test_two_processes_see_one_queue_and_give_the_gradient_of_one(bert, tmp_path):
    log = tmp_path / "log"
    assert together(work, str(bert), make_sentences(16), str(tmp_path), log=log) == [0, 0], log.read_text()
    sequences = sequences_of(str(bert), make_sentences(16))
    for name in SETTINGS:
        expected = two_steps(str(bert), name, sequences, Processes(0, 1, torch.device("cpu")))
        both = [load_file(tmp_path / f"{name}-{rank}.safetensors") for rank in (0, 1)]
        assert both[0].keys() == both[1].keys() == expected.keys()
        for key in expected:
            assert torch.equal(both[0][key], both[1][key]), f"{name}: processes differ in {key}"
            if expected[key].dtype == torch.float64:
                scale = max(1.0, float(expected[key].abs().max()))
                torch.testing.assert_close(
                    both[0][key], expected[key], rtol=0, atol=1e-11 * scale, msg=f"{name} {key}"
                )
            else:
                assert torch.equal(both[0][key], expected[key]), f"{name}: {key}"


@pytest.mark.parametrize(
    "settings",
    [
        {"augment": "typos", "augment_views": "both"},
        {"augment": "position_shuffle"},
        {"momentum": 0.9, "queue_size": 8, "augment": "feature_cutoff"},
    ],
)
def test_augmentations_train(bert, tmp_path, settings):
    train(small_config(bert, tmp_path, "one", max_steps=2, **settings))
    train(small_config(bert, tmp_path, "two", max_steps=2, **settings))
    train(small_config(bert, tmp_path, "plain", max_steps=2, **settings | {"augment": None}))
    assert same_weights(tmp_path / "one", tmp_path / "two")
    assert not same_weights(tmp_path / "one", tmp_path / "plain")


def test_ids_of_the_second_view_alone_are_augmented(bert):
    objective = make_objective(bert, augment="subword_repetition(rate=1)")
    sequences = [row for row in sequences_of(str(bert), make_sentences(20))]
    first, second = objective.views(sequences)
    assert all(np.array_equal(one, other) for one, other in zip(first, sequences, strict=True))
    assert any(len(one) > len(other) for one, other in zip(second, sequences, strict=True))
    both = make_objective(bert, augment="subword_repetition(rate=1)", augment_views="both")
    assert any(len(one) > len(other) for one, other in zip(both.views(sequences)[0], sequences, strict=True))


@pytest.mark.parametrize("views", ["second", "both"])
def test_embeddings_of_the_second_view_alone_are_augmented(bert, views):
    """With every token cut off, the rows of the augmented views are those of empty sentences of the same length."""
    objective = make_objective(bert, augment="token_cutoff(rate=1)", augment_views=views)
    sequences = sequences_of(str(bert), make_sentences(5))
    output = objective(objective.prepare(sequences))
    table = objective.encoder.model.get_input_embeddings().weight
    plain, cut = [], []
    for row in sequences:
        rows = table[torch.from_numpy(row)]
        plain.append(
            objective.head(objective.encoder(None, torch.ones(1, len(row)), inputs_embeds=rows[None]))
        )
        rows = torch.cat([rows[:1], 0 * rows[1:-1], rows[-1:]])
        cut.append(objective.head(objective.encoder(None, torch.ones(1, len(row)), inputs_embeds=rows[None])))
    expected = torch.cat(cut if views == "both" else plain)
    torch.testing.assert_close(output.anchors, expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(output.positives, torch.cat(cut), rtol=0, atol=1e-12)


def test_second_views_from_a_column(bert, tmp_path):
    first, second = make_sentences(40, seed=1), make_sentences(40, seed=2)
    (tmp_path / "pairs.csv").write_text(
        "a,b\n" + "\n".join(f"{x},{y}" for x, y in zip(first, second, strict=True))
    )
    settings = {"train_file": str(tmp_path / "pairs.csv"), "column": "a", "max_steps": 3, "dropout": 0.0}
    seen = []

    class Watch(Objective):
        def views(self, sequences, others=None):
            seen.extend(zip(sequences, others, strict=True))
            return super().views(sequences, others)

    train(small_config(bert, tmp_path, "pairs", second_column="b", **settings), objective=Watch)
    tokenizer = Encoder.load(bert).tokenizer
    pairs = {tuple(tokenizer(one, truncation=True, max_length=16)["input_ids"]):
             tuple(tokenizer(other, truncation=True, max_length=16)["input_ids"])
             for one, other in zip(first, second, strict=True)}  # fmt: skip
    assert len(seen) == 24
    assert all(pairs[tuple(one.tolist())] == tuple(other.tolist()) for one, other in seen)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"queue_size": 8, "queue_ages": "0:9"}, "the slice 0:9 selects nothing from a queue of 8"),
        ({"momentum": 0.9, "momentum_modules": "encoder,pooler"}, "not 'pooler'"),
    ],
)
def test_bad_settings_are_told_in_one_line(bert, tmp_path, changes, message):
    with pytest.raises(GradlabError, match=message) as caught:
        train(small_config(bert, tmp_path, **changes))
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run" / "manifest.json").exists()
