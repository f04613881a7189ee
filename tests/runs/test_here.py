"""Small runs need no workers: they leave the same bits, and no code of others can harm the process that asks for them."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
from commands import MECHANISM, call, contents, hpcdp, kept, kill_group, show, started, wait_until, write_study
from journals import records
from studies import make_study

from hpcdp import StudyError, resume, run

GIVEN = {"pairs": "given = [{ d = [0.0], d_prime = [1.0] }]"}

# Does its worst to the process that it is in, unless that is the one which asks for the run.
WILD = (
    MECHANISM
    + """
import random
import sys

HERE = os.path.dirname(LOG)
with open(os.path.join(HERE, "caller")) as words:
    IS_APART = os.getpid() != int(words.read())


def wild(database, size, rng):
    outputs = noisy(database, size, rng)
    if IS_APART:
        open(os.path.join(HERE, f"{os.getpid()}.pid"), "w").close()
        os.chdir("/")
        os.umask(0o777)
        random.seed(1)
        sys.stdout = None
    return outputs
"""
)


def gaussian(**estimate: Any) -> Any:
    return make_study("gaussian", {"sigma": 0.8}, [([0.0], [1.0]), ([0.0], [0.5])], seed=181, **estimate)


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["knn", "kde", "smooth", "refined"])
def test_built_ins_leave_what_workers_leave(loss: str, tmp_path: Path, client: Any) -> None:
    sizes = {"train": 3000, "test": 5000, "chunk": 1000, "epsilons": [0.0, 0.5, 1.0], "keep": "all"}
    more = {"loss": "knn", "refine": 4000, "validation": 3000} if loss == "refined" else {"loss": loss}
    study, here, there = gaussian(**sizes, **more), tmp_path / "here.zarr", tmp_path / "there.zarr"
    run(study, here, workers=0)
    run(study, there, client=client())
    assert kept(here) == kept(there)
    assert show(here) == show(there)


@pytest.mark.slow
def test_callables_run_in_a_process_of_their_own(tmp_path: Path, scheduler: str) -> None:
    """Whatever they do to it: the folder, the streams, handlers, the state of random numbers."""
    study, here, there = write_study(tmp_path, WILD, call="own:wild", **GIVEN), tmp_path / "h.zarr", tmp_path / "t.zarr"
    (tmp_path / "caller").write_text(str(os.getpid()))
    before = os.getcwd(), sys.stdout
    run(study, here, workers=0)
    assert (os.getcwd(), sys.stdout) == before
    drew = [int(path.stem) for path in tmp_path.glob("*.pid")]
    assert drew
    assert not any(map(psutil.pid_exists, drew))
    call("run", study, "--store", there, "--cluster", scheduler)
    assert kept(here) == kept(there)


@pytest.mark.slow
def test_a_killed_run_goes_on(tmp_path: Path) -> None:
    study, store = write_study(tmp_path, parameters={"pause": 0.05}, chunk=100, rows=[0]), tmp_path / "s.zarr"
    with started("run", study, "--store", store, "--workers", 0, folder=tmp_path) as process:
        wait_until(lambda: len(records(store, "samples")) >= 2, "two blocks")
        kill_group(process)
    before = contents(store)
    hpcdp("resume", store, "--workers", 0, folder=tmp_path)
    after = contents(store)
    assert {path: after[path] for path in before if path in after} == before
    call("run", study, "--store", tmp_path / "whole.zarr", "--workers", 0)
    assert show(store) == show(tmp_path / "whole.zarr")


@pytest.mark.slow
def test_built_ins_leave_the_callers_streams_alone(tmp_path: Path) -> None:
    """What other threads of a script print meanwhile stays where they print it."""
    script = """
import threading, time
import hpcdp

ended, printed = threading.Event(), []

def speak():
    while not ended.is_set():
        print("line", len(printed))
        printed.append(0)
        time.sleep(0.001)

class Progress:
    def note(self, text): ...
    def advance(self, units): ...
    def begin(self, label, units):  # trial draws have been
        if not thread.ident:
            thread.start()

thread = threading.Thread(target=speak)
hpcdp.run(hpcdp.Study.from_toml("study.toml"), "s.zarr", workers=0, progress=Progress())
ended.set()
thread.join()
print(len(printed))
"""
    write_study(tmp_path, call="laplace", parameters={"epsilon": 1.0}, **GIVEN)
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    *lines, number = done.stdout.splitlines()
    assert done.stderr == ""
    assert lines == [f"line {one}" for one in range(int(number))]
    assert len(lines) > 10


@pytest.mark.slow
def test_a_time_is_for_one_process_where_there_are_no_workers(tmp_path: Path) -> None:
    study = write_study(tmp_path, call="laplace", parameters={"epsilon": 1.0}, **GIVEN)
    study.write_text(study.read_text().replace("test = 4500", 'time = "1s"').replace('"all"', '"none"'))
    said = call("run", study, "--store", tmp_path / "s.zarr", "--workers", 0).stderr
    assert "1s with 1 workers: " in said


@pytest.mark.slow
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
    ("given", "words"),
    [
        ({"workers": -1}, "^workers: -1 was given; accepted: .*a positive integer"),
        ({"client": "tcp://127.0.0.1:1"}, "^client: 'tcp://127.0.0.1:1' was given; accepted: .*a distributed.Client"),
        ({"progress": True}, "^progress: True was given; accepted: .*an object with the methods note"),
    ],
)
def test_what_is_no_place_or_progress_is_refused(given: dict[str, Any], words: str, tmp_path: Path) -> None:
    for begin in (partial(run, gaussian(train=100, test=100, epsilons=[0.0])), resume):
        with pytest.raises(StudyError, match=words):
            begin(tmp_path / "s.zarr", **given)
    assert not (tmp_path / "s.zarr").exists()


def test_zero_workers_beside_a_cluster_are_refused(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="beside cluster tcp:"):
        run(gaussian(train=100, test=100, epsilons=[0.0]), tmp_path / "s.zarr", workers=0, cluster="tcp://127.0.0.1:1")
    assert not (tmp_path / "s.zarr").exists()
