"""What lines of progress say of the time that is left."""

from __future__ import annotations

import re
import time
from itertools import pairwise

import pytest

from hpcdp.engine import progress
from hpcdp.engine.monitor import Monitor
from hpcdp.engine.series import Learn
from hpcdp.engine.stopping import Stop
from hpcdp.engine.task import Task

DEAR_FIRST = [35.0 + step for step in range(40)]  # a step a second, once kernels were compiled
STEADY = [3.0 * step for step in range(1, 41)]
BURSTS = [100.0 * (1 + step // 10) + 0.1 * (step % 10) for step in range(40)]  # ten workers


@pytest.mark.parametrize("ends", [DEAR_FIRST, STEADY, BURSTS], ids=["dear first", "steady", "bursts"])
def test_the_true_time_is_within_what_is_told(
    ends: list[float], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """To the length of a step, where one time is told to a third; nothing is told of the first step alone."""
    now, told = 0.0, []
    monkeypatch.setattr(time, "monotonic", lambda: now)
    lines = progress.Lines()
    lines.begin("run", len(ends))
    for now in ends:
        lines.advance(1.0)
        said = capsys.readouterr().err
        if " left" in said:
            about = [float(word) for word in said.partition("about")[2].split() if word.isdigit()]
            told.append((about[0], ends[-1] - now, about[-1]))
    assert len(told) > 2
    assert told[0][1] < ends[-1] - ends[0]
    step = max(after - before for before, after in pairwise(ends))
    assert all(min(least, most / 1.5) - step <= true <= most + step for least, true, most in told)
    assert said == f"run: 100 %, done in {now:.1f} s\n"


@pytest.mark.parametrize("later", [8.0, 10.0, 1500.0])
@pytest.mark.parametrize("how", ["planned", "done"])
def test_a_run_that_goes_far_beyond_its_plan_says_so_once(how: str, later: float) -> None:
    """Three times the work that was planned when it began, whether more is planned or what was planned takes longer."""

    class Heard(progress.Silent):
        def note(self, text: str) -> None:
            notes.append(text)

    notes: list[str] = []
    monitor = Monitor(Heard(), Stop(), lambda: False, None)  # type: ignore[arg-type]
    first, second = (Task("level-0", Learn(()), (), 1, seconds) for seconds in (3.0, later))
    monitor.begin("run", [first])
    for _ in range(2):
        if how == "planned":
            monitor.begin("run", [second])
        else:
            monitor.done(first, later)
    assert len(notes) == (later > 9.0 or how == "done")
    said = {"planned": "is planned by now", "done": "is done"}[how]
    assert all(
        re.fullmatch(rf"slower than planned: \d+ (s|min) of work {said}; the first plan said 3 s", note)
        for note in notes
    )
