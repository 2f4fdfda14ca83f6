"""Flows take what `gradlab.components` takes, refuse bad input, and draw themselves."""

import dataclasses
import json
import re

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

import gradlab
from gradlab.errors import GradlabError
from gradlab.flow import Flows, flow, minibatches, synthetic_batch
from gradlab.flow import velocity as velocity_module
from gradlab.flow.picture import animate
from gradlab.flow.result import Flow
from gradlab.flow.velocity import VelocityField
from gradlab.losses.registry import get_loss

RNG = np.random.default_rng(0)


def unit(rows):
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


N, M, H, D = 6, 3, 2, 5
VIEWS = unit(RNG.normal(size=(2, N, D)))
EXTRA, OWN = unit(RNG.normal(size=(M, D))), unit(RNG.normal(size=(N, H, D)))
CASES = {
    "extra negatives": ("infonce(temperature=0.3)", {"extra_negatives": EXTRA}),
    "own negatives": ("infonce(temperature=0.3)", {"own_negatives": OWN}),
    "only own": ("infonce", {"own_negatives": OWN, "in_batch_negatives": False}),
    "labels": ("infonce(temperature=0.3)", {"labels": [0, 0, 1, 1, 2, 2]}),
    "relation": ("supcon", {"relation": 2 * np.eye(N, dtype=int) - 1}),
    "mask": ("mask(infonce, by=given)", {"mask": np.eye(N, k=1, dtype=bool)}),
    "guide": ("mask(infonce, by=guide)", {"guide": tuple(RNG.normal(size=(2, N, 3)))}),
    "owners": (
        "hardness(infonce, alpha=1, on=hard)",
        {"extra_negatives": EXTRA, "owners": [0, 4, -1]},
    ),
    "scores": ("cosent", {"scores": np.linspace(0, 1, N)}),
    "teacher's scores": ("kl", {"teacher": RNG.normal(size=(N, N))}),
    "teacher's rows": (
        "embedding_distillation",
        {"teacher": tuple(unit(RNG.normal(size=(2, N, D))))},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_velocity_is_that_of_components(case):
    loss, context = CASES[case]
    ended = flow(loss, *VIEWS, **context, steps=4, tolerance=1e-3)
    sides = gradlab.components(loss, ended.anchors, ended.positives, **context, side="both")
    fastest = max(np.linalg.norm(side.gradient(exact=True), axis=1).max() for side in sides)
    assert 0 < fastest == pytest.approx(ended.last["speed"], rel=1e-9)
    assert np.abs(ended.anchors - VIEWS[0]).max() > 1e-4
    for name in ("extra_negatives", "own_negatives"):
        if name in context:
            np.testing.assert_array_equal(ended.embeddings[name], context[name])


def test_negatives_move_if_asked():
    context = {"extra_negatives": EXTRA, "own_negatives": OWN, "negatives_move": True}
    ended = flow("infonce(temperature=0.3)", *VIEWS, **context, steps=8)
    for name in ("extra_negatives", "own_negatives"):
        rows = ended.embeddings[name]
        assert rows.shape == context[name].shape
        assert np.abs(rows - context[name]).max() > 1e-3
        np.testing.assert_allclose(np.linalg.norm(rows, axis=-1), 1, atol=1e-14)


def test_batches_have_what_their_sentences_have():
    """Forces of a batch equal those of its arguments written out by hand."""
    arguments = {
        "anchors": torch.from_numpy(VIEWS[0]),
        "positives": torch.from_numpy(VIEWS[1]),
        "extra_negatives": torch.from_numpy(EXTRA),
        "own_negatives": torch.from_numpy(OWN),
        "owners": [0, 4, -1],
        "labels": [0, 0, 1, 1, 2, 2],
        "sentences": list(range(N + M + N * H)),
        "mask": np.arange(N * (N + M + H)).reshape(N, -1) % 7 == 0,
        "guide": tuple(
            torch.from_numpy(unit(RNG.normal(size=kind.shape))) for kind in (*VIEWS, EXTRA, OWN)
        ),
    }
    batches = minibatches.Minibatches(
        get_loss("infonce"),
        {**arguments, "mask": None, "guide": None, "sentences": None},
        ("anchors",),
        2,
        False,
        RNG,
    )
    rows = torch.tensor([4, 1])
    batches._arguments = arguments
    cut, columns = batches._cut(rows)
    assert columns.tolist() == [1, 2]  # the negative of sentence 0 is not in the batch
    np.testing.assert_array_equal(cut["anchors"], VIEWS[0][[4, 1]])
    np.testing.assert_array_equal(cut["own_negatives"], OWN[[4, 1]])
    np.testing.assert_array_equal(cut["extra_negatives"], EXTRA[[1, 2]])
    assert cut["owners"].tolist() == [0, -1]
    assert cut["labels"].tolist() == [2, 0]
    own = [N + M + 4 * H, N + M + 4 * H + 1, N + M + H, N + M + H + 1]
    assert cut["sentences"].tolist() == [4, 1, N + 1, N + 2, *own]
    np.testing.assert_array_equal(
        cut["mask"], arguments["mask"][[4, 1]][:, [4, 1, N + 1, N + 2, N + M, N + M + 1]]
    )
    for kind, whole, places in zip(
        cut["guide"], arguments["guide"], ([4, 1], [4, 1], [1, 2], [4, 1]), strict=True
    ):
        np.testing.assert_array_equal(kind, whole[places])


def test_a_step_of_a_batch_moves_its_rows_only():
    ended = flow(
        "infonce(temperature=0.3)",
        *VIEWS,
        own_negatives=OWN,
        negatives_move=True,
        batch_size=2,
        steps=1,
    )
    for name, start in (("anchors", VIEWS[0]), ("positives", VIEWS[1]), ("own_negatives", OWN)):
        moved = (np.abs(ended.embeddings[name] - start) > 1e-9).reshape(N, -1).any(1)
        assert moved.sum() == 2
    assert ended.last["time"] > 0


@pytest.mark.parametrize("loss", ["infonce(temperature=0.3)", "symmetric(arccon)", "barlow_twins"])
def test_blocks_have_the_same_velocity(loss, monkeypatch):
    """Losses that need all similarities at once fall back on them."""
    arguments = {"anchors": torch.from_numpy(VIEWS[0]), "positives": torch.from_numpy(VIEWS[1])}
    moving = ("anchors", "positives")
    plain = VelocityField(get_loss(loss), arguments, moving)
    monkeypatch.setattr(velocity_module, "BLOCKS_FROM", 2)
    blocks = VelocityField(get_loss(loss), arguments, moving)
    assert blocks._blockwise is not None
    assert plain._blockwise is None
    velocity, velocity_of_blocks = plain(plain.start), blocks(blocks.start)
    np.testing.assert_allclose(velocity_of_blocks.rows, velocity.rows, atol=1e-12)
    assert velocity_of_blocks.value == pytest.approx(velocity.value)
    assert plain.is_scalar == blocks.is_scalar


def test_half_precision_and_torch_give_numpy_in_float64():
    rows = torch.from_numpy(VIEWS).float()
    ended = flow("infonce(temperature=0.3)", *rows, steps=3)
    exact = flow("infonce(temperature=0.3)", *VIEWS, steps=3)
    assert ended.anchors.dtype == np.float64
    np.testing.assert_allclose(ended.anchors, exact.anchors, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(ended.anchors, axis=1), 1, atol=1e-15)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"steps": 0}, "steps must be a whole number of at least 1"),
        ({"tolerance": 0.0}, "tolerance must be"),
        ({"last_time": -1.0}, "last_time must be"),
        ({"side": "left"}, "unknown side"),
        ({"batch_size": 7}, "batch_size = 7 exceeds the 6 sentences"),
        ({"batch_size": 1}, "leaves no negatives"),
        ({"groups": [1, 2]}, "groups must be 6 labels"),
        ({"loss": "kl"}, "teacher"),
        (
            {"loss": "kl", "teacher": np.eye(N), "batch_size": 3},
            "batch_size does not go with teacher=",
        ),
        ({"anchors": 2 * VIEWS[0]}, "not unit vectors"),
        ({"anchors": VIEWS[0][:1], "positives": VIEWS[1][:1]}, "leaves no negatives"),
        ({"temperature": 0.1}, "hyper-parameter of the loss"),
    ],
)
def test_bad_input_is_refused_in_a_line(options, words):
    arguments = {"loss": "infonce", "anchors": VIEWS[0], "positives": VIEWS[1]} | options
    with pytest.raises(GradlabError, match=words) as error:
        flow(**arguments)
    assert "\n" not in str(error.value)


def test_synthetic_batches_have_topics_duplicates_and_a_common_direction():
    batch = synthetic_batch()
    assert batch.anchors.shape == (120, 64)
    assert np.bincount(batch.topics).tolist() == [4] * 30
    cosines = batch.anchors @ batch.anchors.T
    same = batch.topics[:, None] == batch.topics
    np.fill_diagonal(cosines, np.nan)
    assert 0.55 < np.nanmean(cosines[same]) < 0.85
    assert 0.15 < np.nanmean(cosines[~same]) < 0.4
    assert ((cosines > 0.97).sum(1) == 1).sum() == 8  # four near-copies
    assert np.diag(batch.anchors @ batch.positives.T).mean() == pytest.approx(0.92, abs=0.02)
    assert np.linalg.norm(batch.anchors.mean(0)) > 0.4
    for name, number in {"topics": 0, "duplicates": 31, "dim": 1, "sentences": 0}.items():
        with pytest.raises(GradlabError):
            synthetic_batch(**{name: number})


@pytest.fixture(scope="module")
def flows():
    batch = synthetic_batch(topics=3, sentences=2, dim=4, duplicates=1)
    losses = "infonce(temperature=0.5)", "mpt"
    return Flows(
        flow(loss, batch.anchors, batch.positives, groups=batch.topics, steps=60) for loss in losses
    )


def test_flows_draw_and_tabulate_themselves(flows, tmp_path, monkeypatch):
    monkeypatch.setattr("gradlab.flow.picture.FRAMES", 7)
    frame = flows.to_frame()
    assert set(frame["loss"]) == {"infonce(temperature=0.5)", "mpt"}
    assert (frame.groupby("loss")["time"].diff().dropna() > 0).all()
    first = frame.groupby("loss").first()
    assert first["positive_cosine"].nunique() == 1
    assert len(flows.plot()[1]) == 4
    assert len(flows[0].plot()[1]) == 2
    figure, ax = flows[0].plot()
    assert flows[0].plot(ax[0])[0] is figure
    assert isinstance(flows[0].to_frame(), pd.DataFrame)
    assert "same_group_cosine" in flows[0]._repr_html_()
    assert "infonce" in repr(flows)
    assert repr(flows[1]) in repr(flows)
    with pytest.raises(GradlabError, match="one by one"):
        flows.plot(ax[0])
    film = animate(flows, tmp_path / "film.gif", False)
    with Image.open(film) as images:
        assert images.n_frames == 7
    short = dataclasses.replace(flows[0], path=flows[0].path[:1])
    with pytest.raises(GradlabError, match="too large for a film"):
        animate([short], tmp_path / "none.gif")
    json.dumps(flows[0].manifest()["settings"])
    assert isinstance(flows[0], Flow)


def test_one_step_is_called_one_step():
    rows = np.eye(2)
    ended = gradlab.flow("infonce", rows, rows[::-1], steps=1)
    assert re.search(r"2 sentences in 2 dimensions.* after 1 step$", ended.headline())
