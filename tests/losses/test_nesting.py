"""Nested losses: limits, one route of `symmetric`, and values that nobody evaluates for shapes."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import gradlab
from gradlab.batch import Batch
from gradlab.losses import registry
from gradlab.losses.batch_loss import BatchLoss
from gradlab.losses.registry import loss_class, loss_names
from tests.losses.naive_losses import assert_closed_form_is_autograd
from tests.losses.test_several_positives import (
    assert_blocks_are_the_plain_loss,
    rows_with_duplicates,
)


def nested(name: str, depth: int) -> str:
    return f"{name}(" * depth + "infonce" + ")" * depth


def test_a_nested_loss_looks_at_each_loss_once() -> None:
    loss = gradlab.get_loss(nested("symmetric", 8))
    assert len(loss.within) == loss.depth == 9
    assert loss.evaluations == 256
    assert [base.name for base in loss.bases] == ["infonce"]
    anchors, positives, *_ = rows_with_duplicates()
    plain = gradlab.get_loss("symmetric(infonce)")
    assert loss(anchors, positives) == pytest.approx(plain(anchors, positives), rel=1e-13)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (nested("symmetric", 16), "at most 256 evaluations of others; symmetric would take 512"),
        (nested("mask", 20), "at most 16 losses can be nested in each other"),
        (nested("symmetric", 100), "parentheses 100 deep are no loss: at most 32"),
        (nested("symmetric", 10_000), "characters is no loss: at most 10,000"),
        (f"sum({', '.join(['infonce'] * 300)})", "sum would take 300"),
    ],
)
def test_depth_and_length_have_limits(text: str, message: str) -> None:
    with pytest.raises(gradlab.GradlabError, match=message):
        gradlab.get_loss(text)


def test_losses_of_python_have_the_same_limits() -> None:
    loss = gradlab.get_loss("infonce")
    with pytest.raises(gradlab.GradlabError, match="nested in each other; mask would be around 16"):
        for _ in range(17):
            loss = gradlab.get_loss("mask", loss=loss)


@pytest.mark.parametrize(
    "text",
    [
        "symmetric(per_prefix(infonce, dims=2+4))",
        "symmetric(sum(infonce, per_prefix(infonce, dims=2+4), weights=1+2))",
        "symmetric(sum(infonce, per_prefix(barlow_twins, dims=2+4), gor))",
        "symmetric(infonce, reverse=per_prefix(mhe, dims=3+5))",
        "sum(gor, symmetric(per_prefix(infonce, dims=2+4)))",
    ],
)
def test_symmetric_changes_prefixes(text: str) -> None:
    anchors, positives, extra, _ = rows_with_duplicates()
    for queue in (None, extra):
        if queue is None or "gor" not in text:
            assert_closed_form_is_autograd(text, (anchors, positives, queue))
            assert_blocks_are_the_plain_loss(text, (anchors, positives, queue), {})


def test_symmetric_has_terms_and_statistics_of_both_sides() -> None:
    anchors, positives, *_ = rows_with_duplicates()
    for name in ("infonce", "siglip", "supcon"):
        sides = gradlab.components(f"symmetric({name})", anchors, positives, side="both")
        assert [len(components.terms) for components in sides] == [2, 2]
    sides = gradlab.components(
        "symmetric(mask(infonce, above=0.3))", anchors, positives, side="both"
    )
    shares = [
        gradlab.components("mask(infonce, above=0.3)", *rows).statistics["masked_pairs"]
        for rows in ((anchors, positives), (positives, anchors))
    ]
    assert [components.statistics["masked_pairs"] for components in sides] == shares


def test_whether_a_loss_has_one_value_is_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    anchors, positives, *_ = rows_with_duplicates()
    for name in loss_names():
        loss = gradlab.get_loss(name)
        scalar = loss.value_of(Batch(anchors, positives)).ndim == 0
        for text in (name, f"symmetric({name})", f"sum({name}, {name})"):
            assert gradlab.get_loss(text).is_scalar(Batch(anchors, positives)) == scalar
        if isinstance(loss, BatchLoss):
            assert loss.has_one_value == scalar

    def unwanted(*_):
        raise AssertionError("evaluated")

    loss = gradlab.get_loss("symmetric(sum(infonce, barlow_twins, cosent))")
    for name in ("barlow_twins", "cosent"):
        monkeypatch.setattr(loss_class(name), "value", unwanted)
    gradlab.components(loss, anchors, positives, side="both")


def test_threads_that_load_own_losses_at_once_all_get_them(tmp_path, monkeypatch) -> None:
    """The import of the file waits for the second thread, which has to wait for the import."""
    file = tmp_path / "own_losses.py"
    file.write_text(
        "import threading\n"
        "from gradlab.losses import PairLoss, register\n"
        "from gradlab.losses.infonce import InfoNCE\n"
        "[events] = [t.events for t in threading.enumerate() if hasattr(t, 'events')][:1]\n"
        "events[0].set()\n"
        "events[1].wait(0.5)\n"
        "@register('loaded_by_threads')\n"
        "class LoadedByThreads(InfoNCE):\n"
        "    formula = '0'\n",
        encoding="utf-8",
    )
    monkeypatch.setenv("GRADLAB_LOSSES", str(file))
    # No later test sees the loss.
    monkeypatch.setattr(registry._registry, "classes", dict(registry._registry.classes))
    importing, answered = threading.Event(), threading.Event()
    answers: list[object] = []

    def ask(before: threading.Event | None, after: threading.Event | None) -> None:
        if before is not None:
            before.wait(5)
        try:
            answers.append(gradlab.get_loss("loaded_by_threads").name)
        except gradlab.GradlabError as error:
            answers.append(error)
        if after is not None:
            after.set()

    threads = [
        threading.Thread(target=ask, args=(None, None)),
        threading.Thread(target=ask, args=(importing, answered)),
    ]
    for thread in threads:
        thread.events = (importing, answered)
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == ["loaded_by_threads"] * 2


def test_anchors_alone_have_the_components_of_both_sides() -> None:
    anchors, positives, *_ = rows_with_duplicates()
    for text in ("symmetric(infonce)", "sum(symmetric(met), gor)", "per_prefix(dcl, dims=2+4)"):
        alone = gradlab.components(text, anchors, positives)
        together, _ = gradlab.components(text, anchors, positives, side="both")
        np.testing.assert_array_equal(alone.gradient(), together.gradient())
        np.testing.assert_array_equal(alone.weight, together.weight)
