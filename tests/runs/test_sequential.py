"""The sequential audit as users run it: batches in the store, evidence in records, going on, refusals."""

from __future__ import annotations

import json
import re
import shutil
import signal
from collections import Counter
from pathlib import Path

import pytest
from commands import (
    LONG,
    MECHANISM,
    SEED,
    call,
    hold,
    one_message,
    release,
    started,
    stored_problem,
    wait_until,
    write_study,
)
from journals import Record, records

from hpcdp.keys import stream
from hpcdp.store.stages import Stage

PAIR = {"pairs": "given = [{ d = [0.0], d_prime = [1.0] }]", "databases": [], "rows": [], "chunk": 25}
SEQUENTIAL = ["--sequential", "--batch", 50, "--budget", 800]
TRUE, FALSE = "laplace(epsilon=1)", "laplace(epsilon=0.3)"


def study(folder: Path, **changes) -> Path:
    """Laplace noise of scale 1 on a number."""
    return write_study(folder, **PAIR, **changes)


def audit(path: Path, claim: str, scheduler: str, *options, code: int = 0) -> dict:
    """What an audit prints as JSON; tasks run on a scheduler that is there already."""
    command = ("audit", path, "--claim", claim, "--store", path.parent / "s.zarr", "--cluster", scheduler)
    return json.loads(call(*command, *SEQUENTIAL, *options, "--format", "json", code=code).stdout)


def draws(folder: Path) -> Counter:
    """How often each chunk of the batches was drawn; trial draws have streams of their own."""
    problem = stored_problem(folder / "s.zarr")
    streams = {
        f"{stream(SEED, law, 'round', chunk).bit_generator.state['state']['state']:x}": (law, chunk)
        for law in problem.laws
        for chunk in range(40)
    }
    words = [line.split()[2] for line in (folder / "calls.log").read_text().splitlines()]
    return Counter(streams[word] for word in words if word in streams)


@pytest.mark.slow
def test_a_false_claim_is_refuted_and_a_true_one_is_not(tmp_path: Path, scheduler: str) -> None:
    path = study(tmp_path)
    found = audit(path, FALSE, scheduler, code=3)
    assert found["verdict"] == "violation"
    assert found["needed"] == pytest.approx(20.0)
    last = found["looks"][-1]
    assert last["samples"] == found["samples"] < 800
    assert last["refuted"]
    assert last["evidence"] >= 20
    assert not any(look["refuted"] for look in found["looks"][:-1])
    assert [look["samples"] for look in found["looks"]] == list(range(50, last["samples"] + 1, 50))
    assert (tmp_path / "s-audit.png").stat().st_size > 10_000
    drawn = draws(tmp_path)
    assert set(drawn.values()) == {1}
    true = audit(path, TRUE, scheduler)
    assert true["verdict"] in ("consistent", "not separable")
    assert len(true["looks"]) == 16
    again = draws(tmp_path)
    assert set(again.values()) == {1}, "the other claim is audited by the same batches"
    assert len(again) == 2 * 32
    longer = audit(path, TRUE, scheduler, "--budget", 900)
    assert longer["looks"][:16] == true["looks"]
    assert set(draws(tmp_path).values()) == {1}
    status = call("status", tmp_path / "s.zarr").stdout
    looks = len(found["looks"]) + len(longer["looks"])
    assert f"  batches        72 chunks drawn, {looks} looks (audit --sequential)" in status
    text = call(
        "audit", path, "--claim", FALSE, "--store", tmp_path / "s.zarr", "--cluster", scheduler, *SEQUENTIAL, code=3
    )
    said = " ".join(text.stdout.split())
    assert f"after {last['samples']} samples per database, training included, the evidence against it is" in said


@pytest.mark.slow
@pytest.mark.promise
def test_killed_and_continued(tmp_path: Path, scheduler: str) -> None:
    path = study(tmp_path / "a", parameters={"pause": 0.01})
    store = tmp_path / "a" / "s.zarr"
    hold(tmp_path / "a", store, 2, "rounds")
    command = ["audit", path, "--claim", TRUE, "--store", store, "--cluster", scheduler, *SEQUENTIAL]
    with started(*command, folder=tmp_path / "a") as process:
        wait_until(lambda: len(records(store, "rounds")) >= 2, "two rounds")
        process.send_signal(signal.SIGTERM)
        _, error = process.communicate(timeout=LONG)
    release(tmp_path / "a")  # the workers of the tests, which draw on, and the audit that goes on
    assert process.returncode == 130
    assert "go on with: hpcdp audit" in error
    before = {record: record.read_bytes() for record in records(store, "rounds")}
    assert 2 <= len(before) < 16
    going_on = audit(path, TRUE, scheduler)
    assert {record: record.read_bytes() for record in before} == before
    shutil.rmtree(store)
    assert audit(path, TRUE, scheduler) == going_on


@pytest.mark.slow
def test_several_pairs_share_their_evidence(tmp_path: Path, scheduler: str) -> None:
    pairs = "given = [{ d = [0.0], d_prime = [0.0] }, { d = [0.0], d_prime = [4.0] }]"
    path = write_study(tmp_path, **{**PAIR, "pairs": pairs})
    found = audit(path, TRUE, scheduler, code=3)
    first, second = found["cells"]
    assert first["evidence"] < 1.5 < second["evidence"]
    assert found["looks"][-1]["evidence"] == pytest.approx(0.5 * (first["evidence"] + second["evidence"]), rel=1e-9)
    assert second["p_value"] <= 1.0 / second["evidence"], "not adjusted for the choice among pairs"
    command = ("audit", path, "--claim", TRUE, "--store", path.parent / "s.zarr", "--cluster", scheduler)
    text = call(*command, *SEQUENTIAL, code=3).stdout
    assert "evidence and p-value of a pair are of that pair alone: not adjusted for the choice among pairs" in text


@pytest.mark.slow
def test_a_damaged_chunk_is_drawn_again(tmp_path: Path, scheduler: str) -> None:
    path = study(tmp_path)
    found = audit(path, TRUE, scheduler)
    chunk = next((tmp_path / "s.zarr" / "samples").glob("*-round-000003-25"))
    shutil.rmtree(chunk)
    said = call("audit", path, "--claim", TRUE, "--store", tmp_path / "s.zarr", "--cluster", scheduler, *SEQUENTIAL)
    assert "round chunk 3" in said.stderr
    assert "it is drawn again" in said.stderr
    assert audit(path, TRUE, scheduler) == found


FAILING = MECHANISM.replace(  # on workers only, so not in trial draws
    "    time.sleep(pause)\n",
    "    if on_worker(): raise ValueError('no model today')\n",
)
CONSTANT = MECHANISM.replace(
    "rng.laplace(size=size)", "(rng.laplace(size=size) if size != 25 else np.arange(25.0))"
).replace("import os\n", "import os\nimport numpy as np\n")


@pytest.mark.parametrize(
    ("mechanism", "words"),
    [
        (FAILING, ["round chunk 0 of d of pair 0", "no model today", "hpcdp audit"]),
        (CONSTANT, ["identical", "ignores its rng"]),
    ],
)
def test_a_mechanism_that_fails(tmp_path: Path, scheduler: str, mechanism: str, words: list[str]) -> None:
    path = study(tmp_path, mechanism=mechanism)
    command = ("audit", path, "--claim", TRUE, "--store", tmp_path / "s.zarr", "--cluster", scheduler, *SEQUENTIAL)
    said = call(*command, code=1).stderr
    assert all(word in said for word in words)


FEW_SEEDS = MECHANISM.replace("import os\n", "import os\nimport numpy as np\n").replace(
    "rng.laplace(size=size)", "np.random.default_rng(rng.integers(64)).laplace(size=size)"
)


@pytest.mark.slow
def test_equal_chunks_anywhere_are_refused_before_they_are_bet_on(tmp_path: Path, scheduler: str) -> None:
    """64 inner seeds: of 32 chunks a law some are equal (chance of none: 10⁻⁴), but seldom the first and the last of a round."""
    path = study(tmp_path, mechanism=FEW_SEEDS)
    store = tmp_path / "s.zarr"
    command = ("audit", path, "--claim", TRUE, "--store", store, "--cluster", scheduler, *SEQUENTIAL)
    said = call(*command, code=1).stderr
    assert re.search(r"round chunk \d+ of \S+ of pair 0 and round chunk \d+ of \S+ of pair 0 are identical", said)
    assert "--allow-changed-code" in said
    assert not records(store, "rounds"), "nothing that was won of them is kept"
    study(tmp_path)  # repaired
    repaired = json.loads(call(*command, "--allow-changed-code", "--format", "json").stdout)
    assert "own:noisy changed" in repaired["warnings"][0]
    assert repaired == audit(path, TRUE, scheduler)
    names = [Stage.endless(25).name_of(law, chunk) for law in stored_problem(store).laws for chunk in range(32)]
    prints = [text for name in names for text in Record(store, "samples", name).body["fingerprints"]]
    assert len(set(prints)) == 64


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "options", "words"),
    [
        ({}, ["--batch", 30], "--batch: a multiple of estimate.chunk, 25; given: 30"),
        ({}, ["--budget", 20], "--budget: at least one batch, 50; given: 20"),
        ({"loss": "literal-knn"}, [], "literal-knn has no L̂ of all η"),
        ({}, ["--claim", "laplace(1)"], "1 without a name"),
    ],
)
def test_refusals(tmp_path: Path, changes: dict, options: list, words: str) -> None:
    path = study(tmp_path, **changes)
    said = one_message(
        call("audit", path, "--claim", TRUE, "--store", tmp_path / "s.zarr", *SEQUENTIAL, *options, code=2)
    )
    assert words in said
    assert not (tmp_path / "s.zarr").exists()
