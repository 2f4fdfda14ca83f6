"""Look at a report in a real browser: photographs of it on a phone and a desk, in light and dark.

    python tests/manual/report_screenshot.py RUN... FOLDER

RUN... is what `gradlab report` takes. Needs Chromium (Debian: ``apt-get install chromium``). Fails if the page asks for
anything beyond itself, if a script of it fails, or if it is wider than the phone. FOLDER gets phone.png,
phone-dark.png, desk.png and desk-dark.png.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from gradlab.report import write_report

SIZES = {"phone": 390, "desk": 1280}
QUIET = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--hide-scrollbars", "--force-device-scale-factor=1",
)  # fmt: skip
# Headless windows are at least 500 wide, so that the phone is a frame in a page. Every chart is touched in its middle and
# has to tell its values; what failed is written into the page around the frame.
FRAME = """<!doctype html><meta charset="utf-8"><style>html, body {{ margin: 0 }} iframe {{ border: 0; display: block }}</style>
<iframe id="frame" width="{width}" height="{height}" srcdoc="{page}"></iframe>
<script>
const frame = document.getElementById("frame");
frame.onload = () => {{
  const page = frame.contentDocument.documentElement;
  const inside = frame.contentWindow;
  for (const chart of page.querySelectorAll("svg[data-series]")) {{
    if (chart.closest("details")) continue;
    const box = chart.getBoundingClientRect();
    const at = {{ clientX: box.left + box.width / 2, clientY: box.top + box.height / 2 }};
    chart.dispatchEvent(new inside.PointerEvent("pointermove", at));
    const tip = chart.closest(".card").querySelector(".tip");
    if (tip.hidden || !/step \\d+\\n.+: /.test(tip.textContent)) inside.failed = "a chart does not tell its values";
    chart.dispatchEvent(new inside.PointerEvent("pointerleave"));
  }}
  const out = document.createElement("pre");
  out.id = "measured";
  out.textContent = `${{page.scrollWidth}} ${{page.scrollHeight}} ${{frame.contentWindow.failed || ""}}`;
  document.body.append(out);
}};
</script>"""
CATCH = "<script>addEventListener('error', (e) => { window.failed = e.message }); addEventListener('securitypolicyviolation', (e) => { window.failed = 'asks for ' + e.blockedURI });</script>"


def main() -> None:
    """Photograph and check."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("folder", type=Path)
    arguments = parser.parse_args()
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        sys.exit("Chromium is not installed; apt-get install chromium")
    arguments.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        page = write_report(arguments.runs, Path(place) / "report.html").read_text(encoding="utf-8")
        page = page.replace("<head>", f"<head>{CATCH}", 1)
        for name, width in SIZES.items():
            found = measure(browser, Path(place), page, width)
            print(f"{name}: {width} pixels wide, the page needs {found[0]} x {found[1]}. {found[2]}".rstrip())
            if found[2] or found[0] > width:
                sys.exit("The page fails, or is wider than the screen.")
            for suffix, dark in (("", False), ("-dark", True)):
                target = arguments.folder / f"{name}{suffix}.png"
                photograph(browser, Path(place), page, (width, found[1]), target, dark)
                print(f"  {target}")


def frame_of(place: Path, page: str, width: int, height: int) -> Path:
    """A file that shows the page in a frame of that size."""
    quoted = page.replace("&", "&amp;").replace('"', "&quot;")
    file = place / "frame.html"
    file.write_text(FRAME.format(width=width, height=height, page=quoted), encoding="utf-8")
    return file


def browse(browser: str, place: Path, *arguments: str) -> str:
    """Run the browser with a profile of its own and no network but a name that resolves to nothing."""
    flags = [*QUIET, f"--user-data-dir={place / 'profile'}", "--host-resolver-rules=MAP * ~NOTFOUND"]
    done = subprocess.run(
        [browser, *flags, *arguments], capture_output=True, text=True, timeout=120, check=False
    )
    return done.stdout


def measure(browser: str, place: Path, page: str, width: int) -> tuple[int, int, str]:
    """Width and height that the page needs, and what failed in it."""
    file = frame_of(place, page, width, 800)
    text = browse(browser, place, "--virtual-time-budget=3000", "--dump-dom", file.as_uri())
    match = re.search(r'id="measured">(\d+) (\d+) ([^<]*)<', text)
    if match is None:
        sys.exit("The browser showed nothing; does it start?")
    return int(match[1]), int(match[2]), match[3]


def photograph(browser: str, place: Path, page: str, size: tuple[int, int], target: Path, dark: bool) -> None:
    """Write a picture of the whole page."""
    file = frame_of(place, page, *size)
    mode = (
        ["--blink-settings=preferredColorScheme=0"] if dark else ["--blink-settings=preferredColorScheme=1"]
    )
    window = f"--window-size={max(size[0], 500)},{size[1]}"
    browse(browser, place, *mode, window, f"--screenshot={target.resolve()}", file.as_uri())
    if not target.exists():
        sys.exit(f"The browser wrote no {target}")


if __name__ == "__main__":
    main()
