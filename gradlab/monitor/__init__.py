"""What is measured while an encoder trains, where it is written, and what it means.

Of a batch `probe` keeps what the loss saw, and measures it; `history` is what was recorded, and its file; `recorder` is
how it gets there, `watch` and `trainers` when. `judge` tells failures from records as they come and looks at each aspect
at the end, `verdicts` judges a whole run that `recording` read. `gradlab.report` shows it.
"""

from gradlab.monitor.history import DIAGNOSTICS, EVALUATION, History, histogram_rows, read_metrics

__all__ = ["DIAGNOSTICS", "EVALUATION", "History", "histogram_rows", "read_metrics"]
