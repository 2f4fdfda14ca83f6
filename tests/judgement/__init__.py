"""The test of judgement: labelled set-ups and runs, and what gradlab's verdicts say of them.

`python -m tests.judgement` lists the commands. The measurements of each case are frozen as a small
JSON file; a verdict is a function of them, so that the whole set is judged in seconds.
"""
