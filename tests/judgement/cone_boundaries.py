"""Runs on either side of the limits on embeddings that lie close together under dropout."""

from __future__ import annotations

from gradlab.monitor.verdicts.records import RANKED_IN_USE
from gradlab.monitor.view_texts import PARTNERS
from tests.judgement.case import Row
from tests.judgement.run_boundaries import LOG_8, Series, at_once, frozen, own
from tests.judgement.titled_runs import Run


def together(cosine: float, told: float = 1.0, ranked: float = 0.5, **series: object) -> Series:
    """Positives as near as other rows, and how far their words tell which belong together."""
    cosines = dict.fromkeys(("positive_cosine", "negative_cosine"), cosine)
    words = {PARTNERS["told"]: told, "ranking_accuracy": ranked, "batch_loss": 2.0}
    return {"effective_rank": 20.0, **cosines, **words, **series}


def collapsed(**series: object) -> Series:
    """The same in a cone into which embeddings have come."""
    cosines = dict.fromkeys(("positive_cosine", "negative_cosine"), at_once(0.8, 0.985))
    return together(0.985) | cosines | {"effective_rank": at_once(8.0, 2.2)} | series


ASKS = own(8, 0.0, LOG_8, 20.0, 0.0)
IN_USE = {PARTNERS["told"]: 0.5}
KNOWN = {"config": {"loss": "infonce"}, "watch": {"known": {"": True}}}
GUESSED = {"uniform_share": 1 / 15, "batch_loss": at_once(2.9, 2.77)}
CONE_RUNS = [
    Run("words that belong together", together(0.95, 0.93), "Pairs", "", "", ASKS),
    Run("words that belong together less", together(0.95, 0.86), "Pairs", "watch", "", ASKS),
    Run("words that hardly belong together", together(0.95, 0.82), "Pairs", "watch", "", ASKS),
    Run("words that belong together farther apart", together(0.93), "Pairs", "watch", "", ASKS),
    Run("words that belong together at 0.89", together(0.89), "Pairs", "watch", "", ASKS),
    Run("words that belong together at 0.96", together(0.96), "Spread", "not judged", "words",
        ASKS),
    Run("a loss that asks for right pairs", together(0.95), "Pairs", "", "",
        own(8, 0.4, 1.0, 20.0, 0.4)),
    Run("a loss that hardly asks for them", together(0.95), "Pairs", "watch", "",
        own(8, 0.7, 1.0, 20.0, 0.7)),
    Run("a loss that is known", together(0.95), "Pairs", "", "", KNOWN),
    Run("a cone in which words belong together", collapsed(), "Spread", "not judged",
        "give an evaluator", ASKS),
    Run("a cone in which words do not", collapsed(**IN_USE), "Spread", "watch", "collapse", ASKS),
    Run("a cone with views that were nearer, and a loss that falls", collapsed(
        ranking_accuracy=[0.75] * 13 + [0.65] * 27, batch_loss=at_once(2.0, 1.95)), "Spread",
        "not judged", "words", ASKS),
    Run("a cone with views that were nearer, and a loss that grows", collapsed(
        ranking_accuracy=[0.75] * 13 + [0.65] * 27, batch_loss=at_once(2.0, 2.3)), "Spread",
        "watch", "collapse", ASKS),
    Run("a cone without order, and a loss that grows", collapsed(
        ranking_accuracy=at_once(0.9, 0.55), batch_loss=at_once(2.0, 2.3)), "Spread",
        "not judged", "words", ASKS),
    Run("partners that rank first without dropout", together(0.8, **IN_USE
        | {RANKED_IN_USE: 0.93}), "Pairs", ""),
    Run("partners that rank well without dropout", together(0.8, **IN_USE
        | {RANKED_IN_USE: 0.86}), "Pairs", "watch"),
    Run("partners that rank above chance without dropout", together(0.8, **IN_USE
        | {RANKED_IN_USE: 0.82}), "Spread", "watch", "hardly told apart"),
    Run("partners in a cone that rank first without dropout", collapsed(**IN_USE
        | {RANKED_IN_USE: 0.93}), "Spread", "not judged", "Without dropout"),
    Run("cosines close together of partners that rank first without dropout", together(0.8,
        **IN_USE | {RANKED_IN_USE: 0.93}), "Spread", "not judged", "Without dropout"),
    Run("guessing where partners rank first without dropout", together(0.8, **IN_USE
        | {RANKED_IN_USE: 0.93} | GUESSED), "Loss", "not judged", "near", KNOWN),
    Run("guessing where partners do not", together(0.8, **IN_USE | {RANKED_IN_USE: 0.86}
        | GUESSED), "Loss", "watch", "guessing", KNOWN),
]  # fmt: skip


def rows() -> list[Row]:
    """Return each row as a frozen run."""
    return [
        Row(f"{run.title}: {run.subject} {run.grade}", "report", frozen(run.series, run.options),
            run.subject, run.grade, run.words)
        for run in CONE_RUNS
    ]  # fmt: skip
