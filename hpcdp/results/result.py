"""A study's result: cells, spectrum and trade-off points, as Python objects, JSON, a table, an xarray data set."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hpcdp._base.rounding import at_most
from hpcdp._base.terminal import plain
from hpcdp.analytic._curve import DIRECTIONS
from hpcdp.engine.accuracy import Statement
from hpcdp.engine.derived import Records
from hpcdp.engine.method import Method
from hpcdp.errors import StudyError
from hpcdp.results.levels import Level, RenyiLevel, ZcdpLevel, level_at, renyi_levels, zcdp_level
from hpcdp.results.resolution import Resolution, find_resolution
from hpcdp.results.sequential import SequentialAudit, stored_audits, unnamed_looks
from hpcdp.results.shown import Shown
from hpcdp.store.layout import Layout
from hpcdp.store.records import foreign
from hpcdp.store.results import Arrays
from hpcdp.study.claims import Claim, parse_claim
from hpcdp.study.combinations import method_named, name_of_method
from hpcdp.study.file import Study
from hpcdp.study.pairs import LEFT_OUT, describe_pair
from hpcdp.study.reuse import FOLDS
from hpcdp.study.stored import changed_words

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr


@dataclass(frozen=True, eq=False, repr=False)
class Result(Shown):
    """What a store holds.

    arrays: by name, with dimension names. grown: what earlier versions of the study asked for. columns: d of outputs that
    are d numbers each, else None. changed: code that was another when earlier draws of the store were made.
    """

    study: Study
    store: Path
    complete: bool
    pairs: list[dict[str, Any]]
    arrays: Arrays
    grown: list[str]
    columns: int | None = None
    changed: Sequence[str] = ()

    @property
    def name(self) -> str:
        """The study's name."""
        return self.study.name

    @property
    def confidence(self) -> float:
        """Confidence at which all lower bounds hold together."""
        return self.study.estimate.confidence

    @cached_property
    def claim(self) -> Claim | None:
        """The study's claim, if it makes one."""
        text = self.study.study.claim
        return None if text is None else parse_claim(text, self.study.folder)

    @cached_property
    def method(self) -> Method:
        """The method by which its estimates came to be."""
        method: Method = method_named(name_of_method(self.study, is_reused="block_exceed" in self.arrays))
        return method

    @property
    def notions(self) -> tuple[str, ...]:
        """What is read off it where nothing else is asked for: names of `hpcdp.report.notions.NOTIONS`."""
        absent = {"spectrum": not self["epsilon"].size, "tradeoff": "eta" not in self.arrays}
        return tuple(name for name in self.method.notions if not absent.get(name))

    @property
    def heading(self) -> dict[str, Any]:
        """What the JSON object of each notion begins with."""
        return {"name": self.name, "complete": self.complete, "confidence": self.confidence, **self.declared}

    def describe_pair(self, pair: int) -> str:
        """Which pair, and where it comes from; never what is in a row."""
        origin = {k: v for k, v in self.pairs[pair].items() if k not in ("pair", "view")}
        named = [describe_pair(pair, origin)] if "rows" in origin else []
        named += [f"view {self.pairs[pair]['view']}"] if "view" in self.pairs[pair] else []
        return plain(f"pair {pair} ({', '.join(named)})") if named else f"pair {pair}"

    @property
    def declared(self) -> dict[str, str]:
        """What the study declares that D′ cannot output, as JSON has it; empty where it declares nothing."""
        named = self.study.mechanism.impossible
        return {} if named is None else {"impossible": named}

    @property
    def layout(self) -> Layout:
        """Paths of its store; StudyError of an exported copy, which has no records."""
        return Layout(self.store)

    def __repr__(self) -> str:
        state = "complete" if self.complete else "incomplete"
        many = "1 pair" if len(self.pairs) == 1 else f"{len(self.pairs):,} pairs"
        return f"<hpcdp.Result {self.name}: {many}, {self['epsilon'].size} ε, {state}>"

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.arrays[name][1]

    @cached_property
    def data(self) -> xr.Dataset:
        """All arrays with named dimensions (pair, direction, epsilon, eta, order).

        Attributes: name, confidence, complete, and where code changed `warnings`, one a line.
        """
        import xarray as xr

        coordinates: dict[str, Any] = {"pair": np.arange(len(self.pairs)), "direction": list(DIRECTIONS)}
        variables = {k: v for k, v in self.arrays.items() if k not in ("epsilon", "eta", "order", "direction")}
        coordinates |= {k: self[k] for k in ("epsilon", "eta", "order") if k in self.arrays}
        attributes = {"name": self.name, "confidence": self.confidence, "complete": int(self.complete)}
        attributes |= {name: "\n".join(words) for name, words in self.changed_entry.items()}
        return xr.Dataset(variables, coordinates, attributes)

    @cached_property
    def resolution(self) -> Resolution:
        """Which δ̂ are significantly above 0, limits where the largest is not, and warnings."""
        return find_resolution(self.arrays, self.study.estimate, self.method)

    @property
    def warnings(self) -> list[str]:
        """Which δ̂ are not significantly above 0, what would make them so, and what else speaks against the numbers."""
        return [*self.code_warnings, *self.resolution.warnings, *self.method.warnings(self.arrays)]

    @property
    def code_warnings(self) -> list[str]:
        """That numbers may be of code that is there no more, and that draws depend on each other."""
        return [*changed_words(self.changed), *([] if self.depends is None else [self.depends])]

    @property
    def depends(self) -> str | None:
        """That draws depend on each other, which withholds what is certified; None where their order does not say so."""
        if "dependence" not in self.arrays:
            return None
        p = at_most(float(self["dependence"].min()), ".1g")
        return (
            f"draws depend on each other (p ≤ {p}, finite-sample, all tests of their order together): "
            "certified bounds are withheld, and shown as 0 or, of errors, as 1; estimates stay; standard errors, radius, limits "
            "marked * and tests of δ̂ against 0 do not hold"
        )

    @property
    def changed_entry(self) -> dict[str, list[str]]:
        """The same for JSON of which warnings are no part otherwise; empty where there is nothing of it."""
        return {"warnings": self.code_warnings} if self.code_warnings else {}

    def epsilon_at(self, delta: float, alone: bool = False) -> Level:
        """ε at a given δ, from 0 to below 1: the estimate and a certified lower limit; StudyError on any other δ.

        alone: at δ = 0, the limit of a test of its own, which holds together with no limit at another δ.
        """
        return level_at(self.arrays, self.resolution, delta, alone)

    def renyi(self, orders: Sequence[float]) -> list[RenyiLevel]:
        """Rényi divergences of some orders, each at least 1, which is Kullback–Leibler's; StudyError on any other, and
        where no ε are counted."""
        self._refuse_no_cells()
        return renyi_levels(self.arrays, orders)

    def zcdp(self) -> ZcdpLevel:
        """The certified lower bound on ρ of zero-concentrated DP; StudyError where no ε are counted."""
        self._refuse_no_cells()
        return zcdp_level(self.arrays)

    def _refuse_no_cells(self) -> None:
        if not self["epsilon"].size:
            raise StudyError(
                "renyi, zcdp: need counts by ε, and this study has none; accepted: a study with estimate.epsilons"
            )

    def cells(self) -> list[dict[str, Any]]:
        """Every cell that has all its counts, pair by pair, forward before reverse, ε ascending."""
        places = np.nonzero(~np.isnan(self["delta"]))
        columns = {
            "pair": places[0],
            "direction": np.array(DIRECTIONS)[places[1]],
            "epsilon": self["epsilon"][places[2]],
            **{name: self[name][places] for name in ("delta", "lower", "upper", "standard_error")},
            **self.method.all_counts(self.arrays, places),
            "resolved": self.resolution.cells[places],
        }
        if self.study.estimate.certify is not None:
            columns["certified"] = [self.has_bound(place) for place in zip(*places, strict=True)]
        return rows_of(columns)

    def flat_cells(self) -> list[dict[str, Any]]:
        """The same as tables have them: a number a column."""
        cells, method = self.cells(), self.method
        counts = [*method.counts_of(self.arrays, (0, 0, 0))] if cells else []
        return [
            {k: v for k, v in cell.items() if k not in counts}
            | method.columns_of({name: cell[name] for name in counts})
            for cell in cells
        ]

    def has_bound(self, place: Any) -> bool:
        """Whether any of some cells has a bound of its own, as far as a study says which have. place: an index of `level`."""
        every = self.study.estimate.certify is None and self.depends is None
        return every or bool((self["level"][place] > 0.0).any())

    def spectrum(self) -> list[dict[str, Any]]:
        """The maximum over pairs and directions at each ε; what no cell knows yet is left out."""
        names = ["delta", "pair", "direction", "lower", "lower_pair", "lower_direction", "upper"]
        for bound in self.method.further_bounds:
            names += [bound, f"{bound}_pair", f"{bound}_direction"]
        known = np.flatnonzero(~np.isnan(self["spectrum_delta"]))
        columns = {"epsilon": self["epsilon"][known]} | {name: self[f"spectrum_{name}"][known] for name in names}
        columns |= {name: np.array(DIRECTIONS)[columns[name]] for name in names if name.endswith("direction")}
        limits = [self.resolution.limit(column) for column in known.tolist()]
        shown = {**columns, "resolved": self.resolution.rows[known], "limit": limits}
        if self.study.estimate.certify is not None:
            shown["certified"] = [self.has_bound(np.s_[:, :, column]) for column in known]
        return rows_of(shown)

    def tradeoff(self) -> list[dict[str, Any]]:
        """Trade-off points, pair by pair, η ascending."""
        if "eta" not in self.arrays:
            return []
        place = np.nonzero(~np.isnan(self["alpha"]))
        names = ("alpha", "beta", "radius", "alpha_upper", "beta_upper")
        return rows_of({"pair": place[0], "eta": self["eta"][place[1]], **{name: self[name][place] for name in names}})

    @cached_property
    def pure(self) -> dict[str, Any] | None:
        """Pure ε, as `show --pure --format json` prints it: certified (finite-sample) and published (asymptotic).

        None of a study without [pure] and without a loss that bounds pure ε, and while no pair has all its counts.
        """
        return self._summary.get("pure")

    @cached_property
    def risk(self) -> list[dict[str, Any]]:
        """Of a study with [at_risk], what `hpcdp risk` prints of each cover; see there which of it is certified.

        Empty of other studies, and while pairs are missing.
        """
        risk: list[dict[str, Any]] = self._summary.get("risk", [])
        return risk

    @cached_property
    def _summary(self) -> dict[str, Any]:
        return self.method.summary(Records(self.store), self.study, self.arrays, self.pairs_told)

    @property
    def unnamed_looks(self) -> int:
        """How many looks its store has of whose sequential audits it does not say the claim."""
        return unnamed_looks(self.layout)

    @cached_property
    def sequential_audits(self) -> list[SequentialAudit]:
        """The sequential audits of its store that have looked, in the order of their claims; each is a family of its own."""
        with foreign(self.store):
            return stored_audits(self.layout, self.study)

    def accuracy(self) -> list[Statement]:
        """What is stated of δ̂'s accuracy at each ε; see there which of it is heuristic. Nothing of weighted draws."""
        test = int(self["test"].min()) if "test" in self.arrays and self["test"].size else None
        return self.method.state_accuracy(self.study, self.columns, len(self.pairs), test)

    @property
    def pairs_told(self) -> list[dict[str, Any]]:
        """Where its pairs come from, without what an edit sets a row to, which another row may hold."""
        return [{**pair, "value": LEFT_OUT} if "value" in pair else pair for pair in self.pairs]

    def to_dict(self, show_rows: bool = False) -> dict[str, Any]:
        """The object that `show --format json` prints, the same of equal runs. show_rows: with what an edit sets a row to."""
        if "covers" in self.notions:
            return {**self.heading, "risk": self.risk, **self.changed_entry}
        reuse = {"folds": FOLDS, "blocks": self["block_test"].tolist()} if self.method.pools else None
        audits = [audit.to_dict() for audit in self.sequential_audits]
        return {
            "name": self.name,
            "complete": self.complete,
            "confidence": self.confidence,
            "pairs": self.pairs if show_rows else self.pairs_told,
            "cells": self.cells(),
            "spectrum": self.spectrum(),
            "tradeoff": self.tradeoff(),
            "accuracy": [vars(statement) for statement in self.accuracy()],
            "warnings": self.warnings,
            **self.declared,
            **({"reuse": reuse} if reuse else {}),
            **({"pure": self.pure} if {"pure", "interval"} & {*self.notions} else {}),
            **({"sequential_audits": audits} if audits else {}),
        }

    def to_json(self, show_rows: bool = False) -> str:
        """JSON in full precision, infinities as null. show_rows: as `to_dict` has it."""
        return to_json(self.to_dict(show_rows))

    def plot(self, path: str | Path | None = None, log: bool | None = None) -> Any:
        """Draw the spectrum (and trade-off points); returns the matplotlib figure, and writes it when a path is given.

        log: δ on a logarithmic axis; None: of a study with a target, a time or a random tape.
        """
        from hpcdp.report.plots import draw

        return draw(self, path, log)

    def report(self, path: str | Path, show_rows: bool = False) -> None:
        """Write a page (.html) that needs nothing else and may be handed on; equal stores give equal bytes.

        show_rows: what is in the most exposed rows, inline databases and local paths too, all of which are private.
        """
        from hpcdp.report.html.page import write_page

        write_page(self, path, show_rows)

    def to_dataframe(self) -> pd.DataFrame:
        """The cells as a pandas DataFrame, one a row; of a study with [at_risk] its covers, of one without ε its pure ε.

        Where code changed, its `attrs` have `warnings`, a list of texts.
        """
        frame = self._frame()
        frame.attrs |= self.changed_entry
        return frame

    def _frame(self) -> pd.DataFrame:
        import pandas as pd

        if "covers" in self.notions:
            return pd.json_normalize(self.risk)
        if "spectrum" not in self.notions:
            return pd.json_normalize([] if self.pure is None else self.pure["rows"] or [self.pure])
        return pd.DataFrame(self.flat_cells())


def rows_of(columns: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Entries as JSON has them. columns: of one length, lists or arrays."""
    lists = [values.tolist() if isinstance(values, np.ndarray) else values for values in columns.values()]
    return [dict(zip(columns, row, strict=True)) for row in zip(*lists, strict=True)]


def to_json(body: Any) -> str:
    """One line, in full precision, infinities as null."""
    try:
        return json.dumps(body, allow_nan=False, ensure_ascii=False)
    except ValueError:
        return json.dumps(finite(body), allow_nan=False, ensure_ascii=False)


def finite(value: Any) -> Any:
    """As JSON has it: infinities and NaN as null."""
    if isinstance(value, dict):
        return {k: finite(v) for k, v in value.items()}
    if isinstance(value, list):
        return [finite(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
