"""Advice in plain words, each with the numbers that it rests on."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gradlab.inspection.candidate_pairs import TRUST
from gradlab.report.numbers import percent, short


@dataclass(frozen=True)
class Advice:
    """One thing to do, or to leave.

    Attributes:
        title: what to do, a sentence.
        text: why, with numbers.
    """

    title: str
    text: str


def advise(numbers: Mapping[str, Any]) -> list[Advice]:
    """Advice from the numbers of `gradlab.inspection.numbers.summarize`."""
    makers = (_duplicates, _positives, _candidates, _cosine, _temperature, _hard_negatives, _hubs)
    return [one for maker in makers if (one := maker(numbers)) is not None]


def _duplicates(n: Mapping[str, Any]) -> Advice | None:
    if not n["duplicates"]:
        return None
    hidden = n["hidden_by_dropout"]
    text = (
        f"{_count(n['duplicates'], 'text')} of {n['sentences']:,} sentences have the words of an earlier one."
    )
    if not math.isnan(hidden):
        text += (
            f" The loss pushes the copies apart like any negatives, and a mask by similarity to the positive would not see it: in {percent(hidden)} "
            "of the cases dropout makes a copy less similar to a sentence than the sentence's own second view is."
        )
    return Advice("Keep one of each duplicate.", text)


def _positives(n: Mapping[str, Any]) -> Advice | None:
    if not n["positives_that_repeat"]:
        return None
    return Advice(
        "Check the positives that repeat their anchor.",
        f"{_count(n['positives_that_repeat'], 'positive')} of {n['sentences']:,} have the words of their own anchor: "
        "dropout alone makes two views of them, which hides that the pair teaches nothing.",
    )


def _candidates(n: Mapping[str, Any]) -> Advice | None:
    if not n["candidate_lines"]:
        return Advice(
            "No false negatives to mask.", "No two sentences of the corpus were found to say the same."
        )
    expected = n["candidate_row_pairs"] * _chance(n)
    text = (
        f"{_count(n['candidate_lines'], 'pair')} of texts likely say the same. On average {short(expected)} of them meet in a "
        f"batch of {n['batch_size']}, and take {percent_exactly(n['candidate_share_of_push'])} of all push"
        f"{_error(n['candidate_share_error'])}"
    )
    if not math.isnan(n["candidate_share_when_met"]):
        text += (
            f"; where one meets, it takes {percent(n['candidate_share_when_met'])} of the push of its two sentences (median; "
            f"{percent(n['pair_share_on_average'])} would be its part if all were pushed alike)"
        )
    if not n["can_mask"]:
        return Advice("Remove the duplicates: there are too many pairs to mask.", text + ".")
    return Advice(
        "Mask the likely false negatives.",
        f"{text}. Train with the loss mask({n['loss']}, by=pairs, pairs=mask.txt).",
    )


def _chance(n: Mapping[str, Any]) -> float:
    size, count = n["batch_size"], n["sentences"]
    return size * (size - 1) / (count * (count - 1))


def _cosine(n: Mapping[str, Any]) -> Advice | None:
    if not n["cosine_levels"] or all(math.isnan(level["candidates"]) for level in n["cosine_levels"]):
        return None
    if not math.isnan(n["mask_above"]):
        return Advice(
            f"A mask by cosine may begin at {n['mask_above']:.4f}.",
            f"It would remove {percent_exactly(n['mask_removes'])} of all push; of the nearest pairs above it four of five are "
            "near-duplicates by their words.",
        )
    level = n["cosine_levels"][-1]
    for one in n["cosine_levels"]:
        if not math.isnan(one["candidates"]):
            level = one
    if level["candidates"] >= TRUST:
        return Advice(
            "Mask by the file of pairs, not by a cosine.",
            f"Too few of the nearest pairs are near-duplicates by their words, beside duplicates, to tell from which cosine on this model can "
            f"be trusted; above {level['cosine']:g} a mask would remove {percent_exactly(level['share_of_push'])} of all push.",
        )
    return Advice(
        "Do not mask by a cosine of this model.",
        f"Above {level['cosine']:g} a mask would remove {percent_exactly(level['share_of_push'])} of all push, but only "
        f"{percent(level['candidates'])} of the nearest pairs there are near-duplicates by their words: mask by the file of pairs, or look "
        "through the neighbours first.",
    )


def _temperature(n: Mapping[str, Any]) -> Advice | None:
    levels = n["temperatures"]
    if not levels:
        return None
    now = levels[1]
    others = "; ".join(
        f"at {one['temperature']:g} it is {percent(one['closed'])} closed and {percent(one['hardest_share'])} to the hardest"
        for one in levels
        if one is not now
    )
    numbers = (
        f"At {now['temperature']:g}, {percent(now['closed'])} of the anchors are closed (dissipation below 1%) and the hardest negative takes "
        f"{percent(now['hardest_share'])} of an anchor's push; {others}."
    )
    if n["negative_cosine"] > 0.8:
        return Advice(
            "Train a little before you choose a temperature.",
            f"This model makes all sentences alike: the mean cosine of two different ones is {n['negative_cosine']:.2f}. {numbers}",
        )
    if now["closed"] > 0.5:
        return Advice("Raise the temperature, or give harder negatives or larger batches.", numbers)
    if now["hardest_share"] > 0.5:
        return Advice("Raise the temperature if single negatives should not decide.", numbers)
    if now["hardest_share"] < 2 * n["pair_share_on_average"]:
        return Advice("Lower the temperature: all negatives are pushed nearly alike.", numbers)
    return Advice("The temperature fits these sentences.", numbers)


def _hard_negatives(n: Mapping[str, Any]) -> Advice | None:
    counts = n["hard_negatives"]
    if not counts:
        return None
    total = sum(counts.values())
    like, matter, easy = counts.values()
    repeat = n["hard_negatives_that_repeat"]
    verb = "repeats its" if repeat == 1 else "repeat their"
    mask = f" In the whole corpus {repeat:,} {verb} own anchor or positive, which mask.txt lists." * bool(
        repeat
    )
    title = "Remove the hard negatives that look like positives." if like else "Keep the hard negatives."
    if easy > total / 2:
        title = "Find harder negatives: most of these are too easy."
    return Advice(
        title,
        f"Of {_count(total, 'hard negative')} that were met, {like:,} ({percent(like / total)}) are at least as similar to the anchor as its "
        f"positive or have its words, {matter:,} ({percent(matter / total)}) are pushed more than the mean negative, and {easy:,} "
        f"({percent(easy / total)}) less: those cost a forward pass and teach little.{mask}",
    )


def _hubs(n: Mapping[str, Any]) -> Advice | None:
    if math.isnan(n["hub_share"]):
        return None
    title = "Look at the hubs." if n["hub_share"] > 0.05 else "No sentence is pushed by all."
    return Advice(
        title,
        f"The 1% of sentences that are pushed most receive {percent(n['hub_share'])} of the push on sentences of the batch. Fragments, "
        "headings and templates are often among them.",
    )


def percent_exactly(share: float) -> str:
    """Like `percent`, with digits below a tenth of a per cent, down to a thousandth."""
    if math.isnan(share) or share == 0 or share >= 1e-3:
        return percent(share)
    return f"{100 * share:.2g}%" if share >= 1e-5 else "less than 0.001%"


def _error(error: float) -> str:
    return "" if math.isnan(error) or not error else f" (standard error {percent_exactly(error)})"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
