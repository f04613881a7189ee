"""One model a draw, and slow draws: what is committed when, what is tried out, what a run that was ended draws again."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from commands import HOLD, call, calls, committed, contents, hold, kill_group, release, started, wait_until, write_study
from digits import DIGITS
from journals import records

from hpcdp.driver.plan import plan
from hpcdp.mechanisms.outputs import Schema
from hpcdp.store.stages import Stage
from hpcdp.study.file import Study

ONE_A_DRAW = (
    HOLD
    + """
from hpcdp.keys import digest_array
from training import canary_score

LOG = os.path.join(os.path.dirname(os.path.abspath(__file__)), "calls.log")


def noisy(database, rng, pause=0.0):
    hold()
    line = f"{digest_array(database)} 1 {rng.bit_generator.state['state']['state']:x}\\n"
    handle = os.open(LOG, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(handle, line.encode())
    os.close(handle)
    time.sleep(pause)
    return canary_score(database, 1, rng, noise=2.0, steps=1, rate=4.0)[0]


def few():
    from training import with_canary

    return with_canary()[-9:]
"""
)


def one_a_draw(folder: Path, pause: float, **sizes: int) -> Path:
    pairs = 'relative = { call = "own:few", rows = [8], relation = "remove" }'
    study = write_study(folder, ONE_A_DRAW, pairs=pairs, parameters={"pause": pause}, **sizes)
    (folder / "training.py").symlink_to(DIGITS / "training.py")
    return study


@pytest.mark.slow  # it starts processes
def test_an_interrupted_run_trains_no_model_of_a_committed_chunk_again(tmp_path: Path, scheduler: str) -> None:
    study, store = one_a_draw(tmp_path, 0.03, train=40, test=40, chunk=4), tmp_path / "s.zarr"
    hold(tmp_path, store, 5, "samples")
    with started("run", study, "--store", store, "--workers", 1, folder=tmp_path) as process:
        wait_until(lambda: len(records(store, "samples")) >= 5, "five chunks")
        assert process.poll() is None
        kill_group(process)
    release(tmp_path)
    before, drawn, done = contents(store), len(calls(tmp_path, store)), committed(store)
    assert 5 <= len(done) < 40
    assert len(records(store, "samples")) == len(done), "a chunk is committed when it is drawn"
    call("resume", store, "--cluster", scheduler)
    after = contents(store)
    assert {path: after[path] for path in before} == before
    again = calls(tmp_path, store)[drawn:]
    assert not done & set(again)
    assert set(Counter(again).values()) == {1}
    assert done | set(again) == committed(store)


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


@pytest.mark.slow
def test_a_slow_mechanism_is_tried_out_on_few_draws(tmp_path: Path) -> None:
    """A third of a second a draw."""
    study = one_a_draw(tmp_path, 0.35, train=200, test=150, chunk=10)
    planned = plan(Study.from_toml(study), 2)
    assert len((tmp_path / "calls.log").read_text().splitlines()) < 32
    assert planned.tasks["sample"] > 8
    assert planned.drawing > 700 * 0.35 / 2
    assert " a draw (measured)" in str(planned)
