"""Tasks of samples that teach and test: each part of a pair's pool is counted by an L̂ that did not see it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hpcdp.engine.context import Context
from hpcdp.engine.outcomes import Failure, Report
from hpcdp.errors import DamagedError, MechanismError
from hpcdp.losses._alone import refuse_batch_dependent
from hpcdp.losses._sort import ascending
from hpcdp.losses.protocol import Loss, Outputs, Side
from hpcdp.methods.cross_fitting.plan import CountParts
from hpcdp.study.problem import describe_pairs
from hpcdp.study.reuse import Cut, Part


def count_parts(context: Context, work: CountParts, report: Report) -> None:
    """Learn and count parts of pools, and record their histograms."""
    problem = context.problem
    assert context.loss is not None
    cut, points = Cut.of(problem.study.estimate.pool), np.asarray(work.thresholds)
    pools: dict[str, Outputs] = {}
    counted = {}
    for pair, part in work.parts:
        laws = problem.pair_laws[pair]
        pools = {law: outputs for law, outputs in pools.items() if law in laws}
        try:
            for law in laws:
                if law not in pools:
                    pools[law] = read_pool(context, law)
            both = pools[laws[0]], pools[laws[1]]
            chunk = problem.study.estimate.chunk
            found = count_part(context.loss, both, cut.parts[part], points, chunk, context.foreign)
        except (MechanismError, DamagedError) as error:
            report.failures.append(Failure.of(describe_pairs(problem, [pair]), error))
            continue
        counted[pair, part] = {"pool": problem.pool_keys[pair], "part": part, "counts": found.tolist()}
    if counted:
        body = {"thresholds": list(work.thresholds), "entries": [*counted.values()]}
        report.add("reuse", work.name(problem, [*counted]), body)


def read_pool(context: Context, law: str) -> Outputs:
    """All samples of a law in the order of its pool: those of training, then those of testing."""
    problem = context.problem
    schema, filled = problem.schema, 0
    outputs = np.empty(schema.shape(problem.study.estimate.pool), schema.dtype)
    for stage in (problem.train, problem.test):
        for part in context.chunks(stage, law, range(stage.chunks)):
            outputs[filled : filled + part.shape[0]] = part
            filled += part.shape[0]
    return outputs


def count_part(
    loss: Loss,
    pools: tuple[Outputs, Outputs],
    part: Part,
    thresholds: NDArray[np.float64],
    chunk: int,
    foreign: str | None = None,
) -> NDArray[np.int64]:
    """Histograms (2, 2T + 1) of a part over the classes of L̂, the sides in the order D, D'.

    Each step learns on its places of both pools and counts its own; the histograms of the steps add up. foreign: see
    `foreign_code`; MechanismError where it does not judge the first outputs of the part one by one.
    """
    found = np.zeros((2, 2 * thresholds.size + 1), np.int64)
    for step in part.steps:
        p, q = (_side(np.concatenate([pool[r.start : r.stop] for r in step.learned])) for pool in pools)
        counter = loss.fit(p, q).counter(thresholds)
        for side, pool in enumerate(pools):
            if foreign is not None and step is part.steps[0]:
                first = pool[step.counted.start : min(step.counted.start + chunk, step.counted.stop)]
                refuse_batch_dependent(counter, first, foreign)
            for start in range(step.counted.start, step.counted.stop, chunk):
                found[side] += counter.count(pool[start : min(start + chunk, step.counted.stop)])
    return found


def _side(outputs: Outputs) -> Side:
    """Training outputs as a loss gets them of any study: reals in ascending order."""
    if outputs.ndim == 1 and outputs.dtype == np.float64:
        return Side(ascending(outputs), outputs.shape[0], is_sorted=True)
    return Side(outputs, outputs.shape[0])
