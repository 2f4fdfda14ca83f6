"""Where all losses lead at published settings: the atlas's data, and the table of docs/flow.md.

python docs/flow_table.py               # a few minutes
python docs/flow_table.py infonce mpt   # these losses; the others as stored
python docs/flow_table.py --table       # only the table, from the data
"""

from __future__ import annotations

import sys
from pathlib import Path

import gradlab
from gradlab.atlas.flow_ends import HEADINGS, SETTING, flow_to_end, stored_leads
from gradlab.files import write_text

DOCS = Path(__file__).parent
DATA = Path(gradlab.__file__).parent / "atlas" / "flow_ends.toml"
START, END = "<!-- Made by docs/flow_table.py -->", "<!-- until here -->"


def write_data(names: list[str]) -> None:
    """Let losses flow, all of them if there are no names, and write where they lead."""
    lines = ["# Where each loss leads at published settings. Made by docs/flow_table.py."]
    for name in gradlab.loss_names():
        if name == "recombined":
            continue
        loss = gradlab.get_loss(name)
        stored = stored_leads().get(name)
        lead = stored if names and name not in names else None
        lead = lead or flow_to_end(loss, progress=True)
        lines += ["", f"[{name}]"]
        for column in HEADINGS:
            entry = getattr(lead, column)
            lines.append(f'{column} = "{entry}"' if column == "end" else f"{column} = {entry:.4f}")
        if lead != stored:
            print(lines[-5:], flush=True)
    write_text(DATA, "\n".join(lines) + "\n")


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
        write_data(sys.argv[1:])
        stored_leads.cache_clear()
    write_table()
