"""Decided sizes in the store: one record a decision, named by the pair's pilot and target, the step, and what was decided."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hpcdp.keys import digest_json
from hpcdp.problem import Problem, Sizes
from hpcdp.store.layout import Layout
from hpcdp.store.records import commit, record_names


def known_sizes(layout: Layout, problem: Problem) -> dict[str, Sizes]:
    """The latest decision of every pair of a study with a target, by pilot key."""
    found: dict[str, Sizes] = {}
    for name in sorted(record_names(layout, "sizes")):
        key, _, *sizes = name.split("-")
        refine, validation, test, *split = map(int, sizes)
        found[key] = Sizes(refine, validation, test, (split[0], split[1]) if split else (0, 0))
    keys = {_key(problem, pilot): pilot for pilot in problem.pilot_keys}
    return {keys[key]: sizes for key, sizes in found.items() if key in keys}


def commit_sizes(
    layout: Layout, problem: Problem, pilot: str, sizes: Sizes, why: Mapping[str, Any], generation: int
) -> None:
    """Record a pair's next decision, and what it rests on, before anything acts on it."""
    key = _key(problem, pilot)
    step = sum(name.startswith(f"{key}-") for name in record_names(layout, "sizes"))
    split = f"-{sizes.split[0]}-{sizes.split[1]}" if sizes.split[0] else ""
    name = f"{key}-{step:03d}-{sizes.refine}-{sizes.validation}-{sizes.test}{split}"
    commit(layout, "sizes", name, dict(why), generation)


def with_known_sizes(layout: Layout, problem: Problem) -> Problem:
    """The problem with what runs into this store have decided; as it is where nothing is to decide."""
    return problem.sized(known_sizes(layout, problem)) if problem.study.estimate.has_budget else problem


def _key(problem: Problem, pilot: str) -> str:
    target, time = problem.study.estimate.target, problem.study.estimate.time
    return digest_json(["target", pilot, time if target is None else target.model_dump(mode="json")])
