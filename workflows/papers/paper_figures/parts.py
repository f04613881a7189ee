"""A part of a figure: one study, its kept result, and the exact curves of its pairs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hpcdp.analytic import Curve, exact, noiseless_count
from hpcdp.notions.accuracy import bayes_error
from hpcdp.study.databases import enumerate_pairs, load_databases
from hpcdp.study.distributions import Conditional, load_distributions
from hpcdp.study.file import Study

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Part:
    """One study of a figure.

    key: its name in the result file, in the names of its study and store; empty where the figure has one part. label: in
    the legend. changes: what it changes in the figure's study file, by dotted key ("mechanism.parameters"). Of spectra:
    regret, how far the classifier may be below the best one, as (up to which ε, allowance in δ), ascending; exposed,
    whether the certified bound must be above 0 at the nominal ε (True: faulty) or must not (False: correct), None: not
    asked; nominal, that ε.
    """

    key: str
    label: str
    regret: tuple[tuple[float, float], ...] = ()
    exposed: bool | None = None
    nominal: float = 1.0
    changes: Mapping[str, Any] = field(default_factory=dict)

    def allowance(self, epsilon: Floats) -> Floats:
        """The allowance for regret at each ε."""
        found = np.zeros(epsilon.shape)
        for most, allowed in reversed(self.regret):
            found = np.where(epsilon <= most, allowed, found)
        return found


@dataclass(frozen=True, eq=False)
class Found:
    """A part with its study and what came out.

    result: as `hpcdp show --format json` prints it, or what the figure's method makes. fit: as `verify` ranks claims.
    """

    part: Part
    study: Study
    result: Mapping[str, Any]
    fit: Mapping[str, Any] | None = None

    @property
    def test(self) -> int:
        """Test samples per database."""
        return self.study.estimate.test

    @cached_property
    def epsilon(self) -> Floats:
        """Levels of the spectrum, ascending."""
        return self.column("epsilon")

    def column(self, name: str) -> Floats:
        """delta, lower or upper of the spectrum, the largest over pairs and directions, at each ε."""
        return np.array([row[name] for row in self.result["spectrum"]], np.float64)

    @cached_property
    def resolved(self) -> NDArray[np.bool_]:
        """Which δ̂ of the spectrum are significantly above 0; of results that do not say so, those above 0."""
        return np.array([row.get("resolved", row["delta"] > 0.0) for row in self.result["spectrum"]], np.bool_)

    @cached_property
    def limits(self) -> Floats:
        """What the learned sets leave where δ̂ is not significantly above 0; of results that do not say so, `upper`."""
        found = [row.get("limit", row["upper"]) for row in self.result["spectrum"]]
        return np.array(found, np.float64)  # None, where δ̂ is significantly above 0, is a NaN

    @cached_property
    def curves(self) -> list[Curve]:
        """The exact pair of every pair of the study."""
        return exact_curves(self.study)

    def exact(self, epsilon: ArrayLike) -> Floats:
        """The exact spectrum, the largest over pairs and directions, shape of ε."""
        return np.asarray(np.max([curve.spectrum(epsilon) for curve in self.curves], axis=0))

    @cached_property
    def cells(self) -> list[dict[str, Any]]:
        """Every entry with its exact δ and the standard error of the Bayes classifier."""
        found = []
        for cell in self.result["cells"]:
            truth = float(self.curves[cell["pair"]].delta(cell["epsilon"], cell["direction"]))
            error = float(bayes_error(cell["epsilon"], truth, 2 * self.test))
            found.append({**cell, "exact": truth, "error": error})
        return found

    @cached_property
    def error(self) -> Floats:
        """Standard error of the Bayes classifier at the exact spectrum, at each ε of the spectrum."""
        return bayes_error(self.epsilon, self.exact(self.epsilon), 2 * self.test)


def exact_curves(study: Study) -> list[Curve]:
    """The exact pair of every pair of a study.

    Raises:
        ValueError: one has none.
    """
    found = []
    for pair in enumerate_pairs(study, load_databases(study), load_distributions(study)):
        curve: Curve | None
        if isinstance(pair.d, Conditional) or isinstance(pair.d_prime, Conditional):
            curve = _coins(pair.d, pair.d_prime)
        else:
            curve = exact(str(study.mechanism.call), study.mechanism.parameters, pair.d, pair.d_prime)
        if curve is None:
            raise ValueError(f"{study.name}: no exact curve is known of one of its pairs")
        found.append(curve)
    return found


def _coins(first: Any, second: Any) -> Curve:
    """How many of n fair coins show heads when one of them is held at heads (first) or tails.

    Raises:
        ValueError: the values are not heads and tails, in this order.
    """
    if (first.value, second.value) != (1, 0):
        raise ValueError(f"values: {first.value}, {second.value} was given; accepted: 1, 0")
    return noiseless_count(first.distribution.rows, 0.5)
