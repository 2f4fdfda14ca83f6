"""A loss given as code is watched without a change of what it holds."""

import functools
from collections import deque

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import gradlab
from gradlab.decomposition.loss_copy import independent_copy

QUEUE = deque()
MEMORY = None


def first_rows():
    generator = torch.Generator().manual_seed(1)
    return F.normalize(torch.randn(32, 8, generator=generator), dim=1)


def contrasted(queue, anchors, positives):
    """Return the loss beside a queue, and the queue after the batch, as MoCo's code does."""
    anchors, positives = F.normalize(anchors, dim=1), F.normalize(positives, dim=1)
    logits = torch.cat(
        [(anchors * positives).sum(1, keepdim=True), anchors @ queue.to(anchors).T], 1
    )
    loss = F.cross_entropy(logits / 0.1, torch.zeros(len(anchors), dtype=torch.long))
    return loss, torch.cat([positives.detach(), queue])[:32]


class Holder:
    def __init__(self):
        self.queue = first_rows()

    def __call__(self, anchors, positives):
        loss, self.queue = contrasted(self.queue, anchors, positives)
        return loss

    def method(self, anchors, positives):
        return self(anchors, positives)


class InPlace(Holder):
    def __call__(self, anchors, positives):
        loss, queue = contrasted(self.queue.clone(), anchors, positives)
        self.queue.copy_(queue)
        return loss


class Module(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("queue", first_rows())

    def forward(self, anchors, positives):
        loss, self.queue = contrasted(self.queue, anchors, positives)
        return loss


def of_a_global_name(anchors, positives):
    global MEMORY
    loss, MEMORY = contrasted(MEMORY, anchors, positives)
    return loss


def of_a_global_container(anchors, positives):
    return stepped(anchors, positives)


def stepped(anchors, positives):
    loss, queue = contrasted(QUEUE.popleft(), anchors, positives)
    QUEUE.append(queue)
    return loss


def made(kind):
    """Return a loss of a kind, and a function that returns the queue it holds."""
    global MEMORY
    holder, module = Holder(), Module()
    MEMORY, cells = first_rows(), {"queue": first_rows()}
    QUEUE.clear()
    QUEUE.append(first_rows())

    def closure(anchors, positives):
        loss, cells["queue"] = contrasted(cells["queue"], anchors, positives)
        return loss

    def of_holder(holder, anchors, positives):
        return holder(anchors, positives)

    in_place = InPlace()
    return {
        "object": (holder, lambda: holder.queue),
        "method": (holder.method, lambda: holder.queue),
        "in place": (in_place, lambda: in_place.queue),
        "module": (module, lambda: module.queue),
        "module in a function": (lambda a, p: module(a, p), lambda: module.queue),
        "closure": (closure, lambda: cells["queue"]),
        "partial": (functools.partial(of_holder, holder), lambda: holder.queue),
        "decorated": (torch.autocast("cpu", enabled=False)(closure), lambda: cells["queue"]),
        "compiled": (torch.compile(closure, backend="eager"), lambda: cells["queue"]),
        "global name": (of_a_global_name, lambda: MEMORY),
        "global container": (of_a_global_container, lambda: QUEUE[0]),
    }[kind]


KINDS = [
    *("object", "method", "in place", "module", "module in a function", "closure", "partial"),
    *("decorated", "compiled", "global name", "global container"),
]


@pytest.mark.parametrize("kind", KINDS)
def test_watching_leaves_what_a_loss_holds_as_it_is(kind, tmp_path):
    ends = []
    for watched in (False, True):
        loss, queue = made(kind)
        criterion = gradlab.watch(loss, every=1, output=tmp_path) if watched else loss
        torch.manual_seed(0)
        encoder = nn.Linear(6, 8)
        optimizer = torch.optim.SGD(encoder.parameters(), lr=0.1)
        for _ in range(4):
            batch = torch.randn(12, 6)
            optimizer.zero_grad()
            criterion(encoder(batch), encoder(batch + 0.1)).backward()
            optimizer.step()
        ends.append((queue(), encoder.weight))
    (plain_queue, plain_weight), (watched_queue, watched_weight) = ends
    assert not torch.equal(plain_queue, first_rows())
    assert plain_queue.dtype == watched_queue.dtype == torch.float32
    assert torch.equal(plain_queue, watched_queue)
    assert torch.equal(plain_weight, watched_weight)


@pytest.mark.parametrize("kind", KINDS)
def test_a_copy_has_the_value_of_the_loss_in_float64(kind):
    loss, queue = made(kind)
    views = [rows.double() for rows in torch.randn(2, 12, 8, generator=torch.manual_seed(2))]
    duplicate = independent_copy(loss)
    value = duplicate(*views)
    assert value.dtype == torch.float64
    assert torch.equal(queue(), first_rows())
    torch.testing.assert_close(value, contrasted(first_rows().double(), *views)[0])
    assert duplicate(*views) != value  # its own queue has gone on


def test_encoders_and_large_modules_are_shared(monkeypatch):
    encoder = nn.Linear(3, 3)

    def loss(anchors, positives):
        return encoder(anchors).sum()

    assert independent_copy(loss, [encoder]).__closure__[0].cell_contents is encoder
    assert independent_copy(loss).__closure__[0].cell_contents is not encoder
    monkeypatch.setattr("gradlab.decomposition.loss_copy.LARGEST", 10)
    assert independent_copy(loss).__closure__[0].cell_contents is encoder


def test_a_loss_that_cannot_be_copied_is_refused_in_a_line():
    class Uncopied(nn.Module):
        def __deepcopy__(self, copies):
            raise RuntimeError("held by another process")

    with pytest.raises(gradlab.GradlabError, match=r"cannot be copied .held by another process"):
        independent_copy(Uncopied())
