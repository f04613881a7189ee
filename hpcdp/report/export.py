"""A store's results for other programs and other people: NetCDF, Parquet, JSON and a page, without samples and databases."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hpcdp._base.files import replaced
from hpcdp.errors import StudyError
from hpcdp.report.html.page import write_page
from hpcdp.report.html.provenance import provenance_of, reads_files, redacted, short_claim
from hpcdp.results.load import ARRAYS, FORMAT, HEAD
from hpcdp.results.result import Result, finite
from hpcdp.study.file import Study

if TYPE_CHECKING:
    import xarray as xr

NO_PARQUET = "no Parquet: it needs pyarrow; install hpcdp[parquet] and export again"
_LARGEST = 2**31 - 1  # an integer of NetCDF 3


def write_export(result: Result, folder: str | Path, show_rows: bool = False) -> list[str]:
    """Write results into a new, empty or earlier copy; what was left out, in words. show_rows: with what is private."""
    target = Path(folder)
    _ = result.layout  # a copy is copied as files are
    if target.is_dir() and any(target.iterdir()) and not (target / HEAD).is_file():
        raise StudyError(
            f"FOLDER: a new one, an empty one or an earlier export; given: {target}, which holds other files"
        )
    provenance = provenance_of(result, show_rows)  # before anything is written: it reads the store
    shown = result
    if not show_rows:  # without what an edit sets a row to, and with claims as they may be handed on
        shown = replace(result, pairs=result.pairs_told)
        audits = [replace(audit, claim=short_claim(audit.claim)) for audit in result.sequential_audits]
        shown.__dict__.update(resolution=result.resolution, sequential_audits=audits)
    target.mkdir(parents=True, exist_ok=True)
    for old in [target / HEAD, *target.glob("by-*.parquet")]:
        old.unlink(missing_ok=True)
    dataset = shown.data.drop_vars([name for name, values in shown.data.variables.items() if not values.size])
    _write(target / ARRAYS, _netcdf(dataset, shown))
    _write(target / "result.json", (shown.to_json(show_rows) + "\n").encode())
    claim = result.study.study.claim
    words = []
    if claim is not None and reads_files(claim):
        words = [f"no claim: {short_claim(claim)} names what the copy does not hold; report.html has been judged by it"]
    left_out = [*_write_parquet(dataset, target), *words]
    write_page(result, target / "report.html", show_rows)
    _write(target / HEAD, _head(result, shown, provenance, show_rows, target))
    return left_out


def _head(result: Result, shown: Result, provenance: dict[str, Any], show_rows: bool, target: Path) -> bytes:
    study, _ = (result.study.to_dict(), []) if show_rows else redacted(result.study.to_dict())
    claim = study["study"].get("claim")
    if claim is not None and reads_files(claim):  # whoever reads the copy has not what it names
        study["study"]["claim"] = None
    Study.from_dict(study)
    head = {
        "hpcdp_export": FORMAT,
        "study": study,
        "complete": result.complete,
        "pairs": shown.pairs,
        "grown": result.grown,
        "changed": list(result.changed),
        "columns": result.columns,
        "pure": finite(shown.pure),
        "sequential_audits": [audit.to_copy() for audit in shown.sequential_audits],
        "provenance": provenance,
        "arrays": {
            name: [list(dims), values.dtype.str, list(values.shape)] for name, (dims, values) in result.arrays.items()
        },
        "digests": {
            path.name: hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(target.iterdir())
            if path.is_file() and path.name != HEAD
        },
    }
    return (json.dumps(head, allow_nan=False, ensure_ascii=False, indent=1) + "\n").encode()


def _write(path: Path, data: bytes) -> None:
    with replaced(path) as new:
        new.write_bytes(data)


def _netcdf(dataset: xr.Dataset, result: Result) -> bytes:
    """NetCDF 3, which scipy writes: a count beyond its integers is a float, exact up to 2^53. Nothing is empty in it."""
    held = dataset.assign_coords(direction=result["direction"].astype(np.int8))
    for name, values in held.variables.items():
        if values.dtype.kind in "iu" and values.size and int(np.abs(values).max()) > _LARGEST:
            held[name] = held[name].astype(np.float64)
    held["direction"].attrs = {"flag_values": np.array([0, 1], np.int8), "flag_meanings": "forward reverse"}
    return bytes(held.to_netcdf(engine="scipy", format="NETCDF3_64BIT"))


def _write_parquet(dataset: xr.Dataset, target: Path) -> list[str]:
    """A table for each set of dimensions, with the dataset's warnings as metadata; what could not be written, in words."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as parquet
    except ImportError:
        return [NO_PARQUET]
    warned = {name: words for name, words in dataset.attrs.items() if name == "warnings"}
    groups: dict[tuple[str, ...], list[Any]] = {}
    for name, values in dataset.data_vars.items():
        groups.setdefault(tuple(map(str, values.dims)), []).append(name)
    for dims, names in groups.items():
        table = pa.Table.from_pandas(dataset[names].to_dataframe().reset_index(), preserve_index=False)
        with replaced(target / f"by-{'-'.join(dims)}.parquet") as new:
            parquet.write_table(table.replace_schema_metadata(warned or None), new)
    return []
