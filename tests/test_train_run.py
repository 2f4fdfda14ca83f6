"""Whole training runs on a tiny encoder: what they write, that they repeat, what they refuse."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

import gradlab
from gradlab import GradlabError
from gradlab.encoder.model import Encoder
from gradlab.errors import Diverged
from gradlab.monitor.metrics import read_metrics
from gradlab.train import Callback, TrainConfig, train
from gradlab.train.run_folder import finished
from tests.tiny_models import SIZES, make_bert, make_roberta
from tests.train_helpers import (
    assert_is_plain_loop,
    recorded,
    same_weights,
    small_config,
    write_stsb,
)


def test_settings_may_be_given_to_the_function_itself_and_no_run_is_overwritten(bert, tmp_path):
    config = small_config(bert, tmp_path, max_steps=2)
    gradlab.train(**config.to_dict() | {"output": str(tmp_path / "one")})
    gradlab.train(config, output=str(tmp_path / "two"))
    assert same_weights(tmp_path / "one", tmp_path / "two")
    with pytest.raises(GradlabError, match="holds a run; give --resume"):
        gradlab.train(config, output=str(tmp_path / "one"))
    with pytest.raises(GradlabError, match="is a file"):
        gradlab.train(config, output=config.train_file)


def test_a_run_does_not_overwrite_the_encoder_that_it_starts_from(bert, tmp_path):
    start = shutil.copytree(bert, tmp_path / "run" / "encoder")
    with pytest.raises(GradlabError, match="holds encoder, which a run would overwrite"):
        train(small_config(start, tmp_path))


class Wide(Callback):
    """Adds a number to what is measured."""

    def statistics(self, anchors, positives, gradient):
        assert len(gradient.ratio) == len(anchors) == len(positives)
        return {"largest_entry": float(anchors.abs().max())}


def test_run_folder_holds_everything(bert, tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    config = small_config(
        bert, tmp_path, eval_data=str(write_stsb(tmp_path)), eval_every=2, held_out=0.1,
        pooler="mean", analysis_batch=10, analysis_batches=2, trackers=("tensorboard",),
    )  # fmt: skip
    result = train(config, callbacks=[Wide()])
    assert sorted(result.scores) == [0, 2, 4, 6]
    trained = {step: score for step, score in result.scores.items() if step}
    assert result.best_score == max(trained.values())
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert manifest["status"] == "finished"
    assert TrainConfig.from_dict(manifest["config"]) == config
    assert (manifest["data"]["sentences"], manifest["data"]["held_out"]) == (200, 20)
    assert {"torch", "transformers", "gradlab", "python"} <= set(manifest["versions"])
    assert manifest["results"]["best_step"] == result.best_step
    checkpoints = sorted(place.name for place in (tmp_path / "run" / "checkpoints").iterdir())
    assert checkpoints == ["step-00000004", "step-00000006"]
    assert Encoder.load(tmp_path / "run" / "encoder").pooler == "mean"
    best = Encoder.load(tmp_path / "run" / "best")
    score = gradlab.evaluate.sts.stsb_dev(best.encode, config.eval_data)
    assert score == pytest.approx(result.best_score, abs=1e-12)
    assert recorded(config.output, "stsb_dev") == result.scores
    losses = recorded(config.output, "loss")
    assert list(losses) == [1, 2, 3, 4, 5, 6]
    for name in ("uniformity", "largest_entry"):
        assert list(recorded(config.output, name)) == [0, 3, 6]
    events = EventAccumulator(str(tmp_path / "run" / "gradlab"))
    events.Reload()
    assert [event.value for event in events.Scalars("train/loss")] == pytest.approx(
        list(losses.values())
    )
    assert "diagnostics/uniformity" in events.Tags()["scalars"]


def test_the_seed_decides_and_watching_changes_nothing(bert, tmp_path):
    common = {
        "held_out": 0.1,
        "analysis_batch": 10,
        "eval_data": str(write_stsb(tmp_path)),
        "pooler": "cls_mlp",
    }
    often = {"diagnostics_every": 1, "eval_every": 1}
    rarely = {"diagnostics_every": 0, "save_every": 5, "keep": 1, "log_every": 4}
    for output, settings in (("one", often), ("two", rarely), ("three", rarely | {"seed": 2})):
        torch.rand(3)  # whatever was drawn before
        train(small_config(bert, tmp_path, output, **common | settings))
    assert same_weights(tmp_path / "one", tmp_path / "two")
    assert not same_weights(tmp_path / "one", tmp_path / "three")


@pytest.mark.parametrize(("make", "accumulation"), [(make_bert, 1), (make_roberta, 2)])
def test_weights_equal_those_of_a_plain_loop(make, tmp_path, accumulation):
    model = make(tmp_path / "model")
    config = small_config(
        model, tmp_path, dropout=0.0, accumulation=accumulation, learning_rate=1e-4
    )
    train(config)

    def prepare(model):
        def loss(inputs):
            views = [
                torch.nn.functional.normalize(model(**inputs).last_hidden_state[:, 0])
                for _ in range(2)
            ]
            return torch.nn.functional.cross_entropy(
                views[0] @ views[1].T / 0.05, torch.arange(len(views[0]))
            )

        return loss, lambda step: None

    assert_is_plain_loop(config, prepare)


def make_other(kind: str, bert: Path, folder: Path) -> Path:
    """A tiny model of another architecture with the tokenizer of ``bert``."""
    from transformers import AutoConfig, AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(bert)
    special = {
        "distilbert": {"dim": 32, "hidden_dim": 64, "n_layers": 2, "n_heads": 4},
        "gpt2": {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64},
        "albert": SIZES | {"embedding_size": 16},
        "modernbert": SIZES | {"global_attn_every_n_layers": 1},
    }
    common = {"vocab_size": len(tokenizer), "pad_token_id": 0, "max_position_embeddings": 66}
    config = AutoConfig.for_model(kind, **common, **special.get(kind, SIZES))
    AutoModel.from_config(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.mark.parametrize(
    "kind", ["distilbert", "albert", "mpnet", "deberta-v2", "modernbert", "gpt2"]
)
def test_other_architectures_train_and_are_saved(kind, bert, tmp_path):
    """Those without BERT's pooling layer, with other dropouts, relative positions, causal masks."""
    folder = make_other(kind, bert, tmp_path / "model")
    train(small_config(folder, tmp_path, pooler="mean", max_steps=2, max_length=12))
    before = Encoder.load(folder, "mean").encode(["ba be", "zuna"])
    after = Encoder.load(tmp_path / "run" / "encoder").encode(["ba be", "zuna"])
    assert np.isfinite(after).all()
    assert not np.allclose(before, after)


def test_epochs_count_batches(bert, tmp_path):
    result = train(
        small_config(bert, tmp_path, max_steps=None, epochs=2, batch_size=50, accumulation=3)
    )
    # 2 epochs of 4 batches, 3 batches a step, the incomplete last step left out.
    assert result.steps == 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batch_size": 201}, "200 training sentences do not fill a batch of 201"),
        ({"max_length": 65}, "max_length is 65, and the model has places for 64 tokens"),
        ({"held_out": 0.005}, "to measure takes two"),
        ({"momentum": 0.9, "momentum_modules": "encoder,pooler"}, "not 'pooler'"),
    ],
)
def test_bad_input_is_told_in_one_line(bert, tmp_path, changes, message):
    with pytest.raises(GradlabError, match=message):
        train(small_config(bert, tmp_path, **changes))
    assert not (tmp_path / "run" / "manifest.json").exists()  # the same --output can be used again


def test_a_run_that_has_saved_nothing_may_be_begun_anew(bert, tmp_path):
    with pytest.raises(GradlabError, match="needs mask="):
        train(small_config(bert, tmp_path, loss="mask(infonce, by=given)"))
    assert (tmp_path / "run" / "manifest.json").exists()
    train(small_config(bert, tmp_path, max_steps=2))
    assert list(recorded(tmp_path / "run", "loss")) == [1, 2]
    shutil.rmtree(tmp_path / "run" / "encoder")
    shutil.rmtree(tmp_path / "run" / "checkpoints")
    with pytest.raises(GradlabError, match="holds a run"):
        train(small_config(bert, tmp_path))


@pytest.mark.parametrize("chunk_size", [None, 3])
def test_embeddings_that_are_not_finite_are_a_divergence(bert, tmp_path, chunk_size):
    settings = {"learning_rate": 1e30, "clip": 0.0, "max_steps": 20, "chunk_size": chunk_size}
    with pytest.raises(Diverged, match="embeddings are not finite; lower the learning rate"):
        train(small_config(bert, tmp_path, **settings))


@pytest.mark.parametrize("interval", ["diagnostics_every", "eval_every"])
def test_weights_that_are_not_finite_are_neither_measured_nor_evaluated(bert, tmp_path, interval):
    class Spoil(Callback):
        def on_step(self, trainer, output):
            if trainer.step == 1:
                with torch.no_grad():
                    # The row of a token that no sentence has.
                    next(trainer.objective.parameters())[-1] = math.nan

    schedule = {"diagnostics_every": 0, "eval_every": 100, "log_every": 100} | {interval: 2}
    config = small_config(
        bert, tmp_path, eval_data=str(write_stsb(tmp_path)), held_out=0.1, **schedule
    )
    with pytest.raises(Diverged, match="weights are not finite after step 2"):
        train(config, callbacks=[Spoil()])
    measured = read_metrics(tmp_path / "run" / "metrics.csv")
    assert not [row for row in measured if row[0] == 2 and row[1] != "train"]


def test_weights_that_are_not_finite_at_the_end_are_not_saved(bert, tmp_path):
    """Nothing is measured or evaluated, and the loss before the last update is finite."""
    config = small_config(bert, tmp_path, max_steps=1, learning_rate=1e39, diagnostics_every=0)
    with pytest.raises(Diverged, match="weights are not finite after step 1"):
        train(config)
    assert not (tmp_path / "run" / "encoder").exists()


def test_constant_embeddings_do_not_stop_a_run(bert, tmp_path, monkeypatch):
    monkeypatch.setattr("gradlab.evaluate.selection.stsb_dev", lambda *_: math.nan)
    config = small_config(bert, tmp_path, eval_data=str(write_stsb(tmp_path)), eval_every=3)
    result = train(config)
    assert result.best_step is None
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert manifest["results"]["stsb_dev"] == {"0": None, "3": None, "6": None}
    assert all(math.isnan(score) for score in finished(config).scores.values())
