"""What `show` and `verify` print of a complete store fast is what they print slowly, and never of another."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from commands import call, write_study
from poison import ESCAPE, FILES, check, run

from hpcdp.cli.command import main
from hpcdp.store import texts
from hpcdp.store.records import read_json, write_json
from hpcdp.store.texts import read_text, write_texts

BUILT_IN: dict[str, Any] = {
    "call": "laplace",
    "parameters": {"epsilon": 1.0},
    "pairs": "given = [ { d = [0.0], d_prime = [1.0] } ]",
    "train": 4000,
    "test": 4000,
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
STUDIES = ("cells", "points", "pure", "histogram", "risk")
SHOW = [["show"], ["show", "--format", "json"], ["show", "--format", "csv"]]
VERIFY = [["verify"], ["verify", "--format", "json"]]


def complete(folder: Path, kind: str) -> Path:
    """A complete store of a study of this kind."""
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


@pytest.mark.parametrize("kind", STUDIES)
def test_what_is_shown_fast_is_what_is_shown(kind: str, tmp_path: Path) -> None:
    store = complete(tmp_path, kind)
    kept = store / "records" / "texts.json"
    whole = kept.read_bytes()
    commands = [*SHOW, *(VERIFY if kind != "risk" else [])]
    fast = [run([words[0], str(store), *words[1:]]) for words in commands]
    kept.unlink()
    slow = [run([words[0], str(store), *words[1:]]) for words in commands]
    assert fast == slow
    assert all(code in (0, 2, 3) for code, _, _ in slow)
    elsewhere = store.rename(tmp_path / "t u.zarr")  # what is printed names no place
    kept = elsewhere / "records" / "texts.json"
    kept.write_bytes(whole)
    assert [run([words[0], str(elsewhere), *words[1:]])[1] for words in commands] == [out for _, out, _ in slow]


HEAVY = ("numpy", "zarr", "scipy", "numba", "pydantic", "dask", "distributed", "xarray", "matplotlib")


@pytest.mark.parametrize("words", [*SHOW, *VERIFY], ids=" ".join)
def test_nothing_heavy_is_imported(words: list[str], tmp_path: Path) -> None:
    store = complete(tmp_path, "cells")
    program = (
        "import sys; from hpcdp.cli.command import main; code = main(sys.argv[1:]); "
        f"print([name for name in {HEAVY} if name in sys.modules], code, file=sys.stderr)"
    )
    command = [sys.executable, "-c", program, words[0], str(store), *words[1:]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert done.stderr == f"[] {3 if words[0] == 'verify' else 0}\n"
    (store / "records" / "texts.json").unlink()
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert "'numpy'" in done.stderr, "this test would see it"


def test_texts_of_something_else_are_not_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = complete(tmp_path, "cells")
    kept = store / "records" / "texts.json"
    body = read_json(kept)
    write_json(kept, {**body, "texts": {**body["texts"], "table": "a lie"}})
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
    write_json(head, {**read_json(head), "bounds": 1})
    assert "a lie" not in run(["show", str(again)])[1], "bounds of another version"


@pytest.mark.parametrize("poison", FILES)
def test_texts_that_a_stranger_wrote(poison: str, tmp_path: Path) -> None:
    store = complete(tmp_path, "cells")
    before = run(["show", str(store)])
    FILES[poison](store / "records" / "texts.json")
    assert run(["show", str(store)]) == before


@pytest.mark.parametrize("texts", [ESCAPE, [1], {"table": 1}, {"table": ESCAPE}, {"verify table": "", "verify": 7}])
def test_texts_with_what_a_terminal_would_obey(texts: Any, tmp_path: Path) -> None:
    store = complete(tmp_path, "cells")
    kept = store / "records" / "texts.json"
    write_json(kept, {**read_json(kept), "texts": texts})
    for words in (["show", str(store)], ["verify", str(store)]):
        check(*run(words))


def test_an_incomplete_store_and_one_that_cannot_be_written_have_none(tmp_path: Path) -> None:
    store = complete(tmp_path, "cells")
    (store / "records" / "texts.json").unlink()
    write_texts(tmp_path / "no.zarr", {"table": "x"})
    write_texts(store, {"table": "x" * (5 << 20)})
    assert read_text(store, "table") is None
    (tmp_path / "away").mkdir()
    write_texts(store, {"table": "x"})
    assert read_text(store, "table") == "x"
    assert read_text(store, "other") is None
    assert main(["show", str(store), "--accuracy"]) == 0, "other tables are made as ever"
    assert json.loads(run(["show", str(store), "--format", "json"])[1])["complete"]
