"""The standard error of δ̂ by resampling the recorded counts, beside the binomial one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hpcdp.analytic._curve import DIRECTIONS
from hpcdp.engine.derived import Records
from hpcdp.results.result import Result


@dataclass(frozen=True)
class Error:
    """The largest estimate at one level, and two standard errors of it; both asymptotic.

    method: "chunks" where every chunk of test outputs has a record of its own and there are at least 30 (bootstrap over
    chunks, which also shows outputs that are not independent), "classes" else (multinomial over the classes of L̂, the
    binomial error by simulation), "folds" where every sample teaches and tests (the same, fold by fold: what the sets change
    from run to run it does not show), "errors" of `literal-knn` (binomial over testing errors); of
    random tapes "weights" (bootstrap over chunks of draws from proposals) where there are at least 30, else "normal" (the
    standard error itself).
    """

    epsilon: float
    delta: float
    pair: int
    direction: str
    standard_error: float
    resampled: float
    method: str


def bootstrap(result: Result, replicates: int = 400) -> list[Error]:
    """Resample the counts of the cell with the largest estimate at each level; equal stores give equal numbers.

    Stores with equal records, that is: how chunks are put together in records may differ between runs, and with it the
    method.

    Args:
        result: of a store whose records are there.
        replicates: how many, at least 2.

    Raises:
        StoreError: counts that the result rests on are no longer in the store.
    """
    rng = np.random.default_rng(result.study.seed)
    records = Records(result.layout.root)
    errors = []
    for column in np.flatnonzero(~np.isnan(result["spectrum_delta"])):
        place = (int(result["spectrum_pair"][column]), int(result["spectrum_direction"][column]), int(column))
        level = float(result["epsilon"][column])
        method, values = result.method.resample(result.arrays, records, place, replicates, rng)
        errors.append(
            Error(
                epsilon=level,
                delta=float(result["delta"][place]),
                pair=place[0],
                direction=DIRECTIONS[place[1]],
                standard_error=float(result["standard_error"][place]),
                resampled=float(values.std(ddof=1)),
                method=method,
            )
        )
    return errors
