"""The finished experiments: what was declared, and every table and picture from committed rows.

`first_round` has what each component does, `second_round` what was declared after it. Declarations
are ``first_round_contrasts.toml`` and ``studies/second_round/*.toml``. Nothing here trains: the
commits that did stand beside the rows, in ``figures/study/README.md``.
"""
