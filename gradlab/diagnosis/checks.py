"""Checks for known faults of a training script, by an observation of its first batches."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import nn

from gradlab.diagnosis.observation import Batch, Observation
from gradlab.diagnosis.result import Verdict, fault, judged
from gradlab.monitor.probe import HALF_ROUNDING, ROUNDING
from gradlab.scale.audit import Audit
from gradlab.settings import declarations

ADAPTER = re.compile(r"lora_|adapter|ia3_|vera_|prompt_encoder")
# Learning rates of Adam that ruin an adapter, ruin an encoder, and below which nothing changes.
TOO_FAST, FAST, STILL = 5e-3, 1e-3, 1e-7
# Factors between a temperature and the published one that are of the wrong order, and unusual.
WRONG_ORDER, UNUSUAL = 10, 6
# Mean number of pairs with a common text per batch: in about half of all batches, in one of 20.
MANY_DUPLICATES, SOME_DUPLICATES = 0.5, 0.05
TEXTS = 100_000  # rows of a data set that are searched for duplicates
# Standard deviation of logits above which a softmax always selects one candidate.
DECIDED = 100.0


def weights(found: Observation) -> Iterator[Verdict]:
    """Check that some weights are trained, adapters included."""
    adapters = [name for name in [*found.trained, *found.frozen] if ADAPTER.search(name)]
    count, tensors = sum(one.numel() for one in found.trained.values()), len(found.trained)
    seen = f"{count:,} weights in {tensors} of {tensors + len(found.frozen)} tensors are trained."
    if not found.trained:
        yield fault("frozen")
    elif adapters and found.trained.keys().isdisjoint(adapters):
        yield fault("adapters-frozen", name=adapters[0], count=len(adapters), seen=seen)
    else:
        yield judged("trained weights", seen)


def gradient(found: Observation) -> Iterator[Verdict]:
    """Check that a finite gradient reaches the trained weights."""
    sizes = [(name, size) for batch in found.batches for name, size in batch.gradients.items()]
    broken = list(dict.fromkeys(name for name, size in sizes if not math.isfinite(size)))
    reached = {name for name, size in sizes if size}
    # lora_A of a low-rank adapter has no gradient until lora_B, which starts at 0, has changed.
    due = [name for name in found.trained if "lora_A" not in name]
    empty = [name for name in due if name not in reached]
    adapters = [name for name in due if ADAPTER.search(name)]
    if broken:
        yield fault("gradient-not-finite", count=len(broken), name=broken[0])
    elif empty and (empty == due or (adapters and reached.isdisjoint(adapters))):
        what = f"none of the {len(adapters)} adapter tensors"
        if empty == due:
            what = "no trained weight"
        is_zero = "" if any(batch.value for batch in found.batches) else "the loss is 0"
        problem = next((batch.problem for batch in found.batches if batch.problem), is_zero)
        yield fault("no-gradient", what=what, why=f" ({problem})" if problem else "")
    elif 2 * len(empty) > len(due):
        yield fault("little-gradient", count=len(empty), all=len(due), name=empty[0])
    elif due:
        seen = f"It reaches {len(due) - len(empty)} of {len(due)} trained tensors."
        yield judged("gradient", seen)


def optimizer(found: Observation) -> Iterator[Verdict]:
    """Check that an existing optimizer has all trained weights, and check the learning rate."""
    given = getattr(found.trainer, "optimizer", None)
    rate, kind = found.args.learning_rate, found.args.optim
    if given is not None:
        held = {id(one) for group in given.param_groups for one in group["params"]}
        missing = [name for name, one in found.trained.items() if id(one) not in held]
        if missing:
            count, all_of_them = len(missing), len(found.trained)
            yield fault("optimizer-lacks", count=count, all=all_of_them, name=missing[0])
        rate, kind = max(group["lr"] for group in given.param_groups), type(given).__name__
    kind = str(getattr(kind, "value", kind))
    ruinous = TOO_FAST if any(ADAPTER.search(name) for name in found.trained) else FAST
    # Models with word embeddings only are trained at larger rates.
    dense = any(isinstance(one, nn.Linear) for one in found.trainer.model.modules())
    if rate < STILL:
        yield fault("rate-too-low", rate=rate)
    elif "adam" in kind.lower() and dense and rate >= ruinous:
        yield fault("rate-too-high", bad=rate >= TOO_FAST, rate=rate, kind=kind)
    else:
        yield judged("learning rate", f"{rate:g} with {kind}.")


def precision(found: Observation) -> Iterator[Verdict]:
    """Check that the weights have a precision in which an update changes them."""
    half = [one for one in found.trained.values() if one.dtype in (torch.float16, torch.bfloat16)]
    if any(one.dtype == torch.float16 for one in half):
        yield fault("weights-float16", count=len(half))
    elif half:
        rate = found.args.learning_rate  # about the change of a weight in a step of Adam
        some = torch.cat([one.detach().flatten()[:4096] for one in half])
        still = float(((some + rate == some) & (some - rate == some)).double().mean())
        yield fault("weights-bfloat16", bad=still > 0.5, count=len(half), rate=rate, still=still)
    elif found.trained:
        yield judged("precision of the weights", "Trained weights are float32.")


def views(batches: list[Batch]) -> Iterator[Verdict]:
    """Check that the two views of a sentence differ, and that sentences differ."""
    cosines = [batch.cosines for batch in batches if batch.cosines is not None]
    if not cosines:
        return
    own = torch.cat([one.diagonal() for one in cosines])
    others = torch.cat([one[~torch.eye(*one.shape, dtype=torch.bool)] for one in cosines])
    equal = float((own > 1 - (1e-3 if batches[0].half else 1e-6)).double().mean())
    mean = f"{float(others.mean()):.2f}" if len(others) else "-"
    seen = (
        f"The cosine is {float(own.mean()):.3f} to the positive and {mean} to other sentences, "
        "on average."
    )
    wrong = ""
    if len(others) and float(others.min()) > 1 - 1e-6:
        wrong = "collapsed"
    elif equal > 0.5:
        same = all(_same_texts(batch.columns) > 0.5 for batch in batches)
        wrong = "views-equal" if same else "texts-embed-alike"
    yield judged("two views", seen, wrong)


def dropout(found: Observation) -> Iterator[Verdict]:
    """Check that dropout is on in training."""
    if found.silent:
        yield fault("dropout-off", count=len(found.silent), name=found.silent[0])


def length(found: Observation) -> Iterator[Verdict]:
    """Check how many texts are truncated."""
    limit = getattr(found.trainer.model, "max_seq_length", None)
    columns = [column for batch in found.batches for column in batch.columns]
    masks = [column["attention_mask"] for column in columns if "attention_mask" in column]
    if not limit or not masks or any(mask.ndim != 2 for mask in masks):
        return
    cut = sum(int((mask.sum(1) >= limit).sum()) for mask in masks) / sum(map(len, masks))
    seen = f"{cut:.0%} of the texts reach max_seq_length ({limit} tokens)."
    bad = cut > 0.75 and limit <= 16
    yield judged("length", seen, "cut-off" if cut >= 0.25 else "", bad=bad)


def loss(batches: list[Batch]) -> Iterator[Verdict]:
    """Check that the loss is finite, is not 0, and is not much worse than guessing."""
    values, first = [batch.value for batch in batches], batches[0]
    seen = f"In the first batches it is {', '.join(f'{value:.3g}' for value in values)}."
    known = first.known is not None and first.known.name == "infonce" and first.snapshot is not None
    chance = math.log(first.candidates) if known else math.inf
    if 0 < chance < math.inf:
        seen += f" Guessing among {first.candidates} candidates gives {chance:.3g}."
    wrong = (
        "loss-not-finite" if not all(map(math.isfinite, values))
        else "batch-of-one" if chance == 0
        else f"loss-zero{'-half' * first.half}" if not any(values)
        else "worse-than-chance" if values[0] > 1.5 * chance
        else "few-candidates" if known and first.candidates < 8
        else ""
    )  # fmt: skip
    yield judged("loss", seen, wrong)


def pairs(batches: list[Batch]) -> Iterator[Verdict]:
    """Check that positives are nearer to anchors than other candidates, hard negatives included."""
    cosines = [batch.cosines for batch in batches if batch.cosines is not None]
    ranks = [_rank(one) for one in cosines if one.shape[1] > 1 and float(one.std()) > 1e-6]
    rank = torch.cat(ranks) if ranks else torch.zeros(0)
    if len(rank) < 16:
        return
    share = float(rank.mean())
    seen = (
        f"A positive is nearer to its anchor than {share:.0%} of the other candidates, "
        f"over {len(rank)} anchors."
    )
    far = (share - 0.5) * math.sqrt(12 * len(rank)) < 2.5  # standard deviations above chance
    yield judged("pairs", seen, "pairs-at-chance" if far else "")
    yield from _hard_negatives(batches)


def _hard_negatives(batches: list[Batch]) -> Iterator[Verdict]:
    same, nearer = 0.0, []
    for batch in batches:
        count, cosines = len(batch.columns) - 2, batch.cosines
        if count < 1 or cosines is None or cosines.shape[1] != len(cosines) * (count + 1):
            return
        same = max(same, *(_same_texts([batch.columns[1], column]) for column in batch.columns[2:]))
        own, *hard = (one.diagonal() for one in cosines.split(len(cosines), dim=1))
        nearer += [(one > own).double() for one in hard]
    share = float(torch.cat(nearer).mean())
    seen = f"{share:.0%} of the hard negatives are nearer to their anchor than its positive."
    if same > 0:
        yield fault("negatives-are-positives", bad=same >= 0.05, same=same)
    else:
        wrong = "negatives-nearer" if share > 0.5 else ""
        yield judged("hard negatives", seen, wrong, bad=share > 0.8)


def duplicates(found: Observation) -> Iterator[Verdict]:
    """Check how often a batch contains a text twice, so that the text is its own negative."""
    losses = {batch.dataset: batch for batch in found.batches}
    sampler = str(getattr(getattr(found.args, "batch_sampler", ""), "value", "")).lower()
    given = found.trainer.train_dataset
    for name, table in given.items() if isinstance(given, dict) else [("", given)]:
        if not (hasattr(table, "column_names") and hasattr(table, "__len__")):
            continue
        batch = losses.get(name) or (losses.get("") if len(losses) == 1 else None)
        cells = table[:TEXTS].values()
        columns = [texts for texts in cells if texts and isinstance(texts[0], str)][:2]
        if batch is None or batch.known is None or batch.labelled or not columns:
            continue
        rows, size = len(columns[0]), found.args.train_batch_size
        repeats = sum(map(_repeats, columns))
        repeats -= _repeats(zip(*columns, strict=True)) if len(columns) > 1 else 0
        expected = repeats * size * (size - 1) / max(1, rows * (rows - 1))
        seen = (
            f"{repeats:,} pairs of {rows:,} rows share a text. "
            f"In a batch of {size}, {expected:.2g} such pairs meet on average."
        )
        wrong = "duplicates" if expected > SOME_DUPLICATES else ""
        if "no_duplicates" in sampler:
            seen, wrong = f"{seen} The batch sampler keeps them apart.", ""
        yield judged("duplicates", seen, wrong, bad=expected > MANY_DUPLICATES).of(name)


def temperature(batches: list[Batch]) -> Iterator[Verdict]:
    """Check the temperature against the published order; without one, the size of the logits.

    None is published for losses with a teacher: it differs with the teacher's scores.
    """
    bases = batches[0].known.bases if batches[0].known else ()
    base = next((one for one in bases if hasattr(one, "temperature")), None)
    published = declarations(type(base))["temperature"].default if base else None
    if base is None or base.needs_teacher or not isinstance(published, float):
        yield from _logits(batches[0])
        return
    value = base.temperature
    ratio = max(value / published, published / value)
    seen = f"It is {value:g} (scale {1 / value:g}). Published settings use about {published:g}."
    wrong, usual = "", {"published": published, "scale": 1 / published}
    if ratio > UNUSUAL:
        wrong = "temperature-high" if value > published else "temperature-low"
    yield judged("temperature", seen, wrong, bad=ratio >= WRONG_ORDER, **usual)


def _logits(batch: Batch) -> Iterator[Verdict]:
    """Check for dot products of embeddings that are not normalised, times a scale for cosines."""
    snapshot, scale = batch.snapshot, getattr(batch.loss, "scale", None)
    function = getattr(batch.loss, "similarity_fct", None)
    if getattr(function, "__name__", "") != "dot_score" or not scale:
        return
    if snapshot is None or snapshot.positives is None:
        return
    spread = float((scale * snapshot.anchors.double() @ snapshot.positives.double().T).std())
    if spread > DECIDED:
        yield fault("logits-too-large", scale=scale, spread=spread)


def gradient_cache(batches: list[Batch]) -> Iterator[Verdict]:
    """Check that a gradient cache repeats embeddings and has the gradients of plain training."""
    cached = [batch for batch in batches if batch.replay is not None or batch.plain is not None]
    if not cached:
        return
    limit = HALF_ROUNDING if cached[0].half else ROUNDING
    replay, plain = (max(getattr(b, key) or 0.0 for b in cached) for key in ("replay", "plain"))
    seen = f"With dropout, embeddings of the second pass are off by {replay:.1g}"
    if cached[0].plain is not None:
        seen += f"; without, gradients differ by {plain:.1g} from those of plain training"
    seen += f". ({len(cached)} batches)"
    wrong = "dropout-not-replayed" if replay > limit else "cached-gradients-differ"
    yield judged("gradient cache", seen, "" if max(replay, plain) <= limit else wrong)


def processes(found: Observation) -> Iterator[Verdict]:
    """Check that gathering losses have one process's gradients; several processes must gather."""
    for name, said in found.audits.items():
        if isinstance(said, str):
            yield fault("not-audited", loss=name, why=said)
        elif isinstance(said, Audit):
            for one in said.faults:
                yield fault("gathered-wrongly", loss=name, processes=said.processes, fault=one)
            if said.passed:
                yield judged("several processes", f"{name} has the gradients of one process.")
    known = any(batch.known is not None for batch in found.batches)
    if found.args.world_size > 1 and known and not any(found.audits.values()):
        yield fault("not-gathered", count=found.args.world_size)


# Checks of a trainer, and checks of the batches of each of its losses.
CHECKS = (weights, gradient, optimizer, precision, dropout, length, duplicates, processes)
LOSS_CHECKS = (views, loss, pairs, temperature, gradient_cache)


def _same_texts(columns: list[Mapping[str, Any]]) -> float:
    """Return the share of rows with equal tokens in the first two columns; 1 for one column."""
    if len(columns) < 2:
        return float(len(columns))
    if any("input_ids" not in column or "attention_mask" not in column for column in columns[:2]):
        return 0.0
    pairs = [zip(one["input_ids"], one["attention_mask"], strict=True) for one in columns[:2]]
    texts = [[ids[mask.bool()].tolist() for ids, mask in column] for column in pairs]
    return sum(one == other for one, other in zip(*texts, strict=True)) / len(texts[0])


def _rank(cosines: torch.Tensor) -> torch.Tensor:
    """Return each anchor's share of candidates farther than its positive, (N,); ties count half."""
    own = cosines.diagonal()[:, None]
    above = (cosines < own).double().sum(1) + ((cosines == own).double().sum(1) - 1) / 2
    return above / (cosines.shape[1] - 1)


def _repeats(texts: Any) -> int:
    return sum(count * (count - 1) // 2 for count in Counter(texts).values())
