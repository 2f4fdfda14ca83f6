"""Losses of one's own, named in every way and given to everything that takes a loss."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import gradlab
from gradlab.atlas.entries import COLUMNS, measure
from gradlab.explorer.heatmap_data import _still_frames
from gradlab.gradient.verification import paired_batch
from gradlab.losses import registry
from gradlab.losses.registry import OWN_LOSSES, read_loss
from gradlab.plotting.style import LABELS
from gradlab.quantities import OF_CODE
from gradlab.train.trainer import Trainer
from tests.train_helpers import small_config

FILE = """
    import torch
    from torch import nn
    from torch.nn import functional


    def nce(anchors, positives, temperature=0.05):
        return functional.cross_entropy(anchors @ positives.T / temperature,
          torch.arange(len(anchors)))


    class Both(nn.Module):
        def __init__(self, temperature=0.05):
            super().__init__()
            self.scale = nn.Parameter(torch.tensor(1 / temperature))

        def forward(self, anchors, positives):
            logits, labels = self.scale * anchors @ positives.T, torch.arange(len(anchors))
            return (functional.cross_entropy(logits, labels)
              + functional.cross_entropy(logits.T, labels)) / 2


    class Memory(nn.Module):
        past = None

        def forward(self, anchors, positives):
            others = positives if self.past is None else torch.cat([positives, self.past])
            self.past = positives.detach().clone()
            return functional.cross_entropy(anchors @ others.T / 0.05, torch.arange(len(anchors)))


    ready = Both(0.1)


    def one(anchors): return anchors.sum()
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("own") / "own_losses.py"
    path.write_text(textwrap.dedent(FILE), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def views():
    return paired_batch(np.random.default_rng(0), 24, 40)


def function(anchors, positives):
    return functional.cross_entropy(anchors @ positives.T / 0.05, torch.arange(len(anchors)))


class Module(nn.Module):
    def forward(self, anchors, positives):
        return function(anchors, positives)


def test_every_name_of_infonce_has_its_components(file, views):
    """Twice the same, by formulas and gradients; a mean is 1/N of the sum that formulas are of."""
    spellings = [
        f"{file}:nce",
        f"{file}:nce(temperature=0.05)",
        Module(),
        function,
        gradlab.get_loss(function),
    ]
    exact = gradlab.components("infonce", *views, side="both")
    for loss in spellings:
        for components, expected in zip(
            gradlab.components(loss, *views, side="both"), exact, strict=True
        ):
            np.testing.assert_allclose(24 * components.gradient(), expected.gradient(), atol=1e-12)
            np.testing.assert_allclose(components.hardest_share, expected.hardest_share, atol=1e-9)
        gradient = gradlab.autograd_gradient(loss, *views)
        np.testing.assert_allclose(
            24 * gradient, gradlab.autograd_gradient("infonce", *views), atol=1e-12
        )


@pytest.mark.parametrize("name", ["Both(temperature=0.1)", "ready"])
def test_settings_reach_what_is_made(file, views, name):
    expected = float(gradlab.get_loss("symmetric(infonce(temperature=0.1))")(*views))
    for loss in (
        gradlab.get_loss(f"{file}:{name}"),
        read_loss(f"{file}:Both", {"temperature": "0.1"}),
    ):
        assert float(loss(*views)) == pytest.approx(expected, rel=1e-6)  # the parameter is float32


def test_verify_compares_decomposition_with_autograd(file):
    checks = gradlab.verify(f"{file}:Both", batch_size=12, dim=20)
    declared = [check for check in checks if check.declared]
    assert {check.side for check in declared} == {"anchors", "positives"}
    assert all(check.passed and check.error < 1e-9 for check in declared)


@pytest.mark.parametrize("quantity", ["relative_push", "hardest_share", "ratio"])
def test_sampled_simulation_agrees_with_that_of_formulas(quantity):
    setting = {"mu_pos": [0.3, 0.8], "mu_neg": [0.5, 0.9, 1.3], "negatives": 15, "progress": False}
    from_gradients = gradlab.simulate(function, quantity, batches=300, **setting)
    declared = "gradient_dissipation" if quantity == "relative_push" else quantity
    expected = gradlab.simulate("infonce", declared, "monte_carlo", batches=4000, **setting)
    error = np.hypot(from_gradients.standard_error, expected.standard_error)
    comparable = np.isfinite(from_gradients.value) & (expected.value > 0) & np.isfinite(error)
    assert comparable.sum() >= 4
    difference = np.abs(from_gradients.value - expected.value)[comparable]
    assert np.all(difference <= 4 * error[comparable] + 1e-9)


@pytest.mark.parametrize(
    "name",
    ["infonce", "mpt", "hcl", "mhe", "symmetric(infonce)", "pool(infonce, negatives=other+same)"],
)
def test_simulated_numbers_do_not_depend_on_how_a_loss_is_given(name):
    loss = gradlab.get_loss(name)

    def mean(anchors, positives):
        return loss(anchors, positives)

    setting = {"mu_pos": [0.3], "mu_neg": [0.5, 0.9], "negatives": 7, "batches": 6}
    pushes = [gradlab.simulate(way, "relative_push", **setting).value for way in (loss, mean)]
    np.testing.assert_allclose(*pushes, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("of", ["relative_push", "hardest_share", "ratio"])
def test_curves_do_not_depend_on_how_a_loss_is_given(of, monkeypatch):
    monkeypatch.setattr("gradlab.atlas.entries.BATCHES_OF_A_PICTURE", 4)
    _, ax = gradlab.plot_curves([function, "infonce"], of=of)
    by_code, by_name = (line.get_ydata() for line in ax.lines)
    assert ax.get_ylabel() == LABELS[of]
    # A cross-entropy loses the digits of a ratio where its softmax is full.
    learns = slice(15) if of == "ratio" else slice(None)
    np.testing.assert_allclose(by_code[learns], by_name[learns], rtol=1e-6, atol=1e-12)


def test_the_cost_of_code_is_announced_without_a_terminal(monkeypatch, capsys):
    monkeypatch.setattr("gradlab.simulation.sampled.MANY", 60)
    setting = {"mu_pos": [0.3], "mu_neg": [0.5, 0.9], "negatives": 3}
    for progress, batches, said in ((None, 10, True), (None, 9, False), (False, 10, False)):
        gradlab.simulate(function, "relative_push", **setting, batches=batches, progress=progress)
        errors = capsys.readouterr().err
        assert ("60 gradients of batches of 4 sentences" in errors) is said
        assert said or not errors
    gradlab.simulate("infonce", "relative_push", **setting, batches=10)
    assert not capsys.readouterr().err


def test_every_function_that_draws_batches_announces_the_cost_of_code(monkeypatch, capsys):
    monkeypatch.setattr("gradlab.simulation.sampled.MANY", 1)
    sizes = {"SENTENCES": 8, "BATCHES_OF_A_CURVE": 2, "BATCHES_OF_A_PICTURE": 2}
    for name, size in sizes.items():
        monkeypatch.setattr(f"gradlab.atlas.entries.{name}", size)
    monkeypatch.setattr("gradlab.atlas.entries.DEGREES", np.array([30.0, 90.0]))
    monkeypatch.setattr("gradlab.explorer.heatmap_data.ROWS", 2)
    monkeypatch.setattr("gradlab.explorer.heatmap_data.COLUMNS", 3)
    setting = {"mu_pos": [0.3], "mu_neg": [0.9], "negatives": 3, "batches": 2}
    routes = {
        "simulate": lambda: gradlab.simulate(function, **setting),
        "atlas": lambda: measure(function),
        "plot_curves": lambda: gradlab.plot_curves([function]),
        "explore": lambda: _still_frames(gradlab.get_loss(function), None),
    }
    for route, call in routes.items():
        call()
        assert "gradients of batches of" in capsys.readouterr().err, route


def test_a_watched_run_records_the_same_by_name_and_as_code(tmp_path):
    """All that both record; only a loss with formulas has a declared dissipation."""
    histories = []
    for name, loss in {"name": gradlab.get_loss("infonce"), "code": function}.items():
        watched = gradlab.watch(loss, output=tmp_path / name, every=1)
        views = [rows.requires_grad_() for rows in unit_rows()]
        watched(*views).mean().backward()
        # Bins of a histogram have edges, and the group "watch" has times.
        rows = [row for row in watched.watch.history.rows() if row[1] not in ("histogram", "watch")]
        histories.append({row[:-1]: row[-1] for row in rows})
    by_name, by_code = histories
    common = by_name.keys() & by_code.keys()
    assert {"relative_push", "total_push", "alignment"} <= {name for *_, name in common}
    assert {name for *_, name in by_code.keys() - by_name.keys()} == set(OF_CODE.values()) - {
        "relative_push"
    }
    for key in by_name:  # InfoNCE declares its relative push, so that the same anchors are pushed
        as_code = (*key[:-1], OF_CODE.get(key[-1], key[-1]))
        if as_code != key:
            assert by_code[as_code] == pytest.approx(by_name[key], rel=1e-6)
    for key in common:
        # The total push is absolute: that of a mean over 8 anchors carries the factor 1/8.
        expected = by_name[key] / (8 if key[-1] == "total_push" else 1)
        assert by_code[key] == pytest.approx(expected, rel=1e-6, abs=1e-9, nan_ok=True), key


def test_the_atlas_has_the_same_entry_by_name_and_as_code(monkeypatch):
    monkeypatch.setattr("gradlab.atlas.entries.BATCHES_OF_A_CURVE", 2)
    monkeypatch.setattr("gradlab.atlas.entries.DEGREES", np.arange(20.0, 100.0, 10.0))
    by_name, by_code = (measure(loss, progress=False) for loss in ("infonce", function))
    assert by_code.family == by_name.family
    np.testing.assert_allclose(by_code.gate, by_name.gate, rtol=1e-6, atol=1e-12)
    for column in COLUMNS:
        numbers = getattr(by_name, column)
        if not isinstance(numbers, str):
            numbers = pytest.approx(numbers, rel=1e-6, nan_ok=True)
        assert getattr(by_code, column) == numbers, column


def test_code_declares_no_dissipation():
    with pytest.raises(gradlab.GradlabError, match="use quantity='relative_push'"):
        gradlab.simulate(function, "gradient_dissipation")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("one", "takes anchors, positives and perhaps extra negatives, not 1 argument"),
        ("Memory", "it is random or keeps a state"),
        ("Bot", r"has no 'Bot'. Did you mean 'Both'\? It has: nce, Both, "),
    ],
)
def test_bad_losses_are_one_line(name, words, file, views):
    with pytest.raises(gradlab.GradlabError, match=words):
        gradlab.components(f"{file}:{name}", *views)


@pytest.mark.parametrize("door", ["option", "environment"])
def test_files_register_losses(tmp_path, door):
    """In a process of its own, as what is registered stays."""
    path = tmp_path / "quadratic.py"
    path.write_text(
        "from gradlab.losses import register\n"
        "from gradlab.losses.infonce import InfoNCE\n"
        "@register('quadratic')\n"
        "class Quadratic(InfoNCE):\n"
        "    formula = 'that of InfoNCE'\n",
        encoding="utf-8",
    )
    option = ["--loss-file", str(path)] if door == "option" else []
    environment = os.environ | ({OWN_LOSSES: str(path)} if door == "environment" else {})
    command = [
        sys.executable,
        "-m",
        "gradlab",
        "verify",
        *option,
        "--loss",
        "quadratic",
        "--batch-size",
        "6",
    ]
    process = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert process.returncode == 0, process.stderr
    assert "quadratic" in process.stdout


def test_an_installed_loss_may_list_the_losses_while_it_is_imported(monkeypatch):
    class EntryPoint:
        loaded = 0

        def load(self):
            self.loaded += 1
            gradlab.loss_names()

    point = EntryPoint()
    monkeypatch.setattr(registry, "_entry_points", lambda: [point])
    assert gradlab.loss_names() == gradlab.loss_names()
    assert point.loaded == 1


def test_a_module_is_trained_with_the_encoder(file, bert, tmp_path):
    loss = {"loss": f"{file}:Both", "loss_settings": {"temperature": 0.1}}
    trainer = Trainer(small_config(bert, tmp_path, max_steps=3, **loss))
    (scale,) = trainer.objective.loss_parameters()
    assert float(scale.detach()) == 10
    trainer.run()
    assert 0 < abs(float(scale.detach()) - 10) < 1
    recorded = (tmp_path / "run" / "metrics.csv").read_text()
    assert "diagnostics,relative_push" in recorded
    assert f"3,train,learned_scale,{float(scale.detach())!r}" in recorded.replace(" ", "")
    (slope,) = re.findall(r"3,train,learned_scale_gradient,(\S+)", recorded)
    assert float(slope) != 0


class Link(nn.Module):
    """A link whose coefficients are learned, and a margin."""

    def __init__(self):
        super().__init__()
        self.margin = nn.Parameter(torch.tensor(0.1))
        self.link = nn.Parameter(torch.tensor([20.0, 5.0]))

    def forward(self, anchors, positives):
        cosines = anchors @ positives.T - self.margin * torch.eye(len(anchors))
        logits = self.link[0] * cosines + self.link[1] * cosines**2
        return functional.cross_entropy(logits, torch.arange(len(anchors)))


def unit_rows():
    generator = torch.Generator().manual_seed(0)
    return functional.normalize(torch.randn(2, 8, 4, generator=generator), dim=-1).requires_grad_()


def test_a_module_of_ones_own_stays_trainable():
    loss = Link()
    gradlab.learnable(loss)(*unit_rows()).backward()
    assert float(loss.margin.grad) != 0
    with pytest.raises(gradlab.GradlabError, match="learns no hyper-parameter"):
        gradlab.learnable(function)


class Softmax(nn.Module):
    """InfoNCE with a temperature that trains."""

    def __init__(self):
        super().__init__()
        self.temperature = nn.Parameter(torch.tensor(0.05))

    def forward(self, anchors, positives):
        return functional.cross_entropy(
            anchors @ positives.T / self.temperature, torch.arange(len(anchors))
        )


def test_a_module_is_evaluated_as_it_is_by_now():
    anchors, positives = functional.normalize(unit_rows().detach().double(), dim=-1)
    module = Softmax()
    loss = gradlab.get_loss(module)
    loss(anchors, positives)
    gradlab.components(loss, anchors, positives)
    with torch.no_grad():
        module.temperature.fill_(0.5)
    weight = gradlab.components(loss, anchors, positives).weight
    expected = (2 * anchors @ positives.T).fill_diagonal_(-torch.inf).softmax(dim=1)
    torch.testing.assert_close(weight, expected, rtol=1e-5, atol=1e-8)
    value = gradlab.get_loss("infonce(temperature=0.5)")(anchors, positives)
    assert float(loss(anchors, positives)) == pytest.approx(float(value), rel=1e-6)


def test_watching_records_values_and_gradients_of_what_a_loss_learns(tmp_path):
    loss = Link()
    watched = gradlab.watch(loss, output=tmp_path, every=1)
    watched(*unit_rows()).backward()
    recorded = watched.watch.history.series
    assert recorded("train", "learned_margin")[1] == [float(loss.margin.detach())]
    assert recorded("train", "learned_link")[1] == [float(loss.link.detach().norm())]
    for name, gradient in {
        "margin": float(loss.margin.grad),
        "link": float(loss.link.grad.norm()),
    }.items():
        assert recorded("train", f"learned_{name}_gradient")[1] == [
            pytest.approx(gradient, rel=1e-6)
        ]


def test_a_file_that_ends_the_program_is_refused_in_a_line(tmp_path):
    path = tmp_path / "script.py"
    path.write_text("import sys\n\nsys.exit(5)\n", encoding="utf-8")
    with pytest.raises(gradlab.GradlabError, match=r"cannot import .*line 3: SystemExit: 5"):
        gradlab.get_loss(f"{path}:loss")
