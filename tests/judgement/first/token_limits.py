"""Tokens: a prompt that fills the length, new tokens without a vector, a script without tokens."""

from __future__ import annotations

from typing import Any

from tests.judgement.case import DOCTOR, INSPECT, REPORT, faulty
from tests.judgement.stage import FILLERS, Stage, pairs
from tests.judgement.truth import retrieval, suffers
from tests.sentence_training import losses

ranking = losses.MultipleNegativesRankingLoss
CUT = (
    r"trunca", r"cut", r"max_seq_length", r"longest", r"(length|token)s?.{0,60}limit",
    r"prompt", r"instruction", r"(fill|take|use|leave)s? .{0,60}(length|token|room)",
    r"same (text|start|beginning|prefix)", r"identical", r"duplicat", r"too long",
)  # fmt: skip
NEW = (
    r"resize", r"vocab", r"(new|added|extra) tokens?", r"embedding (table|matrix|layer)",
    r"out of (range|bounds)", r"token ids?", r"index", r"tokeni[sz]er.{0,80}(more|larger|beyond)",
)  # fmt: skip
UNKNOWN = (
    r"unk", r"unknown", r"vocab", r"script", r"alphabet", r"tokeni[sz]er", r"language",
    r"characters?", r"same (text|token)s?", r"identical", r"duplicat",
)  # fmt: skip


@faulty(
    "prompt that fills the length",
    "An instruction of twenty-two words comes before each text, and the encoder reads 24 tokens: "
    "of the text itself nothing is left.",
    CUT,
)
def instruction_as_long_as_the_limit(stage: Stage) -> None:
    prompt = " ".join(FILLERS[:22]) + " "
    suffers(
        stage,
        stage.trainer(ranking, pairs(), stage.model(length=24), prompts=prompt),
        lambda: stage.trainer(ranking, pairs(), stage.model(length=24)),
    )


@faulty(
    "added tokens without rows in the embedding table",
    "Words of the field were added to the tokenizer, and the encoder's table was not resized: the "
    "first text with one of them ends the training.",
    NEW,
)
def added_tokens_without_vectors(stage: Stage) -> None:
    terms = [f"{topic}-{place}" for topic, place in (("gox", "wuq"), ("hix", "yeq"))]
    table = pairs()
    table = {name: [f"{terms[at % 2]} {text}" for at, text in enumerate(texts)]
             for name, texts in table.items()}  # fmt: skip

    def of(is_resized: bool) -> Any:
        model = stage.model()
        model.tokenizer.add_tokens(terms)
        if is_resized:
            model[0].auto_model.resize_token_embeddings(len(model.tokenizer))
        return stage.trainer(ranking, table, model)

    suffers(stage, of(False), lambda: of(True), fails=True)


def _in_cyrillic(table: dict[str, list[str]]) -> dict[str, list[str]]:
    letters = str.maketrans("abdefgiklmnoprstuvz", "абдефгиклмнопрстувз")
    return {name: [text.translate(letters) for text in texts] for name, texts in table.items()}


@faulty(
    "texts in a script that the vocabulary lacks",
    "The texts are written in Cyrillic and the tokenizer knows Latin letters only: nearly each "
    "word becomes the unknown token.",
    UNKNOWN,
    tools=(DOCTOR, REPORT, INSPECT),
)
def cyrillic_for_a_latin_vocabulary(stage: Stage) -> None:
    table, asked = _in_cyrillic(pairs()), _in_cyrillic(pairs(100, seed=11))
    trainer, latin = stage.trainer(ranking, table), stage.trainer(ranking, pairs())

    def score(model: Any) -> float:
        return retrieval(model, None if model is latin.model else asked)

    if not stage._tools or "report" in stage._tools:
        suffers(stage, trainer, lambda: latin, score)
    else:
        stage.doctor(trainer)
    stage.inspect(table)
