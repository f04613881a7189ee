"""A study with everything resolved: its databases, pairs, laws, sampler, output schema, stages and keys."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import repeat
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from hpcdp.keys import digest_json
from hpcdp.losses import kind_of, validate_parameters
from hpcdp.losses.counts import merge_thresholds
from hpcdp.mechanisms.outputs import Schema
from hpcdp.store.stages import Stage
from hpcdp.study.combinations import method_named, name_of_method
from hpcdp.study.databases import Database, Input, Pair, enumerate_pairs
from hpcdp.study.declared import Declared
from hpcdp.study.distributions import Conditional, Distribution
from hpcdp.study.file import Study
from hpcdp.study.pairs import describe_pair, describe_side
from hpcdp.study.sampler import Sampler

_UNSIZED = ("pairs", "pair_laws", "laws", "thresholds", "pilot_keys", "train")
_T = TypeVar("_T")


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


class _Laws(UserDict[str, Any]):
    """Inputs by law key, made when asked for; its data are the first pair of a law, and whether the law is its neighbour's."""

    def __getitem__(self, law: str) -> Input:
        pair, is_neighbour = self.data[law]
        made: Input = pair.d_prime if is_neighbour else pair.d
        return made


@dataclass(frozen=True, eq=False)
class Problem:
    """All that tasks are functions of."""

    study: Study
    databases: Sequence[Database] = field(repr=False)
    sampler: Sampler
    schema: Schema
    distributions: Sequence[Distribution] = ()
    sizes: Sizes | Mapping[str, Sizes] | None = None  # what a run decided, by pilot key, or of all pairs of a task
    chosen: bool | None = None  # of a study that leaves reuse open, what the run chose
    sources: Mapping[str, str] = field(default_factory=dict)  # digests of other code by key
    made: dict[Any, Any] = field(default_factory=dict, repr=False)

    @cached_property
    def pairs(self) -> list[Pair]:
        """All ordered pairs, in the study's order."""
        pairs, views = enumerate_pairs(self.study, self.databases, self.distributions), self.study.estimate.view
        if not views:
            return pairs
        seen = ((pair, view) for pair in pairs for view in views)
        return [replace(pair, number=n, origin={**pair.origin, "view": view}) for n, (pair, view) in enumerate(seen)]

    @cached_property
    def pair_laws(self) -> list[tuple[str, str]]:
        """Keys of the laws of M(D) and M(D') of each pair."""
        known: dict[int, str] = {}
        for pair in self.pairs:  # D serves many pairs; its bytes are digested once
            if id(pair.d) not in known:
                known[id(pair.d)] = self.sampler.key(pair.d)
        others = ((known[id(p.d)], p.d_prime) for p in self.pairs)  # known ones are alive: no other has their id
        return [(key, known.get(id(d_prime)) or self.sampler.key(d_prime)) for key, d_prime in others]

    @cached_property
    def laws(self) -> _Laws:
        """Every law once: its key and its input."""
        laws: dict[str, tuple[Pair, bool]] = {}
        for pair, (d, d_prime) in zip(self.pairs, self.pair_laws, strict=True):
            laws.setdefault(d, (pair, False))
            laws.setdefault(d_prime, (pair, True))
        return _Laws(laws)

    @cached_property
    def thresholds(self) -> NDArray[np.float64]:
        """Thresholds of L̂ that the study's cells need, sorted and distinct."""
        return merge_thresholds(self.study.epsilons, self.study.estimate.etas)

    @cached_property
    def model_keys(self) -> list[str]:
        """Key of each pair's learned L̂: its pilot's, and how many draws refined and validated it, if any."""
        return [self.model_key(number) for number in range(len(self.pilot_keys))]

    def model_key(self, number: int) -> str:
        """Key of one pair's learned L̂."""
        return self.sizes_of(number).model_key(self.pilot_keys[number])

    @cached_property
    def pilot_keys(self) -> list[str]:
        """Key of what each pair's training samples teach: the loss, its parameters, the training samples."""
        e = self.study.estimate
        values = {name: getattr(e, name) for name, key in e.keys().items() if key.decides == "pilot"}
        values["parameters"] = validate_parameters(e.default_loss, e.parameters).model_dump(mode="json")
        values["loss"] = [e.default_loss, *e.other_losses] if e.other_losses else e.default_loss
        head = ["model", *(value for name, value in values.items() if value != e.keys()[name].absent)]
        views = [[pair.origin["view"]] for pair in self.pairs] if e.view else repeat([])
        laws = zip(self.pair_laws, views, strict=False)
        return [digest_json([*head, d, d_prime, *view]) for (d, d_prime), view in laws]

    @cached_property
    def train(self) -> Stage:
        """The training stage of every law."""
        return Stage.of("train", self.study.estimate.train, self.study.estimate.chunk, self.schema)

    @cached_property
    def test(self) -> Stage:
        """The test stage of every law; of a study with a target the longest that is decided."""
        if not self.study.estimate.has_budget or isinstance(self.sizes, Sizes):
            return self.stage_of("test", 0)
        return max((self.stage_of("test", n) for n in range(len(self.pairs))), key=lambda stage: stage.chunks)

    def stage_of(self, name: str, number: int, side: int = 0) -> Stage:
        """A pair's "screen", "refine", "validation" or "test" stage, of D or D' (side 1); no chunks until its size is decided."""
        sizes = self.sizes_of(number)
        if name == "test" and sizes.split[side]:
            return Stage.of(name, sizes.tests[side], sizes.split[side], self.schema)
        return Stage.of(name, sizes.of(name, side), self.study.estimate.chunk, self.schema)

    def sizes_of(self, number: int) -> Sizes:
        """Samples per database of a pair's stages after training, as the study says or a run has decided."""
        if isinstance(self.sizes, Sizes):
            return self.sizes
        e = self.study.estimate
        if not e.has_budget:
            return Sizes(e.refine, e.validating, e.test)
        # a target starts from 16 times the training draws, or as many to screen many pairs, most of which need no more
        refine, is_many = -(-16 * e.train // e.chunk) * e.chunk, len(self.pairs) > MANY
        first = Sizes(0, 0, 0, screen=e.train) if is_many else Sizes(refine, refine, 0)
        return (self.sizes or {}).get(self.pilot_keys[number], first)

    def sized(self, sizes: Sizes | Mapping[str, Sizes]) -> Problem:
        """The same problem with these sizes: of all its pairs, or by pilot key."""
        made = replace(self, sizes=sizes)
        made.__dict__.update({key: self.__dict__[key] for key in _UNSIZED if key in self.__dict__})
        return made

    @property
    def is_refined(self) -> bool:
        """Whether L̂ is refined by tallies of fresh draws: of all the pairs that a task works on, else of any pair."""
        if isinstance(self.sizes, Sizes):
            return self.sizes.refine > 0
        return self.study.estimate.refine > 0 or self.study.estimate.has_budget

    @property
    def joins_sets(self) -> bool:
        """Whether L̂ is joined from sets, one a threshold: thresholds that were added later then have an L̂ of their own."""
        return self.is_refined or kind_of(self.study.estimate.default_loss).joins_sets

    @property
    def is_screened(self) -> bool:
        """Whether the pairs that a task works on race with what training taught."""
        return isinstance(self.sizes, Sizes) and self.sizes.refine == 0 and self.sizes.screen > 0

    @cached_property
    def declared(self) -> Declared | None:
        """What the study declares that D′ cannot output; StudyError where the predicate cannot be imported."""
        return Declared.of(self.study.mechanism.impossible, self.study.folder)

    @property
    def method(self) -> Any:
        """The method of estimating, a `hpcdp.engine.method.Method`: the loss's own, where it has one."""
        reuse = self.study.estimate.reuse
        return method_named(name_of_method(self.study, bool(self.chosen) if reuse == "auto" else reuse))

    @property
    def kept_stages(self) -> tuple[Stage, ...]:
        """The stages whose samples stay in the store."""
        return self.method.kept_stages(self)

    def once(self, make: Callable[[Problem], _T]) -> _T:
        """What a function makes of the problem, whatever sizes a run decides; made at the first call."""
        if make not in self.made:
            self.made[make] = make(self)
        return self.made[make]

    def describe_law(self, law: str) -> str:
        """Where a law's database comes from, in words."""
        if law not in self.laws:
            return f"distribution {law}"
        if self.study.at_risk is not None:
            return "the pairs"
        pair, is_neighbour = self.laws.data[law]
        return describe_side(pair.number, pair.origin, is_neighbour)


def describe_pairs(problem: Problem, numbers: Sequence[int]) -> str:
    """The first of some pairs in words, and how many more there are."""
    first = f"pair {numbers[0]} ({describe_pair(numbers[0], problem.pairs[numbers[0]].origin)})"
    return first if len(numbers) == 1 else f"{first} and {len(numbers) - 1} more"


def each_once(pairs: Sequence[Pair]) -> Iterator[tuple[str, Input]]:
    """D and D' of the first pair in words, and themselves, then the others, no D twice; the largest distributions come first."""
    seen: set[int] = set()
    for pair in sorted(pairs, key=lambda p: -p.d.distribution.cells if isinstance(p.d, Conditional) else 0):
        if id(pair.d) not in seen:
            seen.add(id(pair.d))
            yield describe_side(pair.number, pair.origin, False), pair.d
        if pair.d_prime is not pair.d:
            yield describe_side(pair.number, pair.origin, True), pair.d_prime
