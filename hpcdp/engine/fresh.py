"""Draws chunks of random tapes in fresh processes: forked of one that has imported hpcdp and no code of others."""

from __future__ import annotations

import atexit
import os
import pickle
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from importlib import import_module
from typing import Any

from hpcdp._base.raised import describe_raised
from hpcdp._base.threads import program_environment
from hpcdp.errors import MechanismError
from hpcdp.serve import _take_pipes
from hpcdp.store.arrays import fingerprint
from hpcdp.study.sampler import Sampler

_asking = threading.Lock()
_FAILED = "failed:"


def fresh_prints(sampler: Sampler, chunks: list[int], *given: Any, **how: Any) -> list[str]:
    """Fingerprints of these chunks as a fresh process draws them; none where it cannot. given, how: of `Sampler.draw_tape`."""
    import cloudpickle

    try:
        request = cloudpickle.dumps((sys.path, cloudpickle.dumps((replace(sampler), chunks, given, how))))
    except Exception as error:  # whatever a class of someone else raises
        raise MechanismError(f"estimate.tape: the mechanism cannot be sent to another process: {error}") from error
    with _asking, suppress(OSError):
        asked = _origin(os.getpid())
        assert asked.stdin is not None
        assert asked.stdout is not None
        asked.stdin.write(b"%d\n" % len(request) + request)
        asked.stdin.flush()
        found = asked.stdout.readline().decode().split()
        if found[:1] != [_FAILED]:
            return found
        raise MechanismError(f"in a fresh process {' '.join(found[1:])}")
    return []


@lru_cache(maxsize=1)
def _origin(_process: int) -> subprocess.Popen[bytes]:
    """What fresh processes of this one are forked of; it ends with this process."""
    code = f"import sys; sys.path[:] = {sys.path!r}; from hpcdp.engine.fresh import answer; answer()"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "start_new_session": True}
    found = subprocess.Popen([sys.executable, "-c", code], env=program_environment(), **pipes)  # type: ignore[call-overload]
    atexit.register(found.communicate)
    return found


def answer() -> None:
    """The other side: fork for each request, until this process's input ends."""
    import_module("hpcdp.mechanisms.tape.generator")  # and its kernels
    requests, answers = _take_pipes()
    while line := requests.readline():
        request = requests.read(int(line))
        source, target = os.pipe()
        if (child := os.fork()) == 0:
            try:
                found = " ".join(_drawn(request))
            except BaseException as error:  # whatever code of others raises
                found = f"{_FAILED} {describe_raised(error)}"
            os.write(target, found.encode(errors="replace"))
            os._exit(0)
        os.close(target)
        with os.fdopen(source, "rb") as pipe:
            answers.write(pipe.read() + b"\n")
        os.waitpid(child, 0)
        answers.flush()


def _drawn(request: bytes) -> list[str]:
    path, rest = pickle.loads(request)
    sys.path[:] = path
    sampler, chunks, (database, law, part, size, schema), how = pickle.loads(rest)
    return [fingerprint(sampler.draw_tape(database, law, part, chunk, size, schema, **how)[0]) for chunk in chunks]
