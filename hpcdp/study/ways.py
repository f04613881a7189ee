"""The ways of estimating: each is one module on every floor that has a part in it, under one name."""

from __future__ import annotations

from dataclasses import dataclass

from hpcdp.losses import kind_of
from hpcdp.study.file import Study


@dataclass(frozen=True)
class Way:
    """A way of estimating.

    planning, results: the modules with its parts, see `hpcdp.engine.ways` and `hpcdp.engine.derived`; what its tasks do, their
    kinds of `Work` say. keeps: whether all cells use the same samples, which may then stay in the store. decides: whether what
    some of its tasks record decides what the others are.
    """

    name: str
    planning: str
    results: str
    keeps: bool = True
    decides: bool = False


WAYS = {
    way.name: way
    for way in (
        Way("counted", "hpcdp.methods.sample_split.plan", "hpcdp.methods.sample_split.derive"),
        Way("reused", "hpcdp.methods.cross_fitting.plan", "hpcdp.methods.cross_fitting.derive"),
        Way("literal", "hpcdp.methods.figure_1.plan", "hpcdp.methods.figure_1.derive", keeps=False),
        Way("histogram", "hpcdp.methods.histogram.plan", "hpcdp.methods.histogram.derive", decides=True),
        Way("at_risk", "hpcdp.methods.at_risk.plan", "hpcdp.methods.at_risk.derive"),  # it only draws
        Way(
            "tape",
            "hpcdp.importance.plan",
            "hpcdp.importance.result",
            keeps=False,
            decides=True,
        ),
        Way("pure", "hpcdp.methods.pure.plan", "hpcdp.methods.pure.derive", decides=True),
    )
}
"""By name; a loss may name its own (`hpcdp.losses.LossKind.way`)."""


def way_of(study: Study, is_reused: bool) -> Way:
    """The way of a study: its loss's own, where it has one. is_reused: as the study says, or a run has chosen."""
    if study.at_risk is not None:
        return WAYS["at_risk"]
    if study.pure is not None:
        return WAYS["pure"]
    if study.estimate.tape:
        return WAYS["tape"]
    return WAYS[kind_of(study.estimate.default_loss).way or ("reused" if is_reused else "counted")]
