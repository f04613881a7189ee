"""An environment for each set of pinned packages, made once and kept."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path


class CannotInstall(Exception):
    """An environment cannot be made here, and why."""


def make_environment(requirements: Path, python: str, root: Path) -> Path:
    """The folder of an environment with these packages, hashes checked. Raises CannotInstall.

    python: such as "3.11", the version that the packages were pinned for.
    """
    interpreter = _interpreter(python)
    key = hashlib.sha256(python.encode() + requirements.read_bytes()).hexdigest()[:12]
    folder = root / key
    stamp = folder / "installed"
    if not stamp.exists():
        shutil.rmtree(folder, ignore_errors=True)
        _do([interpreter, "-m", "venv", str(folder)])
        install = ["-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps", "--require-hashes"]
        _do([str(folder / "bin" / "python"), *install, "-r", str(requirements)])
        stamp.touch()
    return folder


def _interpreter(python: str) -> str:
    """A Python of this version: the one that runs this, or one on the PATH that starts."""
    if python == f"{sys.version_info.major}.{sys.version_info.minor}":
        return sys.executable
    found = shutil.which(f"python{python}")
    if found is None or subprocess.run([found, "-c", ""], capture_output=True, check=False).returncode:
        raise CannotInstall(f"needs Python {python}, which is not on the PATH")
    return found


def _do(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        raise CannotInstall(f"cannot be installed: {last[0]}")


def pin(packages: list[str], python: str, file: Path, alone: bool) -> None:
    """Write the newest packages that fit, with hashes and without a registry's address; needs uv.

    alone: without what they depend on.
    """
    options = ["--generate-hashes", "--no-emit-index-url", "--no-annotate", "--no-header"]
    options += ["--no-deps"] if alone else ["--only-binary", ":all:"]
    command = ["uv", "pip", "compile", "-q", "--python-version", python, *options, "-o", str(file), "-"]
    subprocess.run(command, input="\n".join(packages), text=True, check=True)
