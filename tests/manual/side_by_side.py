"""What others do for large batches, beside ours: gradients on two processes, memory and time of the loss.

Outside CI, as the others bring much that gradlab does not need. Install them apart, without what they depend on:

    pip install --no-deps --target FOLDER open_clip_torch==3.3.0 gradcache==0.0.1 inf-cl==1.2.1
    OTHERS=FOLDER python tests/manual/side_by_side.py audit
    OTHERS=FOLDER python tests/manual/side_by_side.py loss
    OTHERS=FOLDER python tests/manual/side_by_side.py ring

``audit``: `gradlab audit` of every loss, over two processes of gloo. ``loss``: forward and backward of one batch of unit rows on
one process and one thread; seconds of the processor are medians of turns in one process, memory is the rise of a fresh
process's peak. ``ring``: the same of a batch that several processes of gloo share, a thread each; seconds of all processes together, and the
largest memory of one. Of Inf-CL only the
ring of plain torch operations is run, whose file imports Triton without using it there; its kernels need a CUDA device.
"""

from __future__ import annotations

import argparse
import functools
import os
import statistics
import sys
import types
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
sys.path.insert(0, str(Path(__file__).parent))
from measured import answer_of_child, evaluation, peak, ratio, times_in_turns, unit_rows
from other_libraries import load
from several_processes import Criterion, measure

import gradlab

SCALE, BIAS, CHUNK = 20.0, -7.0, 64
SYMMETRIC = f"symmetric(infonce(temperature={1 / SCALE}))"
LIBRARY = "sentence_transformers.sentence_transformer.losses"


def others(module: str) -> Any:
    """A module of the folder that the environment names."""
    if module.startswith("inf_cl"):
        triton, language = types.ModuleType("triton"), types.ModuleType("triton.language")
        triton.jit = triton.autotune = lambda function=None, **_: function  # type: ignore[attr-defined]
        language.constexpr = triton.Config = object  # type: ignore[attr-defined]
        triton.language = language  # type: ignore[attr-defined]
        sys.modules |= {"triton": triton, "triton.language": language}
    return load(Path(os.environ["OTHERS"]), module)


def number(value: float, like: Tensor) -> Tensor:
    return torch.tensor(value, dtype=like.dtype)


def clip(anchors: Tensor, positives: Tensor, **options: Any) -> Tensor:
    """open_clip's, as its training makes it."""
    together = dist.is_initialized() and dist.get_world_size() > 1
    place = {"rank": dist.get_rank(), "world_size": dist.get_world_size()} if together else {}
    return others("open_clip.loss").ClipLoss(**options, **place)(anchors, positives, number(SCALE, anchors))


def siglip(anchors: Tensor, positives: Tensor, **options: Any) -> Tensor:
    together = dist.is_initialized() and dist.get_world_size() > 1
    place = {"rank": dist.get_rank(), "world_size": dist.get_world_size()} if together else {}
    loss = others("open_clip.loss").SigLipLoss(**options, **place)
    return loss(anchors, positives, number(SCALE, anchors), number(BIAS, anchors))


def gathered_by_grad_cache(anchors: Tensor, positives: Tensor) -> Tensor:
    return others("gradcache.loss").DistributedContrastiveLoss()(SCALE * anchors, positives)


def ring_of_inf_cl(anchors: Tensor, positives: Tensor, scale: float = SCALE) -> Tensor:
    """Both directions; on one process, where its ring would send to itself, what it computes."""
    if dist.get_world_size() == 1:
        labels, logits = torch.arange(len(anchors)), (scale * anchors @ positives.T).float()
        return (
            nn.functional.cross_entropy(logits, labels) + nn.functional.cross_entropy(logits.T, labels)
        ) / 2
    ring = others("inf_cl.ring").cal_ring_loss
    options = {"scale": number(scale, anchors).requires_grad_(), "head_dim": anchors.shape[1]}
    return (ring(anchors, positives, **options) + ring(positives, anchors, **options)) / 2


def ours(anchors: Tensor, positives: Tensor, loss: str = SYMMETRIC) -> Tensor:
    return gradlab.blockwise(loss, group="world", average=True)(anchors, positives, normalize=True)


def audits() -> list[tuple[str, dict[str, str], int]]:
    """Targets, settings and columns of embeddings."""
    here, gather = f"{__file__}:", {"gather_across_devices": "true"}
    ranking = ["MultipleNegativesRankingLoss", "MultipleNegativesSymmetricRankingLoss", "GISTEmbedLoss"]
    ranking = [
        name.replace("Multiple", f"{cached}Multiple").replace("GIST", f"{cached}GIST")
        for name in ranking
        for cached in ("", "Cached")
    ]
    both = [(f"{LIBRARY}:{name}", settings, 2) for name in ranking for settings in ({}, gather)]
    alone = {"contrast_anchors": "false"}
    plain = ["MegaBatchMarginLoss", "CoSENTLoss", "AnglELoss", "CosineSimilarityLoss", "ContrastiveLoss", "OnlineContrastiveLoss",
             "BatchAllTripletLoss", "BatchHardTripletLoss", "BatchHardSoftMarginTripletLoss", "BatchSemiHardTripletLoss"]  # fmt: skip
    columns = [(f"{LIBRARY}:{name}", {}, 3) for name in ("TripletLoss", "MarginMSELoss")]
    modes = [
        {"local_loss": str(local).lower(), "gather_with_grad": str(grad).lower()}
        for local in (False, True)
        for grad in (False, True)
    ]
    return [
        *both,
        (f"{LIBRARY}:GISTEmbedLoss", gather | alone, 2),
        *((f"{LIBRARY}:{name}", {}, 2) for name in plain),
        *columns,
        *((f"{here}clip", mode, 2) for mode in modes),
        *((f"{here}siglip", {"dist_impl": way}, 2) for way in ("bidir", "shift", "reduce", "gather")),
        (f"{here}gathered_by_grad_cache", {}, 2),
        (f"{here}ring_of_inf_cl", {}, 2),
        (f"{here}ring_of_inf_cl", {"scale": "100"}, 2),
        (f"{here}ours", {}, 2),
        (f"{here}ours", {"loss": "siglip"}, 2),
    ]  # fmt: skip


def audit(options: argparse.Namespace) -> None:
    """Print a line a loss: its errors on each kind of shares, and its faults.

    All are run in the same processes. Those that gather see no uneven shares, which may end a process.
    """
    import multiprocessing
    import tempfile

    from audit_losses import measured

    from gradlab.scale.audit.auditing import judge

    chosen = [one for one in audits() if options.only in one[0]]
    for columns in sorted({one[2] for one in chosen}):
        names = {f"{target.partition(':')[2]} {settings}": (target, settings, uneven_too(target, settings))
                 for target, settings, wide in chosen if wide == columns}  # fmt: skip
        with tempfile.TemporaryDirectory() as folder:
            every = measured(names, multiprocessing.get_context("fork"), folder, columns=columns)
        for name, given in every.items():
            found = judge(*given)
            errors = ", ".join(f"{case} {one.error:.1e}" for case, one in found.outcomes.items())
            print(
                f"{name}: {errors}; {'; '.join(f'{one.name}: {one.text}' for one in found.faults) or 'right'}"
            )


def uneven_too(target: str, settings: dict[str, str]) -> bool:
    """Whether a loss gathers nothing, or shares of any size."""
    return (LIBRARY in target and "gather_across_devices" not in settings) or target.endswith(":ours")


def losses() -> dict[str, Callable[[Tensor, Tensor], Tensor]]:
    """Losses of one process; those of a group are alternatives to each other."""
    from sentence_transformers.sentence_transformer import losses as theirs

    from gradlab.decomposition.own_loss import resolve_loss

    simple = others("gradcache.loss").SimpleContrastiveLoss()
    plain = resolve_loss(f"{LIBRARY}:MultipleNegativesRankingLoss", {})
    assert isinstance(plain, theirs.MultipleNegativesRankingLoss)
    cached = resolve_loss(f"{LIBRARY}:CachedMultipleNegativesRankingLoss", {"mini_batch_size": str(CHUNK)})
    assert isinstance(cached, theirs.CachedMultipleNegativesRankingLoss)

    def chunk_by_chunk(*columns: Tensor) -> Tensor:
        """As its gradient cache has it: each chunk of rows is a leaf, and each chunk's similarities go back at once."""
        leaves = [[part.detach().requires_grad_() for part in rows.split(CHUNK)] for rows in columns]
        return cached.calculate_loss(leaves, with_backward=True).requires_grad_()

    one, both, sigmoid = (
        gradlab.blockwise(name)
        for name in (gradlab.get_loss("infonce", temperature=1 / SCALE), SYMMETRIC, "siglip")
    )
    return {
        "infonce: GradCache SimpleContrastiveLoss": lambda a, b: simple(SCALE * a, b),
        "infonce: sentence-transformers, plain": lambda a, b: plain.compute_loss_from_embeddings([a, b], None),
        "infonce: sentence-transformers, cached": chunk_by_chunk,
        "infonce: gradlab.blockwise": one,
        "symmetric: open_clip ClipLoss": clip,
        "symmetric: gradlab.blockwise": both,
        "siglip: open_clip SigLipLoss": siglip,
        "siglip: gradlab.blockwise": sigmoid,
    }  # fmt: skip


def ours_of(names: Iterable[str], name: str) -> str:
    """The one of gradlab in the group of a name."""
    return next(one for one in names if one.split(":")[0] == name.split(":")[0] and "gradlab" in one)


def loss(options: argparse.Namespace) -> None:
    every = losses()

    def make(name: str, batch: int) -> Callable[[], float]:
        torch.manual_seed(0)
        return evaluation(every[name], [unit_rows(batch, options.dimensions) for _ in range(2)])

    if options.child:
        make(options.child, 64)()  # libraries set themselves up
        run, before = make(options.child, options.batch), peak()
        run()
        print(peak() - before)
        return
    print(f"N = {options.batch}, D = {options.dimensions}, float32, one thread")
    times = times_in_turns({name: make(name, options.batch) for name in every}, options.turns)
    for name, found in times.items():
        given = "--batch", options.batch, "--dimensions", options.dimensions
        memory = float(answer_of_child("loss", "--child", name, *given))
        show(name, found, times[ours_of(every, name)], memory)


def show(name: str, seconds: list[float], own: list[float], memory: float) -> None:
    """Print the median time and the memory, and the ratio to ours of the same group."""
    middle, beside = statistics.median(seconds), ratio(seconds, own)
    print(f"{name}: {middle:.3f} CPU s, {beside:.2f} of gradlab's; {memory:.0f} MiB", flush=True)


# Losses of a shared batch by what they compute.
SHARED: dict[str, Criterion] = {
    "symmetric: open_clip ClipLoss, local, gathered with gradient": functools.partial(
        clip, local_loss=True, gather_with_grad=True
    ),
    "symmetric: Inf-CL cal_ring_loss": ring_of_inf_cl,
    "symmetric: gradlab.blockwise": ours,
    "siglip: open_clip SigLipLoss": siglip,
    "siglip: gradlab.blockwise": functools.partial(ours, loss="siglip"),
}


def ring(options: argparse.Namespace) -> None:
    print(f"N = {options.batch}, D = {options.dimensions}, float32, one thread a process")
    for processes in options.processes:
        turns = [
            {
                name: measure(processes, options.batch, options.dimensions, name, SHARED.__getitem__)
                for name in SHARED
            }
            for _ in range(options.turns)
        ]
        times = {name: [turn[name]["processor"] for turn in turns] for name in SHARED}
        for name, found in times.items():
            memory = statistics.median(turn[name]["memory"] for turn in turns)
            show(f"{processes} processes, {name}", found, times[ours_of(SHARED, name)], memory)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["audit", "loss", "ring"])
    parser.add_argument("--only", default="", help="with audit: targets whose name has this in it")
    parser.add_argument("--batch", type=int, help="4096 for loss, 8192 for ring")
    parser.add_argument("--dimensions", type=int, default=512)
    parser.add_argument("--processes", type=int, nargs="+", default=[2, 4], help="of ring")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--child", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.batch = options.batch or (8192 if options.what == "ring" else 4096)
    torch.set_num_threads(1)
    {"audit": audit, "loss": loss, "ring": ring}[options.what](options)


if __name__ == "__main__":
    main()
