"""What a sweep runs: a file of settings, grids, points, stages and seeds."""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from gradlab.errors import GradlabError, nearest, reason
from gradlab.settings.objects import import_object
from gradlab.sweep.settings import (
    FlatSettings,
    check_names,
    combinations,
    configure,
    flatten,
    identify,
    settings_text,
)

DIRECTIONS = ("maximize", "minimize")
_GOALS = ("sts", "transfer")
# Entries of a point that are no settings.
_OF_POINT = ("label", "seeds", "evaluate")


@dataclass(frozen=True)
class Point:
    """Settings that are run once a seed.

    Attributes:
        varied: the settings in which the points of a sweep differ, flat.
        settings: all settings but seed and output, flat.
        seeds: the seeds.
        label: a name for people, or empty.
        stage: the stage it belongs to, from 1; 0 where there are no stages.
        evaluate: what the best encoders of its runs are evaluated on.
    """

    varied: FlatSettings
    settings: FlatSettings
    seeds: tuple[int, ...]
    label: str = ""
    stage: int = 0
    evaluate: tuple[str, ...] = ()

    @property
    def runs(self) -> dict[int, str]:
        """Seed -> key of the run, see :func:`gradlab.sweep.settings.identify`."""
        return {seed: identify({**self.settings, "seed": seed}, self.varied) for seed in self.seeds}

    def title(self) -> str:
        """The label, or what is varied."""
        return self.label or settings_text(self.varied) or "base"


@dataclass(frozen=True)
class Spec:
    """A sweep.

    The points are every combination of ``grid`` with every entry of ``points``. With ``stages``, each of these
    goes through the stages: one grid after the other, the next from the best point of the one before.

    Attributes:
        name: of the study, in letters, digits, ``-``, ``_`` and ``.``.
        base: settings of all runs, flat.
        grid: setting -> values, flat.
        points_given: tables of settings, flat, each with an optional "label", and "seeds" and "evaluate" in place of
            the sweep's.
        stages: grids, flat.
        seeds: of every point.
        metric: what is compared: "stsb_dev" or "ndcg_at_10" (the best score), "sts" or "transfer" (averages of the test sets), or
            "group/name" of the metrics file (the last value).
        direction: "maximize" or "minimize".
        evaluate: "sts", "transfer" or task names that the best encoder is evaluated on.
        keep_encoders: keep the encoders of finished runs, which are most of what they take of the disk.
        callbacks: functions ("package.module:name" or "file.py:name") that are given a run and the sweep's folder, and return the callbacks of its training,
            see `gradlab.train.train`.
        about: a text for people.
    """

    name: str
    base: FlatSettings
    grid: dict[str, list[Any]] = field(default_factory=dict)
    points_given: tuple[FlatSettings, ...] = ({},)
    stages: tuple[dict[str, list[Any]], ...] = ()
    seeds: tuple[int, ...] = (42,)
    metric: str = "stsb_dev"
    direction: str = "maximize"
    evaluate: tuple[str, ...] = ()
    keep_encoders: bool = True
    callbacks: tuple[str, ...] = ()
    about: str = ""

    def with_base(self, changes: Mapping[str, Any]) -> Spec:
        """The same with other settings for all runs.

        Raises:
            GradlabError: a setting that the sweep varies.
        """
        changes = flatten(changes)
        varied = {*self.grid, *(name for one in self.points_given for name in one)}
        varied |= {name for stage in self.stages for name in stage}
        for name in changes:
            if name in varied:
                raise GradlabError(
                    f"{name} is varied by the sweep {self.name!r}; it cannot be set for all runs"
                )
        return replace(self, base={**self.base, **changes})

    def check(self) -> None:
        """Raise GradlabError for the first point that no run could be made of (stages: for each of their values)."""
        from gradlab.evaluate.suite import task_names

        self._check_metric()
        for head in self._heads():
            if head.evaluate:
                task_names(head.evaluate)
        for name in self.callbacks:
            import_object(name)
        stages = [list(combinations(stage)) for stage in self.stages]
        for head in self._heads():
            for more in [{}, *(one for stage in stages for one in stage)]:
                try:
                    configure({**head.settings, **more})
                except GradlabError as error:
                    named = head.label or settings_text({**head.varied, **more})
                    raise GradlabError(f"{self.name}{f' ({named})' if named else ''}: {error}") from error

    def points(self, scores: Mapping[str, float | None]) -> list[Point]:
        """The points that are known by now.

        Args:
            scores: key of each run that has ended -> its score, None if it failed.
        """
        found: list[Point] = []
        for head in self._heads():
            found += self._climb(head, scores) if self.stages else [head]
        return found

    def to_dict(self) -> dict[str, Any]:
        """The content of a file of this sweep, `parse_spec`'s inverse."""
        content = asdict(self)
        content["points"] = content.pop("points_given")
        return content

    def _heads(self) -> Iterator[Point]:
        for given in self.points_given:
            label = str(given.get("label", ""))
            own = {name: value for name, value in given.items() if name not in _OF_POINT}
            for chosen in combinations(self.grid):
                varied = {**own, **chosen}
                yield Point(
                    varied,
                    {**self.base, **varied},
                    tuple(given.get("seeds", self.seeds)),
                    f"{label}, {settings_text(chosen)}" if label and chosen else label,
                    evaluate=tuple(given.get("evaluate", self.evaluate)),
                )

    def _climb(self, head: Point, scores: Mapping[str, float | None]) -> list[Point]:
        found: list[Point] = []
        varied = head.varied
        for number, stage in enumerate(self.stages, start=1):
            candidates = []
            for chosen in combinations(stage):
                own = {**varied, **chosen}
                candidates.append(replace(head, varied=own, settings={**self.base, **own}, stage=number))
            found += candidates
            runs = [list(point.runs.values()) for point in candidates]
            if not all(key in scores for keys in runs for key in keys):
                break
            means = [_mean([scores[key] for key in keys]) for keys in runs]
            sign = 1 if self.direction == "maximize" else -1
            ranked = [(sign * mean, -place) for place, mean in enumerate(means) if mean is not None]
            if not ranked:
                break
            varied = candidates[-max(ranked)[1]].varied
        return found

    def _check_metric(self) -> None:
        evaluations = [head.evaluate for head in self._heads()]
        if self.metric in _GOALS and not all(self.metric in one for one in evaluations):
            raise GradlabError(f"{self.name}: the metric {self.metric!r} needs evaluate = [{self.metric!r}]")
        from gradlab.evaluate.selection import SELECTIONS

        selected = self.metric in SELECTIONS
        needs = selected or any(evaluations)
        if needs and not self.base.get("sts") and not any("sts" in one for one in self.points_given):
            raise GradlabError(
                f"{self.name}: the metric {self.metric!r} needs the setting sts, SentEval's folder or a retrieval task"
            )
        if not selected and self.metric not in _GOALS and "/" not in self.metric:
            raise GradlabError(
                f"{self.name}: unknown metric {self.metric!r}; there are {', '.join(SELECTIONS)}, sts, transfer, and group/name of "
                "the metrics file, such as diagnostics/uniformity"
            )


def _mean(values: list[float | None]) -> float | None:
    """None if a seed failed."""
    whole = [value for value in values if value is not None]
    return math.fsum(whole) / len(whole) if whole and len(whole) == len(values) else None


def read_spec(path: str | Path, light: bool = False) -> Spec:
    """Read a file, TOML or (by the name's end) JSON.

    Args:
        path: the file.
        light: with its table ``light``: ``base`` there adds to the base, everything else replaces.

    Raises:
        GradlabError: if it cannot be read, is no sweep, or has no light version.
    """
    try:
        read = json.loads if Path(path).suffix == ".json" else tomllib.loads
        content = read(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise GradlabError(f"cannot read the sweep {str(path)!r}: {reason(error)}") from error
    content.setdefault("name", Path(path).stem)
    return parse_spec(content, light)


_KEYS = {
    "name": str,
    "about": str,
    "metric": str,
    "direction": str,
    "seeds": list,
    "evaluate": list,
    "keep_encoders": bool,
    "callbacks": list,
    "base": dict,
    "grid": dict,
    "points": list,
    "stages": list,
    "light": dict,
}


def parse_spec(content: Mapping[str, Any], light: bool = False) -> Spec:
    """A sweep from the content of its file; see :func:`read_spec`.

    Raises:
        GradlabError: unknown or ill-typed entries, or a point that no run can be made of.
    """
    _check_keys(content, "the sweep")
    content = dict(content)
    small = content.pop("light", None)
    if light:
        if small is None:
            raise GradlabError(f"the sweep {content.get('name')!r} has no light version")
        _check_keys(small, "light")
        content = {**content, **small, "base": {**content.get("base", {}), **small.get("base", {})}}
        content["name"] = small.get("name", f"{content['name']}-light")
    name = content.get("name", "")
    if not re.fullmatch(r"[\w.-]+", name):
        raise GradlabError(f"a sweep's name has letters, digits, '-', '_' and '.' only, not {name!r}")
    spec = Spec(
        name=name,
        base=flatten(content.get("base", {})),
        grid=_grid(content.get("grid", {}), "grid"),
        points_given=tuple(flatten(_table(one, "points")) for one in content.get("points", [])) or ({},),
        stages=tuple(_grid(_table(one, "stages"), "stages") for one in content.get("stages", [])),
        seeds=_seeds(content.get("seeds", [42])),
        metric=content.get("metric", "stsb_dev"),
        direction=content.get("direction", "maximize"),
        evaluate=tuple(content.get("evaluate", ())),
        keep_encoders=content.get("keep_encoders", True),
        callbacks=tuple(content.get("callbacks", ())),
        about=content.get("about", ""),
    )
    if spec.direction not in DIRECTIONS:
        raise GradlabError(f"direction must be {' or '.join(DIRECTIONS)}, not {spec.direction!r}")
    check_names(spec.base, "base")
    for one in spec.points_given:
        check_names({key: value for key, value in one.items() if key not in _OF_POINT}, "points")
        _seeds(one.get("seeds", list(spec.seeds)))
        if not isinstance(one.get("evaluate", []), list):
            raise GradlabError(f"points: evaluate must be a list of tasks, not {one['evaluate']!r:.60}")
    return spec


def _check_keys(content: Mapping[str, Any], where: str) -> None:
    for key, value in content.items():
        if key not in _KEYS:
            raise GradlabError(f"{where}: unknown entry {key!r}.{nearest(key, _KEYS)}")
        if not isinstance(value, _KEYS[key]):
            raise GradlabError(f"{where}: {key} must be a {_KEYS[key].__name__}, not {value!r:.60}")


def _table(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise GradlabError(f"{where} must be tables of settings, not {value!r:.60}")
    return value


def _grid(table: Mapping[str, Any], where: str) -> dict[str, list[Any]]:
    flat = flatten(table)
    check_names(flat, where)
    for name, values in flat.items():
        if not isinstance(values, list) or not values:
            raise GradlabError(f"{where}: {name} takes a list of values, not {values!r:.60}")
    return flat


def _seeds(values: Any) -> tuple[int, ...]:
    whole = isinstance(values, list) and all(
        isinstance(seed, int) and not isinstance(seed, bool) for seed in values
    )
    if not values or not whole or len(set(values)) != len(values):
        raise GradlabError(f"seeds must be different whole numbers, at least one, not {values!r:.60}")
    return tuple(values)
