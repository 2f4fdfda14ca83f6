"""Damaged files for tests of readers: what a disk, an editor or an enemy makes of a good file.

Shared by the tests of all readers: `damaged_files` mutates the bytes of a file, `damaged_objects`
the content of a JSON object, and `check_read_or_refused` calls a reader, which may succeed or
refuse in one line. Mutations are drawn from a fixed seed, so that a failure is repeatable.

    for name, content in damaged_files(path.read_bytes(), count=50):
        path.write_bytes(content)
        check_read_or_refused(lambda: read_manifest(path), name)
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator
from typing import Any

from gradlab import GradlabError

# A refusal quotes at most this many characters of what it refuses.
LONGEST_MESSAGE = 1200
DEEP = '{"a":' * 100_000 + "1" + "}" * 100_000
# What may stand in place of any value of a JSON object.
REPLACEMENTS: tuple[Any, ...] = (
    None, True, 0, -1, 10**9, 10**30, 0.5, float("nan"), float("inf"), "", "text", "x" * 300,
    "../../elsewhere", "evil.py:loss", [], [1, "two", None], {}, {"name": "value"}, [[]], [{}],
)  # fmt: skip


def damaged_files(content: bytes, count: int, seed: int = 0) -> Iterator[tuple[str, bytes]]:
    """Yield names and contents of damaged files: a few fixed ones, then ``count`` random ones."""
    yield "empty", b""
    yield "spaces", b" \n"
    yield "zeros", b"\0" * len(content)
    yield "twice", content * 2
    yield "another encoding", content.decode("latin-1").encode("utf-16")
    yield "deep JSON", DEEP.encode()
    yield "a list", b"[1, 2, 3]"
    draw = random.Random(seed)
    for number in range(count):
        kind = draw.choice(("cut", "flip", "remove", "insert", "exchange"))
        yield f"{kind} {number}", _damaged(content, kind, draw)


def damaged_objects(
    content: Any, count: int, seed: int = 0, replacements: tuple[Any, ...] = REPLACEMENTS
) -> Iterator[tuple[str, Any]]:
    """Yield names and copies of a JSON object in which an entry is missing or is another value.

    Each entry of the first two levels is removed once; then ``count`` random entries at any depth
    get one of the ``replacements``.
    """
    paths = list(_paths(content))
    for path in paths:
        if len(path) <= 2 and isinstance(path[-1], str):
            damaged = copy.deepcopy(content)
            del _parent(damaged, path)[path[-1]]
            yield f"without {path}", damaged
    draw = random.Random(seed)
    for _ in range(count):
        # Each level with equal probability: most entries lie deep in long lists.
        depth = draw.randint(1, max(map(len, paths)))
        path = draw.choice([path for path in paths if len(path) == depth])
        replacement = draw.choice(replacements)
        damaged = copy.deepcopy(content)
        _parent(damaged, path)[path[-1]] = replacement
        yield f"{path} is {replacement!r:.40}", damaged


def as_json(content: Any) -> str:
    """Return JSON, in which NaN and infinity stand as Python and JavaScript write them."""
    return json.dumps(content)


def check_read_or_refused(read: Callable[[], object], name: str) -> str:
    """Call ``read``; return the message of its GradlabError, or "" if it succeeds.

    Any other error, and a message of several lines, is a failure of the test; ``name`` is told.
    """
    try:
        read()
    except GradlabError as error:
        message = str(error)
        assert message.strip(), f"{name}: a refusal without a word"
        assert "\n" not in message, f"{name}: {message}"
        assert len(message) <= LONGEST_MESSAGE, f"{name}: {len(message)} characters"
        return message
    except Exception as error:
        raise AssertionError(f"{name}: {type(error).__name__}: {error}") from error
    return ""


def _damaged(content: bytes, kind: str, draw: random.Random) -> bytes:
    damaged = bytearray(content)
    place = draw.randrange(len(content))
    end = min(len(content), place + draw.randint(1, 20))
    if kind == "cut":
        del damaged[place:]
    elif kind == "flip":
        damaged[place] ^= 1 << draw.randrange(8)
    elif kind == "remove":
        del damaged[place:end]
    elif kind == "insert":
        damaged[place:place] = draw.choice((b"\0", b"\xff\xfe", b'"', b"{", b"]", b",,", b"1e999"))
    else:
        target = draw.randrange(len(content))
        damaged[target : target + end - place] = content[place:end]
    return bytes(damaged)


def _paths(content: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path to every entry; of long lists, to the first eight."""
    entries: list[tuple[Any, Any]] = []
    if isinstance(content, dict):
        entries = list(content.items())
    elif isinstance(content, list):
        entries = list(enumerate(content[:8]))
    for key, entry in entries:
        yield (*path, key)
        yield from _paths(entry, (*path, key))


def _parent(content: Any, path: tuple[Any, ...]) -> Any:
    for key in path[:-1]:
        content = content[key]
    return content
