"""Losses on pairs whose batch is spread over processes: as in one process, values and gradients, and errors on all."""

from __future__ import annotations

import pytest
import torch
from blockwise_helpers import unit, views
from ring_worker import compute

import gradlab
from gradlab.large_batch.ring_evaluation import asked_by
from gradlab.losses.base import PairLoss
from gradlab.losses.registry import loss_class
from tests.processes import forking

TOLERANCE = 1e-12  # times max(1, largest entry)


def rounding(spec: str) -> float:
    """What a cosine that is rounded otherwise changes: eps/τ of a weight, which has the factor 1/τ; it shows at τ = .001."""
    loss = gradlab.get_loss(spec)
    return 4 * torch.finfo(torch.float64).eps / getattr(loss, "temperature", 1.0) ** 2


def supported(loss: PairLoss) -> bool:
    try:
        asked_by(loss)
    except gradlab.GradlabError:
        return False
    return True


PAIR_NAMES = [name for name in gradlab.loss_names() if issubclass(loss_class(name), PairLoss)]
SPECS = [name for name in PAIR_NAMES if supported(gradlab.get_loss(name))] + [
    "infonce(temperature=0.001)",
    "symmetric(infonce)",
    "symmetric(arccon, reverse=met)",
    "per_prefix(symmetric(infonce), dims=5+12)",
    "baseline(effective_ratio=2r)",
    "recombined(gate=infonce, weight=met, ratio=arccon)",
    "recombined(gate=met, weight=arccon, ratio=mpt, effective_ratio=2r)",
]


def nearly_collapsed(size: int, extra: int) -> list[torch.Tensor | None]:
    generator = torch.Generator().manual_seed(7)
    base = torch.randn(12, generator=generator, dtype=torch.float64)
    rows = [
        unit(base + 1e-3 * torch.randn(n, 12, generator=generator, dtype=torch.float64))
        for n in (size, size, extra)
    ]
    return [part if len(part) else None for part in rows]


def sizes_of(count: int, total: int, even: bool) -> list[int]:
    """Shares of ``total`` rows: equal ones, or one of 1 row and the rest uneven."""
    if even:
        return [total // count] * count
    sizes = [1, *[(total - 1) // (count - 1) + place for place in range(count - 1)]]
    sizes[-1] += total - sum(sizes)
    return sizes


def make_cases(count: int) -> list[dict]:
    cases = []
    for place, spec in enumerate(SPECS):
        combined = "symmetric" in spec  # which needs in-batch negatives
        for even, extra, in_batch, rows in (
            (True, 0, True, views(24)),
            (False, 9, True, views(25, 9)),
            (True, 8, combined, views(24, 8)),
            (False, 0, True, nearly_collapsed(22, 0)),
        ):
            reduction = ("mean", "sum", "none")[place % 3]
            total = len(rows[0])
            cases.append(
                {
                    "loss": spec,
                    "rows": [None if part is None else part.detach() for part in rows],
                    "sizes": [sizes_of(count, total, even)] * 2
                    + [sizes_of(count, extra, even) if extra else [0] * count],
                    "reduction": reduction,
                    "in_batch": in_batch,
                    "block": 5 if even else None,
                    "average": reduction != "none" and even,
                    "upstream": torch.linspace(-1, 2, total, dtype=torch.float64),
                    "without gradient": () if reduction == "none" or even else (0,),
                }
            )
    return cases


def run(count: int, cases: list[dict], folder) -> list[list[dict]]:
    context = forking()
    torch.save(cases, folder / "cases.pt")
    started = [context.Process(target=compute, args=(rank, count, str(folder))) for rank in range(count)]
    for process in started:
        process.start()
    for process in started:
        process.join(120)
        assert process.exitcode is not None
    return [
        torch.load(folder / f"{rank}.pt") if (folder / f"{rank}.pt").exists() else [] for rank in range(count)
    ]


ERRORS = {
    "differ in loss": {"on 1": {"loss": "infonce(temperature=0.2)"}},
    "differ in dtype: float64 on process 0, float32 on process 1": {"on 1": {"dtype": torch.float32}},
    "differ in reduction": {"on 1": {"reduction": "sum"}},
    "process 1: there are no rows on it": {"sizes": [[8, 0], [8, 0], [0, 0]]},
    "process 0: anchors contain NaN": {"bad": 0},
}


@pytest.fixture(scope="module")
def together(tmp_path_factory):
    """Every case over two processes, and over four, each started once."""
    found = {}
    for count in (2, 4):
        cases = make_cases(count)
        ending = {"on 1": {"ends": True}}
        errors = [error_case(change) for change in [*ERRORS.values(), ending]] if count == 2 else []
        found[count] = cases, run(count, [*cases, *errors], tmp_path_factory.mktemp("ring"))
    return found


def error_case(change: dict) -> dict:
    rows = [part if part is None else part.detach() for part in views(8)]
    if "bad" in change:
        rows[0][change["bad"], 0] = torch.nan
    case = {"loss": "infonce", "rows": rows, "sizes": [[4, 4], [4, 4], [0, 0]], "reduction": "mean"}
    return {**case, **change}


@pytest.mark.parametrize("count", [2, 4])
def test_values_and_gradients_are_those_of_one_process(together, count):
    cases, found = together[count]
    for number, case in enumerate(cases):
        rows = [None if part is None else part.clone().requires_grad_() for part in case["rows"]]
        value = gradlab.get_loss(case["loss"])(*rows, case["reduction"], in_batch_negatives=case["in_batch"])
        value.backward(case["upstream"] if value.ndim else torch.tensor(1.7, dtype=torch.float64))
        words = f"{case['loss']} {case['reduction']} {case['sizes']} on {count}"
        parts = [one[number] for one in found]
        assert all("error" not in part for part in parts), (words, parts)
        if value.ndim:
            values = torch.cat([part["value"] for part in parts])
            torch.testing.assert_close(values, value.detach(), rtol=TOLERANCE, atol=TOLERANCE, msg=words)
        for part in parts if not value.ndim else []:
            torch.testing.assert_close(
                part["value"], value.detach(), rtol=TOLERANCE, atol=TOLERANCE, msg=words
            )
        factor = count if case["average"] else 1
        for which, leaf in enumerate(rows):
            if leaf is None:
                continue
            expected = torch.zeros_like(leaf) if leaf.grad is None else leaf.grad
            scale = max(1.0, float(expected.abs().max()))
            shares = expected.split(case["sizes"][which])
            for rank, share in enumerate(shares):
                one = parts[rank]["gradients"][which]
                if rank in case["without gradient"]:
                    assert one is None
                elif len(share):
                    torch.testing.assert_close(
                        one,
                        factor * share,
                        rtol=0,
                        atol=factor * max(TOLERANCE * scale, rounding(case["loss"])),
                        msg=f"{words} {which} {rank}",
                    )


@pytest.mark.parametrize("words", ERRORS)
def test_every_process_raises_what_is_wrong_with_one(together, words):
    _, found = together[2]
    place = len(ERRORS) - list(ERRORS).index(words)
    own = words.partition(": ")[2] if words.startswith("process") else words
    texts = [
        found[0][-place - 1]["error"],
        found[1][-place]["error"],
    ]  # the second ended before the last case
    assert all(own in text and "\n" not in text for text in texts)
    assert any(words in text for text in texts)


def test_a_process_that_ends_ends_the_others(together):
    last = together[2][1][0][-1]
    assert "process 0 of 2 lost touch with another, which has ended or hangs" in last["error"]
    assert last["seconds"] < 60


def test_what_the_ring_cannot_do_is_refused():
    with pytest.raises(gradlab.GradlabError, match="takes losses on pairs"):
        gradlab.blockwise("mhe", group="world")
    with pytest.raises(gradlab.GradlabError, match="takes losses on pairs"):
        gradlab.blockwise("pool(infonce)", group="world")
    with pytest.raises(gradlab.GradlabError, match="all cosines of a row at once"):
        gradlab.blockwise("recombined(gate=0.5, weight=uniform, ratio=0.0)", group="world")
    with pytest.raises(gradlab.GradlabError, match="average=True belongs to group="):
        gradlab.blockwise("infonce", average=True)
    with pytest.raises(gradlab.GradlabError, match="start them with torchrun"):
        gradlab.blockwise("infonce", group="world")(*views(8)[:2])
