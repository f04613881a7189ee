"""Files under every umask: nobody else can change what a run reads again."""

import os
import stat
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from commands import call, show, write_study
from cryptography import x509

from hpcdp.clusters.certificates import Certificate, security_in_memory
from hpcdp.clusters.scratch import private_folder


@pytest.fixture(name="mask", params=[0o000, 0o077], ids=lambda mask: f"{mask:03o}")
def mask_fixture(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def writable(folder: Path) -> list[str]:
    """What group or others can write below a folder, itself included."""
    found = [folder, *folder.rglob("*")]
    return [str(path) for path in found if not path.is_symlink() and path.stat().st_mode & 0o022]


def modes(folder: Path) -> set[int]:
    """All modes below a folder."""
    return {stat.S_IMODE(path.stat().st_mode) for path in folder.rglob("*")}


@pytest.mark.slow
def test_a_run_leaves_nothing_that_others_can_write(tmp_path: Path, mask: int) -> None:
    study, store = write_study(tmp_path, train=600, test=600), tmp_path / "s.zarr"
    call("run", study, "--store", store, "--workers", 1)
    assert len(list(store.rglob("*"))) > 30
    assert writable(store) == []
    assert modes(store) == ({0o600, 0o700} if mask == 0o077 else {0o644, 0o755})
    assert '"complete": true' in show(store)


def test_keys_and_their_folders_are_closed(tmp_path: Path, mask: int) -> None:
    call("certificate", tmp_path / "keys" / "one")
    assert writable(tmp_path / "keys") == []
    assert modes(tmp_path / "keys" / "one") == {0o600}


@pytest.mark.parametrize("given", [0o640, 0o604])
def test_a_key_that_others_could_read_is_none(tmp_path: Path, given: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a file system ignores modes."""
    opened = os.open
    monkeypatch.setattr(os, "open", lambda path, flags, *_: opened(path, flags, given))
    assert "others could read the run's TLS key" in call("certificate", tmp_path / "key", code=1).stderr
    assert not (tmp_path / "key").exists()


def test_the_private_folder(tmp_path: Path, mask: int, monkeypatch: pytest.MonkeyPatch) -> None:
    import dask

    monkeypatch.setitem(dask.config.config, "temporary-directory", str(tmp_path))  # tests' own clusters set it too
    folder = private_folder()
    assert folder == tmp_path / f"hpcdp-{os.getuid()}" == private_folder()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    for mode in (0o701, 0o702, 0o710, 0o720, None):
        folder.chmod(mode) if mode else (folder.rmdir(), folder.symlink_to(tmp_path))
        other = private_folder()
        assert other != folder
        assert stat.S_IMODE(other.stat().st_mode) == 0o700


def test_a_certificate_is_valid_on_a_node_whose_clock_is_behind(tmp_path: Path) -> None:
    made = Certificate.create(tmp_path / "key")
    text = str(security_in_memory().tls_ca_file)
    assert made.security().require_encryption
    assert security_in_memory().require_encryption
    for pem in (made.certificate.read_bytes(), text.encode()):
        found = x509.load_pem_x509_certificate(pem)
        assert found.not_valid_before_utc < datetime.now(UTC) - timedelta(hours=23)
        assert found.not_valid_after_utc > datetime.now(UTC) + timedelta(days=300)
