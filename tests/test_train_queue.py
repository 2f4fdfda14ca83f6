"""The queue of negatives against a plain list, and the loss with its negatives against autograd."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import normalize

from gradlab import GradlabError, get_loss
from gradlab.train.queue import RANDOM, Queue
from tests.train_helpers import make_objective


class NaiveQueue:
    """A list of (row, step that made it), oldest first."""

    def __init__(self, size, initial):
        self.size, self.items, self.step = size, [(row, None) for row in reversed(initial)], 0

    def enqueue(self, rows):
        self.step += 1
        for row in rows:
            self.items.append((row, self.step))
            if len(self.items) > self.size:
                self.items.pop(0)

    def newest_first(self):
        rows = [row for row, _ in reversed(self.items)]
        # OutputRecorder by the step after the last one that was queued.
        ages = [
            RANDOM if step is None else self.step + 1 - step for _, step in reversed(self.items)
        ]
        return rows, ages


@settings(max_examples=60, deadline=None)
@given(
    size=st.integers(1, 9),
    share=st.floats(0, 1),
    batches=st.lists(st.integers(0, 12), max_size=12),
    seed=st.integers(0, 1000),
)
def test_queue_equals_a_list_after_uneven_batches(size, share, batches, seed):
    torch.manual_seed(seed)
    queue = Queue(size, 3, initial=int(share * size))
    naive = NaiveQueue(size, list(queue.negatives()[0]))
    for count in batches:
        rows = torch.randn(count, 3)
        queue.enqueue(rows)
        naive.enqueue(normalize(rows))
        restored = Queue(size, 3)  # whose state is all of it
        restored.load_state_dict(queue.state_dict())
        queue = restored
        queued, ages = queue.negatives()
        expected, expected_ages = naive.newest_first()
        assert len(queue) == len(expected) == len(queued)
        assert ages.tolist() == expected_ages
        if expected:
            torch.testing.assert_close(queued, torch.stack(expected), rtol=0, atol=1e-6)


def test_random_vectors_are_unit_and_uniform_enough():
    torch.manual_seed(0)
    rows, ages = Queue(4000, 3, initial=4000).negatives()
    torch.testing.assert_close(rows.norm(dim=1), torch.ones(4000))
    # On a sphere in three dimensions every coordinate is uniform on [-1, 1]: variance 1/3, mean 0.
    assert rows.mean(0).abs().max() < 5 * math.sqrt(1 / 3 / 4000)
    assert (rows.var(0) - 1 / 3).abs().max() < 5 * math.sqrt(4 / 45 / 4000)
    assert set(ages.tolist()) == {RANDOM}
    assert len(Queue(8, 3).negatives()[0]) == 0


def test_positions_select_by_age():
    queue = Queue(6, 2, positions="0:1,3:5")
    naive = NaiveQueue(6, [])
    for step in range(4):
        rows = torch.randn(2, 2)
        queue.enqueue(rows)
        naive.enqueue(normalize(rows))
        expected, ages = naive.newest_first()
        chosen = [place for place in (0, 3, 4) if place < len(expected)]
        queued, found_ages = queue.negatives()
        torch.testing.assert_close(queued, torch.stack([expected[place] for place in chosen]))
        assert found_ages.tolist() == [ages[place] for place in chosen]
        assert len(chosen) == (1, 2, 3, 3)[step]


@pytest.mark.parametrize("text", ["", "3", "a:b", "-1:2", "2:2", "0:9", "0:2,"])
def test_bad_positions_are_refused(text):
    with pytest.raises(GradlabError):
        Queue(8, 2, positions=text)


@pytest.mark.parametrize("columns", [0, 2])
def test_its_rows_are_hard_negatives_of_no_anchor(bert, columns):
    objective = make_objective(bert, loss="hardness(infonce, on=hard)", queue_size=5)
    rows = normalize(torch.randn(3 + columns, 4, objective.encoder.dimension).double(), dim=-1)
    objective.queue.enqueue(rows[0])
    output = objective.compare(rows[1], rows[2], hard=list(rows[3:]))
    own = rows[3:].transpose(0, 1) if columns else None
    loss = get_loss("hardness(infonce, on=hard)" if columns else "infonce")
    expected = loss(rows[1], rows[2], rows[0].flip(0), owners=[-1] * 4, own_negatives=own)
    torch.testing.assert_close(output.loss, expected)
