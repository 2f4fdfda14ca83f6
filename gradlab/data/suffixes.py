"""Which endings of file names stand for which format, and which for a compression?"""

from __future__ import annotations

import bz2
import gzip
import lzma
from pathlib import Path
from typing import Any

FORMATS = (
    ".txt, .jsonl, .json, .csv, .tsv (these also with .gz, .xz or .bz2), .parquet, .arrow, "
    "a dataset saved to disk, or a folder in BEIR's layout"
)
JSON, PARQUET, ARROW = (".jsonl", ".ndjson", ".json"), (".parquet", ".pq"), (".arrow",)
SEPARATED = (".csv", ".tsv")
_OPENERS: dict[str, Any] = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}


def form_of(path: Path) -> tuple[str, Any]:
    """Return the lower-case ending of a file's format, without compression, and its opener."""
    endings = [ending.lower() for ending in path.suffixes]
    opener = _OPENERS[endings.pop()] if endings and endings[-1] in _OPENERS else open
    return endings[-1] if endings else "", opener
