"""Arrays that somebody else wrote: only those in the form that hpcdp writes are opened."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path

import numpy as np
import pytest
import zarr
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
    store_fixture,
    whole_fixture,
)

from hpcdp import load_result
from hpcdp.errors import DamagedError, HpcdpError, StudyError


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


def test_own_arrays_are_read_as_they_were_written(tmp_path: Path) -> None:
    """Every shape and type that hpcdp writes passes the list of what is accepted."""
    from hpcdp.store.arrays import read_array, write_array

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
    from hpcdp.store.arrays import read_array, write_array

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
