"""One pass over drawn chunks for several units that share D: each chunk of D is drawn once, those of D′ for each unit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from hpcdp.engine.context import Context
from hpcdp.engine.outcomes import Failure, Report
from hpcdp.errors import DamagedError, MechanismError
from hpcdp.mechanisms.outputs import Outputs
from hpcdp.store.stages import Stage
from hpcdp.study.declared import RefutedError

Unit = TypeVar("Unit")


def sweep(
    context: Context,
    laws: Mapping[Unit, Sequence[str]],
    stages: Sequence[Stage | None],
    chunks: range,
    use: Callable[[Unit, int, Outputs], None],
    report: Report,
    describe: Callable[[Sequence[Unit]], str],
    see: Callable[[str, int, int, Outputs], None] | None = None,
) -> list[Unit]:
    """Hand these chunks of all sides to `use(unit, side, outputs)`; the units that got all of theirs.

    laws: of each unit, side by side; those that share the first one, one after another, get its chunks together. stages: of each
    side, None of one that is not drawn. see: called with the law, the side, the chunk's number and its outputs,
    for each unit anew where the law is not its first. A mechanism's failure, or damage, costs the units that need the chunk, and
    is reported; describe: some units in words.
    """

    def read(law: str, side: int, units: Sequence[Unit]) -> bool:
        stage = stages[side]
        if stage is None:
            return True
        try:
            drawn = context.chunks(stage, law, chunks)
            for chunk in chunks:
                outputs = next(drawn)
                for unit in units:
                    use(unit, side, outputs)
                if see is not None:
                    see(law, side, chunk, outputs)
                del outputs  # so that the next chunk lies where it lay, which caches hold
        except (MechanismError, DamagedError) as error:
            which = (
                f"{stage.name} chunks {chunks.start} to {chunks.stop - 1} of "
                if isinstance(error, RefutedError)
                else ""
            )
            report.failures.append(Failure.of(f"{which}{describe(units)}", error))
            return False
        return True

    by_first: dict[str, list[Unit]] = {}
    for unit, own in laws.items():
        by_first.setdefault(own[0], []).append(unit)
    whole: list[Unit] = []
    for law, units in by_first.items():
        if read(law, 0, units):
            whole += [
                unit for unit in units if all(read(other, side, [unit]) for side, other in enumerate(laws[unit][1:], 1))
            ]
    return whole
