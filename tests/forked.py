"""Commands forked from a process that has loaded all libraries: nine tenths of what a small command costs is loading them.

What is forked runs `hpcdp.cli.command.main` with the arguments, folder, environment and standard streams that were asked for.
"""

from __future__ import annotations

import atexit
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

from hpcdp._base.threads import worker_environment

_READ_AT_LOADING = ("PYTHON", "NUMBA_", "DASK_", "OMP_", "MKL_", "OPENBLAS_", "MPL", "LD_", "COVERAGE_", "LC_", "LANG")
_LARGEST = 1 << 20

_lock = threading.Lock()
_server: tuple[socket.socket, dict[str, str]] | None = None


def fits() -> bool:
    """Whether libraries that were loaded with the first command's environment are as this one's would be."""
    _, environment = _started()
    return _telling(environment) == _telling(os.environ | worker_environment())


def run_forked(arguments: list[str], folder: Path, timeout: float) -> subprocess.CompletedProcess[str]:
    """As subprocess.run of the command, with its output captured."""
    server, _ = _started()
    ours, theirs = socket.socketpair()
    files = [os.memfd_create(name) for name in ("out", "error")]
    try:
        with ours:
            mask = os.umask(0o077)
            os.umask(mask)
            request = pickle.dumps((arguments, str(folder), os.environ | worker_environment(), mask))
            ours.settimeout(timeout)
            with theirs, _lock:
                socket.send_fds(server, [b"r"], [theirs.fileno(), *files])
            ours.sendall(len(request).to_bytes(8, "big") + request)
            child = int.from_bytes(_receive(ours, 8), "big")
            try:
                status = int.from_bytes(_receive(ours, 8), "big", signed=True)
            except TimeoutError:
                os.kill(child, signal.SIGKILL)
                raise
        texts = [os.pread(file, os.fstat(file).st_size, 0).decode() for file in files]
        return subprocess.CompletedProcess(arguments, status, *texts)
    finally:
        for file in files:
            os.close(file)


def _telling(environment: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in environment.items() if key.startswith(_READ_AT_LOADING)}


def _started() -> tuple[socket.socket, dict[str, str]]:
    global _server
    with _lock:
        if _server is None:
            ours, theirs = socket.socketpair()
            environment = os.environ | worker_environment()
            command = [sys.executable, __file__, str(theirs.fileno())]
            pipe = theirs.fileno()
            process = subprocess.Popen(command, env=environment, pass_fds=[pipe], stdin=subprocess.DEVNULL)
            theirs.close()
            atexit.register(_end, process, ours)
            _server = ours, dict(environment)
        return _server


def _end(process: subprocess.Popen[bytes], server: socket.socket) -> None:
    server.close()
    process.wait()


def _receive(connection: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        if not (some := connection.recv(size - len(found))):
            raise EOFError("the process that forks commands is gone")
        found += some
    return found


def _serve(server: socket.socket) -> None:
    """Fork a process for each request, until there can be no more."""
    while True:
        _, descriptors, _, _ = socket.recv_fds(server, 1, 3)
        if not descriptors:
            return
        if os.fork() == 0:
            server.close()
            _answer(*descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        while _reap():
            pass


def _reap() -> int:
    try:
        return os.waitpid(-1, os.WNOHANG)[0]
    except ChildProcessError:
        return 0


def _answer(number: int, out: int, error: int) -> None:
    with socket.socket(fileno=number) as connection:
        request = _receive(connection, int.from_bytes(_receive(connection, 8), "big"))
        child = os.fork()
        if child:
            connection.sendall(child.to_bytes(8, "big"))
            _, status = os.waitpid(child, 0)
            connection.sendall(os.waitstatus_to_exitcode(status).to_bytes(8, "big", signed=True))
            os._exit(0)
    arguments, folder, environment, mask = pickle.loads(request)
    os.umask(mask)
    os.dup2(out, 1)
    os.dup2(error, 2)
    os.close(out)
    os.close(error)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.path[0] = folder  # as python -m has it
    sys.argv = [hpcdp.__main__.__file__, *arguments]
    code: object = 1
    try:
        code = hpcdp.cli.command.main()
    except SystemExit as raised:
        code = raised.code
    except BaseException as raised:
        sys.excepthook(type(raised), raised, raised.__traceback__)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        atexit._run_exitfuncs()
        os._exit(code if isinstance(code, int) else 1)


if __name__ == "__main__":
    import distributed  # noqa: F401
    import matplotlib.figure  # noqa: F401
    import numba  # noqa: F401
    import scipy.optimize  # noqa: F401
    import zarr  # noqa: F401

    import hpcdp.__main__
    import hpcdp.cli.command
    import hpcdp.clusters._serving
    import hpcdp.engine.driver
    import hpcdp.report.audit
    import hpcdp.report.plots
    import hpcdp.report.plots_audit
    import hpcdp.report.table

    _serve(socket.socket(fileno=int(sys.argv[1])))
