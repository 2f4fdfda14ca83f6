"""`HeldBatch`: a batch that is recorded, while a GPU copies it and training goes on."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import NamedTuple

import torch

from gradlab.monitor.batch_measurement import Snapshot


class HeldBatch(NamedTuple):
    """A batch still to be measured; ``copy_event`` is when the GPU has copied it."""

    copy_event: torch.cuda.Event | None
    step: int
    dataset: str
    snapshot: Snapshot
    numbers: dict[str, float]  # of training: what the loss learns, how far weights moved


def begin_copy(snapshot: Snapshot) -> tuple[Snapshot, torch.cuda.Event]:
    """Begin to copy the embeddings of a batch on the GPU; return the copy, and when it is done."""
    snapshot = snapshot.copy()
    copy_event = torch.cuda.Event()
    copy_event.record(torch.cuda.current_stream(snapshot.anchors.device))
    return snapshot, copy_event


@contextlib.contextmanager
def beside_training(held: HeldBatch) -> Iterator[None]:
    """Let the GPU measure in its own stream, which waits for the copies but not for training."""
    assert held.copy_event is not None
    stream = torch.cuda.Stream(held.snapshot.anchors.device)
    with torch.cuda.stream(stream):
        stream.wait_event(held.copy_event)
        yield
    stream.synchronize()  # before the copies are freed
