"""The held-out half: kinds of faults that the first half does not have, and sound cases.

It is written by somebody who does not look at the limits, as `tests.judgement.first` is: modules
with functions under `tests.judgement.case.faulty` and `sound`. The kinds of both halves are listed
by `python -m tests.judgement kinds`. The first score of this half, made before a verdict is mended
by it, stays in `first_score.json`; cases by which verdicts are then mended join the first half. Of
most cases `tests.judgement.truth` measures whether training helps, beside a mended counterpart.
"""
