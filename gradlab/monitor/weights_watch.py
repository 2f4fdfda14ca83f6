"""`WeightsWatch`: what happens to the trained weights after each recorded batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Tensor, nn

from gradlab.monitor.arriving_gradient import GRADIENT_NUMBERS, ArrivingGradient
from gradlab.monitor.movement import (
    FROZEN,
    NEW_WEIGHTS,
    SMALLER,
    WEIGHT_NUMBERS,
    WEIGHTS_MOVED,
    WEIGHTS_NORM,
    Movement,
    look_at_next_gradients,
    trained_weights,
)
from gradlab.monitor.optimizer_step import STEP_NUMBERS, NextStep
from gradlab.monitor.replayed_gradient import REPLAY_NUMBERS, Replay, are_cached
from gradlab.monitor.row_gradients import ROW_NUMBERS, RowGradients
from gradlab.monitor.step_effect import EFFECT_NUMBERS
from gradlab.monitor.token_signs import TOKEN_NUMBERS, TokenGradients, looked_up
from gradlab.monitor.trained_part import PART_NUMBERS, trained_part_by_graph, trained_part_of
from gradlab.monitor.view_texts import TEXT_NUMBERS, ViewTexts
from gradlab.scale.processes import several_processes

Tell = Callable[[dict[str, float]], None]
# Longest text in tokens over that at the beginning: recorded where most texts are cut by it.
LENGTH_LEFT = "length_left"
NUMBERS_OF_WEIGHTS = (
    LENGTH_LEFT,
    *(*WEIGHT_NUMBERS, *GRADIENT_NUMBERS, *STEP_NUMBERS, *EFFECT_NUMBERS),
    *(*TOKEN_NUMBERS, *TEXT_NUMBERS, *REPLAY_NUMBERS, *ROW_NUMBERS, *PART_NUMBERS),
)


class WeightsWatch:
    """Follows trained weights: how far they move, by which steps, and by which gradient."""

    def __init__(self, encoders: Callable[[], Sequence[nn.Module]]) -> None:
        """Follow the weights of encoders; without any, those that a loss was computed from."""
        self._encoders = encoders
        self._movement: Movement | None = None
        self._next_step: NextStep | None = None
        self._arriving: ArrivingGradient | None = None
        self._replay: Replay | None = None
        self._by_row = RowGradients()
        self._view_texts = ViewTexts()
        self._length = _length_of(encoders())

    def relative(self) -> float | None:
        """Return how far the weights have moved; None before the first record."""
        return None if self._movement is None else self._movement.relative()

    def record(
        self, value: Tensor | float | None, sources: Sequence[Tensor], own: Sequence[Tensor],
        tell: Tell, with_gradient_numbers: bool = True,
    ) -> dict[str, float]:  # fmt: skip
        """Return numbers of the weights and of the gradient at a batch; tell those of its step.

        Args:
            value: the loss of the batch.
            sources: its embeddings by view, with their graph.
            own: weights of the loss itself.
            tell: is called with the numbers of the step that follows, once.
            with_gradient_numbers: whether to return the numbers of the gradient; else they are told
                with those of the step, so that nothing waits for a GPU here.
        """
        if self._next_step is not None and self._next_step.waited:
            self._next_step.give_up()
        self.end()
        weights: list[Tensor] = [w for model in self._encoders() for w in model.parameters()]
        has_graph = isinstance(value, Tensor) and value.requires_grad
        texts = dict[str, float]()
        trained = trained_part_of(self._encoders()) if weights else {}
        if not weights and isinstance(value, Tensor):
            weights, trained = trained_weights(value), trained_part_by_graph(value, own)
            if has_graph:
                of_loss = {id(weight) for weight in own}
                look_at_next_gradients([w for w in weights if id(w) not in of_loss], tell)
                if not several_processes():
                    TokenGradients(value, tell, sum(map(len, sources)))
                texts = self._view_texts.numbers(sources)
                if are_cached(sources):
                    self._replay = Replay(sources, tell)
        numbers = self._moved(weights) | texts | trained | self._shortened(sources)
        if self._movement is None or not isinstance(value, Tensor) or not has_graph:
            return numbers
        # A backward pass through gathered rows would wait for the other processes for ever.
        arriving = None if several_processes() else ArrivingGradient(value, sources, self._by_row)

        def after_step(step_numbers: dict[str, float]) -> None:
            if arriving is not None:
                late = {} if with_gradient_numbers else arriving.numbers
                step_numbers = step_numbers | late | arriving.arrived()
            tell(step_numbers)

        held = self._movement
        self._next_step = NextStep(held.weights, own, held.still, after_step)
        self._arriving = arriving
        return numbers | (
            arriving.numbers if arriving is not None and with_gradient_numbers else {}
        )

    def conclude(self) -> None:
        """Tell what the step after the latest record has done, if it has been made."""
        if self._next_step is None:
            return
        # A criterion may be called several times for one backward pass.
        is_derived = self._arriving is not None and self._arriving.has_arrived
        if self._next_step.conclude(is_derived):
            self._next_step = None

    def end(self) -> None:
        """Look at no further step."""
        for following in (self._next_step, self._replay):
            if following is not None:
                following.end()
        self._next_step = self._replay = None

    def _moved(self, weights: Sequence[Tensor]) -> dict[str, float]:
        begins = self._movement is None
        if begins and not weights:
            return {}
        self._movement = self._movement or Movement(())
        self._movement.follow(weights)
        moved = self._movement.relative()
        new = {NEW_WEIGHTS: self._movement.new} if self._movement.new and not begins else {}
        norm = self._movement.norm
        shrunk = {WEIGHTS_NORM: norm} if norm < SMALLER else {}
        frozen = {FROZEN: share} if (share := self._movement.frozen) else {}
        return ({WEIGHTS_MOVED: moved} if moved == moved else {}) | new | frozen | shrunk

    def _shortened(self, sources: Sequence[Tensor]) -> dict[str, float]:
        """Return the share that is left of the longest text, if most texts are cut there now."""
        encoders = self._encoders()
        length = _length_of(encoders)
        if not 0 < length < self._length:
            return {}
        number = getattr(getattr(encoders[0], "tokenizer", None), "pad_token_id", None)
        padding = -1 if number is None else int(number)
        tokens = [batch for _, batch in filter(None, map(looked_up, sources))]
        full = [row for batch in tokens for row in batch.ne(padding).sum(1) >= length]
        return {LENGTH_LEFT: length / self._length} if sum(full) > len(full) / 2 else {}


def _length_of(encoders: Sequence[nn.Module]) -> float:
    """Return the tokens of the longest text of the first encoder; 0 if it has no limit."""
    return float(getattr(encoders[0], "max_seq_length", None) or 0) if encoders else 0.0
