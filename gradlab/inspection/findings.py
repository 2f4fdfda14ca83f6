"""What is worth saying about an inspection: each finding with its condition, grade and words.

A finding that costs a share of the push is bad or good by that share. Numbers have the names of
`gradlab.inspection.Inspection.numbers`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from gradlab.data.partner_verdicts import partners
from gradlab.errors import counted
from gradlab.inspection.candidate_pairs import TRUST
from gradlab.inspection.text_findings import unreadable
from gradlab.numbers import percent, percent_exactly, short
from gradlab.verdict import BAD, GOOD, NOT_JUDGED, WATCH, Grade, Verdict

# Share of the push below which what a finding costs is good, and above which it is bad; standard
# errors up to which a share of few batches may be chance.
NEGLIGIBLE, LARGE, SURELY = 0.01, 0.1, 2.0
# Share of texts that are cut, of hard negatives that are too easy or nearer than the positive, and
# of positives that repeat their anchor, from which on each is worth a remark; and share of the last
# from which on the two columns are views by dropout, on purpose.
MANY_CUT, MANY_EASY, MANY_NEARER, MANY_REPEAT, MOST_REPEAT = 0.25, 0.75, 0.5, 0.05, 0.9
# Push of the sentences that are pushed most, as a multiple of an equal share, that is named.
MANY_TIMES = 5
# Share of the push on few sentences from which on they are to be looked at: sound tables have up to
# .2 before the encoder is trained.
MUCH = 0.3
# Cosine of two different sentences, on average, above which an encoder makes all of them alike.
ENCODER_ALIKE = 0.8
# Share of an anchor's push on its hardest negative, as a multiple of an equal share, below which
# all negatives are pushed alike.
ALIKE = 2
SHARE = "share of the push"

Numbers = Mapping[str, Any]
# Commands and code after their purpose.
Steps = Sequence[tuple[str, str]]


def findings_of(numbers: Numbers, steps: Steps = ()) -> list[Verdict]:
    """Return all findings that apply; those on copies and on a sample come with the steps."""
    copies = _copies(numbers, steps)
    findings = (
        unreadable(numbers),
        partners(**numbers["partners"]) if numbers.get("partners") else None,
        _sample(numbers, steps),
        copies,
        _shared(numbers, steps if copies is None else ()),
        _false_hard_negatives(numbers, steps),
        _alike_when_cut(numbers),
        _alike_behind_prompts(numbers),
        _cut(numbers),
        _temperature(numbers),
        _hard_negatives(numbers),
        _positives(numbers),
        _hubs(numbers),
        _mask(numbers),
    )
    return [finding for finding in findings if finding is not None]


def _sample(numbers: Numbers, steps: Steps) -> Verdict | None:
    if not numbers["sampled_from"]:
        return None
    share, row_pairs = numbers["pairs_seen"], numbers["candidate_row_pairs"]
    rows = f"{numbers['sentences']:,} of {numbers['sampled_from']:,} rows were drawn"
    if row_pairs:
        meaning = (
            f", so that the {counted(row_pairs, 'pair')} of rows found here "
            f"stand{_s(row_pairs)} for about {round(row_pairs / share):,}"
        )
    else:
        meaning = ": copies may well be in the others"
    finding = (
        f"{rows}. They hold {percent_exactly(share)} of all pairs of rows{meaning}. Shares of the "
        "push hold for all rows."
    )
    change = "Inspect all rows before you clean the file."
    return Verdict("sample", NOT_JUDGED, finding, change, name="sample", steps=steps)


def _copies(numbers: Numbers, steps: Steps) -> Verdict | None:
    """On texts that likely say the same, in all rows or in a sample of them; not `_shared` ones."""
    lines, share = numbers["candidate_lines"], numbers["candidate_share_of_push"]
    if numbers["shared_lines"]:
        lines, share = lines - numbers["shared_lines"], numbers["unshared_share_of_push"]
    if not lines:
        return None
    pairs = counted(lines, "pair")
    error = 0.0 if numbers["shared_lines"] else numbers["candidate_share_error"]
    error = 0.0 if math.isnan(error) else error
    precision = ""
    if error:
        precision = f" (standard error {percent_exactly(error)})"
    push = f"take {percent_exactly(share)} of all push{precision}."
    if numbers["sampled_from"]:
        name, change = "copies in a sample", "There are copies: look for them in all rows."
        finding = (
            f"{pairs} of texts in the sample likely say the same, and the loss pushes them apart. "
            f"These pairs {push}"
        )
        steps = ()
    else:
        name = "copies"
        change = "Leave out the copies" + (
            ", or mask them." if numbers["can_mask"] else ": there are too many to mask."
        )
        finding = (
            f"{_repeats(numbers)}{pairs} of texts likely say the same, and the loss pushes them "
            f"apart. {_meetings(numbers)}, and these pairs {push}{_when_met(numbers)}"
        )
    # That texts which are not equal say the same is a guess.
    certain = bool(numbers["duplicates"])
    grade = _by_share(share if share > SURELY * error else share - error, certain)
    return Verdict(
        *("copies", grade, finding, change),
        name=name,
        symptom="false-negatives",
        evidence=_evidence(share),
        steps=steps,
    )


def _shared(numbers: Numbers, steps: Steps) -> Verdict | None:
    """On texts of several rows that differ otherwise, which the table alone does not condemn."""
    if not (count := numbers["shared_lines"]):
        return None
    share = percent_exactly(numbers["shared_share_of_push"])
    finding = (
        f"{counted(count, 'text')} stand{_s(count)} in several rows that differ otherwise, such as "
        "an answer to several questions, or the positive of a row among the hard negatives of "
        "another. Where such rows meet, the loss pushes the text away from its own anchor: "
        f"{share} of all push, in random batches of {numbers['batch_size']}."
    )
    change = 'Keep equal texts out of each batch: batch_sampler="no_duplicates".'
    return Verdict(
        *("equal texts", NOT_JUDGED, finding, change),
        name="texts of several rows",
        symptom="false-negatives",
        steps=() if numbers["sampled_from"] else steps,
    )


def _repeats(numbers: Numbers) -> str:
    if not (copies := numbers["duplicates"]):
        return ""
    verb = " repeats" if copies == 1 else "s repeat"
    return f"Among {numbers['sentences']:,} sentences, {copies:,} text{verb} an earlier one. "


def _meetings(numbers: Numbers) -> str:
    """Return how often copies meet in a batch, on average."""
    count, size = numbers["sentences"], numbers["batch_size"]
    shared = numbers["shared_lines"]
    row_pairs = numbers["unshared_row_pairs" if shared else "candidate_row_pairs"]
    pairs = row_pairs * size * (size - 1) / (count * (count - 1))
    if pairs < 0.7:
        return f"One batch of {size} in {round(1 / pairs):,} has such a pair"
    return f"A batch of {size} has {short(pairs)} such pairs on average"


def _when_met(numbers: Numbers) -> str:
    """Return what copies do where they meet, and what dropout hides of them."""
    text, share = "", numbers["candidate_share_when_met"]
    if not math.isnan(share):
        text = (
            f" Where two of these texts meet, their pair takes {percent(share)} of the push of "
            f"both (median; an equal share would be {percent(numbers['pair_share_on_average'])})."
        )
    if (hidden := numbers["hidden_by_dropout"]) > 0.1:
        text += (
            " A mask by the similarity to the positive would miss many: for "
            f"{percent(hidden)} of the exact copies, dropout makes the copy look less similar than "
            "the sentence's own second view."
        )
    return text


def _false_hard_negatives(numbers: Numbers, steps: Steps) -> Verdict | None:
    count, share = numbers["hard_negatives_false"], numbers["hard_negatives_false_share"]
    if not count:
        return None
    with_copies = bool(numbers["candidate_lines"])
    clean = " The clean file and the mask leave them out with the copies." if with_copies else ""
    finding = (
        f"{counted(count, 'hard negative')} say{_s(count)} in the same words what the anchor or "
        "its positive says, but the loss pushes them away: they take "
        f"{percent_exactly(share)} of all push.{clean}"
    )
    change = "Remove the false hard negatives, or mask them."
    return Verdict(
        *("hard negatives", _by_share(share, certain=False), finding, change),
        name="false hard negatives",
        symptom="false-negatives",
        evidence=_evidence(share),
        steps=() if with_copies or numbers["sampled_from"] else steps,
    )


def _alike_when_cut(numbers: Numbers) -> Verdict | None:
    count = numbers["alike_when_cut"]
    if not count:
        return None
    finding = (
        f"{counted(count, 'text')} begin{_s(count)} as an earlier one does and differ{_s(count)} "
        f"only behind the {numbers['max_length']:,} tokens that are read: the model cannot tell "
        "them apart, and the loss pushes them apart. A long prompt before short texts does the "
        "same."
    )
    change = "Split texts that are alike to the last token that is read."
    name, symptom = "texts alike when cut", "score-does-not-rise"
    return Verdict("length", WATCH, finding, change, name, symptom)


def _alike_behind_prompts(numbers: Numbers) -> Verdict | None:
    count = numbers["alike_behind_prompts"]
    if not count:
        return None
    prompts = ", ".join(f"“{prompt}”" for prompt in numbers["prompts"])
    finding = (
        f"All texts of a column begin alike ({prompts}). Behind that, {counted(count, 'text')} "
        f"repeat{_s(count)} another one. They do not count as copies. Let the model or the trainer "
        "add prompts, and inspect the file without them."
    )
    change = "Look at texts that differ only in their prompt."
    name, symptom = "texts alike behind prompts", "false-negatives"
    return Verdict("prompts", WATCH, finding, change, name, symptom)


def _cut(numbers: Numbers) -> Verdict | None:
    if not numbers["cut"]:
        return None
    finding = (
        f"{percent(numbers['cut_share'])} of the texts ({numbers['cut']:,}) are longer than "
        f"{numbers['max_length']:,} tokens, and the model does not read on. Raise --max-length, "
        "split such texts, or take a model that reads more."
    )
    grade: Grade = WATCH if numbers["cut_share"] > MANY_CUT else GOOD
    change = "Remember that only the beginnings of long texts were judged."
    return Verdict("length", grade, finding, change, "texts cut", "score-does-not-rise")


def _temperature(numbers: Numbers) -> Verdict | None:
    """On the gate and the weight at the loss's own temperature."""
    if not numbers["temperatures"]:
        return None
    gates = numbers["temperatures"][1]  # at the loss's own
    at, hardest = f"At temperature {gates['temperature']:g}", gates["hardest_share"]
    pushed = f"{at}, the hardest negative takes {percent(hardest)} of an anchor's push"
    equal = numbers["pair_share_on_average"]
    if (cosine := numbers["negative_cosine"]) > ENCODER_ALIKE:
        name, grade = "encoder alike", NOT_JUDGED
        change = "Train a little before you choose a temperature."
        finding = (
            "This encoder makes all sentences alike: two different ones have a cosine of "
            f"{cosine:.2f} on average."
        )
    elif gates["closed"] > 0.5:
        name, grade = "anchors left alone", GOOD
        change = (
            "Where anchors have stopped learning and the score no longer rises, use harder "
            "negatives or larger batches, or raise the temperature."
        )
        finding = (
            f"{at}, the loss leaves {percent(gates['closed'])} of the anchors alone: their "
            "gradient has all but vanished. That is usual for an encoder that was tuned with such "
            "a loss."
        )
    elif hardest > 0.5:
        name, grade = "hardest decides", GOOD
        change = "Raise the temperature if single negatives should not decide."
        finding = f"{pushed}."
    elif hardest < ALIKE * equal:
        name, grade = "negatives alike", WATCH
        change = "Lower the temperature: all negatives are pushed nearly alike."
        finding = f"{pushed}; an equal share would be {percent(equal)}."
    else:
        return None
    return Verdict("temperature", grade, finding, change, name, "temperature")


def _hard_negatives(numbers: Numbers) -> Verdict | None:
    """On hard negatives that were met in batches, by kind."""
    _, nearer, matter, easy = kinds = tuple(numbers["hard_negatives"].values()) or (0, 0, 0, 0)
    total = sum(kinds)
    pushed = total and (
        f"Of {counted(total, 'hard negative')} met in batches, {matter:,} "
        f"({percent(matter / total)}) are pushed more than the average negative, and {easy:,} "
        f"({percent(easy / total)}) less. Each costs a forward pass."
    )
    # An encoder that makes all texts alike does not tell which are hard.
    alike = numbers["negative_cosine"] > ENCODER_ALIKE
    grade: Grade = NOT_JUDGED if alike else WATCH
    if easy > total * MANY_EASY:
        name, change = "negatives easy", "Find harder negatives: most of these are too easy."
        finding = f"{pushed}"
    elif nearer > total / 10:
        grade = grade if nearer > total * MANY_NEARER else GOOD
        name = "negatives nearer"
        change = "Read some of the hard negatives that are nearer than the positive."
        finding = (
            f"The encoder finds {nearer:,} of {total:,} ({percent(nearer / total)}) nearer to the "
            "anchor than its positive, and the words do not say why. They are either false, or "
            f"exactly what the encoder has still to learn. {pushed}"
        )
    else:
        return None
    return Verdict("hard negatives", grade, finding, change, name, "false-negatives")


def _positives(numbers: Numbers) -> Verdict | None:
    count, sentences = numbers["positives_that_repeat"], numbers["sentences"]
    if not count:
        return None
    finding = (
        f"{counted(count, 'positive')} of {sentences:,} have the same words as their anchor. "
        "Dropout alone makes two views of them, and the pair teaches nothing that a single "
        "sentence would not."
    )
    grade: Grade = WATCH if count > MANY_REPEAT * sentences else GOOD
    change = "Check the positives that repeat their anchor."
    if numbers["positives_that_are_equal"] > MOST_REPEAT * sentences:
        grade, change = GOOD, "Keep dropout on: nearly all pairs are views by dropout."
    return Verdict("positives", grade, finding, change, name="positives repeat")


def _hubs(numbers: Numbers) -> Verdict | None:
    count, sentences, share = numbers["hubs"], numbers["sentences"], numbers["hub_share"]
    if not share > MANY_TIMES * count / sentences:
        return None
    most = "sentence that is pushed most receives"
    if count > 1:
        most = f"{count:,} sentences that are pushed most receive"
    finding = (
        f"The {most} {percent(share)} of the push; an equal share would be "
        f"{percent(count / sentences)}. Fragments, headings and templates are often among them: "
        'they stand first in the list "Most pushed".'
    )
    grade: Grade = WATCH if share >= MUCH else GOOD
    change = "Look at the sentences that are pushed by very many others."
    return Verdict("hubs", grade, finding, change, name="hubs")


def _mask(numbers: Numbers) -> Verdict | None:
    """On the cosine from which on a mask would leave copies out, if this encoder has one."""
    levels = [level for level in numbers["cosine_levels"] if not math.isnan(level["candidates"])]
    if not (numbers["candidate_lines"] and levels):
        return None
    level = levels[-1]  # the largest cosine with a known share of candidates
    share = percent_exactly(level["share_of_push"])
    removed = f"Above {level['cosine']:g}, a mask would remove {share} of all push"
    if not math.isnan(cosine := numbers["mask_above"]):
        name, change = "mask from a cosine", f"A mask by cosine may begin at {cosine:.4f}."
        finding = (
            f"It would remove {percent_exactly(numbers['mask_removes'])} of all push. Four of five "
            "of the nearest pairs above it are near-duplicates by their words."
        )
    elif not level["share_of_push"] >= NEGLIGIBLE:  # also where it is NaN
        return None
    elif level["candidates"] >= TRUST:
        name, change = "mask by pairs", "Mask by the file of pairs, not by a cosine."
        finding = (
            f"{removed}; too few of the nearest pairs are near-duplicates to tell from which "
            "cosine on this encoder can be trusted."
        )
    else:
        name, change = "mask by no cosine", "Do not mask by a cosine of this encoder."
        finding = (
            f"{removed}, but only {percent(level['candidates'])} of the nearest pairs there are "
            "near-duplicates by their words."
        )
    return Verdict("mask", GOOD, finding, change, name=name)


def _by_share(share: float, certain: bool) -> Grade:
    """Return the grade of what costs a share of the push; it is bad only if that is certain."""
    return GOOD if share < NEGLIGIBLE else BAD if share >= LARGE and certain else WATCH


def _evidence(share: float) -> dict[str, float]:
    return {} if math.isnan(share) else {SHARE: share}


def _s(count: int) -> str:
    """Return the ending of a verb of one thing."""
    return "s" if count == 1 else ""
