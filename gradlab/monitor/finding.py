"""What a failure of training is, and when a series of records shows one for good."""

from __future__ import annotations

from dataclasses import dataclass

# Records in a row that must show a failure.
PERSISTENT = 3


@dataclass(frozen=True)
class Finding:
    """A failure that training shows.

    Attributes:
        name: a short name.
        step: where it was first seen for sure.
        headline: what is wrong, one sentence.
        advice: what to do about it.
    """

    name: str
    step: int
    headline: str
    advice: str


def persists(failing: list[bool], records: int = PERSISTENT) -> int | None:
    """Index of the record at which a failure has been there for ``records`` in a row, or None."""
    run = 0
    for place, fails in enumerate(failing):
        run = run + 1 if fails else 0
        if run == records:
            return place
    return None
