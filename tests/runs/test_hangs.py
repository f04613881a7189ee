"""Mechanisms that hang: named while they do, ended where the study says when, and what that costs."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import (
    MECHANISM,
    SEED,
    call,
    nothing_lost,
    one_message,
    show,
    started,
    wait_until,
    write_study,
)
from programs import program_study
from studies import make_study

from hpcdp.errors import StudyError
from hpcdp.keys import digest_array, law_key, stream
from hpcdp.study.file import Study

# Waits while a file holds the state of its generator after the draws, or "all".
HANGING = (
    MECHANISM
    + """

HELD = os.path.join(os.path.dirname(LOG), "held.txt")


def held():
    try:
        with open(HELD) as words:
            return words.read()
    except FileNotFoundError:
        return "nothing"


def hanging(database, size, rng):
    outputs = noisy(database, size, rng)
    while held() in ("all", f"{rng.bit_generator.state['state']['state']:x}"):
        time.sleep(0.1)
    return outputs
"""
)
DATABASE = [0.0, 0.5, 1.0]


def after_draw(chunk: int, size: int) -> str:
    """The state of a test chunk's random generator after its draws."""
    rng = stream(SEED, law_key("own:hanging", {}, digest_array(np.asarray(DATABASE))), "test", chunk)
    rng.laplace(size=size)
    return f"{rng.bit_generator.state['state']['state']:x}"


def hanging_study(folder: Path, **mechanism: Any) -> Path:
    settings = {"call": "own:hanging", "databases": [DATABASE], "rows": [0], "train": 500, "test": 2000}
    path = write_study(folder, HANGING, **settings)
    lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in mechanism.items())
    path.write_text(path.read_text().replace("[mechanism]\n", f"[mechanism]\n{lines}"))
    return path


@pytest.mark.slow
def test_a_timeout_ends_the_mechanism_and_costs_the_chunk(tmp_path: Path, scheduler: str) -> None:
    place = ("--cluster", scheduler)
    call("run", hanging_study(tmp_path / "honest"), "--store", tmp_path / "honest.zarr", *place)
    study, store = hanging_study(tmp_path, timeout=5), tmp_path / "s.zarr"
    (tmp_path / "held.txt").write_text(after_draw(2, 500))
    error = call("run", study, "--store", store, *place, code=1).stderr
    assert "test chunk 2 of database 0: the mechanism did not answer within 5 s (mechanism.timeout)" in error
    assert f"hpcdp resume {store}" in error
    assert "test chunk 2 of database 0" in call("status", store).stdout
    (tmp_path / "held.txt").unlink()
    with nothing_lost(store):
        call("run", hanging_study(tmp_path, timeout="10 min"), "--store", store, *place)
    assert show(store) == show(tmp_path / "honest.zarr"), "it is no part of a law"
    call("run", hanging_study(tmp_path), "--store", store, *place)
    call("run", hanging_study(tmp_path / "honest", timeout=9), "--store", tmp_path / "honest.zarr", *place)
    assert show(store) == show(tmp_path / "honest.zarr")


@pytest.mark.promise
@pytest.mark.slow
def test_a_timeout_binds_trial_draws(tmp_path: Path) -> None:
    (tmp_path / "held.txt").write_text("all")
    message = one_message(call("plan", hanging_study(tmp_path, timeout="1s"), code=2))
    assert "mechanism.call own:hanging: the mechanism did not answer within 1 s (mechanism.timeout), and its" in message
    assert message.endswith("process was ended (seen in trial draws)")


HOLDING = "__import__('ctypes').PyDLL(None).sleep(1000)"


@pytest.mark.slow
@pytest.mark.parametrize("waits", ["time.sleep(0.1)", HOLDING], ids=["sleeps", "holds the lock of Python"])
@pytest.mark.parametrize(("held", "workers"), [("chunk", 0), ("chunk", 1), ("all", 0)])
def test_a_draw_that_hangs_is_named_while_it_does(waits, held, workers, tmp_path, scheduler):
    """Where no thread of its process can run, others must tell; Ctrl-C ends it, which status tells later."""
    store, study = tmp_path / "s.zarr", hanging_study(tmp_path)
    module = tmp_path / "own.py"
    module.write_text(module.read_text().replace("time.sleep(0.1)", waits))
    (tmp_path / "held.txt").write_text(after_draw(2, 500) if held == "chunk" else "all")
    named = "test chunk 2 of database 0" if held == "chunk" else "trial outputs of database 0"
    said: list[str] = []
    begin = time.monotonic()
    with started("run", study, "--store", store, "--workers", workers, folder=tmp_path) as process:
        reader = threading.Thread(target=lambda: said.extend(process.stderr or ()))
        reader.start()
        wait_until(lambda: any("still drawing after 1" in line and named in line for line in said), "it is named", 100)
        if held == "chunk":
            wait_until(lambda: f"still drawing  {named}" in call("status", store).stdout, "status names it", 60)
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(100) == 130
        reader.join()
    assert sum("still drawing" in line for line in said) <= 1 + (time.monotonic() - begin) / 10.0
    if held == "all":
        return
    told = call("status", store).stdout
    assert "still drawing" not in told
    assert "ended early    interrupted (Ctrl-C or SIGTERM)" in told
    assert f"go on with     hpcdp resume {store}" in told
    (tmp_path / "held.txt").unlink()
    call("resume", store, "--cluster", scheduler)
    told = call("status", store).stdout
    assert ": complete, " in told
    assert "ended early" not in told


@pytest.mark.slow
def test_a_silent_program_costs_one_start(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("open('started', 'a').write('x')\nimport time\ntime.sleep(1000)\n")
    command = {"command": [sys.executable, "program.py"], "start_timeout": 4}
    done = call("plan", program_study(tmp_path, call=command), code=2)
    lines = done.stderr.splitlines()
    assert re.fullmatch(r"waiting for the program .*program\.py.* \([23] s\)", lines[0]), lines[0]
    assert "the program was not ready within 4 s (mechanism.call.start_timeout)" in lines[-1]
    assert (tmp_path / "started").read_text() == "x"


@pytest.mark.parametrize(
    ("section", "words"),
    [
        (
            {"call": {"command": ["sh"], "timeout": 9}, "timeout": 9},
            "mechanism.timeout: mechanism.call that is a program",
        ),
        (
            {"call": "stored", "timeout": "1 min"},
            "mechanism.timeout: mechanism.call = 'stored', which draws nothing was",
        ),
        ({"call": "laplace", "timeout": 0}, "mechanism.timeout: seconds, above 0, or a duration such as"),
        ({"call": "laplace", "timeout": "ten"}, 'mechanism.timeout: a duration such as "90s", "10 min"'),
    ],
)
def test_timeouts_that_are_refused(section: dict[str, Any], words: str) -> None:
    good = make_study("laplace", {"epsilon": 1.0}, [([0.0], [1.0])], seed=1, epsilons=[0.0]).to_dict()
    with pytest.raises(StudyError) as caught:
        Study.from_dict({**good, "mechanism": section})
    assert words in str(caught.value)
    assert "timeout" not in good["mechanism"], "stores from before the key hold the same study"
