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
from gradlab.diagnosis.checkpoint_verdicts import best
from gradlab.diagnosis.data_verdicts import (
    columns,
    duplicates,
    hard_negatives,
    pairs,
    texts,
    unrelated_rows,
    views,
)
from gradlab.diagnosis.effects import EFFECTS, EXCUSES, SILENCES, TRENDS
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
from gradlab.diagnosis.label_values_verdicts import balance, contradictions
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
from gradlab.verdict import GOOD, NOT_JUDGED, Verdict, with_causes, with_second_signs


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
    verdicts = with_second_signs(verdicts, TRENDS)
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
