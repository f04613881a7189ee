"""How many samples per database the stages after training have, and where a run that decides them starts."""

from __future__ import annotations

from dataclasses import dataclass

from hpcdp.keys import digest_json

MANY = 8
"""More pairs than that are screened before any is refined, and no more than that are refined."""


@dataclass(frozen=True)
class Sizes:
    """Samples per database of the stages that follow training.

    refine: 0 where L̂ is what training taught. test: of D. split: draws of D and of D' in one chunk of the test stage, where
    these differ; (0, 0): a whole chunk each. screen: of the rounds before refining, in which many pairs race.
    """

    refine: int
    validation: int
    test: int
    split: tuple[int, int] = (0, 0)
    screen: int = 0

    @property
    def tests(self) -> tuple[int, int]:
        """Test samples of D and of D'."""
        d, d_prime = self.split
        return (self.test, self.test // d * d_prime) if d else (self.test, self.test)

    def model_key(self, pilot: str) -> str:
        """Key of what is learned with these sizes from a pilot of this key."""
        if self.refine:
            return digest_json(["refined", pilot, self.refine, self.validation])
        return digest_json(["screened", pilot, self.screen]) if self.screen else pilot


def first_sizes(train: int, chunk: int, pairs: int) -> Sizes:
    """Where a target starts from: 16 times the training draws, so that the tallies reach beyond what training shows.

    Where many pairs race, as many as training to screen what it taught, for most of them need no more.
    """
    if pairs > MANY:
        return Sizes(0, 0, 0, screen=train)
    refine = -(-16 * train // chunk) * chunk
    return Sizes(refine, refine, 0)
