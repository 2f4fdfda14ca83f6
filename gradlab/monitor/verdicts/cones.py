"""Are texts told apart whose embeddings lie close together in training, where dropout hides it?"""

from __future__ import annotations

from collections.abc import Mapping

from gradlab.monitor.verdicts.records import Records
from gradlab.verdict import NOT_JUDGED, Verdict

# Name of the verdict on embeddings of which dropout may hide whether they are told apart.
HIDDEN = "hidden by dropout"


def told_in_a_cone(records: Records) -> tuple[str, str] | None:
    """Return a name, and by what texts are told apart, or may be, where dropout hides it."""
    hides = ", in which dropout hides most of what tells them apart"
    give = "A score is measured without dropout: give an evaluator."
    if records.told_in_use:
        return "told in use", f"{hides}. Without dropout, positives rank first."
    if records.nearer_in_a_cone:
        nearer = "; positives are surely nearer than others all the same"
        return "cone under dropout", f"{hides}{nearer}. {give}"
    if records.hidden_by_dropout:
        words = "By their words, the texts of a row belong together"
        return HIDDEN, f"{hides}. {words}. {give}"
    return None


def close_in_training(
    name: str, why: str, finding: str, evidence: Mapping[str, float], cosines: str = ""
) -> Verdict:
    """Return that the spread is not judged by cosines that lie close together under dropout."""
    finding = f"{finding}{why}" + (f" At the end {cosines}." if cosines else "")
    return Verdict("Spread", NOT_JUDGED, finding, name=name, evidence=evidence)
