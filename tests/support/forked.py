"""Commands forked from a process that has loaded all libraries: nine tenths of what a small command costs is loading them.

What is forked runs `hpcdp.cli.command.main` with the arguments, folder, environment and standard streams that were asked for.
"""

from __future__ import annotations

import atexit
import os
import pickle
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

from hpcdp._base.threads import worker_environment

_READ_AT_LOADING = ("PYTHON", "NUMBA_", "DASK_", "OMP_", "MKL_", "OPENBLAS_", "MPL", "LD_", "COVERAGE_", "LC_", "LANG")

_lock = threading.Lock()
_common: Server | None = None


class Server:
    """A process that has loaded the libraries, with this environment, and forks commands."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        ours, theirs = socket.socketpair()
        self.environment = dict(environment)
        pipe = theirs.fileno()
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(pipe)], env=environment, pass_fds=[pipe], stdin=subprocess.DEVNULL
        )
        theirs.close()
        self._socket, self._lock = ours, threading.Lock()

    def end(self) -> None:
        """End it; what it forked goes on."""
        self._socket.close()
        self._process.wait()

    def fork(self, connection: socket.socket, files: Sequence[int]) -> None:
        """Fork one that talks over this connection and prints to two files; the other end is `ask`'s."""
        with self._lock:
            socket.send_fds(self._socket, [b"r"], [connection.fileno(), *files])

    @contextmanager
    def listening(self, path: Path) -> Iterator[None]:
        """Whoever connects there and sends two files gets one forked."""
        with socket.socket(socket.AF_UNIX) as door:
            door.bind(str(path))
            door.listen()
            threading.Thread(target=self._admit, args=(door,), daemon=True).start()
            try:
                yield
            finally:
                door.shutdown(socket.SHUT_RDWR)

    def _admit(self, door: socket.socket) -> None:
        while True:
            try:
                guest, _ = door.accept()
            except OSError:
                return
            with guest:
                _, files, _, _ = socket.recv_fds(guest, 1, 2)
                self.fork(guest, files)
                for file in files:
                    os.close(file)


def fits() -> bool:
    """Whether libraries that were loaded with the first command's environment are as this one's would be."""
    return _telling(_started().environment) == _telling(os.environ | worker_environment())


def run_forked(arguments: list[str], folder: Path, timeout: float) -> subprocess.CompletedProcess[str]:
    """As subprocess.run of the command, with its output captured."""
    ours, theirs = socket.socketpair()
    files = [os.memfd_create(name) for name in ("out", "error")]
    try:
        with ours:
            ours.settimeout(timeout)
            with theirs:
                _started().fork(theirs, files)
            status = ask(ours, arguments, folder, os.environ | worker_environment())
        texts = [os.pread(file, os.fstat(file).st_size, 0).decode() for file in files]
        return subprocess.CompletedProcess(arguments, status, *texts)
    finally:
        for file in files:
            os.close(file)


class Forked:
    """A command in a session of its own, forked, with the part of `subprocess.Popen` that tests use; texts, not bytes."""

    def __init__(self, arguments: list[str], folder: Path) -> None:
        self._connection, theirs = socket.socketpair()
        (out, out_end), (error, error_end) = os.pipe(), os.pipe()
        with theirs:
            _started().fork(theirs, [out_end, error_end])
        os.close(out_end)
        os.close(error_end)
        self.stdout, self.stderr = os.fdopen(out, encoding="utf-8"), os.fdopen(error, encoding="utf-8")
        self.pid = _begin(self._connection, arguments, folder, os.environ | worker_environment(), True)
        self.returncode: int | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.wait()
        self.stdout.close()
        self.stderr.close()
        self._connection.close()

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, minus the signal that ended it; TimeoutExpired where it goes on for longer."""
        if self.returncode is None:
            if not select.select([self._connection], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("hpcdp", timeout or 0.0)
            self.returncode = _end(self._connection)
        return self.returncode

    def poll(self) -> int | None:
        """The exit code, or None while it goes on."""
        with suppress(subprocess.TimeoutExpired):
            return self.wait(0.0)
        return None

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """What it printed, once it has ended."""
        with ThreadPoolExecutor(2) as readers:
            texts = [readers.submit(file.read) for file in (self.stdout, self.stderr)]
            try:
                self.wait(timeout)
            except subprocess.TimeoutExpired:
                self.kill()
                raise
            return texts[0].result(), texts[1].result()

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(signal.SIGKILL)


def ask(connection: socket.socket, arguments: list[str], folder: Path, environment: Mapping[str, str]) -> int:
    """Have what was forked run a command; its exit code. TimeoutError where the connection has one: it is killed then."""
    child = _begin(connection, arguments, folder, environment, False)
    try:
        return _end(connection)
    except TimeoutError:
        os.kill(child, signal.SIGKILL)
        raise


def _begin(
    connection: socket.socket, arguments: list[str], folder: Path, environment: Mapping[str, str], has_session: bool
) -> int:
    """Have what was forked begin a command; its process."""
    mask = os.umask(0o077)
    os.umask(mask)
    request = pickle.dumps((arguments, str(folder), dict(environment), mask, has_session))
    connection.sendall(len(request).to_bytes(8, "big") + request)
    return int.from_bytes(_receive(connection, 8), "big")


def _end(connection: socket.socket) -> int:
    return int.from_bytes(_receive(connection, 8), "big", signed=True)


def _telling(environment: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in environment.items() if key.startswith(_READ_AT_LOADING)}


def _started() -> Server:
    global _common
    with _lock:
        if _common is None:
            _common = Server(os.environ | worker_environment())
            atexit.register(_common.end)
        return _common


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
            for file in (out, error):
                os.close(file)
            _, status = os.waitpid(child, 0)
            connection.sendall(os.waitstatus_to_exitcode(status).to_bytes(8, "big", signed=True))
            os._exit(0)
        arguments, folder, environment, mask, has_session = pickle.loads(request)
        if has_session:  # before anybody knows the process, and may want to kill its session
            os.setsid()
        connection.sendall(os.getpid().to_bytes(8, "big"))
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


def _be_command(door: str, arguments: list[str]) -> int:
    """A command of a shell: what is forked behind that door does it, with the streams that this process has."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(door)
        socket.send_fds(connection, [b"r"], [1, 2])
        return ask(connection, arguments, Path.cwd(), os.environ)


if __name__ == "__main__":
    if not sys.argv[1].isdigit():
        sys.exit(_be_command(sys.argv[1], sys.argv[2:]))

    import distributed  # noqa: F401
    import matplotlib.figure  # noqa: F401
    import numba  # noqa: F401
    import scipy.optimize  # noqa: F401
    import zarr  # noqa: F401

    import hpcdp.__main__
    import hpcdp.cli.command
    import hpcdp.clusters.jobs
    import hpcdp.driver.driver
    import hpcdp.engine.tasks
    import hpcdp.report.audit
    import hpcdp.report.notions
    import hpcdp.report.plots
    import hpcdp.report.plots_methods

    _serve(socket.socket(fileno=int(sys.argv[1])))
