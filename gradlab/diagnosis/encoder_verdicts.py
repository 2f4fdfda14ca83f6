"""Does a text embed alike in every batch, are its tokens known, and do rate and scores mean much?

Arguments are measured by the functions of the same names in `gradlab.diagnosis.trials` and
`gradlab.diagnosis.label_measurements`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gradlab.errors import counted
from gradlab.numbers import percent
from gradlab.verdict import BAD, GOOD, WATCH, Verdict

# Difference of the cosine from 1 above which an embedding depends on its batch, in full precision
# and in half.
DEPENDS, DEPENDS_IN_HALF = 1e-3, 3e-2


def beside(cosine: float, half: bool) -> Iterator[Verdict]:
    """Judge whether a text embeds alike alone and beside a longer text, which pads it."""
    subject, evidence = "padding", {"cosine": cosine}
    finding = f"The cosine of a text's embeddings, alone and beside a longer text, is {cosine:.5f}."
    if 1 - cosine > (DEPENDS_IN_HALF if half else DEPENDS):
        finding += " So an embedding depends on the other texts of its batch, by their padding."
        change = (
            "Pool by the attention mask. With [CLS] pooling pad on the right, and with the last "
            "token on the left: model.tokenizer.padding_side."
        )
        name = "embedding depends on its batch"
        yield Verdict(subject, BAD, finding, change, name, "embedding-depends-on-its-batch",
                      evidence)  # fmt: skip
    else:
        yield Verdict(subject, GOOD, finding, name="padding has no effect", evidence=evidence)


# Share of pooled tokens that end a text, below which the end is missing.
MOST_END = 0.5


def last_token(ends: float, end: str, end_is_padding: bool) -> Iterator[Verdict]:
    """Judge whether the token that is pooled ends the text.

    Args:
        ends: share of texts whose last token is a special token.
        end: the tokenizer's end-of-sequence token; empty without any.
        end_is_padding: whether it is the padding token too.
    """
    subject, evidence = "last token", {"ends": ends}
    finding = f"The last token is pooled; in {percent(ends)} of the texts it is a special token."
    if ends >= MOST_END:
        yield Verdict(subject, GOOD, finding, name="texts end", evidence=evidence)
        return
    finding += f" No end-of-sequence token{f' ({end})' if end else ''} closes the others"
    finding += ", perhaps because it is the padding token as well." if end_is_padding else "."
    change = (
        "Let the tokenizer append the token (add_eos_token=True, or a post-processor), and give it "
        "a padding token of its own."
    )
    name, symptom = "no end of sequence", "embedding-depends-on-its-batch"
    yield Verdict(subject, WATCH, finding, change, name, symptom, evidence)


# Shares of unknown tokens in a column that are worth a remark, and are bad.
SOME_UNKNOWN, MOST_UNKNOWN = 0.1, 0.5


def vocabulary(unknown: Mapping[str, float]) -> Iterator[Verdict]:
    """Judge the share of unknown tokens of each column."""
    column = max(unknown, key=lambda name: unknown[name])
    share = unknown[column]
    finding = f"The tokenizer does not know {percent(share)} of the tokens in column {column!r}."
    evidence = {"unknown": share}
    if share < SOME_UNKNOWN:
        yield Verdict("vocabulary", GOOD, finding, name="tokens known", evidence=evidence)
        return
    grade = BAD if share >= MOST_UNKNOWN else WATCH
    change = "Use an encoder whose vocabulary has the language and script of these texts."
    yield Verdict("vocabulary", grade, finding, change, "tokens unknown", "score-does-not-rise",
                  evidence)  # fmt: skip


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


# Share of the learning rate that a schedule should reach.
REACHED = 0.5


def schedule(steps: int, warmup: int, peak: float) -> Iterator[Verdict]:
    """Judge whether the schedule reaches the learning rate within the run.

    Args:
        steps: steps of the run.
        warmup: steps of the warm-up; 0 if unknown.
        peak: largest share of the learning rate within the run.
    """
    subject, evidence = "schedule", {"steps": steps, "peak": peak}
    within = counted(steps, "step")
    finding = f"The schedule reaches {percent(peak)} of the learning rate within {within}."
    if peak >= REACHED:
        yield Verdict(subject, GOOD, finding, name="rate reached", evidence=evidence)
        return
    reason = (
        f"The warm-up takes {counted(warmup, 'step')}." if warmup else "It may hold the rate at 0."
    )
    change = "Let the warm-up end within the first tenth of the run: warmup_ratio=0.1."
    name = "schedule does not reach the rate"
    yield Verdict(subject, BAD, f"{finding} {reason}", change, name, "weights-do-not-move",
                  evidence)  # fmt: skip


# Share of evaluated texts that stand in the training data and is worth a remark.
MANY_TRAINED = 0.1


def evaluator(prompt: str, has_prompt: bool, texts: int, in_training: float) -> Iterator[Verdict]:
    """Judge whether evaluation asks of what was trained, on texts that were not.

    Args:
        prompt: a prompt of training; empty without any.
        has_prompt: whether the evaluator or the model has a prompt.
        texts: texts that the evaluator compares or looks for.
        in_training: share of them that stand in the training data.
    """
    subject, evidence = "evaluation", {"texts": texts, "in training": in_training}
    if prompt and not has_prompt:
        finding = f"Training puts the prompt {prompt!r} before texts, and the evaluator none."
        change = "Give the evaluator the prompts of training, or set model.prompts."
        name = "evaluator without prompt"
        yield Verdict(subject, WATCH, finding, change, name, "score-does-not-rise", evidence)
    elif in_training > MANY_TRAINED:
        finding = f"{percent(in_training)} of {texts:,} evaluated texts are in the training data."
        change = "Evaluate on texts that are not trained on, or leave those rows out."
        name = "evaluated in training"
        yield Verdict(subject, WATCH, finding, change, name, "score-does-not-rise", evidence)
    elif texts:
        finding = f"{percent(in_training)} of {texts:,} evaluated texts are in the training data."
        yield Verdict(subject, GOOD, finding, name="evaluation apart", evidence=evidence)
