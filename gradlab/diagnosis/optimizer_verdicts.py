"""Are the weights trained, by a gradient, an optimizer and a precision that change them?

Arguments are measured by the functions of the same names in `optimizer_measurements` and in
`measurements`, those of `settings` in `plan_measurements`, and those of `penalty` in
`weight_trials`.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradlab.monitor.setting_advice import USUAL_RATES, sentence
from gradlab.numbers import percent
from gradlab.verdict import BAD, GOOD, WATCH, Verdict

LOAD_FLOAT32 = (
    "Load the model in float32 and set bf16=True, which computes in bfloat16 and keeps the weights "
    "in float32."
)


# Sum of the learning rates over a run that biases can follow: Adam moves each by that at most, and
# what they are added to is of the size of 1.
MOVES_BIASES = 0.05


def weights(
    numbers: int, trained: int, tensors: int, adapters: int, trained_adapters: int, adapter: str,
    norms: int = 0, vectors: int = 0, example: str = "", rates: float = 0.0,
) -> Iterator[Verdict]:  # fmt: skip
    """Judge whether some weights are trained, adapters included; tensors are counted.

    ``norms`` counts the trained tensors of normalisation layers, and ``vectors`` those that are no
    matrices, such as biases; ``example`` is the first trained one, and ``rates`` the sum of the
    learning rates of Adam over the run, 0 if it is unknown.
    """
    subject = "trained weights"
    finding = f"{numbers:,} weights in {trained} of {tensors} tensors are trained."
    if not trained:
        finding = "Every weight of the model is frozen (requires_grad=False)."
        change = "Unfreeze the weights that you want to train, or add an adapter."
        yield Verdict(subject, BAD, finding, change, "frozen", "weights-do-not-move")
    elif adapters and not trained_adapters:
        finding = (
            f"The model has adapters ({adapter} and others), but none of their {adapters} tensors "
            f"is trained. {finding}"
        )
        change = (
            "Add the adapter with inference_mode=False, activate it, and do not freeze the model "
            "afterwards."
        )
        yield Verdict(subject, BAD, finding, change, "adapters frozen", "weights-do-not-move")
    elif norms == trained < tensors:
        finding += (
            " They are those of normalisation layers only, which rescale what frozen layers give: "
            "an encoder learns little by them. A pattern of names may have frozen too much."
        )
        change = (
            "Set requires_grad=True for whole layers, the last ones at least, or add an adapter."
        )
        yield Verdict(subject, WATCH, finding, change, "only norms trained", "weights-do-not-move")
    elif vectors == trained < tensors and not adapters and 0 < rates < MOVES_BIASES:
        finding += (
            f" They are biases and scales, such as {example}; every matrix is frozen "
            f"(requires_grad=False). Learning rates that add up to {rates:.2g} over the run move a "
            "bias by no more than that."
        )
        change = (
            "Set requires_grad=True for whole layers. If only biases are meant to be trained, as "
            "by BitFit, raise the learning rate to 1e-3 to 1e-2 or train for longer."
        )
        yield Verdict(subject, WATCH, finding, change, "only biases trained", "weights-do-not-move",
                      {"rates": rates})  # fmt: skip
    else:
        yield Verdict(subject, GOOD, finding, name="weights trained")


LOSS_IS_0 = "the loss is 0"


def gradient(
    due: int, reached: int, missed: str, adapters: int, reached_adapters: int,
    broken: int, broken_name: str, reason: str, idle: str = "",
) -> Iterator[Verdict]:  # fmt: skip
    """Judge whether a finite gradient reaches the trained tensors.

    Args:
        due: trained tensors that should have a gradient in the first step.
        reached: those of them that have one.
        missed: name of the first tensor without a gradient.
        adapters: tensors of adapters that are due.
        reached_adapters: those of them that have a gradient.
        broken: tensors with a gradient that is NaN or infinite.
        broken_name: name of the first of them.
        reason: why there is no gradient, if that is known.
        idle: part of the encoder that is trained without a gradient; empty if there is none.
    """
    subject, still = "gradient", "weights-do-not-move"
    if broken:
        finding = f"It is not finite in {broken} tensors, such as {broken_name}."
        change = (
            "Train in float32 or bfloat16, and look for texts without tokens and for a loss that "
            "divides by a distance of 0."
        )
        yield Verdict(subject, BAD, finding, change, "gradient not finite", "loss-nan")
    elif due and (not reached or (adapters and not reached_adapters)):
        target = f"none of the {adapters} adapter tensors" if reached else "no trained weight"
        finding = f"It reaches {target}{f' ({reason})' if reason else ''}."
        change = (
            "Let the loss call the model that the trainer trains, without torch.no_grad and detach;"
            " with gradient checkpointing and adapters call model.enable_input_require_grads()."
        )
        if adapters:
            change += " Adapters must be active (enable_adapters), and lora_alpha above 0."
        grade = WATCH if reason == LOSS_IS_0 else BAD  # which is judged by itself
        yield Verdict(subject, grade, finding, change, "no gradient", still)
    elif idle and reached:
        finding = f"It reaches no tensor of {idle}: this part of the encoder is never used."
        change = "Let some column pass through it, or freeze it if it is not meant to be trained."
        yield Verdict(subject, WATCH, finding, change, "part without gradient", still)
    elif 2 * (due - reached) > due:
        finding = f"It does not reach {due - reached} of {due} trained tensors, such as {missed}."
        change = (
            "Freeze these tensors if they are not meant to be trained. Otherwise look for a detach."
        )
        yield Verdict(subject, WATCH, finding, change, "little gradient", still)
    elif due:
        finding = f"It reaches {reached} of {due} trained tensors."
        yield Verdict(subject, GOOD, finding, name="gradient reaches")


def optimizer(
    missing: int, trained: int, missing_name: str,
    missing_of_loss: int = 0, frozen_of_loss: int = 0, frozen_name: str = "",
    hidden: int = 0, hidden_name: str = "", whole: bool = False, scalars: bool = False,
) -> Iterator[Verdict]:  # fmt: skip
    """Judge whether an existing optimizer has all trained tensors, and the loss's own are trained.

    Args:
        missing: trained tensors of model and loss that the optimizer lacks.
        trained: trained tensors of model and loss.
        missing_name: name of the first that is missing.
        missing_of_loss: those of the missing ones that are weights of the loss.
        frozen_of_loss: weights of the loss that are frozen.
        frozen_name: name of the first of them.
        hidden: attributes of loss and model with weights that are no parameters of them.
        hidden_name: name of the first of them.
        whole: whether it lacks whole modules, as on purpose to train the others only.
        scalars: whether it lacks single numbers only, such as a temperature.
    """
    subject, symptom = "optimizer", "weights-do-not-move"
    if hidden:
        finding = (
            f"{hidden_name} holds weights that are not registered as parameters, in a plain tensor "
            "or a list of Python: no optimizer trains them, and no checkpoint holds them."
        )
        change = "Make them nn.Parameter, and lists of modules nn.ModuleList."
        yield Verdict("weights of the loss", BAD, finding, change, "weights not registered",
                      symptom)  # fmt: skip
    if missing:
        finding = f"It lacks {missing} of {trained} trained tensors, such as {missing_name}."
        change, name = (
            "Make the optimizer after adapters were added and weights unfrozen.",
            "optimizer lacks weights",
        )
        if missing == missing_of_loss:
            finding += " They are weights of the loss, such as its classifier, which stay random."
            if scalars:
                finding = f"It lacks {missing_name}, a number of the loss that keeps its value."
            change = (
                "Give the optimizer the parameters of the loss as well, or let the trainer make it."
            )
            name = "optimizer lacks weights of the loss"
        if whole:
            finding += " It has those of other modules, which alone are trained."
            change = "If that is meant, freeze the weights that it lacks; else give it these too."
        grade = WATCH if whole or scalars else BAD
        yield Verdict(subject, grade, finding, change, name, symptom)
    elif frozen_of_loss:
        finding = (
            f"{frozen_of_loss} weights of the loss itself are frozen, such as {frozen_name}: they "
            "stay random."
        )
        change, name = "Set requires_grad_(True) on them.", "weights of the loss frozen"
        yield Verdict("weights of the loss", BAD, finding, change, name, symptom)


# Learning rates of Adam that ruin an encoder and that may, those that may ruin new layers and
# adapters, and the one below which nothing changes.
TOO_FAST, FAST, ADAPTER_TOO_FAST, ADAPTER_FAST, STILL = 5e-3, 1e-3, 8e-3, 6e-3, 1e-7
# Width of layers below which an encoder stands rates that are larger in proportion, since Adam
# changes an output by about the rate times the inputs (Yang and Hu, Tensor Programs V). At a width
# of 32, adapters of rank 2 and 8 gain as much at 0.02 as at 0.01, less at 0.025 and 0.03, and
# collapse at 0.04; at 312 they lose at 0.01, with or without DoRA.
WIDE, WIDE_FOR_ADAPTERS = 256, 128


# Learning rates below which optimizers that divide by all gradients so far hardly move weights, and
# optimizers that move a weight by about the rate, as Adam does.
LEAST_RATES = {"adadelta": 0.05, "adagrad": 5e-4}
OWN_RATES = "Adadelta has a learning rate of 1 and Adagrad one of 0.01 by default."
LIKE_ADAM = ("adam", "rmsprop", "lion")


# Share of the weights below which those that are trained, such as biases or a last layer, are few:
# they stand the rates of adapters.
FEW_TRAINED = 0.1
# Rate that biases, scales (as of IA3) and learned prompts do not stand; published ones are 1e-2
# for biases (BitFit), 8e-3 for IA3 and 3e-2 for prompts.
VECTORS_FAST = 0.06


def learning_rate(
    rate: float, optimizer: str, adapters: bool, dense: bool, width: int = WIDE, share: float = 1.0,
    frozen_body: bool = False, above: float = 0.0, multiplies: bool = True,
) -> Iterator[Verdict]:  # fmt: skip
    """Judge the learning rate of Adam.

    Args:
        rate: learning rate.
        optimizer: kind of the optimizer.
        adapters: whether adapters are trained.
        dense: whether the model has more than word embeddings.
        width: inputs of a usual layer.
        share: share of the weights that are trained.
        frozen_body: whether only modules above a frozen encoder are trained, which begin at random
            weights: they stand the rates of adapters.
        above: largest rate of other groups, of new modules above the encoder or of the loss.
        multiplies: whether some matrix is trained, and not vectors only.
    """
    adapters = adapters or frozen_body or share < FEW_TRAINED
    wide = WIDE_FOR_ADAPTERS if adapters else WIDE
    stands = max(1.0, wide / width) if width else 1.0
    risky = ADAPTER_FAST if adapters else FAST
    if not multiplies:
        risky = VECTORS_FAST
    above_risky = max(1.0, WIDE_FOR_ADAPTERS / width if width else 1.0) * ADAPTER_TOO_FAST
    subject = "learning rate"
    if rate < STILL:
        finding, name = f"At {rate:g} no weight changes.", "rate too low"
        yield Verdict(subject, BAD, finding, sentence(USUAL_RATES), name, "weights-do-not-move")
    elif (least := LEAST_RATES.get(optimizer.lower(), 0.0)) > rate:
        finding = (
            f"{rate:g} with {optimizer}, whose steps are far smaller than the learning rate: it "
            f"needs {least:g} or more."
        )
        yield Verdict(subject, WATCH, finding, f"{OWN_RATES} Or use AdamW.", "rate too low",
                      "weights-do-not-move")  # fmt: skip
    elif _rescales(optimizer) and dense and rate >= stands * risky:
        finding = f"{rate:g} is too high for {optimizer} and ruins most encoders."
        # A frozen encoder stays as it is, and few weights may stand more.
        is_ruinous = rate >= stands * TOO_FAST and multiplies and not adapters
        grade = BAD if is_ruinous else WATCH
        change = sentence(USUAL_RATES)
        yield Verdict(subject, grade, finding, change, "rate too high", "score-falls")
    elif _rescales(optimizer) and above >= above_risky:
        finding = (
            f"{rate:g} with {optimizer}, and {above:g} for a group of weights above the encoder, "
            "which is too high for most layers."
        )
        change = "Set 1e-4 to 1e-3 for new layers."
        yield Verdict(subject, WATCH, finding, change, "rate too high", "score-falls")
    else:
        yield Verdict(subject, GOOD, f"{rate:g} with {optimizer}.", name="rate usual")


# Epsilon of Adam that is no rounding error beside a gradient any more; weight decay that is larger
# than any published one; share of the weights that may have a learning rate of 0. Multiple of the
# root mean square of a gradient, which rows without their tokens lower, that epsilon may have.
LARGE_EPSILON, MUCH_DECAY, MANY_WITHOUT, MANY_TIMES = 1e-4, 1.0, 0.5, 10.0


def settings(
    optimizer: str, epsilon: float, decay: float, without_rate: float, gradient: float = 0.0,
    maximize: bool = False, clip: float = 0.0,
) -> Iterator[Verdict]:  # fmt: skip
    """Judge the settings of the optimizer besides its rate.

    Args:
        optimizer: kind of the optimizer.
        epsilon: largest epsilon; 0 if it has none.
        decay: largest weight decay.
        without_rate: share of the weights in groups whose learning rate is none.
        gradient: root mean square of the first gradient, once it is clipped; 0 if unknown.
        maximize: whether steps raise the loss.
        clip: norm to which the gradient is clipped, if it is larger; else 0.
    """
    subject, evidence = "settings of the optimizer", {"epsilon": epsilon, "decay": decay}
    if maximize:
        finding = f"{optimizer} has maximize=True: steps raise the loss, and training goes uphill."
        yield Verdict(subject, BAD, finding, "Set maximize=False.", "maximised", "score-falls")
    if epsilon > LARGE_EPSILON:
        finding = (
            f"The epsilon of {optimizer} is {epsilon:g}. It is added to the size of a gradient, "
            "which is smaller: steps are a fraction of the learning rate."
        )
        change = "Set adam_epsilon=1e-8."
        yield Verdict(subject, WATCH, finding, change, "large epsilon", "weights-do-not-move",
                      evidence)  # fmt: skip
    elif 0 < gradient < epsilon / MANY_TIMES:
        finding = (
            f"The gradient of a weight is {gradient:.1g} on average, far below the epsilon of "
            f"{optimizer}, {epsilon:g}, which is added to it: steps are a fraction of the learning "
            "rate. The loss is multiplied by a tiny number, or nearly flat."
        )
        change = "Leave out the factor of the loss; look at its value and its temperature."
        if clip:
            finding = (
                f"{finding.partition(' The loss is')[0]} Gradients are clipped to "
                f"max_grad_norm={clip:g}."
            )
            change = "Set max_grad_norm=1."
        yield Verdict(subject, WATCH, finding, change, "gradient below epsilon",
                      "weights-do-not-move", evidence | {"gradient": gradient})  # fmt: skip
    if decay >= MUCH_DECAY:
        finding = (
            f"Weight decay is {decay:g}; published settings use 0 to 0.1. It shrinks weights more "
            "than the loss moves them."
        )
        change = "Set weight_decay=0.01."
        yield Verdict(subject, WATCH, finding, change, "much weight decay", "score-falls",
                      evidence)  # fmt: skip
    if without_rate > MANY_WITHOUT:
        finding = (
            f"{percent(without_rate)} of the weights in the optimizer have a learning rate of 0, "
            "or below a thousandth of the largest one."
        )
        change = "Give each group of parameters its rate, or freeze it on purpose."
        yield Verdict(subject, WATCH, finding, change, "groups without rate", "weights-do-not-move",
                      {"without rate": without_rate})  # fmt: skip


# Shares of weights that a step leaves unchanged from which on training in bfloat16 is worth a
# remark, and is bad.
SOME_UNCHANGED, MOST_UNCHANGED = 0.1, 0.5


def precision(
    trained: int, float16: int, bfloat16: int, rate: float, unchanged: float, divides: bool = True
) -> Iterator[Verdict]:
    """Judge whether an update changes weights of their precision.

    ``unchanged`` is the share of the weights in half precision that a step of ``rate`` leaves as
    they are. ``divides`` says whether the optimizer divides by squares of gradients and an epsilon
    that float16 does not hold, as Adam does.
    """
    subject, half = "precision of the weights", "bfloat16" if bfloat16 else "float16"
    if float16 and divides:
        finding = (
            f"{float16} trained tensors are float16, in which Adam's 1e-8 is 0 and small gradients "
            "vanish."
        )
        yield Verdict(subject, BAD, finding, LOAD_FLOAT32, "weights float16", "loss-zero-fp16")
    elif (float16 or bfloat16) and unchanged >= SOME_UNCHANGED:
        grade = BAD if unchanged > MOST_UNCHANGED else WATCH
        finding = (
            f"{bfloat16 or float16} trained tensors are {half}: a step of {rate:g} is rounded away "
            f"in {unchanged:.0%} of the weights."
        )
        yield Verdict(
            subject, grade, finding, LOAD_FLOAT32, f"weights {half}", "weights-do-not-move"
        )
    elif trained:
        finding = f"Trained weights are {half if float16 or bfloat16 else 'float32'}."
        yield Verdict(subject, GOOD, finding, name="weights float32")


# Change of the loss by a step that leaves the embeddings alone, relative to that through the
# embeddings, and to the loss, that is a penalty on the weights which holds them still.
OUTWEIGHS, NOTICEABLE = 1.0, 0.05


def penalty(value: float, through: float, aside: float) -> Iterator[Verdict]:
    """Judge whether a term on the weights outweighs the loss of the embeddings.

    Args:
        value: the loss.
        through: its change by a step of the weights, through the embeddings.
        aside: its change by the same step while the embeddings stay as they are.
    """
    if aside > OUTWEIGHS * abs(through) and aside > NOTICEABLE * abs(value):
        finding = (
            f"A step at the learning rate changes the loss by {through:.2g} through the "
            f"embeddings, and raises it by {aside:.2g} aside from them: another term of the loss, "
            "such as a penalty on the weights (regularisation), outweighs it and holds the weights."
        )
        change = "Lower the weight of that term by some orders of magnitude."
        yield Verdict("penalty", WATCH, finding, change, "penalty outweighs", "weights-do-not-move",
                      {"through": through, "aside": aside})  # fmt: skip


def _rescales(optimizer: str) -> bool:
    return any(name in optimizer.lower() for name in LIKE_ADAM)
