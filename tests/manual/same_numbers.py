"""Do two checkouts give the same numbers, bit by bit, for some 370 losses?

    python tests/manual/same_numbers.py OTHER_CHECKOUT
    python tests/manual/same_numbers.py OTHER_CHECKOUT --only components watch

Every registered loss, alone and in combinators, on batches of several kinds: values, gradients by
autograd, components of both sides, diagnostics, blocks; simulations of each loss; and the metrics
files of watched runs. What a loss refuses must be refused in the same words. Prints each result
that differs, and how many agree; exit status 1 if one differs.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COMBINED = (
    "{}", "symmetric({})", "mask({}, above=0.3)", "hardness({}, alpha=2)",
    "pool({}, negatives=other+same)", "pool({}, negatives=same)", "sum({}, gor)",
    "symmetric(pool({}, negatives=other+same))", "per_prefix({}, dims=4+6)",
    "symmetric({}, reverse=infonce)", "mask(symmetric({}), above=0.3)",
    "sum(symmetric({}), mhe, weights=1+0.5)",
)  # fmt: skip
RECORDS = 13
WATCHED = ("infonce", "arccon", "mpt", "vicreg", "mhe", "symmetric(infonce)", "sum(infonce, gor)")


def batches() -> dict[str, dict]:
    """Return arguments of a loss by the kind of batch."""
    import numpy as np
    import torch

    draw = np.random.default_rng(0)

    def unit(*shape: int) -> np.ndarray:
        rows = draw.normal(size=shape)
        return rows / np.linalg.norm(rows, axis=-1, keepdims=True)

    def near(rows: np.ndarray) -> np.ndarray:
        moved = rows + 0.2 * draw.normal(size=rows.shape)
        return moved / np.linalg.norm(moved, axis=-1, keepdims=True)

    anchors = unit(7, 6)
    views = {"anchors": anchors, "positives": near(anchors)}
    single = torch.nn.functional.normalize(torch.as_tensor(unit(20, 8)).float(), dim=1)
    return {
        "pairs": views,
        "extra": {**views, "extra_negatives": unit(3, 6)},
        "own": {**views, "own_negatives": unit(7, 2, 6)},
        "labels": {**views, "labels": np.array([0, 1, 0, 2, 3, 2, 4])},
        "float32": {"anchors": single, "positives": single.roll(1, 0)},
    }


def digest(content: object) -> str:
    """Return a short digest of numbers, arrays, and nested collections of them."""
    import numpy as np
    import torch

    if isinstance(content, torch.Tensor):
        content = content.detach().numpy()
    if isinstance(content, np.ndarray):
        text = f"{content.dtype}{content.shape}".encode() + np.ascontiguousarray(content).tobytes()
    elif isinstance(content, dict):
        text = json.dumps({str(key): digest(entry) for key, entry in content.items()}).encode()
    elif isinstance(content, list | tuple):
        text = json.dumps([digest(entry) for entry in content]).encode()
    else:
        text = repr(content).encode()
    return hashlib.sha256(text).hexdigest()[:16]


def attempt(compute: Callable[[], object]) -> str:
    """Return the digest of a result, or of the words in which it is refused."""
    from gradlab.errors import GradlabError

    try:
        return digest(compute())
    except GradlabError as error:
        return "refused " + digest(str(error))


def of_components(components: object) -> dict:
    fields = {
        field.name: getattr(components, field.name)
        for field in dataclasses.fields(components)
        if field.name not in ("views", "counterpart", "terms", "displaced_push")
    }
    derived = (
        "pull", "gate", "total_push", "total_weight", "ratio", "scalar_ratio", "hardest_share",
        "relative_push", "negative_cosines", "pulls",
    )  # fmt: skip
    numbers = fields | {name: getattr(components, name) for name in derived}
    return numbers | {"gradient": components.gradient(exact=True)}


def of_losses() -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield what is computed of each loss on each batch."""
    import gradlab
    from gradlab.gradient import diagnose
    from gradlab.losses.registry import loss_names

    for text in (combined.format(name) for name in loss_names() for combined in COMBINED):
        for kind, arguments in batches().items():
            named = f"{text} {kind}"

            def sides(text: str = text, arguments: dict = arguments) -> list:
                return [
                    of_components(c) for c in gradlab.components(text, **arguments, side="both")
                ]

            def anchors(text: str = text, arguments: dict = arguments) -> dict:
                return of_components(gradlab.components(text, **arguments))

            def values(text: str = text, arguments: dict = arguments) -> object:
                loss = gradlab.get_loss(text)
                return loss(**arguments), loss.value_of(loss.batch(**arguments))

            def gradient(text: str = text, arguments: dict = arguments) -> object:
                return gradlab.autograd_gradient(text, **arguments, side="both")

            yield f"components {named}", anchors
            yield f"sides {named}", sides
            yield f"diagnose {named}", lambda t=text, a=arguments: diagnose(t, **a)
            yield f"values {named}", values
            yield f"autograd {named}", gradient
            if kind != "labels":
                yield f"blocks {named}", lambda t=text, a=arguments: of_blocks(t, a)


def of_blocks(text: str, arguments: dict) -> list:
    """Return the value in blocks, and the gradients by all embeddings."""
    import torch

    import gradlab

    leaves = {name: torch.as_tensor(rows).requires_grad_() for name, rows in arguments.items()}
    leaves = {name: rows.detach().clone().requires_grad_() for name, rows in leaves.items()}
    results: list = []
    for size in (3, None):
        value = gradlab.blockwise(text, block_size=size)(**leaves)
        gradients = torch.autograd.grad(value, list(leaves.values()), allow_unused=True)
        results += [value, list(gradients)]
    return results


def of_simulations() -> Iterator[tuple[str, Callable[[], object]]]:
    import gradlab
    from gradlab.losses.registry import loss_names

    for text in loss_names():
        for quantity in ("gradient_dissipation", "ratio", "hardest_share"):
            options = {"quantity": quantity, "grid": 3, "negatives": 5, "batches": 8}
            yield (
                f"simulate {text} {quantity}",
                lambda t=text, o=options: gradlab.simulate(t, **o, progress=False).value,
            )
    for text in ("infonce", "arccon", "mpt", "hcl", "multi_similarity"):
        yield f"simulate {text}", lambda t=text: gradlab.simulate(t, progress=False).columns()


def of_watches() -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield what a watch records of embeddings that collapse, and the warnings that it gives."""
    import torch

    import gradlab

    def record(text: str, spread: float) -> list:
        torch.manual_seed(0)
        folder = Path(tempfile.mkdtemp())
        watcher = gradlab.watch(None, loss=text, output=folder, every=1)
        centre = torch.randn(16)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for number in range(RECORDS):
                rows = centre + spread ** (number + 1) * torch.randn(24, 16)
                watcher.observe(rows, rows + 0.1 * spread**number * torch.randn(24, 16))
            watcher.finish()
        lines = (folder / "metrics.csv").read_text().splitlines()
        return [[line for line in lines if ",watch," not in line], [str(w.message) for w in caught]]

    for text in WATCHED:
        for spread in (1.0, 0.4):
            yield f"watch {text} {spread}", lambda t=text, s=spread: record(t, s)


def serve(words: list[str]) -> None:
    import torch

    import gradlab

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    print(json.dumps(["checkout", str(Path(gradlab.__file__).parents[1])]), flush=True)
    for source in (of_losses, of_simulations, of_watches):
        for name, compute in source():
            if not words or name.split()[0] in words:
                print(json.dumps([name, attempt(compute)]), flush=True)


def results_of(checkout: Path, words: list[str]) -> dict[str, str]:
    command = [sys.executable, __file__, str(checkout), "--serve", "--only", *words]
    environment = {**os.environ, "PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1"}
    output = subprocess.run(command, env=environment, text=True, check=True, stdout=subprocess.PIPE)
    entries = dict(map(json.loads, output.stdout.splitlines()))
    assert Path(entries.pop("checkout")).resolve() == checkout.resolve()
    return entries


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("other", type=Path, help="the other checkout")
    parser.add_argument("--only", nargs="*", default=[], help="kinds of results")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.only)
        return 0
    before, after = (results_of(path, options.only) for path in (options.other, ROOT))
    different = [name for name in before | after if before.get(name) != after.get(name)]
    print(*different, f"{len(after) - len(different)} of {len(after)} results agree", sep="\n")
    return bool(different)


if __name__ == "__main__":
    sys.exit(main())
