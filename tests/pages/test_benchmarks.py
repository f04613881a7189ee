"""The benchmarks' small settings run and print their figures."""

import math
from typing import Any

import pytest

from benchmarks import (
    betting,
    command,
    histogram,
    limit,
    local,
    memory,
    neighbours,
    pairs,
    racing,
    renyi,
    risk,
    scheduler,
    streaming,
    tiny,
    tiny_coverage,
    tiny_points,
    tradeoff,
)
from hpcdp.study.problem import MANY

pytestmark = pytest.mark.slow


def within(ratio: str, most: float, least: float = 0.0) -> Any:
    return lambda figures: least <= figures[ratio] <= most


SMALL: dict[Any, tuple[Any, ...]] = {
    neighbours: (lambda figures: min(figures.values()) > 1,),  # which checks that all votes are equal
    tradeoff: (
        lambda f: {f"ratio, {law}" for law in ("gaussian", "laplace", "dp-sgd", "subsampled")} < f.keys(),
        lambda f: min(f["times faster, curve"], f["times faster, point"]) > 1,
        lambda f: max(f["apart, curve"], f["apart, point"]) < 0.01,  # the textbook ways find the same points
    ),
    limit: (lambda f: set(f) == {f"{what}, keep = {keep}" for what in ("command", "run") for keep in ("none", "all")},),
    memory: (lambda f: f[max(f)] < 1.2 * f[min(f)],),  # four times the test samples
    command: (lambda f: f["--help"] < f["plan"] < f["run, keep = all"],),
    pairs: (
        lambda f: f["run, processor, 400"] < 4 * f["run, processor, 100"],
        lambda f: f["run, MB, 400"] < 1.2 * f["run, MB, 100"],
    ),
    # with so little work starting decides, the more so on a busy machine
    risk: (within("inversions", 0.1), within("two over one", 3.0)),
    renyi: (within("ratio", 1.5),),
    # a fifth of what a loaded machine was seen to do; one worker alone would reach a sixteenth, however busy it is
    scheduler: (within("tasks a busy second", math.inf, 60), within("0.5 s", 1.0, 2 / 16)),
    # of what NumPy takes to draw alone, however small the run
    streaming: tuple(
        check
        for law in ("gaussian", "laplace", "callable")
        for check in (
            within(f"ratio, {law}, refined", 3.0),
            within(f"ratio, {law}, tally", 4.0),  # 1.1 to 1.7; where each output is searched for, 5.2 to 7.7
            within(f"MB, {law}, refined", 1000),
        )
    ),
    betting: (
        lambda f: (
            max(share for name, share in f.items() if "alarms" in name)
            <= 0.05 + 4.0 * (0.05 * 0.95 / betting.SMALL[0]) ** 0.5
        ),
        lambda f: max(samples for name, samples in f.items() if "claimed 0.5" in name) < math.inf,
    ),
    tiny_points: (lambda f: 0.0 < f["cell"] < 1.0, within("epsilon", 1.0, 0.99)),
    histogram: (within("ratio", 4), within("memory", 1.1)),  # 2 in the whole benchmark; shared machines are noisy
}


@pytest.mark.parametrize("benchmark", SMALL, ids=lambda benchmark: benchmark.__name__.rpartition(".")[2])
def test_small_settings(benchmark: Any) -> None:
    figures = benchmark.main(small=True)
    assert all(check(figures) for check in SMALL[benchmark]), figures


SOME = ("dp-sgd, reverse", "plane 1/2", "geometric sum")  # one of each kind of outputs and of direction
OTHERS = tuple(case.name for case in tiny.CASES if case.name not in (*SOME, *tiny.LONG))


@pytest.mark.parametrize("names", [SOME, pytest.param(OTHERS, marks=pytest.mark.release)], ids=["some", "others"])
def test_tiny(names: tuple[str, ...]) -> None:
    figures = tiny.main(small=True, names=names)
    assert set(figures) == set(names)
    for name, found in figures.items():
        assert found["outside"] < 0.15 if name in ("plane 1/2", "geometric sum") else found["outside"] < 0.1, name
        assert found["error"] < 0.075, name  # sizes are decided from tallies that err themselves
        assert found["above"] == 0, name
        assert found["certified"] > 0.6, name


@pytest.mark.parametrize("name", ["geometric sum", pytest.param("mixture", marks=pytest.mark.release)])
def test_tiny_coverage(name: str) -> None:
    figures = tiny_coverage.main(small=True, names=(name,))
    assert figures
    for found in figures.values():
        assert found["held"] >= tiny_coverage.least(tiny_coverage.CONFIDENCE, tiny_coverage.RUNS_SMALL)
        assert found["reused"] < tiny_coverage.least(tiny_coverage.CONFIDENCE, tiny_coverage.RUNS_SMALL // 2)
        assert found["unshared"] < tiny_coverage.UNSHARED


def test_racing() -> None:
    found = racing.main(small=True)
    assert found
    for figures in found.values():
        assert figures["right"] == 1.0
        assert 0.85 < figures["certified"] <= 1.0
        assert figures["fewer"] > 2.0
        assert figures["refined"] <= MANY


def test_local() -> None:
    runs = local.main(small=True)
    truth = {name: local.Setting.of(*name.split(", ")[:1], 0.7).truth() for name in runs}
    assert runs
    for name, found in runs.items():
        # of 12 runs at 5 % more than 4 are above with a probability of 2e-4
        assert sum(run.certified > truth[name] for run in found) <= 4
        assert sum(run.certified for run in found) / len(found) > 0.85 * truth[name]
