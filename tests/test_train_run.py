"""Whole training runs on a tiny encoder: what they write, that they repeat, and what they refuse."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch

import gradlab
from gradlab import GradlabError
from gradlab.encoder.model import Encoder
from gradlab.errors import Diverged
from gradlab.monitor.metrics import read_metrics
from gradlab.train import Callback, train
from gradlab.train.checkpoint import newest_checkpoint
from gradlab.train.loop import finished
from tests.tiny_models import make_bert, make_roberta
from tests.train_helpers import final_weights, same_weights, small_config, write_stsb


def test_settings_may_be_given_to_the_function_itself(bert, tmp_path):
    config = small_config(bert, tmp_path, "one", max_steps=2)
    train(config)
    gradlab.train(**config.to_dict() | {"output": str(tmp_path / "two")})
    gradlab.train(config, output=str(tmp_path / "three"))
    assert same_weights(tmp_path / "one", tmp_path / "two")
    assert same_weights(tmp_path / "one", tmp_path / "three")


def test_run_folder_holds_everything(bert, tmp_path):
    config = small_config(bert, tmp_path, sts=str(write_stsb(tmp_path)), eval_every=2, held_out=0.1,
                          pooler="mean", analysis_batch=10, analysis_batches=2)  # fmt: skip
    result = train(config)
    assert sorted(result.scores) == [0, 2, 4, 6]
    trained = {step: score for step, score in result.scores.items() if step}
    assert result.best_score == max(trained.values())
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert manifest["status"] == "finished"
    assert manifest["config"] == config.to_dict()
    assert manifest["data"]["sentences"] == 200
    assert manifest["data"]["held_out"] == 20
    assert {"torch", "transformers", "gradlab", "python"} <= set(manifest["versions"])
    assert manifest["results"]["best_step"] == result.best_step
    assert [place.name for place in sorted((tmp_path / "run" / "checkpoints").iterdir())] == [
        "step-00000004",
        "step-00000006",
    ]
    assert Encoder.load(tmp_path / "run" / "encoder").pooler == "mean"
    best = Encoder.load(tmp_path / "run" / "best")
    assert gradlab.evaluate.sts.stsb_dev(best.encode, config.sts) == pytest.approx(
        result.best_score, abs=1e-12
    )
    rows = read_metrics(tmp_path / "run" / "metrics.csv")
    assert {group for _, group, _, _ in rows} == {"train", "diagnostics", "evaluation", "histogram"}
    assert [step for step, _, name, _ in rows if name == "stsb_dev"] == [0, 2, 4, 6]
    assert [step for step, _, name, _ in rows if name == "loss"] == [1, 2, 3, 4, 5, 6]
    assert [step for step, _, name, _ in rows if name == "uniformity"] == [0, 3, 6]
    with (tmp_path / "run" / "metrics.csv").open() as file:
        assert next(csv.reader(file)) == ["step", "group", "name", "value"]


def test_same_seed_gives_the_same_weights_and_another_does_not(bert, tmp_path):
    for output, seed in (("one", 1), ("two", 1), ("three", 2)):
        torch.rand(3)  # whatever was drawn before
        train(small_config(bert, tmp_path, output, seed=seed, pooler="cls_mlp"))
    assert same_weights(tmp_path / "one", tmp_path / "two")
    assert not same_weights(tmp_path / "one", tmp_path / "three")


def test_watching_does_not_change_training(bert, tmp_path):
    common = {"held_out": 0.1, "analysis_batch": 10, "sts": str(write_stsb(tmp_path))}
    often = {"diagnostics_every": 1, "eval_every": 1}
    rarely = {"diagnostics_every": 0, "save_every": 5, "keep": 1, "log_every": 4}
    train(small_config(bert, tmp_path, "one", **common | often))
    train(small_config(bert, tmp_path, "two", **common | rarely))
    assert same_weights(tmp_path / "one", tmp_path / "two")


def plain_loop(config):
    """The same training written out with transformers and torch alone, dropout off."""
    from transformers import AutoModel, AutoTokenizer

    sentences = Path(config.train_file).read_text().splitlines()
    tokenizer = AutoTokenizer.from_pretrained(config.model)
    model = AutoModel.from_pretrained(config.model, add_pooling_layer=False)
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    model.train()
    optimiser = torch.optim.AdamW(model.parameters(), lr=config.learning_rate, weight_decay=0.0)
    order = np.random.default_rng([config.seed, 1, 0]).permutation(len(sentences))
    losses = []
    for step in range(config.max_steps):
        optimiser.param_groups[0]["lr"] = config.learning_rate * (1 - step / config.max_steps)
        optimiser.zero_grad()
        for part in range(config.accumulation):
            start = (step * config.accumulation + part) * config.batch_size
            batch = [sentences[i] for i in order[start : start + config.batch_size]]
            inputs = tokenizer(batch, padding=True, truncation=True, max_length=16, return_tensors="pt")
            views = [torch.nn.functional.normalize(model(**inputs).last_hidden_state[:, 0]) for _ in range(2)]
            logits = views[0] @ views[1].T / 0.05
            loss = torch.nn.functional.cross_entropy(logits, torch.arange(len(batch))) / config.accumulation
            loss.backward()
            losses.append(float(loss.detach()) * config.accumulation)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
    return model.state_dict(), losses


@pytest.mark.parametrize(("make", "accumulation"), [(make_bert, 1), (make_roberta, 2)])
def test_weights_equal_those_of_a_plain_loop(make, tmp_path, accumulation):
    model = make(tmp_path / "model")
    config = small_config(model, tmp_path, dropout=0.0, accumulation=accumulation, learning_rate=1e-4)
    train(config)
    expected, losses = plain_loop(config)
    found = final_weights(tmp_path / "run")
    assert found.keys() == expected.keys()
    start = Encoder.load(model).model.state_dict()
    moved = sum(float((expected[name] - start[name]).square().sum()) for name in expected)
    apart = sum(float((expected[name] - found[name]).square().sum()) for name in expected)
    # Adam makes whole steps of the smallest gradients, whose sign is rounding: a few entries differ.
    assert math.sqrt(apart / moved) < 0.02
    rows = [value for _, _, name, value in read_metrics(tmp_path / "run" / "metrics.csv") if name == "loss"]
    assert rows == pytest.approx(np.reshape(losses, (-1, accumulation)).mean(axis=1), rel=1e-4)


def make_other(kind: str, bert: Path, folder: Path) -> Path:
    """A tiny model of another architecture with the tokenizer of ``bert``."""
    from transformers import AutoConfig, AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(bert)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    special = {
        "distilbert": {"dim": 32, "hidden_dim": 64, "n_layers": 2, "n_heads": 4},
        "gpt2": {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64},
        "albert": sizes | {"embedding_size": 16},
        "modernbert": sizes | {"global_attn_every_n_layers": 1},
    }
    config = AutoConfig.for_model(
        kind,
        vocab_size=len(tokenizer),
        pad_token_id=0,
        max_position_embeddings=66,
        **special.get(kind, sizes),
    )
    AutoModel.from_config(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.mark.parametrize(
    "kind", ["distilbert", "electra", "albert", "mpnet", "deberta-v2", "modernbert", "gpt2"]
)
def test_other_architectures_train_and_are_saved(kind, bert, tmp_path):
    """Those without BERT's pooling layer, with other dropouts, relative positions or a causal mask."""
    folder = make_other(kind, bert, tmp_path / "model")
    train(small_config(folder, tmp_path, pooler="mean", max_steps=2, max_length=12))
    before = Encoder.load(folder, "mean").encode(["ba be", "zuna"])
    after = Encoder.load(tmp_path / "run" / "encoder").encode(["ba be", "zuna"])
    assert np.isfinite(after).all()
    assert not np.allclose(before, after)


# One for each way in which a loss is evaluated; what depends on the formula alone is tested without training.
@pytest.mark.parametrize(
    "loss", ["met", "baseline", "recombined", "siglip", "vicreg", "dhel", "modified_mhs"]
)
def test_losses_of_all_kinds_train(bert, tmp_path, loss):
    train(small_config(bert, tmp_path, loss=loss, max_steps=2, diagnostics_every=2))
    start = Encoder.load(bert).model.state_dict()
    after = final_weights(tmp_path / "run")
    assert all(torch.isfinite(value).all() for value in after.values())
    assert any(not torch.equal(after[name], start[name]) for name in after)


def test_tensorboard_gets_the_numbers_too(bert, tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    train(small_config(bert, tmp_path, trackers=("tensorboard",)))
    events = EventAccumulator(str(tmp_path / "run" / "gradlab"))
    events.Reload()
    rows = read_metrics(tmp_path / "run" / "metrics.csv")
    expected = [value for _, _, name, value in rows if name == "loss"]
    assert [event.value for event in events.Scalars("train/loss")] == pytest.approx(expected)
    assert "diagnostics/uniformity" in events.Tags()["scalars"]


def test_epochs_count_batches(bert, tmp_path):
    result = train(small_config(bert, tmp_path, max_steps=None, epochs=2, batch_size=50, accumulation=3))
    assert result.steps == 2  # 2 epochs of 4 batches, 3 batches a step, the incomplete last step left out


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batch_size": 201}, "200 training sentences do not fill a batch of 201"),
        ({"batch_size": 100, "accumulation": 3, "max_steps": None}, "do not fill one step"),
        ({"max_length": 65}, "max_length 65 exceeds the model's 64"),
        ({"sts": "nowhere"}, "nowhere"),
        ({"train_file": "nowhere.txt"}, "'nowhere.txt' does not exist"),
        ({"trackers": ("wandb",)}, "wandb"),
        ({"held_out": 0.005}, "to measure takes two"),
    ],
)
def test_bad_input_is_told_in_one_line(bert, tmp_path, changes, message):
    with pytest.raises(GradlabError, match=message) as caught:
        train(small_config(bert, tmp_path, **changes))
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run" / "manifest.json").exists()  # the same --output can be used again


def test_a_run_is_never_overwritten(bert, tmp_path):
    config = small_config(bert, tmp_path, max_steps=2)
    train(config)
    with pytest.raises(GradlabError, match="holds a run; continue it with --resume"):
        train(config)
    (tmp_path / "file").write_text("")
    with pytest.raises(GradlabError, match="is a file"):
        train(small_config(bert, tmp_path, "file"))


def test_a_callback_adds_numbers_to_what_is_measured(bert, tmp_path):
    class Wide(Callback):
        def statistics(self, anchors, positives, gradient):
            assert len(gradient.ratio) == len(anchors) == len(positives)
            return {"largest_entry": float(anchors.abs().max())}

    train(small_config(bert, tmp_path, diagnostics_every=2, max_steps=4), callbacks=[Wide()])
    rows = [row for row in read_metrics(tmp_path / "run" / "metrics.csv") if row[2] == "largest_entry"]
    assert [row[:2] for row in rows] == [(2, "diagnostics"), (4, "diagnostics")]
    assert all(0 < row[3] <= 1 for row in rows)


@pytest.mark.parametrize("chunk_size", [None, 3])
def test_embeddings_that_are_not_finite_are_a_divergence(bert, tmp_path, chunk_size):
    settings = {"learning_rate": 1e30, "clip": 0.0, "max_steps": 20, "chunk_size": chunk_size}
    with pytest.raises(Diverged, match="embeddings are not finite; lower the learning rate"):
        train(small_config(bert, tmp_path, **settings))


@pytest.mark.parametrize("what", ["diagnostics_every", "eval_every"])
def test_weights_that_are_not_finite_are_neither_measured_nor_evaluated(bert, tmp_path, what):
    class Spoil(Callback):
        def on_step(self, trainer, output):
            if trainer.step == 1:
                with torch.no_grad():
                    next(trainer.objective.parameters())[-1] = math.nan  # of a token that no sentence has

    schedule = {"diagnostics_every": 0, "eval_every": 100, "log_every": 100} | {what: 2}
    config = small_config(bert, tmp_path, sts=str(write_stsb(tmp_path)), held_out=0.1, **schedule)
    with pytest.raises(Diverged, match="weights are not finite after step 2"):
        train(config, callbacks=[Spoil()])
    measured = read_metrics(tmp_path / "run" / "metrics.csv")
    assert not [row for row in measured if row[0] == 2 and row[1] != "train"]


class Stop(Callback):
    """Breaks a run off after some step."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_step(self, trainer, output) -> None:
        if trainer.step == self.step:
            raise RuntimeError("broken off")


def test_a_checkpoint_is_written_with_the_best_encoder(bert, tmp_path, monkeypatch):
    scores = iter([0.1, 0.3, 0.2, 0.5, 0.4, 0.6])
    monkeypatch.setattr("gradlab.evaluate.selection.stsb_dev", lambda *_: next(scores))
    config = small_config(bert, tmp_path, sts=str(write_stsb(tmp_path)), eval_every=1, save_every=100)
    with pytest.raises(RuntimeError, match="broken off"):
        train(config, callbacks=[Stop(5)])
    newest = newest_checkpoint(tmp_path / "run" / "checkpoints", print)
    assert newest.step == 3  # of the best score so far, .5
    assert dict(newest.state["scores"]) == {0: 0.1, 1: 0.3, 2: 0.2, 3: 0.5}


def test_constant_embeddings_do_not_stop_a_run(bert, tmp_path, monkeypatch):
    monkeypatch.setattr("gradlab.evaluate.selection.stsb_dev", lambda *_: math.nan)
    config = small_config(bert, tmp_path, sts=str(write_stsb(tmp_path)), eval_every=3)
    result = train(config)
    assert result.best_step is None
    assert json.loads((tmp_path / "run" / "manifest.json").read_text())["results"]["stsb_dev"] == {
        "0": None, "3": None, "6": None,
    }  # fmt: skip
    assert all(math.isnan(score) for score in finished(config).scores.values())
