"""Print which files of figures/study differ between two checkouts, and which columns of tables.

git worktree add ../before COMMIT
(cd ../before && python -m studies report)
python -m studies report
python tests/manual/same_figures.py ../before/figures/study figures/study
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

KINDS = (".csv", ".png", ".md", ".json")


def differences(before: Path, after: Path) -> Iterator[str]:
    """Yield a line for each file that is missing or differs, byte by byte."""
    names = sorted(
        {path.relative_to(folder) for folder in (before, after) for path in folder.rglob("*.*")}
    )
    same = 0
    for name in names:
        paths = before / name, after / name
        if name.suffix not in KINDS:
            continue
        if not all(path.exists() for path in paths):
            yield f"{name}: only {'before' if paths[0].exists() else 'after'}"
        elif paths[0].read_bytes() == paths[1].read_bytes():
            same += 1
        elif name.suffix == ".csv":
            yield f"{name}: {changed_columns(*map(pd.read_csv, paths))}"
        else:
            yield f"{name}: differs"
    yield f"{same} files are the same"


def changed_columns(before: pd.DataFrame, after: pd.DataFrame) -> str:
    """Name the columns that were added, removed or changed, or the numbers of rows."""
    if len(before) != len(after):
        return f"{len(before)} rows, then {len(after)}"
    added = after.columns.difference(before.columns)
    removed = before.columns.difference(after.columns)
    common = before.columns.intersection(after.columns)
    changed = [column for column in common if not before[column].equals(after[column])]
    return f"added {list(added)}, removed {list(removed)}, changed {changed}"


if __name__ == "__main__":
    for line in differences(Path(sys.argv[1]), Path(sys.argv[2])):
        print(line)
