"""What the engine asks a way of estimating: which function does which work."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, cast

from hpcdp.engine.context import Context
from hpcdp.engine.outcomes import Report
from hpcdp.planning.task import Work
from hpcdp.study.problem import Problem
from hpcdp.study.ways import WAYS

Run = Callable[[Context, Any, Report], None]


def runs_of(problem: Problem) -> Mapping[type[Work], Run]:
    """`RUNS` of the part of a problem's way, and of the one beside it: by each kind of work the function that does it."""
    ways = [problem.way, *([WAYS[problem.way.beside]] if problem.way.beside else [])]
    return {work: cast("Run", run) for way in ways for work, run in import_module(way.engine).RUNS.items()}
