"""Combinators: closed forms by autograd, values by definition, exchanged views, texts, errors."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import gradlab
from gradlab.batch import unit_rows
from gradlab.gradient.statistics import diagnose
from gradlab.gradient.verification import BATCHES
from gradlab.losses.registry import combinator_names
from tests.losses.naive_losses import assert_closed_form_is_autograd

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
    "sum(symmetric(pool({0}, negatives=other+same)), sum({0}, mhe), symmetric(gor), "
    "weights=0.5+1+3)",
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
    "pool(hardness({}, on=other), negatives=other+same+positive_other+positive_same, "
    "positive=twice)",
]
VIEWS = ["symmetric({})", "per_prefix({}, dims=4+7)"]
SPECS = [
    *(form.format(BASES[(at + shift) % 4]) for at, form in enumerate(PAIRS) for shift in (0, 1)),
    *(
        form.format(base)
        for form in SOFT
        for base in ("infonce(temperature=0.1)", "arccon(temperature=0.2)")
    ),
    *(
        form.format(base)
        for form in VIEWS
        for base in ("mhe", "barlow_twins", "mhs", "modified_mhe(effective_ratio=2r)")
    ),
    *(form.format("arctanh") for form in PAIRS[:2] + PAIRS[6:7]),
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


def asked_for(loss: gradlab.Loss, context: dict) -> dict:
    return {
        name: argument
        for name, argument in context.items()
        if name == "owners" or name in loss.looks_at
    }


@pytest.mark.parametrize("text", SPECS)
def test_closed_form_is_autograd_on_both_sides(text: str) -> None:
    loss = gradlab.get_loss(text)
    for kind in BATCHES:
        (anchors, positives, extra), context = batch(kind)
        alone = context | {
            "owners": None,
            "mask": context["mask"][:, :8],
            "guide": context["guide"][:2],
        }
        cases = [(None, alone)]
        if not ("same" in text and "mh" in text):
            cases.append((extra, context))
        for negatives, arguments in cases:
            assert_closed_form_is_autograd(
                text, (anchors, positives, negatives), **asked_for(loss, arguments)
            )


@pytest.mark.parametrize(
    "text", [text for text in SPECS if text.startswith("symmetric") and "reverse" not in text]
)
def test_exchanged_views_give_exchanged_results(text: str) -> None:
    (anchors, positives, _), context = batch("paired")
    loss, mask, guide = gradlab.get_loss(text), context["mask"][:, :8], context["guide"]
    first_context = asked_for(loss, {"guide": guide[:2], "mask": mask})
    second_context = asked_for(loss, {"guide": guide[1::-1], "mask": mask.T})
    first = gradlab.components(loss, anchors, positives, side="both", **first_context)
    second = gradlab.components(loss, positives, anchors, side="both", **second_context)
    for components, mirrored in zip(first, reversed(second), strict=True):
        np.testing.assert_allclose(components.weight, mirrored.weight, atol=1e-12)
        np.testing.assert_allclose(components.pull, mirrored.pull, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(components.gradient(), mirrored.gradient(), atol=1e-12)
    assert loss(anchors, positives, **first_context) == pytest.approx(
        loss(positives, anchors, **second_context), rel=1e-12
    )


@pytest.mark.parametrize(
    "text",
    [
        "pool({}, negatives=other+same+positive_other+positive_same, positive=twice)",
        "mask({}, by=guide, margin=0.1)",
        "hardness({}, alpha=2, on=hard)",
        "pool({}, negatives=other+positive_same)",
    ],
)
def test_values_by_loops(text: str) -> None:
    """What a softmax is over: with owners of hard negatives, and a guide.

    The random search has other combinations.
    """
    (a, b, e), context = batch("clustered")
    owners, guide = context["owners"], [unit_rows(vector) for vector in context["guide"]]
    tau, n = 0.1, 8
    expected = []
    for i in range(n):
        columns = [j for j in range(n) if j != i]
        across = [a[i] @ b[j] for j in columns]
        shared, arguments = [a[i] @ vector for vector in e], {"owners": owners}
        if "twice" in text:
            negatives = [
                *across,
                *(x for j in columns for x in (a[i] @ a[j], b[i] @ a[j], b[i] @ b[j])),
            ]
            negatives += [a[i] @ b[i], *shared, *(b[i] @ e[k] for k in range(4) if owners[k] != i)]
        elif "mask" in text:
            arguments = {"guide": guide}
            limit = guide[0][i] @ guide[1][i] - 0.1
            guided = [guide[0][i] @ vector for vector in (*guide[1][columns], *guide[2])]
            negatives = [x for x, y in zip([*across, *shared], guided, strict=True) if y <= limit]
        elif "hardness" in text:
            negatives = [*across, *((1 + 2 * tau * (owners[k] == i)) * shared[k] for k in range(4))]
        else:
            negatives = [*across, *(b[i] @ b[j] for j in columns), *shared]
            negatives += [b[i] @ e[k] for k in range(4) if owners[k] != i]
        total = sum(np.exp((x - a[i] @ b[i]) / tau) for x in negatives)
        expected.append(np.log1p(total))
    loss = gradlab.get_loss(text.format("infonce(temperature=0.1)"))
    np.testing.assert_allclose(
        loss(a, b, e, reduction="none", **arguments), expected, rtol=1e-12, atol=1e-14
    )


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
    setting = {"mu_pos": [0.5, 0.9], "mu_neg": [0.7, 1.1], "negatives": 8}
    result = gradlab.simulate(text, **setting)
    assert result.engine == "exact"
    sampled = gradlab.simulate(text, engine="monte_carlo", batches=4000, **setting)
    assert (
        np.abs(result.value - sampled.value) < 5 * np.maximum(sampled.standard_error, 1e-4)
    ).all()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("symmetric(infonce)", "rows of other sentences"),
        ("mask(infonce, by=guide)", "does not depend on their angles"),
    ],
)
def test_what_is_not_simulated_says_why(text: str, reason: str) -> None:
    with pytest.raises(gradlab.GradlabError, match=reason):
        gradlab.simulate(text, engine="monte_carlo", quantity="ratio", mu_pos=[0.5], mu_neg=[0.7])


def test_anchors_without_negatives_are_counted() -> None:
    (a, b, _), _ = batch("random")
    cosines = (a @ b.T)[~np.eye(8, dtype=bool)].reshape(8, 7)
    threshold = np.sort(cosines.min(axis=1))[-1] - 1e-9
    statistics = gradlab.components(f"mask(infonce, above={threshold})", a, b).statistics
    assert statistics["masked_pairs"] == pytest.approx((cosines > threshold).mean())
    assert (
        0
        < statistics["without_negatives"]
        == pytest.approx((cosines > threshold).all(axis=1).mean())
    )


def test_each_mask_of_a_sum_has_its_statistics() -> None:
    """They are numbered from the second on, in the order of the terms, nested ones too."""
    (a, b, _), _ = batch("random")
    masks = [f"mask(infonce, above={threshold})" for threshold in (0.1, 0.3, 0.5)]
    shares = [gradlab.components(mask, a, b).statistics["masked_pairs"] for mask in masks]
    assert len(set(shares)) == 3
    for text in ("sum({}, dhel, {}, {})", "sum(sum({}, {}), {})", "sum({}, sum({}, {}))"):
        statistics = gradlab.components(text.format(*masks), a, b).statistics
        assert [statistics[f"masked_pairs{number}"] for number in ("", "_2", "_3")] == shares
        assert len(statistics) == 6


@pytest.mark.parametrize("form", ["{}", "symmetric({})", "pool({}, negatives=other+same)"])
def test_pairs_of_a_file_in_both_orders_and_all_pools(tmp_path, form: str) -> None:
    file = tmp_path / "pairs.csv"
    file.write_text("10,13\n\n17 11\n99,10\n", encoding="utf-8")
    (a, b, _), _ = batch("random")
    numbers = np.array([10, 11, 12, 13, 14, 15, 16, 17])
    mask = np.zeros((8, 8), dtype=bool)
    mask[[0, 3, 7, 1], [3, 0, 1, 7]] = True
    listed = gradlab.components(
        form.format(f"mask(infonce, by=pairs, pairs={file})"), a, b, sentences=numbers
    )
    masked = gradlab.components(form.format("mask(infonce, by=given)"), a, b, mask=mask)
    np.testing.assert_array_equal(listed.weight, masked.weight)
    for columns in listed.columns.values():
        assert not listed.weight[:, columns][mask].any()


def log_softmax(positive: float, negatives: list[float]) -> float:
    return np.log(1 + sum(np.exp((negative - positive) / 0.05) for negative in negatives))


@pytest.mark.parametrize(
    "text",
    [
        "symmetric(mask(infonce, by=given))",
        "mask(pool(infonce, negatives=other+positive_other), by=given)",
    ],
)
def test_a_mask_of_one_direction_is_read_transposed_in_the_other(text: str) -> None:
    """Entry (i, j) is of anchor i and positive j, whichever of the two is the row."""
    (a, b, _), _ = batch("paired")
    n = len(a)
    mask = np.zeros((n, n), dtype=bool)
    mask[[0, 0, 2, 5], [1, 4, 3, 6]] = True
    expected = []
    for i in range(n):
        forward = [a[i] @ b[j] for j in range(n) if j != i and not mask[i, j]]
        backward = [a[j] @ b[i] for j in range(n) if j != i and not mask[j, i]]
        sums = [forward + backward] if "pool" in text else [forward, backward]
        expected.append(np.mean([log_softmax(a[i] @ b[i], negatives) for negatives in sums]))
    loss = gradlab.get_loss(text)
    assert loss(a, b, mask=mask) == pytest.approx(np.mean(expected), rel=1e-9)
    assert gradlab.blockwise(loss, block_size=3)(a, b, mask=mask) == pytest.approx(
        np.mean(expected), rel=1e-9
    )


def test_a_file_of_pairs_that_changes_is_read_again(tmp_path) -> None:
    (a, b, _), _ = batch("random")
    file = tmp_path / "pairs.csv"
    masks = []
    for line in ("0,3", "1,2", "0,3 # again"):
        file.write_text(line, encoding="utf-8")
        loss = gradlab.get_loss(f"mask(infonce, by=pairs, pairs={file})")
        masks.append(gradlab.components(loss, a, b, sentences=np.arange(8)).weight == 0)
    assert [[mask[0, 3], mask[1, 2]] for mask in masks[:2]] == [[True, False], [False, True]]
    np.testing.assert_array_equal(masks[0], masks[2])


@pytest.mark.parametrize("line", ["10,eleven", f"1,{2**32}"])
def test_a_file_that_holds_no_pairs(tmp_path, line: str) -> None:
    file = tmp_path / "pairs.csv"
    file.write_text(f"1,2,3\n{line}\n", encoding="utf-8")
    with pytest.raises(gradlab.GradlabError, match=r"line 2 of .* is not two whole numbers"):
        gradlab.get_loss(f"mask(infonce, by=pairs, pairs={file})")
    with pytest.raises(gradlab.GradlabError, match="cannot read the pairs"):
        gradlab.get_loss(f"mask(infonce, by=pairs, pairs={tmp_path / 'none'})")


def test_prefixes_have_components_each() -> None:
    (a, b, _), _ = batch("paired")
    text = "per_prefix(infonce, dims=3+6)"
    components = gradlab.components(text, a, b)
    assert list(components.prefixes) == [3, 6]
    for d, prefix_components in components.prefixes.items():
        alone = gradlab.components("infonce", unit_rows(a[:, :d]), unit_rows(b[:, :d]))
        np.testing.assert_array_equal(prefix_components.weight, alone.weight)
    np.testing.assert_array_equal(components.weight, components.prefixes[6].weight)
    diagnostics = diagnose(text, a, b)
    expected = diagnose("infonce", unit_rows(a[:, :6]), unit_rows(b[:, :6]))
    for name in ("gradient_dissipation", "hubness", "ratio_both_sides", "lemma_share"):
        assert diagnostics[name] == pytest.approx(expected[name])


@pytest.mark.parametrize(
    "text",
    [
        "sum(per_prefix(infonce, dims=3+5), embedding_distillation, weights=2+3)",
        "sum(barlow_twins, per_prefix(barlow_twins, dims=3+5))",
        "sum(symmetric(arccon), per_prefix(barlow_twins, dims=3+5))",
    ],
)
def test_a_prefix_whose_pull_has_coordinates_stands_in_a_sum(text: str) -> None:
    (a, b, _), _ = batch("paired")
    loss = gradlab.get_loss(text)
    context = {"teacher": (a[:, ::-1].copy(), b)} if "teacher" in loss.looks_at else {}
    components = gradlab.components(loss, a, b, **context)
    rows = torch.from_numpy(a).requires_grad_()
    unit = torch.nn.functional.normalize(rows, dim=1)
    teacher = {"teacher": tuple(map(torch.from_numpy, context["teacher"]))} if context else {}
    loss(unit, torch.from_numpy(b), reduction="sum", **teacher).backward()
    np.testing.assert_allclose(components.gradient(exact=True), rows.grad.numpy(), atol=1e-11)
    assert np.isfinite(components.to_frame()["ratio"]).all()


def test_a_sum_is_its_terms_in_value_and_in_each_split() -> None:
    (a, b, extra), _ = batch("paired")
    texts, weights = ["infonce", "gor(threshold=0.01)", "symmetric(met)"], [1, 0.3, 2]
    weighted = gradlab.get_loss("sum", losses=texts, weights=weights)
    assert weighted == gradlab.get_loss(f"sum({', '.join(texts)}, weights=1+0.3+2)")
    extreme = gradlab.get_loss("sum", losses=texts, weights=[1e16, 1e-7, 2])
    assert gradlab.get_loss(str(extreme)) == extreme
    terms = [gradlab.get_loss(text) for text in texts]
    for reduction in ("mean", "none"):
        values = [
            w * t(a, b, extra, reduction if t.name != "gor" else "mean")
            for w, t in zip(weights, terms, strict=True)
        ]
        np.testing.assert_allclose(weighted(a, b, extra, reduction), sum(values), rtol=1e-14)
    for side in ("anchors", "positives"):
        components = gradlab.components(weighted, a, b, side=side)
        push = 0.0
        for (factor, term_components), weight, term in zip(
            components.terms, [1, 0.3 * 8, 2], terms, strict=True
        ):
            # The value of the batch stands in each of eight rows.
            assert factor == pytest.approx(weight)
            alone = gradlab.components(term, a, b, side=side)
            np.testing.assert_array_equal(term_components.weight, alone.weight)
            push = push + factor * term_components.total_push
        np.testing.assert_allclose(components.gradient_dissipation, push, rtol=1e-12)


@pytest.mark.parametrize("name", combinator_names())
def test_verify(name: str) -> None:
    text = "per_prefix(infonce, dims=2+5)" if name == "per_prefix" else name
    assert all(check.passed for check in gradlab.verify(text, batch_size=6, dim=5))


A, B, EXTRA = batch("random")[0]


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("pool(mhe)", {}, "mhe compares whole views"),
        ("pool(pool(infonce))", {}, "has a pool"),
        ("pool(infonce, positive=twice)", {}, "positive=twice needs the pool positive_other"),
        ("per_prefix(infonce, dims=4+9)", {}, "longer than the embedding, which has 7"),
        ("mask(infonce, by=given)", {}, "needs mask="),
        (
            "infonce",
            {"mask": np.zeros((8, 8), dtype=bool)},
            r"does not look at mask=; mask\(LOSS, by=given\)",
        ),
        ("symmetric(mask(infonce))", {"guide": (A, B)}, "does not look at guide="),
        (
            "sum(infonce, gor)",
            {"teacher": (A, B)},
            r"sum\(infonce, gor\) does not look at teacher=",
        ),
        ("mask(infonce, by=given)", {"mask": np.zeros((7, 8), dtype=bool)}, r"shape \(8, 8\)"),
        (
            "mask(infonce, by=given)",
            {"mask": np.ones((8, 8), dtype=bool)},
            "leaves anchor 0 no negative",
        ),
        ("hardness(infonce, on=hard)", {"extra_negatives": EXTRA}, "give their owners"),
        ("mask(infonce, by=guide)", {"guide": (A[:5], B[:5])}, "the guide's anchors have shape"),
        ("infonce", {"extra_negatives": EXTRA, "owners": [0, 1, 2, 8]}, "row numbers from 0 to 7"),
        (
            "symmetric(infonce)",
            {"extra_negatives": EXTRA, "in_batch_negatives": False},
            "needs in-batch",
        ),
        ("recombined(gate=supcon)", {}, "gate is taken from a loss with one positive"),
        ("sum(infonce, gor, weights=1+nan)", {}, "weights must be 2 numbers greater than 0"),
    ],
)
def test_bad_input(text: str, options: dict, message: str) -> None:
    with pytest.raises(gradlab.GradlabError, match=message):
        gradlab.components(text, A, B, **options)


ALONE = [
    *(f"symmetric({name})" for name in gradlab.loss_names() if name not in ("circle", "arctanh")),
    *(f"pool({name}, negatives=positive_other)" for name in ("infonce", "met", "siglip")),
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
        assert float(gradlab.blockwise(loss)(*rows).detach()) == pytest.approx(
            value, rel=1e-12, abs=1e-15
        )
    sides = gradlab.components(loss, anchors, positives, extra, side="both")
    gradients = gradlab.autograd_gradient(loss, anchors, positives, extra, side="both")
    for components, gradient in zip(sides, gradients, strict=True):
        assert np.isfinite(components.weight).all()
        np.testing.assert_allclose(
            components.gradient(exact=True), gradient, rtol=1e-11, atol=1e-11
        )


def test_the_pull_of_a_pair_that_is_counted_twice_is_not_rounding() -> None:
    """Near a full softmax, pull and push differ by less than either's rounding; here only sums."""
    rng = np.random.default_rng(0)
    anchors = unit_rows(rng.normal(size=(6, 32)))
    positives = unit_rows(anchors + 0.05 * rng.normal(size=(6, 32)))
    cosines, tau = anchors @ positives.T, 0.01
    pull, push = np.zeros(6), np.zeros(6)
    for i in range(6):
        negatives = [j for j in range(6) if j != i]
        forward = {j: np.exp((cosines[i, j] - cosines[i, i]) / tau) for j in negatives}
        backward = {j: np.exp((cosines[j, i] - cosines[i, i]) / tau) for j in negatives}
        total = 2 + sum(forward.values()) + sum(backward.values())
        pull[i] += (sum(forward.values()) + sum(backward.values())) / total / tau
        for j in negatives:
            push[i] += forward[j] / total / tau
            push[j] += backward[j] / total / tau
    assert pull.max() < np.finfo(float).eps
    text = f"pool(infonce(temperature={tau}), negatives=other+positive_other, positive=twice)"
    components = gradlab.components(text, anchors, positives)
    np.testing.assert_allclose(components.pull, pull, rtol=1e-10)
    np.testing.assert_allclose(components.ratio, pull / push, rtol=1e-10)


@pytest.mark.parametrize("name", ["siglip", "multi_similarity"])
@pytest.mark.parametrize("text", ["mask({}, above=-1)", "symmetric(mask({}, above=-1))"])
def test_the_ratio_of_an_anchor_that_is_pulled_alone_is_infinite(name: str, text: str) -> None:
    rng = np.random.default_rng(0)
    anchors = unit_rows(rng.standard_normal((4, 6)))
    positives = unit_rows(anchors + 0.3 * rng.standard_normal((4, 6)))
    # The mask leaves no negatives.
    components = gradlab.components(text.format(name), anchors, positives)
    assert np.isposinf(components.ratio).all()
    assert not components.gradient_dissipation.any()
    np.testing.assert_allclose(
        components.pull, gradlab.components(name, anchors, positives).pull, rtol=1e-12
    )
