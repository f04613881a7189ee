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

from hpcdp._base.limits import open_files
from hpcdp._base.raised import describe_raised
from hpcdp._base.threads import program_environment
from hpcdp.errors import MechanismError
from hpcdp.mechanisms.code_digest import digest_function
from hpcdp.mechanisms.functions import pickled
from hpcdp.serve import _take_pipes
from hpcdp.store.arrays import fingerprint
from hpcdp.study.sampler import Sampler

_asking = threading.Lock()
_FAILED = "failed:"


def fresh_prints(sampler: Sampler, is_given: bool, chunks: list[int], *given: Any, **how: Any) -> list[str] | None:
    """Fingerprints of these chunks as a fresh process draws them; None of a function that cannot be sent to one.

    is_given: whether the function was given as an object; its modules go as they are here, as to workers. given, how: of
    `Sampler.draw_tape`. MechanismError where the mechanism fails there, or where there is no such process to be had.
    """
    function: Any = getattr(sampler.mechanism, "function", None)
    own = digest_function(function).modules if is_given else ()
    try:
        request = pickled({"asked": (replace(sampler), chunks, given, how)}, set(own))
    except Exception:  # whatever a class of someone else raises
        return None
    request = pickle.dumps((sys.path, request))
    for _ in range(2):  # one that was ended is started again
        with _asking, suppress(OSError):
            asked = _origin(os.getpid())
            assert asked.stdin is not None
            assert asked.stdout is not None
            asked.stdin.write(b"%d\n" % len(request) + request)
            asked.stdin.flush()
            if found := asked.stdout.readline().decode().split():
                if found[0] != _FAILED:
                    return found
                raise MechanismError(f"in a fresh process {' '.join(found[1:])}")
        _origin.cache_clear()
    raise MechanismError(
        "the fresh process in which chunks of random tapes are drawn once more cannot be started, or ended before it answered; "
        f"is there enough memory, and may more than {open_files()} files be open (ulimit -n)?"
    )


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
    sampler, chunks, (database, law, part, size, schema), how = pickle.loads(rest)["asked"]
    return [fingerprint(sampler.draw_tape(database, law, part, chunk, size, schema, **how)[0]) for chunk in chunks]
