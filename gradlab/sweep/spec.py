"""What a sweep runs: a file of settings, grids, points, stages and seeds."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gradlab.errors import GradlabError, nearest, reason
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
_OF_POINT = ("label", "seeds")


@dataclass(frozen=True)
class Point:
    """Settings that are run once a seed.

    Attributes:
        varied: the settings in which the points of a sweep differ, flat.
        settings: all settings but seed and output, flat.
        seeds: the seeds.
        label: a name for people, or empty.
        stage: the stage it belongs to, from 1; 0 where there are no stages.
    """

    varied: FlatSettings
    settings: FlatSettings
    seeds: tuple[int, ...]
    label: str = ""
    stage: int = 0

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
        points_given: tables of settings, flat, each with an optional "label", and "seeds" in place of the sweep's.
        stages: grids, flat.
        seeds: of every point.
        metric: what is compared: "stsb_dev" or "ndcg_at_10" (the best score), "sts" or "transfer" (averages of the test sets), or
            "group/name" of the metrics file (the last value).
        direction: "maximize" or "minimize".
        evaluate: "sts", "transfer" or task names that the best encoder is evaluated on.
        keep_encoders: keep the encoders of finished runs, which are most of what they take of the disk.
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
        if self.evaluate:
            task_names(self.evaluate)
        stages = [list(combinations(stage)) for stage in self.stages]
        for varied, label, _ in self._heads():
            for more in [{}, *(one for stage in stages for one in stage)]:
                try:
                    configure({**self.base, **varied, **more})
                except GradlabError as error:
                    named = label or settings_text({**varied, **more})
                    raise GradlabError(f"{self.name}{f' ({named})' if named else ''}: {error}") from error

    def points(self, scores: Mapping[str, float | None]) -> list[Point]:
        """The points that are known by now.

        Args:
            scores: key of each run that has ended -> its score, None if it failed.
        """
        found: list[Point] = []
        for varied, label, seeds in self._heads():
            if self.stages:
                found += self._climb(varied, label, seeds, scores)
            else:
                found.append(Point(varied, {**self.base, **varied}, seeds, label))
        return found

    def _heads(self) -> Iterator[tuple[FlatSettings, str, tuple[int, ...]]]:
        for given in self.points_given:
            label = str(given.get("label", ""))
            seeds = tuple(given.get("seeds", self.seeds))
            own = {name: value for name, value in given.items() if name not in _OF_POINT}
            for chosen in combinations(self.grid):
                named = f"{label}, {settings_text(chosen)}" if label and chosen else label
                yield {**own, **chosen}, named, seeds

    def _climb(
        self, varied: FlatSettings, label: str, seeds: tuple[int, ...], scores: Mapping[str, float | None]
    ) -> list[Point]:
        found: list[Point] = []
        for number, stage in enumerate(self.stages, start=1):
            candidates = []
            for chosen in combinations(stage):
                own = {**varied, **chosen}
                candidates.append(Point(own, {**self.base, **own}, seeds, label, number))
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
        if self.metric in _GOALS and self.metric not in self.evaluate:
            raise GradlabError(f"{self.name}: the metric {self.metric!r} needs evaluate = [{self.metric!r}]")
        from gradlab.evaluate.selection import SELECTIONS

        selected = self.metric in SELECTIONS
        needs = selected or self.evaluate
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
    """Read a TOML file.

    Args:
        path: the file.
        light: with its table ``light``: ``base`` there adds to the base, everything else replaces.

    Raises:
        GradlabError: if it cannot be read, is no sweep, or has no light version.
    """
    try:
        content = tomllib.loads(Path(path).read_text(encoding="utf-8"))
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
        about=content.get("about", ""),
    )
    if spec.direction not in DIRECTIONS:
        raise GradlabError(f"direction must be {' or '.join(DIRECTIONS)}, not {spec.direction!r}")
    check_names(spec.base, "base")
    for one in spec.points_given:
        check_names({key: value for key, value in one.items() if key not in _OF_POINT}, "points")
        _seeds(one.get("seeds", list(spec.seeds)))
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
