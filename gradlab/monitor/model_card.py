"""Verdicts, curves and settings of a watched run in the model card of sentence-transformers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gradlab.errors import first_line
from gradlab.files import write_text
from gradlab.monitor.run_reader import Recording
from gradlab.monitor.summaries import as_markdown
from gradlab.monitor.verdicts import Judgement
from gradlab.monitor.watch import caution

# The part of the library's template before which the section stands, and the section's heading.
BEFORE, HEADING = "### Framework Versions", "### What the loss did to the embeddings (gradlab)"
TEMPLATE = "model_card_template.md"


def add_to_card(model: Any, run: Recording, judgement: Judgement) -> None:
    """Let the model card of a model have a section on the run, from the model's next saving on.

    The card's template, the library's own with the section, is written to the run's folder. A
    card that cannot have it stays as it is, with a warning.
    """
    try:
        card = model.model_card_data
        template = Path(card.template_path).read_text(encoding="utf-8")
        if HEADING in template:  # of an earlier training
            start = template.index("{% raw %}\n" + HEADING)
            _, _, after = template[start:].partition("{% endraw %}\n\n")
            template = template[:start] + after
        section = f"{HEADING}\n\n{as_markdown(run, judgement, whole=True)}\n"
        section = "{% raw %}\n" + section.replace("{% endraw %}", "") + "{% endraw %}\n\n"
        before, heading, after = template.partition(BEFORE)
        text = f"{before}{section}{heading}{after}"
        card.template_path = write_text(run.folder / TEMPLATE, text).absolute()
    except Exception as error:
        caution(f"gradlab could not add to the model card. {type(error).__name__}: "
                f"{first_line(error)}")  # fmt: skip
