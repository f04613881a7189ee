"""What a new user asks for first: `hpcdp init`, `completion`; and where hpcdp refuses to run."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib.resources import files
from pathlib import Path

import pytest
from commands import LONG, call, one_message, python

from hpcdp.cli.starting import KINDS, MEANT, SHELLS
from hpcdp.study.claims import parse_claim
from hpcdp.study.file import Study

TEMPLATE = Path(__file__).parents[2] / "slurm" / "template.toml"
WARM = 15.0  # seconds of one processor


def started(folder: Path, kind: str) -> list[str]:
    """What `init` prints; the command that it names last, in words."""
    *_, last = call("init", kind, "--folder", folder).stdout.splitlines()
    return re.fullmatch(r"next: cd (\S+) && hpcdp (.+)", last)[2].split()


def processor_seconds(command: list[str], folder: Path) -> float:
    """Of a command and all that it started, which must end well."""
    before = os.times()
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=LONG, check=False)
    after = os.times()
    assert done.returncode == 0, done.stderr
    return after.children_user + after.children_system - before.children_user - before.children_system


def test_the_help_says_what_each_start_is() -> None:
    said = " ".join(call("init", "--help").stdout.split())
    assert MEANT.keys() == KINDS.keys()
    assert all(f"{kind} ({words})" in said for kind, words in MEANT.items())


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_every_start_runs_warm_in_seconds_and_certifies_no_more_than_is_true(kind: str, tmp_path: Path) -> None:
    words = started(tmp_path, kind)
    study = Study.from_toml(tmp_path / words[-1])
    assert {path.name for path in tmp_path.iterdir()} == set(KINDS[kind][1])
    command = [sys.executable, "-m", "hpcdp", *words]
    store = tmp_path / "runs" / f"{study.name}.zarr"
    if (seconds := processor_seconds(command, tmp_path)) > WARM:  # kernels may not have been compiled
        shutil.rmtree(store)
        seconds = processor_seconds(command, tmp_path)
    assert seconds < WARM
    claim = parse_claim(study.study.claim, tmp_path)
    shown = json.loads(call("show", store, "--format", "json").stdout)
    assert shown["complete"]
    lower = {row["epsilon"]: row["lower"] for row in shown["spectrum"]}
    assert lower[0.0] > 0.5 * claim.delta(0.0)
    if kind == "table":  # three counts fall together, so that at ε = 1 the largest one tells more than the claim allows
        assert lower[1.0] > claim.delta(1.0)
    else:  # the claim is the exact curve of these pairs; all bounds hold together with confidence 95 %, at this seed
        assert all(bound <= claim.delta(epsilon) for epsilon, bound in lower.items())


def test_a_start_overwrites_nothing(tmp_path: Path) -> None:
    call("init", "table", "--folder", tmp_path)
    study = tmp_path / "table.toml"
    study.write_text("mine")
    (tmp_path / "people.csv").unlink()
    done = call("init", "table", "--folder", tmp_path, code=2)
    assert "table.toml: there already" in one_message(done)
    assert study.read_text() == "mine"
    assert not (tmp_path / "people.csv").exists()
    study.unlink()
    study.symlink_to("nowhere.toml")  # through which nothing is written
    call("init", "table", "--folder", tmp_path, code=2)
    assert not (tmp_path / "nowhere.toml").exists()
    study.unlink()
    said = call("init", "table", "--folder", tmp_path).stdout
    assert "largest_count.py  the mechanism, a Python function (exists already" in said
    assert tomllib.loads(study.read_text())["study"]["name"] == "table"
    assert "a file" in one_message(call("init", "--folder", study, code=2))


def test_an_unknown_start_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    call("init", "functon", "--folder", tmp_path / "new", code=2)
    assert not (tmp_path / "new").exists()


def test_the_profile_that_is_shipped_is_the_template(tmp_path: Path) -> None:
    """One file: the clone's is a link to what the package holds."""
    started(tmp_path, "slurm")
    assert TEMPLATE.is_symlink()
    assert TEMPLATE.resolve() == Path(str(files("hpcdp.cli"))) / "templates" / "site.toml"
    assert (tmp_path / "site.toml").read_bytes() == TEMPLATE.read_bytes()
    planned = call("plan", tmp_path / "slurm.toml", "--profile", tmp_path / "site.toml")
    assert "node-hours" in planned.stdout


COMPLETED = [
    ("in", {"init"}),
    ("init ", set(KINDS)),
    ("run --al", {"--allow-changed-code"}),
    ("run stu", {"study.toml"}),
    ("show s.zarr --format ", {"table", "json", "csv"}),
    ("completion ", set(SHELLS)),
]
ASK = {
    "bash": 'source ./script; COMP_WORDS=(hpcdp $LINE); [ "${LINE% }" = "$LINE" ] || COMP_WORDS+=("")\n'
    "COMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 ))\n"
    '_shtab_hpcdp hpcdp "${COMP_WORDS[COMP_CWORD]}" ""; printf "%s\\n" "${COMPREPLY[@]}"',
    "fish": 'source ./script; complete -C "hpcdp $LINE"',
}


@pytest.mark.parametrize("line, words", COMPLETED)
@pytest.mark.parametrize("shell", ASK)
def test_shells_complete_what_the_parser_accepts(shell: str, line: str, words: set[str], tmp_path: Path) -> None:
    (tmp_path / "script").write_text(completion(shell))
    (tmp_path / "study.toml").touch()
    env = os.environ | {"LINE": line, "HOME": str(tmp_path)}
    words_of = [shell, "-c", ASK[shell]]
    done = subprocess.run(words_of, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert {found.partition("\t")[0] for found in done.stdout.split("\n")} - {""} == words, done.stderr


def completion(shell: str) -> str:
    """The shell's script; a test of a shell that is not installed is skipped."""
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} here")
    return call("completion", shell).stdout


def test_windows_is_refused_in_one_sentence(tmp_path: Path) -> None:
    windows = "import sys; sys.platform = 'win32'"
    done = python(tmp_path, "-c", f"{windows}; import hpcdp.__main__; sys.exit(hpcdp.__main__.main())")
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert "WSL" in line
    done = python(tmp_path, "-c", f"{windows}; from hpcdp import run")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == f"ImportError: {line}"
