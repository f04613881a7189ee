"""Compiled kernels, kept between runs in a folder of this user and this build of hpcdp.

numba compares a kernel's own file with what it kept and no other, though what a kernel calls is compiled into it. So a build
whose kernels differ has another folder.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile, gettempdir
from typing import Any, cast

import numba
from numba.core import event

from hpcdp._base import compiling
from hpcdp._base.files import own_folder
from hpcdp._base.signals import postponed

_PACKAGE = Path(__file__).parents[1]

_SIGNS = (b"hpcdp._base.kernels import", b"@kernel", b"@_jit")  # of files that hold kernels

_kernels: set[Any] = set()
_thread = threading.local()


def kernel(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Decorate a function that numba compiles, without the GIL, and keeps; options: others of `numba.njit`."""

    def decorated(function: Callable[..., Any]) -> Any:
        config, folder = cast(Any, numba.config), _folder()
        before, config.CACHE_DIR = config.CACHE_DIR, folder or ""
        try:
            compiled = numba.njit(nogil=True, cache=bool(folder), **options)(function)
        finally:
            config.CACHE_DIR = before  # of kernels that are not hpcdp's
        _kernels.add(compiled)
        return compiled

    return decorated


@cache
def _folder() -> str | None:
    """In NUMBA_CACHE_DIR where that is given, else in a folder of this user alone; None: none can be written."""
    build = f"hpcdp-{digest(_PACKAGE)}"
    given = [name for name in [os.environ.get("NUMBA_CACHE_DIR")] if name]
    for name in (*given, os.environ.get("XDG_CACHE_HOME") or "~/.cache", ""):
        with suppress(OSError, RuntimeError):  # the latter where there is no home
            parent = Path(name or gettempdir()).expanduser().absolute()
            parent.mkdir(parents=True, exist_ok=True)
            if own := parent if name in given else own_folder(parent):
                (own / build).mkdir(exist_ok=True)
                TemporaryFile(dir=own / build).close()
                return str(own / build)
    compiling.words = compiling.UNKEPT
    return None


def digest(package: Path) -> str:
    """Of numba's version, of the package's files that hold kernels, and of those that they import values from."""
    texts = {path.relative_to(package).as_posix(): path.read_bytes() for path in package.rglob("*.py")}
    wanted = {name for name, text in texts.items() if any(sign in text for sign in _SIGNS)}
    for name in list(wanted):
        others = re.findall(rb"^from hpcdp\.([\w.]+) import", texts[name], re.M)
        wanted |= {f"{other.decode().replace('.', '/')}.py" for other in others}
    parts = [numba.__version__.encode(), *(texts[name] for name in sorted(wanted & texts.keys()))]
    return hashlib.sha256(b"\n".join(parts)).hexdigest()[:16]


class _Locked(event.Listener):
    """What numba does under its lock: it looks for a kernel that was kept, or compiles and keeps one.

    Ctrl-C waits while one is loaded, where it would come within C. Who keeps one keeps others out: numba numbers files, so two
    processes that keep kernels of two types at once would leave one type's number with the other's code.
    """

    def on_start(self, event: Any) -> None:
        if not hasattr(_thread, "within"):
            _thread.within = []
        _thread.within.append(ExitStack())
        if len(_thread.within) == 1:
            _thread.within[0].enter_context(postponed())

    def on_end(self, event: Any) -> None:
        _thread.within.pop().close()


class _Compiled(event.Listener):
    """What numba does where it finds none that was kept; it is kept once the event is over and before the lock is."""

    def on_start(self, event: Any) -> None:
        _thread.within[-1].close()
        if event.data["dispatcher"] in _kernels:
            compiling.begins()

    def on_end(self, event: Any) -> None:
        if event.data["dispatcher"] in _kernels and (folder := _folder()):
            with suppress(OSError):  # of file systems without locks
                file = os.open(f"{folder}/lock", os.O_CREAT | os.O_WRONLY, 0o600)
                _thread.within[-1].callback(os.close, file)
                fcntl.flock(file, fcntl.LOCK_EX)


for kind, listener in (("numba:compiler_lock", _Locked()), ("numba:compile", _Compiled())):
    cast(Any, event).register(kind, listener)
