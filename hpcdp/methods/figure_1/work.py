"""Work of the literal way: each cell for itself (Fig. 1 to the letter)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hpcdp._base.doing import drawing
from hpcdp.engine.context import Context
from hpcdp.engine.outcomes import Failure, Report
from hpcdp.errors import MechanismError
from hpcdp.keys import digest_json, stream
from hpcdp.losses.knn.literal import count_rejections, testing_risk
from hpcdp.losses.knn.parameters import LiteralKnnParameters
from hpcdp.mechanisms.outputs import Outputs
from hpcdp.methods.figure_1.plan import TrainCells
from hpcdp.study.problem import LiteralCell


def train_cells(context: Context, work: TrainCells, report: Report) -> None:
    """Draw, train and test for each cell, and record their counts."""
    entries = []
    for cell in work.cells:
        key = context.problem.cell_key(cell)
        try:
            entries.append({"cell": key, **_count_literal(context, cell, key)})
        except MechanismError as error:
            report.failures.append(Failure.of(cell.describe(), error))
    if entries:
        report.add("cells", work.name(entry["cell"] for entry in entries), {"entries": entries})


def _count_literal(context: Context, cell: LiteralCell, key: str) -> dict[str, Any]:
    """The integer counts of one literal cell, as its record holds them."""
    problem = context.problem
    estimate, laws = problem.study.estimate, problem.pair_laws[cell.pair]
    coins = stream(problem.study.seed, key, "train", 0)
    parameters = LiteralKnnParameters.model_validate(estimate.parameters)
    settings = (coins, cell.level, estimate.train, estimate.test, parameters, estimate.chunk)
    if cell.is_point:
        p, q = (_redraw(context, law, key, side) for law, side in zip(laws, ("d", "d_prime"), strict=True))
        return {"rejected": list(count_rejections(p, q, *settings)), "test": [estimate.test, estimate.test]}
    first, second = laws if cell.direction == "forward" else laws[::-1]
    errors, tests = testing_risk(
        _redraw(context, first, key, "thinned"), _redraw(context, second, key, "whole"), *settings
    )
    return {"errors": errors, "tests": tests}


def _redraw(context: Context, law: str, cell: str, side: str) -> Callable[[str, int], Outputs]:
    """Draws of a law that belong to one literal cell alone; each call is the next chunk of its stage."""
    key = digest_json([cell, law, side])
    calls = {"train": 0, "test": 0}
    problem = context.problem

    def draw(stage: str, size: int) -> Outputs:
        chunk = calls[stage]
        calls[stage] += 1

        def where() -> str:
            return f"{stage} chunk {chunk} of {problem.describe_law(law)}"

        with drawing(where, problem.sampler.timeout):
            return problem.sampler.draw_from(problem.laws[law], key, stage, chunk, size, problem.schema)

    return draw
