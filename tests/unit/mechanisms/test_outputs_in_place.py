"""Outputs that only hpcdp holds are made canonical where they lie; an array that a mechanism still reaches never changes."""

from __future__ import annotations

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


HOLDERS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "itself": (lambda made: made, lambda held: held),
    "a view": (lambda made: made[1:], lambda held: held.base),
    "a memoryview": (memoryview, np.asarray),
    "its dictionary of the interface": (lambda made: made.__array_interface__ | {"of": made}, lambda held: held["of"]),
    "a closure": (lambda made: lambda: made, lambda held: held()),
}


@pytest.mark.parametrize("how", HOLDERS)
@pytest.mark.parametrize("stream", ["numpy", "philox"])
def test_what_a_mechanism_holds_does_not_change(how: str, stream: str) -> None:
    """The −0.0 of the mechanism stay, and what it writes afterwards reaches no outputs."""
    keep, read = HOLDERS[how]
    kept: list[Any] = []

    def mechanism(database: NDArray[Any], size: int, rng: np.random.Generator) -> NDArray[np.float64]:
        made = with_zeros(size, rng)
        kept.append(keep(made))
        return made

    outputs = drawn(bind(mechanism, {}, "mechanism"), stream)
    held = read(kept[0])
    assert np.signbit(held[::7]).all()
    assert not np.signbit(outputs[::7]).any()
    np.testing.assert_array_equal(held, outputs)
    assert not np.shares_memory(held, outputs)
    before = outputs.copy()
    held[...] = 5.0
    np.testing.assert_array_equal(outputs, before)


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


@pytest.mark.parametrize(("name", "method"), [("gaussian", "normal"), ("laplace", "laplace")])
def test_centres_are_added_as_to_an_array(name: str, method: str) -> None:
    """Philox adds the centre as it draws: the bits are those of noise to which an array's sum adds it, as NumPy's still are."""
    for make, centre, scale in product((Stream, np.random.default_rng), (0.0, 0.1, -3.7, 1e6), (1.0, 0.3)):
        noise = getattr(make(8), method)(0.0, scale, SIZE)
        np.testing.assert_array_equal(Added(np.array([centre]), name, scale).draw(SIZE, make(8)), noise + centre)
