"""Combinators: closed forms against autograd, values from their definitions, exchanged views, texts, bad input."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import gradlab
from gradlab.batch.batch import unit_rows
from gradlab.batch.similarity import Negatives, PairSimilarity
from gradlab.gradient.diagnostics import diagnose
from gradlab.gradient.verification import BATCHES, TOLERANCE
from gradlab.losses.base import PairLoss
from gradlab.losses.registry import combinator_names
from gradlab.settings import call_text

BASES = ("infonce(temperature=0.1)", "arccon", "met", "baseline")
PAIRS = [
    "symmetric({})",
    "pool({}, negatives=other+same)",
    "pool({}, negatives=same)",
    "pool({}, negatives=other+same+positive_other+positive_same)",
    "pool({}, negatives=other+positive_other, denominators=separate)",
    "symmetric(pool({}, negatives=other+same))",
    "mask({}, above=0.4)",
    "mask({}, by=guide)",
    "mask({}, by=guide, margin=0.2, margin_kind=relative)",
    "mask({}, by=given)",
    "symmetric(mask(pool({}, negatives=other+same+positive_same), by=guide, margin=0.1))",
    "per_prefix({}, dims=3+7, weights=0.5+2)",
    "per_prefix(symmetric({}), dims=4+6)",
    "sum({}, gor, siglip, weights=1+0.1+2)",
    "sum(symmetric(pool({0}, negatives=other+same)), sum({0}, mhe), symmetric(gor), weights=0.5+1+3)",
    "mask(sum({}, dcl), above=0.4)",
    "symmetric(sum({}, gor))",
    "sum(per_prefix({}, dims=3+7), gor, weights=2+1)",
]
SOFT = [
    "hardness({}, alpha=3)",
    "hardness(pool({}, negatives=other+same), on=other)",
    "hardness({}, on=hard)",
    "hardness({}, on=in_batch)",
    "symmetric(hardness({}), reverse=infonce)",
    "pool({}, negatives=other+positive_other, positive=twice)",
    "pool(hardness({}, on=other), negatives=other+same+positive_other+positive_same, positive=twice)",
]
VIEWS = ["symmetric({})", "per_prefix({}, dims=4+7)"]
SPECS = [
    *(one.format(BASES[(at + more) % 4]) for at, one in enumerate(PAIRS) for more in (0, 1)),
    *(one.format(base) for one in SOFT for base in ("infonce(temperature=0.1)", "arccon(temperature=0.2)")),
    *(
        one.format(base)
        for one in VIEWS
        for base in ("mhe", "barlow_twins", "mhs", "modified_mhe(effective_ratio=2r)")
    ),
    *(one.format("arctanh") for one in PAIRS[:2] + PAIRS[6:7]),
]


def batch(kind: str, count: int = 8, dim: int = 7) -> tuple[tuple[np.ndarray, ...], dict]:
    """Two views and four extra negatives, and what combinators ask for."""
    rng = np.random.default_rng(3)
    rows = (*BATCHES[kind](rng, count, dim), BATCHES[kind](rng, 4, dim)[0])
    mask = rng.random((count, count + 4)) < 0.3
    mask[:, 0] = False
    mask[0, 1] = False
    guide = (*BATCHES["paired"](rng, count, 5), BATCHES["paired"](rng, 4, 5)[0])
    return rows, {"owners": np.array([1, 0, -1, 1]), "mask": mask, "guide": guide}


def scale(parts: gradlab.Components) -> float:
    pushes = np.abs(parts.gradient_dissipation[:, None] * parts.weight).max()
    return max(1.0, float(pushes), float(np.abs(parts.pull).max()))


@pytest.mark.parametrize("text", SPECS)
def test_closed_form_is_autograd_on_both_sides(text: str) -> None:
    loss = gradlab.get_loss(text)
    for kind in BATCHES:
        (anchors, positives, extra), context = batch(kind)
        for negatives in (None, extra):
            given = dict(context)
            if negatives is None:
                given |= {"owners": None, "mask": context["mask"][:, :8], "guide": context["guide"][:2]}
            if negatives is not None and "same" in text and "mh" in text:
                continue
            pair = gradlab.components(loss, anchors, positives, negatives, side="both", **given)
            for tangent in (True, False):
                if "similarity" not in loss.exact_in and not tangent:
                    continue
                references = gradlab.autograd_gradient(
                    loss, anchors, positives, negatives, side="both", tangent=tangent, **given
                )
                for parts, reference in zip(pair, references, strict=True):
                    error = np.abs(parts.gradient(exact=True, tangent=tangent) - reference).max()
                    assert error <= TOLERANCE * scale(parts), (kind, parts.side)


@pytest.mark.parametrize(
    "text", [text for text in SPECS if text.startswith("symmetric") and "reverse" not in text]
)
def test_exchanged_views_give_exchanged_results(text: str) -> None:
    (anchors, positives, _), context = batch("paired")
    here = {"guide": context["guide"][:2], "mask": context["mask"][:, :8]}
    there = here | {"guide": context["guide"][1::-1]}
    loss = gradlab.get_loss(text)
    first = gradlab.components(loss, anchors, positives, side="both", **here)
    second = gradlab.components(loss, positives, anchors, side="both", **there)
    for one, other in ((first[0], second[1]), (first[1], second[0])):
        np.testing.assert_allclose(one.weight, other.weight, atol=1e-12)
        np.testing.assert_allclose(one.pull, other.pull, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(one.gradient(), other.gradient(), atol=1e-12)
    value = gradlab.get_loss(loss)(anchors, positives, **here)
    assert value == pytest.approx(loss(positives, anchors, **there), rel=1e-12)


@pytest.mark.parametrize(
    "text", ["symmetric(infonce)", "symmetric(mask(hardness(pool(infonce))))", "symmetric(arccon)"]
)
def test_symmetric_multiplies_views_once(text: str) -> None:
    """One product of the anchors and the positives serves both directions."""
    (anchors, positives, _), _ = batch("random")
    seen = []

    class Counted(np.ndarray):
        def __matmul__(self, other):
            seen.append((self.shape, other.shape))
            return super().__matmul__(other)

    rows = [part.view(Counted) for part in (anchors, positives)]
    gradlab.components(text, *rows, side="both")
    across = 2 if "pool" in text else 0  # and the products within each view
    assert len(seen) == 1 + across
    seen.clear()
    gradlab.get_loss(text)(*rows)
    assert len(seen) == 1 + across


def cross_entropy(positive: float, negatives: list[float]) -> float:
    logits = np.array([positive, *negatives])
    return float(np.log(np.exp(logits - logits.max()).sum()) + logits.max() - positive)


def test_values_by_loops() -> None:
    (a, b, e), context = batch("clustered")
    tau, n = 0.1, 8
    base = "infonce(temperature=0.1)"

    def rows(others):
        return [cross_entropy(a[i] @ b[i] / tau, [x / tau for x in others(i)]) for i in range(n)]

    others = [[j for j in range(n) if j != i] for i in range(n)]
    both = rows(lambda i: [a[i] @ b[j] for j in others[i]] + [a[i] @ a[j] for j in others[i]])
    forth = rows(lambda i: [a[i] @ b[j] for j in others[i]])
    back = rows(lambda i: [b[i] @ a[j] for j in others[i]])
    gte = rows(
        lambda i: (
            [x for j in others[i] for x in (a[i] @ b[j], a[i] @ a[j], b[i] @ a[j], b[i] @ b[j])]
            + [a[i] @ b[i]]
        )
    )
    owners = context["owners"]
    hard = rows(
        lambda i: (
            [a[i] @ b[j] for j in others[i]]
            + [(1 + 2 * tau * (owners[k] == i)) * (a[i] @ e[k]) for k in range(4)]
        )
    )
    foreign = rows(
        lambda i: (
            [a[i] @ e[k] for k in range(4)]
            + [x for j in others[i] for x in (a[i] @ b[j], b[i] @ b[j])]
            + [b[i] @ e[k] for k in range(4) if owners[k] != i]
        )
    )
    near = rows(lambda i: [a[i] @ b[j] for j in others[i] if a[i] @ b[j] <= 0.5])
    guide = [unit_rows(one) for one in context["guide"][:2]]
    guided = rows(
        lambda i: [
            a[i] @ b[j] for j in others[i] if guide[0][i] @ guide[1][j] <= guide[0][i] @ guide[1][i] - 0.1
        ]
    )
    cases = {
        f"pool({base})": both,
        f"symmetric({base})": [(x + y) / 2 for x, y in zip(forth, back, strict=True)],
        f"pool({base}, negatives=other+same+positive_other+positive_same, positive=twice)": gte,
        f"mask({base}, above=0.5)": near,
        f"mask({base}, by=guide, margin=0.1)": guided,
        f"pool({base}, negatives=other+positive_other, denominators=separate)": [
            (x + y) / 2 for x, y in zip(forth, back, strict=True)
        ],
    }
    for text, expected in cases.items():
        found = gradlab.get_loss(text)(a, b, reduction="none", guide=context["guide"][:2])
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14, err_msg=text)
    for text, expected in {
        f"hardness({base}, alpha=2, on=hard)": hard,
        f"pool({base}, negatives=other+positive_same)": foreign,
    }.items():
        found = gradlab.get_loss(text)(a, b, e, reduction="none", owners=owners)
        np.testing.assert_allclose(found, expected, rtol=1e-12, err_msg=text)


def test_known_losses_are_combinators() -> None:
    (a, b, _), _ = batch("random")
    logits = torch.from_numpy(a @ b.T / 0.07)
    own = torch.arange(8)
    clip = (
        torch.nn.functional.cross_entropy(logits, own) + torch.nn.functional.cross_entropy(logits.T, own)
    ) / 2
    assert float(gradlab.get_loss("symmetric(infonce(temperature=0.07))")(a, b)) == pytest.approx(
        float(clip), rel=1e-12
    )
    every = np.concatenate([a, b])
    simclr = torch.from_numpy(every @ every.T / 0.5).fill_diagonal_(-torch.inf)
    expected = torch.nn.functional.cross_entropy(simclr, torch.cat([own + 8, own]))
    nt_xent = gradlab.get_loss("symmetric(pool(infonce(temperature=0.5), negatives=other+same))")
    assert float(nt_xent(a, b)) == pytest.approx(float(expected), rel=1e-12)


@pytest.mark.parametrize("base", ["siglip", "multi_similarity"])
def test_losses_that_pull_alone_do_so_in_numpy_and_torch(base: str) -> None:
    (a, b, _), _ = batch("random")
    loss = gradlab.get_loss(f"mask({base}, above=-2)")
    tensors = [torch.from_numpy(rows) for rows in (a, b)]
    for side in ("anchors", "positives"):
        reference = gradlab.autograd_gradient(loss, *tensors, side=side).numpy()
        for rows in ((a, b), tensors):
            parts = gradlab.components(loss, *rows, side=side)
            assert not np.asarray(parts.gradient_dissipation).any()
            np.testing.assert_allclose(np.asarray(parts.gradient()), reference, atol=1e-14)
    assert np.abs(reference).max() > 0.1


SIMULATED = [
    "mask(infonce(temperature=0.2), above=0.7)",
    "mask(arctanh, above=0.7)",
    "mask(met, above=0.6)",
    "mask(mat, above=0.8)",
    "mask(siglip, above=0.7)",
    "mask(multi_similarity, above=0.7)",
    "hardness(mask(arccon(temperature=0.2), above=0.7), alpha=3)",
    "hardness(hardness(infonce(temperature=0.2), alpha=3), alpha=2)",
]


@pytest.mark.parametrize("text", SIMULATED)
def test_exact_simulation_against_sampling(text: str) -> None:
    """By the loss's own values on drawn angles, near-duplicates dropped one by one."""
    setting = {"mu_pos": [0.5, 0.9], "mu_neg": [0.7, 1.1], "negatives": 8}
    result = gradlab.simulate(text, **setting)
    assert result.engine == "exact"
    loss = gradlab.get_loss(text)
    above = 1.0
    alpha = 0.0
    while not isinstance(loss, PairLoss):
        above, alpha = min(above, getattr(loss, "above", 1.0)), alpha + getattr(loss, "alpha", 0.0)
        loss = loss.loss
    rng = np.random.default_rng(0)
    for row, mu in enumerate(setting["mu_pos"]):
        for column, nu in enumerate(setting["mu_neg"]):
            positive = PairSimilarity.from_angles(np.abs(rng.normal(mu, 0.05, 4000)))
            angles = rng.normal(nu, 0.1, (4000, 8))
            left = Negatives.from_angles(angles)
            cosine = np.where(left.cosine > above, -np.inf, left.cosine)
            if alpha:
                cosine = cosine * (1 + alpha * loss.temperature)
            some = ~np.isinf(cosine).all(axis=1)
            kept = PairSimilarity(positive.chord[some], positive.antichord[some])

            def measure(index, angles=angles[some]):
                return PairSimilarity.from_angles(np.take_along_axis(angles, index[:, None], 1)[:, 0])

            seen = Negatives(cosine[some], measure)
            drawn = np.zeros(4000)
            drawn[some] = loss.dissipation(kept, loss.summary(seen))
            error = max(drawn.std(), 1e-2) / 4000**0.5
            assert abs(result.value[row, column] - drawn.mean()) < 5 * error, (mu, nu)
    sampled = gradlab.simulate(text, engine="monte_carlo", batches=4000, **setting)
    assert (np.abs(result.value - sampled.value) < 5 * np.maximum(sampled.standard_error, 1e-4)).all()


def test_what_is_not_simulated_says_why() -> None:
    for text, reason in (
        ("symmetric(infonce)", "rows of other sentences"),
        ("pool(infonce)", "in the rows of two sentences"),
        ("mask(infonce, by=guide)", "does not depend on their angles"),
        ("mask(symmetric(infonce))", "rows of other sentences"),
        ("hardness(infonce, on=hard)", "own hard ones"),
        ("per_prefix(infonce)", "each prefix has angles of its own"),
        ("sum(infonce, met)", "simulate them one by one"),
        ("mhe", "it compares whole views"),
    ):
        with pytest.raises(gradlab.GradlabError, match=reason):
            gradlab.simulate(text, engine="monte_carlo", quantity="ratio", mu_pos=[0.5], mu_neg=[0.7])


def test_anchors_without_negatives_are_counted_and_at_rest() -> None:
    (a, b, _), _ = batch("random")
    for base in BASES:
        loss = gradlab.get_loss(f"mask({base}, above=-2)")
        tensors = [torch.from_numpy(rows).requires_grad_() for rows in (a, b)]
        values = loss(*tensors, reduction="none")
        assert values.tolist() == [0] * 8
        for gradient in torch.autograd.grad(values.sum(), tensors, allow_unused=True):
            assert gradient is None or not gradient.any()
        parts = gradlab.components(loss, a, b, side="both")
        for one in parts:
            assert not one.gradient().any()
        assert parts[0].statistics == {"masked_pairs": 1.0, "without_negatives": 1.0}
    cosines = a @ b.T
    np.fill_diagonal(cosines, -1)
    threshold = float(np.sort(cosines.min(1, where=~np.eye(8, dtype=bool), initial=1))[-1]) - 1e-9
    found = gradlab.components(f"mask(infonce, above={threshold})", a, b).statistics
    off = ~np.eye(8, dtype=bool)
    assert found["without_negatives"] == pytest.approx(np.mean(((cosines > threshold) | ~off).all(1)))
    assert found["masked_pairs"] == pytest.approx((cosines > threshold)[off].mean())
    assert found["without_negatives"] > 0


def test_an_anchor_that_owns_all_negatives_is_at_rest() -> None:
    (a, b, _), _ = batch("random")
    extra = b[2:4][:, ::-1].copy()
    uniform = "recombined(gate=met, weight=uniform, ratio=1.0)"
    for base in (*BASES, uniform):
        text = f"pool({base}, negatives=positive_same)"
        found = []
        for loss in (gradlab.get_loss(text), gradlab.blockwise(text)):
            leaves = [torch.from_numpy(rows).requires_grad_() for rows in (a, b, extra)]
            values = loss(*leaves, reduction="none", in_batch_negatives=False, owners=[1, 1])
            if not (base == uniform or gradlab.get_loss(base).pulls_alone):
                assert values[1] == 0
            gradients = torch.autograd.grad(values.sum(), leaves, allow_unused=True, materialize_grads=True)
            found.append((values.detach(), *gradients))
        for own, blockwise in zip(*found, strict=True):
            torch.testing.assert_close(blockwise, own, rtol=1e-12, atol=1e-12, msg=base)


def test_rows_without_negatives_have_uniform_weights_of_zero() -> None:
    (a, b, _), _ = batch("random")
    text = "mask(recombined(gate=met, weight=uniform, ratio=1.0), above=-2)"
    for loss in (gradlab.get_loss(text), gradlab.blockwise(text)):
        leaves = [torch.from_numpy(rows).requires_grad_() for rows in (a, b)]
        value = loss(*leaves)
        assert value == 0
        assert not any(part.any() for part in torch.autograd.grad(value, leaves))


def test_pairs_of_a_file_in_both_orders_and_all_pools(tmp_path) -> None:
    file = tmp_path / "pairs.csv"
    file.write_text("10,13\n\n17 11\n99,10\n", encoding="utf-8")
    (a, b, _), _ = batch("random")
    numbers = np.array([10, 11, 12, 13, 14, 15, 16, 17])
    mask = np.zeros((8, 8), dtype=bool)
    mask[[0, 3, 7, 1], [3, 0, 1, 7]] = True
    for form in ("{}", "symmetric({})", "pool({}, negatives=other+same)"):
        listed = gradlab.components(
            form.format(f"mask(infonce, by=pairs, pairs={file})"), a, b, sentences=numbers
        )
        given = gradlab.components(form.format("mask(infonce, by=given)"), a, b, mask=mask)
        np.testing.assert_array_equal(listed.weight, given.weight)
        for name in listed.columns:
            block = listed.weight[:, listed.columns[name]]
            if name == "same" or form != "pool({}, negatives=other+same)":
                assert not block[mask].any()
    for text in ("10,11,12,13", "10", "10,eleven", "-1,3", "10,11,0", f"1,{2**32}"):
        file.write_text(f"1,2,3\n{text}\n", encoding="utf-8")
        gradlab.losses.mask.read_pairs.cache_clear()
        with pytest.raises(gradlab.GradlabError, match=r"line 2 of .* is not two whole numbers"):
            gradlab.get_loss(f"mask(infonce, by=pairs, pairs={file})")
    with pytest.raises(gradlab.GradlabError, match="cannot read the pairs"):
        gradlab.get_loss(f"mask(infonce, by=pairs, pairs={tmp_path / 'none'})")


def test_prefixes_have_components_each() -> None:
    (a, b, _), _ = batch("paired")
    parts = gradlab.components("per_prefix(infonce, dims=3+6)", a, b)
    assert list(parts.prefixes) == [3, 6]
    for d, one in parts.prefixes.items():
        alone = gradlab.components("infonce", unit_rows(a[:, :d]), unit_rows(b[:, :d]))
        np.testing.assert_array_equal(one.weight, alone.weight)
    np.testing.assert_array_equal(parts.weight, parts.prefixes[6].weight)
    longest = [unit_rows(rows[:, :6]) for rows in (a, b)]
    found, expected = diagnose("per_prefix(infonce, dims=3+6)", a, b), diagnose("infonce", *longest)
    for name in ("gradient_dissipation", "hubness", "ratio_both_sides", "lemma_share"):
        assert found[name] == pytest.approx(expected[name])
    expected = sum(
        w * gradlab.get_loss("met")(unit_rows(a[:, :d]), unit_rows(b[:, :d])) for d, w in ((2, 0.5), (7, 3))
    )
    assert gradlab.get_loss("per_prefix(met, dims=7+2, weights=3+0.5)")(a, b) == pytest.approx(expected)


def test_a_sum_is_its_terms_in_value_and_in_each_split() -> None:
    (a, b, extra), _ = batch("paired")
    texts, weights = ["infonce", "gor(threshold=0.01)", "symmetric(met)"], [1, 0.3, 2]
    both = gradlab.get_loss("sum", losses=texts, weights=weights)
    assert both == gradlab.get_loss(f"sum({', '.join(texts)}, weights=1+0.3+2)")
    terms = [gradlab.get_loss(text) for text in texts]
    for reduction in ("mean", "none"):
        values = [
            w * t(a, b, extra, reduction if t.name != "gor" else "mean")
            for w, t in zip(weights, terms, strict=True)
        ]
        np.testing.assert_allclose(both(a, b, extra, reduction), sum(values), rtol=1e-14)
    for side in ("anchors", "positives"):
        found = gradlab.components(both, a, b, side=side)
        total = 0.0
        for (factor, part), weight, term in zip(found.terms, [1, 0.3 * 8, 2], terms, strict=True):
            assert factor == pytest.approx(weight)  # the value of the batch stands in each of eight rows
            alone = gradlab.components(term, a, b, side=side)
            np.testing.assert_array_equal(part.weight, alone.weight)
            total = total + factor * part.canonical_dissipation
        np.testing.assert_allclose(found.gradient_dissipation, total, rtol=1e-12)


def test_a_sum_learns_what_its_terms_learn() -> None:
    loss = gradlab.get_loss("sum(met, siglip, symmetric(siglip(bias=-2)), weights=1+2+3)")
    module = gradlab.learnable(loss)
    assert len(module.values) == 4
    a, b = (torch.from_numpy(rows) for rows in batch("paired")[0][:2])
    value = module(a, b)
    assert float(value.detach()) == pytest.approx(float(loss(a, b)), rel=1e-6)
    value.backward()
    assert all(float(one.grad) for one in module.parameters())
    assert module.current == loss


@pytest.mark.parametrize(
    "text", [*SPECS[:3], SPECS[40], "symmetric(hardness(infonce), reverse=arccon)", "sum(met, gor)"]
)
def test_a_text_makes_an_equal_loss(text: str) -> None:
    loss = gradlab.get_loss(text)
    assert gradlab.get_loss(call_text(loss)) == loss
    assert hash(gradlab.get_loss(call_text(loss))) == hash(loss)


def test_texts_and_names() -> None:
    loss = gradlab.get_loss("symmetric(infonce(temperature=0.1))")
    assert call_text(loss) == "symmetric(infonce(temperature=0.1))"
    assert loss == gradlab.get_loss("symmetric", loss=gradlab.get_loss("infonce", temperature=0.1))
    assert gradlab.get_loss("symmetric(loss=infonce)") == gradlab.get_loss("symmetric")
    assert combinator_names() == ["hardness", "mask", "per_prefix", "pool", "sum", "symmetric"]
    assert not set(combinator_names()) & set(gradlab.loss_names())
    for name in combinator_names():
        if name != "per_prefix":
            assert all(check.passed for check in gradlab.verify(name, batch_size=6, dim=5))
    checks = gradlab.verify("per_prefix(infonce, dims=2+5)", batch_size=6, dim=5)
    assert all(check.passed for check in checks)


A, B = batch("random")[0][:2]


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("pool(mhe)", {}, "pool takes losses of pair similarities such as infonce.*mhe compares whole views"),
        ("mask(symmetric(vicreg))", {}, "mask takes losses of pair similarities.*vicreg"),
        ("hardness(met)", {}, r"logits at a temperature \(infonce, arccon.*\), not met"),
        ("pool(pool(infonce))", {}, "has a pool"),
        ("pool(infonce, negatives=other+simliar)", {}, "unknown pool 'simliar'"),
        ("pool(infonce, positive=twice)", {}, "positive=twice needs the pool positive_other"),
        ("pool(baseline(effective_ratio=2r))", {}, "negatives move"),
        ("symmetric(per_prefix(infonce))", {}, r"write per_prefix\(symmetric"),
        ("per_prefix(infonce, dims=4+9)", {}, "a prefix of 9 is longer than the embedding, which has 7"),
        ("per_prefix(infonce, dims=4+x)", {}, "dims must be numbers"),
        ("per_prefix(infonce, dims=4, weights=1+2)", {}, "weights must be 1 numbers"),
        ("mask(infonce, by=given)", {}, "needs mask="),
        ("mask(infonce, by=guide)", {}, "needs guide="),
        ("mask(infonce, by=pairs)", {}, "needs pairs=FILE"),
        ("mask(infonce, by=given)", {"mask": np.zeros((7, 8), dtype=bool)}, r"shape \(8, 8\), not bool of shape \(7, 8\)"),
        ("mask(infonce, by=given)", {"mask": np.zeros((8, 8))}, "must be booleans"),
        ("mask(infonce, by=given)", {"mask": np.ones((8, 8), dtype=bool)}, "the mask leaves anchor 0 no negative"),
        ("mask(infonce, by=guide)", {"guide": (A[:5], B[:5])}, r"the guide's anchors have shape .* those of the batch \(8, 7\)"),
        ("mask(infonce, by=guide)", {"guide": (A,)}, "the guide must be embeddings of anchors, positives"),
        ("infonce", {"owners": [0]}, "there are 0 extra negatives"),
        ("hardness(infonce, alpha=0)", {}, "alpha must be greater than 0"),
        ("mpt(infonce)", {}, "'infonce' is not a setting of mpt"),
        ("symmetric(infonce, loss=arccon)", {}, "not of the form"),
        ("symmetric(infonce, arccon)", {}, "'infonce, arccon' is not a setting of symmetric"),
        ("sum(infonce, gor, weights=1)", {}, "weights must be 2 numbers greater than 0, one for each loss, not '1'"),
        ("sum(infonce, gor, weights=1+-1)", {}, "weights must be 2 numbers greater than 0"),
        ("sum(infonce, gro)", {}, "unknown loss 'gro'"),
        ("symmetric(infonce", {}, "not of the form"),
    ],
)  # fmt: skip
def test_bad_input(text: str, options: dict, message: str) -> None:
    with pytest.raises(gradlab.GradlabError, match=message) as caught:
        gradlab.components(text, A, B, **options)
    assert "\n" not in str(caught.value)


def test_bad_calls() -> None:
    extra = batch("random")[0][2]
    for text, message in (
        ("symmetric(infonce)", "needs in-batch"),
        ("pool(infonce, negatives=positive_other)", "has no negatives"),
    ):
        with pytest.raises(gradlab.GradlabError, match=message):
            gradlab.components(text, A, B, extra, in_batch_negatives=False)
    with pytest.raises(gradlab.GradlabError, match="give their owners"):
        gradlab.components("hardness(infonce, on=hard)", A, B, extra)
    with pytest.raises(gradlab.GradlabError, match="row numbers from 0 to 7"):
        gradlab.components("infonce", A, B, extra, owners=[0, 1, 2, 8])


def test_context_of_another_kind_and_parts_that_are_combinators() -> None:
    (a, b, _), _ = batch("random")
    for text, context, message in (
        ("mask(infonce, by=guide)", {"guide": 5}, "tuple of embeddings, of anchors, positives, not int"),
        ("mask(infonce, by=guide)", {"guide": [torch.from_numpy(a), torch.from_numpy(b)]}, "same kind"),
        ("mask(infonce, by=given)", {"mask": [[False], [True, False]]}, "mask must be one array, not list"),
    ):
        with pytest.raises(gradlab.GradlabError, match=message):
            gradlab.components(text, a, b, **context)
    for part in ("gate", "weight", "ratio"):
        with pytest.raises(gradlab.GradlabError, match=f"{part} is taken from a loss with one positive"):
            gradlab.recombine(**{"gate": "infonce", "weight": "infonce", "ratio": "1", part: "supcon"})
        parts = {"gate": "infonce", "weight": "infonce", "ratio": "1", part: "mask(mpt)"}
        with pytest.raises(gradlab.GradlabError, match=f"{part} is taken from a loss, not from"):
            gradlab.recombine(**parts)


ALONE = [
    *(
        f"symmetric({name})"
        for name in gradlab.loss_names()
        if name not in (*combinator_names(), "circle", "arctanh")
    ),
    *(f"pool({name}, negatives=positive_other)" for name in ("infonce", "met", "siglip", "multi_similarity")),
    "pool(arctanh, negatives=positive_same, extra_negatives=anchors)",
    "pool(infonce, negatives=other+positive_other, denominators=separate)",
    "symmetric(pool(met, negatives=other+same))",
    "symmetric(mask(infonce, above=0.9))",
    "symmetric(infonce, reverse=vicreg)",
]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("text", ALONE)
def test_one_sentence_with_extra_negatives(text: str) -> None:
    """A direction or a pool without negatives is at rest, as under a mask that leaves none."""
    loss = gradlab.get_loss(text)
    rng = np.random.default_rng(1)
    anchors, positives, extra = (unit_rows(rng.normal(size=(n, 5))) for n in (1, 1, 4))
    value = float(loss(anchors, positives, extra))
    assert np.isfinite(value)
    assert float(loss(anchors, positives, extra, reduction="sum")) == value
    if not loss.has(gradlab.losses.pool.Pool) and not loss.has(gradlab.losses.mask.Mask):
        rows = [torch.from_numpy(rows) for rows in (anchors, positives, extra)]
        assert float(gradlab.blockwise(loss)(*rows).detach()) == pytest.approx(value, rel=1e-12, abs=1e-15)
    parts = gradlab.components(loss, anchors, positives, extra, side="both")
    gradients = gradlab.autograd_gradient(loss, anchors, positives, extra, side="both")
    for part, gradient in zip(parts, gradients, strict=True):
        assert np.isfinite(part.weight).all()
        np.testing.assert_allclose(part.gradient(exact=True), gradient, rtol=1e-11, atol=1e-11)


def test_the_value_of_one_sentence_is_that_of_the_direction_with_negatives() -> None:
    rng = np.random.default_rng(1)
    anchors, positives, extra = (unit_rows(rng.normal(size=(n, 5))) for n in (1, 1, 4))
    own, others = np.exp(anchors[0] @ positives[0] / 0.1), np.exp(anchors[0] @ extra.T / 0.1)
    infonce, mpt = (
        np.log(1 + others.sum() / own),
        max(0, 0.3 - anchors[0] @ positives[0] + max(anchors[0] @ extra.T)),
    )
    for text, expected in (
        ("symmetric(infonce(temperature=0.1))", infonce / 2),
        ("symmetric(infonce(temperature=0.1), reverse=mhe)", infonce / 2),
        ("symmetric(mpt(margin=0.3))", mpt / 2),
        (
            "pool(infonce(temperature=0.1), negatives=other+positive_other, denominators=separate)",
            infonce / 2,
        ),
        ("pool(infonce(temperature=0.1), negatives=positive_other)", 0.0),
    ):
        assert gradlab.get_loss(text)(anchors, positives, extra) == pytest.approx(expected, rel=1e-12), text


@pytest.mark.parametrize("extra", [None, 3])
@pytest.mark.parametrize(
    ("rows", "whole"), [("infonce", "cosent"), ("met", "mhe"), ("dhel", "vicreg"), ("siglip", "barlow_twins")]
)
def test_losses_of_rows_and_of_the_batch_mix(rows: str, whole: str, extra: int | None) -> None:
    """Each row has its own loss and the batch's; the mean is what papers print, the sum N times that, and gradients follow it."""
    rng = np.random.default_rng(2)
    anchors, positives = paired = tuple(unit_rows(rng.normal(size=(6, 5))) for _ in range(2))
    queue = None if extra is None else unit_rows(rng.normal(size=(extra, 5)))
    for text, first, second in (
        (f"symmetric({rows}, reverse={whole})", rows, whole),
        (f"symmetric({whole}, reverse={rows})", whole, rows),
        (
            f"symmetric(symmetric({rows}, reverse={whole}), reverse={whole})",
            f"symmetric({rows}, reverse={whole})",
            whole,
        ),
        (f"symmetric(symmetric({whole}), reverse={rows})", f"symmetric({whole})", rows),
    ):
        loss = gradlab.get_loss(text)
        here = gradlab.get_loss(first)(anchors, positives, queue)
        mean = (here + gradlab.get_loss(second)(positives, anchors)) / 2
        each = loss(anchors, positives, queue, reduction="none")
        assert each.shape == (6,)
        assert each.mean() == pytest.approx(mean, rel=1e-12)
        assert loss(anchors, positives, queue) == pytest.approx(mean, rel=1e-12)
        assert loss(anchors, positives, queue, reduction="sum") == pytest.approx(6 * mean, rel=1e-12)
        # The gradient of 6 times the mean, of which autograd knows nothing but the two published values.
        leaves = [torch.tensor(part, requires_grad=True) for part in paired]
        others = None if queue is None else torch.from_numpy(queue)
        total = 3 * (
            gradlab.get_loss(first)(*leaves, others) + gradlab.get_loss(second)(leaves[1], leaves[0])
        )
        expected = torch.autograd.grad(total, leaves)
        parts = gradlab.components(loss, anchors, positives, queue, side="both")
        for part, leaf, gradient in zip(parts, leaves, expected, strict=True):
            radial = (gradient * leaf).sum(1, keepdim=True) * leaf
            np.testing.assert_allclose(
                part.gradient(exact=True), (gradient - radial).detach().numpy(), rtol=1e-10, atol=1e-10
            )
        if extra is None:
            assert all(check.passed for check in gradlab.verify(loss, batch_size=6, dim=5))
            wanted = [part.clone().detach().requires_grad_() for part in leaves]
            gradlab.blockwise(loss)(*wanted, reduction="sum").backward()
            for leaf, gradient in zip(wanted, expected, strict=True):
                np.testing.assert_allclose(leaf.grad, gradient, rtol=1e-10, atol=1e-10)


def test_the_hardest_negative_of_any_pool_is_measured_from_its_own_row() -> None:
    """Extra negatives are the anchors', also where they stand behind the positives' pools."""
    rng = np.random.default_rng(0)
    anchors, positives, extra = (unit_rows(rng.normal(size=(n, 3))) for n in (4, 4, 6))
    expected = []
    for i in range(4):
        others = [j for j in range(4) if j != i]
        pairs = [(anchors[i], positives[j]) for j in others] + [(positives[i], anchors[j]) for j in others]
        pairs += [(anchors[i], one) for one in extra]
        nearest = min(np.linalg.norm(first - second) for first, second in pairs)
        expected.append(max(0.0, np.linalg.norm(anchors[i] - positives[i]) - nearest + 0.9))
    loss = gradlab.get_loss("pool(met(margin=0.9), negatives=other+positive_other)")
    np.testing.assert_allclose(loss(anchors, positives, extra, reduction="none"), expected, rtol=1e-12)


def test_prefixes_of_a_mix_in_blocks() -> None:
    """A loss of the batch that asks for no similarities, beside one that goes row by row, on the same prefix."""
    loss = gradlab.get_loss("per_prefix(symmetric(vicreg, reverse=infonce), dims=3+5)")
    rows = torch.nn.functional.normalize(torch.randn(2, 6, 5, dtype=torch.float64), dim=-1)
    leaves = [[part.clone().requires_grad_() for part in rows] for _ in range(2)]
    for one, given in zip((loss, gradlab.blockwise(loss, block_size=2)), leaves, strict=True):
        one(*given).backward()
    for plain, in_blocks in zip(*leaves, strict=True):
        torch.testing.assert_close(in_blocks.grad, plain.grad, rtol=1e-11, atol=1e-13)
