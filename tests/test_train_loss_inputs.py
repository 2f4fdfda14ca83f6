"""What a loss is told beside two views in training.

Hard negatives, labels and scores out of columns, a teacher, and a guide.
"""

from __future__ import annotations

import json

import numpy as np
import pyarrow
import pytest
import torch
from pyarrow import parquet

import gradlab
from gradlab import GradlabError
from gradlab.batch import unit_rows
from gradlab.encoder.model import Encoder
from gradlab.train import Objective, Trainer, train
from gradlab.train.corpus import training_file
from tests.tiny_models import make_roberta, make_sentences
from tests.train_helpers import OutputRecorder, final_weights, recorded, small_config, write_columns

COLUMNS = {"column": "a", "positive_column": "b"}


@pytest.fixture(scope="module")
def teacher(tmp_path_factory):
    return str(make_roberta(tmp_path_factory.mktemp("roberta"), seed=3))


@pytest.fixture(scope="module")
def rows():
    """Sentences, second views and two hard negatives, a label as text and number, and a score."""
    texts = zip(*(make_sentences(40, seed=seed) for seed in range(4)), strict=True)
    entries = ({"kind": f"kind {at % 3}", "number": at % 3, "score": at / 7} for at in range(40))
    return [
        dict(zip("abcd", four, strict=True)) | entry
        for four, entry in zip(texts, entries, strict=True)
    ]


@pytest.fixture
def file(rows, tmp_path):
    return str(write_columns(tmp_path, {name: [row[name] for row in rows] for name in rows[0]}))


class Watch(Objective):
    """Keeps what the loss was given, and what the encoder makes of the batch."""

    calls: list = []

    def evaluate(self, batch, gather=None, cache=None):
        output = super().evaluate(batch, gather, cache)
        with torch.no_grad():
            self.calls.append((batch.sentences, output, self.embed(batch.trained)))
        return output


HARDNESS = "symmetric(hardness(infonce, on=hard))"
OWN, SHARED = ({"negative_columns": "c+d", "hard_negatives": kind} for kind in ("own", "shared"))


@pytest.mark.parametrize(
    ("loss", "changes"),
    [
        ("supcon", {"label_column": "kind"}),
        ("symmetric(pool(sincere, negatives=other+same))", {"label_column": "number"}),
        (
            "pool(triplet(mean_over=active), negatives=same)",
            {"label_column": "kind", "positive_column": None},
        ),
        ("infonce", {"label_column": "kind", "negative_columns": "c"}),
        ("sum(supcon, cosent)", {"label_column": "kind", "score_column": "score"}),
        ("sum(infonce, kl)", OWN),
        ("margin_mse", SHARED),
        ("infonce", OWN),
        ("infonce", OWN | {"in_batch_negatives": False}),  # NV-Embed's second stage
        ("infonce", SHARED),
        (HARDNESS, OWN),
        (HARDNESS, SHARED),
    ],
)
def test_the_loss_is_that_of_the_columns(
    bert, teacher, tmp_path, rows, file, loss, changes, monkeypatch
):
    monkeypatch.setattr(Watch, "calls", [])
    settings = COLUMNS | changes | ({"teacher": teacher} if "kl" in loss or "mse" in loss else {})
    config = small_config(
        bert, tmp_path, train_file=file, loss=loss, dropout=0.0, max_steps=3, **settings
    )
    train(config, objective=Watch)
    encoder = Encoder.load(teacher, max_length=16)
    for sentences, output, embedded in Watch.calls:
        batch = [rows[row] for row in sentences]
        anchors, positives, *hard = embedded.split(8)
        assert len(hard) == len(changes.get("negative_columns", "").replace("+", ""))
        inputs, extra = {"in_batch_negatives": config.in_batch_negatives}, None
        if hard and config.hard_negatives == "own":
            inputs["own_negatives"] = torch.stack(hard, dim=1)
        elif hard:
            inputs["owners"], extra = torch.arange(8).repeat(len(hard)), torch.cat(hard)
        if config.label_column:
            inputs["labels"] = [row["number"] for row in batch]
        if config.score_column:
            inputs["scores"] = [row["score"] for row in batch]
        if config.teacher:
            first, second, *hard_columns = (
                torch.tensor(encoder.encode([row[name] for row in batch])) for name in "abcd"
            )
            inputs["teacher"] = (
                first,
                second,
                torch.cat(hard_columns) if extra is not None else torch.stack(hard_columns, 1),
            )
        expected = gradlab.get_loss(loss)(anchors, positives, extra, normalize=True, **inputs)
        torch.testing.assert_close(output.loss.detach(), expected, rtol=1e-4, atol=1e-5)
    assert len(Watch.calls) == 3


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_numbers_are_labels_and_scores_in_every_format(bert, tmp_path, rows, kind):
    """And the same training, in chunks too."""
    place, losses = tmp_path / f"rows.{kind}", []
    if kind == "jsonl":
        place.write_text("\n".join(json.dumps(row) for row in rows))
    else:
        parquet.write_table(pyarrow.Table.from_pylist(rows), place)
    settings = {
        "loss": "sum(supcon, cosent)",
        "score_column": "score",
        "dropout": 0.0,
        "max_steps": 3,
    }
    settings |= {"train_file": str(place), **COLUMNS}
    for changes in ({"label_column": "kind"}, {"label_column": "number", "chunk_size": 5}):
        run = "-".join(changes)
        train(small_config(bert, tmp_path, run, **settings, **changes))
        losses.append(list(recorded(tmp_path / run, "loss").values()))
    # Adam divides their gradients by their size.
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"loss": "mhe", "label_column": "kind"},
            "mhe does not look at labels; leave label_column out",
        ),
        (
            {"loss": "cosent", "score_column": "kind"},
            "row 1: 'kind' is 'kind .'; scores are finite numbers",
        ),
        ({"loss": "supcon", "label_column": "kind", "queue_size": 8}, "in a queue have no labels"),
    ],
)
def test_what_cannot_be_told_is_refused(bert, tmp_path, file, changes, message):
    with pytest.raises(GradlabError, match=message):
        train(small_config(bert, tmp_path, train_file=file, **COLUMNS | changes))


def test_the_guide_embeds_the_sentences_of_the_batch(bert, teacher, tmp_path):
    """Of pairs, in another tokenizer: as its encoder does; what it says is left out of the loss."""
    first = make_sentences(40)
    second = [text.rsplit(" ", 2)[0] for text in first]  # so that pairs are near in any model
    file = str(write_columns(tmp_path, {"a": first, "b": second}))
    config = small_config(
        bert, tmp_path, train_file=file, column="a", positive_column="b", guide=teacher, epochs=2,
        loss="symmetric(mask(infonce, by=guide))", diagnostics_every=1,
    )  # fmt: skip
    trainer, masked = Trainer(config, callbacks=[recorder := OutputRecorder()]), []
    rows = [trainer.corpus.order[step] for step in range(6)]  # batches of 8, past the first epoch
    trainer.run()
    encoder = Encoder.load(teacher, max_length=16)
    for output, batch in zip(recorder.outputs, rows, strict=True):
        views = output.context["guide"]
        for embedded, texts in zip(views, (first, second), strict=True):
            expected = encoder.encode([texts[row] for row in batch])
            np.testing.assert_allclose(embedded.numpy(), expected, atol=2e-6)
            assert not embedded.requires_grad
        anchors, positives = (
            unit_rows(rows_of_view.detach().double())
            for rows_of_view in (output.anchors, output.positives)
        )
        guided = [unit_rows(view.double()) for view in views]
        losses = []
        for h, positive_rows, g, k in (
            (anchors, positives, *guided),
            (positives, anchors, *guided[::-1]),
        ):
            cosines, marks = h @ positive_rows.T / 0.05, g @ k.T
            for i in range(8):
                left = [j for j in range(8) if j != i and marks[i, j] <= marks[i, i]]
                masked.append(7 - len(left))
                losses.append(float(torch.logsumexp(cosines[i, [i, *left]], 0) - cosines[i, i]))
        assert float(output.loss.detach()) == pytest.approx(np.mean(losses), rel=1e-4, abs=1e-5)
    assert 0 < np.mean(masked) < 7
    assert max(trainer.history.series("diagnostics", "masked_pairs")[1]) > 0
    assert not any("guide" in name for name in final_weights(config.output))


def test_columns_that_are_found_by_name_have_scores_and_negatives(tmp_path):
    file = str(write_columns(tmp_path, {"text": ["a", "b"], "score": [1.0, 2.0]}))
    config = small_config("model", tmp_path, train_file=file, loss="cosent", score_column="score")
    with pytest.raises(GradlabError, match="scores are of pairs; name the column of positives"):
        training_file(config)
    config = small_config("model", tmp_path, train_file=file, in_batch_negatives=False)
    with pytest.raises(GradlabError, match="no negatives are left"):
        training_file(config)
    texts = {name: ["a", "b"] for name in ("text", "positive", "negative")}
    file = str(write_columns(tmp_path, texts))
    config = small_config("model", tmp_path, train_file=file, in_batch_negatives=False)
    assert training_file(config).roles.negatives == ("negative",)
