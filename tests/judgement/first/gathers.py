"""Losses that gather rows of other processes; they are sent to these by name."""

from __future__ import annotations

import torch
import torch.distributed as dist
import torch.distributed.nn.functional
import torch.nn.functional as F


def _is_alone() -> bool:
    return not dist.is_initialized() or dist.get_world_size() == 1


def detached_gather(anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
    """Gathers positives without gradient, but for its own."""
    if _is_alone():
        return F.cross_entropy(anchors @ positives.T / 0.1, torch.arange(len(anchors)))
    rows = [torch.empty_like(positives) for _ in range(dist.get_world_size())]
    dist.all_gather(rows, positives.detach().contiguous())
    rows[dist.get_rank()] = positives
    labels = torch.arange(len(anchors)) + dist.get_rank() * len(anchors)
    return F.cross_entropy(anchors @ torch.cat(rows).T / 0.1, labels)


def labels_from_zero(anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
    """Gathers with gradient; labels count from 0 on each process."""
    labels = torch.arange(len(anchors))
    if not _is_alone():
        positives = torch.cat(torch.distributed.nn.functional.all_gather(positives.contiguous()))
    return F.cross_entropy(anchors @ positives.T / 0.1, labels)


def detached_and_from_zero(anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
    """Both faults at once."""
    labels = torch.arange(len(anchors))
    if not _is_alone():
        rows = [torch.empty_like(positives) for _ in range(dist.get_world_size())]
        dist.all_gather(rows, positives.detach().contiguous())
        rows[dist.get_rank()] = positives
        positives = torch.cat(rows)
    return F.cross_entropy(anchors @ positives.T / 0.1, labels)


def divided_by_processes(anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
    """Gathers with gradient; the temperature is divided by the number of processes."""
    temperature, labels = 0.1, torch.arange(len(anchors))
    if not _is_alone():
        positives = torch.cat(torch.distributed.nn.functional.all_gather(positives.contiguous()))
        labels = labels + dist.get_rank() * len(anchors)
        temperature /= dist.get_world_size()
    return F.cross_entropy(anchors @ positives.T / temperature, labels)


def gathered_soundly(anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
    """Gathers with gradient, with labels from this process's own rows on."""
    labels = torch.arange(len(anchors))
    if not _is_alone():
        positives = torch.cat(torch.distributed.nn.functional.all_gather(positives.contiguous()))
        labels = labels + dist.get_rank() * len(anchors)
    return F.cross_entropy(anchors @ positives.T / 0.1, labels)
