"""Pages in Markdown from the templates of a study, and tables as CSV files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from gradlab import templates
from gradlab.files import write_csv
from studies.statistics import six


def render(study: str, template: str, filters: Mapping[str, Any], **content: Any) -> str:
    """Return a page from a template of a study, in which no two blank lines follow one another."""
    text = templates.render(f"studies.{study}", template, filters, **content)
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def write_table(path: Path, table: pd.DataFrame) -> Path:
    """Write a table as a CSV file, with six significant digits."""
    return write_csv(path, dict(table.map(six)))
