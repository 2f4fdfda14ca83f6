"""Does a loss of one's own compute what it should, by its values on batches of a known answer?"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from gradlab.monitor.label_trials import AS_SCORED, AT_RIGHT_ANGLES, EXCHANGEABLE, REVERSED
from gradlab.monitor.verdicts import pairing
from gradlab.monitor.verdicts.weights import COLDEST
from gradlab.numbers import short
from gradlab.verdict import BAD, WATCH, Verdict

# Relative difference of e^loss from a whole number of candidates; share of the loss of guessing
# that a solved batch may have; share of the way from 90° to 0° that a positive at 60° has left in a
# loss that saturates.
WHOLE, SOLVED, SATURATED = 0.01, 0.5, 0.15
# A loss of wrong pairs, relative to right ones, that hardly tells them apart.
FLAT = 1.3
TARGETS = "Let the target of each anchor be its own row: torch.arange(len(anchors))."
# The mistake in a named loss -> what it does, and what to change.
MISTAKES = {
    "softmax twice": (
        "cross_entropy gets probabilities, of which it takes the softmax again",
        "Give cross_entropy the logits: leave the softmax out.",
    ),
    "first row as target": ("the first row is the positive of all anchors", TARGETS),
    "next row as target": ("the target of each anchor is the next row, not its positive", TARGETS),
    "own similarity": (
        "each row is compared with itself as well, and its own cosine of 1 is not masked",
        "Mask the diagonal of the logits with -inf.",
    ),
    "sum": (
        "the losses of the anchors are added up, not averaged",
        "Use reduction='mean', or a learning rate for sums.",
    ),
    "no temperature": (
        "cosines are not divided by the temperature",
        "Divide the cosines by the temperature.",
    ),
}


def departure(mistake: str, name: str) -> Verdict | None:
    """Judge by which mistake the trained loss departs from the one that was named."""
    if mistake not in MISTAKES:
        return None
    effect, change = MISTAKES[mistake]
    finding = f"The trained loss is not {name}, but equals it with a mistake: {effect}."
    return Verdict("Formula", BAD, finding, change, "mistaken formula", "loss-value")


def formula(
    values: Mapping[str, Any], last: float = math.inf, negatives: float = math.nan
) -> Verdict | None:
    """Judge the shape of a loss of one's own.

    A loss must be lower for right pairs than for wrong ones. More is asked only of a loss whose
    value for equal embeddings is the logarithm of a number of candidates, as of a softmax.

    Args:
        values: see `gradlab.monitor.formula_trials.values_on_known_batches`.
        last: the recorded loss at the end.
        negatives: number of negatives in the recorded batches.
    """
    names = ("count", "solved", "alike", "wrong", "halfway")
    numbers = pairing.numbers_of(values, names)
    if numbers is None:
        return None
    if unpaired := pairing.pairing(values):
        return unpaired
    count, solved, alike, wrong, halfway = numbers.values()
    evidence = {"solved": solved, "alike": alike, "wrong": wrong, "halfway": halfway}
    is_among_columns = bool(values.get("further"))
    if not pairing.is_by_chance(solved, wrong, values.get("turned", ())):
        misplaced = _target(values) or (
            pairing.other_column(values)
            if is_among_columns
            else _direction(solved, alike, wrong, evidence, float(values.get("shorter", wrong)))
        )
        if misplaced:
            return misplaced
    # How large a loss may be depends on the number of candidates, which further columns change.
    if is_among_columns or not (wrong > alike > solved and 0 < alike < 20):
        return None
    candidates = math.exp(alike)
    is_double = abs(candidates / (2 * count) - 1) < WHOLE
    if is_double and solved > math.log(2) - WHOLE:
        return Verdict(
            "Formula",
            BAD,
            f"Rows are compared with themselves: {count:.0f} equal pairs have the loss of choosing "
            f"among {2 * count:.0f} candidates, and pairs that fit perfectly still have "
            f"{short(solved)}. The own cosine of 1 is not masked.",
            "Mask the diagonal of the logits with -inf.",
            name="own similarity",
            symptom="loss-at-chance",
            evidence=evidence,
        )
    is_softmax = is_double or any(
        abs(candidates / size - 1) < WHOLE for size in (count, 2 * count - 1)
    )
    if is_softmax and (along := _along_batch(values)):
        return along
    if is_softmax and (cold := _too_cold(values, wrong - solved, evidence)):
        return cold
    if not is_softmax or solved < SOLVED * alike:
        return None
    # By how much a softmax with this loss of perfect pairs tells the positive from the others. The
    # loss of wrong pairs is then no larger, except where the target is smoothed.
    logit = math.log((candidates - 1) / math.expm1(solved))
    if wrong > alike + logit:
        return None
    saturated = halfway - solved < SATURATED * (alike - solved)
    # A temperature that is trained falls, and with it the loss of pairs that fit perfectly.
    if not saturated and (values.get("learned") or last < math.log1p(negatives / math.exp(logit))):
        return None
    return _hardly_falls(count, saturated, evidence)


# Relative change of a loss by factors of the dimensions that is none.
SAME = 1e-6


def labels(values: Mapping[str, Any]) -> Verdict | None:
    """Judge whether the labels that a loss is given have a part in it."""
    if values.get(EXCHANGEABLE):
        return Verdict(
            "Formula",
            BAD,
            "The loss has the same value where rows exchange their scores, even where each row's "
            "cosine is its score: each cosine is compared with the scores of all rows, as where "
            "scores of shape (n, 1) are broadcast against cosines of shape (n,), or only means "
            "are compared.",
            "Give both the same shape, by squeeze(1) or view(-1), and assert it; take the mean "
            "over rows last.",
            name="scores broadcast",
            symptom="labels-do-not-fit",
            evidence={EXCHANGEABLE: 1.0},
        )
    if not values.get("labels_ignored"):
        return None
    return Verdict(
        "Formula",
        BAD,
        "The loss has the same value where its labels are exchanged between rows: they have no "
        "part in it. A mask of rows of the same class may be true everywhere, as where labels of "
        "one axis are compared with their own transpose.",
        "Compare labels[:, None] with labels[None, :]; look at the shape and the mean of the mask.",
        name="labels ignored",
        symptom="labels-do-not-fit",
        evidence={"labels_ignored": 1.0},
    )


# Loss of cosines of 0, relative to that of cosines that are the scores, of a loss in other units.
OTHER_UNITS = 0.5


def scores(values: Mapping[str, Any]) -> Verdict | None:
    """Judge whether a loss of pairs with scores is lower where cosines are the scores.

    Scores may be distances: the loss is then lowest at the reverse.
    """
    numbers = pairing.numbers_of(values, (AS_SCORED, AT_RIGHT_ANGLES, REVERSED))
    if numbers is None:
        return None
    fitting, unlike, against = numbers.values()
    if not 0 <= unlike < OTHER_UNITS * min(fitting, against):
        return None
    return Verdict(
        "Formula",
        BAD,
        f"The loss is {short(fitting)} where cosines are the scores, and {short(unlike)} where all "
        "pairs are at a right angle: cosines and scores are of different units or ranges, so that "
        "all cosines are driven towards 0.",
        "Compare quantities of one range: cosines with scores from 0 to 1, without a factor such "
        "as 100 on one of them.",
        name="scores in other units",
        symptom="labels-do-not-fit",
        evidence=numbers,
    )


# Share of the rows of a batch that should count as negatives of an anchor.
FEW_NEGATIVES = 0.5


def reaction(values: Mapping[str, Any], is_spread: bool = False) -> Verdict | None:
    """Judge whether a loss heeds the negatives of a batch, and has a gradient.

    Args:
        values: see `gradlab.monitor.formula_trials.reaction`.
        is_spread: whether embeddings stay apart in training, as by a second encoder that follows
            (BYOL) or a predictor, which need no negatives.
    """
    names = ("others", "nearer", "all_nearer", "rest", "slope", "random_slope")
    numbers = pairing.numbers_of(values, names)
    if numbers is None:
        return None
    unmoved = _without_gradient(numbers) or (
        None
        if values.get("almost") or pairing.compares_structures(values)
        else _unmoved_by_negatives(numbers)
    )
    if unmoved and not (is_spread and unmoved.name == "no negatives"):
        return unmoved
    # Positives that come without a gradient, from a second encoder, have none to lose.
    is_fixed = bool(values.get("one_sided"))
    if values.get("positive_slope") == 0 and numbers["random_slope"] > 0 and not is_fixed:
        finding = (
            "The loss has no gradient with respect to the second view, the positives: they are "
            "detached, or computed without gradient, and only one side is trained."
        )
        change = "Leave out detach() and no_grad(), unless a second encoder follows the first."
        return Verdict("Formula", WATCH, finding, change, "one-sided gradient",
                       "score-does-not-rise", numbers)  # fmt: skip
    negatives = numbers["others"]
    nearer = max(numbers["nearer"], float(values.get("changed", 0.0)))
    # Some negatives of each anchor, such as the next row's positive, are those of triplets, unless
    # the loss chooses among them and the positive.
    candidates = math.exp(min(float(values.get("alike", 0.0)), 20.0))
    chooses = nearer >= 1 and abs(candidates / (nearer + 1) - 1) < WHOLE
    if chooses and nearer < FEW_NEGATIVES * negatives:
        count = "1 negative" if nearer == 1 else f"{nearer:.0f} negatives"
        finding = (
            f"In a batch of {negatives + 1:.0f} rows an anchor has only {count}: the other rows do "
            "not change its loss. The loss seems to split the batch into chunks."
        )
        change = (
            "Compare each anchor with the whole batch; to save memory, cache gradients (a Cached "
            "loss) instead of cutting the batch."
        )
        return Verdict("Formula", WATCH, finding, change, "few negatives",
                       "accumulation-adds-no-negatives", numbers)  # fmt: skip
    return None


# Share of the loss of right pairs below which a loss prefers another row as the target.
PREFERRED = 0.5


def _target(values: Mapping[str, Any]) -> Verdict | None:
    """Judge whether the target of an anchor is another row than its own positive."""
    names = ("solved", "wrong", "after_next", "to_first", "to_last")
    evidence = pairing.numbers_of(values, names)
    if evidence is None:
        return None
    solved, following, after, first, last = evidence.values()
    if 0 <= following < PREFERRED * min(solved, after):
        target = "the next row"
        place = f"{short(following)} where positives stand one row later"
    elif 0 <= first < PREFERRED * min(solved, last):
        target = "the first row"
        place = f"{short(first)} where all anchors equal the first positive"
    else:
        return None
    return Verdict(
        "Formula",
        BAD,
        f"The loss is {short(solved)} where each positive equals its anchor, and only {place}: the "
        f"target (label) of each anchor is {target}, not its own positive on the diagonal.",
        TARGETS,
        name="other row as target",
        symptom="loss-at-chance",
        evidence=evidence,
    )


# Loss of pairs that fit perfectly, relative to equal embeddings, of a target that is spread; the
# same alone, of a softmax whose positive is masked: temperatures as low as 0.005 leave 400.
SPREAD_TARGET, MASKED = 1.5, 1000.0


def _direction(
    solved: float, alike: float, wrong: float, evidence: Mapping[str, float], shorter: float
) -> Verdict | None:
    """Judge whether a loss prefers right pairs to wrong ones, and clearly.

    A loss that differs for the same wrong pairs of half the length, ``shorter``, may ask for more
    than pairs, such as a variance: how far it can fall is not known.
    """
    if solved > wrong:
        return Verdict(
            "Formula",
            BAD,
            f"The loss is {short(solved)} where positives equal their anchors, and lower, "
            f"{short(wrong)}, where they equal another one: it is reversed, and moves positives "
            "apart.",
            "Check the sign: a distance must fall, and a similarity grow, as embeddings come "
            "closer.",
            name="loss reversed",
            symptom="loss-at-chance",
            evidence=evidence,
        )
    if 0 < SPREAD_TARGET * alike < solved < wrong:
        return Verdict(
            "Formula",
            WATCH,
            f"Pairs that fit perfectly have a loss of {short(solved)}, more than embeddings that "
            f"are all the same, {short(alike)}: the target is spread over the batch, as by label "
            "smoothing, so that negatives are pulled as well and the loss cannot fall.",
            "Lower label_smoothing to 0 or 0.05, or raise the temperature with it.",
            name="target is spread",
            symptom="loss-at-chance",
            evidence=evidence,
        )
    if abs(shorter - wrong) > SAME * abs(wrong):
        return None
    if not (0 < solved < wrong < FLAT * solved and solved < alike):
        return None
    if solved > MASKED:
        finding = (
            f"Pairs that fit perfectly have a loss of {short(solved)}: the logit of the positive "
            "seems to be masked by a large negative number, as where the diagonal between two "
            "views is masked."
        )
        change = "Mask the diagonal only where rows are compared with themselves."
        return Verdict("Formula", BAD, finding, change, "other row as target", "loss-at-chance",
                       evidence)  # fmt: skip
    return Verdict(
        "Formula",
        WATCH,
        f"Pairs that fit perfectly have a loss of {short(solved)}, and wrong pairs one of "
        f"{short(wrong)}: the scale of the cosines is so low, or the negatives outweigh the "
        "positive so much, that it can hardly fall.",
        "Multiply the cosines by 10 to 20 (lower the temperature); a sigmoid needs a bias as well.",
        name="loss cannot fall",
        symptom="temperature",
        evidence=evidence,
    )


def _hardly_falls(count: float, saturated: bool, evidence: Mapping[str, float]) -> Verdict:
    """Judge a softmax loss of which perfect pairs keep most: it is saturated, or its scale low."""
    solved, alike = short(evidence["solved"]), short(evidence["alike"])
    finding = (
        f"A batch of {count:.0f} pairs that fit perfectly has a loss of {solved}, and equal "
        f"embeddings one of {alike}: the loss can hardly fall, since"
    )
    if saturated:
        finding += (
            " cross_entropy seems to get probabilities in place of logits: a softmax is applied "
            "twice."
        )
        change = "Give cross_entropy the logits: leave the softmax out."
        return Verdict("Formula", BAD, finding, change, "softmax twice", "loss-at-chance", evidence)
    finding += " the temperature is too high."
    change = "Lower the temperature to 0.05 or 0.1."
    return Verdict("Formula", WATCH, finding, change, "loss cannot fall", "temperature", evidence)


def _without_gradient(numbers: Mapping[str, float]) -> Verdict | None:
    """Judge whether a loss has no gradient, everywhere or where it is not solved."""
    value, slope = numbers["rest"], numbers["slope"]
    loss = f"The loss is {short(value)} where each positive is the nearest (cosine 0.6)"
    if slope == 0 and numbers["random_slope"] == 0 and value != 0:
        finding = (
            f"{loss}, and neither there nor for random embeddings does it have a gradient: its "
            "gradient is zero everywhere."
        )
        change = (
            "Look for sign(), round(), argmax() and other steps without a derivative (use tanh, "
            "softmax or a straight-through gradient), and for detach()."
        )
        return Verdict("Formula", BAD, finding, change, "no gradient", "weights-do-not-move",
                       numbers)  # fmt: skip
    if slope == 0 and value > 0:
        finding = (
            f"{loss}, and has no gradient there, as if it were solved: the own positive seems to "
            "be taken as a negative as well (the diagonal is not masked), so that the loss ends at "
            "its margin."
        )
        change = "Mask the diagonal before the hardest negative is taken: masked_fill(eye, -2)."
        return Verdict("Formula", WATCH, finding, change, "positive as negative", "loss-at-chance",
                       numbers)  # fmt: skip
    return None


def _too_cold(
    values: Mapping[str, Any], scale: float, evidence: Mapping[str, float]
) -> Verdict | None:
    """Judge the temperature of a softmax of cosines, which have no length."""
    shorter = values.get("shorter")
    if not isinstance(shorter, int | float) or scale * COLDEST <= 1:
        return None
    if abs(shorter - evidence["wrong"]) > WHOLE * scale:
        return None
    return Verdict(
        "Formula",
        WATCH,
        f"A cosine that is larger by 1 changes the loss by {short(scale)}: the temperature is "
        f"{short(1 / scale)}, at which one negative has all the weight. The cosines seem to be "
        "divided by the temperature (multiplied by the scale) twice.",
        "Divide by the temperature in one place; usual values are 0.02 to 0.1.",
        name="temperature too low",
        symptom="temperature",
        evidence={**evidence, "scale": scale},
    )


def _unmoved_by_negatives(numbers: Mapping[str, float]) -> Verdict | None:
    """Judge whether one negative that comes nearer than the positive leaves a loss as it is."""
    if numbers["nearer"] != 0:
        return None
    if numbers["all_nearer"] > 0:
        finding = (
            "A negative that comes nearer than the positive does not raise the loss; only all "
            "negatives together do: the loss takes the easiest negative, the farthest (lowest "
            "cosine), not the hardest."
        )
        change = "Take the highest cosine, or the smallest distance, of the negatives."
        return Verdict("Formula", WATCH, finding, change, "easiest negative", "loss-zero", numbers)
    if numbers["all_nearer"] == 0 and numbers["slope"] > 0:
        finding = (
            "Negatives that come nearer to an anchor do not change the loss: it has no negatives, "
            "and nothing pushes different texts apart, so that all embeddings can collapse."
        )
        change = (
            "Use a loss that compares with the other rows of the batch, such as a ranking loss."
        )
        return Verdict("Formula", WATCH, finding, change, "no negatives", "cosines-above-0-9",
                       numbers)  # fmt: skip
    return None


def _along_batch(values: Mapping[str, Any]) -> Verdict | None:
    """Judge whether a softmax of rows has the same value for dimensions of any size."""
    drawn, stretched = values.get("drawn"), values.get("stretched")
    if not isinstance(drawn, int | float) or not isinstance(stretched, int | float):
        return None
    if not 0 < abs(drawn) < math.inf or abs(stretched - drawn) > SAME * abs(drawn):
        return None
    # Signs have no gradient, or one that is passed straight through.
    if values.get("random_slope") == 0 or values.get("by_entries") == drawn:
        return None
    return Verdict(
        "Formula",
        BAD,
        f"The loss of random embeddings stays at {short(drawn)} where each dimension is multiplied "
        "by a factor of its own: embeddings are normalised along the batch (dim=0), so that each "
        "dimension has the length 1 and not each embedding.",
        "Normalise each row: F.normalize(rows, dim=-1).",
        name="normalised along the batch",
        symptom="loss-value",
        evidence={"drawn": float(drawn), "stretched": float(stretched)},
    )
