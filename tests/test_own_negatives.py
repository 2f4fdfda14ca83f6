"""Negatives of an anchor's own: against loops from the definition, autograd, and blockwise."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import torch
from blockwise_helpers import assert_equal_to_autograd, unit

import gradlab
from gradlab.losses.pair_loss import PairLoss
from gradlab.losses.registry import loss_class

N, M, H, D = 9, 4, 3, 8
PAIR_NAMES = [name for name in gradlab.loss_names() if issubclass(loss_class(name), PairLoss)]
COMBINED = (
    "symmetric(pool(infonce, negatives=own), reverse=met)",
    "mask(pool(infonce, negatives=other+same+positive_same), by=batch, margin=-0.1)",
    "mask(symmetric(mpt), by=batch, margin=0.5, margin_kind=relative, on=own+other)",
    "symmetric(infonce)",
    "symmetric(siglip, reverse=dhel)",
    "pool(dcl, negatives=other+same+positive_other+positive_same)",
    "pool(mpt, negatives=other+same, denominators=separate)",
    "symmetric(pool(arccon, negatives=other+same))",
    "mask(infonce, above=0.3)",
    "sum(symmetric(infonce), gor, weights=1+0.1)",
    "per_prefix(symmetric(hardness(infonce, on=other)), dims=5+8)",
)


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    return unit(
        torch.randn(*shape, D, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    )


@pytest.fixture
def rows() -> tuple[torch.Tensor, ...]:
    """Anchors, positives, extra and own negatives, with duplicates of every kind."""
    anchors, extra, own = drawn(N), drawn(M, seed=1), drawn(N, H, seed=2)
    positives = unit(anchors + 0.5 * drawn(N, seed=3))
    positives[4] = positives[3]
    own[0, 1], own[1, 2], own[2, 0], own[3, 0] = own[0, 0], positives[1], positives[5], extra[2]
    return anchors, positives, extra, own


def loops(name: str, anchors, positives, extra, own, tau: float = 0.05) -> list[float]:
    """InfoNCE and what is made of it, from the definition, one anchor at a time."""
    losses_by_name = []
    for i in range(N):
        in_batch = np.arange(N) != i
        positive = anchors[i] @ positives[i] / tau
        across, within = (
            positives[in_batch] @ anchors[i] / tau,
            anchors[in_batch] @ anchors[i] / tau,
        )
        backward, documents = (
            anchors[in_batch] @ positives[i] / tau,
            positives[in_batch] @ positives[i] / tau,
        )
        shared, own_logits = extra @ anchors[i] / tau, own[i] @ anchors[i] / tau
        near = positive + 0.1 / tau
        sums = {
            "infonce": [[across, shared, own_logits]],
            "symmetric(infonce)": [[across, shared, own_logits], [backward]],
            "pool(infonce, negatives=other+same)": [[across, within, shared, own_logits]],
            "pool(infonce, negatives=own)": [[own_logits]],
            "mask(infonce, above=0.3)": [
                [logits[logits * tau <= 0.3] for logits in (across, shared, own_logits)]
            ],
            INSTRUCTOR: [[shared], [backward]],
            HARDNESS: [[across, shared, own_logits + 5 * own_logits * tau]],
            # 2506.05176, Eq. 1: out is what is more than 0.1 nearer than the positive.
            QWEN3: [[logits[logits <= near] for logits in (across, within, documents, own_logits)]],
            BY_POOL: [
                [
                    *(logits[logits <= positive] for logits in (across, shared)),
                    *(logits[logits <= near] for logits in (within, own_logits)),
                ]
            ],
        }[name]
        losses = [
            np.log1p(np.exp(np.concatenate(negatives) - positive).sum()) for negatives in sums
        ]
        losses_by_name.append(np.mean(losses))
    return losses_by_name


INSTRUCTOR = "symmetric(pool(infonce, negatives=extra), reverse=infonce)"
HARDNESS = "hardness(infonce, alpha=5, on=hard)"
QWEN3 = "mask(pool(infonce, negatives=other+same+positive_same), by=batch, margin=-0.1)"
BY_POOL = (
    "mask(mask(pool(infonce, negatives=other+same), by=batch, on=other+extra), by=batch, "
    "margin=-0.1, on=same+own)"
)


def test_pools_that_name_extra_or_own_negatives_have_only_those(rows) -> None:
    anchors, positives, extra, own = rows
    for named, only_named in (
        ("extra", {"extra_negatives": extra}),
        ("own", {"own_negatives": own}),
    ):
        context = {"extra_negatives": extra, "own_negatives": own}
        for pools in ("other", "other+same"):
            named_pools = f"pool(infonce, negatives={pools}+{named})"
            plain = gradlab.get_loss(f"pool(infonce, negatives={pools})")
            loss = gradlab.get_loss(named_pools)
            assert loss(anchors, positives, **context) == plain(anchors, positives, **only_named)
            leaves = [embeddings.clone().requires_grad_() for embeddings in rows]
            assert_equal_to_autograd(loss, leaves[:3], 4, 1e-12, own_negatives=leaves[3])
            components = gradlab.components(loss, anchors, positives, **context)
            reference = gradlab.autograd_gradient(loss, anchors, positives, **context)
            torch.testing.assert_close(components.gradient(), reference, rtol=0, atol=1e-10)
            with pytest.raises(gradlab.GradlabError, match=f"pool {named} has no negatives"):
                loss(anchors, positives)


@pytest.mark.parametrize(
    "name",
    [
        "infonce",
        "symmetric(infonce)",
        "pool(infonce, negatives=other+same)",
        "pool(infonce, negatives=own)",
        "mask(infonce, above=0.3)",
        INSTRUCTOR,
        HARDNESS,
        QWEN3,
        BY_POOL,
    ],
)
def test_values_are_those_of_loops(rows, name):
    anchors, positives, extra, own = (embeddings.numpy() for embeddings in rows)
    positives[4] *= -1  # rounding decides whether a duplicate of the positive is above it
    context = {"owners": [-1] * M} if name == HARDNESS else {}
    negatives = None if name == QWEN3 else extra
    losses = gradlab.get_loss(name)(
        anchors, positives, negatives, "none", own_negatives=own, **context
    )
    np.testing.assert_allclose(
        losses, loops(name, anchors, positives, extra, own), rtol=1e-12, atol=1e-13
    )


@pytest.mark.parametrize("name", PAIR_NAMES)
@pytest.mark.parametrize("in_batch", [True, False])
def test_a_row_is_a_batch_of_its_own(rows, name, in_batch):
    """Alone, with all its negatives as extra ones, an anchor has the same value and components."""
    anchors, positives, extra, own = (embeddings.numpy() for embeddings in rows)
    if in_batch:
        positives[4] = anchors[4]  # equally hard negatives may be taken in any order
    loss = gradlab.get_loss(name)
    context = {"own_negatives": own, "in_batch_negatives": in_batch}
    whole = gradlab.components(loss, anchors, positives, extra, **context)
    values = loss(anchors, positives, extra, "none", **context)
    assert whole.weight.shape == (N, N * in_batch + M + H)
    assert whole.own.shape == (N, H)
    for i in range(N):
        other_positives = np.delete(positives, i, 0) if in_batch else positives[:0]
        alone = (
            anchors[i : i + 1],
            positives[i : i + 1],
            np.concatenate([other_positives, extra, own[i]]),
        )
        assert values[i] == pytest.approx(
            loss(*alone, in_batch_negatives=False), rel=1e-12, abs=1e-13
        )
        row_components = gradlab.components(loss, *alone, in_batch_negatives=False)
        weight = np.delete(whole.weight[i], i) if in_batch else whole.weight[i]
        np.testing.assert_allclose(weight, row_components.weight[0], rtol=1e-11, atol=1e-13)
        np.testing.assert_allclose(
            whole.gradient_dissipation[i], row_components.gradient_dissipation[0], rtol=1e-11
        )
        np.testing.assert_allclose(whole.pull[i], row_components.pull[0], rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("name", [*PAIR_NAMES, *COMBINED])
def test_components_are_the_gradient(rows, name):
    """Of both sides, against autograd, with duplicates among the negatives."""
    anchors, positives, extra, own = rows
    closed = gradlab.components(name, anchors, positives, extra, own_negatives=own, side="both")
    gradients = gradlab.autograd_gradient(
        name, anchors, positives, extra, own_negatives=own, side="both"
    )
    for components, expected in zip(closed, gradients, strict=True):
        scale = max(1.0, float(expected.abs().max()))
        torch.testing.assert_close(components.gradient(), expected, rtol=0, atol=1e-11 * scale)
    assert closed[1].own is None  # they are the anchors' alone


def infonce_of_a_row(rows, i, out):
    """InfoNCE of one anchor against all positives, extra and own negatives that are not out."""
    anchors, positives, extra, own = rows
    negatives = torch.cat([positives, extra, own[i]])[~out & (torch.arange(len(out)) != i)]
    if not len(negatives):
        return torch.tensor(0.0, dtype=torch.float64)
    alone = anchors[i : i + 1], positives[i : i + 1], negatives
    return gradlab.get_loss("infonce")(*alone, in_batch_negatives=False)


def test_uneven_numbers_by_a_mask(rows):
    """A masked own negative is as good as none; a mask without their columns keeps them all."""
    loss = gradlab.get_loss("mask(infonce, by=given)")
    mask = torch.zeros(N, N + M + H, dtype=torch.bool)
    mask[:5, -1] = mask[2, 3] = mask[1, N] = True
    losses = loss(*rows[:3], "none", own_negatives=rows[3], mask=mask)
    expected = torch.stack([infonce_of_a_row(rows, i, mask[i]) for i in range(N)])
    torch.testing.assert_close(losses, expected, rtol=1e-13, atol=0)
    fewer = loss(*rows[:3], "none", own_negatives=rows[3], mask=mask[:, : N + M])
    mask[:, N + M :] = False
    torch.testing.assert_close(fewer, loss(*rows[:3], "none", own_negatives=rows[3], mask=mask))


def test_a_guide_covers_them(rows):
    guide = [unit(embeddings + 0.3 * unit(torch.ones_like(embeddings))) for embeddings in rows]
    loss = gradlab.get_loss("mask(infonce, by=guide, margin=-0.1)")
    losses = loss(*rows[:3], "none", own_negatives=rows[3], guide=guide)
    for i in range(N):
        guided = torch.cat([guide[1], guide[2], guide[3][i]]) @ guide[0][i]
        out = guided > guide[0][i] @ guide[1][i] + 0.1
        torch.testing.assert_close(losses[i], infonce_of_a_row(rows, i, out), rtol=1e-13, atol=0)


def test_pairs_cover_them(rows, tmp_path):
    """A hard negative listed for its own row is left out; for another row it says nothing."""
    anchors, positives, _, own = rows
    listed = tmp_path / "pairs"
    listed.write_text("2,2,1\n5,6,1\n")
    columns = [
        gradlab.losses.mask.hard_negative_numbers(np.arange(N), column + 1) for column in range(H)
    ]
    numbers = np.concatenate([np.arange(N), np.stack(columns, 1).ravel()])
    loss = gradlab.get_loss("mask", by="pairs", pairs=str(listed))
    views = gradlab.batch.check_batch(anchors, positives, own_negatives=own, sentences=numbers)
    out = loss.inner_batch(views).negatives.cosine[:, N:].isinf()
    assert out.nonzero().tolist() == [[2, 0]]


@pytest.mark.parametrize("name", [*PAIR_NAMES, *COMBINED])
def test_blockwise_equals_autograd(rows, name):
    """Values and all derivatives, also by the own negatives."""
    *views, own = (embeddings.clone().requires_grad_() for embeddings in rows)
    assert_equal_to_autograd(gradlab.get_loss(name), views, 4, 1e-12, own_negatives=own)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda own: own[1:], "own_negatives have shape (8, 3, 8), but there are 9 anchors"),
        (lambda own: own[:, :, :5], "own_negatives have 5 dimensions but the views have 8"),
        (lambda own: 2 * own, "own_negatives are not unit vectors"),
    ],
)
@pytest.mark.parametrize("call", [gradlab.get_loss("infonce"), gradlab.blockwise("infonce")])
def test_bad_input(rows, change, message, call):
    with pytest.raises(gradlab.GradlabError) as error:
        call(*rows[:3], own_negatives=change(rows[3]))
    assert message in str(error.value)


@pytest.mark.parametrize("engine", [{"engine": "exact"}, {"engine": "monte_carlo", "batches": 2}])
def test_simulated_without_spread_they_are_what_the_formula_says(engine):
    """Of K negatives at μ_neg and H own ones at μ_own."""
    setting = {
        "mu_pos": [0.5, 0.9],
        "mu_neg": [0.8, 1.2],
        "mu_own": 0.7,
        "negatives": 20,
        "own_negatives": 3,
    }
    setting |= {"sigma_pos": 0.0, "sigma_neg": 0.0, "sigma_own": 0.0}
    simulation = gradlab.simulate("infonce", **engine, **setting)
    positive, negatives, own = (
        np.exp(np.cos(angle) / 0.05) for angle in ([[0.5], [0.9]], [0.8, 1.2], 0.7)
    )
    push = 20 * negatives + 3 * own
    np.testing.assert_allclose(simulation.value, push / (push + positive), rtol=1e-12)
    hardest = gradlab.simulate("infonce", "hardest_share", **setting)
    np.testing.assert_allclose(hardest.value[0], own / push, rtol=1e-12)


@pytest.mark.parametrize(
    "name", ["infonce", "met", "mpt", "siglip", "mask(infonce, above=0.6)", "mask(mpt, above=0.6)"]
)
def test_exact_simulation_with_own_negatives_is_what_samples_approach(name):
    setting = {"mu_pos": [0.4, 0.7], "mu_neg": [1.0, 1.4], "negatives": 20}
    setting |= {"own_negatives": 3, "mu_own": 0.8, "sigma_own": 0.05}
    exact = gradlab.simulate(name, **setting)
    sampled = gradlab.simulate(name, engine="monte_carlo", batches=20_000, **setting)
    assert exact.engine == "exact"
    assert np.all(np.abs(sampled.value - exact.value) <= 4.5 * sampled.standard_error)
    fewer = gradlab.simulate(name, **setting | {"own_negatives": 1})
    assert np.abs(fewer.value - exact.value).max() > 20 * sampled.standard_error.min()


def test_a_function_of_own_negatives_is_recognised(rows):
    def loss(first, second, own_negatives, shared=False):
        own = (
            first @ own_negatives.flatten(0, 1).T
            if shared
            else (own_negatives * first[:, None]).sum(-1)
        )
        return torch.nn.functional.cross_entropy(
            20 * torch.cat([first @ second.T, own], 1), torch.arange(N)
        )

    decomposition = gradlab.decompose(loss, *rows[:2], own_negatives=rows[3])
    assert "InfoNCE with temperature 0.05" in decomposition.summary()
    with pytest.raises(
        gradlab.GradlabError, match="pushes an anchor by the own negatives of others"
    ):
        gradlab.decompose(functools.partial(loss, shared=True), *rows[:2], own_negatives=rows[3])
