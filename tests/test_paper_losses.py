"""What `decompose` says first of losses of recent papers, as their authors would."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
import torch

import gradlab
from gradlab.decomposition.findings import findings_of
from gradlab.gradient.verification import paired_batch, random_batch
from tests import paper_losses as paper


@pytest.fixture(scope="module")
def views():
    return tuple(map(torch.from_numpy, paired_batch(np.random.default_rng(0), 24, 16)))


@pytest.fixture(scope="module")
def teacher():
    return tuple(map(torch.from_numpy, paired_batch(np.random.default_rng(1), 24, 16)))


def rows(count=24):
    return torch.from_numpy(random_batch(np.random.default_rng(3), count, 16)[0])


def said_first(loss, views, **context):
    """The sentences on what is unusual, without the comparison with registered losses."""
    return " ".join(gradlab.decompose(loss, *views, **context).findings)


def test_focal_infonce_has_a_ratio_that_follows_the_positive(views):
    decomposition = gradlab.decompose(paper.focal_infonce, *views)
    assert "Its ratio depends on the positive's angle" in " ".join(decomposition.findings)
    assert 0 < float(decomposition.relative_push.mean()) < 1


def test_a_teacher_reaches_the_loss_and_its_attraction_is_said(views, teacher):
    words = said_first(paper.rankcse, views, teacher=teacher)
    assert "attracts some negatives" in words
    with pytest.raises(gradlab.GradlabError, match="has no argument teacher"):
        gradlab.decompose(paper.energy, *views, teacher=teacher)
    loss = gradlab.get_loss(paper.rankcse)
    components = gradlab.components(loss, *views, teacher=teacher)
    expected = gradlab.decompose(paper.rankcse, *views, teacher=teacher)
    torch.testing.assert_close(components.total_push, expected.total_push)
    assert float(loss(*views, teacher=teacher)) == pytest.approx(expected.value)


def test_down_weighted_negatives_lose_their_weight_above_a_threshold(views):
    decomposition = gradlab.decompose(paper.debcse, *views)
    plain = gradlab.decompose(functools.partial(paper.debcse, threshold=2.0), *views)
    assert float(decomposition.hardest_share.mean()) < float(plain.hardest_share.mean())
    assert plain.summary().startswith("This is InfoNCE with temperature 0.05")


def test_hard_negatives_are_extra_negatives_by_name(views):
    decomposition = gradlab.decompose(paper.simcse_hard, *views, rows())
    assert decomposition.summary().startswith("This is InfoNCE with temperature 0.05")
    assert decomposition.extra.any()

    def with_temperature(anchors, positives, temperature=0.05):
        return paper.wrong_sign(anchors, positives) * temperature

    with pytest.raises(gradlab.GradlabError, match="takes no extra negatives"):
        gradlab.decompose(with_temperature, *views, rows())


def test_a_queue_is_recognised(views):
    with pytest.raises(
        gradlab.GradlabError, match=r"queue of shape \(40, 16\): give these rows as"
    ):
        gradlab.decompose(paper.Queue(rows(40)), *views)
    queue = rows(40)

    def closure(anchors, positives):
        return paper.Queue(queue)(anchors, positives)

    with pytest.raises(gradlab.GradlabError, match="extra_negatives="):
        gradlab.decompose(closure, *views)


def test_a_temperature_per_sample_is_used_per_row(views):
    temperatures = torch.linspace(0.05, 0.5, 24).double()
    decomposition = gradlab.decompose(paper.LearnedTemperature(temperatures), *views)
    logits = (views[0] @ views[1].T / temperatures[:, None]).softmax(1)
    push = (1 - logits.diagonal()) / temperatures / 24
    torch.testing.assert_close(decomposition.total_push, push)


@pytest.mark.parametrize("loss", [paper.angle, paper.vicreg])
def test_losses_of_coordinates_are_refused(loss, views):
    with pytest.raises(gradlab.GradlabError, match="is not a function of dot products"):
        gradlab.decompose(loss, *views)


def test_a_sign_error_is_the_first_thing_said(views):
    words = said_first(paper.wrong_sign, views)
    assert words.startswith(
        "It pushes 24 of 24 positives away from their anchors (is a sign wrong?)"
    )
    assert "It attracts all negatives" in words


def test_an_energy_with_a_shell_pushes_there():
    decomposition = gradlab.decompose(
        paper.energy, *map(torch.from_numpy, paired_batch(np.random.default_rng(0), 24, 4))
    )
    assert "Its weight is largest for negatives with a cosine near 0.39" in " ".join(
        decomposition.findings
    )


def test_findings_of_made_coefficients():
    cosines = np.tile(np.linspace(-1, 1, 60), (12, 1))
    angles, pull = np.linspace(0.2, 1.4, 12), np.ones(12)
    growing = np.exp(cosines)
    assert findings_of(growing / growing.sum(1, keepdims=True), cosines, pull, angles) == []
    humps = np.exp(-((cosines - 0.6) ** 2) / 0.02) + np.exp(-((cosines + 0.5) ** 2) / 0.02)
    (sentence,) = findings_of(humps, cosines, pull * humps.sum(1), angles)
    assert sentence.startswith("Its weight has 2 humps")
    (attracts,) = findings_of(growing - math.exp(-0.5), cosines, pull, angles)
    assert attracts.startswith("It attracts negatives with a cosine below -0.5")
    (follows,) = findings_of(growing, cosines, angles * growing.sum(1), angles)
    assert follows.startswith("Its ratio depends on the positive's angle")
