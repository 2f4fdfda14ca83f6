"""The specification of a sweep: a file of settings, grids, points, stages and seeds."""

from __future__ import annotations

import itertools
import json
import re
import statistics
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from gradlab.errors import GradlabError
from gradlab.files import reading
from gradlab.settings import Settings, parse_call, setting
from gradlab.settings.objects import import_object
from gradlab.sweep.flat_settings import (
    FlatSettings,
    check_names,
    configure,
    flatten,
    identify,
    plain,
    settings_text,
)
from gradlab.train.config import TrainConfig

# Increase when an older gradlab could misread the file of a sweep.
FORMAT = 2
_GOALS = ("sts", "transfer")
# Entries of a point that are not settings.
_OF_POINT = ("label", "seeds", "evaluate")


@dataclass(frozen=True)
class Point:
    """Settings that are trained once per seed.

    Attributes:
        varied: the settings in which the points of a sweep differ, flat.
        settings: all settings except seed and output, flat.
        seeds: the seeds.
        label: name for display, or empty.
        stage: number of the stage, from 1; 0 without stages.
        evaluate: tasks on which the best encoders of its runs are evaluated.
    """

    varied: FlatSettings
    settings: FlatSettings
    seeds: tuple[int, ...]
    label: str = ""
    stage: int = 0
    evaluate: tuple[str, ...] = ()

    @property
    def runs(self) -> dict[int, str]:
        """Key of the run for each seed, from `gradlab.sweep.flat_settings.identify`."""
        return {seed: identify({**self.settings, "seed": seed}, self.varied) for seed in self.seeds}

    def title(self) -> str:
        """Return the label, or else the varied settings as text."""
        return self.label or settings_text(self.varied) or "base"


@dataclass(frozen=True)
class Spec(Settings):
    """A sweep; its points combine ``grid`` with entries of ``points_given`` (``points`` in a file).

    With ``stages``, each of these points starts a sequence of grids: each grid starts from the best
    point of the grid before.
    """

    setting_noun: ClassVar[str] = "entry"

    name: str = setting(text="of the study, in letters, digits, '-', '_' and '.'")
    base: dict[str, Any] = setting(factory=dict, text="settings of all runs, flat")
    grid: dict[str, Any] = setting(factory=dict, text="setting -> list of its values, flat")
    points_given: tuple[FlatSettings, ...] = setting(
        ({},),
        "settings, flat, each with an optional label, "
        "and seeds and evaluate in place of the sweep's",
    )
    stages: tuple[dict[str, list[Any]], ...] = setting((), "grids, flat")
    seeds: tuple[int, ...] = setting((42,), "of every point")
    metric: str = setting(
        "stsb_dev",
        "what is compared: stsb_dev or ndcg_at_10 (the best score of a run), sts or transfer "
        "(averages of the test sets), or group/name of the metrics file (the last value)",
    )
    direction: str = setting("maximize", "of the metric", choices=("maximize", "minimize"))
    evaluate: tuple[str, ...] = setting(
        (), "sts, transfer or tasks that the best encoders are evaluated on"
    )
    keep_encoders: bool = setting(
        True, "keep the encoders of finished runs, most of their disk space"
    )
    callbacks: tuple[str, ...] = setting(
        (),
        "functions (package.module:name or file.py:name) that take a run and the sweep's folder "
        "and return the callbacks of its training, see `gradlab.train.train`",
    )
    about: str = setting("", "a text for people")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not re.fullmatch(r"[\w.-]+", self.name):
            raise GradlabError(
                f"a sweep's name has letters, digits, '-', '_' and '.', not {self.name!r}"
            )
        _check_seeds(self.seeds)
        tables = {
            "base": _table(self.base, "base"),
            "grid": _grid(self.grid, "grid"),
            "points_given": tuple(
                _table(point, "points", _OF_POINT) for point in self.points_given
            ),
            "stages": tuple(_grid(stage, "stages") for stage in self.stages),
        }
        for name, table in tables.items():
            self._fix(**{name: table})
        for point in self.points_given:
            _check_seeds(point.get("seeds", (42,)))
            tasks = point.get("evaluate", [])
            if not isinstance(tasks, list | tuple) or not all(isinstance(t, str) for t in tasks):
                raise GradlabError(f"points: evaluate must be a list of tasks, not {tasks!r:.60}")

    def with_base(self, changes: Mapping[str, Any]) -> Spec:
        """Return the sweep with changed settings for all runs; GradlabError if it varies any."""
        changes = flatten(changes)
        for name in changes:
            if any(name in table for table in (self.grid, *self.points_given, *self.stages)):
                raise GradlabError(f"{name} is varied by the sweep {self.name!r}; leave it out")
        return replace(self, base={**self.base, **changes})

    def check(self) -> None:
        """Raise GradlabError if the metric, a point, or any value of the stages is invalid."""
        from gradlab.evaluate.suite import task_names

        for name in self.callbacks:
            import_object(name)
        for head in self._heads():
            if head.evaluate:
                task_names(head.evaluate)
        self.check_each(lambda config: None)
        self._check_metric()

    def check_each(self, check: Callable[[TrainConfig], None]) -> None:
        """Call ``check`` on each point's and stage value's configuration; errors name the point."""
        stages = [changes for stage in self.stages for changes in _combinations(stage)]
        for head in self._heads():
            for changes in [{}, *stages]:
                try:
                    settings = {**head.settings, **changes}
                    config = configure(settings)
                    if "loss" in {**head.varied, **changes}:
                        _check_once(settings)
                    check(config)
                except GradlabError as error:
                    point_label = head.label or settings_text({**head.varied, **changes})
                    raise GradlabError(
                        f"{self.name}{f' ({point_label})' if point_label else ''}: {error}"
                    ) from error

    def points(self, scores: Mapping[str, float | None]) -> list[Point]:
        """Return the points known so far.

        ``scores`` maps keys of ended runs to scores (None if failed).
        """
        heads = self._heads()
        return [
            point
            for head in heads
            for point in (self._climb(head, scores) if self.stages else [head])
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return the content of a file of this sweep; `parse_spec` is the inverse."""
        content = asdict(self)
        return {"format": FORMAT, **content, "points": content.pop("points_given")}

    def _heads(self) -> Iterator[Point]:
        """Yield the points of the sweep without its stages."""
        for entries in self.points_given:
            label = str(entries.get("label", ""))
            own = {name: entry for name, entry in entries.items() if name not in _OF_POINT}
            for combination in _combinations(self.grid):
                varied = {**own, **combination}
                yield Point(
                    varied,
                    {**self.base, **varied},
                    tuple(entries.get("seeds", self.seeds)),
                    f"{label}, {settings_text(combination)}" if label and combination else label,
                    evaluate=tuple(entries.get("evaluate", self.evaluate)),
                )

    def _climb(self, head: Point, scores: Mapping[str, float | None]) -> Iterator[Point]:
        """Yield the points of the stages, up to the first stage that has not ended."""
        varied, best = head.varied, max if self.direction == "maximize" else min
        for number, stage in enumerate(self.stages, start=1):
            changed = [{**varied, **combination} for combination in _combinations(stage)]
            points = [
                replace(head, varied=changes, settings={**self.base, **changes}, stage=number)
                for changes in changed
            ]
            yield from points
            if not all(key in scores for point in points for key in point.runs.values()):
                return
            means = []
            for point in points:
                of_seeds = [scores[key] for key in point.runs.values()]
                finite = [score for score in of_seeds if score is not None]
                if len(finite) == len(of_seeds):  # a point with a failed seed is not chosen
                    means.append((statistics.fmean(finite), point))
            if not means:
                return
            varied = best(means, key=lambda pair: pair[0])[1].varied

    def _check_metric(self) -> None:
        from gradlab.evaluate.selection import SELECTIONS

        if self.metric not in (*SELECTIONS, *_GOALS) and "/" not in self.metric:
            raise GradlabError(
                f"{self.name}: unknown metric {self.metric!r}; there are {', '.join(SELECTIONS)}, "
                "sts, transfer, and group/name of the metrics file, such as diagnostics/uniformity"
            )
        for point in self.points({}):
            needs = ""
            if self.metric in _GOALS and self.metric not in point.evaluate:
                needs = f"the metric {self.metric!r} needs evaluate = [{self.metric!r}]"
            elif (self.metric in SELECTIONS or point.evaluate) and not point.settings.get(
                "eval_data"
            ):
                entry = "evaluate" if point.evaluate else f"the metric {self.metric!r}"
                needs = (
                    f"{entry} needs the setting eval_data, SentEval's folder or a retrieval task"
                )
            if needs:
                raise GradlabError(f"{self.name} ({point.title()}): {needs}")


def read_spec(path: str | Path, light: bool = False) -> Spec:
    """Read a sweep from a TOML file, or from a JSON file (by its suffix).

    ``light`` applies the table with that name: ``base`` is merged into the base, other entries
    replace the file's. GradlabError if the file is unreadable, no sweep, or lacks a light version.
    """
    parser = json.loads if Path(path).suffix == ".json" else tomllib.loads
    with reading(f"the sweep {str(path)!r}"):
        content = parser(Path(path).read_text(encoding="utf-8"))
    if not isinstance(content, dict):
        raise GradlabError(f"the sweep {str(path)!r} is not a table of its entries")
    return parse_spec({"name": Path(path).stem, **content}, light)


def parse_spec(content: Mapping[str, Any], light: bool = False) -> Spec:
    """Return a sweep from the content of its file; see `read_spec`."""
    content = dict(content)
    if (written_in := content.pop("format", 1)) not in range(1, FORMAT + 1):
        raise GradlabError(
            f"the sweep {content.get('name')!r} has format {written_in!r:.60}, and this gradlab "
            f"reads up to {FORMAT}; update gradlab"
        )
    small = content.pop("light", None)
    if light:
        if not isinstance(small, dict):
            raise GradlabError(f"the sweep {content.get('name')!r} has no light version")
        base = _table(content.get("base", {}), "base") | _table(small.get("base", {}), "base")
        content = {**content, "name": f"{content.get('name')}-light", **small, "base": base}
    if "points" in content:
        points: Any = content.pop("points") or ({},)
        if not isinstance(points, list | tuple):
            raise GradlabError(f"points must be tables of settings, not {points!r:.60}")
        content["points_given"] = points
    return Spec(**{"name": "", **content})


def _combinations(grid: Mapping[str, list[Any]]) -> Iterator[FlatSettings]:
    """Yield every choice of one value per setting; the last setting changes fastest."""
    for values in itertools.product(*grid.values()):
        yield dict(zip(grid, values, strict=True))


def _table(table: Any, where: str, entries: Collection[str] = ()) -> FlatSettings:
    """Return a table of settings, and of ``entries``, flat; GradlabError if it is none."""
    if not isinstance(table, dict):
        raise GradlabError(f"{where} must be tables of settings, not {table!r:.60}")
    flat = flatten(table)
    check_names([name for name in flat if name not in entries], where)
    return flat


def _grid(table: Any, where: str) -> dict[str, list[Any]]:
    grid = _table(table, where)
    for name, values in grid.items():
        if not isinstance(values, list) or not values:
            raise GradlabError(f"{where}: {name} takes a list of values, not {values!r:.60}")
        if any(isinstance(value, Mapping) for value in values):
            raise GradlabError(
                f"{where}: {name} takes a list per setting, such as {name}.temperature = "
                f"[0.05, 0.1], or tables under [[points]], not {values!r:.60}"
            )
    return grid


def _check_once(settings: FlatSettings) -> None:
    """Raise GradlabError if loss_settings override a setting in the text of the loss."""
    loss = settings["loss"]
    for name in parse_call(loss)[1]:
        flat_name = f"loss_settings.{name}"
        if flat_name in settings:
            raise GradlabError(
                f"{flat_name} = {plain(settings[flat_name])} would override the {name} of {loss}; "
                "give one of the two"
            )


def _check_seeds(seeds: Any) -> None:
    whole = isinstance(seeds, list | tuple) and all(type(seed) is int for seed in seeds)
    if not seeds or not whole or len(set(seeds)) != len(seeds):
        raise GradlabError(
            f"seeds must be different whole numbers, at least one, not {seeds!r:.60}"
        )
