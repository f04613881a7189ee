"""Every figure: its studies, what must hold, how it is drawn, what its table shows."""

from __future__ import annotations

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
    Part(key, f"ε₀ = {level:g}", LAPLACE_REGRET) for key, level in (("below", 0.999), ("equal", 1.0), ("above", 1.001))
)

_FIGURES = (
    Figure(
        "fig4a",
        "R1",
        "the Laplace mechanism, ε₀ = 1",
        (Part("", "Laplace, ε₀ = 1", LAPLACE_REGRET),),
        ESTIMATES,
        partial(draw_spectra, title="Fig. 4a: Laplace mechanism, ε₀ = 1"),
        partial(spectrum_table, levels=(0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.95)),
    ),
    Figure(
        "fig4b",
        "R2",
        "the Gaussian mechanism, (1, 10⁻⁵)",
        (Part("", "Gaussian, (1, 10⁻⁵)", _regret(0.004)),),
        ESTIMATES,
        partial(draw_spectra, title="Fig. 4b: Gaussian mechanism, (ε₀, δ₀) = (1, 10⁻⁵)"),
        partial(spectrum_table, levels=(0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5)),
    ),
    Figure(
        "fig4c",
        "R3",
        "what the theorem states of the accuracy",
        (Part("", "Laplace, ε₀ = 1, k = √n", LAPLACE_REGRET),),
        (formulas_agree, *ESTIMATES),
        draw_alpha,
        alpha_table,
    ),
    Figure(
        "fig4d",
        "R3",
        "the error that is seen, against the number of samples",
        (Part("literal", "Figure 1 to the letter"), Part("counts", "P and Q counted one by one")),
        (errors_in_band,),
        draw_errors,
        error_table,
        Repeated(tuple(range(1, 65)), (1 << 12, 1 << 14, 1 << 16, 1 << 18), tuple(1 << n for n in range(12, 25, 2))),
    ),
    Figure(
        "fig5a",
        "R4",
        "the exponential mechanism, both directions",
        (Part("", "exponential mechanism", _regret(0.001)),),
        ESTIMATES,
        draw_directions,
        directions_table,
    ),
    Figure(
        "fig5b",
        "R5",
        "Gaussian noise in 50 dimensions, by a neural network",
        (
            Part("spread", "all coordinates by 1/√50", _regret(0.01)),
            Part("first", "one coordinate by 1", _regret(0.01)),
        ),
        ESTIMATES,
        partial(draw_spectra, title="Fig. 5b: Gaussian (1, 10⁻⁵) in 50 dimensions, neural network"),
        partial(spectrum_table, levels=(0.0, 0.1, 0.2, 0.3)),
    ),
    Figure(
        "fig5c",
        "R6",
        "Laplace noise in 50 dimensions, by a neural network",
        (Part("spread", "all coordinates by 1/50", _regret(0.01)), Part("first", "one coordinate by 1", _regret(0.01))),
        ESTIMATES,
        partial(draw_spectra, title="Fig. 5c: Laplace of scale 1 in 50 dimensions, neural network"),
        partial(spectrum_table, levels=(0.0, 0.01, 0.05, 0.1, 0.11, 0.15, 0.3, 0.5, 0.7, 0.9)),
    ),
    Figure(
        "fig6a",
        "R7",
        "the textbook curve of the Gaussian mechanism against the exact one",
        (Part("", "Gaussian, (1, 10⁻⁵)", _regret(0.004)),),
        (loose_is_above, *ESTIMATES),
        draw_loose,
        partial(spectrum_table, levels=(0.0, 0.1, 0.2, 0.3, 0.4, 0.5)),
    ),
    Figure(
        "fig6b",
        "R7",
        "Laplace against Gaussian noise",
        (Part("laplace", "Laplace, ε₀ = 1", LAPLACE_REGRET), Part("gaussian", "Gaussian, (1, 10⁻⁵)", _regret(0.004))),
        (curves_cross, *ESTIMATES),
        partial(draw_spectra, title="Fig. 6b: Laplace with ε₀ = 1, Gaussian with (1, 10⁻⁵)"),
        partial(spectrum_table, levels=(0.0, 0.2, 0.5, 0.8, 1.0)),
    ),
    Figure(
        "fig7",
        "R8",
        "the sparse vector technique, and a pair that hides a fault",
        (
            Part("half", "Alg. 1, ε₀ = 0.5, X pair", _regret(0.001), exposed=False, nominal=0.5),
            Part("one", "Alg. 1, ε₀ = 1, X pair", _regret(0.001), exposed=False),
            Part("uniform1", "Alg. 1, ε₀ = 1, uniform pair", _regret(0.001), exposed=False),
            Part("uniform4", "Alg. 4 (faulty), ε₀ = 1, uniform pair", _regret(0.001)),
        ),
        (*ESTIMATES, exposed, uniform_pair_misleads),
        draw_two_pairs,
        partial(spectrum_table, levels=(0.0, 0.1, 0.2, 0.5, 1.0)),
    ),
    Figure(
        "fig8",
        "R11",
        "distributional privacy of a count without noise, 100 to 49,000 rows",
        (Part("", "number of heads", _regret(0.001)),),
        ESTIMATES,
        draw_rows,
        rows_table,
    ),
    Figure(
        "fig9a",
        "R8",
        "correct and faulty sparse vector techniques",
        (
            Part("alg1", "Alg. 1 (correct)", _regret(0.001), exposed=False),
            Part("alg4", "Alg. 4 (faulty)", _regret(0.001), exposed=True),
            Part("alg5", "Alg. 5 (faulty, “SVT3”)", _regret(0.001), exposed=True),
        ),
        (*ESTIMATES, exposed),
        partial(draw_spectra, title="Fig. 9a: sparse vector technique, ε₀ = 1"),
        partial(spectrum_table, levels=(0.0, 0.5, 1.0, 1.5)),
    ),
    Figure(
        "fig9b",
        "R9",
        "a correct and a faulty noisy histogram",
        (
            Part("correct", "noise of scale 1/ε₀ (correct)", _regret(0.004), exposed=False, nominal=0.1),
            Part("faulty", "noise of scale ε₀ (faulty)", _regret(0.004), exposed=True, nominal=0.1),
        ),
        (*ESTIMATES, exposed),
        partial(draw_spectra, title="Fig. 9b: noisy histogram, ε₀ = 0.1", log=True, floor=1e-3),
        partial(spectrum_table, levels=(0.0, 0.05, 0.1, 0.2)),
    ),
    Figure(
        "fig9c",
        "R10",
        "four kinds of report noisy max",
        (
            Part("nm1", "NM1 (correct)", _regret(0.004), exposed=False, nominal=0.3),
            Part("nm2", "NM2 (faulty)", _regret(0.004), exposed=True, nominal=0.3),
            Part("nm3", "NM3 (correct)", _regret(0.004), exposed=False, nominal=0.3),
            Part("nm4", "NM4 (faulty)", _regret(0.004), exposed=True, nominal=0.3),
        ),
        (*ESTIMATES, exposed),
        partial(draw_spectra, title="Fig. 9c: report noisy max, ε₀ = 0.3"),
        partial(spectrum_table, levels=(0.0, 0.1, 0.3, 0.5, 1.0)),
    ),
    Figure(
        "fig10",
        "R12",
        "three Laplace mechanisms that are hard to tell apart",
        CLOSE_PARTS,
        (*ESTIMATES, true_fits_best),
        draw_close,
        fit_table,
        Once(CLOSE),
    ),
    Figure(
        "fig11",
        "R12",
        "which ε₀ fits best, with enough samples to tell",
        CLOSE_PARTS,
        (*ESTIMATES, true_fits_best),
        draw_fits,
        fit_table,
        Once(CLOSE),
    ),
)

PAPER = Paper(
    "eureka", "the Eureka paper", Path(__file__).resolve().parent.parent, {figure.name: figure for figure in _FIGURES}
)
"""All of them."""
