"""Photographs of a report and of an inspection, for the pages: ``python docs/photographs.py``.

Both are of the files of ``gradlab example``, the report of its training with a temperature of 1.
Needs ``gradlab[inspect]``, ``pip install playwright`` and Chromium.
"""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

FIGURES = Path(__file__).resolve().parent.parent / "figures"
# End of a file name, width in pixels, and pixels of the photograph for each of them.
SIZES = (("", 1000, 1), ("-narrow", 390, 2))
# Heights in pixels, at both widths, that end between two cards.
HEIGHTS = {"report": (858, 656), "inspect": (722, 714)}


def make_pages(folder: Path) -> dict[str, Path]:
    """Write the example, train it at a temperature of 1, and write both pages."""

    def gradlab(*words: str) -> None:
        subprocess.run([sys.executable, "-m", "gradlab", *words], cwd=folder, check=True)

    gradlab("example", "--output", ".")
    script = (folder / "train.py").read_text(encoding="utf-8")
    script = script.replace("temperature=0.05", "temperature=1.0").replace(
        '"run"', '"temperature-1"'
    )
    columns = "--train-file pairs.csv --column anchor --positive-column positive --batch-size 16"
    gradlab("inspect", "--embeddings", "embeddings.npz", *columns.split())
    (folder / "train.py").write_text(script, encoding="utf-8")
    subprocess.run([sys.executable, "train.py"], cwd=folder, check=True)
    gradlab("report", "temperature-1", "--output", "report.html")
    return {"report": folder / "report.html", "inspect": folder / "inspect" / "inspect.html"}


def photograph(page: Page, stem: str) -> Path:
    """Write what is on the screen, in few colours."""
    image = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    path = FIGURES / f"{stem}.png"
    few = image.quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    few.save(path, optimize=True)
    return path


def main() -> None:
    """Photograph both pages at both sizes, with the first advice opened."""
    browsers = map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as playwright:
        pages = make_pages(Path(scratch))
        browser = playwright.chromium.launch(
            executable_path=next(filter(None, browsers)), args=["--no-sandbox"]
        )
        for index, (end, width, pixels) in enumerate(SIZES):
            page = browser.new_page(device_scale_factor=pixels)
            for name, path in pages.items():
                page.set_viewport_size({"width": width, "height": HEIGHTS[name][index]})
                page.goto(path.as_uri())
                if name == "inspect":
                    page.evaluate("document.querySelector('details').open = true")
                print(photograph(page, f"{name}-example{end}"))
        browser.close()


if __name__ == "__main__":
    main()
