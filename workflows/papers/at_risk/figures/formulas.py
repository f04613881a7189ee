"""Figures 1 to 6 and case 3: what is computed without a study."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from at_risk.figures import published
from paper_figures.figure import Check
from paper_figures.parts import Found
from paper_figures.pictures import markdown
from scipy.optimize import brentq

from hpcdp import TradeOffCurve, at_risk
from hpcdp.analytic import LaplaceShift
from hpcdp.report.colours import CERTIFIED, CLAIM, EXACT, QUIET

FOLDER = Path(__file__).resolve().parent.parent
sys.path.append(str(FOLDER))

import people  # noqa: E402

DELTA, NUMBERS = 1e-5, (100, 300)
TRUE = {0.1: (4.2203, 8.1600), 0.5: (28.5017, 63.9818), 1.0: (68.2530, 167.2674)}
LEVEL, SHARES = 0.4, (0.5, 0.6, 0.7, 0.8, 0.9)
SEEDS = 50


def near(rule: str, found: float, wanted: float, error: float) -> Check:
    """Whether a figure is what it should be."""
    return Check(rule, abs(found - wanted) <= error, f"{found:.6g}, wanted {wanted:.6g}")


def check_model(_: Sequence[Found]) -> list[Check]:
    level = np.array([0.2, 0.5, 0.8])
    wanted = {1: (0.28676, 0.62246, 0.87115), 2: (0.22178, 0.53960, 0.82766), 3: (0.21008, 0.51928, 0.81429)}
    checks = [
        near(f"γ₁(.5; 1, {k}) is as published", float(at_risk.model_confidence(0.5, 1.0, k)), row[1], 5e-6)
        for k, row in wanted.items()
    ]
    checks.append(near("the overlap of ε₀ = 1 and .6 (Lemma 5)", at_risk.overlap(1.0, 0.6), 0.814097, 5e-7))
    ratio = at_risk.model_confidence(level, 1.0) / at_risk.exact_confidence(level, 1.0)
    checks.append(
        Check(
            "γ₁ overstates P(|L| <= ε) at least 3-fold", bool(ratio.min() > 2.9), ", ".join(f"{r:.2f}" for r in ratio)
        )
    )
    return checks


def table_model(_: Sequence[Found]) -> list[str]:
    rows = [
        [
            f"{e:g}",
            *(f"{at_risk.model_confidence(e, 1.0, k):.5f}" for k in (1, 2, 3, 6)),
            f"{at_risk.exact_confidence(e, 1.0):.5f}",
        ]
        for e in (0.2, 0.5, 0.8)
    ]
    return markdown(["ε (ε₀ = 1)", "γ₁, k = 1", "k = 2", "k = 3", "k = 6", "exact, k = 1"], rows)


def check_samples(_: Sequence[Found]) -> list[Check]:
    return [
        near("n at α = .9, ρ = .01", at_risk.samples_as_published(0.9, 0.01), 14_979, 0.5),
        near("equation 13 at (.01, 15,000)", at_risk.cover_as_published(1.0, 15_000), 0.900426, 5e-7),
        near("equation 13 at (.01, 10,000)", at_risk.cover_as_published(1.0, 10_000), 0.729329, 5e-7),
        Check(
            "what 14,979 pairs certify of γ₂ = .9 is below .9",
            at_risk.certified_cover(14_979, 13_482, 0.95) < 0.9,
            f"{at_risk.certified_cover(14_979, 13_482, 0.95):.4f}",
        ),
    ]


def table_samples(_: Sequence[Found]) -> list[str]:
    rows = [
        [f"{rho:g}", *(f"{np.ceil(at_risk.samples_as_published(share, rho)):,.0f}" for share in (0.5, 0.9, 0.95, 0.99))]
        for rho in (0.0001, 0.001, 0.01, 0.1)
    ]
    return markdown(["ρ", "α = .5", "α = .9", "α = .95", "α = .99"], rows)


def check_both(_: Sequence[Found]) -> list[Check]:
    found = at_risk.both_as_published(0.5, 1.0, 1.0, np.array([10_000, 15_000, 20_000, 40_000]))
    return [
        Check("γ̂₃ grows with n", bool((np.diff(found) > 0).all()), ", ".join(f"{v:.4f}" for v in found)),
        Check(
            "from 15,000 pairs on it is above what is true where the sensitivity is known",
            bool(found[1:].min() > at_risk.exact_confidence(0.5, 1.0)),
            f"{found[1]:.4f} against {at_risk.exact_confidence(0.5, 1.0):.4f} at ε = .5",
        ),
    ]


def table_both(_: Sequence[Found]) -> list[str]:
    rows = [
        [f"{n:,}", *(f"{at_risk.both_as_published(e, 1.0, 1.0, n):.4f}" for e in (0.2, 0.5, 0.8))]
        for n in (10_000, 15_000, 20_000, 40_000)
    ]
    rows.append(["exact, sensitivity known", *(f"{at_risk.exact_confidence(e, 1.0):.4f}" for e in (0.2, 0.5, 0.8))])
    return markdown(["n (ρ = .01)", "ε = .2", "ε = .5", "ε = .8"], rows)


def check_budget(_: Sequence[Found]) -> list[Check]:
    model, exact = at_risk.optimum(0.5, 5500, 100), at_risk.optimum(0.5, 5500, 100, "exact")
    return [
        near("ε_min as published", model.epsilon, 0.274115, 5e-7),
        near("the budget as published", model.budget, 37805.8567, 1e-4),
        near("the budget at ε₀", model.budget_at_epsilon0, 74434.4058, 1e-4),
        near("the saving (printed 36,628.532)", model.budget_at_epsilon0 - model.budget, 36628.549, 1e-3),
        near("ε_min by the exact distribution", exact.epsilon, 0.285839, 5e-7),
        near("the saving by the exact distribution", exact.budget_at_epsilon0 - exact.budget, 6455.45, 0.01),
    ]


def table_budget(_: Sequence[Found]) -> list[str]:
    rows = []
    for law, words in (("model", "γ₁, as published"), ("exact", "exact")):
        best = at_risk.optimum(0.5, 5500, 100, law)
        figures = [f"{best.epsilon:.6f}", f"{best.confidence:.5f}", f"{best.budget:,.2f}"]
        rows.append([words, *figures, f"{best.budget_at_epsilon0 - best.budget:,.2f}"])
    return markdown(["distribution of the loss", "ε_min", "P(\\|L\\| <= ε)", "budget", "saving"], rows)


@cache
def composed(level0: float) -> list[tuple[float, ...]]:
    """Of 100 and of 300 mechanisms: basic, Dwork–Roth, Theorem 3 at the optimum, exact, and δ where Theorem 3 says DELTA."""
    best = at_risk.optimum(level0, 1.0, 1.0)
    curve = TradeOffCurve.from_curve(LaplaceShift(level0), 1e-9)
    rows = []
    for n, wanted in zip(NUMBERS, TRUE[level0], strict=True):
        power = curve.power(n)
        root = float(np.sqrt(2 * n * np.log(1 / DELTA)))
        published = at_risk.composed_as_published(best.epsilon, level0, best.confidence, n, DELTA)
        true = brentq(lambda e, power=power: float(power.delta(e)) - DELTA, wanted / 2, 2 * wanted)
        advanced = level0 * root + n * level0 * np.expm1(level0)
        rows.append((n * level0, float(advanced), published, float(true), float(power.delta(published))))
    return rows


def check_composed(_: Sequence[Found]) -> list[Check]:
    checks = [
        near(f"exact ε of {n} mechanisms of ε₀ = {level0:g}", row[3], true, 2e-4)
        for level0, wanted in TRUE.items()
        for n, true, row in zip(NUMBERS, wanted, composed(level0), strict=True)
    ]
    refuted = composed(1.0)[1]
    checks.append(near("δ at ε₀ = 1, n = 300 where Theorem 3 says 1e-5", refuted[4], 1.532e-5, 5e-8))
    return checks


def table_composed(_: Sequence[Found]) -> list[str]:
    rows = [
        [f"{level0:g}, {n}", *(f"{value:.3f}" for value in row[:3]), f"{row[3]:.4f}", f"{row[4]:.2e}"]
        for level0 in TRUE
        for n, row in zip(NUMBERS, composed(level0), strict=True)
    ]
    return markdown(
        ["ε₀, n", "basic", "Dwork–Roth 3.20", "Theorem 3, as published", "exact", "δ at Theorem 3's ε"], rows
    )


def draw_composed(_: Sequence[Found]) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11.0, 4.0), layout="constrained")
    for axes, level0 in zip(figure.subplots(1, 3), TRUE, strict=True):
        n = np.arange(1, 301)
        best = at_risk.optimum(level0, 1.0, 1.0)
        root = np.sqrt(2 * n * np.log(1 / DELTA))
        axes.plot(n, n * level0, color=QUIET, label="basic")
        axes.plot(n, level0 * root + n * level0 * np.expm1(level0), ":", color=CLAIM, label="Dwork–Roth 3.20")
        published = at_risk.composed_as_published(best.epsilon, level0, best.confidence, n, DELTA)
        axes.plot(n, published, "--", color=CERTIFIED, label="Theorem 3, as published")
        axes.plot(NUMBERS, [row[3] for row in composed(level0)], "o", color=EXACT, label="exact")
        axes.set(
            xlabel="mechanisms n", ylabel="ε at δ = 1e-5", title=f"ε₀ = {level0:g}", ylim=(0, 2.2 * max(published))
        )
        axes.grid(alpha=0.25)
    axes.legend()
    return figure


@cache
def utilities() -> list[tuple[float, float, float, float, float]]:
    """Of each γ₁: ε₀ of the model with k = 5, its RMSE, RMSE at ε itself, RMSE without noise, P(|L| <= ε) of one number."""
    rows = people.population()
    order = np.random.default_rng(6).permutation(people.ROWS)
    train, test = rows[order[: int(0.8 * people.ROWS)]], rows[order[int(0.8 * people.ROWS) :]]
    answer, bound = people.ridge(train), people.ridge_bound(len(train))

    def rmse(noise: Any) -> float:
        errors = test[:, -1:] - test[:, :-1] @ (answer + noise).reshape(-1, people.PREDICTORS).T
        return float(np.sqrt((errors**2).mean(axis=0)).mean())

    noise = np.random.default_rng(7).laplace(size=(SEEDS, people.PREDICTORS))  # the same for every level
    found = []
    for share in SHARES:
        level0 = at_risk.model_epsilon0(LEVEL, share, people.PREDICTORS)
        exact = float(at_risk.exact_confidence(LEVEL, level0))
        found.append((level0, rmse(noise * bound / level0), rmse(noise * bound / LEVEL), rmse(np.zeros(1)), exact))
    return found


def check_utility(_: Sequence[Found]) -> list[Check]:
    losses = [row[1] for row in utilities()]
    wanted = [0.797323, 0.691526, 0.670220]
    found = [at_risk.model_epsilon0(LEVEL, 0.6, k) for k in (1, 2, 6)]
    checks = [
        near(f"ε₀ for (.4, .6) with k = {k}", f, w, 5e-7) for k, f, w in zip((1, 2, 6), found, wanted, strict=True)
    ]
    return [
        *checks,
        Check(
            "the less confidence is asked, the smaller the loss of utility",
            all(a <= b for a, b in pairwise(losses)) and losses[-1] < utilities()[0][2],
            ", ".join(f"{loss:.4f}" for loss in losses),
        ),
        Check(
            "the confidence that is true is at most half of what is asked",
            all(2 * row[4] <= share for share, row in zip(SHARES, utilities(), strict=True)),
            ", ".join(f"{row[4]:.3f}" for row in utilities()),
        ),
    ]


def table_utility(_: Sequence[Found]) -> list[str]:
    rows = [
        [f"{share:g}", f"{row[0]:.4f}", f"{row[1]:.4f}", f"{row[2]:.4f}", f"{row[3]:.4f}", f"{row[4]:.4f}"]
        for share, row in zip(SHARES, utilities(), strict=True)
    ]
    head = [
        "γ₁ asked at ε = .4",
        "ε₀ as published, k = 5",
        "RMSE",
        "RMSE at ε₀ = .4",
        "RMSE without noise",
        "true P(\\|L\\| <= .4)",
    ]
    return markdown(head, rows)


def draw_utility(_: Sequence[Found]) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.0, 4.4), layout="constrained")
    axes = figure.subplots()
    axes.plot(SHARES, [row[1] for row in utilities()], "o-", color=CERTIFIED, label="noise of ε₀ by Theorem 4")
    axes.plot(SHARES, [row[2] for row in utilities()], "--", color=CLAIM, label="noise of ε₀ = ε = .4")
    axes.plot(SHARES, [row[3] for row in utilities()], ":", color=EXACT, label="without noise")
    axes.set(xlabel="confidence γ₁ asked at ε = .4", ylabel=f"RMSE, mean of {SEEDS} draws of noise", title="Figure 6")
    axes.grid(alpha=0.25)
    axes.legend()
    return figure


def forced(k: int) -> float:
    """ηε₀ of case 3: where P(T <= ηε₀) = α·P(T <= ε), as γ̂₃ = γ₂ = .9, α = .9004."""
    share = at_risk.cover_as_published(1.0, 15_000) * at_risk.model_confidence(LEVEL, 1e9, k)
    return float(at_risk.model_epsilon(share, 1e9, k))


def check_case3(_: Sequence[Found]) -> list[Check]:
    found = [forced(k) for k in range(1, 7)]
    return [
        Check(
            "ηε₀ is forced to .352 to .360, so that ε₀ = .8 would need η below ½, and η is at least 1",
            min(found) >= 0.3515 and max(found) <= 0.3605,
            ", ".join(f"{value:.4f}" for value in found),
        )
    ]


def table_case3(_: Sequence[Found]) -> list[str]:
    return markdown(
        ["k", "ηε₀", "η that ε₀ = .8 would need"],
        [[f"{k}", f"{forced(k):.4f}", f"{forced(k) / 0.8:.3f}"] for k in range(1, 7)],
    )


def draw_case3(_: Sequence[Found]) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.0, 4.4), layout="constrained")
    axes = figure.subplots()
    level = np.linspace(0.05, 1.0, 300)
    for k, style in ((1, "-"), (5, "--")):
        share = at_risk.model_confidence(level, 1e9, k)
        axes.plot(level, share, style, color=CERTIFIED, label=f"P(T <= ηε₀), k = {k}")
        wanted = at_risk.cover_as_published(1.0, 15_000) * at_risk.model_confidence(LEVEL, 1e9, k)
        axes.axhline(wanted, linestyle=style, color=CLAIM, label=f"α·P(T <= .4), k = {k}")
    axes.axvline(0.8, color=QUIET, linestyle=":", label="the printed ε₀")
    axes.set(xlabel="ηε₀", ylabel="probability", title="Case 3: γ̂₃ = γ₂ = .9, ε = .4, n = 15,000")
    axes.grid(alpha=0.25)
    axes.legend()
    return figure


DRAWN = {
    "fig1": lambda _: published.draw_model(),
    "fig2": lambda _: published.draw_samples(),
    "fig3": lambda _: published.draw_both(),
    "fig4": lambda _: published.draw_budget(),
}
