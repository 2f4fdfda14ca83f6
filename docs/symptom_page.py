"""The page of symptoms: ``python docs/symptom_page.py`` writes docs/symptoms.md."""

from __future__ import annotations

from pathlib import Path

from gradlab.diagnosis.symptoms import symptoms
from gradlab.files import write_text
from gradlab.templates import render

FOLDER = Path(__file__).parent


def page() -> str:
    """Return the page of all symptoms as Markdown."""
    folder, name = FOLDER / "_templates", "symptoms.md"
    return render(folder, name, {"thread": _short}, symptoms=symptoms().values())


def _short(url: str) -> str:
    owner, name, _, number = url.removeprefix("https://github.com/").split("/")
    return f"{owner}/{name}#{number}"


if __name__ == "__main__":
    write_text(FOLDER / "symptoms.md", page())
