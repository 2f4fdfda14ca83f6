"""Training with columns of hard negatives, each anchor's own or shared."""

from __future__ import annotations

import pytest
import torch

import gradlab
from gradlab import GradlabError
from gradlab.train import Objective, train
from tests.train_helpers import final_weights, make_sentences, same_weights, small_config


@pytest.fixture
def columns(tmp_path):
    rows = zip(*(make_sentences(40, seed=seed) for seed in range(4)), strict=True)
    file = tmp_path / "columns.csv"
    file.write_text("a,b,c,d\n" + "\n".join(",".join(row) for row in rows))
    return {"train_file": str(file), "column": "a", "second_column": "b", "max_steps": 3, "dropout": 0.0}


@pytest.mark.parametrize("kind", ["own", "shared"])
@pytest.mark.parametrize("loss", ["infonce", "symmetric(hardness(infonce, on=hard))"])
def test_the_loss_is_that_of_the_columns(bert, tmp_path, columns, kind, loss):
    seen = []

    class Watch(Objective):
        def evaluate(self, batch, gather=None, cache=None):
            found = super().evaluate(batch, gather, cache)
            with torch.no_grad():
                seen.append((found, self.embed(batch.online)))
            return found

    config = small_config(
        bert,
        tmp_path,
        negative_columns="c+d",
        hard_negatives=kind,
        loss=loss,
        **columns,
    )
    train(config, objective=Watch)
    for output, rows in seen:
        anchors, positives, *hard = rows.split(8)
        assert len(hard) == 2
        if kind == "own":
            context, extra = {"own_negatives": torch.stack(hard, dim=1)}, None
        else:
            context, extra = {"owners": torch.arange(8).repeat(2)}, torch.cat(hard)
        expected = gradlab.get_loss(loss)(anchors, positives, extra, normalize=True, **context)
        torch.testing.assert_close(output.loss.detach(), expected, rtol=1e-5, atol=1e-6)
    train(small_config(bert, tmp_path, "without", loss=loss, **columns))
    assert not same_weights(tmp_path / "run", tmp_path / "without")


def test_chunks_train_the_same_weights(bert, tmp_path, columns):
    for name, chunk_size in (("whole", None), ("chunks", 5)):
        train(small_config(bert, tmp_path, name, negative_columns="c+d", chunk_size=chunk_size, **columns))
    # Rounding, which Adam divides by its own size; three steps move weights by 3e-3.
    one, other = (final_weights(tmp_path / name) for name in ("whole", "chunks"))
    for name, weights in one.items():
        torch.testing.assert_close(weights, other[name], rtol=0, atol=3e-4)


def test_own_negatives_alone(bert, tmp_path, columns):
    """Without in-batch negatives, as NV-Embed's second stage."""
    train(small_config(bert, tmp_path, negative_columns="c", in_batch_negatives=False, **columns))
    assert (tmp_path / "run/metrics.csv").is_file()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"second_column": None}, "negative_columns needs second_column"),
        ({"momentum": 0.99}, "embeds no hard negatives"),
        ({"loss": "vicreg"}, "vicreg compares whole views.*give hard_negatives shared"),
        ({"hard_negatives": "mine"}, "hard_negatives"),
    ],
)
def test_bad_settings(bert, tmp_path, columns, changes, message):
    with pytest.raises(GradlabError, match=message):
        small_config(bert, tmp_path, **{"negative_columns": "c", **columns, **changes})


def test_a_missing_column_is_named(bert, tmp_path, columns):
    with pytest.raises(GradlabError, match="'e'"):
        train(small_config(bert, tmp_path, negative_columns="c+e", **columns))
