"""What `decompose` says first of losses of recent papers, as their authors would."""

from __future__ import annotations

import functools
import math
import re

import numpy as np
import pytest
import torch

import gradlab
from gradlab.decomposition.findings import findings_of
from gradlab.gradient.verification import BATCHES, paired_batch, random_batch
from tests import paper_losses as paper


@pytest.fixture(scope="module")
def views():
    return tuple(map(torch.from_numpy, paired_batch(np.random.default_rng(0), 24, 16)))


@pytest.fixture(scope="module")
def teacher():
    return tuple(map(torch.from_numpy, paired_batch(np.random.default_rng(1), 24, 16)))


def drawn(kind, count, dim, seed):
    return tuple(map(torch.from_numpy, BATCHES[kind](np.random.default_rng(seed), count, dim)))


def rows(count=24):
    return torch.from_numpy(random_batch(np.random.default_rng(3), count, 16)[0])


def said_first(loss, views, **context):
    """The sentences on what is unusual, without the comparison with registered losses."""
    return " ".join(gradlab.decompose(loss, *views, **context).findings)


def test_focal_infonce_has_a_ratio_that_follows_the_positive(views):
    decomposition = gradlab.decompose(paper.focal_infonce, *views)
    assert "Its ratio depends on the positive's angle" in " ".join(decomposition.findings)
    assert 0 < float(decomposition.relative_push.mean()) < 1


def test_focal_infonce_is_sharper_for_near_negatives():
    """Where all cosines are positive: the temperature is τ/(2s + m)."""
    words = said_first(paper.focal_infonce, drawn("anisotropic", 32, 24, 5))
    match = re.match(r"Its weight grows faster .* temperature (\S+) at a cosine of (\S+),", words)
    temperature, cosine = map(float, match.groups())
    assert temperature == pytest.approx(0.05 / (2 * cosine + 0.3), rel=0.1)


def test_a_teacher_reaches_the_loss_and_its_attraction_is_said(views, teacher):
    words = said_first(paper.rankcse, views, teacher=teacher)
    assert "attracts some negatives" in words
    assert "sign" not in words
    with pytest.raises(gradlab.GradlabError, match="has no argument teacher"):
        gradlab.decompose(paper.energy, *views, teacher=teacher)
    loss = gradlab.get_loss(paper.rankcse)
    components = gradlab.components(loss, *views, teacher=teacher)
    expected = gradlab.decompose(paper.rankcse, *views, teacher=teacher)
    torch.testing.assert_close(components.total_push, expected.total_push)
    assert float(loss(*views, teacher=teacher)) == pytest.approx(expected.value)


# Batches on which no limit of a sentence was chosen.
FRESH = [("paired", 30, 20, 11), ("clustered", 28, 40, 12), ("anisotropic", 40, 12, 13)]


@pytest.mark.parametrize("batch", [("paired", 24, 16, 0), *FRESH], ids=str)
def test_down_weighted_negatives_are_named_with_their_threshold(batch):
    views = drawn(*batch)
    words = said_first(paper.debcse, views)
    match = re.match(
        r"It counts negatives with a cosine above (\S+) only 0.5 times as much, "
        r"beside a softmax of temperature 0.05\.",
        words,
    )
    cosines = views[0] @ views[1].T
    negatives = cosines[paper._off_diagonal(cosines)]
    below, above = negatives[negatives < 0.6].max(), negatives[negatives > 0.6].min()
    assert below - 0.006 < float(match[1]) < above + 0.006
    assert said_first(functools.partial(paper.debcse, threshold=2.0), views) == ""


@pytest.mark.parametrize("batch", FRESH, ids=str)
def test_pairs_left_out_by_a_fixed_model_are_counted(batch):
    views = drawn(*batch)
    noise = torch.randn(2, *views[0].shape, generator=torch.Generator().manual_seed(1))
    teacher = tuple(
        torch.nn.functional.normalize(rows + 0.15 * draw, dim=1)
        for rows, draw in zip(views, noise.double(), strict=True)
    )
    words = said_first(paper.dclr, views, teacher=teacher)
    match = re.match(r"It leaves (\d+) of \d+ pairs out, not by their cosine; .* 0.05\.", words)
    # What is out below all that remain in its row could be out by its cosine.
    cosines = teacher[0] @ teacher[1].T
    most = int((cosines >= 0.5)[paper._off_diagonal(cosines)].sum())
    assert 0.5 * most < int(match[1]) <= most


def test_a_negation_that_attracts_is_named_by_its_kind():
    views = drawn("clustered", 28, 40, 12)
    draw = torch.randn(28, 1, 40, generator=torch.Generator().manual_seed(2)).double()
    own = torch.nn.functional.normalize(views[1][:, None] + 0.25 * draw, dim=-1)
    words = said_first(paper.sncse, views, own_negatives=own)
    assert words.startswith("It attracts all own negatives")


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


@pytest.mark.parametrize("batch", [("paired", 24, 16, 0), *FRESH], ids=str)
def test_a_temperature_per_sample_is_said_first(batch):
    views = drawn(*batch)
    temperatures = torch.linspace(0.05, 0.5, len(views[0])).double()
    words = said_first(paper.LearnedTemperature(temperatures), views)
    assert words.startswith(
        "Each anchor has a softmax with a temperature of its own, from 0.05 to 0.5."
    )
    with_angle = temperatures[torch.argsort(torch.argsort((views[0] * views[1]).sum(1)))]
    words = said_first(paper.LearnedTemperature(with_angle), views)
    assert "lower the farther the positive" in words


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


@pytest.mark.parametrize("batch", [("paired", 24, 4, 0), *FRESH[:2]], ids=str)
def test_an_energy_with_a_shell_is_a_bell(batch):
    words = said_first(paper.energy, drawn(*batch))
    # A Gaussian of width 0.1 around 0.4 is half as high at 0.4 ± 0.12.
    assert words.startswith(
        "Its weight is a bell over the cosine: largest at 0.4, half of that 0.12 away"
    )


def test_an_energy_beyond_its_shell_falls():
    words = said_first(paper.energy, drawn("anisotropic", 32, 24, 5))
    assert words.startswith(
        "Its weight falls as negatives come near: a bell around a cosine of 0.4"
    )


def test_a_temperature_that_follows_the_cosine_is_a_bell_below_its_dip():
    assert "bell over the cosine: largest at 0.28" in said_first(paper.dystress, drawn(*FRESH[0]))


def test_a_temperature_that_follows_the_cosine_on_narrow_batches():
    """The true temperature of the weights, from the derivative of the logits' definition."""
    for batch, way in ((FRESH[1], "more slowly"), (FRESH[2], "faster")):
        words = said_first(paper.dystress, drawn(*batch))
        match = re.match(
            rf"Its weight grows {way} for near negatives: like a softmax of temperature "
            r"(\S+) at cosines from (\S+) to (\S+), (\S+) from (\S+) to (\S+)\.",
            words,
        )
        numbers = [float(number) for number in match.groups()]
        for temperature, far, near in (numbers[:3], numbers[3:]):
            cosines = torch.tensor([far, near], dtype=torch.float64, requires_grad=True)
            heights = cosines / (0.07 + 0.065 * (1 + torch.cos(torch.pi * (1 + cosines))))
            (slopes,) = torch.autograd.grad(heights.sum(), cosines)
            logarithms = heights.detach() + slopes.log()
            expected = (near - far) / float(logarithms[1] - logarithms[0])
            assert temperature == pytest.approx(expected, rel=0.15)


@pytest.mark.parametrize("batch", [("paired", 24, 16, 0), *FRESH], ids=str)
def test_a_margin_on_own_negatives_is_told_from_their_equal_forces(batch):
    views = drawn(*batch)
    draw = torch.randn(*views[1][:, None].shape, generator=torch.Generator().manual_seed(2))
    own = torch.nn.functional.normalize(views[1][:, None] + 0.25 * draw.double(), dim=-1)
    gap = (views[0] * own[:, 0]).sum(1) - (views[0] * views[1]).sum(1)
    pushed, attracted = int((gap > -0.1).sum()), int((gap < -0.3).sum())
    words = said_first(paper.sncse, views, own_negatives=own)
    n = len(views[0])
    assert (
        f"Only {pushed + attracted} of {n} anchors are moved by own negatives, all with the same "
        "force, as by a margin." in words
    )
    assert ("It attracts" in words) is (attracted > 0)


def test_a_loss_of_which_nothing_is_unusual_has_its_temperature_and_ratio():
    """On this batch all positives are alike, and so are all negatives with weight."""
    decomposition = gradlab.decompose(paper.focal_infonce, *drawn(*FRESH[1]))
    assert decomposition.findings == []
    assert decomposition.summary().startswith(
        "The weight is a softmax of temperature 0.022 and the pull is 0.88 times the push. Closest"
    )


def test_a_mask_beside_the_positive_and_the_views_are_named():
    views = drawn("paired", 24, 16, 0)
    words = said_first(paper.qwen, views)
    match = re.match(
        r"It leaves negatives of the other view whose cosine less the positive's is above (\S+) "
        r"out, as false ones\. Of its forces on negatives, (\d+)% are on negatives of the other",
        words,
    )
    cosines = views[0] @ views[1].T
    gaps = (cosines - cosines.diagonal()[:, None])[paper._off_diagonal(cosines)]
    assert gaps[gaps < 0.1].max() - 0.006 < float(match[1]) < gaps[gaps > 0.1].min() + 0.006


@pytest.mark.parametrize("batch", [("paired", 24, 16, 0), FRESH[2]], ids=str)
def test_a_focal_factor_is_read_from_the_gate(batch):
    words = said_first(paper.kalm, drawn(*batch))
    match = re.match(
        r"It pushes easy anchors less than InfoNCE at temperature 0.05: (\S+) times as much where "
        r"InfoNCE leaves (\S+)% of its push, if both push alike where it leaves (\d+)%\.",
        words,
    )
    times, *gates = (float(number) for number in match.groups())

    def factor(gate):  # from the derivative of -(1 - p)^γ log p, over that of -log p
        return gate**0.5 * (1 - 0.5 * (1 - gate) * math.log1p(-gate + 1e-12) / gate)

    easy, hard = (factor(gate / 100) for gate in gates)
    assert times == pytest.approx(easy / hard, rel=0.05)


@pytest.mark.parametrize("batch", [("paired", 24, 16, 0), *FRESH], ids=str)
def test_pairs_with_more_weight_than_their_cosine_says_are_counted(batch):
    words = said_first(paper.mixcse, drawn(*batch))
    assert re.match(
        rf"It gives {batch[1]} of \d+ pairs more weight than their cosine says; ", words
    )
    assert "the others have a softmax of temperature 0.05." in words


def test_squared_cosines_of_the_own_view_attract_below_a_right_angle():
    words = said_first(paper.spread_out, drawn("paired", 24, 16, 0))
    match = re.search(r"attracts negatives of the own view with a cosine below (\S+) \(", words)
    assert abs(float(match[1])) < 0.02


def test_a_loss_without_a_gate_is_no_infonce_with_a_weak_one():
    """Its push does not depend on the positive at all."""
    for batch in (("paired", 24, 16, 0), *FRESH):
        decomposition = gradlab.decompose(paper.f_micl, *drawn(*batch))
        assert "InfoNCE" not in " ".join(decomposition.findings)
    assert "softmax of temperature 0.25" in decomposition._plain()


@pytest.mark.parametrize("noise", [0.0, 1e-4])
def test_nearest_losses_have_the_order_of_the_printed_distance(noise, views):
    """Also if a loss is practically one of them, which rounding in half precision can leave."""
    draw = torch.randn(24, 24, generator=torch.Generator().manual_seed(0)).double()

    def noisy(anchors, positives):
        logits = anchors @ positives.T * (1 + noise * draw) / paper.TAU
        return torch.nn.functional.cross_entropy(logits, torch.arange(len(logits)))

    decomposition = gradlab.decompose(noisy, *views)
    distances = [float(f"{match.mismatch:.2g}") for match in decomposition.nearest]
    assert distances == sorted(distances)
    assert decomposition.named.name == "infonce"
    assert decomposition.summary().startswith("This is InfoNCE with temperature 0.05, averaged")


def test_findings_of_made_coefficients():
    cosines = np.tile(np.linspace(-1, 1, 60), (12, 1))
    angles, pull = np.linspace(0.2, 1.4, 12), np.ones(12)
    # Pushes that follow neither the positive nor the softmax's gate.
    growing = np.exp(cosines) * np.random.default_rng(0).uniform(1, 2, (12, 1))
    assert findings_of(growing, cosines, pull * growing.sum(1), angles) == []
    alike = growing / growing.sum(1, keepdims=True)
    assert findings_of(alike, cosines, pull, angles) == [
        "It pushes all anchors alike, however near their positives are."
    ]
    humps = np.exp(-((cosines - 0.6) ** 2) / 0.02) + np.exp(-((cosines + 0.5) ** 2) / 0.02)
    (sentence,) = findings_of(humps, cosines, pull * humps.sum(1), angles)
    assert sentence.startswith("Its weight has 2 humps")
    (attracts,) = findings_of(np.exp(cosines) - math.exp(-0.5), cosines, pull, angles)
    assert attracts.startswith("It attracts negatives with a cosine below -0.5")
    (follows,) = findings_of(growing, cosines, angles * growing.sum(1), angles)
    assert follows.startswith("Its ratio depends on the positive's angle")


@pytest.mark.parametrize("batch", [("paired", 24, 16, 0), FRESH[0], FRESH[2]], ids=str)
def test_hardness_weights_are_another_temperature_than_the_positives(batch):
    words = said_first(paper.llave, drawn(*batch))
    assert words == (
        "It weighs near negatives more than InfoNCE: a softmax of temperature 0.034 over "
        "negatives, but of 0.05 for the positive."
    )
    assert "weighs" not in said_first(functools.partial(paper.llave, alpha=0.0), drawn(*batch))


@pytest.mark.parametrize("batch", [("paired", 24, 16, 0), *FRESH], ids=str)
def test_a_limit_relative_to_the_positive(batch):
    views = drawn(*batch)
    words = said_first(paper.nv_retriever, views)
    limits = re.match(r"It leaves negatives (.*) above (\S+)( of the positive's)? out", words)
    if limits[3]:  # another limit may separate the same pairs
        cosines = views[0] @ views[1].T
        of_own = cosines / cosines.diagonal()[:, None]
        counts = paper._off_diagonal(cosines) & (cosines.diagonal() > 0)[:, None]
        below, above = (
            of_own[counts & (of_own < 0.95)].max(),
            of_own[counts & (of_own > 0.95)].min(),
        )
        assert below - 0.006 < float(limits[2]) < above + 0.006
    else:
        assert batch[0] == "clustered"


@pytest.mark.parametrize("seed", [3, 4, 6])
def test_a_focal_factor_among_near_duplicates(seed):
    """Where positives hardly differ, negatives do."""
    views = drawn("clustered", 24, 32, seed)
    words = said_first(functools.partial(paper.kalm, gamma=2.0), views)
    assert words.startswith("It pushes easy anchors less than InfoNCE at temperature 0.05:")
    assert said_first(functools.partial(paper.kalm, gamma=0.0), views) == ""


def test_without_negatives_the_sentence_says_so(views):
    scores = torch.rand(24, generator=torch.Generator().manual_seed(1))
    decomposition = gradlab.decompose(paper.pcc_tuning, *views, scores=scores)
    away = int((decomposition.pull < 0).sum())
    expected = f"pulls positives to their anchors, and pushes {away} of 24 away."
    assert decomposition.summary() == f"No negative acts on this batch: it {expected}"


def test_few_attractions_beyond_a_limit_come_last():
    views = drawn("paired", 24, 32, 3)
    words = said_first(paper.focal_infonce, views)
    assert words.endswith("It attracts negatives with a cosine below -0.15, with little force.")


@pytest.mark.parametrize("loss", [functools.partial(paper.x_sample, tau=0.5), paper.jasper])
def test_what_a_teacher_finds_similar_attracts(loss, views, teacher):
    assert "It attracts some negatives" in said_first(loss, views, teacher=teacher)


def test_forces_towards_a_teacher_are_named_first(views, teacher):
    """Of a mean squared difference of cosines all are; of a softmax with hard labels few."""
    distils = functools.partial(paper.jasper, margin=-10.0)
    words = said_first(distils, views, teacher=teacher)
    assert words.startswith("It moves cosines towards the teacher's: 100% of its forces")
    assert "missing" not in words

    def ignores(anchors, positives, *, teacher):
        return paper.rankcse(anchors, positives, teacher=(anchors.detach(), positives.detach()))

    assert "teacher" not in said_first(ignores, views, teacher=teacher)
