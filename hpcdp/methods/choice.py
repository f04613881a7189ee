"""Whether outputs are so expensive that every one should teach and test: the rule of `estimate.reuse = "auto"`.

It rests on measured seconds, so two machines may choose differently. A run chooses once for a store, and records it before
anything acts on it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from hpcdp.engine.method import Rows
from hpcdp.engine.task import Costs
from hpcdp.mechanisms import READERS
from hpcdp.store.layout import Generation, Layout
from hpcdp.study.combinations import method_named, options_of
from hpcdp.study.problem import Problem
from hpcdp.study.reuse import FEWEST, Cut, Part
from hpcdp.study.stored import commit_choice, known_choice

SHARE = 0.1
"""Reuse is chosen where it takes at most this part of the time that drawing all samples takes."""


@dataclass(frozen=True)
class Price:
    """Seconds to draw all samples, and those that reuse takes more to learn and count. are_stored: no more can be had."""

    drawing: float
    extra: float
    are_stored: bool

    @classmethod
    def of(cls, problem: Problem, costs: Costs) -> Price:
        """By the trial draws and the rough costs of the loss, for all pairs and laws, whatever is in the store already."""
        e, train, test = problem.study.estimate, problem.train, problem.test
        each = costs.drawing(train.total, train.chunks) + costs.drawing(test.total, test.chunks)
        without = 2.0 * (train.total * costs.learn + test.total * costs.count)
        reused = sum(part_seconds(costs, part) for part in Cut.of(e.pool).parts)
        extra = max(0.0, reused - without) * len(problem.pairs)
        return cls(len(problem.laws) * each, extra, problem.sampler.call in READERS)

    def __str__(self) -> str:
        if self.are_stored:
            return "the samples are stored, so that no more of them can be drawn"
        return (
            f"drawing takes about {_short(self.drawing)} in all, learning and counting then {_short(self.extra)} more"
        )

    @property
    def is_expensive(self) -> bool:
        """Whether reuse is worth it."""
        return self.are_stored or self.extra <= SHARE * self.drawing


def part_seconds(costs: Costs, part: Part) -> float:
    """Seconds to learn and count one part of a pair."""
    learning = len(part.steps) * costs.each + 2.0 * part.learned * costs.learn
    return learning + 2.0 * part.counted * (costs.count + costs.read)


def may_be_reused(problem: Problem) -> bool:
    """Whether a study without reuse could have it as it is."""
    e, fits = problem.study.estimate, options_of(problem.study) <= method_named("cross-fitting").takes
    return fits and e.keep == "all" and e.pool >= FEWEST


def with_choice(problem: Problem, costs: Costs, known: bool | None) -> Problem:
    """The problem with what is chosen, known or by the rule, where its study leaves reuse open."""
    if problem.study.estimate.reuse != "auto" or problem.chosen is not None:
        return problem
    return replace(problem, chosen=Price.of(problem, costs).is_expensive if known is None else known)


def choose_reuse(problem: Problem, costs: Costs, layout: Layout, generation: Generation) -> list[str]:
    """Record the store's choice, where its study leaves reuse open and no run has chosen yet; in words."""
    if problem.study.estimate.reuse != "auto" or known_choice(layout) is not None:
        return []
    price = Price.of(problem, costs)
    commit_choice(layout, price.is_expensive, vars(price), generation)
    return [f"estimate.reuse: {words}" for _, words in describe_reuse(problem, costs, None)]


def describe_reuse(problem: Problem, costs: Costs, known: bool | None) -> Rows:
    """Whether every sample teaches and tests, and why, if that says something; known: what an earlier run chose."""
    reuse = problem.study.estimate.reuse
    if reuse is True:
        return [("reuse", _cut_words(problem))]
    if reuse is False and not may_be_reused(problem):
        return []
    price = Price.of(problem, costs)
    if reuse is False:
        words = f"estimate.reuse = true would get more from the same draws: {price}"
        return [("reuse", words)] if price.is_expensive else []
    if known is None:
        return [("reuse", f"{'chosen' if price.is_expensive else 'not chosen'}: {price}")]
    return [("reuse", f"{_cut_words(problem) if known else 'none'}, as an earlier run into this store chose")]


def _cut_words(problem: Problem) -> str:
    blocks = Cut.of(problem.study.estimate.pool).blocks
    sizes = ", ".join(f"{block.counted:,}" for block in blocks[1:])
    return (
        f"{problem.study.estimate.pool:,} samples of each database teach and test; bounds from blocks of {sizes} after a first "
        f"of {blocks[0].counted:,}"
    )


def _short(seconds: float) -> str:
    return f"{float(f'{seconds:.2g}'):,.12g} s"
