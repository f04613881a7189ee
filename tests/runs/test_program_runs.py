"""Studies whose mechanism is a program: what is refused beforehand, runs that lose chunks, stores that go on."""

from __future__ import annotations

import math
import re
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import pytest
from commands import SEED, blocks, call, one_message, show, stored_problem
from programs import program_study, served
from studies import make_study

from hpcdp.errors import StudyError
from hpcdp.keys import stream


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "mechanism.call.command: required and missing; accepted keys here: command, timeout, start_timeout"),
        ({"command": []}, "mechanism.call.command: a list of at least 1"),
        ({"command": ["sh", ""]}, "mechanism.call.command.1: a text that is not empty"),
        ({"command": "sh"}, "mechanism.call.command: a list; given: 'sh'"),
        ({"command": ["sh"], "time": 1}, "mechanism.call.time: unknown key (given: 1); accepted: command, timeout"),
        ({"command": ["sh"], "timeout": 0}, "mechanism.call.timeout: above 0; given: 0"),
        ({"command": ["sh"], "start_timeout": math.inf}, "mechanism.call.start_timeout: a finite number; given: inf"),
        (3, "mechanism.call: a text in quotes; given: 3"),
    ],
)
def test_refusals_name_key_value_and_choice(given: Any, words: str) -> None:
    with pytest.raises(StudyError) as caught:
        make_study(given, {}, [([0], [1])], seed=1, epsilons=[0.0])
    assert words in str(caught.value)


@pytest.mark.slow
def test_a_run_is_the_same_on_any_workers_and_resumes_what_failed(tmp_path: Path, scheduler: str) -> None:
    body = """
    chunk = str(rng.bit_generator.seed_seq.entropy[0])
    if os.path.exists("broken") and chunk in open("broken").read().split():
        os._exit(7)
    return database.sum() + scale * rng.laplace(size=size)
    """
    served(tmp_path, dedent(body).strip().replace("\n", "\n    "))
    study = program_study(tmp_path)
    call("run", study, "--store", tmp_path / "whole.zarr", "--cluster", scheduler)
    problem = stored_problem(tmp_path / "whole.zarr")
    chunks = sorted(  # none of which trial draws ask for
        str(stream(SEED, law, stage.name, chunk).integers(0, 1 << 32, 4, dtype=np.uint64)[0])
        for law in problem.laws
        for stage in problem.kept_stages
        for chunk in range(stage.chunks)
    )
    (tmp_path / "broken").write_text("\n".join(chunks[::3]))
    done = call("run", study, "--store", tmp_path / "s.zarr", "--cluster", scheduler, code=1)
    assert "some chunks failed and were set aside" in done.stderr
    assert "of database 0" in done.stderr
    assert "the program ended with exit code 7" in done.stderr
    assert blocks(tmp_path / "s.zarr") < blocks(tmp_path / "whole.zarr")
    (tmp_path / "broken").unlink()
    call("resume", tmp_path / "s.zarr", "--cluster", scheduler)
    assert show(tmp_path / "s.zarr") == show(tmp_path / "whole.zarr")


@pytest.mark.slow
def test_a_store_accepts_another_time_out_and_no_other_program(tmp_path: Path, scheduler: str) -> None:
    store = tmp_path / "s.zarr"
    command = [sys.executable, "program.py"]
    call("run", program_study(tmp_path), "--store", store, "--cluster", scheduler)
    before = show(store)
    study = program_study(tmp_path, call={"command": command, "timeout": 9, "start_timeout": 9})
    call("run", study, "--store", store, "--cluster", scheduler)
    assert show(store) == before
    other = program_study(tmp_path, call={"command": [*command, "fast"]})
    message = one_message(call("run", other, "--store", store, "--cluster", scheduler, code=2))
    assert "mechanism.call" in message
    program_study(tmp_path)
    with (tmp_path / "program.py").open("a") as handle:
        handle.write("# more\n")
    message = one_message(call("run", study, "--store", store, "--cluster", scheduler, code=2))
    assert "a file that it names" in message
    assert "--allow-changed-code" in message
    call("run", study, "--store", store, "--cluster", scheduler, "--allow-changed-code")


SEEDS = {
    "return np.random.default_rng().laplace(size=size)": "different outputs from equal seeds",
    "return np.random.default_rng(0).laplace(size=size)": "it ignores the seed",
    "return rng.laplace(size=size) + os.getpid()": "different outputs from equal seeds",
    "raise ValueError('no luck')": "answered with an error: ValueError: no luck",
    "return [{}] * size": "TypeError: outputs are booleans, integers, reals or strings of one shape, not object",
    "return rng.random(size + 1)": r"shape \[(\d+)\]; accepted: \[(\d+)\] or \[\2, d\]",
}


@pytest.mark.parametrize("body", SEEDS)
def test_programs_are_refused_before_anything_runs(tmp_path: Path, body: str) -> None:
    served(tmp_path, body)
    message = one_message(call("plan", program_study(tmp_path), code=2))
    assert re.search(SEEDS[body], message)
    assert "mechanism.call" in message
    assert "(seen in trial draws)" in message


@pytest.mark.slow
def test_a_chunk_that_would_time_out_is_refused_before_anything_runs(tmp_path: Path) -> None:
    served(tmp_path, "import time; time.sleep(0.0002 * size); return rng.random(size)")
    quick = {"command": [sys.executable, "program.py"], "timeout": 20}
    assert "(measured)" in call("plan", program_study(tmp_path, call=quick)).stdout
    message = one_message(call("plan", program_study(tmp_path, call=quick, chunk=10**6, test=10**6), code=2))
    assert message.startswith("hpcdp: mechanism.call.timeout: a chunk of 1,000,000 draws would take about")
    assert "is given up after 20 s" in message
