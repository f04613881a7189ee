"""Streamed counting of hpcdp's own streams in one dimension against merely drawing the same number of outputs with NumPy.

Noise of hpcdp's own mechanisms, and normal noise of a callable that a user may write, against `rng.normal` as well. Both in
the same two processes, taking turns in one run: one draws with `rng.normal` or `rng.laplace` in chunks of 2¹⁸, the other
runs hpcdp's own tasks, from keys to the committed record, for both sides, 21 ε and both directions: those that count test
outputs, and those that tally for refining; the seconds in which this process commits their records count too. What is learned
before is apart. Seconds are of the processor, summed over the processes; in brackets those of the clock, which a shared machine
makes longer.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.processes import peak_megabytes
from hpcdp.driver.driver import store_problem
from hpcdp.engine.execute import Writer
from hpcdp.engine.index import Index
from hpcdp.engine.method import method_of
from hpcdp.engine.outcomes import Report
from hpcdp.engine.series import Count, Learn, Series
from hpcdp.engine.task import Task
from hpcdp.engine.tasks import run_task
from hpcdp.methods.sample_split.tally_plan import LearnPilots, Tally
from hpcdp.store.layout import Generation, Layout
from hpcdp.store.lease import acquire
from hpcdp.store.root import latest_version, open_layout
from hpcdp.study.file import Study
from hpcdp.study.problem import Problem
from hpcdp.study.resolving import resolve

CHUNK = 1 << 18
_LAWS: dict[str, dict[str, Any]] = {
    "gaussian": {"call": "gaussian", "parameters": {"sigma": 1.0}},
    "laplace": {"call": "laplace", "parameters": {"epsilon": 1.0}},
    "callable": {"call": "benchmarks.streaming:noisy_sum"},
}
_WORKS = ("refined", "tally", "kde", "knn")
"""Counting with a refined loss, tallying by cell for one, and counting with an L̂ of few runs of one class and of very many."""
_PROCESSES = 2

Seconds = tuple[float, float]


def noisy_sum(database: NDArray[Any], size: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """The Gaussian mechanism as a user writes it."""
    return rng.normal(size=size) + database.sum()


def streaming_study(law: str, work: str, train: int, streamed: int) -> Study:
    """Noise of scale 1 on 0 against 1, no samples kept, with samples per database; so many are streamed."""
    refine = {"refined": 4 * train, "tally": streamed}.get(work, 0)
    test = train if work == "tally" else streamed
    return Study.from_dict(
        {
            "study": {"name": "streaming", "seed": 20240520, "stream": "philox"},
            "mechanism": _LAWS[law],
            "pairs": {"given": [{"d": [0.0], "d_prime": [1.0]}]},
            "estimate": {
                "loss": work if work in ("kde", "knn") else "smooth",
                "train": train,
                "refine": refine,
                "test": test,
                "keep": "none",
                "chunk": CHUNK,
                "epsilons": {"start": 0.0, "stop": 2.0, "count": 21},
            },
        },
        Path(__file__).parent.parent,
    )


def draw_alone(law: str, chunks: int, seed: int) -> Seconds:
    """Seconds of the processor and of the clock that NumPy alone takes for so many chunks."""
    rng = np.random.default_rng(seed)
    draw = rng.laplace if law == "laplace" else rng.normal
    begin = time.process_time(), time.perf_counter()
    for _ in range(chunks):
        draw(size=CHUNK)
    return time.process_time() - begin[0], time.perf_counter() - begin[1]


def run_alone(store: str, version: int, generation: Generation, task: Task) -> tuple[Report, Seconds]:
    """What a task found, and the seconds of the processor and of the clock that it takes in this process."""
    begin = time.process_time(), time.perf_counter()
    report = run_task(store, version, generation, task)
    spent = time.process_time() - begin[0], time.perf_counter() - begin[1]
    if report.failures:
        raise RuntimeError(report.failures[0].message)
    return report, spent


def _commit(writer: Writer, reports: Iterable[Report]) -> Seconds:
    """Seconds that it takes to commit what tasks found, as a run's own process does."""
    begin = time.process_time(), time.perf_counter()
    for report in reports:
        writer.take(report)
    writer.flush()
    return time.process_time() - begin[0], time.perf_counter() - begin[1]


def _peak(_: int) -> tuple[int, float]:
    time.sleep(0.2)  # so that no process answers twice
    return os.getpid(), peak_megabytes()


def _before(problem: Problem, work: str) -> list[Task]:
    """What is learned before anything is streamed."""
    fit = Task("fit", Learn((_series(problem),)), (), 1, 1.0)
    pilot = Task("pilot", LearnPilots((0,)), (), 1, 1.0)
    if work in ("kde", "knn"):
        return [fit]
    if work == "tally":
        return [pilot]
    whole = [Tally((0,), name, 0, problem.stage_of(name, 0).chunks) for name in ("refine", "validation")]
    return [pilot, *(Task(work.stage, work, (), 1, 1.0) for work in whole), fit]


def _series(problem: Problem) -> Series:
    """What is counted of the one pair."""
    (phase,) = method_of(problem).phases(problem, Index())
    return phase.series[0]


def _streamed(problem: Problem, work: str, start: int, stop: int) -> Task:
    does = Tally((0,), "refine", start, stop) if work == "tally" else Count((_series(problem),), start, stop)
    return Task(f"{start}", does, (), stop - start, 1.0)


def _compare(law: str, work: str, train: int, chunks: int, repeats: int) -> dict[str, float]:
    """Medians of one law and one kind of work; each process takes `chunks` chunks of either side a turn."""
    turns = repeats + 1  # one to warm up
    study = streaming_study(law, work, train, turns * _PROCESSES * chunks * CHUNK)
    drawn: list[list[Seconds]] = []
    counted: list[list[Seconds]] = []
    with (
        tempfile.TemporaryDirectory(prefix="hpcdp-streaming-") as folder,
        ProcessPoolExecutor(_PROCESSES) as pool,
    ):
        store = str(Path(folder) / "s.zarr")
        problem, _ = resolve(study)
        store_problem(problem, Path(store))
        lease = acquire(Layout(Path(store)))
        version = latest_version(open_layout(Path(store)))
        writer = Writer(Layout(Path(store), lease.generation))
        for task in _before(problem, work):
            _commit(writer, [pool.submit(run_alone, store, version, lease.generation, task).result()[0]])
        for turn in range(turns):
            tasks = []
            for process in range(_PROCESSES):
                start = (turn * _PROCESSES + process) * chunks
                tasks.append(_streamed(problem, work, start, start + chunks))
            seeds = range(turn * _PROCESSES, (turn + 1) * _PROCESSES)
            drawn.append(list(pool.map(draw_alone, [law] * _PROCESSES, [2 * chunks] * _PROCESSES, seeds)))
            same = ([value] * _PROCESSES for value in (store, version, lease.generation))
            reports, spent = zip(*pool.map(run_alone, *same, tasks), strict=True)
            own, clock = _commit(writer, reports)
            counted.append([(sum(s[0] for s in spent) + own, max(s[1] for s in spent) + clock)])
        lease.release()
        megabytes = max(dict(pool.map(_peak, range(2 * _PROCESSES))).values())
    outputs = 2 * _PROCESSES * chunks * CHUNK
    busy = [[sum(p[0] for p in turn) for turn in side[1:]] for side in (drawn, counted)]
    clocks = [[max(p[1] for p in turn) for turn in side[1:]] for side in (drawn, counted)]
    ratio = statistics.median(b / a for a, b in zip(*busy, strict=True))
    seconds = [(statistics.median(a), statistics.median(b)) for a, b in zip(busy, clocks, strict=True)]
    rate = outputs / seconds[1][1]
    cells = " ".join(f"{own:10.3f} ({clock:.3f})" for own, clock in seconds)
    print(f"{law:>9} {work:>7} {outputs:>12,} {cells} {ratio:6.2f} {rate:14,.0f} {megabytes:5.0f}", flush=True)
    return {
        f"drawing, {law}, {work}": seconds[0][0],
        f"counting, {law}, {work}": seconds[1][0],
        f"ratio, {law}, {work}": ratio,
        f"samples a second, {law}, {work}": rate,
        f"MB, {law}, {work}": megabytes,
    }


def main(small: bool = False) -> dict[str, float]:
    """Print a table; returns seconds, ratios to drawing alone, samples a second and the peak memory of a worker."""
    train, chunks, repeats = (1 << 14, 2, 3) if small else (1 << 20, 256, 3)
    print(f"streaming: drawing with NumPy alone, and counting what is drawn, {_PROCESSES} processes; {train:,} train")
    print("  per database. Seconds of the processor (of the clock), ratio of the former, samples a second of the clock")
    print(
        f"{'law':>9} {'work':>7} {'outputs':>12} {'draw alone':>18} {'draw and count':>18} ratio  samples a second    MB"
    )
    figures: dict[str, float] = {}
    for law in _LAWS:
        for work in _WORKS[:2] if small else _WORKS[: 1 if law == "callable" else None]:
            figures |= _compare(law, work, train, chunks, repeats)
    return figures


if __name__ == "__main__":
    main()
