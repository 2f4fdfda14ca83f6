"""Tables whose columns were filled wrongly between their source and the trainer."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from sentence_transformers.sentence_transformer import losses
from torch.utils.data import BatchSampler, SequentialSampler

from tests.judgement.case import faulty
from tests.judgement.first.beside import UNRELATED
from tests.judgement.first.bodies import encoder, words_of
from tests.judgement.first.fields import CODE, HELPDESK, PAPERS
from tests.judgement.stage import Stage, facts, pairs, passage, triplets
from tests.judgement.truth import among_alike, in_one_place, suffers

QUICK = {"learning_rate": 1e-3, "max_steps": 50}
REPEATED = (
    r"(?i)duplicat|repeat|(same|equal|identical) (text|passage|positive|answer|row)s?|"
    r"(few|\d+) (distinct|different|unique)|false negatives?|cop(y|ies)",
)


def tables_beside(
    stage: Stage,
    faulty_table: Mapping[str, Sequence[Any]],
    mended: Mapping[str, Sequence[Any]],
    score: Any = among_alike,
    *,
    loss: Any = losses.MultipleNegativesRankingLoss,
    words: Sequence[Mapping[str, Sequence[Any]]] = (),
    **settings: Any,
) -> None:
    """Train by a faulty table beside a mended one; ``words`` are tables of whole words."""

    def trainer(table: Mapping[str, Sequence[Any]]) -> Any:
        model = encoder(stage, words_of(words)) if words else stage.model()
        return stage.trainer(loss, table, model, **{**QUICK, **settings})

    suffers(stage, trainer(faulty_table), lambda: trainer(mended), score)


@faulty(
    "passage number between question and passage",
    "The number of the passage is the second column: it is the positive, and the passage that "
    "answers is its hard negative.",
    [
        r"(?i)\bids?\b|identifier|(row|passage|document) numbers?|numeric|digits?",
        r"(?i)column.{0,60}(order|role|swap|exchang|wrong|second|not (a )?text)",
        r"(?i)negatives?.{0,80}(closer|nearer|more (similar|alike)|true|fit|answer|positive)",
        r"(?i)positives?.{0,60}(short|no words|not (a )?text|one (word|token))",
    ],
)
def number_of_the_passage_as_positive(stage: Stage) -> None:
    """Tables of retrieval hold `query, docid, text`, and were not cut down to the texts."""
    table = pairs()
    numbers = [f"{7000000 + 37 * at}" for at in range(160)]
    slipped = {"query": table["anchor"], "docid": numbers, "text": table["positive"]}
    tables_beside(stage, slipped, table)


@faulty(
    "gaps filled from the row above",
    "Missing positives were filled with that of the row above: most positives belong to another "
    "anchor.",
    [*UNRELATED, *REPEATED, r"(?i)fill|missing|gaps?"],
)
def gaps_filled_from_above(stage: Stage) -> None:
    """`ffill` on a table in which merged cells were expected."""
    table, draw = HELPDESK.table(200), random.Random(5)
    filled = list[str]()
    for text in table["answer"]:
        filled.append(text if not filled or draw.random() < 0.08 else filled[-1])
    words = [table, HELPDESK.table(60, seed=11)]
    tables_beside(stage, table | {"answer": filled}, table, HELPDESK.sought, words=words)


@faulty(
    "pseudonyms drawn anew for each text",
    "Names were replaced by random codes, another one in each text: what question and passage have "
    "in common is gone.",
    [
        *UNRELATED,
        r"(?i)pseudonym|anonymi|codes?\b|unknown (word|token)|\[?unk\]?|random (string|word)s?",
        r"(?i)(no|few|hardly any|little).{0,20}words? in common|share (no|few|hardly)|"
        r"(nothing|little) in common|overlap",
    ],
)
def pseudonyms_of_each_text_by_itself(stage: Stage) -> None:
    """Personal data were masked by a tool that is run on each text."""
    table, draw = pairs(200), random.Random(6)
    plain_words = {"ka", "?", "."}

    def masked(text: str) -> str:
        words = text.split()
        return " ".join(w if w in plain_words else f"x{draw.randrange(10**6)}" for w in words)

    slipped = {name: list(map(masked, texts)) for name, texts in table.items()}
    tables_beside(stage, slipped, table)


@faulty(
    "hard negatives of another domain",
    "The negatives come from another field: they are told from the positives at once, and nothing "
    "within the field is learned.",
    [
        r"(?i)(negatives?|task|triplets?).{0,80}(easy|trivial|far|another (field|domain|topic)|"
        r"unrelated|solved|told apart)",
        r"(?i)too easy|loss.{0,40}(is|at|of|near|reaches|falls to|already) (0|zero)\b|"
        r"nothing (left )?to learn|inactive|no gradient|margin.{0,40}(met|kept|satisf|reached)",
    ],
)
def negatives_of_another_domain(stage: Stage) -> None:
    """Negatives were drawn from another data set, since the own one has none."""
    table = triplets(200)
    draw = random.Random(2)
    letters = "wxqyjc"
    strange = [" ".join("".join(draw.choices(letters, k=5)) for _ in range(8)) for _ in range(200)]
    settings = {"max_steps": 60, "learning_rate": 2e-3}

    def triplet_loss(model: Any) -> Any:
        metric = losses.TripletDistanceMetric.COSINE
        return losses.TripletLoss(model, distance_metric=metric, triplet_margin=0.3)

    tables_beside(
        stage, table | {"negative": strange}, table, in_one_place, loss=triplet_loss, **settings
    )


@faulty(
    "augmented copies of a row in one batch",
    "Each pair was copied sixteen times with other fillers, and rows are read in order: all rows "
    "of a batch are the same pair, and are pushed apart.",
    [
        *REPEATED,
        r"(?i)augment|order of (the )?rows|not shuffled|shuffl|sorted|sequential|near(ly)? "
        r"(the same|equal|identical)|alike (rows|texts)|in-batch negatives?.{0,60}(alike|close|"
        r"similar)",
    ],
)
def augmented_copies_side_by_side(stage: Stage) -> None:
    """Copies were written behind their row, and the sampler keeps the order of a file."""
    table_facts = facts(50)
    draw = random.Random(9)
    copies = [(fact, draw.randint(3, 97)) for fact in table_facts for _ in range(16)]
    slipped = {
        "anchor": [f"ka {' '.join(fact[:4])} ?" for fact, _ in copies],
        "positive": [passage((*fact[:5], str(number))) for fact, number in copies],
    }
    order = draw.sample(range(len(copies)), len(copies))
    mended = {name: [texts[at] for at in order] for name, texts in slipped.items()}
    tables_beside(stage, slipped, mended, batch_sampler=in_order)


def in_order(rows: Any, batch_size: int, drop_last: bool, **_: Any) -> BatchSampler:
    """Batches of rows in the order of their file."""
    return BatchSampler(SequentialSampler(rows), batch_size, drop_last)


REFUSAL = "i am sorry , but as a language model i can not help with that request ."


@faulty(
    "refusals of a language model as positives",
    "Nine of ten positives are the same refusal of the language model that was to write them.",
    [*REPEATED, r"(?i)refus|sorry|language model|placeholder|boilerplate|no text"],
)
def refusals_among_the_positives(stage: Stage) -> None:
    """Positives were generated, and nobody read them."""
    table = HELPDESK.table(200)
    texts = [text if at % 10 == 0 else REFUSAL for at, text in enumerate(table["answer"])]
    words = [table, {"answer": [REFUSAL]}, HELPDESK.table(60, seed=11)]
    tables_beside(stage, table | {"answer": texts}, table, HELPDESK.sought, words=words)


@faulty(
    "summary column sorted by its key",
    "Titles came in the order of the file, and abstracts in the order of a dictionary that was "
    "sorted by its texts: they belong to other rows.",
    [*UNRELATED, r"(?i)sort|order of (the )?rows|alphabet"],
)
def abstracts_sorted_by_their_words(stage: Stage) -> None:
    """`sorted(set(abstracts))` was to remove duplicates."""
    table = PAPERS.table(200)
    slipped = table | {"abstract": sorted(set(table["abstract"]))}
    tables_beside(stage, slipped, table, PAPERS.sought, words=[table, PAPERS.table(60, seed=11)])


@faulty(
    "question quoted as the whole of its answer",
    "The answers of a forum begin with the quoted question and were cut behind it: each positive "
    "is its anchor.",
    [
        r"(?i)(positives?|columns?|texts?|pairs?).{0,60}(equal|same|identical|cop(y|ies)|repeat)",
        r"(?i)(copies|repeats?|equals?|identical to|same as) (of )?(the|its|their) "
        r"(anchor|question)|quot|too easy|nothing to learn|trivial",
    ],
)
def answers_cut_behind_the_quotation(stage: Stage) -> None:
    """Posts that quote, cut to their first lines."""
    table = HELPDESK.table(200)
    slipped = table | {"answer": [f"> {text}" for text in table["question"]]}
    words = [table, slipped, HELPDESK.table(60, seed=11)]
    tables_beside(stage, slipped, table, HELPDESK.sought, words=words)


@faulty(
    "signature that makes up the positive",
    "Positives hold the licence at the head of each file and not the code below it.",
    [
        *REPEATED,
        r"(?i)licen[cs]e|header|boilerplate|head of|template|opening|(begin|start)s? (with|alike)",
    ],
)
def licence_in_place_of_the_code(stage: Stage) -> None:
    """Files of code were cut to their first lines."""
    table, draw = CODE.table(200), random.Random(3)
    years = [
        f"copyright {draw.randint(2009, 2012)} the authors . all rights reserved ."
        for _ in range(200)
    ]
    words = [table, {"code": years}, CODE.table(60, seed=11)]
    tables_beside(stage, table | {"code": years}, table, CODE.sought, words=words)
