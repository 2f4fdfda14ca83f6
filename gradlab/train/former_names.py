"""Under which names do runs of earlier versions know the settings of a training?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gradlab.errors import GradlabError

# The name of a setting in earlier versions, and the name that it has now.
RENAMED = {
    "second_column": "positive_column",
    "positives": "positives_per_row",
    "sts": "eval_data",
}
# Settings of earlier versions that no run has now, and their value where they were off.
_RETIRED = {"open_shares": None, "open_shares_use": "random"}


def with_present_names(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings by their present names; GradlabError if one that is gone was in use."""
    for name, off in _RETIRED.items():
        if content.get(name, off) != off:
            raise GradlabError(
                f"the setting {name} no longer exists; runs that used it are continued by gradlab "
                "at the commit in their manifest"
            )
    return {
        RENAMED.get(name, name): entry for name, entry in content.items() if name not in _RETIRED
    }
