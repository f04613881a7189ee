"""Results for tests, made in this process: a study's counts, or counts that are given."""

from pathlib import Path

import numpy as np
from studies import learn_and_count, make_study, pose

from hpcdp.engine.index import Index
from hpcdp.results.load import assemble, pair_entries
from hpcdp.results.result import Result
from hpcdp.study.file import Study

NOWHERE = Path("nowhere.zarr")


def measured(call, parameters, pairs, *, seed, keep="none", **estimate) -> Result:
    """The result of a study of scalar reals, without a store and without Dask."""
    study = make_study(call, parameters, pairs, seed=seed, keep=keep, **estimate)
    problem = pose(study)
    index, _ = learn_and_count(problem)
    return Result(study, NOWHERE, True, pair_entries(problem), assemble(problem, index), [], 1)


def unmeasured(study: Study) -> Result:
    """The result of a study of which nothing is counted yet."""
    problem = pose(study)
    return Result(study, NOWHERE, False, pair_entries(problem), assemble(problem, Index()), [], 1)


def changed(result: Result, **arrays) -> Result:
    """The same result with other values in some arrays."""
    known = {name: (result.arrays[name][0], np.asarray(values)) for name, values in arrays.items()}
    return Result(result.study, result.store, result.complete, result.pairs, result.arrays | known, [], result.columns)


def named(result, name="drawn", claim=None, **arrays) -> Result:
    """The same result of a study of this name, with this claim, in a store of this name."""
    body = result.study.to_dict()
    body["study"] |= {"name": name} | ({} if claim is None else {"claim": claim})
    found = changed(result, **arrays)
    object.__setattr__(found, "study", Study.from_dict(body, result.study.folder))
    object.__setattr__(found, "store", result.store.with_name(f"{name}.zarr"))
    return found
