"""Figures 4, 5 and 12: audits of true and of false claims, each under many seeds, and one of each through a store."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from fdp.figures.curves import thin
from fdp.figures.direct import PROCEDURES, audit_box, count_violations, with_sizes
from paper_figures.figure import Check
from paper_figures.methods import Place
from paper_figures.parts import Found, Part
from paper_figures.pictures import markdown
from paper_figures.seeds import over_seeds

from hpcdp.losses.counts import audit_etas
from hpcdp.study.claims import parse_claim
from hpcdp.study.file import Study

SHOWN = ("published", "exact")
"""Procedures whose confidence rectangles are in the pictures."""

NAMES = {"published": "as published", "hoeffding": "Hoeffding", "exact": "exact limits"}
_DEVIATIONS = 4.0


@dataclass(frozen=True)
class Audits:
    """Audits of the study's claim about (D, D′), of so many seeds, at each of some sizes (n₁, n₂) and γ.

    small, paper: the sizes. seeds, paper_seeds: audits of each of them.
    """

    small: tuple[tuple[int, int], ...]
    paper: tuple[tuple[int, int], ...]
    gammas: tuple[float, ...] = (0.05,)
    seeds: int = 400
    paper_seeds: int = 1000

    def run(self, part: Part, study: Study, place: Place, paper: bool) -> Found:
        """How many audits find a violation, by each procedure; and one audit of each kind for the picture."""
        seeds, sizes = (self.paper_seeds, self.paper) if paper else (self.seeds, self.small)
        study = _with_etas(study)
        cells, shown = [], []
        for size in sizes:
            sized = with_sizes(study, *size)
            found = np.sum(over_seeds(place, sized, seeds, count_violations, self.gammas), axis=0)
            for gamma, counts in zip(self.gammas, found.tolist(), strict=True):
                cell = {"train": size[0], "test": size[1], "gamma": gamma}
                cells.append(cell | dict(zip(PROCEDURES, counts, strict=True)))
                shown.append(cell | _show(study, size, gamma, place))
        return Found(part, study, {"name": study.name, "seeds": seeds, "cells": cells, "shown": shown})

    def sizes(self, found: Sequence[Found]) -> str:
        """All of them."""
        words = " or ".join(f"{train:,} for training and {test:,} for testing" for train, test in self.small)
        seed = found[0].study.study.seed
        return f"Samples per database: {words}; {self.seeds} audits each, and one of seed {seed} in the picture."


def _with_etas(study: Study) -> Study:
    """The study with the thresholds that `hpcdp audit` gives one that has none."""
    return study.model_copy(update={"estimate": study.estimate.model_copy(update={"etas": audit_etas()})})


def _show(study: Study, size: tuple[int, int], gamma: float, place: Place) -> dict[str, Any]:
    """An audit of the study's own seed, through a store, as `hpcdp audit` does it."""
    train, test = size
    result = place.run(with_sizes(study, train, test, 1.0 - gamma), f"{study.name}-{train}-{test}-{gamma:g}")
    claim = parse_claim(str(study.study.claim), study.folder)
    boxes = {procedure: _corners(audit_box(result, claim, procedure)) for procedure in SHOWN}
    return {"curve": thin(result["training_alpha"][0], result["training_beta"][0])} | boxes


def _corners(box: Mapping[str, Any]) -> dict[str, Any]:
    return {name: box[name] for name in ("eta", "alpha", "beta", "alpha_upper", "beta_upper", "violated")}


def _share(count: int, seeds: int) -> str:
    return f"{100 * count / seeds:.1f} %"


def few_false_alarms(found: Sequence[Found]) -> list[Check]:
    """Of audits of a true claim at most γ find a violation, by 4 standard deviations of a binomial number."""
    checks = []
    for one in found:
        seeds = one.result["seeds"]
        for procedure in PROCEDURES:
            passed, words = True, []
            for cell in one.result["cells"]:
                expected = seeds * cell["gamma"]
                most = expected + _DEVIATIONS * np.sqrt(expected * (1.0 - cell["gamma"]))
                passed &= bool(cell[procedure] <= most)
                words.append(f"{cell[procedure]} of {seeds} at n₂ = {cell['test']:,}")
            gammas = " or ".join(f"{100 * g:g} %" for g in dict.fromkeys(cell["gamma"] for cell in one.result["cells"]))
            rule = f"{one.part.label}, {NAMES[procedure]}: false alarms in at most {gammas} of audits (binomial 4σ)"
            checks.append(Check(rule, passed, ", ".join(words)))
    return checks


def all_detected(test: Mapping[str, Sequence[int]]) -> Callable[[Sequence[Found]], list[Check]]:
    """A rule: every audit of a false claim finds it, by every procedure, at these n₂ by part."""

    def check(found: Sequence[Found]) -> list[Check]:
        checks = []
        for one in found:
            cells = [cell for cell in one.result["cells"] if cell["test"] in test[one.part.key]]
            seeds = one.result["seeds"]
            least = min(cell[procedure] for cell in cells for procedure in PROCEDURES)
            at = " and ".join(f"{n:,}" for n in test[one.part.key])
            rule = f"{one.part.label}: every audit finds the violation at n₂ = {at}, by every procedure"
            checks.append(Check(rule, bool(cells) and least == seeds, f"at least {least} of {seeds}"))
        return checks

    return check


def rarely_detected(key: str, test: int, band: tuple[float, float]) -> Callable[[Sequence[Found]], list[Check]]:
    """A rule: the published procedure finds a part's violation in a share of audits within the band (binomial 4σ)."""

    def check(found: Sequence[Found]) -> list[Check]:
        (one,) = (one for one in found if one.part.key == key)
        (cell,) = (cell for cell in one.result["cells"] if cell["test"] == test)
        seeds, low, high = one.result["seeds"], *band
        least, most = (share * seeds for share in band)
        least -= _DEVIATIONS * np.sqrt(least * (1.0 - low))
        most += _DEVIATIONS * np.sqrt(most * (1.0 - high))
        rule = (
            f"{one.part.label}: at n₂ = {test:,} the published procedure finds it in {100 * low:g} to {100 * high:g} % "
            "of audits (binomial 4σ)"
        )
        seen = f"{cell['published']} of {seeds}"
        return [Check(rule, bool(least <= cell["published"] <= most), seen)]

    return check


def tighter_is_no_worse(found: Sequence[Found]) -> list[Check]:
    """Hoeffding's one-sided limits find as many violations as the published rectangle, and exact limits as many as these."""
    checks = []
    for one in found:
        passed = all(cell["published"] <= cell["hoeffding"] <= cell["exact"] for cell in one.result["cells"])
        least = min(one.result["cells"], key=lambda cell: int(cell["published"]))
        counts = ", ".join(f"{NAMES[procedure]} {least[procedure]}" for procedure in PROCEDURES)
        rule = f"{one.part.label}: hpcdp's procedures find it at least as often, exact limits most often"
        seen = f"of {one.result['seeds']} audits, where it is hardest (n₁ = {least['train']:,}, n₂ = {least['test']:,}): {counts}"
        checks.append(Check(rule, passed, seen))
    return checks


def audit_table(found: Sequence[Found]) -> list[str]:
    """The share of audits that found a violation, by each procedure."""
    rows = []
    for one in found:
        seeds = one.result["seeds"]
        for cell in one.result["cells"]:
            numbers = [f"{cell['train']:,}", f"{cell['test']:,}", f"{cell['gamma']:g}"]
            rows.append([one.part.label, *numbers, *(_share(cell[procedure], seeds) for procedure in PROCEDURES)])
    return markdown(["claim", "n₁", "n₂", "γ", *(NAMES[procedure] for procedure in PROCEDURES)], rows)
