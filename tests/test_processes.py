"""Losses of a batch spread over processes: values and gradients as in one, and errors on all."""

from __future__ import annotations

import importlib.util

import pytest
import torch
from blockwise_helpers import assert_equal_to_autograd, reductions, unit, views
from process_worker import compute, leave

import gradlab
from gradlab.losses.batch_loss import BatchLoss
from gradlab.losses.combinator import Combinator
from gradlab.losses.mask import hard_negative_numbers
from tests.processes import forking

TOLERANCE = 1e-12  # times max(1, largest entry)


def rounding(spec: str) -> float:
    """What another rounding of a cosine changes: a weight that is a logit's slope s, by eps s²."""
    return 4 * torch.finfo(torch.float64).eps * steepest(gradlab.get_loss(spec)) ** 2


def steepest(loss) -> float:
    """The slope of a logit where it is largest: 1/τ, of t-vMF (1 + 2κ)/τ."""
    own = (1 + 2 * getattr(loss, "concentration", 0.0)) / getattr(loss, "temperature", 1.0)
    return max([own, *map(steepest, loss.terms if isinstance(loss, Combinator) else ())])


COMBINATORS = ("symmetric", "pool", "mask", "hardness", "sum")
# Every registered loss, at their published settings, and what combinators and options make of some.
SPECS = [name for name in gradlab.loss_names() if name != "per_prefix"] + [
    "symmetric(arccon, reverse=met)",
    "symmetric(dhel)",
    "per_prefix(symmetric(infonce), dims=5+12)",
    "pool(infonce, negatives=other+same+positive_other+positive_same, positive=twice)",
    "pool(mpt, negatives=other+same+positive_other+positive_same)",
    "pool(siglip, denominators=separate)",
    "mask(infonce, above=0.2)",
    "sum(infonce, gor(threshold=0.01, mean_weight=1), symmetric(arccon), weights=1+0.5+2)",
    "symmetric(mask(hardness(pool(dcl)), above=0.4))",
    "baseline(effective_ratio=2r)",
    "modified_mhe(gate=one_view, effective_ratio=2r)",
    "recombined(gate=0.5, weight=uniform, ratio=0.3)",
    "recombined(gate=met, weight=arccon, ratio=mpt, effective_ratio=2r)",
    "recombined(gate=circle, weight=tvmf, ratio=arctanh)",
    "recombined(gate=cosent, weight=mhe, ratio=dhel)",
    "symmetric(recombined(gate=infonce, weight=infonce, ratio=1.0, gauge=unit))",
]


# With negatives of each anchor's own.
OWN = (
    "symmetric(infonce)",
    "arccon",
    "mask(symmetric(pool(infonce, negatives=own), reverse=dcl), by=batch, margin=-0.1, on=own)",
    "sum(symmetric(infonce), siglip, gor, weights=1+2+0.1)",
    "per_prefix(symmetric(hardness(pool(dcl), on=other)), dims=5+12)",
)

# All at once: four processes, uneven shares, nearly equal sentences and the smallest temperature.
HARD = (
    "infonce(temperature=0.001)",
    "symmetric(infonce(temperature=0.001))",
    "pool(infonce(temperature=0.001), negatives=other+same+positive_same)",
    "mhe(temperature=0.001)",
    "mpt",
    "mhs",
)


def nearly_collapsed(size: int, extra: int) -> list[torch.Tensor | None]:
    generator = torch.Generator().manual_seed(7)
    base = torch.randn(12, generator=generator, dtype=torch.float64)
    rows = [
        unit(base + 1e-3 * torch.randn(n, 12, generator=generator, dtype=torch.float64))
        for n in (size, size, extra)
    ]
    return [tensor if len(tensor) else None for tensor in rows]


def sizes_of(count: int, total: int, even: bool) -> list[int]:
    """Shares of ``total`` rows: equal ones, or one of 1 row and the rest uneven."""
    if even:
        return [total // count] * count
    if total < count:
        return [total] + [0] * (count - 1)
    sizes = [1, *[(total - 1) // (count - 1) + place for place in range(count - 1)]]
    sizes[-1] += total - sum(sizes)
    return sizes


def make_cases(count: int) -> list[dict]:
    """Of each loss a batch of uneven shares, and nearly equal sentences in even shares.

    Over four processes one of them.
    """
    cases = []
    for place, spec in enumerate(SPECS):
        loss = gradlab.get_loss(spec)
        kinds = reductions(loss) if not isinstance(loss, Combinator) else ("mean", "sum")
        extra = 0 if isinstance(loss, BatchLoss) and place % 2 else 9
        alone = not isinstance(loss, Combinator | BatchLoss) and bool(place % 2)
        batches = [(False, views(25, extra)), (True, nearly_collapsed(24, 0))]
        for even, rows in batches if count == 2 else [batches[spec != "infonce" and place % 2]]:
            reduction = kinds[place % len(kinds)]
            extra_rows = 0 if even else extra
            cases.append(
                {
                    "loss": spec,
                    "rows": rows,
                    "sizes": [sizes_of(count, len(rows[0]), even)] * 2
                    + [
                        [0] * (count - 1) + [extra_rows]
                        if place % 3
                        else sizes_of(count, extra_rows, even)
                    ],
                    "reduction": reduction,
                    "in_batch": even or not alone,
                    "block": 5 if even else None,
                    "on 1": {"block": 2},  # each process may have its own
                    "average": reduction != "none" and even,
                    "without gradient": () if reduction == "none" or even else (0,),
                }
            )
    for place, spec in enumerate(OWN):
        rows = [
            *views(25, 9 * (place % 2)),
            unit(views(75)[0].detach().view(25, 3, 12)).requires_grad_(),
        ]
        sizes = [sizes_of(count, 25, False)] * 2 + [sizes_of(count, 9, False)]
        case = {
            "loss": spec,
            "rows": rows,
            "sizes": [*sizes, sizes[0]],
            "block": 7 if place % 2 else None,
        }
        cases.append(
            {**case, "reduction": ("mean", "none", "sum")[place % 3], "in_batch": place != 1}
        )
    for spec in HARD if count == 4 else ():
        rows = nearly_collapsed(23, 5)
        sizes = [sizes_of(count, 23, False)] * 2 + [sizes_of(count, 5, False)]
        cases.append({"loss": spec, "rows": rows, "sizes": sizes, "reduction": "mean"})
    for case in cases:
        case["rows"] = [None if tensor is None else tensor.detach() for tensor in case["rows"]]
        case["upstream"] = torch.linspace(-1, 2, len(case["rows"][0]), dtype=torch.float64)
    return cases


def run(count: int, cases: list[dict], folder) -> list[list[dict]]:
    context = forking()
    torch.save(cases, folder / "cases.pt")
    started = [
        context.Process(target=compute, args=(rank, count, str(folder))) for rank in range(count)
    ]
    for process in started:
        process.start()
    for process in started:
        process.join(250)
        assert process.exitcode is not None
    ended = [place.read_text() for place in sorted(folder.glob("*.txt"))]
    assert not ended, "\n".join(ended)
    return [
        torch.load(folder / f"{rank}.pt") if (folder / f"{rank}.pt").exists() else []
        for rank in range(count)
    ]


def drawn(*shape: int) -> torch.Tensor:
    return unit(
        torch.randn(*shape, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    )


def shared(loss: str, whole: dict, *shares: dict, extra: int = 0, **settings) -> tuple[dict, dict]:
    """A case of 4 and 6 anchors, and what one process is given instead.

    Processes are given the rows of ``whole`` that belong to their anchors, or ``shares``. Extra
    negatives are on the second.
    """
    shares = shares or tuple(
        {
            name: [leaf[rows] for leaf in tensor] if isinstance(tensor, list) else tensor[rows]
            for name, tensor in whole.items()
        }
        for rows in (slice(4), slice(4, 10))
    )
    case = {"loss": loss, "extra": extra, "sizes": [[4, 6], [4, 6], [0, extra]], **settings}
    return case | {f"on {rank}": {"context": context} for rank, context in enumerate(shares)}, whole


def uneven(folder) -> list[tuple[dict, dict]]:
    """Cases of two processes that do not bring the same, and what one process is given instead."""
    (folder / "pairs").write_text("0 4\n7,3\n")
    owners, guide, far = torch.tensor([0, 1, 5, -1]), [drawn(10, 6), drawn(10, 6)], drawn(4, 6)
    labels = torch.tensor([0, 1, 1, 0, 2, 2, 1, 3, 0, 3])
    relation = torch.where(labels[:, None] == torch.cat([labels, labels, labels[:4]]), 1, -1)
    relation[:, 5] = 0
    guided, shares = (
        "mask(infonce, by=guide)",
        [[tensor[:4] for tensor in guide], [tensor[4:] for tensor in guide]],
    )
    guides = {"guide": shares[0]}, {"guide": [*shares[1], far]}
    teachers = {"teacher": [*shares[0], far[:0]]}, {"teacher": [*shares[1], far]}
    own = {"own_negatives": drawn(10, 2, 12), "guide": [*guide, drawn(10, 2, 6)]}
    hard = {"owners": torch.where(owners < 0, owners, owners + 4)}
    semi_hard = "pool(triplet(mining=semi_hard, mean_over=positives, margin=0.5), negatives=same)"
    kernels = [
        shared("sum(symmetric(infonce), tvmf, dhel)", {}, dtype=torch.float32, way="kernels")
    ]
    return [
        shared("hardness(infonce, on=hard)", hard, {}, {"owners": owners}, extra=4, block=3),
        shared(guided, {"guide": [*guide, far]}, *guides, extra=4, block=3, in_batch=False),
        shared(guided, own),
        shared(
            f"mask(infonce, by=pairs, pairs={folder / 'pairs'})",
            {"sentences": torch.arange(10)},
            block=3,
        ),
        shared("symmetric(pool(supcon, negatives=other+same))", {"labels": labels}, extra=4),
        shared("sum(sincere, symmetric(infonce), gor)", {"labels": labels}, extra=4),
        shared("pool(mil_nce)", {"relation": relation}, extra=4),
        shared("sum(kl, margin_mse)", {"teacher": drawn(10, 14)}, extra=4),
        shared(
            "symmetric(sum(kl, embedding_distillation))",
            {"teacher": [drawn(10, 12), drawn(10, 12)]},
        ),
        shared("sum(kl, margin_mse)", {"teacher": [*guide, far]}, *teachers, extra=4),
        shared("cosent", {"scores": labels.double()}),
        shared("triplet(mean_over=active, margin=0.5)", {"labels": labels}, extra=4),
        shared(semi_hard, {"labels": labels}),
        *unequal_own(folder),
        shared("infonce", {}, times=3, **{"without gradient": (0,)}),
        shared("infonce", {}, dtype=torch.bfloat16),
        *(kernels if importlib.util.find_spec("triton") else []),
    ]


def unequal_own(folder) -> list[tuple[dict, dict]]:
    """Two own negatives of each anchor on one process, three on the other.

    On one process a third one stands opposite to the anchor, which leaves it e^-50 of the softmax.
    """
    (anchors, positives), own = (tensor.detach() for tensor in views(10)[:2]), drawn(10, 3, 12)
    own[:4, 2] = -anchors[:4]
    (folder / "own").write_text("1,1,2\n6,6,1\n")
    rows = torch.arange(10)
    numbers = torch.stack([hard_negative_numbers(rows, column) for column in (1, 2, 3)], 1)
    numbers[:4, 2] = -1
    numbered = {"sentences": torch.cat([rows, numbers.flatten()])}
    first, second = (
        {"sentences": torch.cat([rows[rows_of_rank], numbers[rows_of_rank, :width].flatten()])}
        for rows_of_rank, width in ((slice(4), 2), (slice(4, 10), 3))
    )
    own_negatives = {
        "rows": [anchors, positives, None, own],
        "sizes": [[4, 6], [4, 6], [0, 0], [4, 6]],
        "widths": [2, 3],
    }
    masked = f"mask(infonce(temperature=0.02), by=pairs, pairs={folder / 'own'})"
    return [
        shared("infonce(temperature=0.02)", {}, **own_negatives),
        shared("symmetric(infonce(temperature=0.02))", {}, **own_negatives),
        shared(masked, numbered, first, second, **own_negatives),
    ]


def uneven_case(change: dict) -> dict:
    rows = [None if tensor is None else tensor.detach() for tensor in views(10, change["extra"])]
    return {"rows": rows, "reduction": "mean", **change}


TWO_EXTRA = {
    "rows": [tensor.detach() for tensor in views(8, 4)],
    "sizes": [[4, 4], [4, 4], [2, 2]],
}
ERRORS = {
    "differ in whether extra negatives have owners: True on process 0, False on process 1": {
        **TWO_EXTRA,
        "on 0": {"context": {"owners": torch.tensor([0, 1])}},
    },
    "differ in whether anchors have negatives of their own: "
    "True on process 0, False on process 1": {
        "on 0": {"context": {"own_negatives": unit(torch.ones(4, 3, 12).double())}}
    },
    "process 1: infonce has no argument 'foo'": {"on 1": {"context": {"foo": 1}}},
    "differ in dtype: float64 on process 0, float32 on process 1": {
        "on 1": {"dtype": torch.float32}
    },
    # Not that the rows of one of them are no unit vectors in float64.
    "differ in dtype: float32 on process 0, float64 on process 1": {
        "rows": [tensor.detach().float().double() for tensor in views(8)[:2]] + [None],
        "on 0": {"dtype": torch.float32},
    },
    "process 1: there are no rows on it": {"sizes": [[8, 0], [8, 0], [0, 0]]},
    "process 0: anchors contain NaN": {"bad": 0},
}


@pytest.fixture(scope="module")
def together(tmp_path_factory):
    """Every case over two processes, and over four, each started once."""
    outcomes = {}
    for count in (2, 4):
        cases = make_cases(count)
        ending = {"on 1": {"ends": True}}
        errors = [error_case(change) for change in [*ERRORS.values(), ending]] if count == 2 else []
        folder = tmp_path_factory.mktemp("ring")
        unlike = uneven(folder) if count == 2 else []
        jobs = [*cases, *(uneven_case(change) for change, _ in unlike), *errors]
        outcomes[count] = cases, run(count, jobs, folder), unlike
    return outcomes


def error_case(change: dict) -> dict:
    rows = [tensor if tensor is None else tensor.detach() for tensor in views(8)]
    if "bad" in change:
        rows[0][change["bad"], 0] = torch.nan
    case = {"loss": "infonce", "rows": rows, "sizes": [[4, 4], [4, 4], [0, 0]], "reduction": "mean"}
    return {**case, **change}


def check_outcomes(case: dict, outcomes: list[dict], context: dict, least: float = 0.0) -> None:
    """Values and gradients of shares with one process's; ``least`` is allowed of any gradient."""
    words = f"{case['loss']} {case['reduction']} {case['sizes']}"
    assert all("error" not in outcome for outcome in outcomes), (words, outcomes)
    dtype, times = case.get("dtype", torch.float64), case.get("times", 1)
    rows = [
        None if view is None else view.to(dtype, copy=True).requires_grad_()
        for view in case["rows"]
    ]
    if len(rows) > 3:
        context = {**context, "own_negatives": rows[3]}
    loss = (gradlab.get_loss if dtype == torch.float64 else gradlab.blockwise)(case["loss"])
    value = loss(
        *rows[:3], case["reduction"], in_batch_negatives=case.get("in_batch", True), **context
    )
    value.backward(case["upstream"] if value.ndim else torch.tensor(1.7 * times, dtype=value.dtype))
    values = (
        value.detach().split(case["sizes"][0]) if value.ndim else [value.detach()] * len(outcomes)
    )
    # Half-precision rows are computed with in float32, as in kernels; gradients have their dtype.
    near = TOLERANCE if dtype == torch.float64 else 1e-5
    size, factor = max(near, torch.finfo(dtype).eps), len(outcomes) if case.get("average") else 1
    for rank, (outcome, expected) in enumerate(zip(outcomes, values, strict=True)):
        torch.testing.assert_close(outcome["value"], expected, rtol=near, atol=near, msg=words)
        for index, (leaf, gradient) in enumerate(zip(rows, outcome["gradients"], strict=True)):
            sizes = case["sizes"][index]
            if leaf is None or rank in case.get("without gradient", ()) or not sizes[rank]:
                assert gradient is None or not len(gradient)
                continue
            whole = torch.zeros_like(leaf) if leaf.grad is None else leaf.grad
            share = whole.split(sizes)[rank]
            if index == 3 and "widths" in case:
                share = share[:, : case["widths"][rank]]
            allowed = factor * max(size * max(1.0, float(whole.abs().max())), least)
            message = f"{words} {index} {rank}"
            torch.testing.assert_close(gradient, factor * share, rtol=0, atol=allowed, msg=message)


@pytest.mark.parametrize("count", [2, 4])
def test_values_and_gradients_are_those_of_one_process(together, count):
    cases, outcomes, _ = together[count]
    for number, case in enumerate(cases):
        check_outcomes(case, [outcome[number] for outcome in outcomes], {}, rounding(case["loss"]))


@pytest.mark.parametrize("count", [2, 4])
def test_all_processes_call_the_same_collectives_in_one_order(together, count):
    """None that NCCL lacks, and with the same tensors; else processes would wait for ever."""
    cases, outcomes, _ = together[count]
    for number, case in enumerate(cases):
        first, *remaining = (outcome[number]["collectives"] for outcome in outcomes)
        assert first, case
        assert all(calls == first for calls in remaining), case
        assert {name for name, _ in first} <= {
            "all_gather_object",
            "all_reduce",
            "broadcast",
            "reduce",
        }


def test_what_processes_need_not_bring_alike(together):
    cases, outcomes, unlike = together[2]
    for number, (change, context) in enumerate(unlike, len(cases)):
        check_outcomes(uneven_case(change), [outcome[number] for outcome in outcomes], context)


@pytest.mark.parametrize("words", ERRORS)
def test_every_process_raises_what_is_wrong_with_one(together, words):
    first, second = together[2][1]
    place = len(second) - len(ERRORS) + list(ERRORS).index(words)
    own = words.partition(": ")[2] if words.startswith("process") else words
    texts = [first[place]["error"], second[place]["error"]]
    assert all(own in text for text in texts)
    assert any(words in text for text in texts)


def test_a_process_that_ends_ends_the_others(together):
    last = together[2][1][0][-1]  # to which the second process did not come
    assert "process 0 of 2 lost touch with another, which has ended or hangs" in last["error"]
    assert last["seconds"] < 60


@pytest.mark.parametrize("own_group", [False, True])
def test_a_value_that_outlives_its_processes_keeps_no_group(tmp_path, own_group):
    """Its threads would abort the interpreter at exit; a retained graph serves until then."""
    processes = [
        forking().Process(target=leave, args=(rank, 2, str(tmp_path), own_group))
        for rank in range(2)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(100)
    assert [process.exitcode for process in processes] == [0, 0]
    for rank in range(2):
        assert (tmp_path / f"{rank}.kept").read_text() == "none"


# The last one has a loss of the batch that asks for no similarities, beside one that goes row by
# row, on the same prefix.
@pytest.mark.parametrize(
    "spec",
    [
        *(spec for spec in SPECS if spec.startswith(COMBINATORS)),
        "per_prefix(symmetric(vicreg, reverse=infonce), dims=3+5)",
    ],
)
def test_combinators_in_one_process(spec):
    assert_equal_to_autograd(gradlab.get_loss(spec), views(24), 7, TOLERANCE, 1.0)
