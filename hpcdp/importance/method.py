"""Importance sampling on the random tape, as a method: levels learn of every pair, then draws are weighed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from hpcdp.engine.context import Context
from hpcdp.engine.costs import Costs
from hpcdp.engine.index import Index, first_of
from hpcdp.engine.method import Learned, Rows
from hpcdp.engine.outcomes import Report
from hpcdp.engine.series import Effort, Phase, Series
from hpcdp.engine.task import Amounts
from hpcdp.importance import plan
from hpcdp.importance.plan import PARTS, level_series, parts_of, tape_keys, tested_pairs
from hpcdp.importance.result import TapeResults
from hpcdp.importance.work import Judge, chunk_sums, learn_levels, learned_state
from hpcdp.mechanisms.outputs import Schema
from hpcdp.store.layout import Layout
from hpcdp.store.stages import Stage
from hpcdp.study._timing import Timing
from hpcdp.study.databases import Input
from hpcdp.study.problem import Problem, describe_pairs
from hpcdp.study.sampler import Sampler

_WORDS = {"tape": "draw from proposals", "leftover": "draw the leftover"}


class ImportanceSampling(TapeResults):
    """See `Method`. A series is a part of one distribution's draws: from proposals ("tape"), or plain ones ("leftover")."""

    def kept_stages(self, problem: Problem) -> tuple[Stage, ...]:
        return ()

    def phases(self, problem: Problem, index: Index) -> list[Phase]:
        levels = [level_series(problem, number) for number in first_of(problem.once(tape_keys)).values()]
        phases = [Phase(levels, learned="learn levels", keeps=False)]
        tested = (tested_pairs(problem, index) or {}).items()
        parts = [
            (number, choice, part) for number, choice in tested for part in parts_of(problem, index, number, choice)
        ]
        for name in PARTS:
            for number, choice, part in parts:
                if part.name == name:
                    law = problem.pair_laws[number][part.side]
                    series = Series(name, part.key, (law,), part.stage, number, item=(choice, part.side))
                    phases.append(Phase([series], counted=_WORDS[name], by_chunk=True))
        return phases

    def effort(self, problem: Problem, costs: Costs, phase: Phase) -> Effort:
        series = phase.series[0]
        if series.kind not in PARTS:
            return plan.level_effort(problem, costs)
        return plan.draw_effort(series.item[0], series.kind, costs)

    def is_decided(self, problem: Problem, index: Index) -> bool:
        return tested_pairs(problem, index) is not None

    def amounts(self, problem: Problem) -> Amounts:
        return plan.amounts(problem)

    def decides(self, problem: Problem) -> bool:
        return True

    def known_draws(self, problem: Problem, index: Index) -> int:
        return plan.known_draws(problem, index)

    def describe_plan(self, problem: Problem, costs: Costs, workers: int) -> Rows:
        return plan.describe_target(problem)

    def describe_choices(self, problem: Problem, index: Index, costs: Costs, workers: int) -> Rows:
        return plan.describe(problem, index, costs, workers)

    def describe_learned(self, problem: Problem, index: Index) -> Rows:
        return plan.chosen_words(problem, index)

    def describe_series(self, problem: Problem, series: Sequence[Series]) -> str:
        pairs = describe_pairs(problem, list(dict.fromkeys(one.pair for one in series)))
        return pairs if series[0].kind not in PARTS else f"{pairs}, {problem.describe_law(series[0].laws[0])}"

    def time_draws(self, sampler: Sampler, first: Input, schema: Schema, most: int) -> Timing:
        """What plain draws on random tapes cost; see `hpcdp.importance.plan.time_draws_of`."""
        return plan.time_draws_of(sampler, first, schema, most)

    def files(self, problem: Problem, layout: Layout, series: Series) -> Iterable[Path]:
        return [layout.counter(problem.once(tape_keys)[series.pair], ())] if series.kind in PARTS else []

    def learn(self, context: Context, series: Series) -> Learned:
        if series.kind in PARTS:
            return Learned(None, records_facts=False)
        state, choice = learn_levels(context, series.pair)
        return Learned(None, {"choice": choice.to_dict()}, file=state)

    def count_series(self, context: Context, series: Series, chunks: range, report: Report) -> dict[str, Any]:
        test = Judge(context.problem, learned_state(context, series, report), series.item[0])
        return {"chunks": list(chunk_sums(context, test, series, chunks))}


METHOD = ImportanceSampling()
