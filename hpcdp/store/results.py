"""The root arrays: derived from the records, written last, opened by xarray; never needed to go on."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from hpcdp._base.files import parse_json, read_bytes
from hpcdp.errors import DamagedError
from hpcdp.keys import digest_array
from hpcdp.store.arrays import read_array, write_array
from hpcdp.store.fence import behind, discard, replace, replacing
from hpcdp.store.layout import VERSION, Generation, Layout
from hpcdp.store.records import put_json, read_json

Arrays = dict[str, tuple[tuple[str, ...], NDArray[Any]]]
"""Results by name: dimension names and values."""

_NAME = re.compile(r"[a-z][a-z_]*")  # of a root array
_ATTRIBUTES: dict[str, dict[str, Any]] = {
    "direction": {"flag_values": [0, 1], "flag_meanings": "forward reverse"},
    "delta": {"long_name": "estimate of delta"},
    "lower": {"long_name": "certified lower bound of delta, finite-sample, simultaneous over all cells"},
    "variational_lower": {
        "long_name": "certified lower bound of Renyi divergences, finite-sample, simultaneous over its own cells only"
    },
    "upper": {"long_name": "approximate upper limit of delta, asymptotic, ignores the classifier's regret"},
}


def write_results(layout: Layout, arrays: Arrays, head: dict[str, Any], generation: Generation) -> None:
    """Replace the root arrays under the fence, the head last; meanwhile the root says complete = 0, and each array is whole."""
    discard(layout, generation, layout.results)
    with behind(layout, generation) as folder:
        folder.mkdir()
        for name, (dims, values) in arrays.items():
            write_array(folder / name, values, names=dims, attributes=_ATTRIBUTES.get(name))
        whole, before = _root(layout, folder, sorted(arrays), head), _metadata(layout.root)
        before["attributes"]["complete"] = 0
        _put_root(layout, before, generation)
        there = [path.name for path in layout.root.iterdir() if _metadata(path).get("node_type") == "array"]
        for name in {*there, *arrays}:
            discard(layout, generation, layout.root / name)
            if name in arrays:
                replace(layout, generation, folder / name, layout.root / name)
        _put_root(layout, whole, generation)
    dims_of = {name: list(dims) for name, (dims, _) in arrays.items()}
    put_json(layout, layout.results, {**head, "arrays": dims_of, "digests": digests_of(arrays)}, generation)


def digests_of(arrays: Arrays) -> dict[str, str]:
    """A digest of each array's values."""
    return {name: digest_array(values) for name, (_, values) in arrays.items()}


def _put_root(layout: Layout, metadata: dict[str, Any], generation: Generation) -> None:
    """Replace the root's metadata."""
    with replacing(layout, generation, layout.root / "zarr.json") as new:
        new.write_text(json.dumps(metadata))


def _metadata(folder: Path) -> dict[str, Any]:
    """What describes an array or a group; empty where that is missing or damaged."""
    try:
        metadata = parse_json(read_bytes(folder / "zarr.json"))
    except (OSError, ValueError):
        return {}
    return metadata if isinstance(metadata, dict) else {}


def _root(layout: Layout, folder: Path, names: list[str], head: dict[str, Any]) -> dict[str, Any]:
    """The root's metadata with the named arrays' own, so that xarray opens them without a walk through all samples."""
    root = _metadata(layout.root)
    attributes = {**root["attributes"], **{key: head[key] for key in ("name", "confidence", "complete")}}
    attributes |= {"hpcdp": VERSION, "complete": int(head["complete"])}  # numbers, which netCDF can hold
    metadata = {name: _metadata(folder / name) for name in names}
    inline = {"kind": "inline", "must_understand": False, "metadata": metadata}
    return {**root, "attributes": attributes, "consolidated_metadata": inline}


def refuse_malformed(record: Path, head: Any) -> None:
    """DamagedError unless a head is made as `write_results` makes it; its names become paths."""
    try:
        named = all(_NAME.fullmatch(name) and isinstance(head["digests"][name], str) for name in head["arrays"])
        dims = all(isinstance(dim, str) for dims in head["arrays"].values() for dim in dims)
        pairs = all(type(entry["pair"]) is int for entry in head["pairs"])
        right = named and dims and pairs and type(head["version"]) is int and isinstance(head["complete"], bool)
    except (AttributeError, KeyError, TypeError):
        right = False
    if not right:
        raise DamagedError(f"the record {record} is damaged (it is no head of results)")


def refuse_misshapen(record: Path, arrays: Arrays, pairs: int) -> None:
    """DamagedError unless the arrays' dimensions fit together, and the number of pairs."""
    lengths = {"pair": pairs, "direction": 2}
    for name, (dims, values) in arrays.items():
        own = dict(zip(dims, values.shape, strict=False))
        if len(dims) != values.ndim or any(lengths.setdefault(dim, n) != n for dim, n in own.items()):
            raise DamagedError(f"{record.parent.parent / name} is damaged: its shape is {values.shape}, of {dims}")
    if not {"epsilon", "delta", "spectrum_delta"} <= arrays.keys():
        raise DamagedError(f"the record {record} is damaged (arrays are missing)")


def read_results(layout: Layout) -> tuple[Arrays, dict[str, Any]] | None:
    """The root arrays and their head, or None when not written yet; DamagedError names what is to be derived again."""
    if not layout.results.is_file():
        return None
    head = read_json(layout.results)
    refuse_malformed(layout.results, head)
    arrays: Arrays = {}
    for name, dims in head["arrays"].items():
        values = read_array(layout.root / name)
        if digest_array(values) != head["digests"][name]:
            raise DamagedError(f"{layout.root / name} is damaged: its values do not match their checksum")
        arrays[name] = (tuple(dims), values)
    refuse_misshapen(layout.results, arrays, len(head["pairs"]))
    # canonical JSON sorts keys; `show` prints the pair's number first, whichever way it got the entry
    head["pairs"] = [{"pair": entry["pair"], **entry} for entry in head["pairs"]]
    return arrays, head
