"""What a sampled sensitivity allows: the covers of a study with [at_risk]."""

from __future__ import annotations

from typing import Any

from hpcdp._base.rounding import at_least, at_most, percent
from hpcdp.notions.at_risk import RHO
from hpcdp.report.tables import (
    COUNT,
    FINITE,
    HEURISTIC,
    REFUTED,
    Column,
    Reading,
    Table,
    formed,
    lower_column,
    thousands,
    to_csv,
)
from hpcdp.report.words import FOR_MORE, missing_words
from hpcdp.results.result import Result


def read_covers(result: Result, _: Any = None) -> Reading:
    """Of each cover the sensitivity and the ε, the share of losses within it, and the published figures beside them."""
    section = result.study.at_risk
    assert section is not None
    five = formed(".5f", at_least)
    columns = [
        Column("cover", "cover"),
        Column("rank", "rank", COUNT, thousands),
        Column("sensitivity", "Δ", FINITE, formed(".6g", at_most)),
        Column("epsilon", "ε", FINITE, formed(".5g", at_most), nothing="inf"),
        lower_column("within.certified", "P[|L| ≤ ε] ≥", five, name="P[|L| <= ε] ≥"),
        Column("within.hits", "hits", COUNT, thousands),
        Column("within.lower", "CP ≥", HEURISTIC, five),
        Column("published", f"Theorem 5 at ρ = {RHO:g}", REFUTED, formed(".4f"), name="Theorem 5"),
        Column("within.published", f"Theorem 6 at ρ = {RHO:g}", REFUTED, formed(".4f"), name="Theorem 6"),
    ]
    caption, state = "ε of a sampled sensitivity", "" if result.complete else "  (INCOMPLETE)"
    return Reading(
        f"{result.name}: {caption}, {section.pairs:,} pairs of {section.rows:,} rows, Laplace noise of scale "
        f"{section.scale:g}{state}",
        [Table(caption, columns, result.risk)] if result.risk else [],
        _notes(result) if result.risk else [],
        result.to_dict,
        lambda: _csv(result),
        [] if result.risk else [missing_words("pairs are missing", result)],
    )


def _notes(result: Result) -> list[str]:
    """What each figure rests on; paragraphs."""
    section, sure = result.study.at_risk, percent(result.confidence)
    assert section is not None
    drawn = (
        "the file, whose rows were drawn with replacement" if section.population.file is not None else "its callable"
    )
    return [
        f"Δ, ε = Δ/scale: with confidence {sure} at least the share `cover` of pairs has a sensitivity of at most Δ, so that no "
        "loss of theirs is above ε, whatever the noise; finite-sample, each cover by itself. Pairs beyond Δ have no limit. "
        f"It is of pairs drawn independently from {drawn}.",
        f"P[|L| <= ε] ≥: over pairs and noise, of one draw of noise a pair; finite-sample with confidence {sure}, also as ε was "
        "taken from these pairs. CP: the Clopper–Pearson limit of the same hits, as if ε had been named before.",
        f"Theorem 5, Theorem 6: γ̂₂ and γ̂₃ of Dandekar et al. as published, at ρ = {RHO:g}, γ̂₃ with ηε₀ = "
        f"{result.risk[0]['within']['epsilon0']:.5g} (largest Δ/scale). Both are refuted: γ̂₂ forgets ρ, γ̂₃ takes noise of its "
        "own for each database. Promise nothing by them.",
        FOR_MORE,
    ]


def _csv(result: Result) -> str:
    """One line a cover."""
    fields = ["cover", "rank", "sensitivity", "epsilon", "published"]
    within = ("hits", "pairs", "lower", "certified", "published", "epsilon0")
    rows = [entry | {f"within_{name}": entry["within"][name] for name in within} for entry in result.risk]
    return to_csv([*fields, *(f"within_{name}" for name in within)], rows)
