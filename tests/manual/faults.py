"""Some fifty faults, one at a time, in a copy of the tree: does the suite find each?

    python tests/manual/faults.py            # all of them, some minutes
    python tests/manual/faults.py gini cosent  # those with such a word in their description
    python tests/manual/faults.py --results FILE  # results are kept there

With ``--results`` the same command goes on, and does again what has changed.

A fault is a small change of a formula: a sign, a factor, an index, a mask, a `detach` left out, the
wrong side. The tests named beside it run on the changed copy until one fails. What found a fault
must pass on the unchanged copy. Exit status 1 if a fault is missed.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import os
import re
import resource
import shutil
import sys
import tempfile
from pathlib import Path

# Before torch is imported: a process with threads cannot be forked.
os.environ["OMP_NUM_THREADS"] = "1"

import numpy  # noqa: F401
import pytest
import scipy.optimize  # noqa: F401
import torch.distributed  # noqa: F401

ROOT = Path(__file__).resolve().parents[2]
COPIED = ("gradlab", "tests", "docs", "conftest.py", "pyproject.toml")
FAILED = re.compile(r"^(?:FAILED|ERROR) (tests/\S+?(?:\[.*?\])?)(?: - .*)?$", re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Fault:
    """A change of one place in one file.

    Attributes:
        description: what is wrong, in a few words.
        file: below `gradlab`.
        tests: files that ought to find it, the likeliest first.
        old, new: the text, which occurs once, and what replaces it.
    """

    description: str
    file: str
    tests: str
    old: str
    new: str


# fmt: off
FAULTS = [
    # batch
    Fault("derivative by the cosine: sign of the chord's",
          "batch/similarity.py", "test_components.py test_losses.py",
          "self.chord - increment / self.chord",
          "self.chord + increment / self.chord"),
    Fault("own column masked: one beside it",
          "batch/comparison.py", "test_components.py test_losses.py",
          "return columns == (rows + own)[:, None]",
          "return columns == (rows + 1 + own)[:, None]"),
    Fault("neighbours of the own view move: detach left out",
          "batch/batch.py", "losses/test_whole_views.py losses/test_modified.py test_losses.py",
          "return detach(self.anchors)",
          "return self.anchors"),
    Fault("the last extra negative forgotten",
          "batch/batch.py", "test_components.py test_losses.py",
          'kinds.append(("extra", self.anchors, extra))',
          'kinds.append(("extra", self.anchors, extra[:-1]))'),
    Fault("guide keeps its side where the views are exchanged",
          "batch/batch.py", "test_combinators.py test_both_sides.py",
          "self._with_batches(Batch.exchanged),",
          'self._with_batches(Batch.exchanged, ("origin",)),'),
    Fault("a sentence's own hard negative pushes its positive: mask dropped",
          "batch/comparison.py", "test_combinators.py test_sentence_transformers_equality.py",
          "cosines[number] = _without(batch.owned, cosines[number])",
          "pass"),
    Fault("dot product of positive and negative: sign", "batch/triple.py", "test_lemma.py",
          "self.positive_cosine * self.radial + self.positive_sine * self.toward",
          "self.positive_cosine * self.radial - self.positive_sine * self.toward"),
    # losses
    Fault("angular margin: sign",
          "batch/similarity.py", "losses/test_specs.py test_losses.py test_components.py",
          "self.cosine * math.cos(margin) - self.sine * math.sin(margin)",
          "self.cosine * math.cos(margin) + self.sine * math.sin(margin)"),
    Fault("weight of MHE: pairs counted once",
          "losses/mhe.py", "losses/test_whole_views.py test_losses.py",
          "batch.same_view.softmax_of_all(self.temperature) * (2 / self.temperature)",
          "batch.same_view.softmax_of_all(self.temperature) * (1 / self.temperature)"),
    Fault("MHS: neighbours of the other view move: detach left out",
          "losses/mhs.py", "losses/test_whole_views.py test_both_sides.py",
          "batch.with_fixed_positives().other_view",
          "batch.other_view"),
    Fault("Barlow Twins: the pull's factor (1 - ν), sign",
          "losses/barlow_twins.py", "losses/test_whole_views.py test_losses.py",
          "(1 - (1 - self.nu) * diagonal)",
          "(1 + (1 - self.nu) * diagonal)"),
    Fault("VICReg: term of the diagonal, sign",
          "losses/vicreg.py", "losses/test_whole_views.py test_losses.py",
          '"diagonal": -k *',
          '"diagonal": k *'),
    Fault("cosent: shares of the pulls, sign",
          "losses/cosent.py", "test_losses.py test_both_sides.py",
          "everyone = logsumexp(-batch.whole.positive.cosine / self.temperature)",
          "everyone = logsumexp(batch.whole.positive.cosine / self.temperature)"),
    Fault("dhel: the anchors' energy twice instead of the positives'",
          "losses/dhel.py", "test_both_sides.py test_losses.py test_random_losses.py",
          "value + batch.positive_view.log_sum_exp",
          "value + batch.same_view.log_sum_exp"),
    Fault("hcl: factor β of the even shares",
          "losses/hcl.py", "losses/test_published.py test_losses.py",
          "(1 + self.beta) * hard - self.beta * even",
          "(1 + self.beta) * hard - even"),
    Fault("debiased: the prior's norm 1 - τ⁺ left out",
          "losses/debiased.py", "losses/test_published.py test_losses.py",
          "summary.count * (self.prior / (1 - self.prior))",
          "summary.count * self.prior"),
    Fault("siglip: the diagonal counts in the value: mask dropped",
          "batch/similarity.py", "losses/test_published.py test_losses.py",
          "xp.where(masked, 0.0, quantity(negatives))",
          "quantity(negatives)"),
    Fault("circle: weights differentiated: detach left out",
          "losses/circle.py", "losses/test_published.py test_losses.py test_components.py",
          "return detach(self.slope(cosine)) * (cosine - self.margin)",
          "return self.slope(cosine) * (cosine - self.margin)"),
    Fault("mask by a guide: sign of the margin",
          "losses/mask.py", "test_combinators.py test_sentence_transformers_equality.py",
          "return cosines > (positive - margin)[:, None]",
          "return cosines > (positive + margin)[:, None]"),
    Fault("hardness of a simulated loss: temperature left out",
          "losses/combinator.py", "test_combinators.py test_simulation.py",
          "self.alpha * self._temperature * detach(cosine)",
          "self.alpha * detach(cosine)"),
    Fault("prefixes: the norm left out", "losses/per_prefix.py", "test_combinators.py",
          "self.factors[d] / norm * components.gradient",
          "self.factors[d] * components.gradient"),
    Fault("pools: a pair of the own view pushes one of its two sentences: transpose left out",
          "losses/canonical_split.py", "test_combinators.py test_both_sides.py",
          "combine(of_anchors[name], transposed(of_anchors[name]))",
          "combine(of_anchors[name], of_anchors[name])"),
    Fault("what pushes an anchor pushes the positive: transpose left out",
          "losses/canonical_split.py", "test_both_sides.py",
          "anchors.gradient_dissipation[:, None]).T\n",
          "anchors.gradient_dissipation[:, None])\n"),
    Fault("a surrogate's dissipation differentiated: detach left out",
          "losses/baseline.py", "losses/test_recombined.py test_losses.py",
          "return detach(dissipation) * (pushed - pulled)",
          "return dissipation * (pushed - pulled)"),
    Fault("extra negatives counted as anchors of the value: slice left out",
          "losses/batch_loss.py", "test_losses.py test_blockwise_batch.py losses/test_modified.py",
          "value if value.ndim == 0 else value[: batch.anchors.shape[0]]",
          "value"),
    # gradient
    Fault("uniformity over all pairs: mask of the diagonal dropped",
          "gradient/statistics.py", "test_diagnostics.py",
          "off_diagonal = exponent[~xp.eye(count, dtype=xp.bool, device=rows.device)]",
          "off_diagonal = xp.reshape(exponent, (-1,))"),
    Fault("Gini coefficient: ranks off by one",
          "gradient/statistics.py", "test_both_sides.py test_diagnostics.py",
          "device=ordered.device) - (count - 1)",
          "device=ordered.device) - count"),
    Fault("lemma with many negatives: the sum of weights left out of the step",
          "gradient/lemma.py", "test_lemma.py",
          "as_like(step, total) * total, kind",
          "as_like(step, total), kind"),
    # simulation
    Fault("angles below 0 are not folded", "simulation/exact.py", "test_simulation.py",
          "for image in (turn + angle, turn - angle):",
          "for image in (turn + angle,):"),
    Fault("hard gate: one negative too few", "simulation/exact.py", "test_simulation.py",
          "closed + count * np.log1p(-chance)",
          "closed + (count - 1) * np.log1p(-chance)"),
    Fault("merged blocks of draws: their distance left out of the variance",
          "simulation/monte_carlo.py", "test_simulation.py",
          "(squares + count * (mean - merged) ** 2).sum(axis=0)",
          "squares.sum(axis=0)"),
    Fault("sampled views: the direction of a positive is not tangent to its anchor",
          "simulation/sphere.py", "test_sphere.py",
          "direction -= np.sum(direction * anchors, axis=-1, keepdims=True) * anchors",
          "direction -= np.mean(direction * anchors, axis=-1, keepdims=True) * anchors"),
    # decomposition
    Fault("extrapolation to δ = 0: sign", "decomposition/coefficients.py", "test_decompose.py",
          "fine + (fine - coarse) / 3",
          "fine - (fine - coarse) / 3"),
    Fault("the positive stands among the negatives too: mask of the diagonal dropped",
          "decomposition/decomposing.py", "test_decompose.py",
          "    of_other.diagonal().zero_()\n",
          ""),
    # large batches
    Fault("extra negatives addressed from the first column: offset left out",
          "batch/comparison.py", "test_components.py test_losses.py test_random_losses.py",
          "xp.clip(index - block.columns.start, 0,",
          "xp.clip(index, 0,"),
    Fault("second lap: exponentials are not divided by their sum's reference",
          "scale/log_sums.py", "test_blockwise_batch.py test_blockwise.py",
          "softmax.temperature * torch.exp(shift - total)",
          "softmax.temperature * torch.exp(-total)"),
    Fault("second lap: what a sum of rows means for the columns of the same view left out",
          "scale/log_sums.py", "test_blockwise_batch.py test_blockwise.py",
          "factors[0] if half else factors[1]",
          "factors[1]"),
    Fault("chords: what the positives receive has the sign of what the anchors do",
          "scale/matrix_products.py", "test_blockwise_batch.py test_blockwise.py",
          "zip(totals, (1, -1), strict=True)",
          "zip(totals, (1, 1), strict=True)"),
    Fault("softmax of a block: later rows take the factors of the first ones",
          "scale/log_sums.py", "test_blockwise.py",
          "by_rows[share][few, None]",
          "by_rows[share][: few.stop - few.start, None]"),
    Fault("blocks: a term's weight left out of its gradient",
          "scale/block_loop.py", "test_combinators.py test_blockwise.py test_processes.py",
          "grad_output[local_slice] * term.weight",
          "grad_output[local_slice]"),
    Fault("uneven shares: each is gathered as if all were as large as its own",
          "scale/processes.py", "test_processes.py",
          "rows.split(sizes)[self.rank].copy_(share)",
          "rows[self.rank * len(share) :][: len(share)].copy_(share)"),
    Fault("gradient cache: every piece gets the first one's gradient",
          "scale/gradient_cache.py", "test_gradient_cache.py",
          "rows.backward(encoded.rows.grad[places])",
          "rows.backward(encoded.rows.grad[: len(places)])"),
    Fault("processes: owners of extra negatives are counted from each process's first row",
          "scale/gathered_batch.py", "test_processes.py",
          "torch.where(local < 0, local, local + first)",
          "local"),
    Fault("own negatives: sign of their gradient in laps",
          "scale/log_sums.py", "test_own_negatives.py",
          "by_own[few] += upstream",
          "by_own[few] -= upstream"),
    Fault("own negatives: those of a later process counted from the first row",
          "batch/batch.py", "test_processes.py",
          "own[start - first : stop - first]",
          "own[start:stop]"),
    Fault("sum: terms without their weights", "losses/sum.py", "test_combinators.py",
          '(weight, loss, batch if "own_negatives" in loss.looks_at else without_own)',
          '(1.0, loss, batch if "own_negatives" in loss.looks_at else without_own)'),
    Fault("shared hard negatives in training: each process takes others than it has embedded",
          "train/distributed.py", "test_train_distributed.py",
          "columns = [share(column) for column in rows[: hard * size].split(size)]",
          "columns = [column[:: processes.count] for column in rows[: hard * size].split(size)]"),
    Fault("embeddings augmented: the first positive left as it is",
          "train/objective.py", "test_augment.py test_train_branches.py",
          "changed[trained.order[: len(first)]] = False",
          "changed[trained.order[: len(first) + 1]] = False"),
    Fault("queue: oldest first", "train/queue.py", "test_train_queue.py",
          "torch.cat([new.flip(0), buffer])",
          "torch.cat([new, buffer])"),
    Fault("momentum: η and 1 - η exchanged", "train/momentum.py", "test_train_momentum.py",
          "targets, online, 1 - self.last_decay",
          "targets, online, self.last_decay"),
]
# fmt: on


def run(tree: Path, tests: list[str], *options: str) -> tuple[int, str]:
    """pytest's exit status and output, from a fork of this process, which has done slow imports."""
    log = tree / "pytest.log"
    child = os.fork()
    if not child:
        with open(log, "w") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        os.chdir(tree)
        os.environ["PYTHONPATH"] = str(tree)
        sys.path.insert(0, str(tree))
        status = pytest.main(["-q", "-p", "no:cacheprovider", "-rfE", "--tb=no", *options, *tests])
        sys.stdout.flush()
        os._exit(status)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return status, log.read_text(encoding="utf-8", errors="replace")


def find(tree: Path, number: int, fault: Fault) -> str | None:
    """The test that finds a fault, or None."""
    path = tree / "gradlab" / fault.file
    sound = path.read_text(encoding="utf-8")
    if sound.count(fault.old) != 1:
        raise SystemExit(
            f"{fault.file} has not once, but {sound.count(fault.old)} times: {fault.old!r}"
        )
    times = path.stat()
    path.write_text(sound.replace(fault.old, fault.new), encoding="utf-8")
    # A time of its own, by which Python knows its bytecode.
    os.utime(path, (number + 1, number + 1))
    try:
        for name in fault.tests.split():
            status, output = run(tree, [f"tests/{name}"], "-x")
            if status:
                break
    finally:
        path.write_text(sound, encoding="utf-8")
        os.utime(path, (times.st_atime, times.st_mtime))
    failure = FAILED.search(output)
    if status == 0:
        return None
    if failure is None:
        raise SystemExit(f"pytest did not run:\n{output[-2000:]}")
    return failure.group(1)


def fingerprint(fault: Fault) -> str:
    """Of a fault, the file that it is seeded in, and the tests that ought to find it."""
    places = [
        ROOT / "gradlab" / fault.file,
        *(ROOT / "tests" / name for name in fault.tests.split()),
    ]
    content = [repr(fault).encode(), *(place.read_bytes() for place in places)]
    return hashlib.sha256(b"\0".join(content)).hexdigest()


def main() -> int:
    """Seed the faults; 1 if one is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument(
        "words", nargs="*", help="only faults that have one of these in their description"
    )
    parser.add_argument("--results", type=Path, help="file to keep results in, and to go on from")
    options = parser.parse_args()
    words = options.words
    chosen = [
        (at, fault)
        for at, fault in enumerate(FAULTS)
        if not words or any(w in fault.description for w in words)
    ]
    outcomes: dict[str, str | None] = {}
    if options.results is not None and options.results.exists():
        outcomes = dict(map(json.loads, options.results.read_text(encoding="utf-8").splitlines()))
    finders: dict[str, None] = {}
    missed = []
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        for name in COPIED:
            source = ROOT / name
            copy = shutil.copytree if source.is_dir() else shutil.copy2
            copy(source, tree / name)
        for place, (number, fault) in enumerate(chosen, 1):
            key = fingerprint(fault)
            if key not in outcomes:
                outcomes[key] = find(tree, number, fault)
                if options.results is not None:
                    with options.results.open("a", encoding="utf-8") as file:
                        file.write(json.dumps([key, outcomes[key]]) + "\n")
            test = outcomes[key]
            print(
                f"{place:2d}/{len(chosen)} {fault.file}: {fault.description}: {test or 'MISSED'}",
                flush=True,
            )
            if test is None:
                missed.append(fault.description)
            else:
                finders[test] = None
        status, output = run(tree, list(finders)) if finders else (0, "")
    if status:
        print(output)
        print("These tests fail without a fault as well; what they found does not count.")
    print(f"{len(chosen) - len(missed)} of {len(chosen)} faults found")
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{(used.ru_utime + used.ru_stime) / 60:.1f} minutes of CPU")
    return 1 if missed or status else 0


if __name__ == "__main__":
    sys.exit(main())
