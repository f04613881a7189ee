"""How many samples per database the stages after training have, and where a run that decides them starts."""

from __future__ import annotations

from dataclasses import dataclass

from hpcdp.keys import digest_json

MANY = 8
"""More pairs than that are screened before any is refined, and no more than that are refined."""


@dataclass(frozen=True)
class Sizes:
    """Samples per database of the stages that follow training; (0, 0): none of its own."""

    refine: int  # 0 where L̂ is what training taught
    validation: int
    test: int  # of D
    split: tuple[int, int] = (0, 0)  # draws of D and D' in a chunk of the test stage, where they differ
    screen: int = 0  # of the rounds before refining, in which many pairs race
    d_prime: tuple[int, int] = (0, 0)  # refine and validation of D', where they differ from D's

    @property
    def tests(self) -> tuple[int, int]:
        """Test samples of D and of D'."""
        d, d_prime = self.split
        return (self.test, self.test // d * d_prime) if d else (self.test, self.test)

    @property
    def tallies(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Samples of the refine and of the validation stage: of D, then of D'."""
        d = (self.refine, self.validation)
        return d, self.d_prime if any(self.d_prime) else d

    @property
    def drawn(self) -> int:
        """Samples of D and of D' together."""
        return 2 * self.screen + sum(sum(sizes) for sizes in (*self.tallies, self.tests))

    def of(self, stage: str, side: int) -> int:
        """Samples of D, or of D' (side 1), in the "screen", "refine", "validation" or "test" stage."""
        if stage == "screen":
            return self.screen
        refine, validation = self.tallies[side]
        return {"refine": refine, "validation": validation, "test": self.tests[side]}[stage]

    def model_key(self, pilot: str) -> str:
        """Key of what is learned with these sizes from a pilot of this key."""
        if self.refine:
            more = self.d_prime if any(self.d_prime) else ()
            return digest_json(["refined", pilot, self.refine, self.validation, *more])
        return digest_json(["screened", pilot, self.screen]) if self.screen else pilot


def first_sizes(train: int, chunk: int, pairs: int) -> Sizes:
    """Where a target starts from: 16 times the training draws, or as many to screen many pairs, most of which need no more."""
    if pairs > MANY:
        return Sizes(0, 0, 0, screen=train)
    refine = -(-16 * train // chunk) * chunk
    return Sizes(refine, refine, 0)
