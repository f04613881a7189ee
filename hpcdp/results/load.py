"""Results read: of a store, from the integer counts of its records alone; of a copy that `hpcdp export` made, without records."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from hpcdp._base.asked import path_of
from hpcdp.engine.accuracy import dimension
from hpcdp.engine.index import Index, read_index
from hpcdp.engine.method import Run, method_of
from hpcdp.errors import StoreError, StudyError
from hpcdp.results.result import Result
from hpcdp.results.sequential import SequentialAudit
from hpcdp.store.layout import EXPORTED, Layout
from hpcdp.store.records import foreign
from hpcdp.store.results import Arrays, refuse_misshapen
from hpcdp.store.root import open_latest
from hpcdp.study.file import Study
from hpcdp.study.problem import Problem
from hpcdp.study.stored import changed_code, history, stored_study
from hpcdp.study.versions import read_problem

FORMAT = 1
"""Version of what an export holds; a copy of another version is refused."""

HEAD, ARRAYS = EXPORTED, "arrays.nc"
"""Files of a copy that are read again; the others are for people and other programs."""

_CERTIFIED = ("level", "lower", "spectrum_lower", "variational_lower", "pure_certified")
_WORST = dict.fromkeys((*_CERTIFIED, "spectrum_lower_pair", "spectrum_lower_direction"), 0) | dict.fromkeys(
    ("radius", "alpha_upper", "beta_upper"), 1
)
_MOST = 1 << 30  # bytes of a file of a copy


@dataclass(frozen=True, eq=False, repr=False)
class Exported(Result):
    """A result from a copy. address: of the copy. head: what `export.json` holds. `store` stands for the store in commands."""

    address: str = ""
    head: Mapping[str, Any] = field(default_factory=dict)

    @property
    def layout(self) -> Layout:
        """There is none: StudyError."""
        raise StudyError(
            f"{self.address} is an exported copy, without samples, records and databases, which this needs; accepted: its store"
        )

    @property
    def unnamed_looks(self) -> int:
        """A copy holds none."""
        return 0

    @cached_property
    def sequential_audits(self) -> list[SequentialAudit]:
        """As they were when the copy was made; those of an earlier hpcdp hold none."""
        with foreign(self.address):
            return [SequentialAudit.from_copy(self.study, body) for body in self.head.get("sequential_audits", [])]

    @property
    def pure(self) -> dict[str, Any] | None:
        """As it was when the copy was made."""
        return self.head["pure"]


def load_result(place: str | Path) -> Result:
    """The result of a store as it is now, or of an exported copy.

    Args:
        place: the folder of a store or of a copy, or the address of a copy as fsspec knows them, such as https://…/NAME.

    Raises:
        StudyError, StoreError: there is neither, or it cannot be read. Nothing in it is run, whoever wrote it.
    """
    if isinstance(place, str) and "://" in place:
        return _read_copy(str(place))
    folder = path_of("place", place)
    return _read_copy(str(place)) if (folder / HEAD).is_file() else load_store(folder)


def _read_copy(address: str) -> Exported:
    head = _parse(address, _read(address, HEAD))
    data = _read(address, ARRAYS)
    if hashlib.sha256(data).hexdigest() != head["digests"][ARRAYS]:
        raise StoreError(f"{address}/{ARRAYS} is damaged: its bytes do not match their digest")
    with foreign(address):
        arrays = _arrays(data, head["arrays"])
        refuse_misshapen(Path(HEAD), arrays, len(head["pairs"]))
        study = Study.from_dict(head["study"])
        return Exported(
            study,
            Path("STORE"),
            head["complete"],
            head["pairs"],
            arrays,
            head["grown"],
            head["columns"],
            [str(words) for words in head.get("changed", ())],
            address,
            head,
        )


def _parse(address: str, data: bytes) -> dict[str, Any]:
    try:
        head = json.loads(data)
        version = head["hpcdp_export"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise StoreError(f"{address}/{HEAD} is no head of an exported copy") from None
    if version != FORMAT:
        raise StoreError(f"{address} is a copy of format {version!r}; this hpcdp reads format {FORMAT}")
    names = {"study", "complete", "pairs", "arrays", "digests", "grown", "columns", "pure", "provenance"}
    if missing := sorted(names - head.keys()):
        raise StoreError(f"{address}/{HEAD} is damaged: {', '.join(missing)} missing")
    return dict(head)


def _read(address: str, name: str) -> bytes:
    """A file of a copy; one readable error where it cannot be had."""
    import fsspec

    where = f"{address.rstrip('/')}/{name}"
    try:
        with fsspec.open(where, "rb") as handle:
            data = bytes(handle.read(_MOST + 1))
    except ImportError as error:
        raise StudyError(f"{where}: {error}; for http:// and https:// install hpcdp[http]") from None
    except FileNotFoundError as error:
        if isinstance(error.__cause__, OSError):  # of http, where no server answers
            raise StoreError(f"{where}: cannot be reached: {error.__cause__}") from None
        raise StudyError(
            f"no exported copy at {address}: it has no {name}; a store is read by its path, copies are made by hpcdp export"
        ) from None
    except Exception as error:  # of whatever library serves the address
        raise StoreError(f"{where}: {type(error).__name__}: {error}") from None
    if len(data) > _MOST:
        raise StoreError(f"{where} has more than {_MOST:,} bytes, which no export has")
    return data


def _arrays(data: bytes, described: Mapping[str, Any]) -> Arrays:
    """Arrays with the dimensions and types that they had in the store."""
    import xarray as xr

    arrays: Arrays = {}
    with xr.open_dataset(io.BytesIO(data), engine="scipy", decode_cf=False) as stored:
        for name, (dims, dtype, shape) in described.items():
            if np.dtype(dtype).kind not in "biuf":
                raise ValueError(f"{name}: of type {dtype}")
            values = np.empty(shape, dtype) if 0 in shape else stored[name].values.astype(dtype)
            if values.shape != tuple(shape):
                raise ValueError(f"{name}: of shape {values.shape}, not {shape}")
            arrays[name] = (tuple(dims), values)
    return arrays


def load_store(store: str | Path) -> Result:
    """The result of a store as it is now, derived from its records; whoever wrote it, nothing in it is run."""
    with foreign(store):
        layout, version = open_latest(store)
        problem, index = read_problem(layout, version), read_index(layout)
        return make_result(
            layout, version, problem, assemble(problem, index), method_of(problem).is_done(problem, index)
        )


def make_result(layout: Layout, version: int, problem: Problem, arrays: Arrays, complete: bool) -> Result:
    """The result of one version of a store's study. arrays: what `assemble` makes of its records."""
    study, versions = stored_study(layout, version), history(layout)
    earlier = [words for words in dict.fromkeys(versions) if words != versions[-1]]
    columns, changed = dimension(problem.schema), changed_code(layout, study)
    return Result(study, layout.root, complete, pair_entries(problem), arrays, earlier, columns, changed)


def assemble(problem: Problem, index: Index, run: Run | None = None) -> Arrays:
    """All result arrays of a store's records; cells that lack counts hold NaN and −1. run: what computes bounds, elsewhere."""
    epsilons = np.asarray(problem.study.epsilons, np.float64)
    arrays: Arrays = {"epsilon": (("epsilon",), epsilons), "direction": (("direction",), np.array([0, 1], np.int8))}
    arrays |= method_of(problem).arrays(problem, index, epsilons, method_of(problem).bounds if run is None else run)
    if "dependence" in arrays:  # bounds that certify nothing in the place of those that rest on independent draws
        for name in _WORST.keys() & arrays.keys():
            dims, values = arrays[name]
            arrays[name] = dims, np.where(np.isnan(values), values, values.dtype.type(_WORST[name]))
    return arrays


def pair_entries(problem: Problem) -> list[dict[str, Any]]:
    """Where each pair comes from, as `show` prints it; none of a domain."""
    if problem.study.pairs.domain is not None:
        return []
    compares = problem.study.at_risk is None  # else its one distribution stands for D and D′
    return [
        {"pair": pair.number, **pair.origin, **({"equal": True} if d == d_prime and compares else {})}
        for pair, (d, d_prime) in zip(problem.pairs, problem.pair_laws, strict=True)
    ]
