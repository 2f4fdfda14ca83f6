"""Processes for tests, forked from one that has imported what takes seconds, so that it is imported once for all of them."""

from __future__ import annotations

import multiprocessing
from multiprocessing.context import ForkServerContext


def forking() -> ForkServerContext:
    """Starts processes as the usual contexts of `multiprocessing` do."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch.distributed.nn", "sentence_transformers", "gradlab.large_batch"])
    return context
