"""Small runs need no workers: the same tasks, records and bits in one process, which no code of others can harm."""

from __future__ import annotations

import os
import pickle
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import called
import numpy as np
import psutil
import pytest
from commands import MECHANISM, call, contents, hpcdp, kill_group, records, show, started, wait_until, write_study
from studies import make_study

from hpcdp import resume, run
from hpcdp.clusters._messages import Heard, say
from hpcdp.clusters._processes import Processes
from hpcdp.clusters.here import Here
from hpcdp.clusters.place import DaskPlace, Place
from hpcdp.clusters.pool import DIED, RETURNED, Pool, open_pool
from hpcdp.engine import places, tasks
from hpcdp.engine.progress import Silent
from hpcdp.engine.stopping import Stop
from hpcdp.engine.window import open_window
from hpcdp.errors import MechanismError, StoreError, StudyError
from hpcdp.planning.costs import UNSCHEDULED_SECONDS, runs_here

GIVEN = {"pairs": "given = [{ d = [0.0], d_prime = [1.0] }]"}


WILD = (
    MECHANISM
    + """
import random
import sys

HERE = os.path.dirname(LOG)
with open(f"/proc/{os.getppid()}/comm") as words:
    IS_APART = words.read().strip() == "hpcdp-keeper"


def wild(database, size, rng):
    if IS_APART:
        open(os.path.join(HERE, f"{os.getpid()}.pid"), "w").close()
        os.chdir("/")
        os.umask(0o777)
        random.seed(1)
        sys.stdout = None
    return noisy(database, size, rng)
"""
)


def of_results(store: Path) -> dict[Path, bytes]:
    """All files of a store but those that say when and by whom it was made."""
    found = {path.relative_to(store): body for path, (_, body) in contents(store).items()}
    return {name: body for name, body in found.items() if "runs" not in name.parts}


def test_the_plan_decides() -> None:
    assert [runs_here(None, 2.9), runs_here(None, 3.1), runs_here(0, 1e9), runs_here(1, 0.0)] == [
        True,
        False,
        True,
        False,
    ]


@pytest.mark.parametrize("loss", ["knn", "kde", "smooth", "refined"])
def test_built_ins_leave_what_workers_leave(loss: str, tmp_path: Path, client, monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process: no other is started."""
    sizes = {"train": 3000, "test": 5000, "chunk": 1000, "epsilons": [0.0, 0.5, 1.0], "keep": "all"}
    if loss == "refined":
        sizes |= {"refine": 4000, "validation": 3000}
    pairs = [([0.0], [1.0]), ([0.0], [0.5])]
    study = make_study("gaussian", {"sigma": 0.8}, pairs, seed=181, loss="knn" if loss == "refined" else loss, **sizes)
    here, there = tmp_path / "here.zarr", tmp_path / "there.zarr"
    with monkeypatch.context() as patch:
        patch.setattr(Processes, "start", None)  # which cannot be called
        run(study, here)
    run(study, there, client=client())
    assert of_results(here) == of_results(there)
    assert show(here) == show(there)


def test_callables_run_in_a_process_of_their_own(tmp_path: Path, scheduler: str) -> None:
    """Whatever they do to it: the folder, the streams, handlers, the state of random numbers."""
    study, here, there = write_study(tmp_path, WILD, call="own:wild", **GIVEN), tmp_path / "h.zarr", tmp_path / "t.zarr"
    before = os.getcwd(), sys.stdout
    run(study, here, workers=0)
    assert (os.getcwd(), sys.stdout) == before
    (drew,) = (int(path.stem) for path in tmp_path.glob("*.pid"))
    assert drew != os.getpid()
    assert not psutil.pid_exists(drew)
    call("run", study, "--store", there, "--cluster", scheduler)
    assert of_results(here) == of_results(there)


def test_a_killed_run_goes_on(tmp_path: Path, scheduler: str) -> None:
    study, store = write_study(tmp_path, parameters={"pause": 0.05}, chunk=100, rows=[0]), tmp_path / "s.zarr"
    with started("run", study, "--store", store, "--workers", 0, folder=tmp_path) as process:
        wait_until(lambda: len(records(store, "samples")) >= 2, "two blocks")
        kill_group(process)
    before = contents(store)
    hpcdp("resume", store, "--workers", 0, folder=tmp_path)
    after = contents(store)
    assert {path: after[path] for path in before if path in after} == before
    call("run", study, "--store", tmp_path / "whole.zarr", "--cluster", scheduler)
    assert show(store) == show(tmp_path / "whole.zarr")


RAISED = {
    "raise SystemExit(7)": "SystemExit: 7",
    "raise KeyboardInterrupt": "KeyboardInterrupt",
    "raise type('Odd', (Exception,), {'__reduce__': lambda self: 1})('no pickle')": "Odd: no pickle",
}


@pytest.mark.parametrize("what", RAISED)
def test_what_a_chunk_raises_is_named(what: str, tmp_path: Path) -> None:
    raising = f"""{WILD}

def raising(database, size, rng):
    if IS_APART and size == 300:
        {what}
    return noisy(database, size, rng)
"""
    study = write_study(tmp_path, raising, call="own:raising", train=600, test=900, chunk=300, **GIVEN)
    said = hpcdp("run", study, "--workers", 0, folder=tmp_path, code=1).stderr
    assert RAISED[what] in said
    assert "train chunk 0" in said


class Died(Exception):
    """The worker ended during the call."""


def ask(pool: Pool, function, *arguments):
    """What one call returns or raises."""
    call, is_given = object(), False
    while True:
        is_given = is_given or pool.begin(call, function, arguments)
        for ended, how, value in pool.hear(0.25):
            assert ended is call
            if how == RETURNED:
                return value
            if how == "raised":
                raise value
            if how == DIED:
                raise Died
            is_given = False


def test_calls_apart(tmp_path: Path) -> None:
    """A worker that dies while it does nothing costs no call; one that dies at work is told of."""
    with open_pool(1) as pool:
        first = ask(pool, called.pid, 1)
        assert first != os.getpid()
        os.kill(first, signal.SIGKILL)
        wait_until(lambda: not psutil.pid_exists(first), "it is gone")
        second = ask(pool, called.pid)
        assert second not in (first, os.getpid())
        for _ in range(2):
            with pytest.raises(Died):
                ask(pool, called.kill, str(tmp_path / "deaths"))
        assert ask(pool, called.kill, str(tmp_path / "deaths")) not in (first, second)
        with pytest.raises(ValueError, match="as it is"):
            ask(pool, called.throw, ValueError("as it is"))
        with pytest.raises(MechanismError, match="SystemExit"):
            ask(pool, called.throw, SystemExit(3))
        assert ask(pool, np.arange, 3_000_000).sum() == 3_000_000 * 2_999_999 // 2
        last = ask(pool, called.pid)
    assert not psutil.pid_exists(last)


class Quiet:
    """A watch that nothing is told."""

    stop = Stop()

    def done(self, task, seconds):
        pass

    def note(self, text):
        pass

    def is_lost(self):
        return False


def test_calls_run_side_by_side_and_three_deaths_blame_one(tmp_path: Path) -> None:
    together, deaths = tmp_path / "together", tmp_path / "deaths"
    together.mkdir()
    with open_pool(3) as pool, open_window(pool, Quiet()) as window:
        for name in "abc":
            assert window.has_room
            window.submit(name, name, called.meet, str(together), name, 3)
        assert not window.has_room
        found: list[tuple[str, int]] = []
        while window.underway:
            found += window.next()
        assert sorted(name for name, _ in found) == ["a", "b", "c"]
        assert len({pid for _, pid in found}) == 3
        window.submit("twice", "twice", called.kill, str(deaths))
        window.submit("always", "always", called.die)
        window.submit("never", "never", called.pid)
        answers: dict[str, int | None] = {}
        while window.underway:
            answers |= dict(window.next())
        assert answers.pop("always") is None
        assert None not in answers.values()
        assert pool.threads() <= 3


def note_places(monkeypatch: pytest.MonkeyPatch) -> list[Place]:
    """The places that runs open from now on."""
    seen: list[Place] = []
    opened = places.place_of

    @contextmanager
    def noted(*given):
        with opened(*given) as place:
            seen.append(place)
            yield place

    monkeypatch.setattr(places, "place_of", noted)
    return seen


def test_a_run_that_turns_out_long_gets_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A target decides how much there is to draw; the places differ, and nothing else."""
    target = {"epsilon": 0.5, "relative_error": 0.02, "most": 10_000_000}
    study = make_study(
        "gaussian", {"sigma": 1.0}, [([0.0], [1.0])], seed=182, epsilons=[0.5], keep="none", target=target
    )
    here, mixed = tmp_path / "here.zarr", tmp_path / "mixed.zarr"
    run(study, here, workers=0)
    seen = note_places(monkeypatch)
    answers = chain([True], repeat(False))
    monkeypatch.setattr(places, "runs_here", lambda *_: next(answers))
    assert run(study, mixed).complete
    assert [type(place) for place in seen] == [Here, Pool]
    assert of_results(here) == of_results(mixed)


def test_a_task_without_memory_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = write_study(tmp_path, call="laplace", parameters={"epsilon": 1.0}, **GIVEN)

    def none_left(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(tasks, "open_context", none_left)
    with pytest.raises(StoreError, match=r"no more memory; .*hpcdp resume .*s\.zarr"):
        run(study, tmp_path / "s.zarr", workers=0)
    monkeypatch.undo()
    assert run(study, tmp_path / "s.zarr", workers=0).complete


def test_a_complete_store_needs_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = write_study(tmp_path, keep="none", **GIVEN)
    run(study, tmp_path / "s.zarr", workers=0)
    monkeypatch.setattr(places, "_opened_place", None)  # which cannot be called
    assert run(study, tmp_path / "s.zarr").complete


def test_built_ins_leave_the_callers_streams_alone(tmp_path: Path) -> None:
    """What other threads of a script print meanwhile stays where they print it."""
    script = """
import threading
import hpcdp

study = hpcdp.Study.from_toml("study.toml")
hpcdp.run(study, "first.zarr", workers=0)  # trial draws have been
from hpcdp.engine import tasks

inside = tasks.run_task_inside


def noted(*given):
    thread = threading.Thread(target=print, args=("from another thread",))
    thread.start()
    thread.join()
    return inside(*given)


import hpcdp.engine.execute

hpcdp.engine.execute.run_task_inside = noted
hpcdp.run(study, "second.zarr", workers=0)
"""
    write_study(tmp_path, call="laplace", parameters={"epsilon": 1.0}, **GIVEN)
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert set(done.stdout.splitlines()) == {"from another thread"}


def test_a_worker_that_lost_its_connection_is_ended(tmp_path: Path) -> None:
    """It may live on, with the connection's number used for another file."""
    with open_pool(1) as pool:
        first = ask(pool, called.pid)
        begin = time.monotonic()
        with pytest.raises(Died):
            ask(pool, called.lose)
        assert ask(pool, called.pid) != first
        assert time.monotonic() - begin < 30.0
        assert not psutil.pid_exists(first)


def _marked(message: bytes, size: int) -> bytes:
    """As a message begins, of so many bytes."""
    return b"\x93hpcdp\r\n" + size.to_bytes(8, "big") + message


@pytest.mark.parametrize(
    "words",
    [
        b"\x00\x00\x00\x08garbage!",
        b"\x7f\xff\xff\xff",
        _marked(b"", 1 << 40),
        _marked(b"garbage", 7),
        _marked(pickle.dumps(5), len(pickle.dumps(5))),
    ],
    ids=["whole", "begun", "endless", "no pickle", "no pair"],
)
def test_a_worker_that_says_what_is_no_message_is_ended(words: bytes) -> None:
    with open_pool(1) as pool:
        first = ask(pool, called.pid)
        with pytest.raises(Died):
            ask(pool, called.babble, words)
        assert ask(pool, called.pid) != first
        assert not psutil.pid_exists(first)


def test_half_a_message_keeps_nobody_waiting() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        for message in (("one", 1), ("two", 2)):
            say(theirs.fileno(), pickle.dumps(message))
        said, heard, found = ours.recv(1 << 16), Heard(ours.fileno()), []
        for place in range(len(said)):
            theirs.sendall(said[place : place + 1])
            found += heard.read()
        assert found == [("one", 1), ("two", 2)]
        theirs.sendall(said[:-1])
        assert heard.read() == [("one", 1)]
        theirs.shutdown(socket.SHUT_WR)
        with pytest.raises(EOFError):
            heard.read()


def test_no_other_process_holds_the_connection() -> None:
    with open_pool(1) as pool:
        ask(pool, called.pid)
        (worker,) = pool._workers
        assert not os.get_inheritable(worker.connection.fileno())
        assert not os.get_inheritable(worker.handle)


def test_a_time_is_for_one_process_where_there_are_no_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "default_workers", lambda: 64)
    pairs = [([0.0], [1.0])]
    study = make_study("gaussian", {"sigma": 1.0}, pairs, seed=183, epsilons=[0.5], keep="none", time="1s")
    said: list[str] = []

    class Heard(Silent):
        def note(self, text: str) -> None:
            said.append(text)

    assert run(study, tmp_path / "s.zarr", workers=0, progress=Heard()).complete
    assert any(line.startswith("1s with 1 workers: ") for line in said)


def test_zero_workers_beside_a_cluster_are_refused(tmp_path: Path) -> None:
    study = make_study("gaussian", {"sigma": 1.0}, [([0.0], [1.0])], seed=1, train=100, test=100, epsilons=[0.0])
    with pytest.raises(StudyError, match="beside cluster tcp:"):
        run(study, tmp_path / "s.zarr", workers=0, cluster="tcp://127.0.0.1:1")
    assert not (tmp_path / "s.zarr").exists()


def test_a_plan_says_where_it_runs(tmp_path: Path, scheduler: str) -> None:
    study = write_study(tmp_path, keep="none", train=500, test=500, **GIVEN)
    pure = study.with_name("pure.toml")
    body = study.read_text().replace("epsilons", "# epsilons").replace("etas", "# etas")
    pure.write_text(f"{body}[pure]\n")
    claim = ("--claim", "dp(epsilon=9)")
    for words in (("run", study), ("audit", study, *claim), ("audit", pure, *claim)):
        store = tmp_path / f"{words[0]}-{words[1].stem}.zarr"
        said = call(*words, "--store", store, "--cluster", scheduler).stderr
        assert "workers" in said.partition("drawing")[2]
        assert "in one process" not in said


@pytest.mark.parametrize(
    ("given", "accepted"),
    [
        ({"workers": -1}, "a positive integer"),
        ({"client": "tcp://127.0.0.1:1"}, "a distributed.Client"),
        ({"progress": True}, "an object with the methods note"),
    ],
)
def test_what_is_no_place_or_progress_is_refused(given: dict[str, Any], accepted: str, tmp_path: Path) -> None:
    study = make_study("gaussian", {"sigma": 1.0}, [([0.0], [1.0])], seed=1, train=100, test=100, epsilons=[0.0])
    ((name, value),) = given.items()
    for begin in (run, resume):
        with pytest.raises(StudyError, match=f"^{name}: {value!r} was given; accepted: .*{accepted}"):
            begin(*([study] if begin is run else []), tmp_path / "s.zarr", **given)
    assert not (tmp_path / "s.zarr").exists()
    assert Here().threads() == 1


@pytest.mark.parametrize(("least", "place"), [(UNSCHEDULED_SECONDS, Pool), (0.0, DaskPlace)])
def test_long_work_on_one_machine_has_a_scheduler(
    least: float, place: type[Place], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan decides which place there is; its work counts as long from `least` seconds on. Nothing else differs."""
    seen = note_places(monkeypatch)
    monkeypatch.setattr(places, "UNSCHEDULED_SECONDS", least)
    study = make_study("laplace", {"epsilon": 1.0}, [([0.0], [1.0])], seed=9, epsilons=[0.5], train=4096, test=4096)
    run(study, tmp_path / "here.zarr", workers=0)
    run(study, tmp_path / "workers.zarr", workers=2)
    assert [type(one) for one in seen] == [Here, place]
    assert of_results(tmp_path / "here.zarr") == of_results(tmp_path / "workers.zarr")
