"""Results of a study with [at_risk]: what its pairs' sensitivities allow to promise, and what the paper says of it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hpcdp.engine.derived import Floats, Run, no_cells
from hpcdp.engine.index import Index
from hpcdp.mechanisms.pair_draws import LOSS, NUMBERS, SENSITIVITY
from hpcdp.methods.at_risk.plan import is_done
from hpcdp.methods.sample_split.derive import Counted
from hpcdp.notions.at_risk import MOST_K, both_as_published, certified_within, cover_as_published, order_statistic
from hpcdp.notions.bounds import binomial_lower
from hpcdp.store.results import Arrays
from hpcdp.store.samples import read_blocks
from hpcdp.study.at_risk import AtRisk
from hpcdp.study.problem import Problem


class RiskResults(Counted):
    """See `Derived`; there are no cells."""

    def arrays(self, problem: Problem, index: Index, epsilons: Floats, run: Run) -> Arrays:
        """S and L of every pair in the order of their draws, and how many numbers the query returns; none before all are."""
        drawn, size = np.empty((0, 3)), problem.schema.columns or 0
        if is_done(problem, index) and index.layout is not None:
            (law,) = problem.laws
            stage = problem.test
            parts = list(read_blocks(index.layout, stage, law, problem.schema, range(stage.chunks)))
            drawn = np.concatenate(parts).reshape(-1, size)
        names = (("sensitivity", SENSITIVITY), ("loss", LOSS), ("numbers", NUMBERS))
        return no_cells(len(problem.pairs)) | {
            f"risk_{name}": (("sample",), drawn[:, column].copy()) for name, column in names
        }


DERIVED = RiskResults()


def describe_risk(section: AtRisk, arrays: Arrays) -> list[dict[str, Any]]:
    """What `hpcdp risk` prints of each cover below "risk"; nothing while pairs are missing. Each entry holds by itself.

    sensitivity, epsilon: finite-sample, from the rank. within.certified: finite-sample; within.lower: Clopper–Pearson, as if ε
    had been named before the pairs were drawn. published, within.published: Theorems 5 and 6, refuted.
    """
    sensitivity, loss = arrays["risk_sensitivity"][1], np.abs(arrays["risk_loss"][1])
    if not sensitivity.size:
        return []
    ordered, n = np.sort(sensitivity), int(sensitivity.size)
    largest, k = float(ordered[-1]) / section.scale, int(arrays["risk_numbers"][1].max())
    is_modelled = largest > 0.0 and math.isfinite(largest) and k <= MOST_K
    found = []
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
        found.append(
            {
                "cover": cover,
                "rank": rank,
                "sensitivity": distance,
                "epsilon": epsilon if math.isfinite(epsilon) else None,
                "published": cover_as_published(cover, n),
                "within": within,
            }
        )
    return found
