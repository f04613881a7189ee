"""One model a draw, and slow draws: what is committed when, what is tried out, what a run that was ended draws again."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from commands import write_study

import hpcdp
from hpcdp.cli.command import main
from hpcdp.engine.progress import Progress
from hpcdp.mechanisms.outputs import Schema
from hpcdp.store.stages import Stage

ONE_A_DRAW = """
import os
import time


def noisy(database, rng):
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "calls.log"), "a") as log:
        log.write("drawn\\n")
    time.sleep(0.37)
    return database.sum() + rng.normal()
"""


def test_small_chunks_are_committed_one_by_one_and_many_small_ones_together() -> None:
    schema = Schema("float", None)
    for total in (1, 15, 150, 640, 641, 5000):
        stage = Stage.of("test", total, 10, schema)
        assert [c for block in range(stage.blocks) for c in stage.block_chunks(block)] == list(range(stage.chunks))
        assert all(chunk in stage.block_chunks(stage.block_of(chunk)) for chunk in range(stage.chunks))
        assert sum(stage.block_size(block) for block in range(stage.blocks)) == total
        assert stage.blocks <= 64 + stage.chunks / 16 + 1
        assert all(len(stage.block_chunks(block)) == 1 for block in range(min(64, stage.blocks)))
    assert Stage.of("test", 1600, 100, schema).blocks == 1


@pytest.mark.parametrize("seconds", [0.01, pytest.param(0.37, marks=pytest.mark.slow)])
def test_a_run_of_hours_says_so_before_it_draws(
    seconds: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = write_study(
        tmp_path, ONE_A_DRAW.replace("0.37", str(seconds)), rows=[0], train=10_000, test=10_000, chunk=10
    )
    said: list[str] = []

    class Enough(Exception):
        """Of a run that has said what it had to say."""

    class Stopping(Progress):
        def note(self, text: str) -> None:
            said.append(text)

        def begin(self, label: str, units: float) -> None:
            raise Enough

    with pytest.raises(Enough):
        hpcdp.run(study, tmp_path / "s.zarr", workers=0, progress=Stopping())
    assert main(["show", str(tmp_path / "s.zarr")]) == 0
    assert capsys.readouterr().out.startswith(
        "s: δ(ε)  (INCOMPLETE)\n\nnothing is counted yet; go on with: hpcdp resume "
    )
    *slow, drawing = said
    assert len(slow) == (seconds > 0.3)
    assert all("takes more than 0.3 s for an output" in words for words in slow)
    given, unit = re.fullmatch(
        r"drawing 40,000 outputs takes about ([\d.]+) (min|h); fewer samples .*", drawing
    ).groups()
    assert 0.9 * 40_000 * seconds <= float(given) * {"min": 60.0, "h": 3600.0}[unit] < 10 * 40_000 * seconds


def test_what_draws_nothing_is_told_of_no_drawing(tmp_path: Path) -> None:
    said: list[str] = []

    class Noting(Progress):
        def note(self, text: str) -> None:
            said.append(text)

    for slow in ("0", "0.01"):
        study = write_study(tmp_path, ONE_A_DRAW.replace("0.37", slow), rows=[0], train=4000, test=4000, chunk=1000)
        hpcdp.run(study, tmp_path / "s.zarr", workers=0, progress=Noting(), allow_changed_code=True)
    assert not [words for words in said if "drawing" in words]
