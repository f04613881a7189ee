"""What drawing costs: measured in two numbers, and told in the plan."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from studies import REALS, make_study, pose

from hpcdp.driver.plan import make_plan, plan
from hpcdp.study.trial_draws import Trial, time_draws


class Clock:
    """A clock that a mechanism moves on: `call` seconds a call and `each` seconds a draw."""

    def __init__(self, call: float, each: float) -> None:
        self.now, self.call, self.each, self.sizes = 0.0, call, each, []

    def draw(self, size: int) -> np.ndarray:
        self.now += self.call + self.each * size
        self.sizes.append(size)
        return np.zeros(size)


@pytest.mark.parametrize(
    ("per_call", "per_draw", "chunk"),
    [
        (1e-3, 1e-8, 1 << 18),
        (0.5, 2e-5, 1 << 18),
        (0.2, 0.3, 1 << 18),
        (3.0, 1e-3, 1 << 18),
        (1e-3, 1e-3, 5),
        (0.0, 1e-3, 1),
    ],
)
def test_a_call_and_a_draw_have_a_cost_each(per_call: float, per_draw: float, chunk: int) -> None:
    clock = Clock(per_call, per_draw)
    timing = time_draws(clock.draw, chunk, lambda: clock.now)
    assert timing.per_call == pytest.approx(per_call, rel=1e-6, abs=1e-9)
    assert timing.per_draw == pytest.approx(per_draw, rel=1e-6)
    assert timing.outputs.shape == (max(clock.sizes),)
    assert clock.now < 6 + 5 * per_call + 24 * per_draw
    assert max(clock.sizes) <= chunk


def test_a_single_draw_a_chunk_counts_as_a_draw() -> None:
    timing = time_draws(Clock(0.1, 0.1).draw, 1, iter([0.0, 0.0, 0.2]).__next__)
    assert (timing.per_call, timing.per_draw) == (0.0, 0.2)


@pytest.mark.parametrize(
    ("trial", "keep", "line"),
    [
        ((0.5, 1e-7), "all", "about 100 ns a draw and 500 ms a call (measured), 4 s of 7 s on 1 workers"),
        ((1e-4, 19e-6), "all", "about 19 µs a draw (measured), 8 s of 11 s on 1 workers"),
        ((0.0, 0.03), "train", "about 30 ms a draw (measured), 3.3 h of 3.3 h on 1 workers"),
    ],
)
def test_the_plan_tells_what_drawing_costs(trial: tuple[float, float], keep: str, line: str) -> None:
    settings = {"train": 50_000, "test": 150_000, "chunk": 50_000, "epsilons": [0.0], "keep": keep}
    study = make_study("laplace", {"epsilon": 1.0}, [([0.0], [1.0])], seed=1, **settings)
    # 2 laws of 1 + 3 chunks: 8 calls and 400,000 draws, kept or not
    plan = str(make_plan(pose(study), Trial(REALS, *trial, 1), 1))
    assert f"  drawing        {line}\n" in plan


def test_the_plan_says_that_stored_samples_cost_nothing_to_draw(tmp_path: Path) -> None:
    for number in range(2):
        np.save(tmp_path / f"{number}.npy", np.arange(100.0))
    files = {"files": ["0.npy", "1.npy"]}
    study = make_study("stored", files, [([0], [1])], seed=1, folder=tmp_path, epsilons=[0.0], train=50, test=50)
    assert "  drawing        none: the samples are stored\n" in str(plan(study, 1))
