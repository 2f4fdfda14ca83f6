"""The way of a blockwise loss: by measured times, or forced, with the same results."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from blockwise_helpers import LargestTensor, exact, gradients, views

import gradlab
from gradlab.losses import get_loss
from gradlab.scale import blocks_or_kernels
from gradlab.scale.blockwise import BlockwiseLoss
from tests.gpu.write_times import times

ROOT = Path(gradlab.__file__).parents[1]
TRITON = importlib.util.find_spec("triton") is not None


def test_times_are_those_that_were_measured() -> None:
    results = json.loads((ROOT / "figures/gpu-check/h100.json").read_text())
    assert (ROOT / "gradlab/scale/gpu_times.toml").read_text() == times(results)


@pytest.mark.parametrize("precision", ["bfloat16", "tf32", "float32"])
@pytest.mark.parametrize("directions", [1, 2])
def test_no_other_way_is_much_faster_in_less_memory(precision: str, directions: int) -> None:
    calls = [
        call
        for call in blocks_or_kernels.gpu_times()["call"]
        if (call["precision"], call["directions"]) == (precision, directions)
    ]
    assert calls
    for call in calls:
        chosen = call[blocks_or_kernels.fastest_way(precision, directions, call["count"])]
        for way in ("blocks", "kernels"):
            if way in call:
                assert call[way]["ms"] * blocks_or_kernels.TIME_TOLERANCE >= chosen["ms"]
                assert call[way]["ms"] > chosen["ms"] or call[way]["MiB"] >= chosen["MiB"]
    assert blocks_or_kernels.fastest_way(precision, directions, 10**6) != "plain"
    assert blocks_or_kernels.fastest_way(precision, directions, 10**6, served=False) == "blocks"


def test_times_of_a_gpu_decide_on_one_only(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = torch.zeros(65536, 1)
    assert blocks_or_kernels.choose_way(get_loss("infonce"), rows, served=True) == "blocks"
    monkeypatch.setattr(blocks_or_kernels, "_precision", lambda _: "bfloat16")
    assert blocks_or_kernels.choose_way(get_loss("infonce"), rows, served=True) == "kernels"
    assert blocks_or_kernels.choose_way(get_loss("infonce"), rows[:4096], served=True) == "plain"
    assert blocks_or_kernels.choose_way(get_loss("infonce"), rows, served=False) == "blocks"
    asked: list[tuple[Any, ...]] = []
    monkeypatch.setattr(
        blocks_or_kernels, "fastest_way", lambda *arguments, served: asked.append(arguments)
    )
    for spec in ("infonce", "symmetric(infonce)", "mask(symmetric(infonce), above=0.9)"):
        blocks_or_kernels.choose_way(get_loss(spec), rows, served=True)
    assert [directions for _, directions, _ in asked] == [1, 2, 2]


@pytest.mark.parametrize("spec", ["infonce", "symmetric(infonce)", "tvmf", "dhel"])
def test_results_are_the_same_each_way(spec: str) -> None:
    rows = views(14, 2, 8, torch.float32)
    expected = exact(get_loss(spec), rows, "mean", torch.tensor(1.0))
    for way in blocks_or_kernels.WAYS if TRITON else blocks_or_kernels.WAYS[:2]:
        loss = gradlab.blockwise(spec, way=way)
        value, computed = gradients(loss, rows, "mean", torch.tensor(1.0))
        for actual, reference in zip([value, *computed], expected, strict=True):
            scale = float(reference.abs().max())
            torch.testing.assert_close(actual.double(), reference, rtol=0, atol=1e-5 * scale)
        assert f"way={way!r}" in repr(loss)


def test_a_plain_loss_holds_all_similarities(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, module = views(34, 0, 3), sys.modules["gradlab.scale.block_loop"]
    monkeypatch.setattr(module, "default_block_size", lambda *_: 5)
    for way, holds in (("plain", True), ("blocks", False), (None, False)):
        with LargestTensor() as largest:
            gradlab.blockwise("infonce", way=way)(*rows).backward()
        assert (largest.entries >= 34 * 34) is holds


@pytest.mark.skipif(not TRITON, reason="there is no Triton beside Linux")
def test_a_loss_that_kernels_do_not_serve_takes_the_next_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(blocks_or_kernels, "_precision", lambda _: "bfloat16")
    monkeypatch.setattr(
        blocks_or_kernels, "fastest_way", lambda *_, served: "kernels" if served else "blocks"
    )
    monkeypatch.setattr(  # as on a GPU, which alone is asked for kernels
        BlockwiseLoss,
        "_choose",
        lambda self, rows: blocks_or_kernels.choose_way(self.loss, rows, served=self._served),
    )
    rows = views(8, 0, 5, torch.float32)
    for spec, taken in (("infonce", "kernels"), ("met", "blocks")):
        loss = gradlab.blockwise(spec)
        assert "last call" not in repr(loss)
        value = loss(*rows)
        torch.testing.assert_close(value, get_loss(spec)(*rows))
        assert f"(the last call took {taken!r})" in repr(loss)
    with pytest.raises(gradlab.GradlabError, match="met takes something else"):
        gradlab.blockwise("met", way="kernels")(*rows)


def test_an_unknown_way_is_refused() -> None:
    with pytest.raises(gradlab.GradlabError, match="way"):
        gradlab.blockwise("infonce", way="fast")
