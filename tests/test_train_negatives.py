"""Training with columns of hard negatives, each anchor's own or shared."""

from __future__ import annotations

import pytest
import torch

import gradlab
from gradlab import GradlabError
from gradlab.train import Objective, train
from tests.train_helpers import final_weights, make_sentences, small_config, write_columns


@pytest.fixture
def columns(tmp_path):
    file = write_columns(tmp_path, {name: make_sentences(40, seed=seed) for seed, name in enumerate("abcd")})
    return {"train_file": str(file), "column": "a", "second_column": "b", "max_steps": 3, "dropout": 0.0}


@pytest.mark.parametrize(
    ("loss", "kind"),
    [
        ("infonce", "own"),
        ("infonce", "own alone"),
        ("infonce", "shared"),
        ("symmetric(hardness(infonce, on=hard))", "own"),
        ("symmetric(hardness(infonce, on=hard))", "shared"),
    ],
)
def test_the_loss_is_that_of_the_columns(bert, tmp_path, columns, loss, kind):
    seen, in_batch = [], kind != "own alone"  # which is NV-Embed's second stage

    class Watch(Objective):
        def evaluate(self, batch, gather=None, cache=None):
            found = super().evaluate(batch, gather, cache)
            with torch.no_grad():
                seen.append((found.loss.detach(), self.embed(batch.online)))
            return found

    settings = {"negative_columns": "c+d", "hard_negatives": kind.split()[0], "in_batch_negatives": in_batch}
    train(small_config(bert, tmp_path, loss=loss, **settings, **columns), objective=Watch)
    for found, rows in seen:
        anchors, positives, *hard = rows.split(8)
        assert len(hard) == 2
        context, extra = {"own_negatives": torch.stack(hard, dim=1)}, None
        if kind == "shared":
            context, extra = {"owners": torch.arange(8).repeat(2)}, torch.cat(hard)
        criterion = gradlab.get_loss(loss)
        expected = criterion(
            anchors, positives, extra, normalize=True, in_batch_negatives=in_batch, **context
        )
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    assert len(seen) == 3


def test_chunks_train_the_same_weights(bert, tmp_path, columns):
    for name, chunk_size in (("whole", None), ("chunks", 5)):
        train(small_config(bert, tmp_path, name, negative_columns="c+d", chunk_size=chunk_size, **columns))
    # Rounding, which Adam divides by its own size; three steps move weights by 3e-3.
    one, other = (final_weights(tmp_path / name) for name in ("whole", "chunks"))
    for name, weights in one.items():
        torch.testing.assert_close(weights, other[name], rtol=0, atol=3e-4)


def test_a_missing_column_is_named(bert, tmp_path, columns):
    with pytest.raises(GradlabError, match="'e'"):
        train(small_config(bert, tmp_path, negative_columns="c+e", **columns))
