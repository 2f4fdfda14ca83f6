"""A frozen guide in training: its embeddings are those of its own encoder, and the mask goes by them."""

from __future__ import annotations

import csv

import numpy as np
import pytest
import torch

import gradlab
from gradlab.batch.batch import unit_rows
from gradlab.encoder.model import Encoder
from gradlab.train import TrainConfig
from gradlab.train.loop import Trainer
from gradlab.train.state import Callback, TrainerState
from tests.tiny_models import make_bert, make_roberta, make_sentences
from tests.train_helpers import final_weights, small_config


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return make_bert(folder / "bert"), make_roberta(folder / "roberta", seed=3)


class Seen(Callback):
    """Keeps what the loss of each step was given."""

    def __init__(self):
        self.outputs = []

    def on_step(self, trainer: TrainerState, output) -> None:
        self.outputs.append(output)


def test_the_guide_embeds_the_sentences_of_the_batch(models, tmp_path):
    """Of pairs, in another tokenizer: as its encoder embeds the texts; what it says is left out of the loss."""
    start, guide = models
    first = make_sentences(40)
    second = [text.rsplit(" ", 2)[0] for text in first]  # so that pairs are near in any model
    file = tmp_path / "pairs.csv"
    with file.open("w", newline="") as handle:
        csv.writer(handle).writerows([("a", "b"), *zip(first, second, strict=True)])
    config = small_config(
        start, tmp_path, train_file=str(file), column="a", second_column="b", guide=str(guide), epochs=2,
        loss="symmetric(mask(infonce, by=guide))", max_steps=6, diagnostics_every=1,
    )  # fmt: skip
    trainer, seen = Trainer(config, callbacks=[kept := Seen()]), []
    rows = [trainer.corpus.order[step] for step in range(6)]  # batches of 8, past the first epoch
    trainer.run()
    encoder = Encoder.load(guide, max_length=16)
    for output, batch in zip(kept.outputs, rows, strict=True):
        views = output.context["guide"]
        for found, texts in zip(views, (first, second), strict=True):
            expected = encoder.encode([texts[row] for row in batch])
            np.testing.assert_allclose(found.numpy(), expected, atol=2e-6)
            assert not found.requires_grad
        anchors, positives = (unit_rows(part.double()) for part in (output.anchors, output.positives))
        guided = [unit_rows(view.double()) for view in views]
        total = 0.0
        for h, other, g, k in ((anchors, positives, *guided), (positives, anchors, *guided[::-1])):
            cosines, marks = h @ other.T / 0.05, g @ k.T
            for i in range(8):
                left = [j for j in range(8) if j != i and marks[i, j] <= marks[i, i]]
                seen.append(7 - len(left))
                if left:
                    total += (
                        float(torch.logsumexp(cosines[i, [i, *left]], 0).detach() - cosines[i, i].detach())
                        / 16
                    )
        assert float(output.loss.detach()) == pytest.approx(total, rel=1e-4, abs=1e-5)
    assert 0 < np.mean(seen) < 7
    assert max(trainer.history.series("diagnostics", "masked_pairs")[1]) > 0
    assert not any("guide" in name for name in final_weights(config.output))


def test_a_guide_that_does_not_exist_is_refused(models, tmp_path):
    with pytest.raises(gradlab.GradlabError, match="nowhere"):
        Trainer(small_config(models[0], tmp_path, guide="nowhere", loss="mask(infonce, by=guide)"))


def test_a_recorded_run_opens_without_its_guide(models, tmp_path):
    recorded = small_config(models[0], tmp_path).to_dict() | {"guide": "x", "loss": "own"}
    assert TrainConfig.of_run(recorded).guide == "x"
