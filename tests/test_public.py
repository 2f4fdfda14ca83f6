"""What is public changes knowingly only: docs/reference/public.md says what that means."""

from __future__ import annotations

import difflib

from tests.public import LIST, lines


def test_what_is_public_is_as_listed():
    listed = LIST.read_text(encoding="utf-8").splitlines()
    changes = list(difflib.unified_diff(listed, lines(), "tests/public.txt", "gradlab", n=0))
    assert not changes, (
        "what is public has changed. If that is meant, write it in CHANGELOG.md and remake the "
        "list by `python -m tests.public`:\n" + "\n".join(changes)
    )
