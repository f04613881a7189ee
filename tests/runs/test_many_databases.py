"""Stores of many pairs of few databases: each database is read once."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest
from commands import call
from studies import make_study

from hpcdp.engine.driver import resolve_stored, store_problem
from hpcdp.report.table import trust_lines
from hpcdp.store import databases as databases_in_store
from hpcdp.study.problem import resolve


def test_each_database_is_read_once(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    databases = [[float(i)] for i in range(30)]
    study = make_study(
        "laplace", {"scale": 1.0}, list(combinations(databases, 2)), train=100, test=100, seed=5, epsilons=[0.0]
    )
    store, read = tmp_path / "s.zarr", []
    store_problem(resolve(study)[0], store)
    of_one = databases_in_store.read_array
    monkeypatch.setattr(databases_in_store, "read_array", lambda path: read.append(path) or of_one(path))
    assert "incomplete" in call("status", store).stdout
    assert len(read) == len(set(read)) <= 30  # as found, twice for each of 435 pairs
    read.clear()
    assert len(resolve_stored(store)[0].pairs) == 435
    assert len(read) == len(set(read)) == 30


def test_failures_that_tell_are_named() -> None:
    pairs = [([0.0], [1.0])]
    study = make_study("laplace", {"scale": 1.0}, pairs, train=100, test=100, seed=5, epsilons=[0.0])
    changed = study.mechanism.model_copy(update={"reproducible": False})
    words = "the law of outputs given"
    assert words in "\n".join(trust_lines(study.model_copy(update={"mechanism": changed})))
    assert words not in "\n".join(trust_lines(study))
