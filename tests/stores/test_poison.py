"""A store that a stranger wrote: commands that read it run nothing, end, and print nothing that a terminal would obey."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from commands import COMMAND, records
from poison import (  # noqa: F401  # fixtures
    ESCAPE,
    FILES,
    SECONDS,
    Payload,
    canary_fixture,
    changed_study,
    check,
    clean_fixture,
    commands,
    edit,
    look,
    old_form,
    pipe,
    record,
    run,
    store_fixture,
    whole_fixture,
)


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=[pytest.mark.slow, pytest.mark.release])])
@pytest.mark.parametrize("poison", FILES)
def test_every_kind_of_file(store: Path, clean: dict[str, str], poison: str, every: bool) -> None:
    """One file of each kind at a time, as each poison, read by three commands and two of the others in turn, or by every one."""
    names = list(commands(store))
    others = [name for name in names if name not in ("json", "status", "logs")]
    files = [
        store / "zarr.json",
        store / "delta" / "zarr.json",
        next(p for p in (store / "delta" / "c").rglob("*") if p.is_file()),
        next((store / "study" / "databases").glob("*/zarr.json")),
        store / "study" / "study-000001.json",
        store / "records" / "results.json",
        *{
            path.parent: path for path in records(store, "samples", "fits", "counts", "tallies", "sizes", "runs")
        }.values(),
        next((store / "lease").glob("*.json")),
        store / "jobs" / "logs" / "driver-1.log",
    ]
    for number, path in enumerate(files, list(FILES).index(poison)):
        before = path.read_bytes()
        FILES[poison](path)
        turn = [others[number % len(others)], others[(number + len(others) // 2) % len(others)]]
        kept = path.parts[-2] not in ("logs", "fits", "counts")  # without counts the store is not complete
        look(store, clean, names if every else ["json", "status", "logs", *turn], kept=kept)
        path.unlink()
        path.write_bytes(before)


HEADS: dict[str, Callable[[Any], Any]] = {
    "outward": lambda h: {
        **h,
        "arrays": {"../../../../etc": ["epsilon"], **h["arrays"]},
        "digests": {"../../../../etc": ""},
    },
    "absolute": lambda h: {**h, "arrays": {"/etc": ["epsilon"]}, "digests": {"/etc": ""}},
    "names": lambda h: {**h, "arrays": {ESCAPE: ["epsilon"]}, "digests": {ESCAPE: ESCAPE}},
    "no arrays": lambda h: {**h, "arrays": {}},
    "dimensions": lambda h: {**h, "arrays": {**h["arrays"], "delta": ["epsilon", "pair", "direction"]}},
    "pairs": lambda h: {**h, "pairs": h["pairs"] * 3},
    "version": lambda h: {**h, "version": ESCAPE},
    "deep pairs": lambda h: {**h, "pairs": 7},
    "list": lambda h: [h],
}


@pytest.mark.parametrize("poison", HEADS)
def test_a_head_of_results(store: Path, clean: dict[str, str], poison: str) -> None:
    record(store / "records" / "results.json", HEADS[poison])
    look(store, clean, ["json", "status"], kept=True)


def test_names_that_a_terminal_would_obey(store: Path, clean: dict[str, str]) -> None:
    def pairs(head: Any) -> Any:
        return {**head, "pairs": [{"pair": 0, "database": ESCAPE, "rows": [ESCAPE], "value": ESCAPE}] * 2}

    def ends(body: Any) -> Any:
        return {**body, "failed": [ESCAPE], "stopped": ESCAPE}

    record(store / "records" / "results.json", pairs)
    record(next((store / "records" / "runs").glob("*.json")), ends)
    edit(next((store / "lease").glob("*.json")), lambda _: {"host": ESCAPE, "process": "\udc80"})
    (store / "jobs" / "logs" / f"worker-{ESCAPE}\udcff.log").write_text(ESCAPE + "\u202e")
    for kind in ("counts", "samples", "runs"):
        (store / "records" / kind / f"{ESCAPE}.json").write_text("")
    look(store, clean, list(commands(store)), kept=False)
    assert "\\u001b]0;owned\\u0007\\u009b31m" in run(commands(store)["logs"])[1]


STUDIES: dict[str, Callable[[Any], Any]] = {
    "claim on a device": changed_study(study={"claim": "file(/dev/zero)"}),
    "claim on a store on a device": changed_study(study={"claim": "store(/dev/zero)"}),
    "claim with an escape": changed_study(study={"claim": f"file({ESCAPE})"}),
    "name": changed_study(study={"name": ESCAPE}),
    "name outward": changed_study(study={"name": "../../x"}),
    "code": changed_study(mechanism={"call": "evil:noisy"}),
    "program": changed_study(mechanism={"call": {"command": ["/bin/sh", "-c", "touch ../canary"]}}),
    "loss": changed_study(estimate={"loss": "learned", "parameters": {"model": "evil:Classifier"}}),
    "many chunks": changed_study(estimate={"test": 10**30, "chunk": 1}),
    "a chunk each": changed_study(estimate={"test": 10**15, "train": 10**15, "refine": 10**15, "chunk": 1}),
    "many epsilons": changed_study(estimate={"epsilons": {"start": 0.0, "stop": 1.0, "count": 10**12}}),
    "infinite": changed_study(estimate={"epsilons": [0.0, float("inf")]}),
    "rows": changed_study(pairs={"relative": {"databases": [[0.0, 1.0]], "rows": [10**30]}}),
    "databases outward": lambda body: {**body, "databases": ["../../../../../../etc"]},
    "databases": lambda body: {**body, "databases": 7},
    "schema": lambda body: {**body, "schema": {"kind": ESCAPE, "columns": 10**30}},
    "folder": lambda body: {**body, "folder": "/dev/zero"},
    "many rows": lambda body: {
        **body,
        "databases": [],
        "shapes": [[10**18]],
        "study": {
            **body["study"],
            "pairs": {
                "given": None,
                "relative": None,
                "distributional": [
                    {"call": "evil:draw", "parameters": {}, "index": "all", "values": [0, 1], "exchangeable": False}
                ],
            },
        },
    },
}


@pytest.mark.parametrize("poison", STUDIES)
def test_a_study(store: Path, clean: dict[str, str], canary: Path, poison: str) -> None:
    (store.parent / "evil.py").write_text(f"open({str(canary)!r}, 'w')\n")
    record(store / "study" / "study-000001.json", lambda body: STUDIES[poison]({**body, "folder": str(store.parent)}))
    look(store, clean, ["json", "table", "verify", "status", "logs"], kept=False)
    shutil.rmtree(store / "records" / "results.json", ignore_errors=True)
    (store / "records" / "results.json").unlink()  # what no root array says is derived from the study
    look(store, clean, ["json", "status"], kept=False)


def test_real_processes(store: Path, canary: Path) -> None:
    """The same without a test's libraries: a pickled array, a pipe, and a log with escapes."""
    old_form(store / "delta", Payload(canary))
    pipe(next(p for p in (store / "epsilon" / "c").rglob("*") if p.is_file()))
    (store / "jobs" / "logs" / "worker-2.log").write_text(ESCAPE)
    environment = {**os.environ, "NUMCODECS_ALLOW_UNSAFE_PICKLE_DECODE": "1"}
    for arguments in (["show", str(store), "--format", "json"], ["logs", str(store)]):
        done = subprocess.run(
            [*COMMAND, *arguments], capture_output=True, text=True, timeout=SECONDS, check=False, env=environment
        )
        check(done.returncode, done.stdout, done.stderr)
        assert done.returncode == 0
