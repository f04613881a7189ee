"""Arrays that somebody else wrote: only those in the form that hpcdp writes are opened."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path

import numpy as np
import pytest
import zarr
from commands import records
from poison import (  # noqa: F401  # fixtures
    METADATA,
    Payload,
    canary_fixture,
    clean_fixture,
    codec,
    commands,
    edit,
    look,
    old_form,
    run,
    store_fixture,
    whole_fixture,
)

from hpcdp import load_result
from hpcdp.errors import DamagedError, HpcdpError, StudyError
from hpcdp.store.arrays import read_array, write_array


@pytest.mark.parametrize("beside", [False, True])
def test_format_2_with_pickled_objects(store: Path, canary: Path, clean: dict[str, str], beside: bool) -> None:
    for array in ("delta", "epsilon", "study/databases"):
        for path in [store / array] if array != "study/databases" else (store / array).glob("[0-9a-f]*"):
            old_form(path, Payload(canary), beside)
    look(store, clean, list(commands(store)), kept=True)
    if not beside:  # the root arrays are derived from the records, which need the databases
        with pytest.raises(HpcdpError, match="damaged or missing"):
            load_result(store)


@pytest.mark.parametrize("poison", METADATA)
def test_metadata_of_a_root_array(store: Path, clean: dict[str, str], poison: str) -> None:
    edit(store / "delta" / "zarr.json", METADATA[poison])
    look(store, clean, ["json", "status"], kept=True)
    assert load_result(store).to_json() + "\n" == clean["json"]


KINDS = ("samples", "tallies", "pilots", "counters")  # what a damaged counter held is learned again without a word

UNREAD = ("transformers", "key")  # keys of an array that hpcdp's own reader has no use for


@pytest.mark.parametrize("poison", [*METADATA, "format 2"])
def test_arrays_that_a_resumed_run_computes_with(store: Path, canary: Path, clean: dict[str, str], poison: str) -> None:
    """Every array of samples, of pilots, of tallies, of counters: each is damage, and what it held is made again."""
    for kind in KINDS:
        arrays = [path.parent for path in (store / kind).rglob("zarr.json") if path.parent != store / kind]
        assert len(arrays) >= 4
        for array in arrays:
            if poison == "format 2":
                old_form(array, Payload(canary))
            else:
                edit(array / "zarr.json", METADATA[poison])
    for path in [*records(store, "counts"), store / "records" / "results.json"]:
        path.unlink()
    said, code = "", 1
    for _ in KINDS:  # what a task finds damaged fails it, and is made again by the next run
        if code == 1:
            code, out, error = run(["resume", str(store), "--workers", "0"])
            said += out + error
    assert code == 0, said
    assert "Traceback" not in said
    named = [kind for kind in KINDS[:3] if f"{kind}/" in said]
    assert named == ([] if poison in UNREAD else [*KINDS[:3]]), said
    for array in (path.parent for kind in KINDS[:3] for path in (store / kind).rglob("*/c")):
        read_array(array)
    look(store, clean, ["json", "status"], kept=True)


def test_own_arrays_are_read_as_they_were_written(tmp_path: Path) -> None:
    """Every shape and type that hpcdp writes passes the list of what is accepted."""
    for number, array in enumerate(
        [
            np.arange(10.0),
            np.arange(12, dtype=np.int64).reshape(2, 3, 2),
            np.array(3),
            np.zeros((0, 3)),
            np.array([True, False]),
            np.arange(250, dtype=np.uint8),
            np.arange(5, dtype=np.int8),
            np.arange(6, dtype=np.float32),
        ]
    ):
        for chunk in (None, 4):
            write_array(tmp_path / f"a{number}", array, chunk)
            found = read_array(tmp_path / f"a{number}")
            assert found.dtype == array.dtype
            np.testing.assert_array_equal(found, array)
            np.testing.assert_array_equal(zarr.open_array(tmp_path / f"a{number}", mode="r")[...], array)


@pytest.mark.parametrize("chunk", [None, 4])
def test_every_changed_byte_of_an_own_array_is_seen(tmp_path: Path, chunk: int | None) -> None:
    write_array(tmp_path / "a", np.arange(10.0), chunk, checks=2)
    path = tmp_path / "a" / "c" / "0"
    whole = path.read_bytes()
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(DamagedError, match="checksum"):
            read_array(tmp_path / "a")
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        with pytest.raises(DamagedError, match="damaged"):
            read_array(tmp_path / "a")


@pytest.mark.parametrize("form", [2, 3])
def test_samples_that_others_wrote(tmp_path: Path, canary: Path, form: int) -> None:
    """Arrays for `stored`: of both formats, compressed or not, numbers or strings; never Python objects."""
    import zarr

    from hpcdp.mechanisms.stored import read_outputs

    for number, values in enumerate([np.arange(100.0), np.arange(6).reshape(3, 2), np.array(["no", "yes"])]):
        for codecs in ("auto", None):
            path = tmp_path / f"{number}-{codecs}.zarr"
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # zarr has not settled how strings are written
                zarr.create_array(str(path), data=values, chunks=values.shape, compressors=codecs, zarr_format=form)
                np.testing.assert_array_equal(read_outputs(path), values)
    path = tmp_path / "0-auto.zarr"
    if form == 2:
        edit(path / ".zarray", lambda m: {**m, "filters": [{"id": "pickle", "protocol": 5}], "compressor": None})
        (path / "0").write_bytes(pickle.dumps(Payload(canary)))
        with pytest.raises(StudyError, match="codec: 'pickle'; accepted: blosc"):
            read_outputs(path)
        edit(path / ".zarray", lambda m: {**m, "filters": None, "dtype": "|O"})
        with pytest.raises(StudyError, match=r"dtype: '\|O'; accepted: numbers, booleans and strings"):
            read_outputs(path)
    else:
        edit(path / "zarr.json", codec({"name": "numcodecs.pickle", "configuration": {}}))
        with pytest.raises(StudyError, match=r"codec: 'numcodecs\.pickle'; accepted: blosc"):
            read_outputs(path)
