"""One pass over drawn chunks for several pairs that share D: each chunk of D is drawn once, those of D' for each pair."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hpcdp.engine.context import Context
from hpcdp.engine.outcomes import Failure, Report
from hpcdp.errors import DamagedError, MechanismError
from hpcdp.mechanisms.outputs import Outputs
from hpcdp.store.stages import Stage
from hpcdp.study.problem import describe_pairs


def sweep(
    context: Context,
    stages: tuple[Stage | None, Stage | None],
    numbers: Sequence[int],
    chunks: range,
    use: Callable[[int, int, Outputs], None],
    report: Report,
    see: Callable[[str, int, int, Outputs], None] | None = None,
) -> list[int]:
    """Hand these chunks of both sides to `use(number, side, outputs)`; the pairs that got all of theirs.

    stages: of D and of D', None of a side that is not drawn. see: called with the law, the side, the chunk's number and its
    outputs, once. A mechanism's failure, or damage, costs the pairs that need the chunk, and is reported.
    """
    problem = context.problem

    def read(law: str, side: int, some: Sequence[int]) -> bool:
        stage = stages[side]
        if stage is None:
            return True
        try:
            drawn = context.chunks(stage, law, chunks)
            for chunk in chunks:
                outputs = next(drawn)
                for number in some:
                    use(number, side, outputs)
                if see is not None:
                    see(law, side, chunk, outputs)
                del outputs  # so that the next chunk lies where it lay, which caches hold
        except (MechanismError, DamagedError) as error:
            report.failures.append(Failure.of(describe_pairs(problem, some), error))
            return False
        return True

    if not numbers or not read(problem.pair_laws[numbers[0]][0], 0, numbers):
        return []
    return [number for number in numbers if read(problem.pair_laws[number][1], 1, [number])]
