"""Learned hyper-parameters: gradients by finite differences, both trainers, driven out of range."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import ClassVar

import pytest
import torch

import gradlab
from gradlab.errors import Diverged
from gradlab.losses.infonce import InfoNCE
from gradlab.settings import setting
from gradlab.train import train
from tests.losses.naive_losses import batch
from tests.train_helpers import OutputRecorder, recorded, small_config

views = functools.partial(batch, "paired", 9, 6)

NESTED = {  # a loss -> how many numbers it trains
    "symmetric(siglip(bias=-2), reverse=siglip(bias=3))": 4,
    "symmetric(infonce(temperature=0.3), reverse=siglip(bias=-1))": 3,
    "sum(dcl(temperature=0.3), symmetric(hcl), tvmf(temperature=0.3), weights=1+2+3)": 3,
    "sum(dhel(terms=both), cosent(temperature=0.4))": 2,
    "symmetric(siglip(learnable=false), reverse=siglip(bias=-1))": 2,
    "mask(symmetric(siglip(bias=-1), reverse=siglip(bias=0.5)), above=0.7)": 4,
    "per_prefix(symmetric(met, reverse=pool(siglip(bias=-1))), dims=3+6)": 2,
}


@pytest.mark.parametrize(("spec", "count"), NESTED.items())
def test_gradients_are_those_of_the_value(spec: str, count: int) -> None:
    criterion = gradlab.learnable(spec)
    rows = [tensor.requires_grad_() for tensor in views()]
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
        assert abs(parameter.grad) > 1e-3
        assert float(parameter.grad) == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-6)
    assert len(list(criterion.parameters())) == len(criterion.statistics()) == count
    (expected,) = torch.autograd.grad(gradlab.get_loss(spec)(*rows), rows[0])
    # The parameters start from float32 roundings of the settings.
    torch.testing.assert_close(rows[0].grad, expected, rtol=1e-5, atol=1e-6)


def test_a_part_of_a_recombined_loss_is_not_learned() -> None:
    with pytest.raises(
        gradlab.GradlabError, match="cannot train the temperature and bias of siglip"
    ):
        gradlab.learnable("symmetric(siglip, reverse=recombined(gate=siglip))")


@dataclasses.dataclass(frozen=True)
class Bounded(InfoNCE):
    """Learns its temperature, in a range."""

    temperature: float = setting(0.1, "temperature", at_least=0.05, at_most=0.2)
    steps: int = setting(3, "a whole number")
    names: ClassVar[tuple[str, ...]] = ("temperature",)

    @property
    def learned(self) -> tuple[str, ...]:
        return self.names


@pytest.mark.parametrize(
    ("loss", "name", "number", "words"),
    [
        (Bounded(), "temperature", 0.3, r"to 0\.3; lower the learning rate, or fix it"),
        ("siglip", "log_temperature", 200.0, "drove the learnable temperature of siglip to"),
        ("siglip", "log_temperature", math.nan, "drove the learnable temperature of siglip to"),
    ],
)
def test_a_number_that_leaves_its_range_is_refused(
    loss, name: str, number: float, words: str
) -> None:
    criterion = gradlab.learnable(loss)
    assert criterion.statistics()["temperature"] == pytest.approx(0.1)
    with torch.no_grad():
        criterion.values[name].fill_(number)
    with pytest.raises(Diverged, match=words):
        criterion(*views())


def test_a_share_of_the_gradient_leaves_the_value() -> None:
    whole, half = gradlab.learnable("siglip"), gradlab.learnable("siglip", share=0.5)
    values = [criterion(*views()) for criterion in (whole, half)]
    torch.testing.assert_close(*values)
    for value in values:
        value.backward()
    for parameter, half_parameter in zip(whole.parameters(), half.parameters(), strict=True):
        torch.testing.assert_close(parameter.grad / 2, half_parameter.grad)


def test_a_class_is_the_loss_and_its_module_learns_what_it_is_told_to() -> None:
    from gradlab.losses import MET, InfoNCE, Symmetric

    loss = Symmetric(InfoNCE(temperature=0.1))
    assert loss == gradlab.get_loss("symmetric(infonce(temperature=0.1))")
    assert gradlab.losses.InfoNCE is InfoNCE
    assert [list(loss.module(learnable=learnable).parameters()) for learnable in (None, False)] == [
        [],
        [],
    ]
    assert loss.module(learnable=True).statistics() == pytest.approx({"temperature": 0.1})
    torch.testing.assert_close(loss.module(learnable=True)(*views()), loss(*views()))
    with pytest.raises(gradlab.GradlabError, match="learns no hyper-parameter"):
        MET().module(learnable=True)
    with pytest.raises(AttributeError, match="InfoNEC"):
        _ = gradlab.losses.InfoNEC


@pytest.mark.parametrize(("start", "clamp"), [(0.05, 0.02), (0.07, 0.01), (0.1, 0.02)])
def test_a_loss_at_its_clamp_can_be_written_and_read_again(start: float, clamp: float) -> None:
    loss = f"infonce(temperature={start}, learnable=true, clamp={clamp})"
    criterion = gradlab.get_loss(loss).module()
    with torch.no_grad():
        criterion.values["log_temperature"].fill_(-10.0)
    criterion(*torch.nn.functional.normalize(torch.randn(2, 6, 8), dim=-1))
    assert criterion.current.temperature == clamp
    assert gradlab.get_loss(str(criterion.current)) == criterion.current


def test_a_clamped_temperature_waits_at_the_clamp() -> None:
    """As open_clip's, whose scale does not pass 100; it is free to come back."""
    criterion = gradlab.learnable("infonce(temperature=0.02, clamp=0.01)")
    (trained,) = criterion.parameters()
    with torch.no_grad():
        trained.fill_(-9.0)
    criterion(*views()).backward()
    assert float(trained.grad) != 0
    assert criterion.statistics()["temperature"] == pytest.approx(0.01, rel=1e-6)
    with torch.no_grad():
        trained += 0.5
    assert criterion.statistics()["temperature"] == pytest.approx(0.01 * math.exp(0.5), rel=1e-6)
    with pytest.raises(gradlab.GradlabError, match="is the smallest temperature of infonce"):
        gradlab.get_loss("infonce(clamp=0.1)")


@pytest.mark.parametrize(
    "spec",
    [
        "dhel(learnable=true, terms=both)",
        "cosent(learnable=true)",
        "symmetric(sum(infonce(learnable=true), hcl(learnable=true)))",
    ],
)
def test_blocks_learn_them_too(spec: str) -> None:
    gradients = []
    for criterion in (gradlab.get_loss(spec).module(), gradlab.blockwise(spec, 4)):
        rows = [tensor.requires_grad_() for tensor in views()]
        gradients.append(torch.autograd.grad(criterion(*rows), [*criterion.parameters(), *rows]))
    torch.testing.assert_close(*gradients, rtol=1e-12, atol=1e-14)


def test_a_run_is_measured_at_what_it_has_learned_by_then(bert, tmp_path) -> None:
    """Step 3's batch is measured at the temperature after step 2, which is far from the first."""
    settings = {
        "loss": "infonce(learnable=true)",
        "learning_rate": 0.2,
        "schedule": "constant",
        "max_steps": 3,
    }
    recorder = OutputRecorder()
    train(small_config(bert, tmp_path, diagnostics_every=1, **settings), callbacks=[recorder])
    temperature = recorded(tmp_path / "run", "learned_temperature")[2]
    assert abs(temperature - 0.05) > 0.005
    batch = recorder.outputs[2].anchors.double(), recorder.outputs[2].positives.double()
    rows = [torch.nn.functional.normalize(rows.detach(), dim=1) for rows in batch]
    expected = gradlab.components(
        f"infonce(temperature={temperature})", *rows
    ).gradient_dissipation.mean()
    dissipation = recorded(tmp_path / "run", "gradient_dissipation")[3]
    assert dissipation == pytest.approx(float(expected), rel=1e-6)


def test_sentence_transformers_trainer_learns_them(bert, tmp_path) -> None:
    adapter = pytest.importorskip("gradlab.integrations.sentence_transformers")
    from tests.sentence_training import columns_of, make_trainer

    make = lambda model: adapter.loss(model, "siglip")  # noqa: E731
    trainer = make_trainer(bert, tmp_path / "run", make, columns_of(32), max_steps=4)
    before = trainer.loss.criterion.statistics()
    trainer.train()
    after = trainer.loss.criterion.statistics()
    assert all(after[name] != before[name] for name in ("temperature", "bias"))
    assert trainer.loss.get_config_dict()["temperature"] == 0.1
    with pytest.raises(gradlab.GradlabError, match="blockwise cannot train the temperature"):
        adapter.loss(trainer.model, "siglip", blockwise=True)
