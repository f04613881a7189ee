"""Exported copies: what is read from them, over any file system, is what the store says; what they lack is refused."""

import functools
import hashlib
import http.server
import json
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from commands import call
from pages import STUDIES, make_store
from studies import make_study

from hpcdp import load_result, run
from hpcdp.report.export import NO_PARQUET, write_export
from hpcdp.report.html.page import render
from hpcdp.results.load import ARRAYS, HEAD, Exported

NOISE = b"CDF\x02" + b"\xff" * 100
NOISE_DIGEST = hashlib.sha256(NOISE).hexdigest()
Exports = Callable[[str], tuple[Path, Path]]


@pytest.fixture(scope="module")
def exports(tmp_path_factory: pytest.TempPathFactory) -> Exports:
    """A store of a kind, and its copy."""
    made: dict[str, tuple[Path, Path]] = {}

    def make(kind: str) -> tuple[Path, Path]:
        if kind not in made:
            folder = tmp_path_factory.mktemp("exports")
            store = make_store(folder, kind)
            done = call("export", store, folder / "copy")
            assert done.stdout == f"{folder / 'copy'}\n"
            assert done.stderr == ""
            made[kind] = store, folder / "copy"
        return made[kind]

    return make


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Nothing."""


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A folder, and its address on this machine."""
    handler = functools.partial(_Quiet, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield tmp_path, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.slow
@pytest.mark.parametrize("kind", [kind for kind in STUDIES if kind != "edits"])
def test_a_copy_says_what_its_store_says(exports: Exports, kind: str) -> None:
    store, copy = exports(kind)
    one, other = load_result(store), load_result(copy)
    assert isinstance(other, Exported)
    assert other.to_json() == one.to_json() == (copy / "result.json").read_text()[:-1]
    for name, (dims, values) in one.arrays.items():
        assert other.arrays[name][0] == dims
        assert other[name].dtype == values.dtype
        np.testing.assert_array_equal(other[name], values)
    assert other.warnings == one.warnings
    if one.complete:
        for form in ("table", "json", "csv"):
            assert call("show", copy, "--format", form).stdout == call("show", store, "--format", form).stdout
    else:
        assert "go on with: hpcdp resume STORE" in str(other) or kind in ("broken", "batches")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["points", pytest.param("risk", marks=pytest.mark.promise)])
def test_addresses_are_read_as_folders_are(exports: Exports, served: tuple[Path, str], kind: str) -> None:
    """By memory:// and by HTTP, with the library and with the commands."""
    _, copy = exports(kind)
    folder, address = served
    memory = fsspec.filesystem("memory")
    (folder / "there").mkdir()
    for path in copy.iterdir():
        memory.pipe_file(f"/{kind}/{path.name}", path.read_bytes())
        (folder / "there" / path.name).write_bytes(path.read_bytes())
    page = render([load_result(copy)])
    call("plot", copy, "-o", folder / "own.svg")
    for place in (f"memory://{kind}", f"{address}/there", f"{address}/there/"):
        assert call("show", place, "--format", "json").stdout == call("show", copy, "--format", "json").stdout
        call("report", place, "-o", folder / "p.html")
        assert (folder / "p.html").read_text() == page
        call("plot", place, "-o", folder / "p.svg")
        assert (folder / "p.svg").read_bytes() == (folder / "own.svg").read_bytes()
        assert render([load_result(place)]) == page


@pytest.mark.slow
def test_pages_of_a_copy_and_of_its_store_differ_in_the_exact_curve_alone(exports: Exports) -> None:
    store, copy = exports("rows")  # of no exact curve
    assert render([load_result(copy)]) == render([load_result(store)]) == (copy / "report.html").read_text()
    store, copy = exports("points")
    one, other = (render([load_result(place)]) for place in (store, copy))
    assert one.count("<table") == other.count("<table")
    assert ">exact<" in one
    assert ">exact<" not in other


def test_a_claim_of_a_file_is_not_in_a_copy(exports: Exports, tmp_path: Path) -> None:
    """Whoever reads it has another file of that name, or none."""
    (tmp_path / "curve.csv").write_text("epsilon,delta\n0,0.1\n1,0.01\n")
    sizes = {"train": 500, "test": 500, "epsilons": [0.0, 1.0]}
    pair, head = [([0.0], [1.0])], {"claim": "file(curve.csv)"}
    study = make_study("laplace", {"epsilon": 1.0}, pair, seed=1, folder=tmp_path, head=head, **sizes)
    store = run(study, tmp_path / "s.zarr", workers=0)
    left_out = write_export(store, tmp_path / "copy")
    assert left_out == [
        "no claim: file(curve.csv) names what the copy does not hold; report.html has been judged by it"
    ]
    copy = load_result(tmp_path / "copy")
    assert copy.study.study.claim is None
    assert "file(curve.csv) is violated" in (tmp_path / "copy" / "report.html").read_text()


@pytest.mark.slow
def test_arrays_are_netcdf_and_parquet(exports: Exports) -> None:
    for kind in ("points", "tape", "bins", "risk"):
        store, copy = exports(kind)
        result = load_result(store)
        tables = {path: pd.read_parquet(path) for path in copy.glob("by-*.parquet")}
        with xr.open_dataset(copy / ARRAYS) as data:
            assert data.attrs == {"name": kind, "confidence": 0.95, "complete": 1}
            for name, (dims, values) in result.arrays.items():
                if not values.size:
                    continue
                assert data[name].dims == dims
                np.testing.assert_array_equal(data[name].values, values)
                if name in dims:
                    continue
                table = tables[copy / f"by-{'-'.join(dims)}.parquet"]
                np.testing.assert_array_equal(table[name].to_numpy().reshape(values.shape), values)
        points = {path.name for path in tables}
        assert ("by-pair-eta.parquet" in points) == (kind == "points")


@pytest.mark.slow
def test_counts_beyond_netcdf_integers_are_exact(exports: Exports, tmp_path: Path) -> None:
    result = load_result(exports("reuse")[0])
    large = result["test"] + 2**40
    grown = replace(result, arrays=result.arrays | {"test": (result.arrays["test"][0], large)})
    write_export(grown, tmp_path / "copy")
    found = load_result(tmp_path / "copy")["test"]
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, large)


@pytest.mark.slow
def test_without_pyarrow_all_else_is_written_and_said(exports: Exports, tmp_path: Path, monkeypatch: Any) -> None:
    store, copy = exports("points")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    done = call("export", store, tmp_path / "copy")
    assert done.stderr == f"hpcdp: {NO_PARQUET}\n"
    assert not list((tmp_path / "copy").glob("*.parquet"))
    assert (tmp_path / "copy" / ARRAYS).read_bytes() == (copy / ARRAYS).read_bytes()


@pytest.mark.slow
def test_exports_are_of_equal_bytes_and_replace_only_exports(exports: Exports, tmp_path: Path) -> None:
    store, copy = exports("points")
    call("export", store, tmp_path / "again")
    names = sorted(path.name for path in copy.iterdir())
    assert names == sorted(path.name for path in (tmp_path / "again").iterdir())
    assert all((copy / name).read_bytes() == (tmp_path / "again" / name).read_bytes() for name in names)
    call("export", exports("risk")[0], tmp_path / "again")  # in its place
    assert load_result(tmp_path / "again").name == "risk"
    assert not (tmp_path / "again" / "by-pair-eta.parquet").exists()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    said = call("export", store, tmp_path / "mine", code=2).stderr
    assert f"FOLDER: a new one, an empty one or an earlier export; given: {tmp_path / 'mine'}, which holds" in said
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["notes.txt"]
    assert "is an exported copy" in call("export", copy, tmp_path / "more", code=2).stderr


@pytest.mark.slow
def test_what_a_copy_lacks_is_refused(exports: Exports, tmp_path: Path) -> None:
    _, copy = exports("rows")
    for words in (["--accuracy"], ["--show-rows"], ["--rows", "--show-rows"]):
        said = call("show", copy, *words, code=2).stderr
        assert said.startswith(f"hpcdp: {copy} is an exported copy, without samples, records and databases, which")
    assert "is an exported copy" in call("plot", exports("pure")[1], "--loss", "-o", tmp_path / "p.png", code=2).stderr
    page = tmp_path / "p.html"
    assert "is an exported copy" in call("report", copy, "-o", page, "--show-rows", code=2).stderr
    for command in (("resume", copy), ("verify", copy, "--claim", "dp(epsilon=1)"), ("status", copy)):
        assert "no hpcdp store at" in (said := call(*command, code=2).stderr)
        assert "but an exported copy" in said
    said = call("report", exports("points")[1], "-o", page, "--show-rows", code=2).stderr
    assert "which says no more than it was given" in said
    assert not page.exists()


def test_a_store_has_a_path_and_never_an_address(exports: Exports, served: tuple[Path, str]) -> None:
    store, _ = exports("points")
    folder, address = served
    (folder / "s.zarr").symlink_to(store)
    for place in (f"{address}/s.zarr", f"file://{store}", "memory://nothing"):
        said = call("show", place, code=2).stderr
        assert said.startswith(f"hpcdp: no exported copy at {place}: it has no export.json; a store is read by its")
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        port = nobody.getsockname()[1]
    assert "cannot be reached" in call("show", f"http://127.0.0.1:{port}/x", code=1).stderr
    assert call("show", "nosuch://x", code=1).stderr.startswith("hpcdp: nosuch://x/export.json: ValueError")


@pytest.mark.parametrize(
    "change, words",
    [
        (lambda head: head | {"hpcdp_export": 2}, "is a copy of format 2; this hpcdp reads format 1"),
        (lambda head: {k: v for k, v in head.items() if k != "pairs"}, "is damaged: pairs missing"),
        (lambda head: head | {"pairs": []}, "is damaged: its shape is"),
        (lambda head: head | {"digests": {ARRAYS: "0"}}, "its bytes do not match their digest"),
        (lambda head: head | {"digests": {ARRAYS: NOISE_DIGEST}}, "holds what hpcdp does not write"),
        (lambda head: head | {"arrays": {"delta": [["pair"], "|O", [1]]}}, "of type |O"),
        (lambda head: head | {"provenance": {"x": 1}}, "holds what hpcdp does not write"),
        (lambda _: [], "is no head of an exported copy"),
    ],
)
def test_copies_of_strangers_are_read_with_care(
    exports: Exports, tmp_path: Path, change: Callable[[Any], Any], words: str
) -> None:
    _, copy = exports("points")
    for path in copy.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    head = change(json.loads((copy / HEAD).read_text()))
    (tmp_path / HEAD).write_text(json.dumps(head))
    if NOISE_DIGEST in json.dumps(head):
        (tmp_path / ARRAYS).write_bytes(NOISE)
    assert words in call("report", tmp_path, "-o", tmp_path / "p.html", code=1).stderr
