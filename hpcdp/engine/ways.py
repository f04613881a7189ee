"""What the engine asks a way of estimating: which function does which work."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, cast

from hpcdp.engine.context import Context
from hpcdp.engine.outcomes import Report
from hpcdp.planning.task import Work
from hpcdp.store.layout import Generation
from hpcdp.study.problem import Problem

Run = Callable[[Context, Generation, Any, Report], None]


def runs_of(problem: Problem) -> Mapping[type[Work], Run]:
    """`RUNS` of the part of a problem's way: by each kind of its work the function that does it."""
    return cast("Mapping[type[Work], Run]", import_module(problem.way.engine).RUNS)
