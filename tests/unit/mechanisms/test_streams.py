"""The generator of mechanisms: its words are Philox's, its variates have their laws far into the tails, and none comes twice."""

from __future__ import annotations

import copy
import hashlib
import json
import math
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numba
import numpy as np
import pytest
from commands import call, show, stored_problem, write_study
from given_objects import study_of as study_of_function
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

import hpcdp
from hpcdp.mechanisms import _stream_kernels as kernels
from hpcdp.mechanisms._pcg64 import PCG64
from hpcdp.mechanisms.streams import Stream

Floats = NDArray[np.float64]

KINDS = {"random": stats.uniform, "normal": stats.norm, "laplace": stats.laplace, "exponential": stats.expon}
METHODS = (*KINDS, "integers")
CODES = {
    "normal": kernels.NORMAL,
    "laplace": kernels.LAPLACE,
    "exponential": kernels.EXPONENTIAL,
    "random": kernels.UNIFORM,
}


def philox(counter: int, key: tuple[int, int]) -> int:
    """The 128 bits that Philox4x32-10 makes of a counter of 128 bits, by its definition."""
    x, low = [counter >> 32 * k & 0xFFFFFFFF for k in range(4)], 0xFFFFFFFF
    for step in range(10):
        a, b = 0xD2511F53 * x[0], 0xCD9E8D57 * x[2]
        keys = [key[0] + step * 0x9E3779B9 & low, key[1] + step * 0xBB67AE85 & low]
        x = [b >> 32 ^ x[1] ^ keys[0], b & low, a >> 32 ^ x[3] ^ keys[1], a & low]
    return sum(word << 32 * k for k, word in enumerate(x))


def test_words_are_those_of_random123() -> None:
    """The known answers that the authors of Philox publish with it, of the definition above; then both lanes of the kernel."""
    ones = (1 << 128) - 1
    pi = 0x03707344_13198A2E_85A308D3_243F6A88
    assert philox(0, (0, 0)) == 0x9B00DBD8_BC57AC4C_E169C58D_6627E8D5
    assert philox(ones, (0xFFFFFFFF, 0xFFFFFFFF)) == 0x6D5451FD_A20BC7C6_41C83B0E_408F276D
    assert philox(pi, (0xA4093822, 0x299F31D0)) == 0x24126EA1_5001E420_94FDCCEB_D16CFE09
    rng = np.random.default_rng(6)
    for _ in range(20):
        first, name = rng.integers(0, 1 << 64, 2, np.uint64)
        key = tuple(rng.integers(0, 1 << 32, 2).tolist())
        low, high = np.empty(6, np.uint64), np.empty(6, np.uint64)
        kernels.words(low, high, first, name, *map(np.uint64, key))
        for k, found in enumerate((low.astype(object) + (high.astype(object) << 64)).tolist()):
            assert found == philox((int(first) + k & (1 << 64) - 1) | int(name) << 64, key)


def words_of(stream: Stream, kind: int, size: int) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """The words of a fresh stream's first variates, whole groups of them, by the definition: low and high ones of each group."""
    k0, k1, high, low = stream.bit_generator.words
    name = high << 32 | low & 0xFFFFFF00 | kind
    found = [philox(n | name << 64, (k0, k1)) for n in range(size // 2)]
    return np.array([f & (1 << 64) - 1 for f in found], np.uint64), np.array([f >> 64 for f in found], np.uint64)


def test_variates_are_made_of_these_words() -> None:
    """From the seed to the arrays that a mechanism gets: seed words that PCG64 does not have, kinds, groups, halves, order."""
    sequence = np.random.SeedSequence(5, spawn_key=(9,))
    half = kernels.GROUP // 2
    assert Stream(sequence).bit_generator.words == sequence.generate_state(12, np.uint32)[8:].tolist()
    for name, kind in CODES.items():
        low, high = words_of(Stream(sequence), kind, 2 * kernels.GROUP)
        expected = [of_words(kind, low[g : g + half], high[g : g + half]) for g in (0, half)]
        np.testing.assert_array_equal(draw(Stream(sequence), name, 2 * kernels.GROUP), np.concatenate(expected))
    low, high = words_of(Stream(sequence), 4, 2 * kernels.GROUP)
    words = [int(w) for g in (0, half) for side in (low, high) for w in side[g : g + half]]
    for first, last, endpoint in (
        (0, 10, 0), (-7, 1 << 31, 1), (5, 5 + (1 << 32), 0), (0, (1 << 32) - 1, 1), ((1 << 63) - 10, 1 << 63, 0),
    ):  # fmt: skip
        span = last - first + endpoint
        expected_integers = [first + (word * span >> 64) for word in words]
        assert Stream(sequence).integers(first, last, len(words), endpoint=bool(endpoint)).tolist() == expected_integers
        one = Stream(sequence)
        assert [int(one.integers(first, last, endpoint=bool(endpoint))) for _ in range(50)] == expected_integers[:50]
    theirs = np.random.Generator(np.random.PCG64(3)).integers(0, (1 << 32) + 1, 9)  # more than 2³² are NumPy's
    assert Stream(3).integers(0, (1 << 32) + 1, 9).tolist() == theirs.tolist()


PINNED = "5a0873a3bdc4c8571c7bd7c8ebfebf93a931784e5e0f17c2d541ca06ab3e8f0c"
"""Of `digest`: whoever changes these bits changes what stores hold, and must give the kind of stream another name."""


def test_bits_stay_what_they_are() -> None:
    assert digest() == PINNED


SCALES: list[tuple[str, Any, Any]] = [
    ("normal", 3.0, 2.5),
    ("normal", -2.0, 1.0),
    ("normal", np.array([1.0, -2.0, 0.5]), 2.0),
    ("laplace", 0.25, 1.0),
    ("laplace", 1.0, np.array([0.5, 3.0, 1.0])),
    ("uniform", -3.0, 4.0),
    ("uniform", np.zeros(3), np.array([1.0, 2.0, 3.0])),
    ("exponential", 0.0, 3.0),
]


@pytest.mark.parametrize("name, loc, scale", SCALES, ids=str)
def test_places_and_scales(name: str, loc: Any, scale: Any) -> None:
    """loc + scale · variate, each rounded once, to the last one of every array."""
    arguments = {"exponential": (scale,), "uniform": (loc, loc + scale)}.get(name, (loc, scale))
    width = arguments[1] - arguments[0] if name == "uniform" else scale
    for size in (None, 3, (5, 3), (900, 3), (70_000, 3)):
        found = getattr(Stream(9), name)(*arguments, size=size)
        shape = np.shape(found)
        standard = draw(Stream(9), {"uniform": "random"}.get(name, name), math.prod(shape)).reshape(shape)
        np.testing.assert_array_equal(found, standard * width + loc)


def draw(stream: np.random.Generator, kind: str, size: int | None) -> Any:
    return stream.integers(0, 1000, size) if kind == "integers" else getattr(stream, kind)(size=size)


@pytest.mark.parametrize("kind", METHODS)
@settings(deadline=None, max_examples=40)
@given(sizes=st.lists(st.one_of(st.none(), st.integers(0, 2500)), max_size=8), seed=st.integers(0, 1 << 70))
def test_a_stream_does_not_depend_on_how_many_are_asked_at_once(kind: str, sizes: list[int | None], seed: int) -> None:
    whole, part = Stream(seed), Stream(seed)
    total = sum(1 if size is None else size for size in sizes)
    expected = draw(whole, kind, total + 5)
    for number, size in enumerate(sizes):
        found = np.atleast_1d(draw(part, kind, size))
        np.testing.assert_array_equal(found, expected[: found.size])
        expected = expected[found.size :]
        other = [name for name in KINDS if name != kind][number % 3]
        draw(part, other, number * 7)  # what is asked of other kinds between changes nothing
        part.gamma(2.0)
    np.testing.assert_array_equal(draw(part, kind, 5), expected)


def of_words(kind: int, low: NDArray[np.uint64], high: NDArray[np.uint64]) -> NDArray[np.float64]:
    """What the kernels make of these words, which stand for those of counters."""
    word = np.concatenate([low, high])
    out = np.empty(word.size)
    if kind == kernels.NORMAL:
        kernels._normals(low, high, out)
    else:
        one_a_word = (kernels._laplaces, kernels._exponentials, kernels._uniforms)
        dict(zip((kernels.LAPLACE, kernels.EXPONENTIAL, kernels.UNIFORM), one_a_word, strict=True))[kind](word, out)
    return out


def edges(rng: np.random.Generator) -> NDArray[np.uint64]:
    """Words of every size, the least and the largest too."""
    sizes = rng.integers(0, 64, 3000, dtype=np.uint64)
    some = rng.integers(0, 1 << 64, sizes.size, dtype=np.uint64, endpoint=False) >> sizes
    special = [0, 1, 2, (1 << 62) - 1, 1 << 62, (1 << 63) - 1, 1 << 63, (1 << 63) + 1, (1 << 64) - 1]
    return np.concatenate([np.array(special, np.uint64), some, ~some])


def test_variates_are_what_their_words_say() -> None:
    """Against the C library's log, sin and cos, which have half a unit in the last place or little more."""
    rng = np.random.default_rng(17)
    word = edges(rng)
    turn = rng.permutation(edges(rng))

    def exponential(w: int, bits: int) -> float:
        return -math.log(float(Fraction(2 * w + 1, 2 ** (bits + 1))))

    for w, found in zip(word.tolist(), of_words(kernels.EXPONENTIAL, word, word[:0]), strict=True):
        assert found == pytest.approx(exponential(w, 64), rel=4e-16, abs=1e-300)
    for w, found in zip(word.tolist(), of_words(kernels.LAPLACE, word, word[:0]), strict=True):
        size = exponential(w & (2**63 - 1), 63)
        assert abs(found) == pytest.approx(size, rel=4e-16, abs=1e-300)
        assert (math.copysign(1.0, found) < 0) == (w >> 63 == 1)
    for w, found in zip(word.tolist(), of_words(kernels.UNIFORM, word, word[:0]), strict=True):
        assert found == (w >> 11) / 2**53
    cosines, sines = of_words(kernels.NORMAL, word, turn).reshape(2, -1)
    for w, v, x, y in zip(word.tolist(), turn.tolist(), cosines, sines, strict=True):
        radius = math.sqrt(2.0 * exponential(w, 64))
        angle = (float(Fraction(2 * (v & (2**62 - 1)) + 1, 2**63)) - 0.5) * (math.pi / 2)
        one, other = radius * math.cos(angle), radius * math.sin(angle)
        quarter, half = v >> 62 & 1, v >> 63
        one, other = (-other, one) if quarter else (one, other)
        one, other = (-one, -other) if half else (one, other)
        assert x == pytest.approx(one, rel=1e-15, abs=1e-30)
        assert y == pytest.approx(other, rel=1e-15, abs=1e-30)


@numba.njit
def by_numba(generator, size):  # type: ignore[no-untyped-def]
    return generator.normal(0.0, 1.0, size)


def test_copies_and_the_state_go_on_where_they_were() -> None:
    """Shallow copies and copies that go together share the counters, as those of NumPy's generator share its bits."""

    def drawn(rng: Stream) -> Floats:
        parts = [draw(rng, kind, size) for kind in METHODS for size in (None, 3, 2000)]
        return np.hstack([*parts, rng.gamma(2.0), [child.normal() for child in rng.spawn(2)]])

    stream, other, whole = Stream(2), Stream(77), Stream(3)
    stream.normal(size=700), stream.integers(9, size=5), stream.random()
    state, pickled = json.loads(json.dumps(stream.bit_generator.state)), pickle.dumps(stream)
    first = drawn(stream)
    np.testing.assert_array_equal(drawn(pickle.loads(pickled)), first)
    for rng in (stream, other):
        rng.bit_generator.state = state
        np.testing.assert_array_equal(drawn(rng)[:-2], first[:-2])
    shallow = copy.copy(one := Stream(3))
    for kind in METHODS:
        parts = [draw(rng, kind, size) for rng, size in ((one, None), (shallow, None), (one, 700), (shallow, 9))]
        np.testing.assert_array_equal(np.hstack(parts), draw(whole, kind, 711))
    fresh = Stream(5)
    for pair in (pickle.loads(pickle.dumps((fresh, copy.copy(fresh)))), copy.deepcopy((fresh, copy.copy(fresh)))):
        assert [rng.normal() for rng in pair] == Stream(5).normal(size=2).tolist()
    plain = np.random.PCG64(123).state
    stream.bit_generator.state, other.bit_generator.state = plain, plain
    assert stream.gamma(2.0) == other.gamma(2.0) == np.random.Generator(np.random.PCG64(123)).gamma(2.0)
    assert stream.normal() == other.normal()


def bits_in(state: Any) -> Any:
    """A PCG64 of NumPy's own with this state."""
    bits = np.random.PCG64()
    bits.state = state
    return bits


def by_ctypes(bits: Any, size: int) -> Any:
    return [bits.ctypes.next_double(bits.ctypes.state) for _ in range(size)]


WAYS: dict[str, Callable[[Any, int], Any]] = {
    "its bits in a Generator": lambda rng, n: np.random.Generator(rng.bit_generator).normal(size=n),
    "its bits in default_rng": lambda rng, n: np.random.default_rng(rng.bit_generator).normal(size=n),
    "its bits in a RandomState": lambda rng, n: np.random.RandomState(rng.bit_generator).normal(size=n),
    "its capsule": lambda rng, n: np.random.Generator(
        SimpleNamespace(capsule=rng.bit_generator.capsule, lock=rng.bit_generator.lock)
    ).normal(size=n),
    "random_raw": lambda rng, n: rng.bit_generator.random_raw(n),
    "ctypes": lambda rng, n: by_ctypes(rng.bit_generator, n),
    "numba": lambda rng, n: by_numba(rng, n),
    "random_state": lambda rng, n: stats.norm.rvs(size=n, random_state=rng),
    "spawn": lambda rng, n: rng.spawn(1)[0].normal(size=n),
    "spawn of the bits": lambda rng, n: np.random.Generator(rng.bit_generator.spawn(1)[0]).normal(size=n),
    "seed_seq in default_rng": lambda rng, n: np.random.default_rng(rng.bit_generator.seed_seq).normal(size=n),
    "seed_seq in another": lambda rng, n: np.random.PCG64DXSM(rng.bit_generator.seed_seq).random_raw(n),
    "words of seed_seq": lambda rng, n: rng.bit_generator.seed_seq.generate_state(n, np.uint64),
    "spawn of seed_seq": lambda rng, n: np.random.default_rng(rng.bit_generator.seed_seq.spawn(1)[0]).normal(size=n),
}
"""Ways out of a generator to numbers that nothing else gets, on both streams."""

SNAPSHOTS: dict[str, Callable[[Any, int], Any]] = {
    "state": lambda rng, n: np.random.Generator(bits_in(rng.bit_generator.state)).normal(size=n),
    "state of a RandomState": lambda rng, n: np.random.Generator(
        bits_in(np.random.RandomState(rng.bit_generator).get_state(legacy=False))
    ).normal(size=n),
    "a copy's own methods": lambda rng, n: copy.deepcopy(rng).normal(size=n),
    "a copy's methods of NumPy": lambda rng, n: copy.deepcopy(rng).gamma(2.0, size=n),
    "a copy's spawn": lambda rng, n: copy.deepcopy(rng).spawn(1)[0].normal(size=n),
    "a pickle": lambda rng, n: pickle.loads(pickle.dumps(rng)).laplace(size=n),
    "a copy of the bits": lambda rng, n: np.random.Generator(copy.copy(rng.bit_generator)).normal(size=n),
    "a pickle of the bits": lambda rng, n: np.random.Generator(pickle.loads(pickle.dumps(rng.bit_generator))).random(n),
    "a copy of their Generator": lambda rng, n: copy.deepcopy(np.random.Generator(rng.bit_generator)).normal(size=n),
    "a copy of their RandomState": lambda rng, n: copy.deepcopy(np.random.RandomState(rng.bit_generator)).normal(
        size=n
    ),
    "__getstate__": lambda rng, n: np.random.Generator(bits_in(rng.bit_generator.__getstate__()[0])).normal(size=n),
}
"""Ways that go on where the generator is."""

BETWEEN: dict[str, Callable[[Any], Any]] = {
    "its own": lambda rng: rng.normal(),
    "NumPy's": lambda rng: rng.gamma(2.0),
    "half a word": lambda rng: rng.integers(0, 9, dtype=np.uint32),
    "random_raw": lambda rng: rng.bit_generator.random_raw(output=False),
}


@pytest.mark.parametrize("way", [*WAYS, *SNAPSHOTS])
def test_no_way_out_gives_numbers_again(way: str) -> None:
    """Not at the next call, whichever part has drawn between the two, nor shifted, nor those of the stream's other methods."""
    for between in BETWEEN.values():
        rng, found = Stream(21), []
        for _ in range(4):
            between(rng)
            found.append({**WAYS, **SNAPSHOTS}[way](rng, 40))
        if way in WAYS:
            found += [rng.normal(size=40), rng.random(40), rng.gamma(2.0, size=40), rng.standard_normal(40, np.float32)]
        assert np.unique(np.concatenate(found)).size == sum(np.size(part) for part in found)


def test_noise_by_jumps_is_refused(tmp_path: Path) -> None:
    study = study_of_function(lambda _, rng: np.random.Generator(rng.bit_generator.jumped()).normal())
    with pytest.raises(hpcdp.StudyError, match=r"jumped and advance .* accepted: rng\.spawn\(1\)"):
        hpcdp.run(study, tmp_path / "s.zarr", workers=0)


@pytest.mark.parametrize("way", WAYS)
def test_ways_out_of_numpys_stream(way: str) -> None:
    rng = np.random.Generator(PCG64(21))
    found = np.concatenate([WAYS[way](rng, 40) for _ in range(4)] + [rng.normal(size=40), rng.gamma(2.0, size=40)])
    assert np.unique(found).size == found.size
    twin, plain = pickle.loads(pickle.dumps(rng)), np.random.Generator(bits_in(rng.bit_generator.state))
    assert twin.normal(size=5).tolist() == rng.normal(size=5).tolist() == plain.normal(size=5).tolist()
    with pytest.raises(TypeError, match=r"rng\.spawn\(1\)"):
        twin.bit_generator.jumped()


def test_every_way_out_is_known() -> None:
    """A release of NumPy with another one needs a line in WAYS or SNAPSHOTS."""
    numpys = {name for name in dir(np.random.PCG64) if not name.startswith("_")}
    used = {"capsule", "ctypes", "lock", "random_raw", "seed_seq", "spawn", "state"}
    assert numpys == {*used, "advance", "cffi", "jumped"}, "cffi's functions and state are those of ctypes"
    for refused in (lambda bits: bits.jumped(), lambda bits: bits.jumped(3), lambda bits: bits.advance(-1)):
        for made in (Stream(3).bit_generator, PCG64(3)):
            with pytest.raises(TypeError, match=r"jumped and advance .* accepted: rng\.spawn\(1\)"):
                refused(made)


def test_threads_share_no_variate() -> None:
    stream = Stream(8)
    with ThreadPoolExecutor(8) as pool:
        parts = [*pool.map(lambda n: np.atleast_1d(stream.normal(size=None if n % 3 else 500)), range(900))]
    found = np.sort(np.concatenate(parts))
    np.testing.assert_array_equal(found, np.sort(Stream(8).normal(size=found.size)))


CALLS = {
    "sizes": "normal(); normal(1.0, 2.0, 3); normal(size=(2, 3)); normal(size=()); exponential(2.0, size=np.int64(4)); "
    "normal(np.zeros(3), 1.0, np.array([2, 3])); laplace(np.float32(1), np.int64(2), size=()); uniform(2, 5, 4)",
    "wrong sizes": "normal(size=-1); normal(size=2.5)",
    "arrays": "normal(np.zeros(3), 1.0); normal(np.zeros(3), np.ones((2, 1))); normal(np.zeros(3), 1.0, (4, 3)); "
    "normal(np.zeros(3), 1.0, 4); laplace([1.0, 2.0]); uniform(np.zeros(2), [1, 2]); normal([None, 1], 1.0)",
    "numbers": "normal(1, 2); normal('1.5'); normal(0.0, 'a'); normal(10**400, 1.0); normal(0.0, np.float64(2)); "
    "laplace(np.float32(1), np.int64(2)); uniform(np.uint8(5), np.uint8(3)); uniform(np.array([True]), 2.0); "
    "uniform(np.array([5], 'u1'), np.array([3], 'u1'), 4); uniform(np.float16(0.1), np.float16(2000), 3); uniform(0.0, 1j)",
    "scalars of no axis": "normal(np.array(3.0), 2.0); laplace(0.0, np.array(3.0)); exponential(np.array(3.0)); laplace(1, 2)",
    "scales": "normal(0.0, -1.0); normal(0.0, np.array([1.0, -1.0])); normal(0.0, -0.0); exponential(-2.0); "
    "uniform(5.0, 2.0); uniform(0.0, -0.0); uniform(0.0, np.inf)",
    "not finite": "normal(np.nan, 1.0); normal(0.0, np.nan); normal(0.0, np.inf)",
    "out": "random(out=np.zeros(3)); random(4, out=np.zeros(3)); random(out=np.zeros((3, 3)).T); "
    "random(out=np.zeros(6)[::2]); standard_normal(3, out=np.zeros(3)); random(out=np.zeros(4, '>f8')); "
    "random(out=np.matrix(np.zeros((1, 4)))); random(out=np.ma.array(np.zeros(4))); "
    "random(out=np.frombuffer(bytearray(41), np.float64, 5, 1))",
    "kinds of number": "random(); random(4, dtype=np.float32); standard_normal(dtype=int); "
    "standard_exponential(3, method='inv'); standard_exponential(3, dtype='f4')",
    "integers": "integers(5); integers(5, 3); integers(0); integers(0, endpoint=True); integers(2, 8, (2, 2)); integers(2.5); "
    "integers([1, 2], 5); integers(0, 1 << 64); integers(-(1 << 63), 1 << 63, size=2); integers(5, dtype=int); "
    "integers(0, 2, dtype=bool, size=3); integers(0, 200, dtype=np.uint8, size=3)",
}
"""Calls of a generator, by what is particular about their arguments."""


@pytest.mark.parametrize("about", CALLS)
def test_arguments_are_taken_as_numpy_takes_them(about: str) -> None:
    """Types, shapes and dtypes of what is returned, and the errors."""

    def outcome(rng: np.random.Generator, call: str) -> Any:
        try:
            found = eval(f"rng.{call}")
        except Exception as error:
            return type(error)
        return type(found), np.shape(found), getattr(found, "dtype", None)

    calls = CALLS[about].split("; ")
    assert {c: outcome(Stream(1), c) for c in calls} == {c: outcome(np.random.default_rng(1), c) for c in calls}


def digest() -> str:
    """Of the bits of a stream."""
    stream, found = Stream(np.random.SeedSequence(1, spawn_key=(2, 3))), hashlib.sha256()
    for kind in METHODS:
        found.update(np.ascontiguousarray(draw(stream, kind, 5000)).tobytes())
        found.update(np.float64([draw(stream, kind, None) for _ in range(9)]).tobytes())
    found.update(stream.normal(2.0, 0.3, 3000).tobytes() + stream.laplace(np.arange(5.0), 0.7, (9, 5)).tobytes())
    return found.hexdigest()


@pytest.mark.slow
@pytest.mark.parametrize("features", ["", "+avx2,+fma", pytest.param("+sse4.2", marks=pytest.mark.release)])
def test_bits_do_not_depend_on_the_processor(features: str, tmp_path: Path) -> None:
    """Compiled for a processor without vectors of its own, and for one that could contract products and sums."""
    environment = {
        **os.environ,
        "NUMBA_CPU_NAME": "generic",
        "NUMBA_CPU_FEATURES": features,
        "NUMBA_CACHE_DIR": str(tmp_path),
    }
    program = "import test_streams; print(test_streams.digest())"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**environment, "PYTHONPATH": os.pathsep.join([os.path.dirname(__file__), *sys.path])},
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert done.stdout.strip() == digest()


def study_of(folder: Path, kind: str | None, **changes: Any) -> Path:
    """A study with this kind of stream, or none."""
    study = write_study(folder, **changes)
    line = "" if kind is None else f'stream = "{kind}"\n'
    study.write_text(study.read_text().replace('stream = "numpy"\n', line))
    return study


@pytest.mark.slow
def test_a_study_names_its_stream(tmp_path: Path) -> None:
    def run(kind: str | None, store: str, *options: str, workers: int = 0, code: int = 0, **changes: Any) -> Any:
        study = study_of(tmp_path, kind, rows=[0], **changes)
        return call("run", study, "--store", tmp_path / store, "--workers", str(workers), *options, code=code)

    whole = run("philox", "s.zarr").stdout
    run("numpy", "n.zarr")
    run(None, "none.zarr")
    shown = {name: show(tmp_path / name) for name in ("s.zarr", "n.zarr", "none.zarr")}
    assert shown["s.zarr"] == shown["none.zarr"] != shown["n.zarr"]
    assert stored_problem(tmp_path / "s.zarr").study.study.stream == "philox"
    refused = run("numpy", "s.zarr", code=2).stderr
    assert 'study.stream ("philox" in the store, "numpy" given)' in refused
    assert run(None, "s.zarr").stdout == whole, "the store's"
    run(None, "n.zarr")
    assert show(tmp_path / "n.zarr") == shown["n.zarr"], "the store's"
    run(None, "s.zarr", test=6000)
    run("philox", "t.zarr", workers=2, test=6000)
    grown, new = (json.loads(show(tmp_path / name))["spectrum"] for name in ("s.zarr", "t.zarr"))
    assert grown == new != json.loads(shown["s.zarr"])["spectrum"]
    assert "philox" in run("mt19937", "s.zarr", code=2).stderr


def test_what_draws_nothing_itself_has_no_stream(tmp_path: Path) -> None:
    """A program has generators of its own, and stored outputs none."""
    study = study_of(tmp_path, "philox", train=10, test=10)
    text = study.read_text()
    at = text.index("[mechanism]")
    end = text.index("[", at + 5)
    study.write_text(f'{text[:at]}[mechanism]\ncall = {{ command = ["true"] }}\n{text[end:]}')
    message = call("run", study, "--store", tmp_path / "p.zarr", code=2).stderr
    assert "with mechanism.call that is a program, which has generators of its own" in message
    np.save(tmp_path / "a.npy", np.arange(100.0))
    stored = {"call": "stored", "parameters": {"files": ["a.npy", "a.npy"]}, "train": 40, "test": 40}
    message = call("run", study_of(tmp_path, "philox", **stored), "--store", tmp_path / "s.zarr", code=2).stderr
    assert (
        "study.stream: study.stream = 'philox' was given with mechanism.call = 'stored', which draws nothing" in message
    )
