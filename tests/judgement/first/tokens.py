"""What the tokenizer makes of texts: windows, prompts, and words that it does not know."""

from __future__ import annotations

from typing import Any

from tests.judgement.case import DOCTOR, INSPECT, REPORT, faulty
from tests.judgement.first.scenes import bilingual, inspect_tuned, translated
from tests.judgement.stage import Stage
from tests.judgement.truth import retrieval, suffers
from tests.sentence_training import losses

ranking = losses.MultipleNegativesRankingLoss
PLAN = {"learning_rate": 2e-3, "max_steps": 80}
CUT = (
    r"trunc",
    r"\bcut",
    r"max_seq_length",
    r"(too )?long(er)? than",
    r"window",
    r"token limit",
    r"(beyond|after|past) .{0,30}tokens?",
    r"maximum length",
    r"first \d+ tokens",
    r"\d+ tokens",
)
UNKNOWN = (
    r"\[?unk\]?\b",
    r"unknown",
    r"not (in|of) the vocabulary",
    r"out.of.vocabulary",
    r"vocabulary",
    r"tokeni[sz]er",
    r"upper.?case",
    r"lower.?case",
    r"(same|identical|equal) tokens?",
    r"the same (text|input|embedding)s?",
)
OPENING = "zan zen zin zon zun tan ten tin ton tun , "


def opened(count: int = 640, seed: int = 0) -> dict[str, list[str]]:
    """Bilingual pairs of which each passage starts with the same ten words."""
    table = bilingual(count, seed)
    return table | {"positive": [OPENING + text for text in table["positive"]]}


def among_opened(model: Any) -> float:
    """The reciprocal rank of passages that start with the same words."""
    return retrieval(model, opened(100, seed=11))


@faulty(
    "window shorter than a shared opening",
    "The window of 12 tokens ends with the legal notice with which every passage starts.",
    (
        *CUT,
        r"(start|open|begin|head|prefix|boilerplate)",
        r"(same|identical|equal) (text|token|input)",
    ),
    tools=(DOCTOR, REPORT, INSPECT),
)
def window_that_ends_with_the_notice(stage: Stage) -> None:
    suffers(
        stage,
        stage.trainer(ranking, opened(), stage.model(length=12), **PLAN),
        lambda: stage.trainer(ranking, opened(), stage.model(), **PLAN),
        among_opened,
    )
    inspect_tuned(stage, opened(), max_length=12)


INSTRUCTION = f"{translated(OPENING)} {translated(OPENING)} : "


def instructed(model: Any) -> float:
    """The reciprocal rank with the instruction before questions."""
    return retrieval(model, bilingual(100, seed=11), prompts=(INSTRUCTION, ""))


@faulty(
    "instruction fills the window",
    "The instruction before questions has more tokens than the window, so that none is read.",
    (
        *CUT,
        r"prompt",
        r"instruction",
        r"prefix",
        r"(same|identical|equal) (text|token|input|embedding)",
    ),
)
def instruction_longer_than_the_window(stage: Stage) -> None:
    plan = {"prompts": {"anchor": INSTRUCTION}, **PLAN}
    suffers(
        stage,
        stage.trainer(ranking, bilingual(640), stage.model(length=20), **plan),
        lambda: stage.trainer(ranking, bilingual(640), stage.model(), **plan),
        instructed,
    )


def _marked(stage: Stage, *, resized: bool) -> Any:
    """An encoder with new tokens that mark questions and passages."""
    model = stage.model()
    model.tokenizer.add_tokens(["<question>", "<passage>"])
    if resized:
        model[0].auto_model.resize_token_embeddings(len(model.tokenizer))
    return model


@faulty(
    "tokens added without resizing the embeddings",
    "Two tokens were added to the vocabulary, and the matrix of embeddings has no rows for them.",
    (
        r"resize",
        r"(index|token|id)s? .{0,60}(out of range|beyond|outside|larger|exceed)",
        r"vocabular",
        r"added tokens?",
        r"embedding (matrix|table|layer|rows?)",
        r"no (row|embedding) for",
    ),
)
def new_tokens_without_embeddings(stage: Stage) -> None:
    marks = ("<question> ", "<passage> ")

    def marked(count: int, seed: int = 0) -> dict[str, list[str]]:
        columns = bilingual(count, seed).items()
        return {
            name: [mark + text for text in texts]
            for mark, (name, texts) in zip(marks, columns, strict=True)
        }

    suffers(
        stage,
        stage.trainer(ranking, marked(640), _marked(stage, resized=False), **PLAN),
        lambda: stage.trainer(ranking, marked(640), _marked(stage, resized=True), **PLAN),
        lambda model: retrieval(model, bilingual(100, seed=11)),
        fails=True,
    )
