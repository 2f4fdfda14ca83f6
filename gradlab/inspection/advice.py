"""Findings of an inspection in words, with their share of the push and advice."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradlab.inspection.candidate_pairs import TRUST
from gradlab.monitor.numbers import percent, short

# Share of the push below which a finding is negligible, and above which it is large.
NEGLIGIBLE, LARGE = 0.01, 0.1
NOTHING = "Nothing to fix was found."
WRITE_CLEAN = " --write-clean "
# Builders of the library datasets by file ending; other files take "text".
_LOADERS = {".csv": "csv", ".tsv": "csv", ".parquet": "parquet"} | dict.fromkeys(
    (".jsonl", ".json", ".ndjson"), "json"
)


@dataclass(frozen=True)
class Place:
    """Where an inspection ran and was written, for the commands in its advice; empty texts are unknown."""

    folder: Path
    command: str = ""
    model: str = ""
    train_file: str = ""


@dataclass(frozen=True)
class Advice:
    """One finding.

    Attributes:
        title: what to do, in a sentence.
        text: why, with numbers.
        share: share of all push that the finding costs; None if it has no cost or the cost is unknown.
        steps: pairs of a purpose and the code or command for it.
    """

    title: str
    text: str
    share: float | None = None
    steps: Sequence[tuple[str, str]] = ()

    @property
    def size(self) -> str:
        """The share in a word: negligible, small or large; empty without a share."""
        if self.share is None or math.isnan(self.share):
            return ""
        return "negligible" if self.share < NEGLIGIBLE else "small" if self.share < LARGE else "large"


def advise(numbers: Mapping[str, Any], place: Place | None = None) -> list[Advice]:
    """Return findings from `Inspection.numbers`, the most costly first; a place adds code and commands."""
    steps = [] if place is None else [*_clean_steps(place), *_mask_steps(numbers, place)]
    found = [*_candidates(numbers, steps), *_false_hard_negatives(numbers, steps)]
    for look in (_temperature, _hard_negatives, _positives, _hubs, _cosine):
        found += look(numbers)
    return sorted(found, key=lambda one: (one.size == "negligible", -(one.share or 0.0) if one.size else 0.0))


def _candidates(n: Mapping[str, Any], steps: Sequence[tuple[str, str]]) -> Iterator[Advice]:
    if not n["candidate_lines"]:
        return
    size, count = n["batch_size"], n["sentences"]
    expected = n["candidate_row_pairs"] * size * (size - 1) / (count * (count - 1))
    often = f"A batch of {size} has {short(expected)} such pairs on average"
    if expected < 0.7:
        often = f"One batch of {size} in {round(1 / expected):,} has such a pair"
    repeats = "text repeats" if n["duplicates"] == 1 else "texts repeat"
    repeated = f"Among {n['sentences']:,} sentences, {n['duplicates']:,} {repeats} an earlier one. "
    text = (
        f"{repeated if n['duplicates'] else ''}{_count(n['candidate_lines'], 'pair')} of texts likely say the same, and the loss "
        f"pushes them apart. {often}, and these pairs take "
        f"{percent_exactly(n['candidate_share_of_push'])} of all push{_error(n['candidate_share_error'])}."
    )
    if not math.isnan(n["candidate_share_when_met"]):
        text += (
            f" Where two of these texts meet, their pair takes {percent(n['candidate_share_when_met'])} of the push of both "
            f"(median; an equal share would be {percent(n['pair_share_on_average'])})."
        )
    if n["hidden_by_dropout"] > 0.1:
        text += (
            f" A mask by the similarity to the positive would miss many: for {percent(n['hidden_by_dropout'])} of the exact copies, "
            "dropout makes the copy look less similar than the sentence's own second view."
        )
    how = ", or mask them." if n["can_mask"] else ": there are too many to mask."
    yield Advice(f"Leave out the copies{how}", text, n["candidate_share_of_push"], steps)


def _clean_steps(place: Place) -> list[tuple[str, str]]:
    if not place.train_file or not place.command:
        return []
    source = Path(place.train_file)
    compressed = source.suffix in (".gz", ".xz", ".bz2")
    ending = "".join(source.suffixes[-2:] if compressed else source.suffixes[-1:])
    command, _, given = place.command.partition(WRITE_CLEAN)
    clean = shlex.split(given)[0] if given else source.name.removesuffix(ending) + "-clean" + ending
    kind = _LOADERS.get("." + ending.split(".")[1], "text") if ending else "text"
    more = ', sep="\\t"' if ending.startswith(".tsv") else ""
    load = (
        "from datasets import load_dataset\n"
        f'dataset = load_dataset("{kind}", data_files="{clean}", split="train"{more})'
    )
    if given:
        return [("Train on the file without copies, in sentence-transformers", load)]
    return [
        ("Write the file without copies", f"{command}{WRITE_CLEAN}{shlex.quote(clean)}"),
        ("and train on it, in sentence-transformers", load),
    ]


def _mask_steps(n: Mapping[str, Any], place: Place) -> list[tuple[str, str]]:
    if not n["can_mask"]:
        return []
    mask = place.folder.absolute() / "mask.txt"
    loss = f"mask({n['loss']}, by=pairs, pairs={mask})"
    rows = f"rows of {Path(place.train_file).name}" if place.train_file else "rows as they were inspected"
    code = (
        "from gradlab.integrations.sentence_transformers import loss\n"
        f'dataset = dataset.add_column("label", list(range(len(dataset))))  # {rows}, without blank ones, before any shuffling\n'
        f'criterion = loss(model, "{loss}")'
    )
    steps = [("Or mask the pairs, in sentence-transformers", code)]
    if place.model and place.train_file and not n["hard_negatives"]:
        command = ["gradlab", "train", "--model", place.model, "--train-file", place.train_file]
        steps.append(("or in gradlab", shlex.join([*command, "--output", "runs/masked", "--loss", loss])))
    return steps


def _false_hard_negatives(n: Mapping[str, Any], steps: Sequence[tuple[str, str]]) -> Iterator[Advice]:
    false = n["hard_negatives_false"]
    if not false:
        return
    elsewhere = " The clean file and the mask leave them out with the copies." if n["candidate_lines"] else ""
    subject = f"{_count(false, 'hard negative')} {'says' if false == 1 else 'say'}"
    yield Advice(
        "Remove the false hard negatives, or mask them.",
        f"{subject} in the same words what the anchor or its positive says, but the loss pushes them away: they take "
        f"{percent_exactly(n['hard_negatives_false_share'])} of all push.{elsewhere}",
        n["hard_negatives_false_share"],
        () if n["candidate_lines"] else steps,
    )


def _hard_negatives(n: Mapping[str, Any]) -> Iterator[Advice]:
    total = sum(n["hard_negatives"].values())
    if not total:
        return
    _, nearer, matter, easy = n["hard_negatives"].values()
    counts = (
        f"Of {_count(total, 'hard negative')} met in batches, {matter:,} ({percent(matter / total)}) are pushed more than the average "
        f"negative, and {easy:,} ({percent(easy / total)}) less. Each costs a forward pass."
    )
    if easy > total / 2:
        yield Advice("Find harder negatives: most of these are too easy.", counts)
    elif nearer > total / 10:
        yield Advice(
            "Read some of the hard negatives that are nearer than the positive.",
            f"The encoder finds {nearer:,} of {total:,} ({percent(nearer / total)}) nearer to the anchor than its positive, and "
            f"the words do not say why. They are either false, or exactly what the encoder has still to learn. {counts}",
        )


def _positives(n: Mapping[str, Any]) -> Iterator[Advice]:
    if n["positives_that_repeat"]:
        yield Advice(
            "Check the positives that repeat their anchor.",
            f"{_count(n['positives_that_repeat'], 'positive')} of {n['sentences']:,} have the words of their own anchor. Dropout alone "
            "makes two views of them, and the pair teaches nothing that a single sentence would not.",
        )


def _temperature(n: Mapping[str, Any]) -> Iterator[Advice]:
    if not n["temperatures"]:
        return
    now = n["temperatures"][1]
    stopped, hardest = percent(now["closed"]), percent(now["hardest_share"])
    at = f"At temperature {now['temperature']:g}"
    if n["negative_cosine"] > 0.8:
        yield Advice(
            "Train a little before you choose a temperature.",
            f"This encoder makes all sentences alike: two different ones have a cosine of {n['negative_cosine']:.2f} on average.",
        )
    elif now["closed"] > 0.5:
        yield Advice(
            "Use harder negatives or larger batches, or raise the temperature, if the score no longer rises.",
            f"{at}, the loss leaves {stopped} of the anchors alone: their gradient has all but vanished. That is usual for an "
            "encoder that was tuned with such a loss.",
        )
    elif now["hardest_share"] > 0.5:
        yield Advice(
            "Raise the temperature if single negatives should not decide.",
            f"{at}, the hardest negative takes {hardest} of an anchor's push.",
        )
    elif now["hardest_share"] < 2 * n["pair_share_on_average"]:
        yield Advice(
            "Lower the temperature: all negatives are pushed nearly alike.",
            f"{at}, the hardest negative takes {hardest} of an anchor's push; an equal share would be "
            f"{percent(n['pair_share_on_average'])}.",
        )


def _hubs(n: Mapping[str, Any]) -> Iterator[Advice]:
    equal = n["hubs"] / n["sentences"]
    those = f"{n['hubs']:,} sentences that are pushed most receive"
    if n["hubs"] == 1:
        those = "sentence that is pushed most receives"
    if n["hub_share"] > 5 * equal:
        yield Advice(
            "Look at the sentences that are pushed by very many others.",
            f"The {those} {percent(n['hub_share'])} of the push; an equal share would be {percent(equal)}. Fragments, headings and "
            'templates are often among them: they stand first in the list "Most pushed".',
            n["hub_share"],
        )


def _cosine(n: Mapping[str, Any]) -> Iterator[Advice]:
    known = [level for level in n["cosine_levels"] if not math.isnan(level["candidates"])]
    if not n["candidate_lines"] or not known:
        return
    level = known[-1]
    removed = f"Above {level['cosine']:g}, a mask would remove {percent_exactly(level['share_of_push'])} of all push"
    if not math.isnan(n["mask_above"]):
        yield Advice(
            f"A mask by cosine may begin at {n['mask_above']:.4f}.",
            f"It would remove {percent_exactly(n['mask_removes'])} of all push. Four of five of the nearest pairs above it are "
            "near-duplicates by their words.",
        )
    elif level["share_of_push"] >= NEGLIGIBLE and level["candidates"] >= TRUST:
        yield Advice(
            "Mask by the file of pairs, not by a cosine.",
            f"{removed}; too few of the nearest pairs are near-duplicates to tell from which cosine on this encoder can be trusted.",
        )
    elif level["share_of_push"] >= NEGLIGIBLE:
        yield Advice(
            "Do not mask by a cosine of this encoder.",
            f"{removed}, but only {percent(level['candidates'])} of the nearest pairs there are near-duplicates by their words.",
        )


def percent_exactly(share: float) -> str:
    """Format a share like `percent`, with more digits between 0.001% and 0.1%."""
    if math.isnan(share) or share == 0 or share >= 1e-3:
        return percent(share)
    return f"{100 * share:.2g}%" if share >= 1e-5 else "less than 0.001%"


def _error(error: float) -> str:
    return "" if math.isnan(error) or not error else f" (standard error {percent_exactly(error)})"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
