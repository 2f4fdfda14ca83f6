"""Is what is watched an objective that is to grow, such as a likelihood, and is maximised?"""

from __future__ import annotations

from collections.abc import Sequence

from gradlab.verdict import NOT_JUDGED, Verdict

# Names of verdicts that a criterion's own sign gives, and of those on the sign of its steps; and of
# others that read a criterion as a loss.
OF_CRITERION, OF_STEPS = "loss reversed", ("loss maximised", "steps uphill")
AS_A_LOSS = ("push reversed", "ratio too low", "loss rises", "loss does not fall")


def signs_agree(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Return the verdicts without those on the sign, if a criterion and its steps both have it.

    A likelihood or a margin grows as pairs come together: to maximise it, by ``maximize=True`` or
    ``(-value).backward()``, is as right as to minimise a loss. Both together undo each other.
    """
    names = [verdict.name for verdict in verdicts]
    if OF_CRITERION not in names or sum(name in names for name in OF_STEPS) != 1:
        return list(verdicts)
    finding = "The criterion grows as pairs come together, and it is maximised, as an objective is."
    dropped = (OF_CRITERION, *OF_STEPS, *AS_A_LOSS)
    remaining = [verdict for verdict in verdicts if verdict.name not in dropped]
    return [*remaining, Verdict("Formula", NOT_JUDGED, finding, name="objective maximised")]
