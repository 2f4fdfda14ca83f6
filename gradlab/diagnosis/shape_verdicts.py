"""Does a loss ask for near positives and far negatives, and in which dimensions?

Arguments are measured by the functions of the same names in
`gradlab.diagnosis.shape_measurements`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence

from gradlab.diagnosis.pairing_verdicts import is_outweighed
from gradlab.monitor.verdicts import formula
from gradlab.numbers import percent
from gradlab.verdict import BAD, WATCH, Verdict

# Share of the loss of a wrong batch that a batch with a nearer negative should have.
LENIENT = 1e-3


def direction(
    solved: float, wrong: float, close: float, below: float = math.nan, united: float = math.inf
) -> Iterator[Verdict]:
    """Judge whether a loss is lower where positives are nearer than negatives.

    Args:
        solved: its value where positives equal their anchors, and negatives are orthogonal.
        wrong: its value where negatives equal the anchors, and positives are orthogonal.
        close: its value where a negative has a cosine of 0.6 with the anchor, the positive of 0.5.
        below: its value where the negative has a cosine of 0.45; NaN if unknown.
        united: its value where all columns equal the anchors; infinite for two columns.
    """
    # Further columns are positives as well; or negatives are heeded that are no nearer than the
    # positive, and others taken for false ones.
    heeded = abs(below - solved) > LENIENT * max(abs(solved), abs(below), abs(wrong - solved))
    if united < min(solved, wrong) or (heeded and solved <= wrong):
        return
    evidence = {"solved": solved, "wrong": wrong, "close": close}
    if solved > wrong:
        finding = (
            f"The loss is {solved:.3g} where positives equal their anchors, and lower, "
            f"{wrong:.3g}, where negatives do: it is reversed, and moves positives apart."
        )
        change = (
            "Check the sign: a similarity must grow, and a distance fall, as embeddings come "
            "closer. Negate a distance that is given as similarity_fct."
        )
        yield Verdict("direction", BAD, finding, change, "loss reversed", "loss-at-chance",
                      evidence)  # fmt: skip
    elif solved == wrong:
        finding = (
            f"The loss is {solved:.3g} whether positives or negatives equal their anchors: nothing "
            "is asked of them."
        )
        change = "Check margins, targets and the order of columns."
        yield Verdict("direction", BAD, finding, change, "loss asks nothing", "loss-zero", evidence)
    elif abs(close - solved) <= LENIENT * (wrong - solved):
        finding = (
            "The loss is met where a negative is nearer (cosine 0.6) than the positive (0.5): its "
            "margins allow that."
        )
        change = "Check the margins: those of positives and negatives may be exchanged, or too low."
        yield Verdict("direction", BAD, finding, change, "margins too lenient", "loss-zero",
                      evidence)  # fmt: skip


# Change of the loss by the length of embeddings that is one; loss of the first batch, relative to
# that of guessing, which logits that are too large give.
BY_LENGTH, FAR_TOO_LARGE = 0.01, 2.0
# Loss of the first batch, relative to that of guessing, that only a tiny temperature gives where
# the length of embeddings does not matter.
HUGE = 20.0


def shape(
    values: Mapping[str, float],
    longer: float,
    value: float,
    length: float,
    pairing: float | None = None,
    rows: int = 0,
) -> Iterator[Verdict]:
    """Judge what a loss of one's own computes, by its values on known batches.

    Args:
        values: see `gradlab.monitor.formula_trials`.
        longer: loss of embeddings that are three times as long, relative to unit rows.
        value: loss of the first batch.
        length: mean length of its embeddings.
        pairing: share of their gradient that depends on pairs; None if unknown.
        rows: rows of the batch.
    """
    for verdict in (formula.formula(values), formula.reaction(values)):
        # What is reversed is judged by `direction`.
        if verdict is not None and verdict.name != "loss reversed":
            yield dataclasses.replace(verdict, subject="formula")
    guessing = values.get("alike", 0.0)
    if abs(longer - 1) > BY_LENGTH and value > FAR_TOO_LARGE * guessing > 0:
        finding = (
            f"The loss depends on the length of embeddings, which is {length:.3g}, and is "
            f"{value:.3g} in the first batch, where guessing gives {guessing:.3g}: dot products of "
            "embeddings that are not normalised are too large for its temperature."
        )
        change = "Normalise embeddings (F.normalize, models.Normalize()), or raise the temperature."
        yield Verdict("temperature", WATCH, finding, change, "logits too large", "temperature",
                      {"value": value, "guessing": guessing})  # fmt: skip
    elif value > HUGE * guessing > 0 and not is_outweighed(pairing, rows):
        finding = (
            f"The loss is {value:.3g} in the first batch, and guessing gives {guessing:.3g}: its "
            "similarities are multiplied by a huge scale, that is, its temperature is far too low."
        )
        change = (
            "Set a temperature of 0.01 to 0.1 (a scale of 10 to 100). A scale that is learned as a "
            "logarithm begins at log(20), not at 20."
        )
        yield Verdict("temperature", BAD, finding, change, "temperature too low", "temperature",
                      {"value": value, "guessing": guessing})  # fmt: skip


# Rank correlation of labels with common words below which they are distances.
DISTANCES = -0.3


def graded(rising: float, falling: float, words: float = 0.0) -> Iterator[Verdict]:
    """Judge whether a loss of labelled pairs is lower where cosines rise with labels.

    Args:
        rising: its value there.
        falling: its value where they fall.
        words: rank correlation of labels with common words; distances fall with them, and a loss
            that takes them for distances is right.
    """
    if rising <= falling or words < DISTANCES:
        return
    finding = (
        f"The loss is {rising:.3g} where pairs with higher labels have higher cosines, and lower, "
        f"{falling:.3g}, where they have lower ones: it is reversed."
    )
    change = "Check the sign: of the scale, of a distance, and of labels within the loss."
    name = "loss of labels reversed"
    yield Verdict("direction", BAD, finding, change, name, "loss-at-chance",
                  {"rising": rising, "falling": falling})  # fmt: skip


# Weight of a prefix, relative to the largest one, that is as good as none.
TINY_WEIGHT = 0.01


def prefixes(dims: Sequence[int], weights: Sequence[float], width: int) -> Iterator[Verdict]:
    """Judge whether a Matryoshka loss trains the full embeddings as well, and each prefix.

    Args:
        dims: dimensions of the prefixes.
        weights: their weights.
        width: dimensions of the embeddings.
    """
    subject, symptom = "Matryoshka", "score-does-not-rise"
    evidence = {"width": float(width), "largest": float(max(dims))}
    by_size = dict(zip(dims, weights, strict=False))
    if max(dims) < width:
        finding = (
            f"The largest of matryoshka_dims is {max(dims)}, and embeddings have {width} "
            f"dimensions: the other {width - max(dims)} are not trained."
        )
        change = f"Add the full dimension to matryoshka_dims: {[width, *dims]}."
        name = "full dimension not trained"
    elif not by_size.get(max(dims)) or any(weight < 0 for weight in weights):
        shares = ", ".join(f"{size} dimensions have {by_size[size]:g}" for size in by_size)
        finding = f"In matryoshka_weights, {shares}: weights stand in the order of matryoshka_dims."
        change = "Give each dimension, also the full one, a weight above 0."
        name = "full dimension without weight"
    elif light := [size for size in by_size if by_size[size] < TINY_WEIGHT * max(weights)]:
        shares = ", ".join(f"{size} dimensions have {by_size[size]:g}" for size in by_size)
        finding = (
            f"In matryoshka_weights, {shares}: embeddings cut to {min(light)} dimensions are "
            "hardly trained."
        )
        change = f"Raise the weight of {min(light)} dimensions, or take them off matryoshka_dims."
        name = "prefix without weight"
    else:
        return
    yield Verdict(subject, WATCH, finding, change, name, symptom, evidence)


# Mean cosine of different texts from which on embeddings without negative entries are a cone.
CONE = 0.85
# Share of entries at their bounds from which on many of them have no gradient.
MANY_AT_BOUNDS = 0.25


def entries(
    lowest: float, shares: bool, cosine: float, at_bounds: float = 0.0
) -> Iterator[Verdict]:
    """Judge whether embeddings have entries of both signs, and between their bounds.

    Args:
        lowest: lowest entry of the embeddings.
        shares: whether the entries of each are shares that sum to 1.
        cosine: mean cosine of different texts.
        at_bounds: share of the entries that are the lowest or the highest one, but for zeros.
    """
    if at_bounds >= MANY_AT_BOUNDS:
        finding = (
            f"{percent(at_bounds)} of the entries of embeddings are exactly the lowest or the "
            "highest one, as behind clamp or a saturated tanh, where the gradient is 0."
        )
        change = "Leave the bound out, or scale down what goes into the activation."
        yield Verdict("activation", WATCH, finding, change, "embeddings at bounds",
                      "score-does-not-rise", {"at bounds": at_bounds})  # fmt: skip
    if not shares and (lowest < 0 or cosine < CONE):
        return
    subject, evidence = "activation", {"lowest": lowest, "cosine": cosine}
    change = (
        "Leave the activation of the last layer out (Dense(activation_function=nn.Identity())), or "
        "use tanh."
    )
    finding = f"and different texts have a cosine of {cosine:.2f} on average."
    if shares:
        finding = (
            f"The entries of each embedding are shares that sum to 1, as of softmax, {finding}"
        )
        yield Verdict(subject, BAD, finding, change, "embeddings are shares", "cosines-above-0-9",
                      evidence)  # fmt: skip
    else:
        finding = f"Embeddings have no negative entry, as behind ReLU or a sigmoid, {finding}"
        yield Verdict(subject, WATCH, finding, change, "embeddings without sign",
                      "cosines-above-0-9", evidence)  # fmt: skip


# Dimensions in which a few hundred texts can hardly be told apart.
FEW_DIMENSIONS = 8


def width(width: int) -> Iterator[Verdict]:
    """Judge whether embeddings have enough dimensions."""
    if width < FEW_DIMENSIONS:
        finding = (
            f"Embeddings have {width} dimensions, in which texts can hardly be told apart: "
            "encoders have 128 or more."
        )
        change = "Check the last Dense layer and truncate_dim."
        yield Verdict("dimensions", WATCH, finding, change, "few dimensions", "score-does-not-rise",
                      {"width": float(width)})  # fmt: skip
