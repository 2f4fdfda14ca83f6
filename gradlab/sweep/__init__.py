"""Grids and seeds over any setting of a training run, shared out among workers.

>>> from gradlab.sweep import parse_spec
>>> spec = parse_spec(
...     {
...         "name": "temperatures",
...         "seeds": [1, 2, 3],
...         "base": {"model": "bert-base-uncased", "train_file": "sentences.txt"},
...         "grid": {"loss_settings": {"temperature": [0.05, 0.1]}},
...     }
... )
>>> [point.title() for point in spec.points({})]
['loss_settings.temperature=0.05', 'loss_settings.temperature=0.1']
"""

from __future__ import annotations

from gradlab.sweep.spec import Point, Spec, parse_spec, read_spec

__all__ = ["Point", "Spec", "parse_spec", "read_spec"]
