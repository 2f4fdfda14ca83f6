"""The held-out half: faults that people report of their own training, and sound set-ups.

It is written by somebody who does not look at the limits, as `tests.judgement.first` is: modules
with functions under `tests.judgement.case.faulty` and `sound`. The kinds of both halves are listed
by `python -m tests.judgement kinds`. Each faulty case names a public thread in which it was met, or
is called common. `tests.judgement.truth` has measured beside a mended counterpart that it harms,
and that each sound set-up raises its score; both numbers stand with the frozen measurements. The
first score of this half stays in `first_score.json`; it is of gradlab as of commit 41a9f211.
Only that score is an estimate: kinds that were missed are being mended, and the cases move to the
first half when fresh ones take their place.
"""
