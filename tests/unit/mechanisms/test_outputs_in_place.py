"""Outputs that only hpcdp holds are made canonical where they lie; an array that a mechanism still reaches never changes."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hpcdp.mechanisms import load_builtin
from hpcdp.mechanisms._callable import CallableMechanism, bind
from hpcdp.mechanisms.additive import Added
from hpcdp.mechanisms.outputs import MANY, Outputs, Schema, canonicalise
from hpcdp.mechanisms.special import is_special, name_special
from hpcdp.mechanisms.streams import Stream
from hpcdp.study.sampler import Sampler

SIZE = 2 * MANY
KEY, REALS = "0123456789abcdef" * 2, Schema("float", None)


def with_zeros(size: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Normal outputs, among them zeros of both signs."""
    made = rng.normal(size=size)
    made[::7], made[3::7] = -0.0, 0.0
    return made


def drawn(mechanism: CallableMechanism, stream: str = "numpy", chunk: int = 0) -> Outputs:
    """One chunk as a study gets it."""
    made = Sampler(1, "mechanism", {}, mechanism, "", SIZE, stream=stream)
    return made.draw(np.zeros(1), KEY, "test", chunk, 0, SIZE, REALS)


class Holder:
    """Mechanisms that keep a way to what they returned. `kept` reads it."""

    def __init__(self, keep: Callable[[NDArray[np.float64]], Any], read: Callable[[Any], Any]) -> None:
        self.keep, self.read, self.held = keep, read, None

    def __call__(self, database: NDArray[Any], size: int, rng: np.random.Generator) -> NDArray[np.float64]:
        made = with_zeros(size, rng)
        self.held = self.keep(made)
        return made

    @property
    def kept(self) -> Any:
        return self.read(self.held)


HOLDERS = {
    "itself": (lambda made: made, lambda held: held),
    "in a list": (lambda made: [made], lambda held: held[0]),
    "a view": (lambda made: made[1:], lambda held: held.base),
    "a memoryview": (memoryview, np.asarray),
    "its dictionary of the interface": (lambda made: made.__array_interface__ | {"of": made}, lambda held: held["of"]),
    "a closure": (lambda made: lambda: made, lambda held: held()),
    "a generator": (lambda made: (made for _ in range(1)), next),
}


@pytest.mark.parametrize("how", HOLDERS)
@pytest.mark.parametrize("stream", ["numpy", "philox"])
def test_what_a_mechanism_holds_does_not_change(how: str, stream: str) -> None:
    """The −0.0 of the mechanism stay, and what it writes afterwards reaches no outputs."""
    holder = Holder(*HOLDERS[how])
    outputs = drawn(bind(holder, {}, "holder"), stream)
    held = holder.kept
    assert np.signbit(held[::7]).all()
    assert not np.signbit(outputs[::7]).any()
    np.testing.assert_array_equal(held, outputs)
    assert not np.shares_memory(held, outputs)
    before = outputs.copy()
    held[...] = 5.0
    np.testing.assert_array_equal(outputs, before)


def test_a_weak_reference_is_a_way_to_it_too() -> None:
    found: list[Any] = []

    def mechanism(database: NDArray[Any], size: int, rng: np.random.Generator) -> NDArray[np.float64]:
        made = with_zeros(size, rng)
        found.append(weakref.ref(made))
        return made

    outputs = drawn(bind(mechanism, {}, "mechanism"))
    assert found[0]() is None, "else it is the outputs, and −0.0 of them was changed"
    assert not np.signbit(outputs[::7]).any()


def test_one_array_for_all_calls() -> None:
    """Chunks that are drawn into the mechanism's own array do not become each other."""
    own = np.empty(SIZE)

    def mechanism(database: NDArray[Any], size: int, rng: np.random.Generator) -> NDArray[np.float64]:
        own[...] = with_zeros(size, rng)
        return own

    first, second = (drawn(bind(mechanism, {}, "mechanism"), chunk=chunk) for chunk in (0, 1))
    assert not np.array_equal(first, second)
    np.testing.assert_array_equal(second, own)
    assert np.signbit(own[::7]).all()


def test_part_of_a_larger_array() -> None:
    """Memory that belongs to another array, or that cannot be written, is copied, though nothing else holds the array."""

    def part(database: NDArray[Any], size: int, rng: np.random.Generator) -> NDArray[np.float64]:
        return with_zeros(2 * size, rng)[:size]

    def locked(database: NDArray[Any], size: int, rng: np.random.Generator) -> NDArray[np.float64]:
        made = with_zeros(size, rng)
        made.flags.writeable = False
        return made

    for mechanism in (part, locked):
        outputs = drawn(bind(mechanism, {}, "mechanism"))
        assert outputs.base is None
        assert outputs.flags.writeable
        assert not np.signbit(outputs[outputs == 0]).any()


@pytest.mark.parametrize("stream", ["numpy", "philox"])
@pytest.mark.parametrize("made_by", ["gaussian", "laplace", "a callable"])
def test_what_nobody_holds_is_not_copied(made_by: str, stream: str) -> None:
    """The outputs of a chunk lie where the mechanism left them."""
    places: list[int] = []
    parameters = {"gaussian": {"sigma": 1.5}, "laplace": {"epsilon": 0.5}}

    def mechanism(database: NDArray[Any], size: int, rng: np.random.Generator) -> Any:
        if made_by in parameters:
            made = load_builtin(made_by)(database, size, rng, **parameters[made_by])
        else:
            made = with_zeros(size, rng)
        places.append(made.__array_interface__["data"][0])
        return made

    outputs = drawn(bind(mechanism, {}, "mechanism"), stream)
    assert places == [outputs.__array_interface__["data"][0]]


@pytest.mark.parametrize("shape", [(SIZE,), (SIZE, 3), (SIZE, 1)])
def test_in_place_as_by_a_copy(shape: tuple[int, ...]) -> None:
    """The same outputs; of float64 the array itself, but for one column, which is a view of it."""
    given = np.random.default_rng(3).normal(size=shape)
    extremes = [-0.0, 0.0, 5e-324, -5e-324, np.finfo(float).max, -np.finfo(float).max, np.finfo(float).tiny]
    given.reshape(-1)[: len(extremes)] = extremes
    wanted = canonicalise(given, shape[0])
    assert not np.shares_memory(wanted, given)
    found = canonicalise(given, shape[0], fresh=True)
    assert np.shares_memory(found, given) == (shape[1:] != (1,))
    assert found.shape == wanted.shape
    assert found.tobytes() == wanted.tobytes()
    narrow = np.clip(given, -9.0, 9.0).astype(np.float32)
    for other in (narrow, given.astype(">f8"), np.stack([given, given], axis=-1)[..., 0], np.asfortranarray(given)):
        assert canonicalise(other, shape[0], fresh=True).tobytes() == canonicalise(other, shape[0]).tobytes()


@pytest.mark.parametrize("special", [np.nan, -np.nan, np.inf, -np.inf])
def test_what_is_no_finite_number_is_told_in_place(special: float) -> None:
    for place in (0, SIZE // 2 + 1, SIZE - 1):
        given = np.zeros(SIZE)
        given[place] = special
        found = canonicalise(given, SIZE, fresh=True)
        assert np.flatnonzero(is_special(found)).tolist() == [place]
        assert name_special(found) == f"{special:g}".replace("-nan", "nan")


@pytest.mark.parametrize(("name", "method"), [("gaussian", "normal"), ("laplace", "laplace")])
def test_centres_are_added_as_to_an_array(name: str, method: str) -> None:
    """Philox adds the centre as it draws: the bits are those of noise to which an array's sum adds it, as NumPy's still are."""
    for make, centre, scale in product((Stream, np.random.default_rng), (0.0, 0.1, -3.7, 1e6), (1.0, 0.3)):
        noise = getattr(make(8), method)(0.0, scale, SIZE)
        np.testing.assert_array_equal(Added(np.array([centre]), name, scale).draw(SIZE, make(8)), noise + centre)
