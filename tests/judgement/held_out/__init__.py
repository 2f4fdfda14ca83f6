"""The held-out half: faults that people make in their training, and sound set-ups.

It is written by three authors who have read neither the limits nor the first half: one the faults,
two the sound set-ups. The kinds of both halves are listed by `python -m tests.judgement kinds`.
`tests.judgement.truth` has measured beside a mended counterpart that each fault harms, and that
each sound set-up raises its score; both numbers stand with the frozen measurements. The first
score of this half stays in `first_score.json`: of the faults with gradlab as of commit 52ca95d9,
of the sound set-ups as of 2176437c, which had mended the alarms of other sound ones. Verdicts were
mended since.
"""
