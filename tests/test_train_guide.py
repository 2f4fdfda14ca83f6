"""A frozen guide in training: its embeddings are those of its own encoder, and the mask goes by them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import gradlab
from gradlab.batch.batch import unit_rows
from gradlab.encoder.model import Encoder
from gradlab.train.loop import Trainer
from tests.tiny_models import make_roberta, make_sentences
from tests.train_helpers import Seen, final_weights, small_config, write_columns


def test_the_guide_embeds_the_sentences_of_the_batch(bert, tmp_path):
    """Of pairs, in another tokenizer: as its encoder embeds the texts; what it says is left out of the loss."""
    guide = make_roberta(tmp_path / "roberta", seed=3)
    first = make_sentences(40)
    second = [text.rsplit(" ", 2)[0] for text in first]  # so that pairs are near in any model
    file = str(write_columns(tmp_path, {"a": first, "b": second}))
    config = small_config(
        bert, tmp_path, train_file=file, column="a", second_column="b", guide=str(guide), epochs=2,
        loss="symmetric(mask(infonce, by=guide))", diagnostics_every=1,
    )  # fmt: skip
    trainer, masked = Trainer(config, callbacks=[seen := Seen()]), []
    rows = [trainer.corpus.order[step] for step in range(6)]  # batches of 8, past the first epoch
    trainer.run()
    encoder = Encoder.load(guide, max_length=16)
    for output, batch in zip(seen.outputs, rows, strict=True):
        views = output.context["guide"]
        for found, texts in zip(views, (first, second), strict=True):
            expected = encoder.encode([texts[row] for row in batch])
            np.testing.assert_allclose(found.numpy(), expected, atol=2e-6)
            assert not found.requires_grad
        anchors, positives = (
            unit_rows(part.detach().double()) for part in (output.anchors, output.positives)
        )
        guided = [unit_rows(view.double()) for view in views]
        losses = []
        for h, other, g, k in ((anchors, positives, *guided), (positives, anchors, *guided[::-1])):
            cosines, marks = h @ other.T / 0.05, g @ k.T
            for i in range(8):
                left = [j for j in range(8) if j != i and marks[i, j] <= marks[i, i]]
                masked.append(7 - len(left))
                losses.append(float(torch.logsumexp(cosines[i, [i, *left]], 0) - cosines[i, i]))
        assert float(output.loss.detach()) == pytest.approx(np.mean(losses), rel=1e-4, abs=1e-5)
    assert 0 < np.mean(masked) < 7
    assert max(trainer.history.series("diagnostics", "masked_pairs")[1]) > 0
    assert not any("guide" in name for name in final_weights(config.output))


def test_a_guide_that_does_not_exist_is_refused(bert, tmp_path):
    with pytest.raises(gradlab.GradlabError, match="nowhere"):
        Trainer(small_config(bert, tmp_path, guide="nowhere", loss="mask(infonce, by=guide)"))
