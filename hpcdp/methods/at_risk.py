"""Privacy at risk: pairs of databases are drawn and kept, and what their sensitivities allow to promise is derived."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hpcdp.engine.derived import Floats, Records, no_cells
from hpcdp.engine.index import Index
from hpcdp.engine.method import Method, Rows, Run
from hpcdp.engine.sampling import sample_tasks, sampling_seconds, task_seconds
from hpcdp.engine.task import Amounts, Costs, Progress, Task
from hpcdp.notions.at_risk import MOST_K, both_as_published, certified_within, cover_as_published, order_statistic
from hpcdp.notions.bounds import binomial_lower
from hpcdp.store.results import Arrays
from hpcdp.store.samples import read_blocks
from hpcdp.store.stages import Stage
from hpcdp.study.at_risk import LOSS, NUMBERS, SENSITIVITY, AtRisk
from hpcdp.study.problem import Problem
from hpcdp.study.trial_draws import Trial


class AtRiskMethod(Method):
    """See `Method`. Nothing is counted: there are no entries by ε."""

    notions = ("covers",)
    asked = "[at_risk]"
    needs_levels = compares = False
    unaudited = "audit: a study with trade-off points; given: one with [at_risk], which makes none; see hpcdp risk"

    def refuse_outputs(self, problem: Problem, trial: Trial) -> None:
        """Nothing is learned."""

    def kept_stages(self, problem: Problem) -> tuple[Stage, ...]:
        return (problem.test,)

    def tasks(self, problem: Problem, index: Index, costs: Costs, workers: int) -> list[Task]:
        """The blocks of pairs that are not there yet."""
        target = task_seconds(sampling_seconds(problem, index, costs), workers)
        return sample_tasks(problem, index, costs, target, last=True)

    def is_decided(self, problem: Problem, index: Index) -> bool:
        """Whether every pair is drawn."""
        (law,) = problem.laws
        return all(problem.test.name_of(law, block) in index.samples for block in range(problem.test.blocks))

    def progress(self, problem: Problem, index: Index) -> list[Progress]:
        (law,), stage = problem.laws, problem.test
        drawn = sum(stage.block_size(b) for b in range(stage.blocks) if stage.name_of(law, b) in index.samples)
        return [Progress("pairs", drawn, stage.total)]

    def amounts(self, problem: Problem) -> Amounts:
        stage = problem.test
        return Amounts(stage.total, stage.chunks, problem.schema.bytes_per_output * stage.total, 1)

    def describe_plan(self, problem: Problem, costs: Costs, workers: int) -> Rows:
        section = problem.study.at_risk
        assert section is not None
        ranks = (
            f"{cover:g} by rank {order_statistic(section.pairs, cover, section.confidence):,}"
            for cover in section.cover
        )
        words = (
            f"{section.pairs:,} pairs of databases of {section.rows:,} rows, two calls of {section.query} each and one "
            f"draw of noise; covers {', '.join(ranks)}"
        )
        return [("at risk", words)]

    def arrays(self, problem: Problem, index: Index, epsilons: Floats, run: Run) -> Arrays:
        """S and L of every pair in the order of their draws, and how many numbers the query returns; none before all are."""
        drawn, size = np.empty((0, 3)), problem.schema.columns or 0
        if self.is_decided(problem, index) and index.layout is not None:
            (law,) = problem.laws
            stage = problem.test
            parts = list(read_blocks(index.layout, stage, law, problem.schema, range(stage.chunks)))
            drawn = np.concatenate(parts).reshape(-1, size)
        names = (("sensitivity", SENSITIVITY), ("loss", LOSS), ("numbers", NUMBERS))
        return no_cells(len(problem.pairs)) | {
            f"risk_{name}": (("sample",), drawn[:, column].copy()) for name, column in names
        }

    def summary(self, records: Records, study: Any, arrays: Arrays, pairs: list[dict[str, Any]]) -> dict[str, Any]:
        return {"risk": describe_risk(study.at_risk, arrays)}


METHOD = AtRiskMethod()


def describe_risk(section: AtRisk, arrays: Arrays) -> list[dict[str, Any]]:
    """What `hpcdp risk` prints of each cover by itself; within.lower: as if ε had been named first; published: refuted."""
    sensitivity, loss = arrays["risk_sensitivity"][1], np.abs(arrays["risk_loss"][1])
    if not sensitivity.size:
        return []
    ordered, n = np.sort(sensitivity), int(sensitivity.size)
    largest, k = float(ordered[-1]) / section.scale, int(arrays["risk_numbers"][1].max())
    is_modelled = largest > 0.0 and math.isfinite(largest) and k <= MOST_K
    entries = []
    for cover in section.cover:
        rank = order_statistic(n, cover, section.confidence)
        distance = float(ordered[rank - 1])
        epsilon = distance / section.scale
        covered = int(np.searchsorted(ordered, distance, side="right"))
        hits = int(((loss <= epsilon) | (sensitivity <= distance)).sum())
        within = {
            "hits": hits,
            "pairs": n,
            "lower": float(binomial_lower(hits, n, 1.0 - section.confidence)),
            "certified": certified_within(hits, n, rank, covered, section.confidence),
            "published": both_as_published(epsilon, largest, cover, n, k=k) if is_modelled else None,
            "epsilon0": largest,
        }
        entries.append(
            {
                "cover": cover,
                "rank": rank,
                "sensitivity": distance,
                "epsilon": epsilon if math.isfinite(epsilon) else None,
                "published": cover_as_published(cover, n),
                "within": within,
            }
        )
    return entries
