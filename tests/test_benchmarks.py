"""The benchmarks' small settings run and print their figures."""

from __future__ import annotations

import pytest

from benchmarks import command, limit, memory, neighbours, scheduler, textbook, tradeoff


def test_textbook(capsys: pytest.CaptureFixture[str]) -> None:
    ratios = textbook.main(small=True)
    assert min(ratios.values()) > 1
    print(capsys.readouterr().out)


def test_neighbours(capsys: pytest.CaptureFixture[str]) -> None:
    ratios = neighbours.main(small=True)  # which checks that all votes are equal
    assert min(ratios.values()) > 1
    print(capsys.readouterr().out)


def test_tradeoff(capsys: pytest.CaptureFixture[str]) -> None:
    figures = tradeoff.main(small=True)
    assert {f"ratio, {law}" for law in ("gaussian", "laplace", "dp-sgd", "subsampled")} < figures.keys()
    assert min(figures["times faster, curve"], figures["times faster, point"]) > 1
    assert max(figures["apart, curve"], figures["apart, point"]) < 0.01  # the textbook ways find the same points
    print(capsys.readouterr().out)


def test_limit_and_memory_and_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert set(limit.main(small=True)) == {"none", "all"}
    peaks = memory.main(small=True)
    few, many = (peaks[power] for power in sorted(peaks))
    assert many < 1.2 * few  # four times the test samples
    seconds = command.main(small=True)
    assert seconds["--help"] < seconds["plan"] < seconds["run, keep = all"]
    print(capsys.readouterr().out)


def test_scheduler(capsys: pytest.CaptureFixture[str]) -> None:
    figures = scheduler.main(small=True)
    assert figures["tasks a second"] > 50  # a fifth of what a loaded machine was seen to do
    assert 0.5 < figures["0.5 s"] <= 1.0
    print(capsys.readouterr().out)
