"""The root arrays: derived from the records, written last, opened by xarray; never needed to go on."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hpcdp.assemble import Arrays
from hpcdp.errors import DamagedError
from hpcdp.keys import digest_array
from hpcdp.store._zarr import zarr
from hpcdp.store.arrays import read_array, write_array
from hpcdp.store.layout import Layout
from hpcdp.store.records import check_generation, read_json, write_json

_NAME = re.compile(r"[a-z][a-z_]*")  # of a root array
_ATTRIBUTES: dict[str, dict[str, Any]] = {
    "direction": {"flag_values": [0, 1], "flag_meanings": "forward reverse"},
    "delta": {"long_name": "estimate of delta"},
    "lower": {"long_name": "certified lower bound of delta, finite-sample, simultaneous over all cells"},
    "upper": {"long_name": "approximate upper limit of delta, asymptotic, ignores the classifier's regret"},
}


def write_results(layout: Layout, arrays: Arrays, head: dict[str, Any], generation: int) -> None:
    """Replace the root arrays, then the record that says they are whole. head: study version, complete, pairs and so on."""
    record = layout.root / "records" / "results.json"
    check_generation(layout, generation)
    record.unlink(missing_ok=True)
    _consolidate(layout, ())  # before the arrays change, so that nothing describes arrays that are gone
    group = zarr.open_group(str(layout.root), mode="r+", zarr_format=3, use_consolidated=False)
    for old in list(layout.root.iterdir()):
        if (old / "zarr.json").is_file() and old not in layout.groups and old.name not in arrays:
            del group[old.name]
    for name, (dims, values) in arrays.items():
        write_array(layout.root / name, values, names=dims, attributes=_ATTRIBUTES.get(name))
    group.attrs.update({key: head[key] for key in ("name", "confidence", "complete")})
    digests = {name: digest_array(values) for name, (_, values) in arrays.items()}
    _consolidate(layout, arrays)
    dims_of = {name: list(dims) for name, (dims, _) in arrays.items()}
    write_json(record, {**head, "arrays": dims_of, "digests": digests})


def _consolidate(layout: Layout, names: Iterable[str]) -> None:
    """Put the metadata of the named root arrays into the root's own, so that xarray opens them without a search.

    Only these: zarr's own function would walk through all samples.
    """
    path = layout.root / "zarr.json"
    root = json.loads(path.read_text())
    metadata = {name: json.loads((layout.root / name / "zarr.json").read_text()) for name in sorted(names)}
    root["consolidated_metadata"] = {"kind": "inline", "must_understand": False, "metadata": metadata}
    if not metadata:
        del root["consolidated_metadata"]
    temporary = path.with_name(f".zarr.json.{os.getpid()}")
    temporary.write_text(json.dumps(root))
    os.replace(temporary, path)


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
    """The root arrays and their head, or None when they were not written yet.

    Raises DamagedError naming what is not whole: derive the arrays again from the records.
    """
    record = layout.root / "records" / "results.json"
    if not record.is_file():
        return None
    head = read_json(record)
    refuse_malformed(record, head)
    arrays: Arrays = {}
    for name, dims in head["arrays"].items():
        values = read_array(layout.root / name)
        if digest_array(values) != head["digests"][name]:
            raise DamagedError(f"{layout.root / name} is damaged: its values do not match their checksum")
        arrays[name] = (tuple(dims), values)
    refuse_misshapen(record, arrays, len(head["pairs"]))
    # canonical JSON sorts keys; `show` prints the pair's number first, whichever way it got the entry
    head["pairs"] = [{"pair": entry["pair"], **entry} for entry in head["pairs"]]
    return arrays, head
