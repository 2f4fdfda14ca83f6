"""Random search: an absent candidate changes no value, gradient or component, whatever it holds.

    python tests/manual/absent_search.py --minutes 60 --seed 1

A case is a registered loss, with random settings, in random combinators. Some extra negatives are
absent for every anchor: by relation 0, by a mask, or as rows without a number in common. Each is
evaluated twice: the absent columns hold ordinary vectors and scores, then hostile ones (an anchor,
its opposite, a positive, scores from -1e300 to 1e300). Values, both gradients and the components of
both sides must be finite and stay as they are, and an absent column gets no gradient; plainly and
in blocks. Cells that are absent for one anchor only get hostile scores. Exit status 1 if anything
is wrong.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import test_random_losses as definitions

import gradlab
from gradlab.batch import unit_rows
from gradlab.losses.candidate_loss import CandidateLoss
from gradlab.losses.pair_loss import PairLoss
from gradlab.losses.registry import loss_names, taught_names

SCORES = (1e4, -1e4, 1e30, -1e30, 1e300, -1e300)
# Losses of whole views have no candidates that could be absent.
DEFAULTS, TAUGHT = (
    [name for name in names if isinstance(gradlab.get_loss(name), PairLoss | CandidateLoss)]
    for names in (loss_names(), taught_names())
)
FIELDS = ("gradient_dissipation", "weight", "ratio", "positive_weight")


def drawn_loss(rng: np.random.Generator, dim: int) -> str:
    """A loss with random settings, in up to three combinators."""
    kind = rng.choice(["settings", "default", "taught"], p=[0.5, 0.3, 0.2])
    if kind == "settings":
        text = definitions.random_pairs(rng)[0][0]
    elif kind == "default":
        text = str(rng.choice(DEFAULTS))
    else:
        text = str(rng.choice(TAUGHT))
        if text == "kl":
            student, teacher = 10 ** rng.uniform(-2.5, 1, size=2)
            text = f"kl(temperature={student}, teacher_temperature={teacher})"
    for _ in range(rng.integers(0, 4)):
        above, first = rng.uniform(-0.5, 0.99), int(rng.integers(1, dim))
        forms = (
            f"symmetric({text})", f"mask({text}, above={above})",
            f"pool({text}, negatives=other+same)", f"pool({text}, negatives=same)",
            f"per_prefix({text}, dims={first}+{dim})", f"sum({text}, infonce, weights=1+0.5)",
            f"hardness({text}, alpha={rng.uniform(0.1, 9)})",
        )  # fmt: skip
        text = str(rng.choice(forms, p=[0.2, 0.18, 0.18, 0.18, 0.12, 0.1, 0.04]))
    return text


def evaluated(text: str, rows: list[np.ndarray], context: dict, block: int) -> dict:
    """Values, gradients and components by name, plainly and in blocks of anchors."""
    loss, arrays = gradlab.get_loss(text), {}
    for way, function in (("plain", loss), ("blocks", gradlab.blockwise(loss, block))):
        leaves = [torch.from_numpy(view).requires_grad_() for view in rows]
        tensors = {
            name: torch.from_numpy(array) if name == "teacher" else array
            for name, array in context.items()
        }
        value = function(*leaves, "mean", **tensors)
        slopes = torch.autograd.grad(value, leaves, allow_unused=True, materialize_grads=True)
        arrays[f"{way}: value"] = value.detach().numpy()
        for name, slope in zip(("anchors", "positives", "extra"), slopes, strict=True):
            arrays[f"{way}: gradient by {name}"] = slope.numpy()
    for side in ("anchors", "positives"):
        components = gradlab.components(text, *rows, side=side, **context)
        for field in FIELDS:
            arrays[f"{side}: {field}"] = np.asarray(getattr(components, field))
    return arrays


def context_of(rng: np.random.Generator, kind: str, rows: list[np.ndarray], absent: int) -> dict:
    """What makes the last ``absent`` extra negatives, and random cells, no candidates."""
    n, columns = len(rows[0]), len(rows[0]) + len(rows[2])
    cells = rng.random((n, columns)) < 0.2
    cells[:, columns - absent :] = True
    cells[np.arange(n), np.arange(n)] = False
    if kind == "mask":
        return {"mask": cells}
    relation = np.where(np.eye(n, columns, dtype=bool), 1, rng.choice([-1, -1, 1], (n, columns)))
    return {"relation": np.where(cells, 0, relation)}


def case(rng: np.random.Generator) -> list[str]:
    """What is wrong with a random case."""
    n, m, dim = int(rng.integers(2, 9)), int(rng.integers(1, 4)), int(rng.integers(2, 9))
    absent, block = int(rng.integers(1, 3)), int(rng.integers(1, n + 1))
    kind = str(rng.choice(["relation", "mask"]))
    text = drawn_loss(rng, dim)
    if kind == "mask":
        text = f"mask({text}, by=given)"
    rows = definitions.random_rows(rng, n, m + absent, dim)
    rows[2][m:] = unit_rows(rng.normal(size=(absent, dim)))
    context = context_of(rng, kind, rows, absent)
    hostile_rows = [*rows[:2], rows[2].copy()]
    for column in range(m, m + absent):
        source = rows[int(rng.integers(2))][int(rng.integers(n))]
        hostile_rows[2][column] = rng.choice([1, -1]) * source
    hostile = dict(context)
    if "kl" in text or "margin_mse" in text:
        context["teacher"] = rng.normal(size=(n, n + m + absent)) / 5
        cells = context["mask"] if kind == "mask" else context["relation"] == 0
        scores = rng.choice(SCORES, size=cells.shape)
        hostile["teacher"] = np.where(cells, scores, context["teacher"])
    expected = evaluated(text, rows, context, block)
    label = f"{text}, {kind}, N = {n}, M = {m} + {absent}, D = {dim}, block {block}"
    try:
        actual = evaluated(text, hostile_rows, hostile, block)
    except gradlab.GradlabError as error:
        return [f"{label}: refused only with hostile candidates: {error}"]
    failures = []
    for name, array in actual.items():
        reference = expected[name]
        # A ratio is NaN where nothing pushes.
        measured = np.isfinite(reference)
        if name.startswith(("plain", "blocks")) and not measured.all():
            failures.append(f"{label}: {name} is not finite without hostile candidates")
        elif (np.isfinite(array) != measured).any():
            failures.append(f"{label}: {name} is finite only without hostile candidates")
        elif measured.any():
            scale = max(1.0, float(abs(reference[measured]).max()))
            apart = float(abs(array - reference)[measured].max())
            if apart > 1e-11 * scale:
                failures.append(f"{label}: {name} changes by {apart:.3g}")
        if name.endswith("by extra") and array[m:].any():
            failures.append(f"{label}: {name} reaches an absent candidate")
    return failures


def main() -> int:
    """Search for the time asked; print what is wrong and why cases were left out."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    end, number, tried, mismatches = time.monotonic() + 60 * options.minutes, 0, 0, 0
    refusals: Counter[str] = Counter()
    while time.monotonic() < end:
        try:
            failures = case(np.random.default_rng([options.seed, number]))
        except gradlab.GradlabError as error:
            refusals[str(error)[:60]] += 1
            failures = None
        except Exception as error:  # whatever it is, it is wrong
            failures = [repr(error)]
        number += 1
        if failures is None:
            continue
        tried += 1
        mismatches += bool(failures)
        for line in failures:
            print(f"case {number - 1} of seed {options.seed}: {line}", flush=True)
        if tried % 1000 == 0:
            print(f"{tried} cases, {mismatches} wrong", flush=True)
    print(f"{tried} cases, {mismatches} wrong; {sum(refusals.values())} refused in a line:")
    for message, count in refusals.most_common(12):
        print(f"  {count:5} {message}")
    return int(mismatches > 0)


if __name__ == "__main__":
    sys.exit(main())
