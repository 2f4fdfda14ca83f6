"""What the trackers that a trainer's ``report_to`` names are told: curves, alerts and verdicts.

The numbers go to every tracker through its own callback, which names them ``train/gradlab/NAME``.
Alerts and verdicts are texts, and only TensorBoard, Weights & Biases and trackio take them here.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from gradlab.errors import first_line
from gradlab.monitor.metrics import DIAGNOSTICS
from gradlab.monitor.run_reader import Recording
from gradlab.monitor.summaries import as_markdown
from gradlab.monitor.verdicts import Judgement
from gradlab.monitor.verdicts.failures import warning_text
from gradlab.monitor.watch import caution
from gradlab.verdict import BAD, WATCH, Verdict

PRINTERS = ("ProgressCallback", "PrinterCallback", "NotebookProgressCallback")
PREFIX = "gradlab/"
# Prefix of names in trackers; transformers puts "train/" before the names of numbers.
ARRIVES = f"train/{PREFIX}"


class Trackers:
    """The trackers of a trainer; one that fails is left out from then on, with one warning."""

    def __init__(self, trainer: Any) -> None:
        self._trainer = trainer
        self._down: set[int] = set()

    def tell(self, numbers: dict[str, float], step: int) -> None:
        """Send diagnostics: ``gradlab/NAME``, or ``gradlab/DATASET/NAME`` for several losses."""
        own = {
            f"{PREFIX}{name[len(DIAGNOSTICS) + 1 :]}": number
            for name, number in numbers.items()
            if name.startswith(DIAGNOSTICS)
        }
        trainer = self._trainer
        event = trainer.args, trainer.state, trainer.control
        for callback in self._callbacks() if own else ():
            with self._safely(callback):
                callback.on_log(*event, logs=dict(own), model=trainer.model)

    def alert(self, failure: Verdict) -> None:
        """Send a failure that training has just shown."""
        text, step = warning_text(failure), self._trainer.state.global_step
        for callback, channel in self._channels():
            with self._safely(callback):
                channel.alert(callback, f"gradlab: {failure.title}", text, failure.grade, step)

    def conclude(self, run: Recording, judgement: Judgement) -> None:
        """Send the verdicts on the whole run."""
        for callback, channel in self._channels():
            with self._safely(callback):
                channel.conclude(callback, run, judgement, self._trainer.state.global_step)

    def _callbacks(self) -> list[Any]:
        return [
            callback
            for callback in self._trainer.callback_handler.callbacks
            if type(callback).__name__ not in PRINTERS and id(callback) not in self._down
        ]

    def _channels(self) -> Iterator[tuple[Any, type[Channel]]]:
        for callback in self._callbacks():
            for base in type(callback).__mro__:
                if base.__name__ in CHANNELS:
                    yield callback, CHANNELS[base.__name__]
                    break

    @contextlib.contextmanager
    def _safely(self, callback: Any) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # services raise anything when they are down
            self._down.add(id(callback))
            caution(
                f"gradlab cannot write to {type(callback).__name__} and leaves it out; training "
                f"and recording continue. {type(error).__name__}: {first_line(error)}"
            )


class Channel:
    """How a tracker takes texts; ``tracker`` is its callback in transformers."""

    alert: Callable[[Any, str, str, str, int], None]
    conclude: Callable[[Any, Recording, Judgement, int], None]


class TensorBoard(Channel):
    """Texts on TensorBoard's page of texts."""

    @staticmethod
    def alert(tracker: Any, title: str, text: str, grade: str, step: int) -> None:
        if tracker.tb_writer is not None:
            tracker.tb_writer.add_text(f"{ARRIVES}alerts", f"**{title}** {text}", step)

    @staticmethod
    def conclude(tracker: Any, run: Recording, judgement: Judgement, step: int) -> None:
        if tracker.tb_writer is not None:
            text = as_markdown(run, judgement)
            tracker.tb_writer.add_text(f"{ARRIVES}verdicts", text, step)


class WeightsAndBiases(Channel):
    """Alerts, and entries of the run's summary."""

    @staticmethod
    def alert(tracker: Any, title: str, text: str, grade: str, step: int) -> None:
        level = "ERROR" if grade == BAD else "WARN" if grade == WATCH else "INFO"
        if (run := tracker._wandb.run) is not None:
            run.alert(title=title, text=text, level=level)

    @staticmethod
    def conclude(tracker: Any, run: Recording, judgement: Judgement, step: int) -> None:
        if (service := tracker._wandb.run) is None:
            return
        service.summary[f"{ARRIVES}grade"] = judgement.grade
        service.summary[f"{ARRIVES}headline"] = judgement.headline
        for verdict in judgement.verdicts:
            text = f"{verdict.grade}: {verdict.finding}"
            service.summary[f"{ARRIVES}verdicts/{verdict.title}"] = text


class Trackio(Channel):
    """Alerts, and a text of the run."""

    @staticmethod
    def alert(tracker: Any, title: str, text: str, grade: str, step: int) -> None:
        levels = tracker._trackio.AlertLevel
        level = levels.ERROR if grade == BAD else levels.WARN if grade == WATCH else levels.INFO
        tracker._trackio.alert(title=title, text=text, level=level)

    @staticmethod
    def conclude(tracker: Any, run: Recording, judgement: Judgement, step: int) -> None:
        text = tracker._trackio.Markdown(as_markdown(run, judgement))
        tracker._trackio.log({f"{ARRIVES}verdicts": text}, step=step)


# Class of a tracker's callback in transformers -> how it takes texts.
CHANNELS: dict[str, type[Channel]] = {
    "TensorBoardCallback": TensorBoard,
    "WandbCallback": WeightsAndBiases,
    "TrackioCallback": Trackio,
}
