"""Arguments of a batch reach a loss given as code whose signature has them, in every function."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy, normalize

import gradlab
from gradlab.atlas.entries import measure
from gradlab.decomposition.batch_arguments import needed_names
from gradlab.errors import GradlabError
from gradlab.gradient.statistics import diagnose
from gradlab.monitor.watch_folder import notes_of
from gradlab.monitor.watched_loss import named_arguments

TAU = 0.2


def softmax(logits):
    return cross_entropy(logits / TAU, torch.arange(len(logits)))


def with_labels(anchors, positives, *, labels):
    own = torch.eye(len(labels), dtype=torch.bool)
    same = (labels[:, None] == labels) & ~own
    return softmax((anchors @ positives.T).masked_fill(same, -100.0))


def with_teacher(anchors, positives, *, teacher):
    target = (teacher[0] @ teacher[1].T / TAU).softmax(1)
    return -(target * (anchors @ positives.T / TAU).log_softmax(1)).sum(1).mean()


def with_own(anchors, positives, *, own_negatives):
    own = torch.einsum("nd,nhd->nh", anchors, own_negatives)
    return softmax(torch.cat([anchors @ positives.T, own], 1))


def with_extra(anchors, positives, extra_negatives):
    return softmax(anchors @ torch.cat([positives, extra_negatives]).T)


def with_a_third(anchors, positives, queue):
    return with_extra(anchors, positives, queue)


def rows(*shape, seed=0):
    draw = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return normalize(draw, dim=-1)


ARGUMENTS = {
    "labels": (with_labels, torch.tensor([0, 0, 1, 2, 1, 3])),
    "teacher": (with_teacher, (rows(6, 8, seed=2), rows(6, 8, seed=3))),
    "own_negatives": (with_own, rows(6, 2, 8, seed=4)),
    "extra_negatives": (with_extra, rows(5, 8, seed=5)),
}


@pytest.fixture
def views():
    anchors = rows(6, 8)
    return anchors, normalize(anchors + 0.5 * rows(6, 8, seed=1), dim=-1)


@pytest.mark.parametrize("name", ARGUMENTS)
def test_an_argument_reaches_code_in_every_function(name, views, tmp_path):
    loss, value = ARGUMENTS[name]
    bound = {name: value}

    def closed_over(anchors, positives):  # the same loss, of two views
        if name == "extra_negatives":
            return loss(anchors, positives, value)
        return loss(anchors, positives, **bound)

    assert float(gradlab.get_loss(loss)(*views, **bound)) == pytest.approx(
        float(closed_over(*views))
    )
    components = gradlab.components(loss, *views, **bound)
    decomposition = gradlab.decompose(loss, *views, **bound)
    torch.testing.assert_close(components.total_push, decomposition.total_push)
    torch.testing.assert_close(components.relative_push, decomposition.relative_push)
    statistics = diagnose(loss, *views, **bound)
    assert statistics["relative_push"] == pytest.approx(float(components.relative_push.mean()))
    flow = gradlab.flow(loss, *views, **bound, last_time=0.1)
    assert np.isfinite(flow.curves["positive_cosine"]).all()

    watched = gradlab.watch(loss, output=tmp_path / "watched", every=1)
    leaves = [view.clone().requires_grad_() for view in views]
    watched(*leaves, **bound).backward()
    assert not notes_of(watched.watch._probes)
    recorded = watched.watch.history.at("diagnostics", "relative_push", 0)
    assert recorded == pytest.approx(float(components.relative_push.mean()), rel=1e-9)
    push = watched.watch.history.at("diagnostics", "total_push", 0)
    assert push == pytest.approx(float(components.total_push.mean()), rel=1e-9)


@pytest.mark.parametrize("name", ARGUMENTS)
def test_what_a_drawn_batch_lacks_is_refused_in_one_line(name, views):
    loss, _ = ARGUMENTS[name]
    calls = {
        "components": lambda: gradlab.components(loss, *views),
        "decompose": lambda: gradlab.decompose(loss, *views),
        "simulate": lambda: gradlab.simulate(loss, mu_pos=[0.5], mu_neg=[1.0], negatives=5),
        "atlas": lambda: measure(loss, progress=False),
        "plot_curves": lambda: gradlab.plot_curves([loss]),
        "explore": lambda: gradlab.explore(gradlab.get_loss(loss), progress=False),
    }
    for route, call in calls.items():
        with pytest.raises(
            GradlabError, match=f"needs {name}=: pass it|learns from a {name}"
        ) as refusal:
            call()
        assert "\n" not in str(refusal.value), route


def test_a_third_argument_without_a_default_is_that_of_extra_negatives(views):
    assert needed_names(with_a_third) == ("extra_negatives",)
    assert needed_names(with_labels) == ("labels",)
    assert needed_names(lambda a, p, temperature=0.1: a) == ()
    with pytest.raises(GradlabError, match="with_a_third needs extra_negatives=: pass it"):
        gradlab.decompose(with_a_third, *views)


def test_arguments_of_a_call_have_the_names_of_the_signature():
    anchors, positives, teacher = rows(3, 4), rows(3, 4, seed=1), rows(3, 4, seed=2)

    def loss(anchors, positives, teacher=None, temperature=0.1, labels=None):
        return anchors

    for args, kwargs in (
        ((anchors, positives, teacher), {}),
        ((anchors, positives), {"teacher": teacher}),
        ((anchors,), {"positives": positives, "teacher": teacher, "temperature": 0.2}),
    ):
        views, context = named_arguments(loss, args, kwargs)
        assert [view for view in views if isinstance(view, torch.Tensor)] == [anchors, positives]
        assert list(context) == ["teacher"]
    views, context = named_arguments(torch.nn.functional.mse_loss, (anchors, positives), {})
    assert views == [anchors, positives]
    assert context == {}


def test_a_held_queue_is_named_by_every_function_that_refuses_it(views):
    queue = normalize(torch.randn(20, views[0].shape[1], generator=torch.manual_seed(0)), dim=1)

    def with_queue(anchors, positives):
        own = (anchors * positives).sum(1, keepdim=True)
        logits = torch.cat([own, anchors @ queue.to(anchors).T], 1) / TAU
        return cross_entropy(logits, torch.zeros(len(anchors), dtype=torch.long))

    routes = {
        "components": lambda: gradlab.components(with_queue, *views),
        "decompose": lambda: gradlab.decompose(with_queue, *views),
        "diagnose": lambda: diagnose(with_queue, *views),
        "flow": lambda: gradlab.flow(with_queue, *views, steps=2, progress=False),
        "simulate": lambda: gradlab.simulate(with_queue, grid=2, negatives=5, progress=False),
        "atlas": lambda: measure(with_queue, progress=False),
        "explore": lambda: gradlab.explore(with_queue, progress=False),
        "plot_curves": lambda: gradlab.plot_curves([with_queue]),
    }
    for route, call in routes.items():
        with pytest.raises(
            GradlabError, match=r"queue of shape \(20, .*extra_negatives"
        ) as refusal:
            call()
        assert "\n" not in str(refusal.value), route
