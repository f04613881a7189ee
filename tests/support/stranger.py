"""Another user of the machine, in a process of his own: what he gets out of a run's ports, processes and files.

python stranger.py USER, with {"ports": [...], "pids": [...], "folders": [...]} on stdin, as root. It prints what he got:
{attempt: what it gave}, an empty object where he got nothing. All that he needs is loaded before root becomes him: the
interpreter, its libraries and this file may lie where he cannot read.
"""

import asyncio
import json
import os
import pwd
import socket
import ssl
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from cloudpickle import dumps
from distributed import Client, LocalCluster, Security
from distributed.comm import connect

SECONDS = 8  # that a peer has to answer; Dask asks one that refuses again so long
SECRET = b"PRIVATE KEY"


def become(user: str) -> None:
    """Be somebody else for good."""
    entry = pwd.getpwnam(user)
    os.setgroups([])
    os.setresgid(entry.pw_gid, entry.pw_gid, entry.pw_gid)
    os.setresuid(entry.pw_uid, entry.pw_uid, entry.pw_uid)
    os.environ.update(HOME="/", TMPDIR="/tmp")


def client(port: int, security: Security | None) -> Any:
    """Code of one's own in the scheduler's process, through Dask's client."""
    scheme = "tls" if security else "tcp"
    with Client(f"{scheme}://127.0.0.1:{port}", security=security, timeout=SECONDS, set_as_default=False) as found:
        return f"ran as user {found.run_on_scheduler(os.getuid)}"


async def ask(port: int, message: dict[str, Any], context: ssl.SSLContext | None) -> Any:
    """One message of Dask's protocol (msgpack), and its answer."""
    where, options = (
        (f"tls://127.0.0.1:{port}", {"ssl_context": context}) if context else (f"tcp://127.0.0.1:{port}", {})
    )
    comm = await connect(where, timeout=SECONDS, **options)
    try:
        await comm.write(message)
        return str(await asyncio.wait_for(comm.read(), SECONDS))[:100]
    finally:
        comm.abort()


def http(port: int) -> Any:
    """The answer to a request for a page."""
    with socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as plain:
        plain.sendall(b"GET /info/main/workers.html HTTP/1.0\r\n\r\n")
        answer = plain.recv(1 << 12)
    return answer[:40].decode() if answer.startswith(b"HTTP/") else None


def greeting(port: int) -> Any:
    """What it tells whoever connects, before a byte is sent to it."""
    with socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as plain:
        return repr(plain.recv(1 << 12)[:40])


def readable(path: Path) -> Any:
    """Whether a file can be read and holds a key."""
    return str(path) if SECRET in path.read_bytes() else None


def memory(pid: int) -> Any:
    """A byte of a process's memory, its environment, or the files that it has open."""
    with suppress(OSError):
        return f"{len(Path(f'/proc/{pid}/environ').read_bytes())} bytes of environment"
    with suppress(OSError):
        return f"{len(os.listdir(f'/proc/{pid}/fd'))} open files"
    with open(f"/proc/{pid}/mem", "rb"):
        return "memory"


def of_port(port: int, own: Security) -> dict[str, Callable[[], Any]]:
    """What is tried at a port that serves no pages."""
    bare = ssl.create_default_context()
    bare.check_hostname, bare.verify_mode = False, ssl.CERT_NONE
    code = {"op": "run", "function": dumps(os.getuid), "args": dumps(()), "kwargs": dumps({}), "reply": True}
    return {
        f"{port}: a client": lambda: client(port, None),
        f"{port}: a client with a certificate of his own": lambda: client(port, own),
        f"{port}: identity": lambda: asyncio.run(ask(port, {"op": "identity"}, None)),
        f"{port}: identity over TLS": lambda: asyncio.run(ask(port, {"op": "identity"}, bare)),
        f"{port}: code": lambda: asyncio.run(ask(port, code, None)),
        f"{port}: greeting": lambda: greeting(port),
    }


def main(user: str) -> None:
    """Try everything; what is refused in whatever way gave nothing."""
    told = json.load(sys.stdin)
    own = Security.temporary()
    for scheme, security in (("tcp://", None), ("tls://", own)):  # for what Dask imports only where it is used
        with LocalCluster(0, processes=False, protocol=scheme, security=security, dashboard_address=None) as known:
            outcomes(of_port(known.scheduler.port, own))
    become(user)
    attempts: dict[str, Callable[[], Any]] = {f"{port}: HTTP": lambda port=port: http(port) for port in told["ports"]}
    answers = outcomes(attempts)
    for port in told["ports"]:
        if f"{port}: HTTP" not in answers:  # Dask's client hangs on a web server
            attempts |= of_port(port, own)
    for pid in told["pids"]:
        attempts[f"{pid}: memory"] = lambda pid=pid: memory(pid)
        attempts[f"{pid}: command"] = lambda pid=pid: readable(Path(f"/proc/{pid}/cmdline"))
    for folder in told["folders"]:
        for place, _, names in os.walk(folder):
            attempts |= {f"{place}/{name}": lambda path=Path(place, name): readable(path) for name in names}
    print(json.dumps({"user": os.getuid(), "attempts": len(attempts), "got": outcomes(attempts)}))


def outcomes(attempts: dict[str, Callable[[], Any]]) -> dict[str, Any]:
    """What the attempts gave, by name; whatever is raised is a refusal."""

    def outcome(name: str) -> Any:
        with suppress(Exception):
            return attempts[name]()
        return None

    with ThreadPoolExecutor(len(attempts)) as pool:
        found = zip(attempts, pool.map(outcome, attempts), strict=True)
        return {name: got for name, got in found if got is not None}


if __name__ == "__main__":
    main(sys.argv[1])
