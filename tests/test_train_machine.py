"""Precision and threads that the machine decides on."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from gradlab.encoder.model import Encoder
from gradlab.evaluate.selection import Selection
from gradlab.files import commit
from gradlab.train import machine, train
from gradlab.train.machine import (
    choose_precision,
    encode_in,
    free_threads,
    using_threads,
)
from tests.tiny_models import make_bert
from tests.train_helpers import small_config

CPU = torch.device("cpu")
WITH, WITHOUT = frozenset({"avx2", "avx512_bf16"}), frozenset({"avx2", "avx512_f"})


@pytest.mark.parametrize(
    ("flags", "asked", "name", "slow"),
    [
        (WITH, "auto", "bfloat16", False),
        (frozenset({"amx_bf16"}), "auto", "bfloat16", False),
        (WITHOUT, "auto", "float32", False),
        (frozenset(), "auto", "float32", False),
        (WITH, "float32", "float32", False),
        (WITHOUT, "bfloat16", "bfloat16", True),
    ],
)
def test_processor_decides(monkeypatch, flags, asked, name, slow):
    monkeypatch.setattr(machine, "cpu_flags", lambda: flags)
    chosen = choose_precision(asked, CPU)
    assert chosen.name == name
    assert ("--precision auto" in chosen.why) == slow


@pytest.mark.parametrize(
    ("capability", "name"), [((7, 5), "float32"), ((8, 0), "bfloat16"), ((9, 0), "bfloat16")]
)
def test_cuda_capability_decides(monkeypatch, capability, name):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    assert choose_precision("auto", torch.device("cuda", 0)).name == name


def test_flags_of_the_processor_are_found_without_torch_too(monkeypatch):
    found = machine.cpu_flags()
    monkeypatch.delattr(torch.cpu, "get_capabilities", raising=False)
    if machine.Path("/proc/cpuinfo").exists():
        assert ("avx512_bf16" in machine.cpu_flags()) == ("avx512_bf16" in found)


@pytest.mark.parametrize(
    ("busy", "expected"), [(0.1, 2), (0.4, 2), (1.0, 1), (2.0, 1), (1.9, 1)]
)  # of two cores
def test_busy_cores_are_left_to_others(monkeypatch, busy, expected):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    monkeypatch.setattr(machine.os, "cpu_count", lambda: 2)
    with using_threads(2):
        count, words = free_threads(lambda: busy)
    assert count == expected
    assert ("--threads" in words) == (count < 2)


def test_environment_decides_first(monkeypatch):
    def never() -> float:
        raise AssertionError("nothing is measured")

    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    with using_threads(2):
        assert free_threads(never) == (2, "")
    monkeypatch.delenv("OMP_NUM_THREADS")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    with using_threads(4):
        assert free_threads(never) == (2, "")


def test_auto_is_settled_said_and_kept(tmp_path, monkeypatch, capsys):
    model = make_bert(tmp_path / "model")
    config = small_config(model, tmp_path, precision="auto", max_steps=2, threads=1)
    monkeypatch.setattr(machine, "cpu_flags", lambda: WITH)
    train(config)
    assert "Computing in bfloat16" in capsys.readouterr().err
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert manifest["config"]["precision"] == "bfloat16"
    assert "AVX-512 BF16" in manifest["device"]["precision"]
    assert manifest["device"]["threads"] == 1
    assert manifest["device"]["name"] == machine.device_name(torch.device("cpu"))
    assert manifest["commit"] == commit()
    # Resumed on another processor it computes as it began.
    monkeypatch.setattr(machine, "cpu_flags", lambda: WITHOUT)
    train(config, resume=True)
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert manifest["config"]["precision"] == "bfloat16"


def test_a_run_is_scored_in_the_precision_it_computes_in(tmp_path, monkeypatch):
    model, texts = str(make_bert(tmp_path / "bert")), ["one two", "three"]
    plain = Encoder.load(model).encode(texts)
    seen = {}

    def score(encode):
        seen["rows"] = encode(texts)
        return 0.5

    monkeypatch.setattr("gradlab.train.state.selection", lambda path: Selection("stsb_dev", score))
    for precision in ("float32", "bfloat16"):
        config = small_config(
            model,
            tmp_path,
            output=str(tmp_path / precision),
            precision=precision,
            sts="given",
            learning_rate=0.0,
            max_steps=1,
        )
        train(config)
        half = precision == "bfloat16"
        encoder = Encoder.load(model)
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            expected = encoder.encode(texts)
        np.testing.assert_array_equal(encode_in(encoder, precision)(texts), expected)
        # Training has attention of its own, so that both agree up to rounding: 8 bits, or 24.
        assert seen["rows"].dtype == "float32"
        np.testing.assert_allclose(seen["rows"], expected, atol=0.05 if half else 1e-5)
        assert (np.abs(seen["rows"] - plain).max() > 1e-4) == half
