"""What people see of work that takes long."""

from __future__ import annotations

import io
import sys
import threading

import pytest

from gradlab import progress_bars


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def tellers() -> set[str]:
    return {thread.name for thread in threading.enumerate()}


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()], ids=["file", "terminal"])
def test_long_work_is_told_of_and_short_work_is_not(stream, monkeypatch):
    monkeypatch.setattr(sys, "stderr", stream)
    with progress_bars.waiting("Short work"):
        pass
    with progress_bars.waiting("Hidden work", visible=False):
        assert "Hidden work" not in tellers()
    monkeypatch.setattr(progress_bars, "PATIENCE", 0.01)
    written = threading.Event()
    write = stream.write
    monkeypatch.setattr(stream, "write", lambda text: (write(text), written.set())[0])
    with progress_bars.waiting("Long work"):
        assert written.wait(20)
    assert "Long work ..." in stream.getvalue()
    assert "Short" not in stream.getvalue()
    assert "Hidden" not in stream.getvalue()
    assert "Long work" not in tellers()  # nothing is left behind


def test_work_that_fails_ends_the_waiting():
    with pytest.raises(ZeroDivisionError), progress_bars.waiting("Work"):
        raise ZeroDivisionError
    assert "Work" not in tellers()


def test_items_pass_one_by_one_and_are_counted(capsys):
    at_once = {"delay": 0, "mininterval": 0}
    assert list(progress_bars.progress_bar("abc", True, desc="Letters", **at_once)) == [
        "a",
        "b",
        "c",
    ]
    assert list(progress_bars.progress_bar(iter("ab"), False, desc="Hidden", **at_once)) == [
        "a",
        "b",
    ]
    assert list(progress_bars.progress_bar("ab", None, desc="No terminal", **at_once)) == ["a", "b"]
    assert list(progress_bars.progress_bar("abc", True, desc="Short")) == ["a", "b", "c"]
    standard_error = capsys.readouterr().err
    assert [f"{count}/3" in standard_error for count in (1, 2, 3)] == [True] * 3
    assert not any(words in standard_error for words in ("Hidden", "No terminal", "Short"))
