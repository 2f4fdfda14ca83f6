"""What the cases of this half have in common: losses, samplers, regular expressions, set-ups."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sentence_transformers import SentenceTransformerTrainer

from tests.judgement.case import DOCTOR, INSPECT, REPORT
from tests.judgement.stage import Stage
from tests.judgement.truth import SHARE, among_alike, falls_short, suffers
from tests.sentence_training import losses
from tests.tiny_models import WORDS

ANYWHERE = (INSPECT, DOCTOR, REPORT)
# More of the same training would not help.
LONGER = r"train (for )?(longer|more)|more (steps|epochs)|longer training"
REPEATED = (
    r"repeat|duplicat|\bcop(y|ies)\b|same (text|sentence|passage|question|anchor|positive)|"
    r"identical|distinct|more than once|several times|equal texts|occurs?|share a text"
)
FALSE_NEGATIVE = (
    r"false negative|negatives?.{0,100}(positive|relevant|right|true|correct|same)|"
    r"in-batch negatives?.{0,80}(same|equal|repeat|duplicat|related)|no.duplicates"
)
UNRELATED = (
    r"(no|few|hardly any|fewer) words? in common|words?.{0,40}(shared|overlap|in common)|"
    r"(pairs?|columns?|positives?).{0,80}(nothing in common|unrelated|at chance|no more alike)"
)
TOKENS = r"token|sub-?word|piece|vocabular|\bUNK\b|unknown|spelling|characters|letters"
CUT = r"truncat|cut (off|short)|too long|longer than|max_seq_length|length"


def ranking(model: Any) -> Any:
    return losses.MultipleNegativesRankingLoss(model)


def cosine_triplet(model: Any) -> Any:
    return losses.TripletLoss(model, losses.TripletDistanceMetric.COSINE, 0.3)


class InOrder(SentenceTransformerTrainer):
    """A trainer that takes its rows in the order in which they stand."""

    def get_batch_sampler(self, dataset: Any, batch_size: int, drop_last: bool, **_: Any) -> Any:
        from sentence_transformers.base.sampler import DefaultBatchSampler
        from torch.utils.data import SequentialSampler

        return DefaultBatchSampler(SequentialSampler(dataset), batch_size, drop_last)


def is_text(column: Sequence[Any]) -> bool:
    return isinstance(column[0], str)


def mistaught(
    stage: Stage,
    table: Mapping[str, Sequence[Any]],
    mended: Mapping[str, Sequence[Any]],
    score: Callable[[Any], float] = among_alike,
    *,
    loss: Any = ranking,
    share: float | None = SHARE,
    better: Mapping[str, Any] | None = None,
    **settings: Any,
) -> None:
    """Inspect columns, train by them, and by mended columns or ``better`` settings."""
    stage.inspect({name: texts for name, texts in table.items() if is_text(texts)})
    suffers(
        stage,
        stage.trainer(loss, table, **settings),
        lambda: stage.trainer(loss, mended, **{**settings, **(better or {})}),
        score,
        share=share,
    )


def inspected(
    stage: Stage,
    table: Mapping[str, Sequence[Any]],
    mended: Mapping[str, Sequence[Any]],
    score: Callable[[Any], float] = among_alike,
    *,
    share: float | None = SHARE,
    better: Mapping[str, Any] | None = None,
    **settings: Any,
) -> None:
    """Inspect columns, and train by them and by mended ones without a watch."""
    stage.inspect(table)
    if stage.frozen:
        scores = [trained(stage.trainer(ranking, table, **settings), score)]
        scores.append(
            trained(stage.trainer(ranking, mended, **{**settings, **(better or {})}), score)
        )
        falls_short(stage, *scores, share=share)


def trained(trainer: Any, score: Callable[[Any], float]) -> tuple[float, float]:
    """Train without a watch; return the score before and after."""
    before = score(trainer.model)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        trainer.train()
    return before, score(trainer.model)


def translated(text: str, shift: int = 17) -> str:
    """Another language: each word is another one of the vocabulary."""
    places = {word: at for at, word in enumerate(WORDS)}
    return " ".join(
        WORDS[(places[word] + shift) % len(WORDS)] if word in places else word
        for word in text.split()
    )


def pretrained(stage: Stage, table: Mapping[str, Sequence[Any]], **settings: Any) -> Path:
    """Train an encoder by pairs, and return the folder that its transformer is saved in."""
    trainer = stage.trainer(ranking, table, **settings)
    trained(trainer, lambda _: 0.0)
    folder = stage.folder / "pretrained"
    trainer.model[0].model.save_pretrained(folder)
    trainer.model.tokenizer.save_pretrained(folder)
    return folder
