"""A second real Unix user of the machine tries to get into a run of this one."""

import getpass
import json
import os
import pwd
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import dask
import psutil
import pytest
from commands import call, started, wait_until, write_study
from distributed import LocalCluster

from hpcdp.clusters.certificates import Certificate
from hpcdp.clusters.profile import Profile
from hpcdp.clusters.scheduler import open_local
from hpcdp.clusters.slurm import JobFolder
from hpcdp.clusters.worker import worker_script as script_of

STRANGER = "nobody"
HELD = """
import os
import time

from hpcdp._base import doing

HERE = os.path.dirname(os.path.abspath(__file__))


def held(database, size, rng):
    if "trial outputs" not in doing.step():
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


def of_run(pid: int) -> list[int]:
    """A command's process and whatever it has started so far."""
    return [pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))]


def tried(root: list[str], ports: list[int], pids: list[int], folders: list[Path]) -> dict[str, Any]:
    """What the stranger got, by attempt."""
    told = {"ports": ports, "pids": pids, "folders": [str(folder) for folder in folders]}
    script = Path(__file__).parents[1] / "support" / "stranger.py"
    done = subprocess.run(
        [*root, sys.executable, "-W", "ignore", str(script), STRANGER],
        env={name: text for name, text in os.environ.items() if not name.startswith("DASK_")},  # with our certificate
        input=json.dumps(told),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["user"] == pwd.getpwnam(STRANGER).pw_uid != os.getuid()
    assert said["attempts"] >= len(ports) + 2 * len(pids)
    got: dict[str, Any] = said["got"]
    return got


def as_stranger(root: list[str], *command: object) -> int:
    """The exit code of a command of his."""
    words = [*map(str, command)]
    if root:
        return subprocess.run([*root, "-u", STRANGER, *words], capture_output=True, check=False).returncode
    group = pwd.getpwnam(STRANGER).pw_gid
    done = subprocess.run(words, user=STRANGER, group=group, extra_groups=[], capture_output=True, check=False)
    return done.returncode


@pytest.fixture(name="shared")
def shared_fixture() -> Iterator[Path]:
    """A folder like /tmp."""
    with tempfile.TemporaryDirectory(prefix="hpcdp-shared-") as name:
        Path(name).chmod(0o1777)
        yield Path(name)


def worker_script(shared: Path) -> str:
    """A worker's job script, with a command in Python's place that tells what it was given."""
    told = {"cluster": {"python": 'printf "%s\\n" "$HPCDP_SCRATCH" "$NUMBA_CACHE_DIR"; :', "tls": False}}
    worker = {"cores": 1, "memory": "1GB", "walltime": "1h", "scratch": "$SHARED"}
    profile = Profile.from_dict({**told, "worker": worker, "size": {"jobs": 1}})
    return script_of("tcp://127.0.0.1:1", profile, JobFolder(shared / "jobs", "j"), None, None, "j")


def allocation_script(_: Path) -> str:
    """What slurm/allocation.sh does before it starts anything."""
    text = (Path(__file__).parents[2] / "slurm" / "allocation.sh").read_text()
    body = text[text.index("private_folder() {") : text.index("# One thread a process")]
    return f'set -euo pipefail\n{body}printf "%s\\n" "$DASK_TEMPORARY_DIRECTORY" "$NUMBA_CACHE_DIR"\n'


def script_for_any_batch_system(_: Path) -> str:
    """What the example for other batch systems puts into a job before its workers start."""
    script = Path(__file__).parents[2] / "workflows" / "examples" / "any_batch_system.py"
    names: dict[str, Any] = {"__name__": "anywhere"}
    exec(script.read_text(), names)
    return "\n".join([*names["PROLOGUE"], 'printf "%s\\n" "$HPCDP_SCRATCH" "$NUMBA_CACHE_DIR"'])


PLANTS = ("mkdir -m 777 {0}", "ln -s {1} {0}", "touch {0}", "mkdir -m 700 {0}")


@pytest.mark.parametrize("plant", ["true", *PLANTS])
@pytest.mark.parametrize("script", [worker_script, allocation_script, script_for_any_batch_system])
def test_a_job_loads_nothing_from_a_folder_that_a_stranger_planted(
    script: Callable[[Path], str], plant: str, shared: Path, root: list[str]
) -> None:
    his, names = shared / "his", [shared / f"hpcdp-{os.getuid()}", shared / f"hpcdp-numba-{os.getuid()}"]
    assert as_stranger(root, "mkdir", "-m", "777", his) == 0
    for name in names:
        assert as_stranger(root, "sh", "-c", plant.format(name, his)) == 0
    found = []
    for _ in range(2):
        environment = {**os.environ, "SHARED": str(shared), "TMPDIR": str(shared)}
        done = subprocess.run(
            ["bash", "-c", script(shared)], env=environment, capture_output=True, text=True, timeout=60, check=True
        )
        found.append([Path(line) for line in done.stdout.splitlines()])
    (folder, cache), again = found
    with suppress(FileExistsError, PermissionError):
        cache.mkdir()  # as numba does
    assert as_stranger(root, "touch", cache / "kernel.nbi") != 0
    assert cache == folder / "numba"
    assert folder.is_dir()
    assert not folder.is_symlink()
    assert (folder.stat().st_uid, stat.S_IMODE(folder.stat().st_mode)) == (os.getuid(), 0o700)
    assert as_stranger(root, "mv", folder, shared / "taken") != 0
    assert (folder == names[0]) == (plant == "true")
    assert ([folder, cache] == again) == (plant == "true"), "its own is used again, and one by chance never"


@pytest.mark.promise
@pytest.mark.slow
def test_a_stranger_gets_into_no_process_of_a_local_run(
    tmp_path: Path, root: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It listens nowhere, and its own scheduler with workers, which a dashboard needs, to nobody else.

    Beside it runs the fault planted: Dask as it comes, as runs used it; there each kind of attempt gets something.
    """
    study, public = write_study(tmp_path, HELD, call="own:held"), tmp_path / "public"
    public.mkdir()
    public.chmod(0o1777)
    monkeypatch.setenv("TMPDIR", str(public))
    here = os.getpid()
    before = listening(of_run(here))  # other tests' schedulers in this process and below it too
    with (
        LocalCluster(1, 1, processes=False, protocol="tcp://", dashboard_address="127.0.0.1:0"),
        started("run", study, "--store", tmp_path / "s.zarr", "--workers", 2, folder=tmp_path) as process,
        ExitStack() as opened,
    ):
        plain = set(listening([here])) - set(before)
        wait_until(lambda: any(tmp_path.glob("draws-*")), "a worker draws")
        assert listening(of_run(process.pid)) == {}
        place = opened.enter_context(open_local(2))
        place.client.wait_for_workers(1)
        pids = of_run(here)
        ports = {port: host for port, host in listening(pids).items() if port not in {*plain, *before}}
        got = tried(root, [*ports, *plain], pids, [tmp_path])
        (tmp_path / "go").touch()
        _, error = process.communicate(timeout=120)
        assert process.returncode == 0, error
    faults = {name: got.pop(name) for name in list(got) if name.partition(": ")[0] in map(str, plain)}
    print(f"of ports {sorted(ports)} the stranger got {got}; of plain ones {faults}")
    assert got == {}
    assert len(ports) == 2
    assert set(ports.values()) == {"127.0.0.1"}
    assert {name.partition(": ")[2] for name in faults} == {"a client", "identity", "code", "HTTP", "greeting"}
    assert f"ran as user {os.getuid()}" in faults.values()


@pytest.mark.slow
@pytest.mark.parametrize("is_plain", [True, False], ids=["tcp", "tls"])
def test_a_scheduler_without_tls_is_warned_of(is_plain: bool, tmp_path: Path) -> None:
    certificate = Certificate.create(tmp_path / "key")
    own = {} if is_plain else {"security": certificate.security()}
    tls = {name[5:].lower().replace("__", "."): value for name, value in certificate.environment().items()}
    study = write_study(tmp_path, databases=[[0.0, 1.0]], rows=[0], train=500, test=500)
    with (
        dask.config.set({} if is_plain else tls),
        LocalCluster(
            1, 1, processes=False, protocol="tcp://" if is_plain else "tls://", dashboard_address=None, **own
        ) as one,
    ):
        (tmp_path / "scheduler.json").write_text(json.dumps(one.scheduler.identity(), default=str))
        for where in (one.scheduler_address, tmp_path / "scheduler.json"):
            done = call("run", study, "--store", tmp_path / f"{Path(where).suffix}.zarr", "--cluster", where)
            words = f"warning: the scheduler at {where} has no TLS: who reaches it can run code as you (hpcdp certificate)\n"
            assert done.stderr.count("TLS") == done.stderr.count(words) == is_plain


@pytest.mark.slow
def test_a_local_run_serves_a_dashboard_where_it_was_asked_for(tmp_path: Path) -> None:
    """On loopback only, and `status` tells the way there."""
    study, store = write_study(tmp_path, HELD, call="own:held"), tmp_path / "s.zarr"
    with started("run", study, "--store", store, "--workers", 1, "--dashboard", folder=tmp_path) as process:
        wait_until(lambda: any(tmp_path.glob("draws-*")), "the worker draws")
        wait_until(lambda: "  dashboard  " in call("status", store).stdout, "a heartbeat that tells of it")
        (line,) = [line for line in call("status", store).stdout.splitlines() if "  dashboard  " in line]
        address = line.rpartition(" ")[2]
        port = int(address.rpartition(":")[2])
        assert line.split()[1:5] == [
            "ssh",
            "-L",
            f"{port}:127.0.0.1:{port}",
            f"{getpass.getuser()}@{socket.gethostname()},",
        ]
        with urlopen(f"{address}/status", timeout=60) as answer:
            assert answer.status == 200
        assert listening(of_run(process.pid))[port] == "127.0.0.1"
        (tmp_path / "go").touch()
        _, error = process.communicate(timeout=120)
        assert process.returncode == 0, error
