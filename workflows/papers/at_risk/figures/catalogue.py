"""Every figure: its studies, what must hold, how it is drawn, what its table shows."""

from __future__ import annotations

from pathlib import Path

from at_risk.figures import formulas
from at_risk.figures.sampled import Sampled, check_sampled, draw_sampled, table_sampled
from paper_figures.figure import Figure, Paper
from paper_figures.parts import Part

_SAMPLED = Sampled()

FIGURES = {
    figure.name: figure
    for figure in (
        Figure(
            "fig1",
            "ε against γ₁, as published, and against the exact confidence",
            (),
            (formulas.check_model,),
            formulas.DRAWN["fig1"],
            formulas.table_model,
            _SAMPLED,
        ),
        Figure(
            "fig2",
            "how many pairs the paper asks for",
            (),
            (formulas.check_samples,),
            formulas.DRAWN["fig2"],
            formulas.table_samples,
            _SAMPLED,
        ),
        Figure(
            "fig3",
            "γ̂₃ of Theorem 6 for several ρ and n",
            (),
            (formulas.check_both,),
            formulas.DRAWN["fig3"],
            formulas.table_both,
            _SAMPLED,
        ),
        Figure(
            "fig4",
            "the compensation budget, by the published and by the exact distribution",
            (),
            (formulas.check_budget,),
            formulas.DRAWN["fig4"],
            formulas.table_budget,
            _SAMPLED,
        ),
        Figure(
            "fig5",
            "composition of Laplace mechanisms, and what is true",
            (),
            (formulas.check_composed,),
            formulas.draw_composed,
            formulas.table_composed,
            _SAMPLED,
        ),
        Figure(
            "fig6",
            "case 1: utility of ridge regression against the confidence asked",
            (),
            (formulas.check_utility,),
            formulas.draw_utility,
            formulas.table_utility,
            _SAMPLED,
        ),
        Figure(
            "fig7",
            "case 2: sensitivities of two queries on a synthetic population",
            (
                Part("mean", "mean target"),
                Part("ridge", "ridge coefficients", changes={"at_risk.query": "people:ridge", "at_risk.scale": 0.01}),
            ),
            (check_sampled,),
            draw_sampled,
            table_sampled,
            _SAMPLED,
        ),
        Figure(
            "case3",
            "case 3: which ε₀ the paper's equation allows",
            (),
            (formulas.check_case3,),
            formulas.draw_case3,
            formulas.table_case3,
            _SAMPLED,
        ),
    )
}

PAPER = Paper("Privacy at risk", Path(__file__).resolve().parent.parent, FIGURES)
