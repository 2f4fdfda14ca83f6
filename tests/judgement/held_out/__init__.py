"""The held-out half: kinds of faults that the first half does not have, and sound cases.

It is written by somebody who does not look at the limits, as `tests.judgement.first` is: modules
with functions under `tests.judgement.case.faulty` and `sound`. The kinds of both halves are listed
by `python -m tests.judgement kinds`. The first score of this half was made with gradlab as of
commit 619fcb13, before a verdict was mended by it; it stays in `first_score.json`. Of most cases
`tests.judgement.truth` has measured whether training helps, beside a mended counterpart.
"""
