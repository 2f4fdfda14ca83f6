"""Mistakes that users make, each answered in one line that says what would be right."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner

import gradlab
from gradlab.cli.commands import cli
from gradlab.decomposition import matching
from gradlab.gradient.verification import paired_batch
from gradlab.train.config import TrainConfig

ROWS = np.eye(3)
RUN = {"model": "m", "train_file": "f", "output": "o"}


def plain(anchors: Any, positives: Any) -> Any:
    return (anchors * positives).sum()


@pytest.mark.parametrize(
    ("call", "answer"),
    [
        (
            lambda: TrainConfig(**RUN, learning_rte=1),
            "unknown setting 'learning_rte'.*'learning_rate'",
        ),
        (
            lambda: TrainConfig(**RUN, loss_settings={"temprature": 1}),
            "'temprature'. Did you mean 'temperature'.*infonce has: temperature",
        ),
        (
            lambda: gradlab.simulate("arccon", temperature=0.1),
            r"gradlab.get_loss\('arccon', temperature=0.1\)",
        ),
        (
            lambda: gradlab.get_loss("infonce", tau=0.1),
            "'tau'. Did you mean 'temperature'.*infonce has",
        ),
        (lambda: gradlab.get_loss("infonce(tau=0.1)"), "'tau'. Did you mean 'temperature'"),
        (
            lambda: gradlab.simulate("arccon", tau=0.1),
            r"gradlab.get_loss\('arccon', temperature=0.1\)",
        ),
        (lambda: gradlab.get_loss("mpt", tau=0.1), "^unknown hyper-parameter 'tau'; mpt has: mar"),
        (lambda: TrainConfig(**RUN, lr=1), "unknown setting 'lr'. Did you mean 'learning_rate'"),
        (lambda: gradlab.get_loss("bge-m3"), "'bge-m3'. Did you mean 'model:bge-m3'.*infonce"),
        (lambda: gradlab.get_loss("zzz"), "^unknown loss 'zzz'; there are: infonce, "),
        (
            lambda: gradlab.components(torch.eye(3), torch.eye(3), "infonce"),
            r"not a tensor of shape \(3, 3\); the loss comes first, as in gradlab.components",
        ),
        (
            lambda: gradlab.simulate(ROWS),
            r"not an array of shape \(3, 3\); the loss comes first",
        ),
        (
            lambda: gradlab.get_loss("infonce", temperature=torch.eye(9)),
            r"greater than 0, not a tensor of shape \(9, 9\)$",
        ),
        (lambda: gradlab.components("mpt", ROWS, ROWS, normalise=True), "'normalise'.*'normalize'"),
        (lambda: gradlab.decompose(plain, ROWS, ROWS, tolerence=1), "'tolerence'.*'tolerance'"),
        (lambda: gradlab.recombine(gate=1, wieght=1, ratio=1), "'wieght'.*'weight'"),
        (lambda: gradlab.watch(ouput="x"), "watch has no argument 'ouput'.*'output'"),
        (lambda: gradlab.losses.InfoNCE()(ROWS, ROWS, normalise=True), "'normalise'.*'normalize'"),
        (
            lambda: gradlab.blockwise("infonce")(ROWS, ROWS, temprature=1),
            "no argument 'temprature'",
        ),
        (
            lambda: gradlab.get_loss("infonce")(ROWS, ROWS, temperature=1),
            r"no argument 'temperature'; write infonce\(temperature=",
        ),
        (
            lambda: gradlab.simulate("infonce", grid=(3,)),
            "one number, or one for each of the two axes",
        ),
        (lambda: gradlab.simulate("infonce", mu_pos=["a"]), "mu_pos must be a number or a list"),
        (
            lambda: gradlab.simulate("infonce", own_negatives=2, mu_own=[0.5, 0.6]),
            "mu_own must be one angle",
        ),
        (
            lambda: gradlab.find_false_negatives(embeddings=ROWS, batch_size=2.5),
            "batch_size must be a whole number of at least 2, not 2.5",
        ),
        (
            lambda: gradlab.losses.Pool("infonce", negatives=["other"]),
            "negatives must be a string",
        ),
        (
            lambda: gradlab.learnable("infonce")(ROWS, ROWS),
            "infonce.*takes torch tensors, not numpy",
        ),
        (lambda: gradlab.watch(gradlab.watch(plain, output="x")), "already watched"),
        (lambda: gradlab.simulate(3), "a loss is wanted: .*, not 3"),
        (lambda: gradlab.simulate(plain, engine="exact"), "no exact form"),
        (lambda: gradlab.blockwise(plain), "is given as code, and .* needs formulas"),
        (
            lambda: gradlab.blockwise("symmetric(mask(infonce, by=given))", group="world"),
            "says nothing of pairs across processes",
        ),
        (
            lambda: gradlab.get_loss("pool(infonce, negatives=own)")(ROWS, ROWS),
            "the pool own has no negatives; give",
        ),
        (
            lambda: gradlab.get_loss("mhe")(ROWS, ROWS, own_negatives=ROWS[:, None]),
            "own_negatives are for losses of pairs",
        ),
    ],
)
def test_one_line_says_what_would_be_right(call: Callable[[], Any], answer: str) -> None:
    with pytest.raises(gradlab.GradlabError, match=answer):
        call()


def test_doctor_is_given_a_loss(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "def loss(anchors, positives):\n    return 0\n", encoding="utf-8"
    )
    with pytest.raises(
        gradlab.GradlabError, match="neither a trainer nor a function without arguments"
    ):
        CliRunner().invoke(cli, ["doctor", f"{tmp_path / 'mine.py'}:loss"], catch_exceptions=False)


def test_a_loss_that_no_registered_one_has_anything_in_common_with() -> None:
    rows = np.random.default_rng(0).normal(size=(2, 6, 4))
    anchors, positives = rows / np.linalg.norm(rows, axis=-1, keepdims=True)
    signs = torch.ones(6, 6, dtype=torch.float64) - 2 * (torch.arange(6)[:, None] < torch.arange(6))

    def strange(first: Any, second: Any) -> Any:
        return (signs * (first @ second.T) ** 3).sum()

    decomposition = gradlab.decompose(strange, anchors, positives)
    assert "e+" not in decomposition.summary()
    assert ", times 0" not in decomposition.report()


@pytest.mark.parametrize("command", ["simulate --loss infonce", "decompose infonce", "figures"])
def test_the_output_is_tried_before_anything_else(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(gradlab.GradlabError, match=r"^cannot write 'file/below': "):
        CliRunner().invoke(
            cli, [*command.split(), "--output", "file/below"], catch_exceptions=False
        )
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_run_folder_that_cannot_be_made_is_told_before_the_model_is_loaded(
    tmp_path: Path,
) -> None:
    from gradlab.train import train

    (tmp_path / "file").write_text("")
    (tmp_path / "sentences").write_text("one\ntwo\n")
    config = TrainConfig(
        "no-such-model", str(tmp_path / "sentences"), str(tmp_path / "file" / "run")
    )
    with pytest.raises(
        gradlab.GradlabError, match=r"^cannot write '.*run': '.*file' is not a writable folder"
    ):
        train(config)


def test_infonce_in_single_precision_is_named_infonce(monkeypatch: pytest.MonkeyPatch) -> None:
    """ArcCon with a margin of 2e-8 is nearer by a rounding error."""
    monkeypatch.setattr(matching, "loss_names", lambda: ["arccon", "infonce", "mpt"])

    def loss(anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
        first, second = (
            torch.nn.functional.normalize(rows.float()) for rows in (anchors, positives)
        )
        return torch.nn.functional.cross_entropy(first @ second.T / 0.01, torch.arange(len(first)))

    decomposition = gradlab.decompose(
        loss, *paired_batch(np.random.default_rng(0), 32, 64), normalize=True
    )
    first, second = decomposition.matches[:2]
    assert second.mismatch < first.mismatch  # or this says nothing
    assert (first.loss.name, second.loss.name) == ("infonce", "arccon")
    assert abs(second.loss.margin) < 1e-6
