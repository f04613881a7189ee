"""What runs decide once for a store: sizes, one record a decision, and whether samples are reused."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hpcdp.errors import DamagedError
from hpcdp.keys import digest_json
from hpcdp.store.layout import Generation, Layout
from hpcdp.store.records import commit, read_record, record_names, set_aside
from hpcdp.study.sizes import Sizes

if TYPE_CHECKING:
    from hpcdp.study.problem import Problem

_REUSE = {"reuse": True, "no-reuse": False}


def known_sizes(layout: Layout, problem: Problem) -> dict[str, Sizes]:
    """The latest decision of every pair of a study with a target, by pilot key; what is damaged is decided anew."""
    own = set(problem.pilot_keys)
    steps = (_decided(layout, name) for name in _steps(layout, problem))
    return {pilot: sizes for step in steps for pilot, sizes in step.items() if pilot in own}


def set_sizes_aside(layout: Layout, pilots: AbstractSet[str]) -> None:
    """Take every decision about these pairs out of use."""
    for name in record_names(layout, "sizes"):
        if pilots & _decided(layout, name).keys():
            set_aside(layout, "sizes", name)


def commit_sizes(
    layout: Layout, problem: Problem, sizes: Mapping[str, Sizes], why: Mapping[str, Any], generation: Generation
) -> None:
    """Record one decision, sizes by pilot key, and what it rests on, before anything acts on it."""
    pairs = {
        pilot: [s.refine, s.validation, s.test, *s.split, s.screen, *(s.d_prime if any(s.d_prime) else ())]
        for pilot, s in sizes.items()
    }
    last = max((int(name.rpartition("-")[2]) for name in _steps(layout, problem)), default=-1)
    commit(layout, "sizes", f"{_key(problem)}-{last + 1:06d}", {"pairs": pairs, "why": dict(why)}, generation)


def with_decisions(layout: Layout, problem: Problem) -> Problem:
    """The problem with what runs into this store have decided; as it is where nothing is to decide."""
    if problem.study.estimate.reuse == "auto" and problem.chosen is None:
        problem = replace(problem, chosen=known_choice(layout))
    return problem.sized(known_sizes(layout, problem)) if problem.study.estimate.has_budget else problem


def _decided(layout: Layout, name: str) -> dict[str, Sizes]:
    """Sizes by pilot key of one decision; none where it is damaged."""
    try:
        pairs = read_record(layout, "sizes", name)["pairs"]
    except DamagedError:
        return {}
    return {
        pilot: Sizes(refine, validation, test, (d, d_prime), screen, tuple(more) or (0, 0))
        for pilot, (refine, validation, test, d, d_prime, screen, *more) in pairs.items()
    }


def _steps(layout: Layout, problem: Problem) -> list[str]:
    """Names of the decisions about this target, in order."""
    head = f"{_key(problem)}-"
    return sorted(name for name in record_names(layout, "sizes") if name.startswith(head))


def _key(problem: Problem) -> str:
    target, time = problem.study.estimate.target, problem.study.estimate.time
    return digest_json(["target", time if target is None else target.model_dump(mode="json")])


def known_choice(layout: Layout) -> bool | None:
    """Whether samples of this store are reused; None where no run has chosen yet."""
    names = record_names(layout, "choices")
    return next((reuse for name, reuse in _REUSE.items() if name in names), None)


def commit_choice(layout: Layout, reuse: bool, why: Mapping[str, Any], generation: Generation) -> None:
    """Record the choice, and what it rests on, before anything acts on it."""
    name = next(name for name, value in _REUSE.items() if value == reuse)
    commit(layout, "choices", name, dict(why), generation)
