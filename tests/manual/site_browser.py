"""Use the built site in a real browser.

Photographs at two widths, search, formulas, and that nothing leaves the machine.

    python tests/manual/site_browser.py build/site FOLDER [PAGE ...]

Needs ``pip install playwright`` and Debian's Chromium (``apt-get install chromium``). Fails if a
page asks for anything that is not a file of the site, is wider than the screen, has a formula that
is not rendered, or if search does not find what it should.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

PAGES = [
    f"docs/{name}"
    for name in (
        "index",
        "start",
        "mathematics",
        "doctor",
        "explore",
        "reference/generated/gradlab.components",
    )
]
SIZES = {"desk": (1280, 900), "phone": (390, 844)}
# What people look for, of which a page of docs/ has to be among the first five found.
SEARCHES = ("temperature", "duplicates", "blockwise", "gradient_dissipation")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--allow-file-access-from-files",
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("site", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("pages", nargs="*", default=PAGES)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    binary = next(
        filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
    )
    if binary is None:
        sys.exit("Chromium is not installed; apt-get install chromium")
    problems: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=binary, args=FLAGS)
        for size, (width, height) in SIZES.items():
            context = browser.new_context(viewport={"width": width, "height": height})
            page = context.new_page()
            page.on(
                "request",
                lambda request: (
                    None
                    if request.url.startswith(("file:", "data:", "blob:", "about:"))
                    else problems.append(f"asks for {request.url}")
                ),
            )
            for name in arguments.pages:
                page.goto((arguments.site / f"{name}.html").resolve().as_uri())
                page.wait_for_timeout(1500)
                wide = page.evaluate("document.documentElement.scrollWidth")
                if wide > width:
                    problems.append(f"{name}: {wide} pixels wide on a {size} of {width}")
                raw, rendered = page.locator(".math").count(), page.locator("mjx-container").count()
                if raw and not rendered:
                    problems.append(f"{name}: {raw} formulas, none rendered")
                print(
                    f"{size}: {name}, {wide} pixels wide, {raw} formulas, {rendered} rendered",
                    flush=True,
                )
                page.screenshot(path=arguments.folder / f"{name.replace('/', '-')}-{size}.png")
            for words in SEARCHES:
                page.goto((arguments.site / "search.html").resolve().as_uri() + f"?q={words}")
                page.wait_for_timeout(2500)
                links = page.locator("ul.search li a").evaluate_all(
                    "all => all.slice(0, 5).map(a => a.href)"
                )
                if not any("/docs/" in link for link in links):
                    problems.append(f"search for {words!r} finds {links}")
            context.close()
        browser.close()
    if problems:
        sys.exit("\n".join(dict.fromkeys(problems)))


if __name__ == "__main__":
    main()
