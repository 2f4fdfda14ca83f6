"""Which tasks are evaluated, by which names, and which of them does an average take?"""

from __future__ import annotations

# The seven tasks of an average, as in papers, and how the sub-sets of one become one number.
STS_TASKS = ("STS12", "STS13", "STS14", "STS15", "STS16", "STS-B", "SICK-R")
AGGREGATIONS = ("all", "mean", "wmean")
WITHOUT_DEV = frozenset(STS_TASKS) - {"STS-B", "SICK-R"}
TRANSFER_TASKS = ("MR", "CR", "SUBJ", "MPQA", "SST-2", "TREC", "MRPC")
SPLITS = ("test", "dev")
GROUPS = {"sts": STS_TASKS, "transfer": TRANSFER_TASKS, "all": STS_TASKS + TRANSFER_TASKS}
# Tasks of each name in lower case and without punctuation, with other common spellings.
NAMED = {
    **GROUPS,
    **{name.lower().replace("-", ""): (name,) for name in GROUPS["all"]},
    "stsbenchmark": ("STS-B",),
    "sickrelatedness": ("SICK-R",),
    "sick": ("SICK-R",),
    "sst": ("SST-2",),
}
