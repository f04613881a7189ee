"""A Δ of three distributions and a T of five databases of a hundred rows: here and on SLURM, and a sixth database."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import call, contents, records, show, write_study
from throwaway import ThrowawaySlurm

from hpcdp.store.layout import Layout
from hpcdp.store.packs import known_packs

PROFILE = Path(__file__).parents[3] / "slurm" / "test.toml"

OWN = """
import numpy as np


def bits(size, rng, *, rows, probability):
    return rng.random((size, rows)) < probability


def noisy_sum(database, size, rng, scale):
    return database.sum() + rng.laplace(0.0, scale, size)


def noisy_sum_of_each(databases, rng, scale):
    return databases.sum(axis=1) + rng.laplace(0.0, scale, len(databases))


noisy_sum.each = noisy_sum_of_each
"""


def delta() -> str:
    """Three distributions, every row but one left out because rows are exchangeable."""
    tables = [
        f'{{ call = "own:bits", parameters = {{ rows = {rows}, probability = {p} }}, values = [0, 1], exchangeable = true }}'
        for rows, p in ((50, 0.5), (100, 0.3), (200, 0.1))
    ]
    return f"distributional = [{', '.join(tables)}]"


def t(count: int, rows: int) -> list[list[float]]:
    """Databases of distinct rows."""
    return [np.round(np.random.default_rng(n).uniform(0, 1, rows), 6).tolist() for n in range(count)]


def samples_drawn(store: Path) -> int:
    """Sampled blocks: those that have a record each, and those that lie together."""
    return len(records(store, "samples")) + len(known_packs(Layout(store)))


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind, count, rows",
    [
        pytest.param("delta", 0, 0, marks=pytest.mark.release),
        ("t", 2, 20),
        pytest.param("t", 5, 100, marks=pytest.mark.release),
    ],
)
def test_here_and_there(
    kind: str, count: int, rows: int, tmp_path: Path, clean_slurm: ThrowawaySlurm, scheduler: str
) -> None:
    common: dict[str, Any] = {"call": "own:noisy_sum", "parameters": {"scale": 1.0}, "etas": [], "chunk": 5000}
    settings = common | (
        {"pairs": delta(), "train": 40_000, "test": 40_000}
        if kind == "delta"
        else {"databases": t(count, rows), "train": 5000, "test": 5000}
    )
    study = write_study(tmp_path, OWN, **settings)
    here, there = tmp_path / "here.zarr", tmp_path / "there.zarr"
    call("run", study, "--store", here, "--cluster", scheduler)
    call("run", study, "--store", there, "--cluster", PROFILE)
    assert show(here) == show(there)
    found = json.loads(show(there))
    assert found["complete"]
    assert len(found["pairs"]) == (3 if kind == "delta" else count * rows)
    if kind == "delta":
        assert [pair["distribution"] for pair in found["pairs"]] == [0, 1, 2]
        return
    assert samples_drawn(there) == 2 * count * (rows + 1)
    before = contents(there)
    study = write_study(tmp_path, OWN, **{**settings, "databases": t(count + 1, rows)})
    said = call("run", study, "--store", there, "--cluster", PROFILE).stderr
    assert re.search(rf"samples +{10_000 * (count + 1) * (rows + 1):,} draws", said), said
    after = contents(there)
    assert {path: after[path] for path in before} == before
    assert samples_drawn(there) == 2 * (count + 1) * (rows + 1), "the new database and its neighbours, and nothing else"
    call("run", study, "--store", here, "--cluster", scheduler)
    assert show(here) == show(there)
    assert len(json.loads(show(there))["pairs"]) == (count + 1) * rows
