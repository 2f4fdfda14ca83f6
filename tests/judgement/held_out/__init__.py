"""The held-out half: faults that people make in their training, and sound set-ups.

It is written by four authors who have read neither the limits nor the first half: two the faults,
two the sound set-ups (modules `k_*` and `l_*`). The kinds of both halves are listed by
`python -m tests.judgement kinds`. `tests.judgement.truth` has measured beside a mended counterpart
that each fault harms, and that each sound set-up raises its score; both numbers stand with the
frozen measurements. The first score of this half stays in `first_score.json`: of the faults of
modules `m_*` and of the sound set-ups with gradlab as of commit 71e81464, of the other faults as of
52ca95d9. No verdict was mended by them since.

Before the sound set-ups were played, remarks were listed that are true of some of them wherever
they are made (see the commit fcb1c69e): two that add adapters to an encoder which was tuned in
memory are told that only the adapter is saved.
"""
