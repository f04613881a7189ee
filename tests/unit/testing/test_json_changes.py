"""What the comparison of two checkouts' JSON calls a change, and which of them it lets pass."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from journals import line_of

from benchmarks.journals import committed, halve
from benchmarks.json_changes import changes, compare, is_allowed, other_records

OLD = {
    "cells": [{"lower": 0.1, "delta": 0.2, "resolved": True}],
    "spectrum": [{"lower": 0.1, "lower_pair": 0, "limit": None}],
    "accuracy": [{"radius": 0.01}],
    "warnings": ["a", "b"],
}


def test_only_bounds_and_limits_may_differ_and_no_bound_falls(capsys: pytest.CaptureFixture[str]) -> None:
    new = json.loads(json.dumps(OLD))
    new["cells"][0] |= {"lower": 0.11, "resolved": False}
    new["spectrum"][0] |= {"lower_pair": 1, "limit": 0.3}
    new["accuracy"][0]["radius"], new["warnings"] = 0.02, []
    found = list(changes(OLD, new))
    assert len(found) == 6
    assert all(is_allowed(*item) for item in found)
    for wrong in ({"lower": 0.0999}, {"delta": 0.2000001}, {"lower": None}, {"cell": 1}):
        bad = json.loads(json.dumps(OLD))
        bad["cells"][0] |= wrong
        assert compare({"show": [0, json.dumps(OLD)]}, {"show": [0, json.dumps(bad)]}, "new") == 1
        assert "WRONG" in capsys.readouterr().out
    assert compare({"run": [0]}, {"run": [3]}, "new") == 1
    assert not list(changes(OLD, json.loads(json.dumps(OLD))))
    assert [path for path, *_ in changes([1, 2], [1])] == [""]


def test_of_the_results_only_the_version_of_the_bounds_and_what_is_free_may_differ(tmp_path: Path) -> None:
    head = {"version": 1, "bounds": 2, "digests": {"delta": "a", "lower": "b", "spectrum_lower_pair": "c"}}

    def written(side: str, **changes: object) -> Path:
        file = tmp_path / side / "records" / "results.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps({"body": {**head, **changes}, "checksum": side}))
        return tmp_path / side

    old = written("old")
    free = {"delta": "a", "lower": "x", "spectrum_lower_pair": "y"}
    assert other_records(old, written("new", bounds=3, digests=free)) == (1, [])
    for wrong in ({"version": 2}, {"digests": {**free, "delta": "x"}}, {"digests": {**free, "more": "x"}}):
        assert other_records(old, written("new", **wrong)) == (1, ["records/results.json"])
    (tmp_path / "new" / "records" / "results.json").unlink()
    assert other_records(old, tmp_path / "new") == (1, ["records/results.json"])


def test_records_are_compared_by_their_names_whatever_their_order(tmp_path: Path) -> None:
    counted, learned, again = ("counts", "a", {"draws": 1}), ("fits", "a", {"draws": 2}), ("fits", "a", {"draws": 3})

    def written(side: str, *records: tuple[str, str, object]) -> Path:
        file = tmp_path / side / "records" / f"000001-{'0' * 32}.jsonl"
        file.parent.mkdir(parents=True)
        lines = [("journals", "", {}), ("runs", "000001", {"process": side}), *records]
        file.write_bytes(b"".join(line_of(*line) for line in lines) + b'{"kind":"fi')
        return tmp_path / side

    old = written("old", counted, learned)
    assert other_records(old, written("same", again, ("fits", "a", None), learned, counted)) == (2, [])
    assert other_records(old, written("changed", counted, again)) == (2, ["fits/a"])
    assert other_records(old, written("less", learned)) == (2, ["counts/a"])
    assert other_records(old, written("more", learned, counted, ("cells", "b", {}))) == (3, ["cells/b"])
    halve(old)
    assert list(committed(old)) == ["counts/a"]
