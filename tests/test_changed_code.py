"""Numbers that code made which is there no more are told from the present code's, wherever they are shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import call, write_study

import hpcdp

FIRST = "def noisy(database, size, rng):\n    return database.sum() + rng.laplace(0.0, 2.0, size)\n"
SECOND = FIRST.replace("2.0", "0.5")
GIVEN = {
    "call": "own:noisy",
    "pairs": "given = [ { d = [0.0], d_prime = [1.0] } ]",
    "train": 3000,
    "test": 3000,
    "chunk": 1500,
}
WORDS = "WARNING: mechanism.call: the source of own:noisy changed since the first draws of this store were made"


def shown(store: Path, folder: Path) -> list[str]:
    """All that is made of a store, on one line each."""
    page = folder / "page.html"
    call("report", store, "-o", page)
    copy = folder / "copy"
    call("export", store, copy)
    made = [
        call("show", store).stdout,
        call("verify", store, "--claim", "dp(epsilon=0.1)", code=3).stdout,
        call("show", store, "--delta", "0.1").stdout,
        call("show", copy).stdout,
        page.read_text(),
    ]
    return [" ".join(text.split()) for text in made]


def test_all_that_is_made_of_a_store_says_that_its_code_changed(tmp_path: Path) -> None:
    study = write_study(tmp_path, FIRST, **GIVEN)
    store = tmp_path / "s.zarr"
    call("run", study, "--store", store, "--workers", "0")
    assert not any("WARNING" in text for text in shown(store, tmp_path))
    before = json.loads(call("show", store, "--format", "json").stdout)
    write_study(tmp_path, SECOND, **GIVEN)
    refused = call("run", study, "--store", store, "--workers", "0", code=2).stderr
    assert "so its numbers are of what it was; accepted: another --store" in refused
    call("run", study, "--store", store, "--workers", "0", "--allow-changed-code")
    for _ in range(2):  # and when it is run again, without the option
        assert all(WORDS in text for text in shown(store, tmp_path))
        assert WORDS in " ".join(call("run", study, "--store", store, "--workers", "0").stdout.split())
    after = json.loads(call("show", store, "--format", "json").stdout)
    assert after["cells"] == before["cells"], "they are the first code's"
    assert [one for one in after["warnings"] if one not in before["warnings"]] == hpcdp.load_result(store).code_warnings


def test_another_store_measures_the_changed_code(tmp_path: Path) -> None:
    study = write_study(tmp_path, FIRST, **GIVEN)
    call("run", study, "--store", tmp_path / "first.zarr", "--workers", "0")
    write_study(tmp_path, SECOND, **GIVEN)
    call("run", study, "--store", tmp_path / "second.zarr", "--workers", "0")
    first, second = (hpcdp.load_result(tmp_path / f"{name}.zarr") for name in ("first", "second"))
    assert max(row["lower"] for row in second.spectrum()) > max(row["upper"] for row in first.spectrum())
    assert not second.changed


@pytest.mark.parametrize("claims", [False, True])
def test_a_run_ends_with_what_says_more(claims: bool, tmp_path: Path) -> None:
    study = write_study(tmp_path, FIRST, **GIVEN, **({"claim": "laplace(epsilon=0.5)"} if claims else {}))
    for _ in range(2):
        lines = call("run", study, "--store", tmp_path / "s.zarr", "--workers", "0").stdout.splitlines()
        told = [line.split() for line in lines[-4:] if line.startswith(("check:", "page:"))]
        assert [words[:3] for words in told] == [["check:", "hpcdp", "verify"]] * claims + [
            ["page:", "hpcdp", "report"]
        ]
        for words in told:
            call(*words[2:], code=0)
