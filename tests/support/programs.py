"""Programs that tests write, served by serve.py or bare, and studies that call them."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from commands import write_study

import hpcdp.serve
from hpcdp.mechanisms._program import ProgramMechanism, bind_program
from hpcdp.study.mechanism import ProgramCall

SERVED = """
import os, sys
import numpy as np
from serve import serve

def mechanism(database, size, rng, scale=1.0):
    {body}

serve(mechanism)
"""

BARE = """
import json, os, struct, sys, time
read, write = sys.stdin.buffer, sys.stdout.buffer

def say(text):
    write.write(text if isinstance(text, bytes) else (json.dumps(text) + "\\n").encode())
    write.flush()

def answer(size, seed, id, **more):
    {answer}

{greeting}
for line in read:
    request = json.loads(line)
    read.read(8 * request["shape"][0])
    answer(**request)
"""

GREETING = 'say({"hpcdp": 1})'
ZEROS = 'say({"id": id, "dtype": "<f8", "shape": [size]}); say(bytes(8 * size))'


def served(folder: Path, body: str = "return database.sum() + scale * rng.laplace(size=size)") -> Path:
    """A program that answers through serve.py, in a folder that has both."""
    (folder / "serve.py").write_text(Path(hpcdp.serve.__file__).read_text())
    path = folder / "program.py"
    path.write_text(SERVED.format(body=body))
    return path


@contextmanager
def binder(folder: Path) -> Iterator[Callable[..., ProgramMechanism]]:
    """Write a program into a folder and bind it, as a study would; whatever was started is ended."""
    made: list[ProgramMechanism] = []

    def bind(
        text: str | None = None, body: str | None = None, parameters: Any = None, **times: float
    ) -> ProgramMechanism:
        if text is None:
            served(folder, **({} if body is None else {"body": body}))
        else:
            (folder / "program.py").write_text(text)
        program = ProgramCall(command=[sys.executable, "program.py"], **times)
        made.append(bind_program(program.command, program.timeout, program.start_timeout, parameters or {}, folder))
        return made[-1]

    yield bind
    for program in made:
        program.end()


def draw(program: ProgramMechanism, size: int = 16, seed: int = 1, database: Any = (1.0, 2.0)) -> np.ndarray:
    return program.draw(np.asarray(database), size, np.random.default_rng(seed))


def pid_of(program: ProgramMechanism) -> int:
    return program._local.conversation.process.pid


def is_running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def program_study(folder: Path, **changes: Any) -> Path:
    """A study with a served program: two laws of 1,000 + 1,500 draws in chunks of 500."""
    path = folder / "program.py"
    if not path.exists():
        served(folder)
    settings = {"rows": [0], "train": 1000, "test": 1500, "call": {"command": [sys.executable, "program.py"]}}
    return write_study(folder, **{**settings, **changes})
