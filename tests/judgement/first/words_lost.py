"""Tokenizers and cleaning steps that lose the words by which texts differ."""

from __future__ import annotations

import random
from typing import Any

from sentence_transformers.sentence_transformer import losses

from tests.judgement.case import faulty
from tests.judgement.first.bodies import encoder, words_of
from tests.judgement.first.fields import CODE, Field
from tests.judgement.stage import Stage
from tests.judgement.truth import correlation, retrieval, suffers

QUICK = {"learning_rate": 2e-3, "max_steps": 60}
ALIKE = (
    r"(?i)(same|equal|identical|alike).{0,60}(token|text|row|after)|token.{0,60}(same|equal|alike|"
    r"identical)|duplicat|indistinguish|collision",
)
ORDERS = Field(
    {
        "number": " ".join(f"{at}/{at + 400}" for at in range(101, 151)),
        "ware": "boots/footwear kettle/appliance lamp/lighting violin/instrument tent/outdoor",
    },
    {
        "query": "where is order {number} of a {ware}",
        "note": "{ware} , our number {number} , left the store",
    },
)
FUNCTIONS = Field(
    {
        "verb": "sort/order count/len merge/join split/partition filter/select reverse/flip "
        "flatten/chain shuffle/permute",
        "noun": "list/array words/str rows/frame files/path dates/datetime users/account "
        "pixels/image prices/decimal",
        "by": "size/nbytes name/key age/years colour/rgb weight/grams score/rank",
    },
    {"description": "{verb} the {noun} by their {by}", "name": "def {verb}_{noun}_by_{by}"},
)


@faulty(
    "numbers made alike by a normaliser",
    "The tokenizer writes 0 for all numbers, by which the texts differ.",
    [*ALIKE, r"(?i)number|digit|figure|normali[sz]er"],
)
def numbers_written_as_nought(stage: Stage) -> None:
    """A normaliser that was made for the topics of news reads orders."""
    from tokenizers import Regex, normalizers

    table, sought = ORDERS.table(160), ORDERS.table(40, seed=11)

    def trainer(slip: bool) -> Any:
        model = encoder(stage, words_of([table, sought], "0"))
        if slip:
            model.tokenizer.backend_tokenizer.normalizer = normalizers.Sequence(
                [normalizers.Lowercase(), normalizers.Replace(Regex(r"\d+"), "0")]
            )
        return stage.trainer(losses.MultipleNegativesRankingLoss, table, model, **QUICK)

    # All numbers are seen in training, and other pairs of number and ware are sought.
    suffers(stage, trainer(True), lambda: trainer(False), ORDERS.sought)


@faulty(
    "identifiers that are never split",
    "Names of functions are a word each to the tokenizer, and all of them are unknown to it.",
    [
        *ALIKE,
        r"(?i)\[?unk\]?\b|unknown|vocabulary|out-of-vocab|not (know|in the vocab)|identifier|"
        r"underscore",
    ],
)
def identifiers_as_single_words(stage: Stage) -> None:
    """A tokenizer of words that splits at spaces only reads code."""
    from tokenizers import pre_tokenizers

    table, sought = FUNCTIONS.table(200), FUNCTIONS.table(60, seed=11)
    words = " ".join(words_of([table, sought])).replace("_", " ").split()

    def trainer(slip: bool) -> Any:
        model = encoder(stage, words)
        if not slip:
            model.tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
                [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Split("_", "removed")]
            )
        return stage.trainer(losses.MultipleNegativesRankingLoss, table, model, **QUICK)

    suffers(stage, trainer(True), lambda: trainer(False), FUNCTIONS.sought)


def claims(count: int, seed: int = 0) -> dict[str, list[Any]]:
    """Two claims about a ware, which agree (1) or of which one denies the other (0)."""
    draw, table = random.Random(seed), {"sentence1": [], "sentence2": [], "score": []}
    for at in range(count):
        ware = draw.choice(["kettle", "lamp", "tent", "drill", "sofa", "bike", "desk"])
        kind = draw.choice(["good", "cheap", "heavy", "quiet", "safe", "red", "new", "small"])
        place = draw.choice(["kitchen", "garden", "office", "cellar", "attic"])
        first, second = draw.choice([(0, 0), (1, 1)] if at % 2 else [(0, 1), (1, 0)])
        denials = ["not " * denies for denies in (first, second)]
        table["sentence1"].append(f"the {ware} in the {place} is {denials[0]}{kind}")
        table["sentence2"].append(f"{kind} it is {denials[1]}, my {ware} there ({place})")
        table["score"].append(float(at % 2))
    return table


@faulty(
    "negations among the stop words",
    "A list of stop words holds 'not': what tells pairs of score 0 from pairs of score 1 is gone.",
    [
        *ALIKE,
        r"(?i)stop ?words?|negation|contradict|(scores?|labels?).{0,80}(not (fit|follow|tell)|"
        r"unrelated|noise|no relation)|equal (texts|pairs|views)|cop(y|ies)",
    ],
)
def negations_dropped_as_stop_words(stage: Stage) -> None:
    """A cleaning step of searches by keywords is put before an encoder."""
    table = claims(300)
    cleaned = {
        name: [text.replace("not ", "") for text in table[name]]
        for name in ("sentence1", "sentence2")
    } | {"score": table["score"]}

    def trainer(rows: dict[str, list[Any]]) -> Any:
        model = encoder(stage, words_of([table]))
        return stage.trainer(losses.CosineSimilarityLoss, rows, model, **QUICK)

    suffers(
        stage,
        trainer(cleaned),
        lambda: trainer(table),
        lambda model: correlation(model, claims(100, seed=11)),
    )


CLOSING = " represent the text above for a search of code by what it does , in one word :"


@faulty(
    "closing instruction kept where the text is cut off",
    "An instruction behind each text fills the window, and the tokenizer cuts at the left: all "
    "rows are the instruction alone.",
    [*ALIKE, r"(?i)truncat|cut off|window|max_seq_length|too long|instruction|prompt|suffix"],
)
def instruction_behind_texts_cut_at_the_left(stage: Stage) -> None:
    """Decoders are asked behind the text, with `truncation_side="left"` and a short window."""
    table, sought = CODE.table(200), CODE.table(60, seed=11)
    asked = {name: [text + CLOSING for text in texts] for name, texts in table.items()}

    def trainer(length: int) -> Any:
        model = encoder(
            stage, words_of([asked, sought]), kind="granite", pooling="lasttoken", length=length
        )
        model.tokenizer.truncation_side = "left"
        settings = {"learning_rate": 2e-3, "max_steps": 40}
        return stage.trainer(losses.MultipleNegativesRankingLoss, asked, model, **settings)

    def score(model: Any) -> float:
        texts = {name: [text + CLOSING for text in column] for name, column in sought.items()}
        return retrieval(model, texts)

    suffers(stage, trainer(16), lambda: trainer(64), score)
