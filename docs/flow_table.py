"""Where all losses lead at published settings: the atlas's data, and the table of docs/flow.md.

python docs/flow_table.py          # a few minutes
python docs/flow_table.py --table  # only the table, from the data
"""

from __future__ import annotations

import sys
from pathlib import Path

import gradlab
from gradlab.atlas.leads import HEADINGS, SETTING, flow_to_end, stored_leads
from gradlab.files import write_text
from gradlab.losses.base import Loss

DOCS = Path(__file__).parent
DATA = Path(gradlab.__file__).parent / "atlas" / "leads.toml"
START, END = "<!-- Made by docs/flow_table.py -->", "<!-- until here -->"


def write_data() -> None:
    """Let all losses flow, and write where they lead."""
    losses = [gradlab.get_loss(name) for name in gradlab.loss_names() if name != "recombined"]
    lines = ["# Where each loss leads at published settings. Made by docs/flow_table.py."]
    for loss in losses:
        lead = flow_to_end(loss, progress=True)
        lines += ["", f"[{_quoted(loss)}]"]
        for name in HEADINGS:
            entry = getattr(lead, name)
            lines.append(f'{name} = "{entry}"' if name == "end" else f"{name} = {entry:.4f}")
        print(lines[-5:], flush=True)
    write_text(DATA, "\n".join(lines) + "\n")


def _quoted(loss: Loss) -> str:
    return f'"{loss}"' if "(" in str(loss) else str(loss)


def table() -> str:
    """Return the table as Markdown."""
    lines = [f"| loss | {' | '.join(HEADINGS.values())} |", "|---|--:|--:|--:|---|"]
    for name, lead in stored_leads().items():
        cells = " | ".join(lead.cell(column) for column in HEADINGS)
        lines.append(f"| [`{name}`](losses/{name.partition('(')[0]}.md) | {cells} |")
    return "\n".join(lines)


def write_table() -> None:
    """Put setting and table into docs/flow.md, between its two marks."""
    page = DOCS / "flow.md"
    text = page.read_text(encoding="utf-8")
    before, _, after = text.partition(START)
    _, _, after = after.partition(END)
    write_text(page, f"{before}{START}\n{SETTING}\n\n{table()}\n{END}{after}")


if __name__ == "__main__":
    if "--table" not in sys.argv:
        write_data()
        stored_leads.cache_clear()
    write_table()
