"""Texts that are none: missing cells, addresses in place of texts, rows that a join multiplied."""

from __future__ import annotations

from torch.utils.data import BatchSampler, SequentialSampler

from tests.judgement.case import DOCTOR, INSPECT, REPORT, faulty
from tests.judgement.stage import Stage, pairs
from tests.judgement.truth import among_alike, suffers
from tests.sentence_training import losses

ranking = losses.MultipleNegativesRankingLoss
MISSING = (
    r"\bnan\b", r"missing", r"empty", r"\bnone\b", r"placeholder", r"null", r"same text",
    r"duplicat", r"repeat", r"identical", r"distinct", r"false negative", r"stands? in \d+ rows",
)  # fmt: skip
ADDRESSES = (
    r"\burls?\b", r"link", r"address", r"path", r"file", r"http", r"not (a )?(text|sentence|prose)",
    r"(no|few|without) (words|natural|common)", r"\bids?\b", r"identifier", r"markup", r"keys?\b",
    r"(nothing|no word|little|few words) in common", r"overlap", r"unrelated", r"subword",
    r"(same|common|shared) (beginning|prefix|start)", r"tokens? (per|for each|a) word", r"\[UNK\]",
    r"begin.{0,40}same", r"digits?", r"numbers?",
)  # fmt: skip
MULTIPLIED = (
    r"duplicat", r"repeat", r"distinct", r"(same|identical) (row|text|pair|question|answer)s?",
    r"false negative", r"stands? in \d+ rows", r"cop(y|ies)", r"several times", r"share a text",
    r"(once|twice|\d+ times)", r"unique",
)  # fmt: skip


@faulty(
    "empty cells turned into the word nan",
    "A join found no answer for two thirds of the questions, and astype(str) made the text 'nan' "
    "of the empty cells.",
    MISSING,
    tools=(DOCTOR, REPORT, INSPECT),
)
def cells_that_say_nan(stage: Stage) -> None:
    table = pairs()
    table["positive"] = [
        text if at % 3 == 0 else "nan" for at, text in enumerate(table["positive"])
    ]
    suffers(
        stage, stage.trainer(ranking, table), lambda: stage.trainer(ranking, pairs()), among_alike
    )
    stage.inspect(table)


@faulty(
    "addresses of documents in place of their texts",
    "The positive column holds the addresses of the answers' files; nobody has loaded the files.",
    ADDRESSES,
    tools=(DOCTOR, REPORT, INSPECT),
)
def addresses_for_answers(stage: Stage) -> None:
    table = pairs()
    table["positive"] = [
        f"https://dada.ne/lu/{7919 * at % 100003:06d}.txt" for at in range(len(table["positive"]))
    ]
    suffers(
        stage, stage.trainer(ranking, table), lambda: stage.trainer(ranking, pairs()), among_alike
    )
    stage.inspect(table)


@faulty(
    "rows multiplied by a join",
    "A join on a column that is no key made sixteen copies of each of ten rows, side by side and "
    "read in this order; the negatives of a batch are copies of the positive.",
    MULTIPLIED,
    tools=(DOCTOR, REPORT, INSPECT),
)
def rows_multiplied_by_a_join(stage: Stage) -> None:
    table = {name: [texts[at // 16] for at in range(160)] for name, texts in pairs().items()}
    trainer = stage.trainer(ranking, table)
    trainer.get_batch_sampler = lambda dataset, batch_size, drop_last, **_: BatchSampler(
        SequentialSampler(dataset), batch_size, drop_last
    )
    suffers(stage, trainer, lambda: stage.trainer(ranking, pairs()), among_alike)
    stage.inspect(table)
