"""Real libraries, each installed once into a virtual environment of its own below the folder for temporary files."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

OPENDP = ["opendp==0.16.0"]
NBCLIENT = ["nbclient==0.10.2", "ipykernel==6.29.5"]
DP_ACCOUNTING = ["dp-accounting==0.6.0"]
DIFFPRIVLIB = ["diffprivlib==0.6.6", "scikit-learn<1.6"]


def environment_with(packages: Sequence[str]) -> Path:
    """A virtual environment of this Python that holds these packages; it stays for the next session.

    Skips where no package can be installed, and fails instead where HPCDP_REQUIRE_LIBRARIES is 1.
    """
    key = hashlib.sha256("\n".join([sys.executable, sys.version, *packages]).encode()).hexdigest()[:12]
    root = Path(tempfile.gettempdir()) / f"hpcdp-libraries-{os.getuid()}"
    root.mkdir(mode=0o700, exist_ok=True)
    folder, stamp = root / key, root / key / "installed"
    with (root / f"{key}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stamp.exists():
            wrong = _install(folder, packages)
            if wrong and os.environ.get("HPCDP_REQUIRE_LIBRARIES") == "1":
                pytest.fail(f"{wrong}, and HPCDP_REQUIRE_LIBRARIES is 1")
            if wrong:
                pytest.skip(wrong)
            stamp.touch()
    return folder


def _install(folder: Path, packages: Sequence[str]) -> str:
    """Make the environment anew; what went wrong, or nothing."""
    python, uv = str(folder / "bin" / "python"), shutil.which("uv")
    ways = [
        (
            [sys.executable, "-m", "venv"],
            [python, "-m", "pip", "install", "-q", "--no-compile", "--only-binary", ":all:"],
        )
    ]
    if uv is not None:
        make = [uv, "venv", "-q", "--python", sys.executable]
        ways.insert(0, (make, [uv, "pip", "install", "-q", "--only-binary", ":all:", "--python", python]))
    said = ""
    for make, install in ways:
        shutil.rmtree(folder, ignore_errors=True)
        for command in ([*make, str(folder)], [*install, *packages]):
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
            if done.returncode:
                said = (done.stderr or done.stdout).strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
                break
        else:
            return ""
    return f"cannot install {', '.join(packages)}: {said[0]}"


@pytest.fixture(scope="session", name="opendp")
def opendp_fixture() -> Path:
    """The folder from which OpenDP is imported, by hpcdp's own Python."""
    (found,) = environment_with(OPENDP).glob("lib/python*/site-packages")
    return found


@pytest.fixture(scope="session", name="dp_accounting")
def dp_accounting_fixture() -> Path:
    """The folder from which dp_accounting is imported, by hpcdp's own Python."""
    (found,) = environment_with(DP_ACCOUNTING).glob("lib/python*/site-packages")
    return found


@pytest.fixture(scope="session", name="diffprivlib")
def diffprivlib_fixture() -> Path:
    """The Python of an environment that holds diffprivlib beside an old scikit-learn."""
    return environment_with(DIFFPRIVLIB) / "bin" / "python"


@pytest.fixture(scope="session", name="nbclient")
def nbclient_fixture() -> Path:
    """The Python of an environment that runs notebooks."""
    return environment_with(NBCLIENT) / "bin" / "python"
