"""The benchmarks' small settings run and print their figures."""

from __future__ import annotations

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
    tape,
    tape_hidden,
    textbook,
    tiny,
    tiny_coverage,
    tiny_points,
    tradeoff,
)
from hpcdp.study.sizes import MANY

pytestmark = pytest.mark.slow


def test_textbook_and_neighbours() -> None:
    assert min(textbook.main(small=True).values()) > 1
    assert textbook.main(small=True, command=True)[12] > 0.5  # a busy machine starts processes slowly, but both
    assert min(neighbours.main(small=True).values()) > 1  # which checks that all votes are equal


def test_tradeoff() -> None:
    figures = tradeoff.main(small=True)
    assert {f"ratio, {law}" for law in ("gaussian", "laplace", "dp-sgd", "subsampled")} < figures.keys()
    assert min(figures["times faster, curve"], figures["times faster, point"]) > 1
    assert max(figures["apart, curve"], figures["apart, point"]) < 0.01  # the textbook ways find the same points


@pytest.mark.slow
def test_limit_and_memory_and_command() -> None:
    assert set(limit.main(small=True)) == {
        f"{what}, keep = {keep}" for what in ("command", "run") for keep in ("none", "all")
    }
    peaks = memory.main(small=True)
    few, many = (peaks[power] for power in sorted(peaks))
    assert many < 1.2 * few  # four times the test samples
    seconds = command.main(small=True)
    assert seconds["--help"] < seconds["plan"] < seconds["run, keep = all"]


@pytest.mark.slow
def test_pairs() -> None:
    figures = pairs.main(small=True)
    assert figures["run, processor, 400"] < 4 * figures["run, processor, 100"]
    assert figures["run, MB, 400"] < 1.2 * figures["run, MB, 100"]


def test_risk() -> None:
    figures = risk.main(small=True)
    assert figures["inversions"] <= 0.1
    assert 0.0 < figures["two over one"] < 3.0  # with so little work starting decides, the more so on a busy machine


def test_renyi() -> None:
    figures = renyi.main(small=True)
    assert figures["ratio"] < 1.5


def test_scheduler() -> None:
    figures = scheduler.main(small=True)
    assert figures["tasks a busy second"] > 60  # a fifth of what a loaded machine was seen to do
    assert 2 / 16 < figures["0.5 s"] <= 1.0  # one worker alone would reach a sixteenth, however busy the machine is


def test_streaming() -> None:
    figures = streaming.main(small=True)
    for law in ("gaussian", "laplace", "callable"):
        assert figures[f"ratio, {law}, refined"] < 3.0  # of what NumPy takes to draw alone, however small the run
        assert figures[f"MB, {law}, refined"] < 1000


@pytest.mark.slow
def test_betting() -> None:
    figures = betting.main(small=True)
    most = 0.05 + 4.0 * (0.05 * 0.95 / betting.SMALL[0]) ** 0.5
    assert max(share for name, share in figures.items() if "alarms" in name) <= most
    assert max(samples for name, samples in figures.items() if "claimed 0.5" in name) < float("inf")


SOME = ("dp-sgd, reverse", "plane 1/2", "geometric sum")  # one of each kind of outputs and of direction
OTHERS = tuple(case.name for case in tiny.CASES if case.name not in (*SOME, *tiny.LONG))


@pytest.mark.slow
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


def test_tiny_points() -> None:
    figures = tiny_points.main(small=True)
    assert 0.0 < figures["cell"] < 1.0
    assert 0.99 < figures["epsilon"] <= 1.0


def test_racing() -> None:
    found = racing.main(small=True)
    assert found
    for figures in found.values():
        assert figures["right"] == 1.0
        assert 0.85 < figures["certified"] <= 1.0
        assert figures["fewer"] > 2.0
        assert figures["refined"] <= MANY


def test_histogram() -> None:
    figures = histogram.main(small=True)
    assert figures["ratio"] < 4  # 2 in the whole benchmark; shared machines are noisy
    assert figures["memory"] < 1.1


def test_local() -> None:
    runs = local.main(small=True)
    truth = {name: local.Setting.of(*name.split(", ")[:1], 0.7).truth() for name in runs}
    assert runs
    for name, found in runs.items():
        # of 12 runs at 5 % more than 4 are above with a probability of 2e-4
        assert sum(run.certified > truth[name] for run in found) <= 4
        assert sum(run.certified for run in found) / len(found) > 0.85 * truth[name]


@pytest.mark.release  # tests/statistics/test_tape_coverage.py hides regions of the tape at smaller sizes
def test_tape_hidden() -> None:
    (found,) = tape_hidden.main(small=True).values()
    assert found["lower"] <= found["truth"] < 1.0
    assert abs(found["hits"] - 1e-6 * found["draws"]) < 5.0 * (1e-6 * found["draws"]) ** 0.5 + 1.0
    assert found["warned"] == (found["hits"] > 0.0)


@pytest.mark.slow
def test_tape_estimates() -> None:
    found = tape.estimate("gaussian 1/4", 1e-7)
    assert found["within"] == 21
    assert found["sigmas"] < 5.0  # false alarm: 6e-7 a cell
    told = tape.forecast(*tape.FORECAST, learned=False)
    assert abs(told["plan"] / told["formula"] - 1.0) < 0.05  # a plan prints two digits


@pytest.mark.release
def test_tape() -> None:
    figures = tape.main(small=True, names=("gaussian 1/4",))
    assert figures["gaussian 1/4, 1e-07"]["within"] == 21
    assert figures["gaussian 1/4, 1e-07"]["sigmas"] < 5.0  # false alarm: 6e-7 a cell
    found = figures["certified, gaussian 1/4, 1e-07"]
    assert 0.5 <= found["lower"] <= found["lower_up_to_leftover"] <= 1.0
    told = figures["forecast, gaussian 1/4, 1e-10"]
    assert abs(told["plan"] / told["formula"] - 1.0) < 0.05  # a plan prints two digits
    both = figures["compared, gaussian 1/4, 1e-05"]
    assert both["tests ratio"] >= 10.0
    assert both["draws ratio"] >= 10.0
    assert both["tape draws"] > both["tape tests"] > 0.0
