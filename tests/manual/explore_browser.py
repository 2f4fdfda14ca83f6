"""Use the explorer in a real browser: drag, slide, resize, press keys, and photograph it on a desk and a phone, light and dark.

    python tests/manual/explore_browser.py PAGE FOLDER

PAGE is what `gradlab explore` wrote. Needs ``pip install playwright`` and Debian's Chromium (``apt-get install chromium``). Fails if the page asks
for anything beyond itself, if a script of it fails, if it is wider than the screen, or if dragging, keys, sliders or the address do nothing. It
prints how much processor time a frame's script and drawing take.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright

SIZES = {"desk": (1280, 900), "phone": (390, 844)}
PROBLEMS: list[str] = []
FLAGS = ["--no-sandbox", "--disable-gpu", "--host-resolver-rules=MAP * ~NOTFOUND"]


def main() -> None:
    """Use and photograph."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("page", type=Path)
    parser.add_argument("folder", type=Path)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    binary = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if binary is None:
        sys.exit("Chromium is not installed; apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=binary, args=FLAGS)
        measure(browser, arguments.page)
        for name, (width, height) in SIZES.items():
            for scheme in ("light", "dark"):
                context = browser.new_context(
                    viewport={"width": width, "height": height},
                    color_scheme=scheme,
                    has_touch=name == "phone",
                )
                page = context.new_page()
                problems = watch(page)
                page.goto(arguments.page.resolve().as_uri())
                page.wait_for_timeout(400)
                photograph(page, arguments.folder / f"{name}-{scheme}.png")
                if scheme == "light":
                    use(page, name, arguments.folder)
                wide = page.evaluate("document.documentElement.scrollWidth")
                print(f"{name}, {scheme}: {width} pixels wide, the page needs {wide}")
                if wide > width or problems:
                    sys.exit(f"The page is too wide or fails: {problems}")
                context.close()
        browser.close()


def watch(page: Page) -> list[str]:
    """What goes wrong from now on: requests, violations, errors."""
    problems = PROBLEMS
    page.on(
        "request",
        lambda r: problems.append(f"asks for {r.url}") if not r.url.startswith(("file:", "blob:")) else None,
    )
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    return problems


def photograph(page: Page, target: Path) -> None:
    """The whole page."""
    page.screenshot(path=str(target), full_page=True)
    print(f"  {target}")


def centre(page: Page, selector: str) -> tuple[float, float]:
    box = page.locator(selector).first.bounding_box()
    assert box is not None, selector
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def drag(page: Page, selector: str, by: tuple[float, float], steps: int = 12) -> None:
    page.locator(selector).first.scroll_into_view_if_needed()
    x, y = centre(page, selector)
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + by[0], y + by[1], steps=steps)
    page.mouse.up()
    page.wait_for_timeout(400)


def touch(page: Page, selector: str, by: tuple[float, float], steps: int = 8) -> None:
    """Drag with a finger."""
    page.locator(selector).first.scroll_into_view_if_needed()
    x, y = centre(page, selector)
    client = page.context.new_cdp_session(page)
    for i in range(steps + 1):
        at = [{"x": x + by[0] * i / steps, "y": y + by[1] * i / steps}]
        client.send(
            "Input.dispatchTouchEvent", {"type": "touchMove" if i else "touchStart", "touchPoints": at}
        )
    client.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    page.wait_for_timeout(400)


def reading(page: Page) -> Any:
    return page.evaluate(
        "[...document.querySelectorAll('.reading .number, .reading .wide')].map((n) => n.textContent)"
    )


def changed(page: Page, what: str, before: Any, after: Any) -> None:
    if before == after:
        sys.exit(f"{what} changed nothing; {PROBLEMS}")


def use(page: Page, name: str, folder: Path) -> None:
    """Every way of moving things, one after the other."""
    before = reading(page)
    drag(page, ".panel .point.positive", (30, 25))
    changed(page, "dragging the positive", before, after := reading(page))
    drag(page, ".panel .point.negative", (-25, 20))
    changed(page, "dragging a negative", after, after := reading(page))
    if name == "phone":
        touch(page, ".panel .point.positive", (-30, 20))
        changed(page, "a finger", after, after := reading(page))
    page.locator(".panel .point.anchor").first.focus()
    page.keyboard.press("ArrowLeft")
    page.wait_for_timeout(60)
    changed(page, "an arrow key", after, after := reading(page))
    view = page.evaluate("({...state.camera})")
    page.locator(".panel .ball").first.scroll_into_view_if_needed()
    box = page.locator(".panel .ball").first.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 8, box["y"] + 8)  # a corner, where no point can be
    page.mouse.down()
    page.mouse.move(box["x"] + 80, box["y"] + 30, steps=6)
    page.mouse.up()
    changed(page, "turning the sphere", view, page.evaluate("({...state.camera})"))
    slider = page.locator(".panel .sliders input").first
    slider.focus()
    for _ in range(30):
        page.keyboard.press("ArrowRight")
    page.wait_for_timeout(60)
    changed(page, "a slider", after, after := reading(page))
    page.locator("#count").fill("20")
    page.wait_for_timeout(60)
    changed(page, "the number of negatives", after, after := reading(page))
    page.locator("#keep-0").click()
    page.locator("#curve-x").select_option("chosen")
    page.locator(".panel select").nth(1).select_option(
        index=page.locator(".panel select").nth(1).locator("option").count() - 1
    )
    page.wait_for_timeout(500)
    chart = page.locator("#chart")
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.4, box["y"] + box["height"] * 0.5)
    page.wait_for_timeout(100)
    if page.locator("#chart-tip").is_hidden():
        sys.exit("the curves do not tell their values")
    heat = page.locator(".map canvas").first
    heat.scroll_into_view_if_needed()
    box = heat.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.35, box["y"] + box["height"] * 0.6)
    page.wait_for_timeout(300)
    cell = page.locator(".map .cell").first.text_content()
    if "±" not in (cell or ""):
        sys.exit(f"the heatmap does not tell its cell: {cell}")
    print(f"  {cell}")
    address = page.evaluate("location.hash")
    photograph(page, folder / f"{name}-used.png")
    numbers = reading(page)
    page.goto(page.url.partition("#")[0] + address)
    page.reload()
    page.wait_for_timeout(500)
    near = [
        text
        for text in zip(numbers, reading(page), strict=True)
        if text[0].split("°")[0] != text[1].split("°")[0]
    ]
    print(
        f"  from the address: {len(numbers) - len(near)} of {len(numbers)} readings equal, others {near[:3]}"
    )
    page.set_viewport_size({"width": 700, "height": 900})
    page.wait_for_timeout(200)
    if page.evaluate("document.documentElement.scrollWidth") > 700:
        sys.exit("too wide at 700 pixels")
    page.set_viewport_size({"width": SIZES[name][0], "height": SIZES[name][1]})


def measure(browser: Any, file: Path) -> None:
    """Processor time of the page's main thread in frames of a drag with 32 negatives: script, style, layout and paint."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto(file.resolve().as_uri())
    page.locator("#count").fill("32")
    page.wait_for_timeout(500)
    client = page.context.new_cdp_session(page)
    client.send("Performance.enable", {"timeDomain": "threadTicks"})  # no matter what else the machine does

    def spent() -> float:
        return (
            1000
            * {m["name"]: m["value"] for m in client.send("Performance.getMetrics")["metrics"]}[
                "TaskDuration"
            ]
        )

    # Two frames: what was changed in one is painted before the next. The sweep of the curves goes on beside it.
    move = """async (i) => {
      if (i >= 0) moveTo(["negative", i % 32], turned(state.points.negatives[i % 32], [0, 1, 0], 0.02));
      await new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(r)));
    }"""
    names, medians = page.evaluate("NAMES"), []
    for first, second in zip(names, [*names[1:], names[0]], strict=True):
        page.evaluate("async ([a, b]) => { state.panels = [own(a), own(b)]; refresh(); }", [first, second])
        page.wait_for_timeout(2000)  # until the curves are drawn
        idle, times = [], []
        for i in (*[-1] * 20, *range(40)):
            start = spent()
            page.evaluate(move, i)
            (idle if i < 0 else times).append(spent() - start)
        medians.append(statistics.median(times[8:]) - statistics.median(idle))  # without the measuring itself
        print(
            f"  {first} | {second}: {medians[-1]:.1f} ms a frame (median of {len(times) - 8}, less {statistics.median(idle):.1f} of measuring)"
        )
    print(
        f"32 negatives: {statistics.median(medians):.1f} ms a frame, {max(medians):.1f} ms for the slowest pair"
    )


if __name__ == "__main__":
    main()
