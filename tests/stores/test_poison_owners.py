"""Stores of other users: their code is run, and their pickles are read, only when who runs it says so."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from commands import call, write_study
from poison import (  # noqa: F401  # fixtures
    CLAIM,
    canary_fixture,
    changed_study,
    check,
    clean_fixture,
    commands,
    record,
    run,
    store_fixture,
    whole_fixture,
)

from hpcdp import Study
from hpcdp import run as hpcdp_run
from hpcdp.engine.driver import store_problem
from hpcdp.errors import StudyError
from hpcdp.store.layout import Layout
from hpcdp.store.records import read_json
from hpcdp.study.problem import resolve
from hpcdp.study.trust import refuse_foreign_code


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a store to another user")
def test_resume_of_another_users_store(whole: Path, store: Path, scheduler: str) -> None:
    """What would run is named, and nothing runs; with --trust-code, and for the owner, the run goes on."""
    log = whole / "calls.log"
    place, before = ("--cluster", scheduler), log.read_bytes()
    for path in (store, store / "study" / "study-000001.json"):
        owner = path.stat().st_uid
        os.chown(path, 54321, -1)
        found = call("resume", store, *place, code=2)
        assert found.stdout == ""
        (line,) = found.stderr.splitlines()
        assert f"{store} belongs to user 54321, and its study names code" in line
        assert f"mechanism.call = own:noisy from {whole / 'own.py'}" in line
        assert "--trust-code" in line
        assert log.read_bytes() == before
        os.chown(path, owner, -1)
    call("resume", store, *place)
    assert log.read_bytes() != before
    os.chown(store, 54321, -1)
    call("resume", store, *place, "--trust-code")
    record(  # a built-in is no code of the study's
        store / "study" / "study-000001.json",
        changed_study(mechanism={"call": "laplace", "parameters": {"epsilon": 1.0}}),
    )
    assert "changed" in call("resume", store, *place, code=2).stderr


PICKLED = """
[study]
name = "pickled"
seed = 1
[mechanism]
call = "laplace"
parameters = { epsilon = 1.0 }
[pairs]
given = [{ d = [0.0], d_prime = [1.0] }]
[estimate]
loss = "learned"
parameters = { classifier = "gradient-boosting" }
train = 100
test = 100
epsilons = [0.0]
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a store to another user")
@pytest.mark.parametrize("theirs", [".", "study", "counters/key/pickle", "pilots/key"])
def test_pickles_in_another_users_store(tmp_path: Path, theirs: str) -> None:
    """A study of built-ins alone, whose models are pickles, is refused before anything is read, wherever another user wrote."""
    (tmp_path / "own.toml").write_text(PICKLED)
    (study, _), store = resolve(Study.from_toml(tmp_path / "own.toml")), tmp_path / "s.zarr"
    store_problem(study, store)
    for name in ("counters/key/pickle", "pilots/key"):
        (store / name).mkdir(parents=True)
    refuse_foreign_code(Layout(store))
    os.chown(store / theirs, 54321, -1)
    for given in (None, study.study):
        with pytest.raises(StudyError, match=r"belongs to user 54321.*learned, whose stored models.* are pickles"):
            refuse_foreign_code(Layout(store), given)
    assert "--trust-code" in call("resume", store, code=2).stderr


def test_commands_that_read_know_no_pickles(store: Path) -> None:
    """Whatever lies in a store, what would unpickle it is not even imported."""
    code = (
        "import json, sys; from hpcdp.cli.command import main; codes = [main(c) for c in json.loads(sys.argv[1])];"
        "sys.exit(any(codes) or 'hpcdp.losses.learned._pickled' in sys.modules)"
    )
    some = [commands(store)[name] for name in ("json", "accuracy", "verify", "status")]
    subprocess.run([sys.executable, "-c", code, json.dumps(some)], check=True, stdout=subprocess.DEVNULL)


def _prepared(tmp_path: Path, canary: Path) -> tuple[Path, Path]:
    """A study of one's own, and a store that somebody else made of an equal one beside other code of the same names."""
    stranger, own = tmp_path / "stranger", tmp_path / "mine"
    stranger.mkdir()
    own.mkdir()
    for folder in (stranger, own):
        write_study(folder, databases=[[0.0, 1.0]], train=20, test=20, chunk=20)
    store_problem(resolve(Study.from_toml(stranger / "study.toml"))[0], tmp_path / "s.zarr")
    code = (stranger / "own.py").read_text()
    (stranger / "own.py").write_text(f"open({str(canary)!r}, 'w')\n{code}")
    return own / "study.toml", tmp_path / "s.zarr"


def test_a_run_imports_from_the_folder_that_its_user_gave(tmp_path: Path, canary: Path, scheduler: str) -> None:
    """Even where all of the store is the user's, who may have copied it."""
    study, store = _prepared(tmp_path, canary)
    call("run", study, "--store", store, "--cluster", scheduler)
    body = read_json(max((store / "study").glob("study-*.json")))
    assert Path(body["folder"]) == study.parent
    assert (study.parent / "calls.log").is_file()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a store to another user")
@pytest.mark.parametrize("theirs", [".", "study", "study/study-000001.json", "records"])
def test_running_into_another_users_store(tmp_path: Path, canary: Path, theirs: str, scheduler: str) -> None:
    """`run`, `audit`, `submit` and Python alike: who owns a part of the store can say what its tasks import."""
    study, store = _prepared(tmp_path, canary)
    os.chown(store / theirs, 54321, -1)
    before = sorted(store.rglob("*"))
    for command in ("run", "audit"):
        extra = ("--claim", CLAIM) if command == "audit" else ()
        found = call(command, study, "--store", store, "--cluster", scheduler, *extra, code=2)
        line = found.stderr.splitlines()[-1]
        assert f"{store} belongs to user 54321, and its study names code" in line
        assert f"mechanism.call = own:noisy from {tmp_path / 'stranger' / 'own.py'}" in line
        assert "--trust-code" in line
    with pytest.raises(StudyError, match="belongs to user 54321"):
        hpcdp_run(study, store, cluster=scheduler)
    with pytest.raises(StudyError, match="belongs to user 54321"):  # what submit does
        store_problem(resolve(Study.from_toml(study))[0], store)
    assert sorted(store.rglob("*")) == before
    call("run", study, "--store", store, "--cluster", scheduler, "--trust-code")
