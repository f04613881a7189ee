"""Small runs need no workers: they leave the same bits, and no code of others can harm the process that asks for them."""

from __future__ import annotations

import threading
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import dask
import pytest
from commands import call, write_study
from studies import make_study

from hpcdp import StudyError, resume, run
from hpcdp.cli.command import main
from hpcdp.errors import StoreError

GIVEN = {"pairs": "given = [{ d = [0.0], d_prime = [1.0] }]"}


def gaussian(**estimate: Any) -> Any:
    return make_study("gaussian", {"sigma": 0.8}, [([0.0], [1.0]), ([0.0], [0.5])], seed=181, **estimate)


def test_built_ins_leave_the_callers_streams_alone(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """What other threads print meanwhile stays where they print it."""
    ended, printed = threading.Event(), []

    def speak() -> None:
        while not ended.wait(0.001):
            print("line", len(printed))
            printed.append(0)

    thread = threading.Thread(target=speak)
    progress = MagicMock()
    progress.begin.side_effect = lambda *_: thread.ident or thread.start()  # trial draws have been
    study = gaussian(train=3000, test=20_000, chunk=1000, epsilons=[0.0, 0.5])
    run(study, tmp_path / "s.zarr", workers=0, progress=progress)
    ended.set()
    thread.join()
    assert capfd.readouterr() == ("".join(f"line {number}\n" for number in range(len(printed))), "")
    assert len(printed) > 10


@pytest.mark.slow
def test_a_time_is_for_one_process_where_there_are_no_workers(tmp_path: Path) -> None:
    study = write_study(tmp_path, call="laplace", parameters={"epsilon": 1.0}, **GIVEN)
    study.write_text(study.read_text().replace("test = 4500", 'time = "1s"').replace('"all"', '"none"'))
    said = call("run", study, "--store", tmp_path / "s.zarr", "--workers", 0).stderr
    assert "1s with 1 workers: " in said


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


def test_a_run_of_a_complete_store_plans_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = write_study(tmp_path, call="laplace", parameters={"epsilon": 1.0}, **GIVEN)
    command = ["run", str(study), "--store", str(tmp_path / "s.zarr"), "--workers", "0"]
    main(command)
    assert "\n  time  " in capsys.readouterr().err
    main(command)
    assert capsys.readouterr().err.strip().split("\n")[1:] == ["  work           none: everything is in the store"]
    main(["plan", *command[1:]])
    assert "\n  work           none: everything is in the store\n" in capsys.readouterr().out


def test_addresses_that_no_scheduler_can_have(tmp_path: Path) -> None:
    study = gaussian(train=3000, test=3000, epsilons=[0.0])
    with pytest.raises(StudyError, match=r"tcp://127.0.0.1: it has no port; accepted: such as tcp://127.0.0.1:8786"):
        run(study, tmp_path / "s.zarr", cluster="tcp://127.0.0.1")
    encrypted = dask.config.set({"distributed.comm.require-encryption": True})
    with encrypted, pytest.raises(StoreError, match=r"without TLS, .*; accepted: tls://127.0.0.1:1"):
        run(study, tmp_path / "s.zarr", cluster="tcp://127.0.0.1:1")
