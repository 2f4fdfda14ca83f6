"""Habits of language that stop readers, counted in pages, help texts and notebooks.

``python -m tests.test_language`` prints words and habits by page, ``... --where`` each place.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
UNITS = (
    "anchor|batch|block|cell|checkpoint|column|device|file|head|layer|line|loss|model|page|pair|"
    "process|query|rank|row|run|seed|sentence|setting|side|step|task|temperature|word"
)
NUMBERS = r"one|two|three|four|five|six|eight|[\d.,]*\d"
BETWEEN = r"(?: (?!of|in|is|has|for|or|as|about)[a-z]+){1,2}"
HABITS = {
    "that of": r"\b(?:that|those) of\b(?! (?:this|these)\b)",
    "alone": r"\balone\b",
    "a for per": rf"\b(?:{NUMBERS}){BETWEEN} an? (?:{UNITS})\b",
    "made": r"\bmade (?:batch(?:es)?|cases|data|embeddings|faults|pairs|runs|sentences|vectors)\b",
    "private noun": r"\b(?:seams?|laps?)\b|(?<!head)\brooms?\b",
    "statistics": r"seen afterwards|told apart|declared beforehand",
    "bare number": r"(?<!batch )(?<!batches )(?<!chunks )(?<!queue )(?<!temperature )(?<!rate )"
    r"(?<!ratio )(?<!margin )\b(?:of|than) \d[\d,]*(?=[.;:)](?:\s|$)|, )",
    "clause as subject": r"(?:^|(?<=[.:] ))(?:What|Whether|Which|How)\b[^.?!:|]*\.(?=\s|$)",
    "short sentence": r"(?<=[.!] )[A-Z][a-z]+(?: [a-z]+){0,2}\.(?=\s|$)",
    "semicolon": r";",
}
# "Leave alone" is what a closed gate does to an anchor.
LEFT_ALONE = re.compile(r"\b(?:leav\w+|left|let)\b[^.;|]{0,30}\balone\b")
# Pages for those who change gradlab, who know its rooms.
CONTRIBUTORS = {"CONTRIBUTING.md", "docs/how-it-is-built.md"}
# At most so many in each group of files; semicolons for each hundred words.
LIMITS: dict[str, dict[str, float]] = {
    "pages": {
        "that of": 6,
        "alone": 3,
        "a for per": 4,
        "bare number": 4,
        "clause as subject": 3,
        "short sentence": 2,
        "semicolon": 0.6,
    },
    "losses": {"that of": 14, "alone": 7, "bare number": 1, "semicolon": 0.9},
    "experiments": {"clause as subject": 1, "short sentence": 1, "semicolon": 1.1},
    "captions": {"that of": 1, "semicolon": 1.3},
    "help": {"semicolon": 0.1},
    "notebooks": {
        "alone": 1,
        "private noun": 1,
        "bare number": 1,
        "clause as subject": 1,
        "semicolon": 1.0,
    },
}


def files() -> dict[str, list[Path]]:
    """Files that people read, by group."""
    docs = ROOT / "docs"
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(docs.glob("*.md"))]
    return {
        "pages": [*pages, *sorted((docs / "reference").glob("*.md"))],
        "losses": sorted((docs / "losses").glob("*.md")),
        "experiments": sorted((docs / "experiments").glob("*.md")),
        "captions": [ROOT / "figures" / "captions.md"],
        "help": sorted((ROOT / "gradlab" / "cli" / "examples").glob("*.txt")),
        "notebooks": sorted((ROOT / "notebooks").glob("*.ipynb")),
    }


def prose(file: Path) -> str:
    """Text of a file without code, formulas, links' targets and HTML."""
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".ipynb":
        cells = json.loads(text)["cells"]
        text = "\n\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")
    text = re.sub(r"^ *```.*?^ *```$|^\$\$.*?\$\$", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(
        r"`[^`]*`", "`code`", re.sub(r"<!--.*?-->|<[^>]+>|&\w+;", "", text, flags=re.DOTALL)
    )
    text = re.sub(r"\$[^$\n]+\$", "x", re.sub(r"\]\([^)]*\)", "]", text))
    return re.sub(r"(?<=[^\n|])\n(?=[^\n|#*:+-])", " ", text)


def words(file: Path) -> int:
    """Words of a page as ``wc -w`` counts them; of a notebook, the words of its texts."""
    text = prose(file) if file.suffix == ".ipynb" else file.read_text(encoding="utf-8")
    return len(text.split())


def places(file: Path) -> Iterator[tuple[str, str]]:
    """Yield each habit of a file with the words around it."""
    text = prose(file)
    contributors = str(file.relative_to(ROOT)) in CONTRIBUTORS
    for habit, pattern in HABITS.items():
        if habit == "private noun" and contributors:
            continue
        spared = [m.end() for m in LEFT_ALONE.finditer(text)] if habit == "alone" else []
        for match in re.finditer(pattern, text, flags=re.MULTILINE):
            if match.end() not in spared:
                around = text[max(0, match.start() - 40) : match.end() + 30]
                yield habit, " ".join(around.split())


def counts(group: list[Path]) -> dict[str, float]:
    """Habits of a group of files; semicolons for each hundred words."""
    totals = dict.fromkeys(HABITS, 0.0)
    for file in group:
        for habit, _ in places(file):
            totals[habit] += 1
    totals["semicolon"] *= 100 / max(1, sum(map(words, group)))
    return totals


@pytest.mark.parametrize("group", LIMITS)
def test_habits_stay_down(group):
    limits = LIMITS[group]
    over = {
        habit: count
        for habit, count in counts(files()[group]).items()
        if count > limits.get(habit, 0)
    }
    assert not over, f"python -m tests.test_language --where shows them: {over}"


def test_each_habit_counts(tmp_path, monkeypatch):
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text(
        "The loss is that of the paper; one row a loss. It alone has made sentences.\n"
        "What is lost is lost. That is few. Of all, 3 of 127. The gate leaves the anchor alone.\n"
        "They were not told apart in this room. `;` ends no sentence\n",
        encoding="utf-8",
    )
    assert sorted(habit for habit, _ in places(page)) == sorted(HABITS)


def main(where: bool) -> None:
    """Print words and habits by page, or each place."""
    for group, paths in files().items():
        columns = " ".join(f"{habit.split()[0]:>10}" for habit in HABITS)
        print(f"\n{group:<34}{'words':>7} {columns}")
        for file in paths:
            habits = [habit for habit, _ in places(file)]
            row = " ".join(f"{habits.count(habit):>10}" for habit in HABITS)
            print(f"{file.relative_to(ROOT)!s:<34}{words(file):>7} {row}")
            for habit, around in places(file) if where else ():
                print(f"    {habit}: {around}")
        totals = " ".join(f"{total:>10.1f}" for total in counts(paths).values())
        print(f"{'together':<34}{sum(map(words, paths)):>7} {totals}")


if __name__ == "__main__":
    main("--where" in sys.argv)
