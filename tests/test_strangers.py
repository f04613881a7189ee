"""A second real Unix user of the machine tries to get into a run of this one."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from commands import members, started, wait_until, write_study
from distributed import LocalCluster

STRANGER = "nobody"
HELD = """
import multiprocessing
import os
import time

HERE = os.path.dirname(os.path.abspath(__file__))


def held(database, size, rng):
    if multiprocessing.parent_process():  # a worker; the driver's trial draws go on
        open(os.path.join(HERE, f"draws-{os.getpid()}"), "w").close()
        while not os.path.exists(os.path.join(HERE, "go")):
            time.sleep(0.05)
    return database.sum() + rng.laplace(size=size)
"""


@pytest.fixture(scope="module", name="root")
def root_fixture() -> list[str]:
    """What a command needs before it to become somebody else; skips, or where HPCDP_REQUIRE_STRANGER is 1 fails, without."""
    found = [] if os.getuid() == 0 else ["sudo", "-n"]
    able = found == [] or (shutil.which("sudo") and subprocess.run([*found, "true"], check=False).returncode == 0)
    if not able or pwd.getpwnam(STRANGER).pw_uid == os.getuid():
        missing = "there is no way to be a second user (root, or sudo without a password)"
        if os.environ.get("HPCDP_REQUIRE_STRANGER") == "1":
            pytest.fail(f"{missing}, and HPCDP_REQUIRE_STRANGER is 1")
        pytest.skip(missing)
    return found


def listening(pids: list[int]) -> dict[int, str]:
    """Address by port of whatever these processes listen on."""
    found: dict[int, str] = {}
    for pid in pids:
        with suppress(psutil.NoSuchProcess):  # a short one of the start, such as git
            links = psutil.Process(pid).net_connections("inet")
            open_ones = [link for link in links if link.status == psutil.CONN_LISTEN or link.type != socket.SOCK_STREAM]
            found |= {link.laddr.port: link.laddr.ip for link in open_ones}
    return found


def tried(root: list[str], ports: list[int], pids: list[int], folders: list[Path]) -> dict[str, Any]:
    """What the stranger got, by attempt."""
    told = {"ports": ports, "pids": pids, "folders": [str(folder) for folder in folders]}
    command = [*root, sys.executable, "-W", "ignore", str(Path(__file__).with_name("stranger.py")), STRANGER]
    done = subprocess.run(command, input=json.dumps(told), capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["user"] == pwd.getpwnam(STRANGER).pw_uid != os.getuid()
    assert said["attempts"] >= len(ports) + 2 * len(pids)
    got: dict[str, Any] = said["got"]
    return got


def test_a_stranger_gets_into_no_process_of_a_local_run(
    tmp_path: Path, root: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside it runs the fault planted: Dask as it comes, as runs used it; there each kind of attempt gets something."""
    study, public = write_study(tmp_path, HELD, call="own:held"), tmp_path / "public"
    public.mkdir()
    public.chmod(0o1777)
    monkeypatch.setenv("TMPDIR", str(public))
    here = os.getpid()
    before = listening([here])
    with (
        LocalCluster(1, 1, processes=False, protocol="tcp://", dashboard_address="127.0.0.1:0"),
        started("run", study, "--store", tmp_path / "s.zarr", "--workers", 2, folder=tmp_path) as process,
    ):
        plain = set(listening([here])) - set(before)
        wait_until(lambda: any(tmp_path.glob("draws-*")), "a worker draws")
        pids = members(process)
        wait_until(lambda: len(listening(pids)) >= 3, "a scheduler and two workers")
        ports = listening(pids)
        got = tried(root, [*ports, *plain], pids, [tmp_path])
        (tmp_path / "go").touch()
        _, error = process.communicate(timeout=120)
        assert process.returncode == 0, error
    faults = {name: got.pop(name) for name in list(got) if name.partition(": ")[0] in map(str, plain)}
    print(f"of ports {sorted(ports)} the stranger got {got}; of plain ones {faults}")
    assert got == {}
    assert len(ports) == 3
    assert set(ports.values()) == {"127.0.0.1"}
    assert {name.partition(": ")[2] for name in faults} == {"a client", "identity", "code", "HTTP", "greeting"}
    assert f"ran as user {os.getuid()}" in faults.values()
