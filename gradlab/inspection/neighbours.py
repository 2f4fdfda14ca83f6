"""Nearest neighbours of many unit rows, by buckets: time that grows nearly as their number does.

Rows are dealt to buckets by their nearest centroid (k-means on a sample). Each row is compared with
all rows in the buckets of its nearest centroids, as products of matrices, which use all cores. No
pair of rows is stored, and the neighbours do not depend on the number of threads.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from gradlab.inspection.workspace import Workspace
from gradlab.progress_bars import progress_bar

# Mean number of rows in a bucket, and number of buckets that each row looks into.
BUCKET, PROBES = 1000, 12
# Rows per centroid in the sample for k-means, and its rounds.
_SAMPLED, _ROUNDS = 30, 6
_BLOCK = 8192
# Cosines that are held at a time, in each thread.
_AT_ONCE = 1 << 22
# Seconds between two times that a search is saved, and its name in the workspace.
SAVE_EVERY = 60.0
_SAVED = "neighbours"

Block = tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]


def nearest_neighbours(
    rows: NDArray[np.float16],
    count: int,
    progress: bool = False,
    work: Workspace | None = None,
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Return the nearest rows of each unit row (N, d), itself among them, and their cosines.

    Args:
        rows: unit rows.
        count: number k of neighbours, at most N.
        progress: show a progress bar.
        work: where the search is saved from time to time, and goes on after a stop.

    Returns:
        numbers of rows (N, k), in no order, -1 where fewer were compared; and cosines (N, k).
    """
    buckets = max(1, len(rows) // BUCKET)
    saved = work.arrays(_SAVED) if work is not None else None
    if saved is None:
        keys = np.full((len(rows), count), -1, dtype=np.int32)
        cosines = np.full((len(rows), count), -np.inf, dtype=np.float32)
        probes, tasks_finished = _probes(rows, buckets, min(buckets, PROBES), progress), 0
    else:
        keys, cosines, probes = saved["keys"], saved["cosines"], saved["probes"]
        tasks_finished = int(saved["tasks_finished"])
    queries, starts = _by_bucket(probes, buckets)
    members, firsts = _by_bucket(probes[:, :1], buckets)

    def tasks() -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Yield rows that look into a bucket, a few at a time, and the rows of the bucket."""
        for bucket in range(buckets):
            group = members[firsts[bucket] : firsts[bucket + 1]]
            size = max(1, _AT_ONCE // max(1, len(group)))
            for start in range(starts[bucket], starts[bucket + 1], size):
                yield queries[start : min(start + size, starts[bucket + 1])], group

    def compare(task: tuple[NDArray[np.int64], NDArray[np.int64]]) -> Block:
        asking, group = task
        return asking, *nearest_in(rows[asking], rows[group], group, count)

    workers = os.cpu_count() or 1
    compared = tasks()
    bar = progress_bar(None, progress, desc="Nearest neighbours", total=len(queries))
    bar.update(sum(len(asking) for asking, _ in itertools.islice(compared, tasks_finished)))
    last_saved = time.monotonic()
    with ThreadPoolExecutor(workers) as pool, bar:
        # Some tasks at a time, so that finished ones do not wait in memory.
        while batch := list(itertools.islice(compared, 4 * workers)):
            for asking, numbers, products in pool.map(compare, batch):
                _merge(keys, cosines, asking, numbers, products)
                bar.update(len(asking))
            tasks_finished += len(batch)
            if work is not None and time.monotonic() - last_saved >= SAVE_EVERY:
                arrays = {"keys": keys, "cosines": cosines, "probes": probes}
                work.save(_SAVED, tasks_finished=np.array(tasks_finished), **arrays)
                last_saved = time.monotonic()
    return keys, cosines


def nearest_in(
    queries: NDArray[np.float16],
    rows: NDArray[np.float16],
    numbers: NDArray[np.int64],
    count: int,
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Return the numbers of the ``count`` nearest rows of each query, and their cosines."""
    products = queries.astype(np.float32) @ rows.astype(np.float32).T
    if len(rows) <= count:
        return np.broadcast_to(numbers, products.shape).astype(np.int32), products
    places = np.argpartition(-products, count - 1, axis=1)[:, :count]
    return numbers[places].astype(np.int32), np.take_along_axis(products, places, 1)


def _merge(
    keys: NDArray[np.int32],
    cosines: NDArray[np.float32],
    asking: NDArray[np.int64],
    numbers: NDArray[np.int32],
    products: NDArray[np.float32],
) -> None:
    """Keep the nearest of the neighbours so far and those of one bucket, in place."""
    count = keys.shape[1]
    candidates = np.concatenate([cosines[asking], products], axis=1)
    places = np.argpartition(-candidates, count - 1, axis=1)[:, :count]
    cosines[asking] = np.take_along_axis(candidates, places, 1)
    keys[asking] = np.take_along_axis(np.concatenate([keys[asking], numbers], 1), places, 1)


def _probes(
    rows: NDArray[np.float16], buckets: int, count: int, progress: bool
) -> NDArray[np.int32]:
    """Return the buckets with the nearest centroids for each row, (N, count), the nearest first."""
    probes = np.zeros((len(rows), count), dtype=np.int32)
    if buckets == 1:
        return probes
    centroids = _centroids(rows, buckets)
    starts = range(0, len(rows), _BLOCK)
    for start in progress_bar(starts, progress, desc="Dealing rows to buckets"):
        span = slice(start, start + _BLOCK)
        distances = -(rows[span].astype(np.float32) @ centroids.T)
        places = np.argpartition(distances, count - 1, axis=1)[:, :count]
        order = np.argsort(np.take_along_axis(distances, places, 1), axis=1, kind="stable")
        probes[span] = np.take_along_axis(places, order, 1)
    return probes


def _centroids(rows: NDArray[np.float16], buckets: int) -> NDArray[np.float32]:
    """Return unit centroids (buckets, d) of spherical k-means on a sample of the rows."""
    generator = np.random.default_rng(0)
    sampled_rows = generator.permutation(len(rows))[: buckets * _SAMPLED]
    sample = rows[np.sort(sampled_rows)].astype(np.float32)
    # Begun at rows, centroids are as dense as these.
    centroids = sample[generator.permutation(len(sample))[:buckets]].copy()
    for _ in range(_ROUNDS):
        own = np.concatenate(
            [
                (sample[start : start + _BLOCK] @ centroids.T).argmax(1)
                for start in range(0, len(sample), _BLOCK)
            ]
        )
        order = np.argsort(own, kind="stable")
        present, starts = np.unique(own[order], return_index=True)
        sums = np.add.reduceat(sample[order], starts, axis=0)
        norms = np.linalg.norm(sums, axis=1, keepdims=True)
        # A bucket without rows, or whose rows cancel, stays where it is.
        centroids[present] = np.where(
            norms > 0, sums / np.where(norms > 0, norms, 1), centroids[present]
        )
    return centroids


def _by_bucket(
    probes: NDArray[np.int32], buckets: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return rows ordered by the buckets in ``probes`` (N, p), and where each bucket begins."""
    order = np.argsort(probes.ravel(), kind="stable")
    sizes = np.bincount(probes.ravel(), minlength=buckets)
    return order // probes.shape[1], np.append(0, np.cumsum(sizes))
