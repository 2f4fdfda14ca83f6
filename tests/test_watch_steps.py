"""What a watch sees of the steps of a loop: rates, weights that stay, gradients that arrive."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.optim.optimizer import register_optimizer_step_post_hook

import gradlab
from gradlab.monitor.arriving_gradient import ArrivingGradient
from gradlab.monitor.library_losses import classes_in_order
from gradlab.monitor.movement import Movement
from gradlab.monitor.trained_part import HEAD_ONLY, TRAINED, trained_part_of

STEPS = 12


def infonce(anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
    logits = 10 * F.normalize(anchors, dim=1) @ F.normalize(positives, dim=1).T
    return F.cross_entropy(logits, torch.arange(len(anchors)))


def numbers_of(
    folder: Path,
    optimizer: Callable[[nn.Module], torch.optim.Optimizer],
    *,
    loss: Any = infonce,
    after: Callable[[nn.Module, torch.optim.Optimizer], None] | None = None,
    factor: float = 1.0,
) -> dict[str, list[float]]:
    """Train a small encoder under watch; return the recorded numbers of training."""
    torch.manual_seed(0)
    encoder = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 8))
    watched = gradlab.watch(loss, every=1, output=folder, total_steps=STEPS)
    steps = optimizer(encoder)
    for _ in range(STEPS):
        rows = torch.randn(6, 6)
        value = watched(encoder(rows), encoder(rows + 0.1 * torch.randn(6, 6)))
        encoder.zero_grad()
        (factor * value).backward()
        steps.step()
        if after:
            after(encoder, steps)
    watched.finish()
    numbers: dict[str, list[float]] = {}
    with (folder / "metrics.csv").open() as file:
        for row in csv.DictReader(file):
            if row["group"] == "train":
                numbers.setdefault(row["name"], []).append(float(row["value"]))
    return numbers


def adam(encoder: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.Adam(encoder.parameters(), lr=0.01)


def test_a_sound_loop_has_its_own_gradient_and_no_sign(tmp_path: Path) -> None:
    numbers = numbers_of(tmp_path, adam, factor=0.25)
    # The last batch has no batch after it.
    assert numbers["optimizer_rate"] == [0.01] * (STEPS - 1)
    assert numbers["arriving_gradient"] == pytest.approx([0.25] * (STEPS - 1))
    assert numbers["arriving_cosine"] == pytest.approx([1.0] * (STEPS - 1))
    assert min(numbers["embedding_gradient"]) > min(numbers["second_view_gradient"]) > 0
    assert numbers["state_steps"] == [1.0]
    unusual = {"still_weights", "step_undone", "new_weights", "weight_decay", "epsilon"}
    assert not unusual & numbers.keys()


def test_a_step_that_computes_the_loss_by_a_closure(tmp_path: Path) -> None:
    encoder = nn.Linear(6, 8)
    watched = gradlab.watch(infonce, every=1, output=tmp_path, total_steps=STEPS)
    steps = torch.optim.SGD(encoder.parameters(), lr=0.01)
    rows = torch.randn(6, 6)

    def closure() -> torch.Tensor:
        encoder.zero_grad()
        value: torch.Tensor = watched(encoder(rows), encoder(rows.flip(1)))
        value.backward()
        return value

    # Hooks of others that are called after those of the watch.
    calls, handles = list[Any](), list[Any]()

    def closure_and_hook() -> torch.Tensor:
        value = closure()
        handles.append(register_optimizer_step_post_hook(lambda *_: calls.append(1)))
        return value

    for _ in range(STEPS):
        steps.step(closure_and_hook)
        handles.pop().remove()
    assert len(calls) == STEPS
    watched.finish()
    names = set(watched.to_frame().columns)
    assert any("optimizer_rate" in name for name in names)
    assert not [name for name in names if "step_unchanged" in name or "batches_without" in name]


def test_weights_outside_of_the_optimizer(tmp_path: Path) -> None:
    numbers = numbers_of(tmp_path, lambda encoder: torch.optim.Adam(encoder[2].parameters()))
    share = (6 * 8 + 8) / (6 * 8 + 8 + 8 * 8 + 8)
    assert numbers["still_weights"] == pytest.approx([share] * (STEPS - 2))
    assert numbers["weights_not_held"] == pytest.approx([share] * (STEPS - 2))


def test_an_optimizer_of_another_encoder(tmp_path: Path) -> None:
    other = nn.Linear(6, 8)
    other.weight.grad = torch.ones_like(other.weight)
    numbers = numbers_of(tmp_path, lambda _: adam(other))
    assert numbers["other_optimizer"] == [1.0] * (STEPS - 1)
    assert "optimizer_rate" not in numbers


def test_what_clipping_leaves_of_a_gradient_and_a_gradient_that_was_never_there(
    tmp_path: Path,
) -> None:
    def steps_of_clipped(encoder: nn.Module) -> torch.optim.Optimizer:
        optimizer = torch.optim.SGD(encoder.parameters(), lr=0.01)
        plain = optimizer.step

        def step() -> None:
            for weight in encoder.parameters():
                assert weight.grad is not None
                weight.grad.mul_(0.01)
            plain()

        optimizer.step = step  # type: ignore[assignment,method-assign]
        return optimizer

    numbers = numbers_of(tmp_path / "clipped", steps_of_clipped)
    assert numbers["gradient_left"] == pytest.approx([0.01] * (STEPS - 1), rel=1e-4)
    assert numbers["steps_of_gradient"] == [1.0] * (STEPS - 1)
    numbers = numbers_of(tmp_path / "zero", adam, factor=0.0)
    assert numbers["gradient_lost"] == numbers["empty_step"] == [1.0] * (STEPS - 1)
    assert "steps_of_gradient" not in numbers


def test_which_weights_and_dimensions_are_trained(tmp_path: Path) -> None:
    def of_last(anchors: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
        return infonce(anchors[:, 5:], positives[:, 5:])

    def of_biases(encoder: nn.Module) -> torch.optim.Optimizer:
        for weight in encoder.parameters():
            weight.requires_grad_(weight.ndim == 1)
        return adam(encoder)

    numbers = numbers_of(tmp_path / "last", adam, loss=of_last)
    assert numbers["idle_dimensions"] == [5 / 8] * STEPS
    assert numbers["head_only_trained"] == [1.0] * STEPS
    numbers = numbers_of(tmp_path / "biases", of_biases)
    assert numbers["no_matrix_trained"] == [1.0] * STEPS
    assert not {"idle_dimensions", "head_only_trained"} & numbers.keys()
    head = nn.Sequential(nn.Linear(6, 30).requires_grad_(False), nn.Linear(30, 2))
    share = 62 / (210 + 62)
    assert trained_part_of([head]) == {TRAINED: pytest.approx(share), HEAD_ONLY: 1.0}
    assert trained_part_of([head.requires_grad_()]) == {}


def test_a_group_at_a_rate_of_0_is_held(tmp_path: Path) -> None:
    def groups(encoder: nn.Module) -> torch.optim.Optimizer:
        lower, upper = encoder[0].parameters(), encoder[2].parameters()
        return torch.optim.Adam([{"params": lower, "lr": 0.0}, {"params": upper}], lr=0.01)

    numbers = numbers_of(tmp_path, groups)
    assert min(numbers["still_weights"]) > 0.4
    assert max(numbers["weights_not_held"]) == 0


def test_a_step_that_is_undone(tmp_path: Path) -> None:
    average: list[torch.Tensor] = []

    def copy_back(encoder: nn.Module, _: Any) -> None:
        with torch.no_grad():
            average.extend(w.clone() for w in encoder.parameters() if len(average) < 4)
            for mean, weight in zip(average, encoder.parameters(), strict=True):
                weight.copy_(mean.lerp_(weight, 0.1))

    numbers = numbers_of(tmp_path, adam, after=copy_back)
    assert numbers["step_undone"] == pytest.approx([0.9] * (STEPS - 2), abs=1e-3)


def test_rates_that_fall_by_layer_and_decay(tmp_path: Path) -> None:
    def groups(encoder: nn.Module) -> torch.optim.Optimizer:
        weights = [*encoder.parameters()][:3]
        return torch.optim.AdamW(
            [{"params": [w], "lr": 0.01 / 10**at} for at, w in enumerate(weights)],
            weight_decay=2.0,
        )

    numbers = numbers_of(tmp_path, groups)
    assert numbers["rate_factor"] == pytest.approx([0.1] * (STEPS - 1))
    assert numbers["weight_decay"] == [2.0] * (STEPS - 1)


def test_a_schedule_is_seen_beside_the_rate_that_was_set(tmp_path: Path) -> None:
    schedules: list[Any] = []

    def move(_: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        schedules[0].step()

    def warming(encoder: nn.Module) -> torch.optim.Optimizer:
        optimizer = adam(encoder)
        schedules.append(torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: step / 100))
        return optimizer

    numbers = numbers_of(tmp_path, warming, after=move)
    assert numbers["rate_share"] == pytest.approx([step / 100 for step in range(STEPS - 1)])


def test_a_loss_without_gradient(tmp_path: Path) -> None:
    numbers = numbers_of(tmp_path, adam, loss=lambda a, b: infonce(a, b).clamp(max=0.01))
    assert numbers["embedding_gradient"] == [0.0] * STEPS
    assert "embeddings_unused" not in numbers


def test_gradients_that_are_0_at_the_step(tmp_path: Path) -> None:
    assert "empty_step" not in numbers_of(tmp_path / "sound", adam)
    numbers = numbers_of(tmp_path / "cleared", adam, factor=0.0)
    assert numbers["empty_step"] == [1.0] * (STEPS - 1)


def test_a_loss_that_does_not_depend_on_its_rows() -> None:
    rows, weight = torch.randn(4, 3, requires_grad=True), torch.ones(3, requires_grad=True)
    assert ArrivingGradient(weight.sum(), [rows, rows]).numbers["embeddings_unused"] == 1


def test_hooks_are_removed(tmp_path: Path) -> None:
    from torch.optim.optimizer import _global_optimizer_pre_hooks

    before = len(_global_optimizer_pre_hooks)
    numbers_of(tmp_path, adam)
    assert len(_global_optimizer_pre_hooks) == before


def test_new_weights_are_followed() -> None:
    first, second = (nn.Parameter(torch.ones(3)) for _ in range(2))
    movement = Movement([first])
    movement.relative()
    movement.follow([first, second])
    assert movement.new == 0.5
    first.data += 1
    movement.relative()
    movement.relative()
    assert [weight is second or weight is first for weight in movement.still] == [True, True]
    assert movement.relative() == pytest.approx((3 / 6) ** 0.5)


def test_weights_that_the_first_record_does_not_tell_of_are_not_new(tmp_path: Path) -> None:
    """Of a record without its loss, the watch knows no weights."""
    watched = gradlab.watch(None, loss="infonce", every=1, output=tmp_path, total_steps=2)
    encoder, rows = nn.Linear(6, 8), torch.randn(6, 6)
    for value in (None, infonce(encoder(rows), encoder(rows))):
        watched.observe(encoder(rows), encoder(rows), value=value)
    numbers = watched.history.latest("train")[1]
    assert numbers["weights_moved"] == 0
    assert "new_weights" not in numbers


@pytest.mark.parametrize("is_moved", [False, True])
def test_a_pass_at_moved_weights_is_no_batch_without_a_step(tmp_path: Path, is_moved: bool) -> None:
    """Sharpness-aware steps climb by hand and take the gradient there; others throw it away."""
    torch.manual_seed(0)
    encoder = nn.Linear(6, 8)
    watched = gradlab.watch(infonce, every=1, output=tmp_path, total_steps=2 * STEPS)
    optimizer = torch.optim.SGD(encoder.parameters(), lr=0.1)
    for _ in range(STEPS):
        rows = torch.randn(6, 6)
        climbs: list[torch.Tensor] = []
        for _ in range(2):
            optimizer.zero_grad()
            watched(encoder(rows), encoder(rows + 0.1)).backward()
            if is_moved and not climbs:
                climbs = [0.05 * weight.grad for weight in encoder.parameters()]
                with torch.no_grad():
                    for weight, climb in zip(encoder.parameters(), climbs, strict=True):
                        weight.add_(climb)
        with torch.no_grad():
            for weight, climb in zip(encoder.parameters(), climbs, strict=False):
                weight.sub_(climb)
        optimizer.step()
    watched.finish()
    with (tmp_path / "metrics.csv").open() as file:
        names = {row["name"] for row in csv.DictReader(file)}
    assert ("batches_without_step" in names) is not is_moved


def test_classes_in_order_are_those_of_triplets() -> None:
    rows = torch.randn(12, 5, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(12) % 3
    unit = F.normalize(rows.double(), dim=1)
    points = []
    for anchor in range(12):
        for mate in range(12):
            for stranger in range(12):
                if mate != anchor and labels[mate] == labels[anchor] != labels[stranger]:
                    near, far = (float(unit[anchor] @ unit[at]) for at in (mate, stranger))
                    points.append(1.0 if near > far else 0.5 if near == far else 0.0)
    expected = sum(points) / len(points)
    assert classes_in_order(rows, labels) == pytest.approx(expected)
    assert classes_in_order(rows, labels.double()) is None
    assert classes_in_order(rows, torch.zeros(12, dtype=torch.long)) is None
