"""Measurements of an encoder in training: what is recorded, where it is written, and what it means.

`batch_measurement` keeps what the loss saw of a batch, and measures it. `metrics` writes the
measurements to a file; `watch` and `watch_callback` decide when. `run_reader` reads a run, and
`verdicts` judges it: during training, and for `gradlab.report`.
"""

from gradlab.monitor.metrics import DIAGNOSTICS, EVALUATION, History, histogram_rows, read_metrics

__all__ = ["DIAGNOSTICS", "EVALUATION", "History", "histogram_rows", "read_metrics"]
