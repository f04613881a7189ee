"""Every figure: its studies, what must hold, how it is drawn, what its table shows."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import inf
from pathlib import Path

from eureka.figures.accuracy import alpha_table, draw_alpha, draw_errors, error_table, errors_in_band, formulas_agree
from eureka.figures.close import draw_close, draw_fits, fit_table, true_fits_best
from eureka.figures.coins import draw_rows, rows_table
from eureka.figures.rules import bounds_hold, exposed, near_exact
from eureka.figures.shapes import (
    curves_cross,
    directions_table,
    draw_directions,
    draw_loose,
    draw_two_pairs,
    loose_is_above,
    uniform_pair_misleads,
)
from eureka.figures.spectra import draw_spectra, spectrum_table
from paper_figures.figure import Figure, Paper
from paper_figures.methods import Once, Repeated
from paper_figures.parts import Part


def _regret(value: float) -> tuple[tuple[float, float], ...]:
    return ((inf, value),)


LAPLACE_REGRET = ((0.5, 0.004), (inf, 0.015))
ESTIMATES = (near_exact, bounds_hold)
CLOSE = ("laplace(epsilon=0.999)", "laplace(epsilon=1)", "laplace(epsilon=1.001)")
CLOSE_PARTS = tuple(
    Part(
        key, f"ε₀ = {level:g}", LAPLACE_REGRET, changes={"mechanism.parameters.epsilon": level} if level != 1.0 else {}
    )
    for key, level in (("below", 0.999), ("equal", 1.0), ("above", 1.001))
)
MANY_TESTS = {
    "estimate.train": 8_388_608,
    "estimate.test": 268_435_456,
    "estimate.chunk": 4_194_304,
    "estimate.epsilons": [0.5],
}
MOST_PARTS = tuple(replace(part, changes={**part.changes, **MANY_TESTS}) for part in CLOSE_PARTS)

TEN_MILLION = {"estimate.train": 10_000_000, "estimate.test": 10_000_000, "estimate.chunk": 1_000_000}
LARGEST = {"estimate.train": 1 << 26, "estimate.test": 1 << 26, "estimate.chunk": 1 << 22}
NETWORK = {
    "estimate.train": 10_000_000,
    "estimate.test": 1_000_000,
    "estimate.chunk": 100_000,
    "estimate.parameters.options": {"hidden_layer_sizes": [128] * 8},
}
"""Sizes of the paper."""

ONE_COORDINATE = {"pairs.given": [{"d": [0.0] * 50, "d_prime": [1.0] + [0.0] * 49}]}
UNIT = {"estimate.epsilons": {"start": 0.0, "stop": 1.0, "count": 21}}
ONE = {
    "study.claim": "dp(epsilon=1)",
    "mechanism.parameters.epsilon": 1.0,
    "estimate.epsilons": {"start": 0.0, "stop": 1.0, "count": 11},
}
_D = [-1] * 12 + [0] * 12 + [-1] * 8 + [0] * 8
CROSSED = {"pairs.given": [{"d": _D, "d_prime": [-1 - answer for answer in _D]}]}
UNIFORM = {"pairs.given": [{"d": [0] * 40, "d_prime": [-1] * 40}]}
SHORT = {"pairs.given": [{"d": [-1] + [0] * 7, "d_prime": [0] + [-1] * 7}]}
VALUE = {
    "pairs.given": [{"d": [1] * 4, "d_prime": [0] * 4}],
    "estimate.loss": "knn",
    "estimate.parameters": {"k": "10sqrt"},
}
"""What parts change in the study of their figure: of the databases, or of how an output that is a number is learned."""


def _variant(value: int | str) -> dict[str, int | str]:
    return {"mechanism.parameters.variant": value}


_FIGURES = (
    Figure(
        "fig4a",
        "the Laplace mechanism, ε₀ = 1",
        (Part("", "Laplace, ε₀ = 1", LAPLACE_REGRET),),
        ESTIMATES,
        partial(draw_spectra, title="Fig. 4a: Laplace mechanism, ε₀ = 1"),
        partial(spectrum_table, levels=(0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.95)),
        large={**TEN_MILLION, "estimate.epsilons": {"start": 0.01, "stop": 0.95, "count": 60}},
    ),
    Figure(
        "fig4b",
        "the Gaussian mechanism, (1, 10⁻⁵)",
        (Part("", "Gaussian, (1, 10⁻⁵)", _regret(0.004)),),
        ESTIMATES,
        partial(draw_spectra, title="Fig. 4b: Gaussian mechanism, (ε₀, δ₀) = (1, 10⁻⁵)"),
        partial(spectrum_table, levels=(0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5)),
        large={**TEN_MILLION, "estimate.epsilons": {"start": 0.01, "stop": 0.95, "count": 60}},
    ),
    Figure(
        "fig4c",
        "what the theorem states of the accuracy",
        (
            Part(
                "",
                "Laplace, ε₀ = 1, k = √n",
                LAPLACE_REGRET,
                changes={"estimate.parameters.k": "sqrt", "estimate.epsilons": [0.0, 0.25, 0.5, 0.75]},
            ),
        ),
        (formulas_agree, *ESTIMATES),
        draw_alpha,
        alpha_table,
        study="fig10",
        large=LARGEST,
    ),
    Figure(
        "fig4d",
        "the error that is seen, against the number of samples",
        (
            Part("literal", "Figure 1 to the letter"),
            Part("counts", "P and Q counted one by one", changes={"estimate.loss": "knn"}),
        ),
        (errors_in_band,),
        draw_errors,
        error_table,
        Repeated(tuple(range(1, 65)), (1 << 12, 1 << 14, 1 << 16, 1 << 18), tuple(1 << n for n in range(12, 25, 2))),
        large={"estimate.train": 1 << 22, "estimate.test": 1 << 22, "estimate.chunk": 1 << 20},
    ),
    Figure(
        "fig5a",
        "the exponential mechanism, both directions",
        (Part("", "exponential mechanism", _regret(0.001)),),
        ESTIMATES,
        draw_directions,
        directions_table,
        large=TEN_MILLION,
    ),
    Figure(
        "fig5b",
        "Gaussian noise in 50 dimensions, by a neural network",
        (
            Part("spread", "all coordinates by 1/√50", _regret(0.01)),
            Part("first", "one coordinate by 1", _regret(0.01), changes=ONE_COORDINATE),
        ),
        ESTIMATES,
        partial(draw_spectra, title="Fig. 5b: Gaussian (1, 10⁻⁵) in 50 dimensions, neural network"),
        partial(spectrum_table, levels=(0.0, 0.1, 0.2, 0.3)),
        large=NETWORK,
    ),
    Figure(
        "fig5c",
        "Laplace noise in 50 dimensions, by a neural network",
        (
            Part("spread", "all coordinates by 1/50", _regret(0.01)),
            Part(
                "first",
                "one coordinate by 1",
                _regret(0.01),
                changes={**ONE_COORDINATE, "estimate.epsilons": {"start": 0.0, "stop": 0.9, "count": 10}},
            ),
        ),
        ESTIMATES,
        partial(draw_spectra, title="Fig. 5c: Laplace of scale 1 in 50 dimensions, neural network"),
        partial(spectrum_table, levels=(0.0, 0.01, 0.05, 0.1, 0.11, 0.15, 0.3, 0.5, 0.7, 0.9)),
        large=NETWORK,
    ),
    Figure(
        "fig6a",
        "the textbook curve of the Gaussian mechanism against the exact one",
        (
            Part(
                "", "Gaussian, (1, 10⁻⁵)", _regret(0.004), changes={"study.claim": "dp(epsilon=1, delta=1e-5)", **UNIT}
            ),
        ),
        (loose_is_above, *ESTIMATES),
        draw_loose,
        partial(spectrum_table, levels=(0.0, 0.1, 0.2, 0.3, 0.4, 0.5)),
        study="fig4b",
        large={**TEN_MILLION, "estimate.epsilons": {"start": 0.0, "stop": 1.0, "count": 61}},
    ),
    Figure(
        "fig6b",
        "Laplace against Gaussian noise",
        (
            Part("laplace", "Laplace, ε₀ = 1", LAPLACE_REGRET, changes=UNIT),
            Part(
                "gaussian",
                "Gaussian, (1, 10⁻⁵)",
                _regret(0.004),
                changes={**UNIT, "mechanism.call": "gaussian", "mechanism.parameters.delta": 1e-5},
            ),
        ),
        (curves_cross, *ESTIMATES),
        partial(draw_spectra, title="Fig. 6b: Laplace with ε₀ = 1, Gaussian with (1, 10⁻⁵)"),
        partial(spectrum_table, levels=(0.0, 0.2, 0.5, 0.8, 1.0)),
        study="fig10",
        large={**TEN_MILLION, "estimate.epsilons": {"start": 0.0, "stop": 1.0, "count": 61}},
    ),
    Figure(
        "fig7",
        "the sparse vector technique, and a pair that hides a fault",
        (
            Part("half", "Alg. 1, ε₀ = 0.5, X pair", _regret(0.001), exposed=False, nominal=0.5),
            Part("one", "Alg. 1, ε₀ = 1, X pair", _regret(0.001), exposed=False, changes={**ONE, **CROSSED}),
            Part("uniform1", "Alg. 1, ε₀ = 1, uniform pair", _regret(0.001), exposed=False, changes={**ONE, **UNIFORM}),
            Part(
                "uniform4",
                "Alg. 4 (faulty), ε₀ = 1, uniform pair",
                _regret(0.001),
                changes={**ONE, **UNIFORM, **_variant(4)},
            ),
        ),
        (*ESTIMATES, exposed, uniform_pair_misleads),
        draw_two_pairs,
        partial(spectrum_table, levels=(0.0, 0.1, 0.2, 0.5, 1.0)),
        large=TEN_MILLION,
    ),
    Figure(
        "fig8",
        "distributional privacy of a count without noise, 100 to 49,000 rows",
        (Part("", "number of heads", _regret(0.001)),),
        ESTIMATES,
        draw_rows,
        rows_table,
        large={**TEN_MILLION, "estimate.parameters.k": 2_500_000},
    ),
    Figure(
        "fig9a",
        "correct and faulty sparse vector techniques",
        (
            Part("alg1", "Alg. 1 (correct)", _regret(0.001), exposed=False),
            Part("alg4", "Alg. 4 (faulty)", _regret(0.001), exposed=True, changes=_variant(4)),
            Part("alg5", "Alg. 5 (faulty, “SVT3”)", _regret(0.001), exposed=True, changes={**_variant(5), **SHORT}),
        ),
        (*ESTIMATES, exposed),
        partial(draw_spectra, title="Fig. 9a: sparse vector technique, ε₀ = 1"),
        partial(spectrum_table, levels=(0.0, 0.5, 1.0, 1.5)),
        large=TEN_MILLION,
    ),
    Figure(
        "fig9b",
        "a correct and a faulty noisy histogram",
        (
            Part("correct", "noise of scale 1/ε₀ (correct)", _regret(0.004), exposed=False, nominal=0.1),
            Part(
                "faulty",
                "noise of scale ε₀ (faulty)",
                _regret(0.004),
                exposed=True,
                nominal=0.1,
                changes=_variant("faulty"),
            ),
        ),
        (*ESTIMATES, exposed),
        partial(draw_spectra, title="Fig. 9b: noisy histogram, ε₀ = 0.1", log=True, floor=1e-3),
        partial(spectrum_table, levels=(0.0, 0.05, 0.1, 0.2)),
        large=TEN_MILLION,
    ),
    Figure(
        "fig9c",
        "four kinds of report noisy max",
        (
            Part("nm1", "NM1 (correct)", _regret(0.004), exposed=False, nominal=0.3),
            Part(
                "nm2", "NM2 (faulty)", _regret(0.004), exposed=True, nominal=0.3, changes={**_variant("NM2"), **VALUE}
            ),
            Part("nm3", "NM3 (correct)", _regret(0.004), exposed=False, nominal=0.3, changes=_variant("NM3")),
            Part(
                "nm4", "NM4 (faulty)", _regret(0.004), exposed=True, nominal=0.3, changes={**_variant("NM4"), **VALUE}
            ),
        ),
        (*ESTIMATES, exposed),
        partial(draw_spectra, title="Fig. 9c: report noisy max, ε₀ = 0.3"),
        partial(spectrum_table, levels=(0.0, 0.1, 0.3, 0.5, 1.0)),
        large=TEN_MILLION,
    ),
    Figure(
        "fig10",
        "three Laplace mechanisms that are hard to tell apart",
        CLOSE_PARTS,
        (*ESTIMATES, true_fits_best),
        draw_close,
        fit_table,
        Once(CLOSE),
        large=LARGEST,
    ),
    Figure(
        "fig11",
        "which ε₀ fits best, with enough samples to tell",
        MOST_PARTS,
        (*ESTIMATES, true_fits_best),
        draw_fits,
        fit_table,
        Once(CLOSE),
        study="fig10",
        large={"estimate.train": 1 << 26, "estimate.test": 1 << 30},
    ),
)

PAPER = Paper("Eureka", Path(__file__).resolve().parent.parent, {figure.name: figure for figure in _FIGURES})
"""All of them."""
