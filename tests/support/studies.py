"""Studies for tests, and two ways to run them: whole, on a cluster, or their pure pieces in this process."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from distributed import Client

from hpcdp.driver.driver import run as run_whole
from hpcdp.engine.context import Context
from hpcdp.engine.index import Index, Span
from hpcdp.engine.progress import Silent
from hpcdp.engine.series import Series
from hpcdp.engine.stopping import Stop
from hpcdp.mechanisms.outputs import Schema
from hpcdp.methods.sample_split.learning import learn_pair
from hpcdp.results.result import Result
from hpcdp.store.layout import Layout
from hpcdp.study.databases import load_databases
from hpcdp.study.file import Study
from hpcdp.study.named_code import names_code
from hpcdp.study.problem import Problem
from hpcdp.study.sampler import Sampler

REALS = Schema("float", None)
REFINED = {"refine": 30_000, "validation": 20_000, "train": 2000, "test": 30_000, "chunk": 10_000, "keep": "none"}
TAPED: dict[str, Any] = {
    "call": "own:shifted",
    "pairs": "given = [ { d = [0.0], d_prime = [1.0] } ]",
    "stream": "philox",
    "tape": True,
    "train": 1 << 14,
    "test": 1 << 20,
    "epsilons": [0.0, 0.5, 0.8],
    "certify": [0.8],
    "etas": [],
    "keep": "none",
}
"""A random tape of a mechanism of the study's own, as `write_study` takes it."""


def make_study(call, parameters, pairs, *, seed, folder=None, loss="knn", loss_parameters=None, head=None, **estimate):
    """A study from its few telling values. pairs: [(d, d_prime), …], or the table of relative pairs; head: more of [study]."""
    given = {"given": [{"d": d, "d_prime": e} for d, e in pairs]} if isinstance(pairs, list) else {"relative": pairs}
    stream = estimate.pop("stream", "numpy")
    return Study.from_dict(
        {
            "study": {"name": "test", "seed": seed, "stream": stream, **(head or {})},
            "mechanism": {"call": call, "parameters": parameters},
            "pairs": given,
            "estimate": {"loss": loss, "parameters": loss_parameters or {}, **estimate},
        },
        folder,
    )


def run(study: Study, store: Path, client: Callable[[], Client]) -> Result:
    """Run the study into the store: on this client's workers where it names code, else in this process."""
    if names_code(study):
        return run_whole(study, store, client=client())
    return run_whole(study, store, workers=0)


def pose(study: Study, schema: Schema = REALS) -> Problem:
    """The study resolved without trial draws; its outputs have this schema."""
    return Problem(study, load_databases(study), Sampler.of(study), schema)


def learn_and_count(problem: Problem) -> tuple[Index, list]:
    """All counts of a problem, as tasks count, without a store and without Dask: the index, and each pair's counter."""
    e = problem.study.estimate
    assert e.keep == "none"  # nothing is read from the folder that the layout names
    context = Context(Layout(Path("nowhere")), problem)
    thresholds = tuple(problem.thresholds.tolist())
    index, counters = Index(), []
    for number, model in enumerate(problem.model_keys):
        series = Series("count", model, problem.pair_laws[number], problem.test, number, thresholds)
        learned = learn_pair(context, series)
        counter, index.learned[model] = learned.counter, {thresholds: learned.facts}
        stage = problem.test
        counts = [_count(context, counter, stage, law) for law in problem.pair_laws[number]]
        index.spans[model] = {thresholds: [Span(0, stage.chunks, stage.total, {"counts": np.stack(counts)})]}
        counters.append(counter)
    return index, counters


def _count(context, counter, stage, law):
    return sum(counter.count(outputs) for outputs in context.chunks(stage, law, range(stage.chunks)))


def files_below(*folders: Path) -> Iterator[tuple[Path, bytes]]:
    """Every file below some folders with its bytes, by path."""
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                yield path, path.read_bytes()


class StopAtOnce(Silent):
    """Asks the run to stop when so many of its tasks are done."""

    def __init__(self, tasks: int = 1) -> None:
        self.stop, self.tasks = Stop(), tasks

    def advance(self, units: float) -> None:
        self.tasks -= 1
        if self.tasks <= 0:
            self.stop.request("enough", 60.0)


PURE_PAIRS = [{"d": [0.0], "d_prime": [shift]} for shift in (0.35, 1.0, 0.8)]


def pure_study(pure=None, pairs=None, mechanism=None, **estimate):
    """A study with [pure] of Laplace noise, if nothing else is given."""
    return Study.from_dict(
        {
            "study": {"name": "pure", "seed": 31, "stream": "numpy"},
            "mechanism": mechanism or {"call": "laplace", "parameters": {"epsilon": 0.9}},
            "pairs": pairs or {"given": PURE_PAIRS},
            "estimate": {"loss": "kde", "train": 6000, "test": 20_000, "chunk": 2500, **estimate},
            "pure": pure or {},
        }
    )
