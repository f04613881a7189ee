"""What `show`, `verify`, `status` and `run` print of a complete store fast is what they print slowly, and never of another."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from commands import call, rewrite, write_study
from poison import ESCAPE, FILES, check, run

from hpcdp.cli._unchanged import digest_inputs
from hpcdp.cli.command import main
from hpcdp.report import printed
from hpcdp.store import texts
from hpcdp.store.lease import acquire
from hpcdp.store.records import read_json
from hpcdp.store.root import open_latest
from hpcdp.store.texts import read_texts, write_texts

BUILT_IN: dict[str, Any] = {
    "call": "laplace",
    "parameters": {"epsilon": 1.0},
    "pairs": "given = [ { d = [0.0], d_prime = [1.0] } ]",
    "train": 4000,
    "test": 4000,
    "epsilons": [0.0, 0.5, 1.0, 2.0],
    "claim": "laplace(epsilon=0.3)",
}
PURE = "\n[pure]\nwithin = [[-4.0, 4.0]]\n"
RISK = """
[study]
name = "s"
seed = 11

[at_risk]
query = "own:mean"
population = { call = "own:uniform" }
rows = 30
pairs = 100
scale = 0.02
cover = [0.5, 0.9]
"""
QUERY = "def mean(database):\n    return database.mean()\n\n\ndef uniform(size, rng):\n    return rng.random(size)\n"
Complete = Callable[[str], Path]
STUDIES = ("cells", "points", "pure", "histogram", "risk")
SHOW = [["show"], ["show", "--format", "json"], ["show", "--format", "csv"]]
VERIFY = [["verify"], ["verify", "--format", "json"]]


def made(folder: Path, kind: str) -> Path:
    """A complete store of a study of this kind, beside the study."""
    own = {"etas": [] if kind in ("histogram", "pure") else [0.5, 1.0]}
    if kind == "histogram":
        bounded = {"call": "truncated", "parameters": {"noise": "laplace", "scale": 1.0, "lower": 0.0, "upper": 1.0}}
        own |= {"loss": "histogram"} | bounded
    study = write_study(folder, QUERY, **{**BUILT_IN, **own})
    if kind == "histogram":
        study.write_text(study.read_text() + "parameters = { range = [0, 1], lipschitz = 12 }\n")
    if kind == "pure":
        study.write_text(study.read_text().replace("claim", "# claim") + PURE)
    if kind == "risk":
        study.write_text(RISK)
    store = folder / "s.zarr"
    call("risk" if kind == "risk" else "run", study, "--store", store, "--workers", "0")
    return store


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a study of a kind, with its complete store."""
    return cache(lambda kind: made(tmp_path_factory.mktemp("complete"), kind).parent)


@pytest.fixture
def complete(folders: Callable[[str], Path], tmp_path: Path) -> Complete:
    """A copy of it in this test's folder, with its times; returns the store."""
    return lambda kind: Path(shutil.copytree(folders(kind), tmp_path, dirs_exist_ok=True)) / "s.zarr"


@pytest.mark.parametrize("kind", STUDIES)
def test_what_is_shown_fast_is_what_is_shown(kind: str, complete: Complete, tmp_path: Path) -> None:
    store = complete(kind)
    kept = store / "records" / "texts.json"
    whole = kept.read_bytes()
    commands = [*SHOW, ["status"], *(VERIFY if kind != "risk" else [])]
    fast = [run([words[0], str(store), *words[1:]]) for words in commands]
    kept.unlink()
    slow = [run([words[0], str(store), *words[1:]]) for words in commands]
    assert fast == slow
    assert all(code in (0, 2, 3) for code, _, _ in slow)
    elsewhere = store.rename(tmp_path / "t u.zarr")  # what is kept names no place
    kept = elsewhere / "records" / "texts.json"
    kept.write_bytes(whole)
    there = [run([words[0], str(elsewhere), *words[1:]])[1] for words in commands]
    assert there == [out.replace("/s.zarr", "/t u.zarr") for _, out, _ in slow]


CLAIMS = (
    "dp(epsilon=0.2)",
    "dp(epsilon=3, delta=1e-2)",
    "gaussian(mu=2)",
    "gaussian(epsilon=2, delta=1e-2)",
    "laplace(epsilon=0.3)",
)


@pytest.mark.parametrize("kind", ["cells", "points", "pure", "histogram"])
def test_claims_that_are_given_are_judged_the_same_by_what_is_kept(kind: str, complete: Complete) -> None:
    store = complete(kind)
    claims = [*CLAIMS, "dp(epsilon=1)", "renyi(order=2, epsilon=9)", "dp(epsilon=2)*gaussian(mu=0.5)"]
    commands = [
        ["verify", str(store), "--claim", claim, *form] for claim in claims for form in ([], ["--format", "json"])
    ]
    commands.append(["verify", str(store), "--claim", CLAIMS[0], "--claim", CLAIMS[1]])
    fast = [run(words) for words in commands]
    (store / "records" / "texts.json").unlink()
    assert fast == [run(words) for words in commands]
    assert {code for code, _, _ in fast} <= ({0, 3} if kind in ("cells", "points") else {0, 2, 3})


HEAVY = ("numpy", "zarr", "scipy", "numba", "pydantic", "dask", "distributed", "xarray", "matplotlib")
KERNELS = ("zarr", "numba", "dask", "distributed", "xarray", "matplotlib", "psutil")
DRAWS = ("hpcdp.study.problem", "numpy.random")


def loaded(commands: list[list[str]], folder: Path) -> list[tuple[set[str], int]]:
    """Of each of the commands of one process: what was loaded at its end of all that is looked for, and its exit code."""
    program = (
        "import json, sys; from hpcdp.cli.command import main\n"
        "for words in json.loads(sys.argv[1]):\n    code = main(words)\n"
        f"    print('loaded', *[name for name in {[*HEAVY, *KERNELS, *DRAWS]} if name in sys.modules], code, file=sys.stderr)"
    )
    command = [sys.executable, "-c", program, json.dumps(commands)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True, cwd=folder)
    said = [line.split()[1:] for line in done.stderr.splitlines() if line.startswith("loaded ")]
    assert len(said) == len(commands)
    return [({*names}, int(code)) for *names, code in said]


@pytest.mark.parametrize("kind", ["cells", "pure"])
def test_a_claim_that_is_separable_is_judged_without_kernels(kind: str, complete: Complete) -> None:
    store = complete(kind)
    claims = sorted(CLAIMS, key=lambda claim: claim != BUILT_IN["claim"])  # the study's own first
    commands = [["verify", str(store), "--claim", claim] for claim in claims]
    unwanted = {*KERNELS, *(DRAWS if kind == "cells" else ())}
    for claim, (names, _) in zip(claims, loaded(commands, store.parent), strict=True):
        is_own = claim == BUILT_IN["claim"] and kind == "cells"
        assert not names & (unwanted | {*HEAVY} if is_own else unwanted), claim
    (store / "records" / "texts.json").unlink()
    ((names, _),) = loaded(commands[-1:], store.parent)
    assert kind == "pure" or names & {"numba", "numpy"}, "this test would see it"


def test_limits_of_other_results_are_not_taken(complete: Complete) -> None:
    store = complete("cells")
    words = ["verify", str(store), "--claim", "dp(epsilon=1)"]
    before = run(words)
    kept = store / "records" / "texts.json"
    body = read_json(kept)
    limits = json.loads(body["texts"]["limits"])
    assert any(limits["limits"]), "some are not resolved"

    def told(changed: Any) -> Any:
        text = changed if isinstance(changed, str) else json.dumps(changed)
        rewrite(kept, {**body, "texts": {**body["texts"], "limits": text}})
        return run(words)

    lie = [None if limit is None else 0.5 for limit in limits["limits"]]
    assert told({**limits, "limits": lie}) != before, "this test would see it"
    wrong = [{"of": "0", "limits": lie}, {**limits, "limits": lie[1:]}, {**limits, "limits": 7}, {}, 7, "[", ""]
    wrong += [{**limits, "limits": [0.5] * len(lie)}, {**limits, "limits": ["0.5"] * len(lie)}]
    assert all(told(one) == before for one in wrong)


def test_nothing_heavy_is_imported(tmp_path: Path) -> None:
    store = made(tmp_path, "cells")  # no copy, which `run` looks through
    commands = [[words[0], str(store), *words[1:]] for words in (*SHOW, *VERIFY, ["status"])]
    commands.append(["run", "study.toml", "--store", "s.zarr"])
    for words, (names, code) in zip(commands, loaded(commands, store.parent), strict=True):
        assert not names & {*HEAVY}, words
        assert code == (3 if words[0] == "verify" else 0)
    (store / "records" / "texts.json").unlink()
    for words in commands[::3]:
        assert "numpy" in loaded([words], store.parent)[0][0], "this test would see it"


def test_of_many_cells_what_is_short_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(printed, "_MOST_CELLS", 7)  # of 8
    store = made(tmp_path, "cells")
    kept = read_texts(store)
    assert {"table", "status", "verify", "limits"} <= kept.keys(), "though JSON and CSV are long"
    assert not {"json", "csv"} & kept.keys()
    fast = [run([*words, str(store)])[1] for words in (*SHOW, ["status"])]
    assert fast[0] == kept["table"] + "\n"
    (store / "records" / "texts.json").unlink()
    assert fast == [run([*words, str(store)])[1] for words in (*SHOW, ["status"])]


def test_texts_of_something_else_are_not_shown(
    complete: Complete, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = complete("cells")
    kept = store / "records" / "texts.json"
    body = read_json(kept)
    rewrite(kept, {**body, "texts": {**body["texts"], "table": "a lie"}})
    assert run(["show", str(store)])[1] == "a lie\n", "this test would see it"
    lie = kept.read_bytes()
    again = Path(shutil.copytree(store, tmp_path / "again.zarr"))

    def shown() -> str:
        kept.write_bytes(lie)
        return run(["show", str(store)])[1]

    grown = write_study(tmp_path, QUERY, **{**BUILT_IN, "test": 5000})
    call("run", grown, "--store", store, "--workers", "0")
    assert "a lie" not in shown(), "the study and its results are others"
    assert run(["show", str(again)])[1] == "a lie\n", "the same study and results"
    monkeypatch.setattr(texts, "_PACKAGE", tmp_path)
    assert "a lie" not in run(["show", str(again)])[1], "another hpcdp"
    monkeypatch.undo()
    head = again / "records" / "results.json"
    rewrite(head, {**read_json(head), "bounds": 1})
    assert "a lie" not in run(["show", str(again)])[1], "bounds of another version"


@pytest.mark.parametrize("poison", FILES)
def test_texts_that_a_stranger_wrote(poison: str, complete: Complete) -> None:
    store = complete("cells")
    before = run(["show", str(store)])
    FILES[poison](store / "records" / "texts.json")
    assert run(["show", str(store)]) == before


@pytest.mark.parametrize("texts", [ESCAPE, [1], {"table": 1}, {"table": ESCAPE}, {"verify table": "", "verify": 7}])
def test_texts_with_what_a_terminal_would_obey(texts: Any, complete: Complete) -> None:
    store = complete("cells")
    kept = store / "records" / "texts.json"
    rewrite(kept, {**read_json(kept), "texts": texts})
    for words in (["show", str(store)], ["verify", str(store)], ["status", str(store)]):
        found = run(words)
        check(*found)
        assert "unexpected" not in found[2]


def test_an_incomplete_store_and_one_that_cannot_be_written_have_none(complete: Complete, tmp_path: Path) -> None:
    store = complete("cells")
    (store / "records" / "texts.json").unlink()
    layout, version = open_latest(store)
    old = acquire(layout)
    old.release()
    lease = acquire(layout)
    write_texts(layout, version, {"table": "x" * (5 << 20)}, lease.generation)
    assert read_texts(store) == {}
    write_texts(layout, version, {"table": "y"}, old.generation)
    assert read_texts(store) == {}, "of a run that another has taken over from"
    write_texts(layout, version, {"table": "x"}, lease.generation)
    lease.release()
    assert read_texts(store) == {"table": "x"}
    assert read_texts(tmp_path / "no.zarr") == {}
    assert main(["show", str(store), "--accuracy"]) == 0, "other tables are made as ever"
    assert json.loads(run(["show", str(store), "--format", "json"])[1])["complete"]


FILE = {"pairs": 'relative = { file = "rows.csv", rows = [0], relation = "edit" }'}
SMALL = {key: value for key, value in BUILT_IN.items() if key != "claim"} | FILE


def file_study(folder: Path) -> tuple[Path, Path]:
    """A study of a built-in whose database is in a file beside it, and its complete store."""
    (folder / "rows.csv").write_text("1\n0\n")
    study = write_study(folder, QUERY, **SMALL)
    call("run", study, "--store", folder / "s.zarr", "--workers", "0")
    return study, folder / "s.zarr"


def asked(study: Path, store: Path, *words: str) -> tuple[str, bool]:
    """What `run` prints, and whether it looked at the store's samples."""
    before = sorted((store / "records" / "runs").iterdir())
    done = call("run", study, "--store", store, *words)
    return done.stdout, sorted((store / "records" / "runs").iterdir()) != before


def test_a_run_that_has_nothing_to_do(tmp_path: Path, scheduler: str) -> None:
    study, store = file_study(tmp_path)
    fast, ran = asked(study, store)
    assert not ran
    slow, ran = asked(study, store, "--recheck")
    assert ran
    assert fast == slow
    assert asked(study, store, "--workers", "0") == (slow, False)
    assert asked(study, store, "--no-plot") == (slow, False)
    for words in (["--workers", "1"], ["--cluster", scheduler], ["--plot"]):
        assert asked(study, store, *words)[1], words
    assert store.with_suffix(".png").is_file()


CHANGES: dict[str, tuple[str, str, str]] = {
    "the study": ("study.toml", "test = 4000", "test = 4100"),
    "a comment": ("study.toml", "[mechanism]", "[mechanism] # as before"),
    "the databases": ("rows.csv", "0\n", "3\n"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_run_of_what_changed_is_a_run(change: str, tmp_path: Path) -> None:
    study, store = file_study(tmp_path)
    assert not asked(study, store)[1]
    name, old, new = CHANGES[change]
    path = tmp_path / name
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    assert asked(study, store)[1]
    assert not asked(study, store)[1], "then it is known again"


def test_a_link_to_a_study_is_followed(tmp_path: Path) -> None:
    """Its folder is where the file lies, not the link."""
    folder = tmp_path / "v1"
    folder.mkdir()
    file_study(folder)
    link, store = tmp_path / "study.toml", folder / "s.zarr"
    link.symlink_to(folder / "study.toml")
    (tmp_path / "rows.csv").write_text("1\n0\n")
    assert not asked(link, store)[1]
    (folder / "rows.csv").write_text("1\n3\n")
    assert asked(link, store)[1]


def test_time_tells_of_a_file_of_the_same_size(tmp_path: Path) -> None:
    study, store = file_study(tmp_path)
    (record,) = (store / "records" / "counts").glob("*.json")
    assert not asked(study, store)[1]
    os.utime(record, ns=(1, 1))
    assert asked(study, store)[1]


GONE = (
    "records/samples/*",
    "records/fits/*",
    "records/counts/*",
    "study/databases/*/zarr.json",
    "lower/c/**/*",
    "zarr.json",
)


@pytest.mark.parametrize("what", [*GONE, "audited since", "another store there"])
def test_a_run_looks_at_the_records(what: str, tmp_path: Path) -> None:
    study, store = file_study(tmp_path)
    if what == "audited since":
        call("audit", study, "--store", store, "--claim", "laplace(epsilon=1)", "--workers", "0", code=None)
    elif what == "another store there":
        other = write_study(tmp_path, QUERY, "t.toml", **{**SMALL, "seed": 7})
        shutil.rmtree(store)
        call("run", other, "--store", store, "--workers", "0")
        assert call("run", study, "--store", store, code=2).stdout == ""
        return
    else:
        path = next(path for path in sorted(store.glob(what)) if path.is_file())
        path.write_bytes(path.read_bytes()[:-1])
    assert asked(study, store)[1]


CODE = """
import numpy as np


def noisy(database, size, rng):
    return database.sum() + rng.laplace(size=size)


def rows():
    return [[1.0, 0.0]]


def both():
    return [([0.0], [1.0])]


def drawn(size, rng, *, values, index):
    found = rng.random((size, 2))
    found[:, index] = values
    return found
"""
PAIRS = FILE["pairs"]
UNTOLD = {
    "code draws": ('call = "laplace"\nparameters = { epsilon = 1.0 }', 'call = "own:noisy"\nparameters = {}'),
    "databases by code": (PAIRS, 'relative = { call = "own:rows", relation = "edit" }'),
    "pairs by code": (PAIRS, 'given = { call = "own:both" }'),
    "a claim in a file": ("seed = ", 'claim = "file (curve.csv)"\nseed = '),
    "a claim in a store": ("seed = ", 'claim = "store(s.zarr)"\nseed = '),
    "a loss by code": ('"knn"', '"own:Loss"'),
    "a target": ("train = 4000\ntest = 4000", "target = { se = 0.02 }"),
}


def known(text: str, folder: Path) -> bool:
    """Whether files tell all that a study comes from."""
    (folder / "study.toml").write_text(text)
    return digest_inputs(folder / "study.toml") is not None


def test_what_files_do_not_tell_is_never_taken_as_told(tmp_path: Path) -> None:
    study = write_study(tmp_path, CODE, **SMALL, loss="knn")
    (tmp_path / "rows.csv").write_text("1\n0\n")
    text = study.read_text()
    assert known(text, tmp_path)
    for which, (old, new) in UNTOLD.items():
        assert old in text, which
        assert known(text.replace(old, new), tmp_path) == ("claim" in which), which
    assert known(text.replace(PAIRS, 'given = { call = "hpcdp.patterns:statdp" }'), tmp_path)
    for call_of in ('"stored"', '"scores"', '{ command = ["a"] }'):
        assert not known(text.replace('"laplace"', call_of), tmp_path)
    assert not known(text.replace('call = "laplace"', 'call = "laplace"\nreproducible = false'), tmp_path)
    assert not known(text.replace(PAIRS, 'distributional = { call = "own:drawn", values = [0, 1] }'), tmp_path)
    assert not known(f"{text}\n[at_risk]\nrows = 3\n", tmp_path)
    digests = []
    for folder in ("a", "b"):  # the same files elsewhere
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "rows.csv").write_text("1\n0\n")
        assert known(text, tmp_path / folder)
        digests.append(digest_inputs(tmp_path / folder / "study.toml"))
    assert digests[0] != digests[1]


@pytest.mark.parametrize("which", ["code draws", "databases by code", "a claim in a file"])
def test_what_files_do_not_tell_is_asked(which: str, tmp_path: Path) -> None:
    (tmp_path / "curve.csv").write_text("epsilon,delta\n0.0,0.9\n2.0,0.5\n")
    study, store = file_study(tmp_path)
    (tmp_path / "own.py").write_text(CODE)
    study.write_text(study.read_text().replace(*UNTOLD[which]))
    shutil.rmtree(store)
    call("run", study, "--store", store, "--workers", "0")
    assert asked(study, store)[1]


def test_a_claim_in_a_file_is_read_anew(tmp_path: Path) -> None:
    curve = tmp_path / "curve.csv"
    curve.write_text("epsilon,delta\n0.0,0.9\n2.0,0.5\n")
    study, store = file_study(tmp_path)
    study.write_text(study.read_text().replace(*UNTOLD["a claim in a file"]))
    shutil.rmtree(store)
    call("run", study, "--store", store, "--workers", "0")
    assert call("verify", store).returncode == 0
    curve.write_text("epsilon,delta\n0.0,0.0001\n2.0,0.00001\n")
    assert "violat" in call("verify", store, code=3).stdout
    assert "violated" in call("show", store).stdout
    assert "violated" in call("run", study, "--store", store).stdout


def test_a_claim_that_cannot_be_judged_ends_no_run(tmp_path: Path) -> None:
    study = write_study(tmp_path, QUERY, **{**BUILT_IN, "etas": [], "claim": "gaussian(mu=1)"})
    text = study.read_text()
    study.write_text("\n".join(line for line in text.splitlines() if not line.startswith("epsilons")) + PURE)
    store = tmp_path / "s.zarr"
    done = call("run", study, "--store", store, "--workers", "0")
    assert done.stdout
    assert "ended early" not in call("status", store).stdout
    assert call("show", store).stdout in done.stdout
    assert "gaussian" in call("verify", store, code=2).stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
@pytest.mark.parametrize("theirs", [".", "records", "records/texts.json"])
def test_what_another_user_kept_is_no_run(theirs: str, tmp_path: Path) -> None:
    study, store = file_study(tmp_path)
    assert not asked(study, store)[1]
    kept = store / "records" / "texts.json"
    body = read_json(kept)
    rewrite(kept, {**body, "texts": {**body["texts"], "table": "a lie"}})
    assert "a lie" in asked(study, store)[0], "this test would see it"
    os.chown(store / theirs, 54321, -1)
    assert "a lie" not in call("show", store).stdout
    done = call("run", study, "--store", store, code=None)
    assert "a lie" not in done.stdout
    assert "plan of" in done.stderr
