"""Small stores of earlier versions, which every later one opens: `python -m tests.support.stores` adds those of this version.

With a commit, `python -m tests.support.stores COMMIT`, it makes those of that commit's code, with the packages that are
installed. An archive holds a store, and what `show --format json` printed of it then.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "tests" / "earlier"

_HEAD = '[study]\nname = "{name}"\nseed = 7\n'
_LAPLACE = '[mechanism]\ncall = "laplace"\nparameters = {{ epsilon = 1.0 }}\n'
STUDIES = {
    "given": _HEAD
    + 'claim = "laplace(epsilon=1)"\n'
    + _LAPLACE
    + "[pairs]\ngiven = [{{ d = [0.0], d_prime = [1.0] }}]\n"
    + "[estimate]\ntrain = 400\ntest = 400\nchunk = 200\nepsilons = [0.0, 0.5, 1.0]\netas = [0.5, 2.0]\n",
    "relative": _HEAD
    + '[mechanism]\ncall = "bounded_sum"\nparameters = {{ lower = 0.0, upper = 1.0, epsilon = 1.0 }}\n'
    + "[pairs]\nrelative = {{ databases = [[0.2, 0.9, 0.9, 0.4]] }}\n"
    + '[estimate]\nloss = "knn"\ntrain = 300\ntest = 300\nchunk = 300\nkeep = "none"\nepsilons = [0.0, 1.0]\n',
    "pure": _HEAD
    + _LAPLACE
    + "[pairs]\ngiven = [{{ d = [0.0], d_prime = [1.0] }}]\n"
    + '[estimate]\nloss = "kde"\ntrain = 300\ntest = 300\nchunk = 300\nkeep = "none"\n[pure]\n',
}


def make(kind: str, source: Path, name: str) -> bool:
    """Write the archive of a kind of store that a source tree makes; False where its version knows no such study."""
    environment = {**os.environ, "PYTHONPATH": str(source)}
    with TemporaryDirectory(prefix="hpcdp-stores-") as folder:
        Path(folder, "study.toml").write_text(STUDIES[kind].format(name=kind))
        command = [sys.executable, "-m", "hpcdp"]
        made = [*command, "run", "study.toml", "--store", f"{kind}.zarr", "--workers", "1"]
        done = subprocess.run(made, cwd=folder, env=environment, capture_output=True, text=True)
        if done.returncode:
            print(f"{name}-{kind}: {done.stderr.strip().splitlines()[-1][:200]}")
            return False
        shown = [*command, "show", f"{kind}.zarr", "--format", "json"]
        text = subprocess.run(shown, cwd=folder, env=environment, capture_output=True, text=True, check=True).stdout
        with tarfile.open(FOLDER / f"{name}-{kind}.tar.xz", "w:xz", preset=9) as archive:
            archive.add(Path(folder, f"{kind}.zarr"), f"{kind}.zarr", filter=_nobody)
            info = tarfile.TarInfo("shown.json")
            info.size = len(text.encode())
            archive.addfile(info, io.BytesIO(text.encode()))
    print(f"{name}-{kind}: {(FOLDER / f'{name}-{kind}.tar.xz').stat().st_size:,} bytes")
    return True


def _nobody(info: tarfile.TarInfo) -> tarfile.TarInfo:
    """Without who made it; times stay, by which a store is known to be whole."""
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    return info


def main(commit: str | None) -> None:
    """Make every kind of store of this version, or of a commit's code."""
    FOLDER.mkdir(exist_ok=True)
    with TemporaryDirectory(prefix="hpcdp-source-") as folder:
        source, name = ROOT, ""
        if commit is not None:
            source = Path(folder)
            packed = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True, check=True).stdout
            with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
                archive.extractall(source, filter="data")
            name = "-" + subprocess.run(
                ["git", "rev-parse", "--short=7", commit], cwd=ROOT, capture_output=True, text=True, check=True
            ).stdout.strip()  # fmt: skip
        for line in (source / "hpcdp" / "__init__.py").read_text().splitlines():
            if line.startswith("__version__"):
                name = line.split('"')[1] + name
        for kind in STUDIES:
            make(kind, source, name)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
