"""Work of histograms: count outputs in bins, law by law."""

from __future__ import annotations

import numpy as np

from hpcdp.engine.context import Context
from hpcdp.engine.outcomes import Failure, Report
from hpcdp.errors import DamagedError, MechanismError
from hpcdp.losses.histogram.counting import OutsideError, count_bins
from hpcdp.methods.histogram.plan import CountBins, parameters_of, stage_of
from hpcdp.notions.bins import refuse_atoms
from hpcdp.store.arrays import fingerprint

_FIRST = 1 << 16  # outputs of a law that are looked at for equal ones


def count(context: Context, work: CountBins, report: Report) -> None:
    """Count a range of chunks of some laws, and record what each that got all of them counted."""
    problem, chunks = context.problem, range(work.start, work.stop)
    stage, given = stage_of(problem, work.stage), parameters_of(problem)
    is_kept, entries, prints = stage in problem.kept_stages, [], {}
    for law in work.laws:
        counts, seen = np.zeros(work.bins, np.int64), []
        atom: dict[str, float] = {}
        what = CountBins((law,), work.stage, work.start, work.stop, work.bins).describe(problem)
        try:
            for outputs in context.chunks(stage, law, chunks):
                count_bins(outputs, given.range, counts)
                if work.start == 0 and not atom:
                    atom = {"atom": refuse_atoms(outputs[:_FIRST], given.width, given.lipschitz)}
                if not is_kept:
                    seen.append(fingerprint(outputs))
        except OutsideError as error:
            report.failures.append(Failure(what, f"estimate.{error}", str(error), is_wrong=True))
            continue
        except (MechanismError, DamagedError) as error:
            report.failures.append(Failure.of(what, error))
            continue
        entries.append({"model": problem.bin_key(law, work.stage, work.bins), "counts": counts.tolist(), **atom})
        prints[law] = seen
    if not entries:
        return
    size = work.size(problem)
    body = {
        "stage": work.stage,
        "start": work.start,
        "stop": work.stop,
        "thresholds": [],
        "draws": [size, size],
        "accepted": [size, size],
        "entries": entries,
        "laws": list(prints),
        "fingerprints": {law: found for law, found in prints.items() if found},
    }
    report.add("counts", work.name(problem, [*prints]), body)
