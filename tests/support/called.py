"""What workers are asked to call in tests of theirs: a module that loads nothing, since each worker loads it anew."""

from __future__ import annotations

import os
import signal
import stat
import time
from contextlib import suppress


def pid(_: int = 0) -> int:
    return os.getpid()


def kill(path: str) -> int:
    """End the worker, the first two times."""
    with open(path, "a") as file:
        file.write("x")
    if os.path.getsize(path) < 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return os.getpid()


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def lose() -> None:
    """Close the worker's connection, and use its number for another file."""
    os.closerange(3, 4096)
    for _ in range(40):
        os.open(os.devnull, os.O_RDWR)
    time.sleep(1000)


def throw(error: BaseException) -> None:
    raise error


def meet(folder: str, name: str, others: int) -> int:
    """Wait until so many are here at once."""
    with open(os.path.join(folder, name), "w"):
        pass
    while len(os.listdir(folder)) < others:
        time.sleep(0.03)
    return os.getpid()


def babble(words: bytes) -> None:
    """Write on every socket, as code does that goes on with the number of a file that was closed."""
    for number in range(3, 256):
        with suppress(OSError):
            if stat.S_ISSOCK(os.fstat(number).st_mode):
                os.write(number, words)
