"""Do steps, batches, early stopping, the rate and its schedule let a run improve?

Arguments are measured by the functions of the same names in `gradlab.diagnosis.plan_measurements`
and `gradlab.diagnosis.trials`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from gradlab.errors import counted
from gradlab.monitor.setting_advice import USUAL_RATES
from gradlab.numbers import percent
from gradlab.verdict import BAD, GOOD, WATCH, Verdict

# Fewest steps of the optimizer that train an encoder.
ENOUGH_STEPS = 10


def steps(steps: int, rows: int, batch: int, batches: int, accumulation: int) -> Iterator[Verdict]:
    """Judge whether the optimizer makes enough steps.

    Args:
        steps: planned steps of the optimizer.
        rows: rows of the data; 0 if unknown.
        batch: rows of a batch.
        batches: batches of an epoch; 0 if unknown.
        accumulation: batches whose gradients make a step.
    """
    if steps >= ENOUGH_STEPS:
        return
    finding = f"The whole run is {counted(steps, 'step')} of the optimizer, too few to train."
    change = "Train for more epochs: num_train_epochs. Check max_steps as well."
    if accumulation > 1 and batches:
        finding += (
            f" An epoch has {counted(batches, 'batch')}, and gradient_accumulation_steps="
            f"{accumulation}: an epoch is {'one step' if accumulation >= batches else 'few steps'}."
        )
        change = "Lower gradient_accumulation_steps, or train for more epochs."
    elif rows:
        finding += (
            f" An epoch of {counted(rows, 'row')} in batches of {batch} has "
            f"{counted(batches, 'step')}."
        )
    yield Verdict("steps", WATCH, finding, change, "few steps", "weights-do-not-move",
                  {"steps": float(steps)})  # fmt: skip


# Share of the run that early stopping should wait for a better score; improvement that early
# stopping may ask for.
SHORTEST_WAIT, LARGE_THRESHOLD = 0.05, 0.03


def stopping(
    patience: int, threshold: float, interval: int, warmup: int, steps: int
) -> Iterator[Verdict]:
    """Judge whether early stopping leaves time to improve.

    Args:
        patience: evaluations without a better score after which the run stops.
        threshold: by how much a score must be better.
        interval: steps between evaluations.
        warmup: steps of the warm-up.
        steps: planned steps.
    """
    wait, subject = patience * interval, "early stopping"
    evidence = {"wait": float(wait), "warmup": float(warmup)}
    finding = (
        f"A patience of {patience} with an evaluation every {counted(interval, 'step')} stops the "
        f"run after {counted(wait, 'step')} without a better score"
    )
    change = "Raise early_stopping_patience, or eval_steps."
    if wait < warmup:
        finding += f", within the warm-up of {counted(warmup, 'step')}, in which little is learned."
    elif wait < SHORTEST_WAIT * steps:
        finding += f", of {steps:,}: scores vary by more from one evaluation to the next."
    elif threshold > LARGE_THRESHOLD:
        finding += f", and only a gain of {threshold:g} (early_stopping_threshold) counts as one."
        change = "Lower early_stopping_threshold to 0 or 0.001."
    else:
        return
    yield Verdict(subject, WATCH, finding, change, "stops early", "score-does-not-rise", evidence)


# Share of batches of one row from which on they matter.
MANY_SINGLE = 0.1


def last_batch(batches: int, single: float, largest: int) -> Iterator[Verdict]:
    """Judge how many batches hold one row only, which has no negatives.

    Args:
        batches: batches of which the rows are known.
        single: share of them that hold one row.
        largest: rows of the largest batch.
    """
    if single <= MANY_SINGLE or largest == 1:
        return
    finding = (
        f"{percent(single)} of the batches hold one row, such as the last one of an epoch: it has "
        "no negatives, and its loss is 0."
    )
    change = "Set dataloader_drop_last=True, or a batch size that leaves no single row."
    yield Verdict("batches", WATCH, finding, change, "single rows", "loss-zero",
                  {"single": single, "batches": float(batches)})  # fmt: skip


ROLE_WORDS = {
    "a query": ("query", "question", "anchor", "search_query"),
    "a document": ("passage", "document", "doc", "answer", "positive", "negative", "context"),
}


def routes(
    routes: Sequence[str], mapping: Mapping[str, str], columns: Sequence[str]
) -> Iterator[Verdict]:
    """Judge whether columns take the routes that their names say.

    Args:
        routes: names of a router's routes.
        mapping: route by the name of a column.
        columns: names of the columns of texts, in their order.
    """
    subject, symptom = "routes", "score-does-not-rise"
    taken = {mapping[name] for name in columns if name in mapping}
    missed = [route for route in routes if route not in taken]
    wrong = [
        name for name in columns
        if role_of(name) and role_of(mapping.get(name, "")) not in ("", role_of(name))
    ]  # fmt: skip
    by_column = ", ".join(f"{name!r} -> {mapping[name]!r}" for name in columns if name in mapping)
    if taken and missed and len(columns) > 1:
        finding = (
            f"No column takes the route {missed[0]!r} of the router ({by_column}): its module is "
            "never trained."
        )
        change = f"Give the column of that role its route: router_mapping={{…: {missed[0]!r}}}."
        # Where columns take different routes, a further one may be of another stage of training.
        grade = BAD if len(taken) == 1 else WATCH
        yield Verdict(subject, grade, finding, change, "route without column", symptom)
    elif wrong and len(taken) > 1:
        finding = (
            f"Columns take the routes {by_column}: the name {wrong[0]!r} says another role. "
            "Queries and documents are exchanged."
        )
        change = "Exchange the routes in router_mapping, or rename the columns."
        grade = BAD if len(wrong) > 1 else WATCH
        yield Verdict(subject, grade, finding, change, "routes exchanged", symptom)


def role_of(text: str) -> str:
    """Return the role that a text names; empty if it names none or both."""
    words = set(text.lower().replace("_", " ").replace(":", " ").split()) | {text.lower().strip()}
    roles = [role for role, names in ROLE_WORDS.items() if words.intersection(names)]
    return roles[0] if len(roles) == 1 else ""


def accumulation(steps: int, left_to_loss: bool, divides: bool) -> Iterator[Verdict]:
    """Judge whether somebody divides by the number of accumulated batches."""
    if left_to_loss and not divides:
        finding = (
            f"The trainer leaves the division by gradient_accumulation_steps ({steps}) to the "
            f"model, which does not divide: loss and gradient are {steps} times as large."
        )
        change = (
            "Remove **kwargs from the model's forward, set model.accepts_loss_kwargs = False, or "
            "divide by num_items_in_batch."
        )
        yield Verdict("accumulation", BAD, finding, change, "accumulation multiplies", "loss-value",
                      {"steps": steps})  # fmt: skip


# Share of the learning rate that a schedule should reach; share of the steps after the first tenth
# in which it may be none.
REACHED, MOST_STILL = 0.5, 0.4
# Share of these steps at less than a twentieth of it: linear and cosine schedules have 0.06 and
# 0.15.
MOST_LOW = 0.45
# Share of the run that a warm-up may take.
MOST_WARMING = 0.8
# Multiple of the learning rate to which a schedule may raise it; rates from which on that is a
# search: a cycle may be longer than the run.
RAISED, SEARCHED = 3.0, 5e-3
# First rates from which on a schedule's factors are rates themselves, as those of a Transformer,
# and the rate that they should reach.
UNIT, REACHED_RATE = 0.5, 1e-6


def schedule(
    steps: int, warmup: int, peak: float, mean: float = 1.0, still: float = 0.0, end: float = 0.0,
    low: float = 0.0, largest: float = 0.0,
) -> Iterator[Verdict]:  # fmt: skip
    """Judge whether the schedule reaches the learning rate within the run, and lasts.

    Args:
        steps: steps of the run.
        warmup: steps of the warm-up; 0 if unknown.
        peak: largest share of the learning rate within the run.
        mean: mean share of the learning rate.
        still: share of the steps, without the first tenth, in which it is below a thousandth of
            its peak.
        end: share of the learning rate at the end.
        low: share of the steps, without the first tenth, in which it is below a twentieth of its
            peak.
        largest: largest learning rate within the run; 0 if unknown.
    """
    subject, evidence = "schedule", {"steps": steps, "peak": peak}
    within = counted(steps, "step")
    finding = f"The schedule reaches {percent(peak)} of the learning rate within {within}."
    if peak >= REACHED and still > MOST_STILL:
        finding += f" It is 0, or below a thousandth of that, in {percent(still)} of them."
        change = (
            "Let the schedule count the steps of the optimizer, not batches, and end where the run "
            "ends; a decay at each step should leave a rate at the end."
        )
        name = "rate ends early"
        yield Verdict(subject, BAD, finding, change, name, "weights-do-not-move", evidence)
        return
    if peak >= REACHED and low > MOST_LOW:
        finding += f" It is below a twentieth of that in {percent(low)} of them: it falls too fast."
        change = (
            "Let the rate fall over the whole run, as by 'linear' or 'cosine'; a factor for each "
            "step, such as gamma, should be near 1."
        )
        yield Verdict(subject, WATCH, finding, change, "rate falls early", "weights-do-not-move",
                      evidence | {"low": low})  # fmt: skip
        return
    if peak > RAISED and end > REACHED * peak:
        finding = (
            f"The schedule raises the learning rate to {peak:.3g} times its first value within "
            f"{within}, as a search for a rate does."
        )
        change = "Use a schedule that ends low: lr_scheduler_type='linear' or 'cosine'."
        grade = BAD if not largest or largest >= SEARCHED else WATCH
        yield Verdict(subject, grade, finding, change, "rate rises", "score-falls", evidence)
        return
    if peak >= REACHED and warmup > MOST_WARMING * steps:
        taken = f"{min(warmup, steps):,} of them"
        finding += f" The warm-up takes {taken}: hardly any step has the full rate."
        change = "Let the warm-up end within the first tenth of the run: warmup_steps=0.1."
        yield Verdict(subject, WATCH, finding, change, "warm-up takes the run",
                      "weights-do-not-move", evidence)  # fmt: skip
        return
    is_rate = not warmup and largest >= max(UNIT * peak, REACHED_RATE)
    if peak >= REACHED or is_rate:
        if is_rate and peak < REACHED:
            finding = f"The schedule reaches a learning rate of {largest:g} within {within}."
        yield Verdict(subject, GOOD, finding, name="rate reached", evidence=evidence)
        return
    reason = (
        f"The warm-up takes {counted(warmup, 'step')}." if warmup else "It may hold the rate at 0."
    )
    change = "Let the warm-up end within the first tenth of the run: warmup_ratio=0.1."
    name = "schedule does not reach the rate"
    yield Verdict(subject, BAD, f"{finding} {reason}", change, name, "weights-do-not-move",
                  evidence)  # fmt: skip


# Batches of rows below which a data set is small; passes over it that teach it by heart; rows from
# which on a single batch of all of them is no remainder of debugging.
FEW_BATCHES, MANY_PASSES, MANY_ROWS = 2, 20, 64


def passes(rows: int, batch: int, passes: float) -> Iterator[Verdict]:
    """Judge how often the run sees each row of a small data set.

    Args:
        rows: rows of the data.
        batch: rows of a batch.
        passes: how often the planned run sees each row.
    """
    one_batch = MANY_ROWS <= rows <= batch  # as chosen on purpose
    if rows <= FEW_BATCHES * batch and not one_batch and passes > MANY_PASSES:
        finding = (
            f"The data hold {rows:,} rows, of which the run sees each {passes:.0f} times, in "
            "nearly the same batches."
        )
        change = (
            "Check that no rows were left out, as by select(range(...)) for debugging. Otherwise "
            "train for fewer epochs."
        )
        yield Verdict("amount of data", WATCH, finding, change, "few rows", "score-falls",
                      {"rows": float(rows), "passes": passes})  # fmt: skip


# Movement of the weights, relative to their size, that a plan should reach; rate for adapters.
FAR_ENOUGH, RATE_OF_ADAPTERS = 3e-4, 5e-5
# The same for static embeddings, whose rows move only in steps whose texts have their tokens: sound
# runs reach .3 and more.
FAR_ENOUGH_FOR_STATIC = 0.03
# Share of a gradient's norm below which clipping leaves hardly any of it, beside an optimizer that
# does not normalise; movement of the weights from which on the rate makes up for that.
LITTLE_LEFT, MADE_UP = 0.01, 0.01
# Factor of an adapter (lora_alpha over its rank) that is far above usual ones.
STRONG = 16.0


def reach(
    optimizer: str, rate: float, steps: int, norm: float, clip: float, moved: float,
    adapter: float | None, scaling: float = 0.0, static: bool = False,
) -> Iterator[Verdict]:  # fmt: skip
    """Judge whether the planned steps can move the weights.

    Args:
        optimizer: kind of the optimizer.
        rate: learning rate.
        steps: planned steps.
        norm: norm of the gradient.
        clip: norm to which gradients are clipped; 0 for none.
        moved: largest movement of the weights over the run, relative to their size.
        adapter: the same of the weights that low-rank adapters change; None without adapters.
        scaling: factor of the adapters; 0 without adapters.
        static: whether the encoder has one vector for each token and no layers.
    """
    subject, symptom, plain = "reach of the run", "weights-do-not-move", optimizer.lower() == "sgd"
    evidence = {"moved": moved, "rate": rate, "norm": norm}
    if scaling > STRONG:
        finding = (
            f"The adapters are multiplied by {scaling:g} (lora_alpha over the rank): each step "
            "moves the weights that many times as far."
        )
        change = "Set lora_alpha to half to twice the rank."
        yield Verdict("adapters", WATCH, finding, change,
                      "adapter too strong", "score-falls", {"scaling": scaling})  # fmt: skip
    if adapter is not None and (adapter < FAR_ENOUGH or rate < RATE_OF_ADAPTERS):
        finding = (
            f"The adapters are trained at a learning rate of {rate:g}, and over "
            f"{counted(steps, 'step')} can change the weights by {adapter:.1g} of their size "
            "at most."
        )
        change = (
            f"Raise the learning rate: {USUAL_RATES}. Check lora_alpha: half to twice the rank is "
            "usual."
        )
        yield Verdict(subject, WATCH, finding, change, "adapter hardly moves", symptom,
                      evidence | {"adapter": adapter})  # fmt: skip
    elif moved < (FAR_ENOUGH_FOR_STATIC if static else FAR_ENOUGH):
        finding = (
            f"Over {counted(steps, 'step')}, {optimizer} at a learning rate of {rate:g} can move "
            f"the weights by {moved:.1g} of their size at most."
        )
        if plain and 0 < clip < norm:
            finding += f" Gradients of norm {norm:.3g} are clipped to max_grad_norm={clip:g}."
        change = "Raise the learning rate."
        if static:
            finding += " The learning rate is too low for static embeddings, without layers."
            change = "Raise the learning rate: static embeddings are trained at 0.01 to 0.2."
        elif plain:
            change = "Use AdamW, or raise the learning rate of SGD to 0.01 or more"
            change += ", and max_grad_norm to 1." if clip < 1 else "."
        yield Verdict(subject, WATCH, finding, change, "plan hardly moves", symptom, evidence)
    elif plain and 0 < clip < LITTLE_LEFT * norm and moved < MADE_UP:
        finding = (
            f"Gradients of norm {norm:.3g} are clipped to max_grad_norm={clip:g}. {optimizer} does "
            "not normalise them: its steps are those of a learning rate of "
            f"{rate * clip / norm:.2g} in place of {rate:g}, and over {counted(steps, 'step')} can "
            f"move the weights by {moved:.1g} of their size."
        )
        change = "Set max_grad_norm=1, or above the usual norm of the gradient."
        yield Verdict(subject, WATCH, finding, change, "clipped to little", symptom,
                      evidence | {"clip": clip})  # fmt: skip
