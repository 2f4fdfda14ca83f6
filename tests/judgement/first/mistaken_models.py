"""Trainers with a mistake in the encoder: tokens, lengths, prompts, pooling, freezing, adapters."""

from __future__ import annotations

from typing import Any

from tests.judgement.case import faulty
from tests.judgement.first.beside import IDLE
from tests.judgement.first.mistake_fields import (
    BEES,
    HARBOUR,
    MUSEUM,
    SEWING,
    STARS,
    TRAINS,
    WINES,
    encoder_of_field,
    training,
)
from tests.judgement.stage import Stage
from tests.judgement.truth import suffers

SAME = (
    r"(?i)(embeddings?|texts?|cosines?|rows?).{0,60}(all (alike|equal|the same)|identical|same|"
    r"collaps|constant|cannot be told|one direction)",
    r"(?i)collaps|hardly differ|no difference",
)


@faulty(
    "texts longer than the encoder reads",
    "The encoder reads 7 tokens of a text, and what tells texts apart comes after them.",
    [
        r"(?i)trunc|cut (off|at|short)|max_seq_length|maximum (sequence )?length|"
        r"texts?.{0,30}longer than|"
        r"(first|only) \d* ?tokens|limit of",
        *SAME,
    ],
)
def length_cuts_off_what_tells_texts_apart(stage: Stage) -> None:
    opening = "dear all , thank you for writing to us : "
    table = {name: [opening + text for text in texts] for name, texts in TRAINS.table(200).items()}
    held = {name: [opening + text for text in texts]
            for name, texts in list(TRAINS.table(40, seed=11).items())}  # fmt: skip

    def score(model: Any) -> float:
        from tests.judgement.truth import retrieval

        return retrieval(model, held)

    def built(length: int) -> Any:
        model = encoder_of_field(stage, TRAINS, extras=[opening], length=length)
        return training(stage, TRAINS, table=table, model=model)

    suffers(stage, built(7), lambda: built(48), score)


@faulty(
    "instruction that leaves no room for the text",
    "A long instruction stands before each text and fills the 12 tokens that the encoder reads.",
    [
        r"(?i)prompt|instruction|prefix",
        r"(?i)trunc|cut (off|at|short)|max_seq_length|maximum (sequence )?length|"
        r"texts?.{0,30}longer than",
        *SAME,
    ],
)
def prompt_fills_all_tokens_that_are_read(stage: Stage) -> None:
    prompt = "represent this sentence so that it can be found by other sentences : "

    def built(length: int) -> Any:
        model = encoder_of_field(stage, WINES, extras=[prompt], length=length)
        prompts = {"wish": prompt, "card": prompt}
        return training(stage, WINES, model=model, prompts=prompts)

    suffers(
        stage, built(14), lambda: built(48),
        lambda model: WINES.sought(model, prompts=(prompt, prompt)),
    )  # fmt: skip


@faulty(
    "tokenizer of another domain",
    "The vocabulary was made from other texts: nearly all words are unknown tokens.",
    [
        r"(?i)\bunk\b|\[unk\]|unknown|vocabular|tokeni[sz]",
        *SAME,
    ],
)
def vocabulary_of_another_field(stage: Stage) -> None:
    suffers(
        stage,
        training(stage, HARBOUR, model=encoder_of_field(stage, BEES)),
        lambda: training(stage, HARBOUR, model=encoder_of_field(stage, HARBOUR)),
        HARBOUR.sought,
    )


@faulty(
    "decoder pooled at its first token by mistake",
    "The first token of a causal decoder is pooled: it sees nothing of what follows it.",
    [
        r"(?i)\bcls\b|first token|pool|last[- ]?token|causal|decoder",
        *SAME,
    ],
)
def first_token_of_a_decoder_pooled(stage: Stage) -> None:
    def built(pooling: str) -> Any:
        model = encoder_of_field(stage, SEWING, kind="granite", pooling=pooling)
        return training(stage, SEWING, model=model)

    suffers(stage, built("cls"), lambda: built("lasttoken"), SEWING.sought)


@faulty(
    "all but the biases frozen",
    "All matrices were frozen by a filter of names that was meant for one layer: biases are left.",
    [
        r"(?i)froz|freez|requires_grad|trainable",
        r"(?i)(few|only|most|share|part|percent|%).{0,40}(weights?|parameters?|matri)",
        *IDLE,
    ],
)
def only_biases_left_to_train(stage: Stage) -> None:
    def built(slip: bool) -> Any:
        model = encoder_of_field(stage, STARS)
        for name, row in model.named_parameters():
            row.requires_grad_("bias" in name or not slip)
        return training(stage, STARS, model=model)

    suffers(stage, built(True), lambda: built(False), STARS.sought)


@faulty(
    "probability to keep given as dropout",
    "0.95 was meant as the share of units to keep, and is the share that is dropped.",
    [
        r"(?i)dropout|dropped",
        r"(?i)(two|repeated|both|same) (passes|texts?|views?|runs?).{0,60}(differ|unlike|"
        r"vary|noise)",
    ],
)
def share_to_keep_given_as_dropout(stage: Stage) -> None:
    suffers(
        stage,
        training(stage, MUSEUM, model=encoder_of_field(stage, MUSEUM, dropout=0.95)),
        lambda: training(stage, MUSEUM, model=encoder_of_field(stage, MUSEUM, dropout=0.05)),
        MUSEUM.sought,
    )
