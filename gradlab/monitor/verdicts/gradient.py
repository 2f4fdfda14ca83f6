"""Does the loss still teach, which negatives count, and does the pull hold against the push?"""

from __future__ import annotations

import math
import statistics

from gradlab.monitor.arriving_gradient import OWN_GRADIENT
from gradlab.monitor.metrics import TRAIN, of_dataset
from gradlab.monitor.movement import WEIGHTS_MOVED
from gradlab.monitor.setting_advice import (
    HARDEST,
    LEARNING,
    PULL,
    RATED,
    alternative,
    sentence,
    setting_change,
)
from gradlab.monitor.verdicts.embeddings import collapse
from gradlab.monitor.verdicts.records import PERSISTENT, WELL_RANKED, Records
from gradlab.numbers import percent
from gradlab.verdict import BAD, GOOD, NOT_JUDGED, WATCH, Verdict

# Mean dissipation at which no anchor learns. A healthy SimCSE run falls below .01 within a hundred
# steps; none of the sound runs of the tests falls below .0005 in its first tenth.
NOTHING = 1e-4
# Part of a run that is early, and number of early records if the length of the run is unknown.
EARLY, EARLY_RECORDS = 0.1, 10
# Dissipation that moves no weight in any precision.
VANISHED = 1e-8
# Early movement of the weights, relative to their size, that weight decay alone does not reach.
MOVES = 1e-3
# Cosine by which positives are nearer than other sentences where the training data are learned.
SOLVED = 0.3
# Median ratio below which anchors are driven off, though their positives rank first.
LOW_RATIO = 0.5
# Share of sentences that learn: below the first it is worth a remark, above the second all learn;
# below the third most have stopped.
FEW_LEARN, ALL_LEARN, MANY_LEARN = 0.1, 0.995, 0.5
# Negatives weigh alike if the hardest one has less than this multiple of an equal share; with fewer
# than ENOUGH negatives the hardest one has a large share at any temperature.
NEAR_UNIFORM, ENOUGH = 2.5, 8
# Above this mean cosine of different sentences (an untuned encoder), any loss seems to weigh all
# negatives alike; from HOT on a temperature does so for every encoder, since cosines differ by at
# most 2.
TUNED, HOT = 0.8, 1.0
# Temperature at which only the hardest negative counts, and its share of the weight then.
COLD, NEARLY_ALL = 0.005, 0.9
# Steps bring an anchor closer to its positive if more than this share of triples satisfy Lemma 1;
# positives above the cosine COINCIDE cannot come closer.
MOST, COINCIDE = 0.5, 0.99
# Advice on a loss of labels without a gradient; why a loss has components but no triples.
EQUAL_LABELS = (
    "Look at the labels of a batch: where they are all equal, or fulfilled, such a loss teaches "
    "nothing."
)
NO_NEGATIVES = (
    "Does not apply: this loss compares no anchor with a positive and negatives of its own."
)
NOT_APPLICABLE = "does not apply"


def nothing_to_learn(records: Records) -> Verdict | None:
    """Judge whether the gradient has been near zero from early in training until now."""
    values = list(records.points("gradient_dissipation").items())
    if len(values) < PERSISTENT or not values[-1][1] < NOTHING:
        return None
    alive = [at for at, (_, value) in enumerate(values) if not value < NOTHING]
    begin = alive[-1] + 1 if alive else 0
    confirmed = begin + PERSISTENT - 1  # the record that makes it three in a row
    total = records.history.total_steps
    if confirmed >= len(values):
        return None
    most = PERSISTENT if total else EARLY_RECORDS
    if confirmed >= most and values[confirmed][0] > EARLY * (total or 0):
        return None
    dissipation = values[-1][1]
    if wrong := _no_push(records, values[confirmed][0]):
        return wrong
    easier = alternative(records.used, LEARNING, raises=True)
    too_easy = (
        "The task is too easy for this loss: use harder negatives or larger batches, or views "
        f"that differ more{easier}."
    )
    return Verdict(
        "Learning",
        BAD,
        f"Almost no sentence learns: the gradient is near zero already (mean dissipation "
        f"{dissipation:.1g}).",
        "See to the collapse first." if collapse(records) else
        EQUAL_LABELS if records.used.has_labels else too_easy,
        name="nothing left to learn" if collapse(records) else "nothing to learn",
        symptom="loss-zero",
        evidence={"gradient_dissipation": dissipation},
    )  # fmt: skip


def learning(records: Records, unmeasured: str) -> Verdict:
    """Judge whether sentences receive a gradient; ``unmeasured`` says why it is not known."""
    rows = records.recent("gradient_dissipation", "active", count=1)
    if not rows:
        return Verdict("Learning", NOT_JUDGED, unmeasured, name="learning not measured")
    return nothing_to_learn(records) or _share_that_learns(records)


def temperature_too_high(records: Records) -> Verdict | None:
    """Judge whether the loss weighs hard and easy negatives alike, three records in a row."""
    rows = records.recent("hardest_share", "uniform_share", "negative_cosine")
    temperature = records.used.temperature
    hot = temperature is not None and temperature >= HOT
    if not rows or not all(_weighs_alike(hot, *row) for row in rows):
        return None
    if not hot and records.positives_rank_first:
        return None  # positives have come to be nearer than others all the same
    share, equal, _ = rows[-1]
    change = sentence(setting_change(records.used, HARDEST, raises=True))
    return Verdict(
        "Hard negatives",
        BAD if hot else WATCH,
        f"The loss hardly tells hard negatives from easy ones: the hardest of {1 / equal:.0f} "
        f"negatives receives {share:.1%} of the weight, and an equal share would be {equal:.1%}.",
        change or "Use a loss that weighs hard negatives more.",
        name="temperature too high",
        symptom="temperature",
        evidence={"hardest_share": share, "uniform_share": equal},
    )


def hard_negatives(records: Records, unmeasured: str) -> Verdict:
    """Judge how the push is divided among negatives."""
    ends = [records.ends(name) for name in ("hardest_share", "uniform_share")]
    share, equal = (end[1] if end else math.nan for end in ends)
    subject = "Hard negatives"
    if not (math.isfinite(share) and equal > 0):
        why = unmeasured if not records.points("gradient_dissipation") else NO_NEGATIVES
        why = NO_NEGATIVES if records.used.name in RATED else why
        return Verdict(subject, NOT_JUDGED, why, name=_unmeasured_name(why))
    if alike := temperature_too_high(records):
        return alike
    evidence = {"hardest_share": share, "uniform_share": equal}
    count, temperature = 1 / equal, records.used.temperature
    if temperature is not None and temperature <= COLD and share > NEARLY_ALL and count > 2:
        finding = (
            f"The hardest of {count:.0f} negatives receives {percent(share)} of the weight: only "
            f"that one counts.{_still_learning(records)}"
        )
        change = sentence(setting_change(records.used, HARDEST, raises=False))
        name = "only the hardest counts"
        return Verdict(subject, WATCH, finding, change, name, "temperature", evidence)
    if count < ENOUGH:
        finding = (
            f"An anchor is compared with {count:.3g} negative{'s' if count > 1 else ''} on "
            "average, too few to say how the loss weighs hard ones."
        )
        return Verdict(subject, NOT_JUDGED, finding, name="few negatives", evidence=evidence)
    if share < NEAR_UNIFORM * equal:
        finding = (
            "All negatives weigh alike while different sentences have a mean cosine of "
            f"{records.end('negative_cosine'):.2f}: they are too close together to say more."
        )
        return Verdict(subject, NOT_JUDGED, finding, name="negatives close", evidence=evidence)
    finding = (
        f"The hardest of {count:.0f} negatives receives {percent(share)} of the weight; an equal "
        f"share would be {percent(equal)}.{_still_learning(records)}"
    )
    return Verdict(subject, GOOD, finding, name="hard negatives count more", evidence=evidence)


def ratio_too_low(records: Records) -> Verdict | None:
    """Judge whether most steps bring anchors no closer to positives, three records in a row."""
    rows = records.recent("lemma_share", "gradient_dissipation", "positive_cosine", "ratio_median")
    if not rows or not all(_is_outweighed(*row[:3]) for row in rows):
        return None
    share, _, cosine, ratio = rows[-1]
    first_gap = records.first("positive_cosine") - records.first("negative_cosine")
    if cosine > records.first("positive_cosine") or records.gap > first_gap + SOLVED:
        return None  # positives have come closer all the same, or others have gone far away
    # Late in training the push often outweighs the pull; from the start it should not.
    always = records.first("lemma_share") < MOST and not records.score_rises()
    ranks_first = records.positives_rank_first and ratio > LOW_RATIO
    if ranks_first and records.end("ranking_accuracy") > WELL_RANKED:
        return None  # nearly every pair has come to be told from others
    late = "" if always else " That is usual late in training: act only if the score falls."
    median = f" (median ratio {ratio:.2f})" if math.isfinite(ratio) else ""
    settings, closer = setting_change(records.used, PULL, raises=True), "use closer views"
    change = f"{settings}, or {closer}." if settings else f"{closer}, or lower the learning rate."
    return Verdict(
        "Pull and push",
        BAD if always and not ranks_first else WATCH,
        f"Only {share:.0%} of the steps bring a sentence closer to its positive; in the others the "
        f"push from the negatives outweighs the pull{median}.{late}",
        sentence(change, ""),
        name="ratio too low",
        symptom="positives-fall",
        evidence={"lemma_share": share, "ratio_median": ratio},
    )


def pull_and_push(records: Records, unmeasured: str) -> Verdict:
    """Judge whether steps bring sentences closer to their positives (Lemma 1)."""
    share = records.end("lemma_share")
    if not math.isfinite(share):
        why = unmeasured if not records.points("gradient_dissipation") else NO_NEGATIVES
        why = NO_NEGATIVES if records.used.name in RATED else why
        return Verdict("Pull and push", NOT_JUDGED, why, name=_unmeasured_name(why))
    if outweighed := ratio_too_low(records):
        return outweighed
    evidence = {"lemma_share": share, "ratio_median": records.end("ratio_median")}
    if share < MOST:
        finding = (
            f"{share:.0%} of the steps bring a sentence closer to its positive, but there is "
            "little left to bring closer, or not for three records in a row."
        )
        name = "few steps bring closer"
        return Verdict("Pull and push", NOT_JUDGED, finding, name=name, evidence=evidence)
    steps = "Steps" if share >= NEARLY_ALL else "Most steps"
    finding = f"{steps} bring sentences closer to their positives."
    return Verdict("Pull and push", GOOD, finding, name="steps bring closer", evidence=evidence)


def _still_learning(records: Records) -> str:
    """Return how many sentences still learn, where most have stopped."""
    active = records.end("active")
    if not active < MANY_LEARN:
        return ""
    return f" Only {percent(active)} of the sentences still learn."


def _unmeasured_name(why: str) -> str:
    return NOT_APPLICABLE if why == NO_NEGATIVES else "not measured"


def _no_push(records: Records, since: int) -> Verdict | None:
    """Judge whether the push is reversed, or never was while weights moved until ``since``."""
    dissipation = records.latest("gradient_dissipation")
    evidence = {"gradient_dissipation": dissipation}
    if dissipation < -VANISHED and records.has_targets:
        finding = (
            "Rows are drawn to those of the third column, which have no gradient: they seem to be "
            "targets, as of a teacher, and no negatives."
        )
        change = (
            "Confirm that the third column holds targets; as negatives they need a gradient (no "
            "detach, no torch.no_grad), or another sign."
        )
        return Verdict("Learning", NOT_JUDGED, finding, change, "drawn to targets", "", evidence)
    if dissipation < -VANISHED:
        finding = (
            f"The push is reversed: the mean dissipation is {dissipation:.2g}, below 0, and the "
            "loss draws a sentence to its negatives."
        )
        change = (
            "Check the sign of the loss, whether it takes distances or similarities, and that its "
            "temperature and margin are above 0."
        )
        return Verdict("Learning", BAD, finding, change, "push reversed", "score-falls", evidence)
    moved = records.history.points(TRAIN, WEIGHTS_MOVED)
    early = max((value for step, value in moved.items() if step <= since), default=math.nan)
    pushes = any(value > VANISHED for value in records.points("gradient_dissipation").values())
    moves = early > MOVES or collapse(records) is not None
    if pushes or records.dataset or not moves:
        return None
    finding = (
        f"Nothing pushes sentences apart (mean dissipation {dissipation:.1g}), while the weights "
        "move all the same."
    )
    change = (
        "Check that the negatives have a gradient (no detach), and that the loss compares what it "
        "should: look at the shapes. Labels that say how close each pair should be need no push."
    )
    return Verdict("Learning", WATCH, finding, change, "nothing pushes", "score-falls", evidence)


def _share_that_learns(records: Records) -> Verdict:
    count = min(PERSISTENT, len(records.points("gradient_dissipation")))
    rows = records.recent("gradient_dissipation", "active", count=count)
    shares = [active for _, active in rows if math.isfinite(active)]
    dissipation = rows[-1][0]
    evidence = {"gradient_dissipation": dissipation}
    if not shares:
        finding = "No share of learning sentences was recorded."
        return Verdict("Learning", NOT_JUDGED, finding, name="learning not measured")
    share = statistics.fmean(shares)
    evidence["active"] = share
    if max(shares) == 0:
        return _nothing_learns(records, evidence)
    if share > ALL_LEARN:
        finding, name = "All sentences of a batch still receive a gradient.", "all learn"
        return Verdict("Learning", GOOD, finding, name=name, evidence=evidence)
    has_teacher = any("teacher" in base.looks_at for base in records.used.bases)
    reason = "agree with the teacher" if has_teacher else "are far enough from their negatives"
    text = percent(share) if share >= 0.001 else "Fewer than 0.1%"
    finding, name = (
        f"{text} of the sentences in a batch are learning; the others {reason}.",
        "some learn",
    )
    if share < FEW_LEARN and not has_teacher:
        name = "few learn"
        finding += (
            " That is usual for a loss that works; harder negatives or larger batches would give "
            "it more to learn."
        )
    return Verdict("Learning", GOOD, finding, name=name, evidence=evidence)


def _nothing_learns(records: Records, evidence: dict[str, float]) -> Verdict:
    if all(map(math.isnan, records.points("gradient_dissipation").values())):
        # No record has a negative that acts, as of a loss that compares the cosines of pairs.
        return Verdict("Learning", NOT_JUDGED, NO_NEGATIVES, name=NOT_APPLICABLE)
    easier = alternative(records.used, LEARNING, raises=True)
    change = f"Stop here, or make the task harder: harder negatives, larger batches{easier}."
    change = EQUAL_LABELS if records.used.has_labels else change
    change = "See to the collapse first." if collapse(records) else change
    recent = records.recent("gradient_dissipation", count=1)
    latest = records.recent("gradient_dissipation") or recent
    largest = max(dissipation for (dissipation,) in latest)
    if largest < -VANISHED and (reversed_ := _no_push(records, 0)):
        return reversed_
    if largest < VANISHED and _ends_at_zero(records):
        finding = (
            "No sentence of the last batches learns any more: the loss has fallen to the least it "
            "can be, and positives are clearly nearer than others, or by more than at first. The "
            "training data are learned; harder negatives would teach more."
        )
        return Verdict("Learning", NOT_JUDGED, finding, name="loss learned", evidence=evidence)
    own = records.history.points(TRAIN, of_dataset(OWN_GRADIENT, records.dataset))
    if largest < VANISHED and min([*own.values()][-PERSISTENT:], default=0.0) > 0:
        finding = "Negatives push no more, and the loss has a gradient all the same: its pull."
        return Verdict("Learning", NOT_JUDGED, finding, name="pull alone", evidence=evidence)
    if largest < VANISHED:
        finding = (
            "No sentence learns any more: the gradient has vanished (mean dissipation "
            f"{evidence['gradient_dissipation']:.1g})."
        )
        return Verdict(
            "Learning", BAD, finding, change, "gradient has vanished", "loss-zero", evidence
        )
    finding = "No sentence of the last batches learns any more."
    gap = records.end("positive_cosine") - records.end("negative_cosine")
    if gap > SOLVED and records.score_suffers() is not True:
        finding += (
            f" Their positives are nearer than others by {gap:.2f} in cosine: the training data "
            "are learned. Training longer would teach no more; harder negatives would."
        )
        return Verdict("Learning", GOOD, finding, name="all is learned", evidence=evidence)
    early = list(records.points("active").values())[:PERSISTENT]
    if records.used.has_labels and any(early) and records.score_suffers() is not True:
        finding += " Earlier ones did: pairs have come into the order of their labels."
        return Verdict("Learning", NOT_JUDGED, finding, name="labels fulfilled", evidence=evidence)
    return Verdict("Learning", WATCH, finding, change, "none learns", "loss-zero", evidence)


def _ends_at_zero(records: Records) -> bool:
    """Whether a margin is met in the end, and sentences are or have come apart.

    The loss is 0 then, or a number that does not depend on the embeddings, such as a penalty.
    """
    losses = records.batch_losses
    gaps = [
        records.first("positive_cosine") - records.first("negative_cosine"),
        records.end("positive_cosine") - records.end("negative_cosine"),
    ]
    lowest, late = min(losses, default=0.0), losses[-PERSISTENT:]
    learned = sum(loss > lowest for loss in losses) >= PERSISTENT and all(v == lowest for v in late)
    return learned and gaps[1] > min(gaps[0], SOLVED) and records.score_suffers() is not True


def _weighs_alike(hot: bool, share: float, equal: float, cosine: float) -> bool:
    few = not 0 < equal * ENOUGH <= 1
    return not few and share < NEAR_UNIFORM * equal and (hot or not cosine >= TUNED)


def _is_outweighed(lemma_share: float, dissipation: float, positive_cosine: float) -> bool:
    can_move = dissipation >= NOTHING and not positive_cosine >= COINCIDE
    return can_move and lemma_share < MOST
