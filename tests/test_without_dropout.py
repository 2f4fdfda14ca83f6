"""A batch that is embedded once more without dropout: what it tells, and that training stays."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

import gradlab
from gradlab.gradient.statistics import ranking_accuracy
from gradlab.monitor.metrics import TRAIN
from gradlab.monitor.verdicts.records import RANKED_IN_USE
from gradlab.monitor.without_dropout import TextRows, numbers_in_use
from tests.sentence_training import columns_of, losses, make_trainer, weights
from tests.test_watch import mnrl


def trained(bert, folder, *, watched=True, loss=mnrl, table=None, **arguments):
    """A trainer that has trained, its watch, and the states of random generators at the end."""
    table = columns_of(48) if table is None else table
    trainer = make_trainer(bert, folder, loss, table, max_steps=4, **arguments)
    watch = gradlab.watch(trainer, every=1) if watched else None
    trainer.train()
    states = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()  # noqa: NPY002
    return trainer, watch, states


def ranked(watch):
    return watch.history.points(TRAIN, RANKED_IN_USE)


def test_it_is_the_ranking_accuracy_of_the_encoder_in_use(bert, tmp_path):
    trainer, watch, _ = trained(bert, tmp_path)
    ((step, share),) = ranked(watch).items()
    assert step == 4
    kept = trainer.model.training
    with torch.no_grad():
        columns = next(iter(watch_rows(trainer).values())).columns
        trainer.model.eval()
        views = [trainer.model(dict(column))["sentence_embedding"].double() for column in columns]
    trainer.model.train(kept)
    first, second = (torch.nn.functional.normalize(view, dim=1) for view in views)
    assert share == pytest.approx(ranking_accuracy(first, second))


def watch_rows(trainer) -> dict[str, TextRows]:
    """The rows that the callback of a trainer has left."""
    callbacks = trainer.callback_handler.callbacks
    (callback,) = [one for one in callbacks if isinstance(one, gradlab.WatchCallback)]
    return callback._rows


def test_training_and_what_follows_stay_the_same(bert, tmp_path):
    plain, _, expected = trained(bert, tmp_path / "plain", watched=False)
    trainer, watch, states = trained(bert, tmp_path / "watched")
    assert ranked(watch)
    assert torch.equal(states[0], expected[0])
    assert states[1:] == expected[1:]
    one, other = weights(plain.model), weights(trainer.model)
    assert all(torch.equal(one[name], other[name]) for name in one)
    buffers = zip(plain.model.buffers(), trainer.model.buffers(), strict=True)
    assert all(torch.equal(*both) for both in buffers)
    modes = [[module.training for module in t.model.modules()] for t in (plain, trainer)]
    assert modes[0] == modes[1]


def test_modes_of_modules_stay_even_where_the_encoder_fails(bert, tmp_path):
    trainer, watch, _ = trained(bert, tmp_path)
    trainer.model.train()
    next(trainer.model.children()).eval()
    modes = [module.training for module in trainer.model.modules()]
    rows = {"": TextRows([{"no_tokens": 1}, {"no_tokens": 1}], None)}
    assert numbers_in_use(trainer, rows, watch.history) == {}
    assert [module.training for module in trainer.model.modules()] == modes


def test_views_that_are_told_apart_in_training_are_not_embedded_again(bert, tmp_path):
    trainer, watch, _ = trained(bert, tmp_path)
    for step in watch.history.points("diagnostics", "positive_cosine"):
        apart = {"positive_cosine": 1.0, "negative_cosine": 0.2}
        watch.history.add(step, "diagnostics", apart)
    assert numbers_in_use(trainer, watch_rows(trainer), watch.history) == {}


def test_rows_of_pairs_with_labels_may_be_no_pairs(bert, tmp_path):
    table = columns_of(48) | {"label": [0.5] * 48}
    _, watch, _ = trained(bert, tmp_path, loss=losses.CosineSimilarityLoss, table=table)
    assert not ranked(watch)
