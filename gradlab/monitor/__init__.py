"""What is measured while an encoder trains, where it is written, and what it means."""

from gradlab.monitor.history import DIAGNOSTICS, EVALUATION, History, histogram_rows, read_metrics

__all__ = ["DIAGNOSTICS", "EVALUATION", "History", "histogram_rows", "read_metrics"]
