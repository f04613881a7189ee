"""hpcdp as a user has it: built, installed where the source tree is not, and used in an empty folder.

`python -m tests.support.installed` does the first study of `hpcdp init` from a wheel, with those of this interpreter's packages;
--all does every study, from the wheel that a source distribution makes; --lowest and --python PYTHON install the packages
anew: the lowest versions that pyproject.toml declares, and those of the lock. It prints what each step took.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import time
import tomllib
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[2]
KINDS = ("function", "table", "program", "models", "slurm")
PIP = ("-m", "pip", "--disable-pip-version-check", "-q")


def main(arguments: Sequence[str]) -> None:
    """Do what the options say; SystemExit names the step that failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", action="store_true", help="every study of init, from the source distribution")
    parser.add_argument("--lowest", action="store_true", help="with the lowest versions that pyproject.toml declares")
    parser.add_argument("--python", help="another interpreter, with the packages of requirements.lock")
    options = parser.parse_args(arguments)
    with TemporaryDirectory(prefix="hpcdp-installed-") as name:
        folder = Path(name)
        wheel = build(folder, options.all)
        python = install(folder, wheel, options.python, options.lowest)
        for kind in KINDS if options.all else KINDS[:1]:
            use(folder, python, kind)
    print("installed: all steps done")


def step(what: str, *command: str | Path, folder: Path, environment: dict[str, str] | None = None) -> str:
    """What a command prints; says what it took in seconds of the clock and of processors."""
    start, before = time.monotonic(), os.times()
    done = subprocess.run(
        [*map(str, command)], cwd=folder, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    after = os.times()
    spent = sum(after[2:4]) - sum(before[2:4])
    if done.returncode:
        sys.exit(f"installed: {what}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    print(f"installed: {what}: {time.monotonic() - start:.1f} s, {spent:.1f} s of processors", flush=True)
    return done.stdout


def build(folder: Path, from_source: bool) -> Path:
    """A wheel, of a copy of what git knows, for what else lies about is in no release. from_source: by way of an sdist."""
    tree = folder / "tree"
    tree.mkdir()
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in names.split("\0"):
        if name and (ROOT / name).exists():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree / name, follow_symlinks=False)
    if from_source:
        code = "from setuptools.build_meta import build_sdist; build_sdist('..')"
        step("source distribution", sys.executable, "-c", code, folder=tree)
        (archive_of,) = folder.glob("hpcdp-*.tar.gz")
        shutil.unpack_archive(archive_of, folder / "source")  # tarfile's filters are in no Python before 3.11.4
        (tree,) = (folder / "source").iterdir()
    step("wheel", sys.executable, *PIP, "wheel", "--no-build-isolation", "--no-deps", "-w", folder, ".", folder=tree)
    (wheel,) = folder.glob("hpcdp-*.whl")
    return wheel


def install(folder: Path, wheel: Path, python: str | None, lowest: bool) -> Path:
    """The interpreter of an environment that holds the wheel; of the source tree it knows nothing."""
    place = folder / "environment"
    step("environment", python or sys.executable, "-m", "venv", "--without-pip", place, folder=folder)
    inside = place / "bin" / "python"
    into = (sys.executable, *PIP, "--python", inside, "install")
    if lowest:
        step("lowest packages", *into, "--only-binary", ":all:", "-r", lowest_packages(folder), folder=folder)
    elif python:
        step("packages", *into, "--require-hashes", "--no-compile", "-r", ROOT / "requirements.lock", folder=folder)
    else:  # those of this environment; its own link to the source tree is not followed from there
        own = step(
            "where packages go", inside, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", folder=folder
        )
        (Path(own.strip()) / "packages.pth").write_text(sysconfig.get_path("purelib") + "\n")
    step("install", *into, "--no-deps", "--no-index", wheel, folder=folder)
    found = step("import", inside, "-c", "import hpcdp; print(hpcdp.__file__)", folder=folder, environment=clean())
    assert Path(found.strip()).is_relative_to(place), f"{found} is not what was installed"
    return inside


def lowest_packages(folder: Path) -> Path:
    """A file of requirements: each package that pyproject.toml names at its lowest version."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = [re.sub(r">=", "==", line) for line in project["dependencies"]]
    assert all("==" in line for line in lines)
    (path := folder / "lowest.txt").write_text("".join(f"{line}\n" for line in lines))
    return path


def clean() -> dict[str, str]:
    """The environment of somebody who has no source tree."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


def use(folder: Path, python: Path, kind: str) -> None:
    """Write a study and run it, as `init` says; look at the result in each way there is."""
    empty = folder / kind
    empty.mkdir()

    def call(*words: str | Path) -> str:
        return step(
            f"hpcdp {' '.join(map(str, words))}", python.with_name("hpcdp"), *words, folder=empty, environment=clean()
        )

    *_, said = call("init", kind).splitlines()
    words = said.removeprefix("next: hpcdp ").split()
    call(*words)
    store = Path("runs") / f"{kind}.zarr"
    shown = json.loads(call("show", store, "--format", "json"))
    assert shown["complete"], shown
    assert shown["spectrum"][0]["lower"] > 0.2, shown["spectrum"]
    assert json.loads(call("schema"))["$defs"]
    assert "complete" in call("completion", "bash")
    if "report" in call("--help").split():
        call("report", store, "-o", "report.html")
        assert (empty / "report.html").stat().st_size > 0


if __name__ == "__main__":
    main(sys.argv[1:])
