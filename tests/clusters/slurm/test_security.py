"""Who may talk to a run's scheduler and workers, who may read its key, and what listens where."""

import ssl
import stat
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest
from commands import LONG, call, hold, release, started, wait_until, write_study
from disturbed import PAUSE, SETTINGS, set_pause
from journals import records
from throwaway import ThrowawaySlurm

from hpcdp.clusters.certificates import Certificate
from hpcdp.errors import StoreError

PROFILE = Path(__file__).parents[3] / "slurm" / "test.toml"

CLIENT = """
import sys
from distributed import Client
client = Client(sys.argv[1], timeout="10s")
print("workers:", sorted(str(w["name"]) for w in client.scheduler_info(n_workers=-1)["workers"].values()))
"""


@pytest.mark.slow
def test_who_gets_into_a_run(tmp_path: Path, clean_slurm: ThrowawaySlurm) -> None:
    """Looked at while it is held, with its first record; its key is gone when it has ended."""
    study, store = write_study(tmp_path, **SETTINGS), tmp_path / "s.zarr"
    set_pause(tmp_path, PAUSE)
    hold(tmp_path, store, 1)
    with started("run", study, "--store", store, "--cluster", PROFILE, folder=tmp_path) as process:
        wait_until(lambda: bool(records(store)), "a record")
        (key,) = (store / "jobs" / "keys").iterdir()
        check_only_its_certificate_is_let_in(address(store), Certificate(key), tmp_path)
        check_key_files_are_the_users_own(store, key)
        check_jobs_listen_on_the_profiles_interface_and_speak_tls_only(store, Certificate(key), clean_slurm, tmp_path)
        assert process.poll() is None, "the run went on all the time"
        release(tmp_path)
        _, said = process.communicate(timeout=LONG)
        assert process.returncode == 0, said
    assert list((store / "jobs" / "keys").iterdir()) == []


def address(store: Path) -> str:
    """Where the workers of a store were told to find the scheduler."""
    (word,) = [w for w in (store / "jobs" / "worker.sh").read_text().split() if w.startswith(("tls://", "tcp://"))][:1]
    return word


def connect(to: str, certificate: Certificate | None) -> subprocess.CompletedProcess[str]:
    """A client in a process of its own, with a certificate or with none."""
    environment = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "DASK_LOGGING__DISTRIBUTED": "error"}
    environment |= certificate.environment() if certificate else {}
    command = [sys.executable, "-W", "ignore", "-c", CLIENT, to]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=90, check=False)


def check_only_its_certificate_is_let_in(to: str, own: Certificate, tmp_path: Path) -> None:
    """As a client or as a worker."""
    assert to.startswith("tls://")
    other = Certificate.create(tmp_path / "another user's")
    command = [sys.executable, "-m", "distributed.cli.dask_worker", to, "--interface", "lo"]
    command += ["--death-timeout", "5", "--no-nanny", "--name", "intruder", "--protocol", "tls://"]
    environment = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", **other.environment()}
    done = subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert "Registered to" not in done.stderr
    allowed = connect(to, own)
    assert "workers: ['hpcdp-s-" in allowed.stdout, allowed.stderr
    assert "intruder" not in allowed.stdout
    for name, certificate, where in (
        ("without a certificate", None, to),
        ("without a certificate and without TLS", None, to.replace("tls://", "tcp://")),
        ("with a certificate of one's own", other, to),
    ):
        refused = connect(where, certificate)
        assert refused.returncode != 0, name
        assert "workers: " not in refused.stdout
        print(f"a client {name}: {refused.stderr.strip().splitlines()[-1][:150]}")
    parts = urlsplit(to)
    with pytest.raises(ssl.SSLError):  # the handshake itself, before a byte of Dask's protocol
        ssl.get_server_certificate((str(parts.hostname), int(parts.port or 0)), ca_certs=str(other.certificate))


def check_key_files_are_the_users_own(store: Path, folder: Path) -> None:
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    for path in folder.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "PRIVATE KEY" in Certificate(folder).key.read_text()
    for path in (store / "jobs").glob("*.sh"):
        assert "PRIVATE KEY" not in path.read_text(), "a script names files, it holds no secret"


def check_jobs_listen_on_the_profiles_interface_and_speak_tls_only(
    store: Path, own: Certificate, slurm: ThrowawaySlurm, tmp_path: Path
) -> None:
    """The interface is lo here. No web server, which asks nobody who he is."""
    assert "ssh -L" not in call("status", store).stdout
    jobs = [job for job in slurm.jobs() if job.state == "RUNNING"]
    assert jobs
    listening: dict[int, str] = {}
    for job in jobs:
        for process in slurm.processes(job.id):
            with suppress(psutil.NoSuchProcess):  # a helper of the worker may be gone by now
                links = [c for c in process.net_connections("tcp") if c.status == psutil.CONN_LISTEN]
                listening |= {c.laddr.port: c.laddr.ip for c in links}
    assert set(listening.values()) == {"127.0.0.1"}
    other = Certificate.create(tmp_path / "a third user's")
    for port in listening:
        with pytest.raises(ssl.SSLError):  # it speaks TLS, and this is not its own
            ssl.get_server_certificate(("127.0.0.1", port), ca_certs=str(other.certificate))
        assert ssl.get_server_certificate(("127.0.0.1", port), ca_certs=str(own.certificate))


def test_a_key_is_never_written_over(tmp_path: Path) -> None:
    Certificate.create(tmp_path / "key")
    with pytest.raises(StoreError, match="cannot keep the run's TLS key"):
        Certificate.create(tmp_path / "key")
    message = call("certificate", tmp_path / "key", code=2).stderr
    assert "one that does not exist yet" in message
    exports = call("certificate", tmp_path / "my key").stdout
    assert f"export DASK_DISTRIBUTED__COMM__TLS__CA_FILE='{tmp_path}/my key/certificate.pem'" in exports
