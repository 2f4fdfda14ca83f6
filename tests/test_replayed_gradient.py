"""A gradient cache written by hand: which rows get which gradient in the second pass."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_pre_hook

import gradlab

GENERATOR = torch.Generator().manual_seed(0)
INPUTS = torch.randn(6, 2, 8, 10, generator=GENERATOR)


class Encoder(nn.Module):
    """A layer and its embedding under a name, as encoders return it."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.layer = nn.Linear(10, 6)

    def forward(self, inputs):
        return {"sentence_embedding": self.layer(inputs), "inputs": inputs}


def infonce(first, second):
    first, second = (nn.functional.normalize(rows, dim=1) for rows in (first, second))
    return nn.functional.cross_entropy(first @ second.T / 0.1, torch.arange(len(first)))


def cached_run(folder, order, chunks=range(4)):
    """Train with a cache of chunks of two rows, whose gradients are handed out in an order."""
    encoder = Encoder()
    optimizer = torch.optim.SGD(encoder.parameters(), lr=0.1)
    criterion = gradlab.watch(infonce, every=1, output=folder)
    gradients = list[torch.Tensor]()
    for views in INPUTS:
        with torch.no_grad():
            cached = [encoder(view)["sentence_embedding"] for view in views]
        cached = [rows.requires_grad_() for rows in cached]
        criterion(*cached).backward()
        optimizer.zero_grad()
        for view, rows in zip(views, cached, strict=True):
            cached_gradients = [rows.grad.split(2)[at] for at in order]
            for chunk in chunks:
                rows_of_chunk = encoder(view[2 * chunk : 2 * chunk + 2])["sentence_embedding"]
                rows_of_chunk.backward(cached_gradients[chunk])
        gradients.append(encoder.layer.weight.grad.clone())
        optimizer.step()
    criterion.finish()
    return criterion.watch, gradients


def numbers(watch, name):
    return [*watch.history.points("train", name).values()]


def test_a_sound_cache_brings_each_row_its_gradient(tmp_path):
    before = dict(nn.modules.module._global_forward_hooks)
    watch, gradients = cached_run(tmp_path, range(4))
    assert numbers(watch, "replayed_rows") == [1.0] * 6
    assert numbers(watch, "replayed_cosine") == pytest.approx([1.0] * 6)
    encoder = Encoder()
    infonce(*(encoder(view)["sentence_embedding"] for view in INPUTS[0])).backward()
    assert torch.allclose(encoder.layer.weight.grad, gradients[0], atol=1e-6)
    assert nn.modules.module._global_forward_hooks == before


def test_gradients_of_other_rows_and_rows_left_out_are_told(tmp_path):
    watch, _ = cached_run(tmp_path / "other", [3, 2, 1, 0])
    assert numbers(watch, "replayed_rows") == [1.0] * 6
    assert max(numbers(watch, "replayed_cosine")) < 0.7
    assert "gradients of other rows" in {verdict.name for verdict in watch.judgement.verdicts}
    watch, _ = cached_run(tmp_path / "last", range(4), chunks=[3])
    assert numbers(watch, "replayed_rows") == [0.25] * 6
    assert numbers(watch, "replayed_cosine") == pytest.approx([1.0] * 6)
    assert "gradients of other rows" in {verdict.name for verdict in watch.judgement.verdicts}


def test_other_hooks_of_optimizers_are_still_called(tmp_path):
    calls = list[int]()
    first, last = (
        register_optimizer_step_pre_hook(lambda *_, at=at: calls.append(at)) for at in range(2)
    )
    try:
        cached_run(tmp_path, range(4))
    finally:
        first.remove()
        last.remove()
    assert calls == [0, 1] * 6


def test_embeddings_with_a_graph_are_not_followed(tmp_path):
    encoder, before = Encoder(), dict(nn.modules.module._global_forward_hooks)
    criterion = gradlab.watch(infonce, every=1, output=tmp_path)
    for views in INPUTS:
        criterion(*(encoder(view)["sentence_embedding"] for view in views)).backward()
        assert nn.modules.module._global_forward_hooks == before
    criterion.finish()
    assert numbers(criterion.watch, "replayed_rows") == []
