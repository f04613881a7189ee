"""The spectrum of one function in one call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hpcdp._base.node import start_early
from hpcdp.driver import EPSILONS

if TYPE_CHECKING:
    from distributed import Client

    from hpcdp.engine.progress import Progress
    from hpcdp.results.result import Result


def spectrum(
    function: Callable[..., Any] | str,
    d: Any,
    d_prime: Any,
    *,
    epsilons: Sequence[float] | Mapping[str, Any] = EPSILONS,
    seed: int = 0,
    parameters: Mapping[str, Any] | None = None,
    reproducible: bool = True,
    raises: Sequence[str | type[Exception]] | None = None,
    claim: str | None = None,
    name: str | None = None,
    store: str | Path | None = None,
    cluster: str = "local",
    workers: int | None = None,
    client: Client | None = None,
    allow_changed_code: bool = False,
    progress: Progress | None = None,
    **estimate: Any,
) -> Result:
    """δ(ε) of a function on two databases, in both directions, as `run` finds it of a study with this one given pair.

    Bounds are finite-sample and rest on independent draws; a fixed seed makes them repeatable, not surer.

    Args:
        function: `function(database, size, rng, **parameters)`, which returns `size` outputs, or without `size` one; any
            callable object, of a module, a script, a notebook or another function; a built-in's name, or "package.module:name".
        d, d_prime: the databases: lists or arrays of shape (rows,) or (rows, columns) of booleans or finite numbers, or both
            DataFrames of the same columns, which the function gets as such.
        epsilons: distinct finite numbers, or a grid {start, stop, count}, stop included.
        seed: at least 0, from which all draws follow: the same at every call, unless another is given.
        parameters: keyword arguments of the function, JSON values.
        reproducible: whether all its randomness comes from rng; False of one with generators of its own, which may lack rng.
        raises: exceptions that are outputs where the function raises them: classes, or names as "ValueError", "module:Class".
        claim, name: of the study; by default no claim, and the function's name.
        store: where samples and counts are kept, to go on with; None: a temporary folder that goes when the result does.
        cluster, workers, client, allow_changed_code, progress: as in `run`.
        estimate: further keys of [estimate], such as train, test, loss, etas, confidence (all: hpcdp schema).

    Raises:
        StudyError: before anything runs, where an argument or the function is wrong. Else as `run`.
    """
    if callable(function) and cluster == "local" and client is None:
        start_early()  # while this process loads its libraries
    from hpcdp.driver.direct import run_study, study_of

    given = {"epsilons": epsilons, "seed": seed, "parameters": parameters, "reproducible": reproducible}
    study = study_of(function, d, d_prime, {**estimate, **given, "raises": raises, "claim": claim, "name": name})
    how = {"cluster": cluster, "workers": workers, "client": client, "allow_changed_code": allow_changed_code}
    return run_study(study, store, progress=progress, **how)
