"""Hyper-parameters that are learned: their gradients by finite differences, in both trainers, and driven out of range."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch

import gradlab
from gradlab.gradient.verification import BATCHES
from gradlab.monitor.metrics import read_metrics
from gradlab.train import train
from gradlab.train.callbacks import Callback
from gradlab.train.run_folder import RunFolder
from tests.tiny_models import make_bert
from tests.train_helpers import same_weights, small_config


def views() -> list[torch.Tensor]:
    return [torch.from_numpy(x) for x in BATCHES["paired"](np.random.default_rng(0), 9, 6)]


@pytest.mark.parametrize("spec", ["siglip(bias=-3)", "symmetric(siglip(temperature=0.3, bias=-1))"])
def test_gradients_are_those_of_the_value(spec: str) -> None:
    criterion = gradlab.learnable(spec)
    rows = [part.requires_grad_() for part in views()]
    criterion.double()
    criterion(*rows).backward()
    step = 1e-6
    for parameter in criterion.parameters():
        ends = []
        for sign in (1, -1):
            with torch.no_grad():
                parameter += sign * step
                ends.append(float(criterion.current(*rows)))
                parameter -= sign * step
        assert float(parameter.grad) == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-6)
    (expected,) = torch.autograd.grad(gradlab.get_loss(spec)(*rows), rows[0])
    torch.testing.assert_close(rows[0].grad, expected, rtol=1e-6, atol=1e-9)


def test_a_share_of_the_gradient_leaves_the_value() -> None:
    whole, half = gradlab.learnable("siglip"), gradlab.learnable("siglip", share=0.5)
    values = [one(*views()) for one in (whole, half)]
    torch.testing.assert_close(*values)
    for value in values:
        value.backward()
    for one, other in zip(whole.parameters(), half.parameters(), strict=True):
        torch.testing.assert_close(one.grad / 2, other.grad)


@pytest.mark.parametrize("number", [200.0, -200.0, math.nan])
def test_a_temperature_out_of_range_is_one_line(number: float) -> None:
    criterion = gradlab.learnable("siglip")
    with torch.no_grad():
        criterion.values["log_temperature"].fill_(number)
    with pytest.raises(gradlab.GradlabError, match="drove the learnable temperature of siglip to"):
        criterion(*views())


def test_what_learns_nothing_is_told() -> None:
    with pytest.raises(gradlab.GradlabError, match="infonce learns no hyper-parameter"):
        gradlab.learnable("infonce")
    with pytest.raises(gradlab.GradlabError, match="learns no hyper-parameter"):
        gradlab.learnable("siglip(preset=fixed)")


def test_training_learns_them_and_resumes_bit_by_bit(tmp_path) -> None:
    start = make_bert(tmp_path / "bert")
    whole, broken = (small_config(start, tmp_path, name, loss="siglip") for name in ("whole", "broken"))
    train(whole)
    with pytest.raises(RuntimeError, match="on purpose"):
        train(broken, callbacks=[CrashAfter(4)])
    train(broken, resume=True)
    assert same_weights(whole.output, broken.output)
    recorded = read_metrics(RunFolder(Path(whole.output)).metrics_file)
    learned = [value for _, _, name, value in recorded if name == "learned_temperature"]
    assert len(set(learned)) == 6
    assert all(0.05 < value < 0.2 for value in learned)


class CrashAfter(Callback):
    def __init__(self, step: int) -> None:
        self._step = step

    def on_step(self, trainer, output) -> None:
        if trainer.step == self._step:
            raise RuntimeError("on purpose")


def test_sentence_transformers_trainer_learns_them(tmp_path) -> None:
    adapter = pytest.importorskip("gradlab.integrations.sentence_transformers")
    from tests.sentence_training import columns_of, make_trainer

    start = make_bert(tmp_path / "bert")
    trainer = make_trainer(
        start, tmp_path / "run", lambda model: adapter.loss(model, "siglip"), columns_of(32), max_steps=4
    )
    criterion = trainer.loss.criterion
    before = criterion.statistics()
    trainer.train()
    after = criterion.statistics()
    assert all(after[name] != before[name] for name in ("temperature", "bias"))
    assert trainer.loss.get_config_dict()["temperature"] == 0.1
    with pytest.raises(gradlab.GradlabError, match="blockwise does not differentiate by what siglip learns"):
        adapter.loss(trainer.model, "siglip", blockwise=True)
    assert adapter.loss(trainer.model, "siglip", blockwise=True, learnable=False)
