"""Tokens that never reach the encoder, or that should not reach it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from sentence_transformers.sentence_transformer import losses
from torch import Tensor

from tests.judgement.case import faulty
from tests.judgement.first.catalogue import (
    CHAT,
    Setting,
    adamw,
    draws,
    embed,
    info_nce,
    on_shelf,
    sales,
    slips,
)
from tests.judgement.stage import Stage
from tests.judgement.truth import suffers
from tests.tiny_models import make_bert

ranking = losses.MultipleNegativesRankingLoss
CUT = (
    r"truncat|cut (off|short|at)|max_seq_length|max_length|too long|longer than|length",
    r"(text|document|passage|row)s? .{0,60}(equal|identical|same tokens|not told apart)",
)
BANNER = " ".join(CHAT[:14])


@faulty(
    "a banner that fills the length",
    "Each offer begins with the cookie banner of its page, and 14 tokens are read: all offers are "
    "one text.",
    (*CUT, r"(begin|start|prefix|common|repeat|boilerplate|duplicat|equal|identical)"),
)
def cookie_banner_before_each_offer(stage: Stage) -> None:
    """Scraped pages are cut after 14 tokens."""
    table = sales()
    scraped = table | {"offer": [f"{BANNER} {text}" for text in table["offer"]]}
    suffers(
        stage,
        stage.trainer(ranking, scraped, stage.model(length=14), learning_rate=1e-3),
        lambda: stage.trainer(ranking, scraped, stage.model(length=40), learning_rate=1e-3),
        on_shelf,
    )


def _cased(folder: Path) -> Path:
    """The tiny BERT with a tokenizer that keeps capitals, of which its vocabulary has none."""
    bert = make_bert(folder)
    path = bert / "tokenizer.json"
    settings = json.loads(path.read_text())
    settings["normalizer"]["lowercase"] = False
    path.write_text(json.dumps(settings))
    return bert


@faulty(
    "capitals that the vocabulary lacks",
    "Texts are in capitals and the tokenizer does not lower them: most words are [UNK].",
    (
        r"unk|unknown|vocabulary|not know|lower-?cas|capital",
        r"(text|row)s? .{0,60}(equal|identical)",
    ),
)
def capitals_for_a_lower_case_vocabulary(stage: Stage) -> None:
    """A catalogue printed in capitals meets a tokenizer whose lower-casing was switched off."""
    bert = _cased(stage.folder / "cased")
    loud = {name: [text.upper() for text in texts] for name, texts in sales().items()}
    suffers(
        stage,
        stage.trainer(ranking, loud, stage.model(bert=bert), learning_rate=1e-3),
        lambda: stage.trainer(ranking, sales(), stage.model(bert=bert), learning_rate=1e-3),
        on_shelf,
    )


@faulty(
    "offers cut at their beginning",
    "The tokenizer cuts on the left, and the head of each offer, which says what it is, is lost.",
    (*CUT, r"left|begin|head"),
)
def truncation_on_the_left_side(stage: Stage) -> None:
    """truncation_side="left" remains from a chat model; offers end with a long footer."""
    table = sales()
    footer = " ".join(CHAT[30:48])
    long = table | {"offer": [f"{text} {footer}" for text in table["offer"]]}

    def trainer(side: str) -> Any:
        model = stage.model(length=20)
        model.tokenizer.truncation_side = side
        return stage.trainer(ranking, long, model, learning_rate=1e-3)

    suffers(stage, trainer("left"), lambda: trainer("right"), on_shelf)


@faulty(
    "queries that contain their offer",
    "tokenizer(queries, offers) encodes both texts as one: the query's embedding is that of query "
    "and offer together.",
    (
        r"(task|pairs?|positives?|too|very|trivial).{0,40}eas(y|ily)|nothing (left )?to learn|"
        r"trivial",
        r"(contain|leak|shar|overlap|copy|copies|same words|common).{0,60}",
        r"(token_type|segment|pair of texts|joined|concatenat)",
        r"(loss|accuracy).{0,60}(zero|near 0|perfect|solved|at once)",
        r"(differ|other).{0,40}(encode|embed|use)",
    ),
)
def query_tokenised_with_its_offer(stage: Stage) -> None:
    """A tokenizer call for a cross-encoder is carried over into the loop of an encoder."""

    def setting(joined: bool) -> Setting:
        model = stage.model()
        draw, optimizer = draws(sales()), adamw(model)

        def update(criterion: Any, step: int) -> None:
            queries, offers = draw()
            model.train()
            inputs = model.tokenizer(list(queries), list(offers) if joined else None, padding=True,
                                     truncation=True, return_tensors="pt")  # fmt: skip
            first = model(dict(inputs))["sentence_embedding"]
            optimizer.zero_grad()
            criterion(first, embed(model, offers)).backward()
            optimizer.step()

        return model, info_nce, update

    slips(stage, lambda: setting(True), lambda: setting(False), share=0.9)


@faulty(
    "eight tokens in training",
    "The loop's tokenizer call cuts all texts at eight tokens, before most of the words in which "
    "offers differ.",
    CUT,
)
def eight_tokens_in_the_loop(stage: Stage) -> None:
    """max_length=8 remains from a test of speed, and the words after it are not trained."""

    def setting(length: int) -> Setting:
        model = stage.model()
        table = sales()
        dear = [f"{' '.join(CHAT[at % 5 : at % 5 + 5])} {text}" for at, text in
                enumerate(table["offer"])]  # fmt: skip
        draw, optimizer = draws(table | {"offer": dear}), adamw(model)

        def rows(texts: list[str]) -> Tensor:
            model.train()
            inputs = model.tokenizer(list(texts), padding=True, truncation=True,
                                     max_length=length, return_tensors="pt")  # fmt: skip
            return model(dict(inputs))["sentence_embedding"]

        def update(criterion: Any, step: int) -> None:
            optimizer.zero_grad()
            criterion(*map(rows, draw())).backward()
            optimizer.step()

        return model, info_nce, update

    slips(stage, lambda: setting(8), lambda: setting(64), share=0.9)


@faulty(
    "tokens masked at a rate of nine tenths",
    "A collator for language models hides nine tenths of the tokens of both texts.",
    (
        r"mask|\[MASK\]|corrupt|hidden|noise|dropped",
        r"(view|embedding|text)s?.{0,60}(differ|noisy|unlike)",
        r"chance|guess|(pairs?|positives?).{0,40}(hard|not told|random)",
        r"(repeat|equal|identical)",
    ),
)
def nine_tenths_of_the_tokens_masked(stage: Stage) -> None:
    """The share of tokens to keep is taken for the share to hide."""

    def setting(share: float) -> Setting:
        model = stage.model()
        draw, optimizer = draws(sales()), adamw(model)
        noise = torch.Generator().manual_seed(2)

        def rows(texts: list[str]) -> Tensor:
            model.train()
            inputs = dict(model.tokenizer(list(texts), padding=True, return_tensors="pt"))
            ids = inputs["input_ids"]
            hide = (torch.rand(ids.shape, generator=noise) < share) & (ids > 4)
            inputs["input_ids"] = ids.masked_fill(hide, model.tokenizer.mask_token_id)
            return model(inputs)["sentence_embedding"]

        def update(criterion: Any, step: int) -> None:
            optimizer.zero_grad()
            criterion(*map(rows, draw())).backward()
            optimizer.step()

        return model, info_nce, update

    slips(stage, lambda: setting(0.9), lambda: setting(0.1))
