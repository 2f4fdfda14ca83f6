"""Precision and threads that the machine decides on."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from gradlab.encoder.model import Encoder
from gradlab.evaluate.selection import Selection
from gradlab.files import commit
from gradlab.train import hardware, train
from gradlab.train.hardware import choose_precision, encode_in
from tests.train_helpers import small_config

CPU = torch.device("cpu")
WITH, WITHOUT = frozenset({"avx2", "avx512_bf16"}), frozenset({"avx2", "avx512_f"})


@pytest.mark.parametrize(
    ("flags", "asked", "name", "slow"),
    [
        (WITH, "auto", "bfloat16", False),
        (frozenset({"amx_bf16"}), "auto", "bfloat16", False),
        (WITHOUT, "auto", "float32", False),
        (WITH, "float32", "float32", False),
        (WITHOUT, "bfloat16", "bfloat16", True),
    ],
)
def test_processor_decides(monkeypatch, flags, asked, name, slow):
    monkeypatch.setattr(hardware, "cpu_flags", lambda: flags)
    chosen = choose_precision(asked, CPU)
    assert chosen.name == name
    assert ("--precision auto" in chosen.why) == slow


@pytest.mark.parametrize(("capability", "name"), [((7, 5), "float32"), ((8, 0), "bfloat16")])
def test_cuda_capability_decides(monkeypatch, capability, name):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    assert choose_precision("auto", torch.device("cuda", 0)).name == name


def test_auto_is_settled_said_and_kept(bert, tmp_path, monkeypatch, capsys):
    config = small_config(bert, tmp_path, precision="auto", max_steps=2, threads=1)

    def manifest():
        return json.loads((tmp_path / "run" / "manifest.json").read_text())

    monkeypatch.setattr(hardware, "cpu_flags", lambda: WITH)
    train(config)
    assert "Computing in bfloat16" in capsys.readouterr().err
    assert manifest()["config"]["precision"] == "bfloat16"
    assert manifest()["device"]["threads"] == 1
    assert manifest()["device"]["name"] == hardware.device_name(CPU)
    assert manifest()["commit"] == commit()
    # Resumed on another processor it computes as it began.
    monkeypatch.setattr(hardware, "cpu_flags", lambda: WITHOUT)
    train(config, resume=True)
    assert manifest()["config"]["precision"] == "bfloat16"


@pytest.mark.parametrize(("precision", "atol"), [("float32", 1e-5), ("bfloat16", 0.05)])
def test_a_run_is_scored_in_the_precision_it_computes_in(
    bert, tmp_path, monkeypatch, precision, atol
):
    texts, calls = ["one two", "three"], []

    def score(encode):
        calls.append(encode(texts))
        return 0.5

    monkeypatch.setattr(
        "gradlab.train.trainer.selection", lambda path: Selection("stsb_dev", score, ())
    )
    settings = {"precision": precision, "eval_data": "given", "learning_rate": 0.0, "max_steps": 1}
    train(small_config(bert, tmp_path, **settings))
    encoder = Encoder.load(bert)
    plain = encoder.encode(texts)
    with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bfloat16"):
        expected = encoder.encode(texts)
    np.testing.assert_array_equal(encode_in(encoder, precision)(texts), expected)
    # Training has attention of its own, so that both agree up to rounding: 8 bits, or 24.
    np.testing.assert_allclose(calls[0], expected, atol=atol)
    assert (np.abs(calls[0] - plain).max() > 1e-4) == (precision == "bfloat16")
