"""How a law's samples are cut where each of them teaches and tests (`estimate.reuse`): folds, and blocks in order.

The pool of a law is its training samples followed by its test samples. Its cut depends on its size alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from hpcdp.notions.prequential import blocks, folds

FOLDS = 5
"""Folds of the pool, and of the first block, for what is cross-fitted."""

FEWEST = 50
"""Samples per database of the smallest pool."""

_FIRST = 25  # samples of the smallest first block: four of its five folds are the fewest that any loss learns from
_FIRST_SHARE = 16  # the first block is this part of the pool


@dataclass(frozen=True)
class Fold:
    """One L̂ of a part: the places of the pool that it learns from, and those that it counts."""

    learned: tuple[range, ...]
    counted: range


@dataclass(frozen=True)
class Part:
    """A row of counts, and the unit of work: what is counted by one L̂, or of the practice by one for each fold."""

    name: str
    steps: tuple[Fold, ...]

    @property
    def learned(self) -> int:
        """Samples per database that its steps learn from, in all."""
        return sum(len(places) for step in self.steps for places in step.learned)

    @property
    def counted(self) -> int:
        """Samples per database that it counts."""
        return sum(len(step.counted) for step in self.steps)


@dataclass(frozen=True)
class Cut:
    """The parts of a pool: one a fold for the estimate; the practice and one a later block for the bound."""

    total: int
    parts: tuple[Part, ...]

    @classmethod
    def of(cls, total: int) -> Cut:
        """The cut of `total` samples per database, 50 or more."""
        cut = blocks(total, first_block(total))
        parts = [Part(f"fold {number}", (step,)) for number, step in enumerate(_crossed(folds(total, FOLDS)))]
        parts.append(Part("practice", tuple(_crossed(folds(cut[0].stop, FOLDS)))))
        for number, block in enumerate(cut[1:], 1):
            parts.append(Part(f"block {number}", (Fold((range(block.start),), block),)))
        return cls(total, tuple(parts))

    @property
    def folds(self) -> tuple[Part, ...]:
        """Parts of the estimate."""
        return self.parts[:FOLDS]

    @property
    def blocks(self) -> tuple[Part, ...]:
        """Parts of the bound, the practice first."""
        return self.parts[FOLDS:]


def first_block(total: int) -> int:
    """Samples per database of the block that only teaches."""
    return max(total // _FIRST_SHARE, _FIRST)


def least_learned(total: int) -> int:
    """The fewest samples per database that any L̂ of a pool learns from: four folds of the first block."""
    first = first_block(total)
    return first - -(-first // FOLDS)


def most_learned(total: int) -> int:
    """Samples per database that the L̂ of a fold learns from."""
    return total - -(-total // FOLDS)


def _crossed(cut: list[range]) -> list[Fold]:
    """Each fold counted by an L̂ that learned from the others."""
    return [Fold(tuple(other for other in cut if other is not fold), fold) for fold in cut]
