"""What runs tasks, whatever it is: one contract; and what a node executor does with calls that end, hang or fill memory."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from commands import wait_until
from distributed import Client, LocalCluster

from hpcdp._base import doing
from hpcdp._base.node import NodeExecutor, ProcessDied
from hpcdp.clusters.executors import Call, InProcess, OnNode, TaskExecutor
from hpcdp.clusters.remote import open_on_dask
from hpcdp.errors import HpcdpError, MechanismError


def double(values: np.ndarray) -> np.ndarray:
    return 2 * values


def fail(words: str) -> None:
    raise MechanismError(words) from type("Own", (Exception,), {})()  # a class that no other process knows


@contextmanager
def on_node() -> Iterator[TaskExecutor]:
    with NodeExecutor(2) as node:
        yield OnNode(node)


@contextmanager
def on_dask(**cluster: Any) -> Iterator[TaskExecutor]:
    with (
        LocalCluster(dashboard_address="127.0.0.1:0", silence_logs=50, **cluster) as made,
        Client(made, set_as_default=False) as client,
        open_on_dask(client, 60.0) as executor,
    ):
        executor.prepare(Path.cwd())
        yield executor
        assert all(executor.name in names for names in client.run(executors).values())
    assert not any(process.name() == "hpcdp-child" for process in psutil.Process().children(recursive=True))


def executors(dask_worker: Any) -> list[str]:
    return list(dask_worker.executors)


MAKERS: dict[str, Callable[[], Any]] = {
    "in process": lambda: nullcontext(InProcess()),
    "node": on_node,
    "workers in this process": lambda: on_dask(n_workers=2, threads_per_worker=1, processes=False),
    "two workers below nannies": lambda: on_dask(n_workers=2, threads_per_worker=2),
}


@pytest.mark.slow
@pytest.mark.promise
@pytest.mark.parametrize("name", MAKERS)
def test_the_contract(name: str) -> None:
    """Results of many calls, large ones too; errors of hpcdp's own; news; the processor's bits."""
    with ExitStack() as opened:
        executor = opened.enter_context(MAKERS[name]())
        large = np.arange(100_000.0)
        calls = [Call(f"double-{number}", double, (large + number,)) for number in range(6)]
        found = executor.begin([*calls, Call("fail-0", fail, ("no luck",))])
        for number, future in enumerate(found[:-1]):
            np.testing.assert_array_equal(future.result(60), 2 * (large + number))
        with pytest.raises(MechanismError, match="no luck"):
            found[-1].result(60)
        (again,) = executor.begin([Call("double-0", double, (large - 1,))])  # a name may come again
        np.testing.assert_array_equal(again.result(60), 2 * (large - 1))
        assert executor.threads() >= 1


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in MAKERS if name != "in process"])
def test_a_call_that_ends_its_process_is_blamed_alone(name: str) -> None:
    with ExitStack() as opened:
        executor = opened.enter_context(MAKERS[name]())
        calls = [Call(f"sleep-{number}", time.sleep, (0.05,)) for number in range(8)]
        calls.insert(3, Call("exit-0", os._exit, (0,)))
        calls.insert(5, Call("kill-0", signal.raise_signal, (signal.SIGKILL,)))
        found = dict(zip([call.name for call in calls], executor.begin(calls), strict=True))
        died = {key: future.exception(60) for key, future in found.items() if future.exception(60) is not None}
        assert {key: str(error) for key, error in died.items()} == {
            "exit-0": "a call: the process ended with exit code 0",
            "kill-0": "a call: the process was ended by SIGKILL",
        }
        assert all(isinstance(error, ProcessDied) for error in died.values())


def hang(holds: bool) -> None:
    with doing.drawing(lambda: "a long draw", 0.5):
        if holds:  # Python's lock
            __import__("ctypes").PyDLL(None).sleep(1000)
        time.sleep(1000)


def swell(size: int) -> float:
    kept = np.ones(size, np.uint8)
    time.sleep(100)
    return float(kept[0])


def start_daemon() -> int:
    return int(subprocess.check_output("setsid sleep 1000 >/dev/null 2>&1 & echo $!", shell=True, text=True))


def write_to_all_files() -> None:
    for descriptor in range(3, 40):
        try:
            os.write(descriptor, b"\xff" * 100)
        except OSError:
            continue
    time.sleep(100)


@pytest.mark.parametrize("holds", [False, True])
def test_a_step_beyond_its_limit_is_ended(holds: bool) -> None:
    with NodeExecutor(1) as node:
        error = node.submit(hang, holds).exception(30)
        assert isinstance(error, ProcessDied)
        assert (error.limit, error.step) == (0.5, "a long draw")
        assert node.submit(abs, -1).result(30) == 1


def test_too_much_memory_costs_the_largest() -> None:
    with NodeExecutor(2, memory=400 << 20) as node:
        small, large = node.submit(time.sleep, 3.0), node.submit(swell, 600 << 20)
        error = large.exception(60)
        assert isinstance(error, ProcessDied)
        assert error.memory is not None
        assert error.memory > 200 << 20  # the limit holds for both children together, the figure for this one
        small.result(30)


def test_words_that_are_no_message_cost_the_call() -> None:
    with NodeExecutor(1) as node:
        error = node.submit(write_to_all_files).exception(60)
        assert isinstance(error, ProcessDied)
        assert error.how == "closed, or wrote to, file descriptors that it did not open"


def close_all_files() -> None:
    with doing.at_risk("own:noisy"), doing.drawing(lambda: "a draw"):
        os.closerange(3, 10_000)


def test_who_closes_all_files_is_blamed() -> None:
    with NodeExecutor(1) as node:
        error = node.submit(close_all_files).exception(60)
        assert isinstance(error, ProcessDied)
        assert (error.risk, error.step) == ("own:noisy", "a draw")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux hands orphans to the process that ends them")
def test_a_daemon_ends_with_the_executor_and_not_before() -> None:
    with NodeExecutor(1) as node:
        daemon = psutil.Process(node.submit(start_daemon).result(30))
        assert node.submit(abs, -1).result(30) == 1
        assert daemon.is_running()
        assert node.submit(os._exit, 1).exception(30) is not None
        wait_until(lambda: not daemon.is_running(), "what a process left goes with it", 30)


def test_calls_of_a_server_that_was_killed_are_done_again() -> None:
    with NodeExecutor(2) as node:
        futures: list[Future[Any]] = [node.submit(double, np.full(100_000, number)) for number in range(20)]
        slow = node.submit(time.sleep, 1.0)
        futures[0].result(30)
        (server,) = [one for one in psutil.Process().children() if one.name() == "hpcdp-server"]
        server.kill()
        assert [future.result(30)[0] for future in futures] == [2 * number for number in range(20)]
        slow.result(30)


def test_a_callback_may_submit_while_results_arrive() -> None:
    """Each end of the link has more to write than the link holds."""
    with NodeExecutor(2) as node:
        begun: queue.SimpleQueue[Future[int]] = queue.SimpleQueue()
        first, second = node.submit(bytes, 8 << 20), node.submit(bytes, 32 << 20)
        first.add_done_callback(lambda _: begun.put(node.submit(len, bytes(128 << 20))))
        assert begun.get(timeout=60).result(60) == 128 << 20
        assert len(second.result(60)) == 32 << 20


def test_an_executor_that_was_shut_down_takes_no_call() -> None:
    node = NodeExecutor(1)
    running = node.submit(time.sleep, 100)
    wait_until(lambda: node.is_ready, "its server runs", 30)
    node.shutdown()
    assert isinstance(running.exception(5), RuntimeError)
    with pytest.raises(RuntimeError, match="shut down"):
        node.submit(abs, -1)
    assert issubclass(ProcessDied, HpcdpError)


ODD = """
import os, pathlib, sys
sys.path.append(pathlib.Path("/"))
files = [open(os.devnull) for _ in range(int(sys.argv[1]))]
from hpcdp._base.node import NodeExecutor
with NodeExecutor(1) as node:
    pathlib.Path("found").write_text(str(node.submit(len, b"x" * 1_000_000).result(60)))
"""


@pytest.mark.slow
@pytest.mark.parametrize(("files", "closed"), [(1100, ""), (0, "<&- >&- 2>&-"), (0, "2>&-")])
def test_callers_with_many_files_or_without_streams(files: int, closed: str, tmp_path: Path) -> None:
    (tmp_path / "odd.py").write_text(ODD)
    words = ["/bin/sh", "-c", f"ulimit -n 2000; '{sys.executable}' odd.py {files} {closed}"]
    assert subprocess.run(words, cwd=tmp_path, timeout=120, check=False).returncode == 0
    assert (tmp_path / "found").read_text() == "1000000"
