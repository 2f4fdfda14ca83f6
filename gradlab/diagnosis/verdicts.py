"""What is wrong with a training set-up: a `Verdict` for each check, from measurements.

`judge` is a pure function of what `gradlab.diagnosis.measurements` measures, which can be kept as
JSON. Each function of the modules of verdicts answers one question: its arguments are the numbers
that decide, and its limits stand above it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from gradlab.diagnosis.answer_verdicts import conflicts, roles, seams, unanswered
from gradlab.diagnosis.data_verdicts import (
    columns,
    duplicates,
    hard_negatives,
    pairs,
    texts,
    unrelated_rows,
    views,
)
from gradlab.diagnosis.encoder_verdicts import (
    beside,
    dropout,
    embedding_in_half_a_batch,
    first_token,
    flat,
    last_token,
    length,
    noise,
    running,
    tokens,
    vocabulary,
)
from gradlab.diagnosis.evaluation_verdicts import (
    best,
    evaluations,
    evaluator,
    gold,
    held_rows,
    prompts,
    unmeasured,
    use,
)
from gradlab.diagnosis.form_verdicts import forms, spelling
from gradlab.diagnosis.label_agreement_verdicts import (
    agreement,
    balance,
    contradictions,
    grouping,
    groups,
    met,
    opposite,
    preference,
    relation,
    scales,
    shift,
    taught_embeddings,
)
from gradlab.diagnosis.label_structure_verdicts import (
    mixed_classes,
    pair_classes,
    ratings,
    targets,
    teacher_margins,
    twin_classes,
)
from gradlab.diagnosis.label_verdicts import (
    classes,
    height,
    labels,
    lists,
    margin,
    order,
    outside,
    teacher,
    teaching,
    unread,
)
from gradlab.diagnosis.loss_verdicts import gradient_cache, logits, loss, processes, temperature
from gradlab.diagnosis.optimizer_verdicts import (
    gradient,
    learning_rate,
    optimizer,
    penalty,
    precision,
    settings,
    weights,
)
from gradlab.diagnosis.pairing_verdicts import (
    copies,
    exchanged,
    head,
    lengths_in_batches,
    outweighed,
    strays,
    stream,
)
from gradlab.diagnosis.plan_verdicts import (
    accumulation,
    last_batch,
    passes,
    reach,
    routes,
    schedule,
    steps,
    stopping,
)
from gradlab.diagnosis.serving_verdicts import (
    endings,
    field,
    fresh,
    held,
    lengths,
    mixed,
    names,
    new_tokens,
    pipeline,
    plateau,
    proportions,
    saved,
    vocabulary_size,
)
from gradlab.diagnosis.shape_verdicts import direction, entries, graded, prefixes, shape, width
from gradlab.diagnosis.shortcut_verdicts import (
    beginning,
    brevity,
    contained,
    markers,
    parts,
    remains,
    template,
)
from gradlab.verdict import GOOD, NOT_JUDGED, Verdict, with_causes

# Name of a verdict -> names of verdicts that it explains, in the order in which to act on them.
EFFECTS: dict[str, tuple[str, ...]] = {
    "frozen": ("no gradient", "little gradient", "optimizer lacks weights"),
    "adapters frozen": ("no gradient", "little gradient"),
    "empty texts": (
        *("loss not finite", "gradient not finite", "views equal", "pairs at chance"),
        *("negatives nearer", "negatives are positives", "duplicates", "loss zero", "placeholders"),
        *("sorted rows", "rows left out", "part of the pairs unrelated"),
    ),
    **{
        f"texts: {kind}": (
            *("part of the pairs unrelated", "pairs at chance", "prompt pooled"),
            *("duplicates", "spaces lost", "texts cut at a length", "words spelt"),
        )
        for kind in (
            *("object", "identifier", "escape", "joined", "piece", "ellipsis"),
            *("blank", "lost", "filler"),
        )
    },
    "texts of other rows": ("part of the pairs unrelated", "duplicates"),
    "rows contrary": ("negatives nearer", "duplicates"),
    "positives and negatives exchanged": ("negatives nearer", "pairs at chance"),
    "labels shifted": ("labels reversed in part", "labels of equal texts too low"),
    "layer made anew": ("loss weights without gradient",),
    **{
        name: ("labels unrelated", "labels of equal texts too low")
        for name in ("labels reversed in a half", "labels filled in", "labels against words")
    },
    "labels of groups": ("labels of equal texts too low",),
    "answers shifted": ("gold unrelated",),
    "columns in another order": (
        *("pairs at chance", "negatives nearer", "worse than chance"),
        *("tokens unknown", "placeholders", "duplicates"),
    ),
    "labels ignored": (
        *("pairs at chance", "worse than chance", "duplicates", "views equal"),
        "part of the pairs unrelated",
    ),
    "labels out of range": ("loss not finite", "worse than chance"),
    "loss of another encoder": ("no gradient", "little gradient", "optimizer lacks weights"),
    "rows mixed in batches": ("pairs at chance", "worse than chance"),
    "hardly any words": ("duplicates", "texts missing", "pairs at chance"),
    **dict.fromkeys(("plateau of the wrong sign", "large epsilon"), ("plan hardly moves",)),
    **{
        name: (
            *("embedding depends on other rows", "embedding depends on its batch"),
            *("pairs at chance", "worse than chance", "negatives nearer"),
            *("saved model differs", "labels unrelated", "loss changed outside"),
        )
        for name in ("embedding is random", "rows in another order")
    },
    "embedding depends on other rows": (
        *("embedding depends on its batch", "pairs at chance", "worse than chance"),
        "negatives nearer",
    ),
    "tokens unseen": (
        *("pairs at chance", "worse than chance", "negatives nearer"),
        *("views equal", "collapsed", "texts embed alike", "no end of sequence"),
    ),
    "dropout too high": ("noise drowns texts", "pairs at chance", "worse than chance"),
    "noise drowns texts": ("pairs at chance", "worse than chance", "negatives nearer"),
    "rows shifted": ("pairs at chance", "worse than chance", "part of the pairs unrelated"),
    "labels reversed": ("labels out of range",),
    "teacher reversed": ("negatives nearer", "teacher in other units"),
    **{
        name: ("plan hardly moves", "adapter hardly moves", "weights not loaded")
        for name in ("rate ends early", "rate too low")
    },
    "few steps": (
        *("plan hardly moves", "adapter hardly moves", "schedule does not reach the rate"),
        *("warm-up takes the run", "weights not loaded"),
    ),
    "texts missing": ("part of the pairs unrelated",),
    "route without column": ("part without gradient", "little gradient"),
    "routes exchanged": ("worse than chance", "pairs at chance"),
    "other row as target": ("loss reversed", "loss asks nothing", "worse than chance"),
    "loss reversed": ("worse than chance", "loss zero"),
    "labels missing": ("labels mostly equal",),
    "targets equal": ("teacher of other texts",),
    "classes unrelated": ("classes seldom fit",),
    **dict.fromkeys(("single rows", "rows left out"), ("few rows",)),
    "guide masks all": ("loss zero", "no gradient", "little gradient"),
    "module is flat": ("no gradient", "little gradient", "part without gradient"),
    "embedding depends on its batch": (
        *("pairs at chance", "worse than chance", "negatives nearer"),
        *("no end of sequence", "views equal"),
    ),
    "tokens unknown": (
        *("pairs at chance", "views equal", "texts embed alike", "collapsed"),
        *("worse than chance", "loss zero", "negatives nearer"),
    ),
    "weights float16": ("loss not finite", "gradient not finite", "loss zero in half precision"),
    "schedule does not reach the rate": (
        *("plan hardly moves", "adapter hardly moves", "rate too low", "weights not loaded"),
    ),
    "classes alone": ("loss zero", "no gradient", "little gradient", "labels ignored"),
    "labels between": ("loss zero", "no gradient", "little gradient"),
    "texts of a template": ("part of the pairs unrelated", "duplicates"),
    "negatives hold positives": ("negatives nearer", "marker"),
    "embeddings are shares": (
        *("embeddings without sign", "loss zero in half precision", "plan hardly moves"),
        *("pairs at chance", "worse than chance"),
    ),
    "collapsed": ("pairs at chance", "worse than chance", "loss zero", "few candidates"),
    **dict.fromkeys(
        ("one class", "labels equal", "margin met", "views equal", "texts embed alike"),
        ("loss zero", "no gradient"),
    ),
    "batch of one": ("loss zero", "no gradient"),
    "loss not finite": ("gradient not finite",),
    "temperature too low": ("worse than chance", "loss zero"),
    "logits too large": ("worse than chance", "loss zero"),
    **dict.fromkeys(("few rows", "placeholders", "sorted rows"), ("duplicates",)),
    "accumulation multiplies": ("loss changed outside",),
    "pairs at chance": ("worse than chance", "negatives nearer"),
}
# Name of a problem -> names of good verdicts that say nothing beside it.
SILENCES: dict[str, tuple[str, ...]] = {
    "empty texts": ("negatives farther", "pairs belong together", "few duplicates", "texts end"),
    "placeholders": ("negatives farther", "few duplicates"),
    "tokens unknown": ("negatives farther", "pairs belong together", "views differ"),
    "columns in another order": ("negatives farther", "pairs belong together"),
    "labels ignored": ("pairs belong together", "loss usual"),
    "collapsed": ("negatives farther", "pairs belong together"),
    "embedding depends on its batch": ("pairs belong together", "negatives farther"),
    "embedding depends on other rows": (
        *("pairs belong together", "negatives farther", "padding has no effect"),
    ),
    "tokens unseen": ("pairs belong together", "negatives farther", "views differ"),
    "rows shifted": ("pairs belong together",),
    "labels reversed": ("labels fit",),
    "gold equal": ("evaluation apart",),
}
# Name of a verdict that is no problem -> names of problems of the same data set that it excuses.
EXCUSES: dict[str, tuple[str, ...]] = {
    # Cosines of an encoder that is not tuned, such as of two towers, are worse than equal ones.
    "encoder untuned": ("worse than chance",),
    "negatives farther by words": ("negatives nearer",),
    "negatives contradict": ("negatives nearer",),
    "words foretold": ("worse than chance", "texts of other rows", "gold unrelated"),
}


def judge(measurements: Mapping[str, Any]) -> list[Verdict]:
    """Judge a training set-up by measurements that can be kept as JSON.

    Args:
        measurements: ``trainer``, the numbers of the checks of a trainer by the name of the check,
            and ``losses``, those of each data set's loss; see
            `gradlab.diagnosis.measurements.measure`. What is absent is not judged.

    Returns:
        The verdicts in the order of the checks, effects after their causes.
    """
    verdicts: list[Verdict] = []
    for name, numbers in measurements.get("trainer", {}).items():
        verdicts += TRAINER_CHECKS[name](**numbers)
    for dataset, checks in measurements.get("losses", {}).items():
        for name, numbers in checks.items():
            verdicts += [verdict.of(dataset) for verdict in LOSS_CHECKS[name](**numbers)]
    verdicts = [_excused(verdict, verdicts) for verdict in verdicts]
    order = [*EFFECTS, *(verdict.name for verdict in verdicts)]
    problems = sorted(
        (verdict for verdict in verdicts if verdict.is_problem),
        key=lambda verdict: order.index(verdict.name),
    )
    sound = [_beside(verdict, problems) for verdict in verdicts if not verdict.is_problem]
    return [*with_causes(problems, EFFECTS), *sound]


def _excused(verdict: Verdict, verdicts: Sequence[Verdict]) -> Verdict:
    """Return a verdict that is no problem where another one of its data set excuses it."""
    for excuse in verdicts:
        together = verdict.dataset in ("", excuse.dataset)
        if together and verdict.name in EXCUSES.get(excuse.name, ()):
            reason = "The columns share few words, as two languages do, and words tell nothing."
            if verdict.name == "negatives nearer":
                reason = "Words, or the names of columns, say otherwise."
            if verdict.name == "worse than chance":
                reason = "That is of an encoder that is not tuned for these pairs."
            finding = f"{verdict.finding} {reason}"
            return dataclasses.replace(verdict, grade=NOT_JUDGED, finding=finding, change="")
    return verdict


def _beside(verdict: Verdict, problems: Sequence[Verdict]) -> Verdict:
    """Return a verdict that is not *good* where a problem leaves it without a meaning."""
    for problem in problems:
        together = not problem.dataset or verdict.dataset in ("", problem.dataset)
        if together and verdict.grade == GOOD and verdict.name in SILENCES.get(problem.name, ()):
            finding = f"{verdict.finding} Beside “{problem.title}” that says nothing."
            return dataclasses.replace(verdict, grade=NOT_JUDGED, finding=finding)
    return verdict


# Checks of a trainer and of each of its losses, by the name of their measurements.
TRAINER_CHECKS: dict[str, Callable[..., Iterator[Verdict]]] = {
    "weights": weights,
    "gradient": gradient,
    "optimizer": optimizer,
    "learning_rate": learning_rate,
    "precision": precision,
    "dropout": dropout,
    "noise": noise,
    "length": length,
    "processes": processes,
    "last_token": last_token,
    "first_token": first_token,
    "evaluator": evaluator,
    "accumulation": accumulation,
    "beside": beside,
    "schedule": schedule,
    "apart": embedding_in_half_a_batch,
    "tokens": tokens,
    "gold": gold,
    "held_rows": held_rows,
    "use": use,
    "best": best,
    "prompts": prompts,
    "passes": passes,
    "reach": reach,
    "steps": steps,
    "settings": settings,
    "evaluations": evaluations,
    "stopping": stopping,
    "routes": routes,
    "held": held,
    "saved": saved,
    "fresh": fresh,
    "new_tokens": new_tokens,
    "vocabulary_size": vocabulary_size,
    "pipeline": pipeline,
    "names": names,
    "plateau": plateau,
    "proportions": proportions,
    "field": field,
    "lengths": lengths,
    "endings": endings,
    "aside": penalty,
    "head": head,
    "running": running,
    "flat": flat,
    "roles": roles,
    "seams": seams,
    "conflicts": conflicts,
    "unanswered": unanswered,
    "unmeasured": unmeasured,
}
LOSS_CHECKS: dict[str, Callable[..., Iterator[Verdict]]] = {
    "columns": columns,
    "texts": texts,
    "duplicates": duplicates,
    "views": views,
    "loss": loss,
    "pairs": pairs,
    "unrelated_rows": unrelated_rows,
    "hard_negatives": hard_negatives,
    "temperature": temperature,
    "logits": logits,
    "gradient_cache": gradient_cache,
    "labels": labels,
    "height": height,
    "classes": classes,
    "order": order,
    "outside": outside,
    "margin": margin,
    "teacher": teacher,
    "vocabulary": vocabulary,
    "agreement": agreement,
    "preference": preference,
    "taught_embeddings": taught_embeddings,
    "shift": shift,
    "last_batch": last_batch,
    "balance": balance,
    "contradictions": contradictions,
    "relation": relation,
    "grouping": grouping,
    "groups": groups,
    "met": met,
    "direction": direction,
    "prefixes": prefixes,
    "shape": shape,
    "graded": graded,
    "width": width,
    "entries": entries,
    "parts": parts,
    "template": template,
    "lists": lists,
    "unread": unread,
    "teaching": teaching,
    "markers": markers,
    "contained": contained,
    "remains": remains,
    "beginning": beginning,
    "mixed": mixed,
    "opposite": opposite,
    "scales": scales,
    "brevity": brevity,
    "forms": forms,
    "spelling": spelling,
    "ratings": ratings,
    "pair_classes": pair_classes,
    "teacher_margins": teacher_margins,
    "twin_classes": twin_classes,
    "mixed_classes": mixed_classes,
    "targets": targets,
    "strays": strays,
    "exchanged": exchanged,
    "copies": copies,
    "stream": stream,
    "lengths_in_batches": lengths_in_batches,
    "outweighed": outweighed,
}
