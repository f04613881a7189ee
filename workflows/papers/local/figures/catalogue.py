"""Every figure: its studies, what must hold, how it is drawn, what its table shows."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from local.figures.bounds import (
    Bounds,
    bounds_table,
    certified_covers,
    draw_cdfs,
    exposes,
    lower_by_its_spread,
    near_reference,
    published_covers,
    reaches,
    the_sign_halves_false_alarms,
    timed_table,
)
from local.figures.errors import Errors, draw_errors, errors_halve, errors_table
from local.figures.losses import (
    Losses,
    draw_losses,
    estimate_is_near,
    loss_table,
    more_samples_are_nearer,
    where_it_leaks,
)
from paper_figures.figure import Figure, Paper
from paper_figures.parts import Part

LEVELS = (0.2, 0.7, 1.5)
NM2 = {"variant": "NM2", "scale": 2.0}
EQUAL = [{"d": [1.0] * 6, "d_prime": [2.0] * 6}]
NUMBERS = {
    "pairs.given": [{"d": [0.0], "d_prime": [1.0]}],
    "estimate.loss": "kde",
    "pure.within": [[-3.0, 4.0]],
}
"""What outputs that are numbers change in a study of discrete ones."""


def _mechanism(call: str, **parameters: Any) -> dict[str, Any]:
    return {"mechanism.call": call, "mechanism.parameters": parameters}


PANELS = {
    "a": ("the Laplace mechanism", 10.9, (0.115, 0.594, 1.301), (0.16, 0.66, 1.45)),
    "b": ("report noisy max", 4.7, (0.166, 0.661, 1.450), (0.16, 0.65, 1.44)),
    "c": ("continuous noisy max", 10.5, (0.096, 0.569, 1.285), (0.11, 0.62, 1.40)),
    "d": ("the exponential mechanism", 11.3, (0.101, 0.598, 1.316), (0.12, 0.65, 1.44)),
    "e": ("sparse vector, variant 2", 23.8, (0.114, 0.598, 1.347), (0.13, 0.59, 1.33)),
    "f": ("sparse vector, variant 4, rescaled", 26.6, (0.154, 0.656, 1.440), (0.14, 0.64, 1.41)),
    "g": ("sparse vector, variant 5, faulty", 25.9, (6.63, 7.76, 8.34), (9.0, 10.0, 11.0)),
    "h": ("sparse vector, variant 6, faulty", 57.3, (0.44, 2.28, 4.25), (0.42, 2.0, 3.6)),
}
"""Of each panel of Figure 4: mechanism, seconds in Table II, reference means of LB, goals of the certified limit."""
VARIANTS = {"e": 2, "f": 4, "g": 5, "h": 6}
"""Of the sparse vector technique."""


def _changes(letter: str, level: float) -> dict[str, Any]:
    """What a panel and its ε₀ change in the study of panel a, or of panel b where outputs are discrete."""
    if letter in "ab":
        return {"mechanism.parameters.epsilon": level}
    if letter == "c":  # scale 3/ε₀
        parameters: dict[str, Any] = {"variant": "NM2", "scale": 3.0 / level}
        given = [{"d": [0.0] * 3, "d_prime": [tenths / 10] * 3} for tenths in range(1, 11)]
        return {"mechanism.call": "noisy_max", "mechanism.parameters": parameters, "pairs.given": given}
    if letter == "d":
        given = [{"d": [1.0], "d_prime": [1.0 + tenths / 10]} for tenths in range(1, 11)]
        own = {"mechanism.call": "exponential_real", "mechanism.parameters.epsilon": level}
        return {**own, "pairs.given": given, "pure.within": [[0.0, 2.0]]}
    budget = 4.0 * level / 7.0 if letter == "f" else level  # so that ε₀ is right
    return {
        "mechanism.call": "sparse_vector",
        "mechanism.parameters": {"variant": VARIANTS[letter], "epsilon": budget, "threshold": 1.0},
        "pairs.given.parameters.dimension": 10,
        "estimate.train": 100_000,
        "estimate.test": 500_000,
        "estimate.chunk": 500_000,
    }


def _panel(letter: str) -> Figure:
    shows, seconds, means, goals = PANELS[letter]
    checks = [near_reference(means, 0.06 if letter == "h" else 0.03), reaches(goals), certified_covers]
    if letter in "abcdef":
        checks.append(published_covers)
    if letter in "acd":
        checks.append(lower_by_its_spread)
    if letter in "gh":
        checks += [exposes("lower", LEVELS if letter == "g" else LEVELS[1:]), exposes("certified", LEVELS)]
    return Figure(
        f"fig4{letter}",
        shows,
        tuple(Part(f"{level:g}", "", nominal=level, changes=_changes(letter, level)) for level in LEVELS),
        tuple(checks),
        partial(draw_cdfs, title=f"Fig. 4{letter}: {shows}"),
        partial(timed_table, published=seconds),
        Bounds(),
        "fig4a" if letter in "acd" else "fig4b",
    )


_FIGURES = (
    Figure(
        "fig1",
        "a kernel estimate of the Laplace density",
        (Part("200", "N = 200", changes={"estimate.train": 200}), Part("20000", "N = 20,000")),
        (more_samples_are_nearer,),
        partial(draw_losses, title="Fig. 1: kernel estimates of a Laplace density", losses=False),
        loss_table,
        Losses(),
    ),
    Figure(
        "fig2",
        "where randomised response, Laplace and normal noise leak",
        (
            Part("response", "randomised response, ε₀ = 1"),
            Part("laplace", "Laplace, ε₀ = 1", changes={**NUMBERS, **_mechanism("laplace", epsilon=1.0)}),
            Part("gauss", "normal noise, σ = 1", changes={**NUMBERS, **_mechanism("gaussian", sigma=1.0)}),
        ),
        (where_it_leaks,),
        partial(draw_losses, title="Fig. 2: densities and losses"),
        loss_table,
        Losses(),
    ),
    Figure(
        "fig3",
        "the loss of the Laplace mechanism and its estimate",
        (Part("", "Laplace, ε₀ = 1", changes={"pure.within": [[-1.0, 2.0]]}),),
        (estimate_is_near,),
        partial(draw_losses, title="Fig. 3: loss and empirical loss", densities=False),
        loss_table,
        Losses(),
        "fig1",
    ),
    *(_panel(letter) for letter in PANELS),
    Figure(
        "fig5",
        "the level of one data set",
        (
            Part("index", "report noisy max", nominal=1.5),
            Part(
                "value",
                "continuous noisy max",
                nominal=1.5,
                changes={
                    "mechanism.parameters": NM2,
                    "pairs.given.parameters": {"vector": [0.5] * 3, "values": [0.0, 0.5, 1.0]},
                    "estimate.loss": "kde",
                    "pure.within": [[-1.0, 1.0]],
                },
            ),
        ),
        (reaches((0.70, 0.66), 0.0), certified_covers, published_covers),
        partial(draw_cdfs, title="Fig. 5: the level of one data set, ε₀ = 1.5"),
        bounds_table,
        Bounds(),
    ),
    Figure(
        "fig6",
        "the error of the estimate against the number of samples",
        (
            Part(
                "value",
                "continuous noisy max",
                changes={
                    **_mechanism("noisy_max", **NM2),
                    "pairs.given": [{"d": [0.0] * 3, "d_prime": [1.0] * 3}],
                    "pure.within": [[-1.0, 1.0]],
                },
            ),
            Part("exponential", "exponential mechanism"),
        ),
        (errors_halve,),
        draw_errors,
        errors_table,
        Errors((1000, 2000, 5000, 10_000, 20_000)),
    ),
    Figure(
        "equal",
        "two equal distributions: what the absolute value does",
        (Part("", "1⁶ against 2⁶", nominal=0.0, changes={"mechanism.parameters.epsilon": 1.5, "pairs.given": EQUAL}),),
        (the_sign_halves_false_alarms,),
        partial(draw_cdfs, title="Report noisy max on 1⁶ and on 2⁶, two equal distributions"),
        bounds_table,
        Bounds(1000, 1000),
        "fig4b",
    ),
)

PAPER = Paper("Local approach", Path(__file__).resolve().parent.parent, {figure.name: figure for figure in _FIGURES})
"""All of them."""
