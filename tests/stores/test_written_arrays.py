"""Arrays are written in the very bytes that zarr writes."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from numpy.typing import NDArray
from zarr.codecs import Crc32cCodec

from hpcdp.errors import DamagedError
from hpcdp.store.arrays import read_array, write_array

TYPES = ("bool", "int8", "uint8", "int16", "uint16", "int32", "int64", "uint64", "float16", "float32", "float64")
SHAPES: tuple[tuple[tuple[int, ...], int | None], ...] = (
    ((), None),
    ((0,), None),
    ((0, 3), 2),
    ((7,), None),
    ((7,), 3),
    ((7, 2), 3),
    ((4, 2, 3), None),
    ((11, 2, 1, 3), 4),
)


def by_zarr(path: Path, array: NDArray[Any], chunk: int | None, names: list[str] | None, attributes: Any) -> None:
    """The same array, written by zarr."""
    shape = array.shape
    rows = max(1, shape[0]) if shape else 1
    inner = min(chunk or rows, rows)
    rest = tuple(max(1, n) for n in shape[1:])
    made: Any = zarr.create_array(
        store=path,
        shape=shape,
        dtype=array.dtype,
        chunks=(inner, *rest) if shape else (),
        shards=(-(-rows // inner) * inner, *rest) if shape and inner < rows else None,
        compressors=[Crc32cCodec()],
        fill_value=np.nan if array.dtype.kind == "f" else 0,
        dimension_names=names,
        attributes=attributes,
        config={"write_empty_chunks": True},
    )
    made[...] = array


def files(path: Path) -> dict[str, bytes]:
    """All files below a folder."""
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


@pytest.mark.parametrize(
    ("dtype", "shape", "chunk"),
    [*((dtype, (7,), 3) for dtype in TYPES), *(("float64", shape, chunk) for shape, chunk in SHAPES)],
)
def test_bytes_are_those_of_zarr(dtype: str, shape: tuple[int, ...], chunk: int | None, tmp_path: Path) -> None:
    values = np.random.default_rng(5).integers(0, 100, shape).astype(dtype)
    for number, array in enumerate(
        (np.asarray(values), np.zeros(shape, dtype), np.asarray(values).T[..., ::-1] if len(shape) > 1 else values)
    ):
        for names, attributes in (
            (None, None),
            ([f"d{i}" for i in range(len(shape))], {"unit": "ε ≤ 1", "flags": [0, 1]}),
        ):
            own, theirs = (tmp_path / f"{who}{number}{names}" for who in ("own", "theirs"))
            write_array(own, array, chunk, names, attributes)
            by_zarr(theirs, array, chunk, names, attributes)
            assert files(own) == files(theirs)
            np.testing.assert_array_equal(np.asarray(zarr.open_array(own, mode="r")[...]), array)
            assert read_array(own, array.shape).dtype == array.dtype


@pytest.mark.parametrize("chunk", [None, 4])
def test_every_changed_byte_is_seen(tmp_path: Path, chunk: int | None) -> None:
    write_array(tmp_path / "a", np.arange(10.0), chunk)
    path = tmp_path / "a" / "c" / "0"
    whole = path.read_bytes()
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(DamagedError, match=r"checksum|elsewhere"):
            read_array(tmp_path / "a")
        path.write_bytes(whole[:place])
        with pytest.raises(DamagedError, match="damaged"):
            read_array(tmp_path / "a")


@pytest.mark.parametrize("chunk", [None, 4])
def test_other_metadata_are_damage(tmp_path: Path, chunk: int | None) -> None:
    """But for names and attributes: a reader that goes by them would take other bytes, or run a codec that they name."""
    write_array(tmp_path / "a", np.arange(10.0), chunk)
    path = tmp_path / "a" / "zarr.json"
    found = json.loads(path.read_text())
    others = {"shape": [3], "data_type": "float32", "fill_value": 0.0, "zarr_format": 2, "node_type": "group"}
    others |= {
        key: [{"name": "other"}] for key in ("chunk_grid", "chunk_key_encoding", "codecs", "storage_transformers")
    }
    assert others.keys() == found.keys() - {"attributes"}
    for key, value in others.items():
        path.write_text(json.dumps({**found, key: value}))
        with pytest.raises(DamagedError):
            read_array(tmp_path / "a")
    path.write_text(json.dumps({**found, "attributes": {"a": 1}, "dimension_names": ["x"]}))
    assert read_array(tmp_path / "a").tolist() == list(range(10))


def test_what_is_there_is_replaced_and_a_parent_is_not_made(tmp_path: Path) -> None:
    write_array(tmp_path / "a", np.arange(5.0), chunk=2)
    write_array(tmp_path / "a", np.arange(6).reshape(2, 3))
    np.testing.assert_array_equal(read_array(tmp_path / "a", (2, 3)), np.arange(6).reshape(2, 3))
    assert set(files(tmp_path / "a")) == {"zarr.json", "c/0/0"}
    with pytest.raises(FileNotFoundError):
        write_array(tmp_path / "gone" / "a", np.arange(5.0))
    assert not (tmp_path / "gone").exists()
