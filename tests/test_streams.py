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
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
from commands import call, show, stored_problem, write_study
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from hpcdp.analytic import GaussianShift, LaplaceShift
from hpcdp.mechanisms import _stream_kernels as kernels
from hpcdp.mechanisms.streams import Stream

Words = tuple[int, int, int, int]
KINDS = {"random": stats.uniform, "normal": stats.norm, "laplace": stats.laplace, "exponential": stats.expon}
RARE = 1e-9  # of a right generator to fail a test


def block(counter: Words, key: tuple[int, int]) -> Words:
    """Four words of Philox4x32-10."""
    low, high = np.empty(2, np.uint64), np.empty(2, np.uint64)
    first, name = counter[0] | counter[1] << 32, counter[2] | counter[3] << 32
    kernels.words(low, high, np.uint64(first), np.uint64(name), *map(np.uint64, key))
    pair = int(low[0]), int(high[0])
    return pair[0] & 0xFFFFFFFF, pair[0] >> 32, pair[1] & 0xFFFFFFFF, pair[1] >> 32


def test_words_are_those_of_random123() -> None:
    """The known answers that the authors of Philox publish with it."""
    ones = 0xFFFFFFFF
    assert block((0, 0, 0, 0), (0, 0)) == (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)
    assert block((ones,) * 4, (ones, ones)) == (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)
    pi = (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344)
    assert block(pi, (0xA4093822, 0x299F31D0)) == (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)


def draw(stream: np.random.Generator, kind: str, size: int | None) -> Any:
    return stream.integers(0, 1000, size) if kind == "integers" else getattr(stream, kind)(size=size)


@pytest.mark.parametrize("kind", [*KINDS, "integers"])
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
        {
            kernels.LAPLACE: kernels._laplaces,
            kernels.EXPONENTIAL: kernels._exponentials,
            kernels.UNIFORM: kernels._uniforms,
        }[kind](word, out)
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


def smallest_word(threshold: float, bits: int) -> int:
    """How many words of so many bits, the smallest ones, give an exponential above a threshold: by bisection over the kernel."""
    low, high = 0, 1 << 63 if bits == 64 else (1 << 63) - 1
    kind = kernels.EXPONENTIAL if bits == 64 else kernels.LAPLACE
    while low < high:
        middle = (low + high) // 2
        if of_words(kind, np.array([middle], np.uint64), np.empty(0, np.uint64))[0] > threshold:
            low = middle + 1
        else:
            high = middle
    return low


@pytest.mark.parametrize("probability", [1e-3, 1e-6, 1e-9, 1e-12, 1e-15])
def test_tails_are_right(probability: float) -> None:
    """The probability of a tail is a number of words, which is counted exactly: no draw is needed."""
    at = -math.log(probability)
    grain = 1 / (probability * 2.0**63)  # relative: one word
    assert smallest_word(at, 64) / 2.0**64 == pytest.approx(probability, rel=1e-12 + grain)
    assert smallest_word(at, 63) / 2.0**63 == pytest.approx(probability, rel=1e-12 + grain)
    z = float(stats.norm.isf(probability))
    # a normal variate is the radius times the cosine, or for the other half of the quarters the sine, of an angle below π/4
    angles, weights = np.polynomial.legendre.leggauss(60)
    shares = [np.abs(np.cos(angles * math.pi / 4)), np.abs(np.sin(angles * math.pi / 4))]
    limits = np.minimum(0.5 * (z / np.concatenate(shares)) ** 2, 44.0)
    beyond = [smallest_word(limit, 64) / 2.0**64 if limit < 44 else 0.0 for limit in limits.tolist()]
    assert np.tile(weights / 2, 2) @ beyond / 4 == pytest.approx(probability, rel=1e-6 + 10 * grain)


@pytest.mark.parametrize("kind", KINDS)
def test_laws(kind: str) -> None:
    drawn = draw(Stream(20261123), kind, 1 << 20)
    law = KINDS[kind]
    assert stats.kstest(drawn, law.cdf).pvalue > RARE
    cells = np.bincount(np.minimum(4095, (law.cdf(drawn) * 4096).astype(int)), minlength=4096)
    assert stats.chisquare(cells).pvalue > RARE
    beyond = np.array([1e-2, 1e-3, 1e-4])
    for tail in (law.isf(beyond), law.ppf(beyond)):
        counts = [(drawn > x).sum() if side else (drawn < x).sum() for x in tail for side in [x > law.median()]]
        assert all(stats.binomtest(int(c), drawn.size, p).pvalue > RARE for c, p in zip(counts, beyond, strict=True))


def test_integers() -> None:
    stream = Stream(5)
    for span in (1, 2, 3, 10, 255, 1000, 65537):
        counts = np.bincount(stream.integers(0, span, 1 << 18), minlength=span)
        assert counts.size == span
        assert span == 1 or stats.chisquare(counts).pvalue > RARE
    words = edges(np.random.default_rng(3))
    for span in (1, 3, 1 << 31, (1 << 32) - 1, 1 << 32):
        low, high = words[: words.size // 2], words[words.size // 2 :]
        whole = [int(w) * span >> 64 for w in [*low.tolist(), *high.tolist()]]
        assert [scaled(int(w), span) for w in [*low.tolist(), *high.tolist()]] == whole
    drawn = stream.integers(-(1 << 62), (1 << 62) + 5, 1000)  # NumPy's
    assert (np.abs(drawn.astype(float)) <= 2.0**62).all()
    edge = stream.integers((1 << 63) - 10, 1 << 63, 1000)
    assert set(edge.tolist()) == set(range((1 << 63) - 10, 1 << 63))


def scaled(word: int, span: int) -> int:
    """The upper half of word · span, in the steps of the kernel."""
    low = 0xFFFFFFFF
    w0, w1, s0, s1 = word & low, word >> 32, span & low, span >> 32
    middle = w1 * s0 + (w0 * s0 >> 32)
    assert middle < 1 << 64
    return w1 * s1 + (middle >> 32) + (w0 * s1 + (middle & low) >> 32)


def test_streams_of_other_seeds_and_kinds_are_others() -> None:
    sequence = np.random.SeedSequence(3, spawn_key=(1, 2))
    parent = Stream(sequence)
    streams = [Stream(3), parent, *parent.spawn(3), Stream(4), Stream(np.random.SeedSequence(3, spawn_key=(1, 3)))]
    ranks = [stats.rankdata(draw(s, kind, 1 << 14)) for s in streams for kind in KINDS]
    correlation = np.corrcoef(ranks)
    np.fill_diagonal(correlation, 0.0)
    assert np.abs(correlation).max() < stats.norm.isf(RARE) / math.sqrt(1 << 14)
    values = np.concatenate([s.random(1 << 14) for s in streams])
    assert np.unique(values).size == values.size, "53 bits of 10⁵ values hardly ever meet"


def test_methods_of_numpy_are_numpys() -> None:
    own, theirs = Stream(11), np.random.Generator(np.random.PCG64(11))
    draw(own, "normal", 100)
    assert own.gamma(2.0) == theirs.gamma(2.0)
    assert own.standard_normal(3, np.float32).tolist() == theirs.standard_normal(3, np.float32).tolist()
    assert own.permutation(20).tolist() == theirs.permutation(20).tolist()
    assert own.integers(0, 1 << 40, 4).tolist() == theirs.integers(0, 1 << 40, 4).tolist()
    assert isinstance(own, np.random.Generator)


@numba.njit
def by_numba(generator, size):  # type: ignore[no-untyped-def]
    return generator.normal(0.0, 1.0, size)


def test_numba_draws_from_numpys_part() -> None:
    own, theirs = Stream(11), np.random.Generator(np.random.PCG64(11))
    before = draw(own, "normal", 4)
    found = by_numba(own, 4)
    np.testing.assert_array_equal(found, by_numba(theirs, 4))
    assert not set(found) & {*before, *draw(own, "normal", 4)}


def test_copies_go_on_where_they_were() -> None:
    stream = Stream(2)
    stream.normal(), stream.laplace(size=1500), stream.integers(10)
    other = pickle.loads(pickle.dumps(stream))
    for kind in (*KINDS, "integers"):
        np.testing.assert_array_equal(draw(other, kind, 2000), draw(stream, kind, 2000))
    assert other.gamma(1.0) == stream.gamma(1.0)
    assert [a.normal() for a in other.spawn(2)] == [b.normal() for b in stream.spawn(2)]


def test_shallow_copies_share_the_counters() -> None:
    """As those of NumPy's generator share its bits."""
    stream, whole = Stream(3), Stream(3)
    shallow = copy.copy(stream)
    for kind in (*KINDS, "integers"):
        parts = [draw(rng, kind, size) for rng, size in ((stream, None), (shallow, None), (stream, 700), (shallow, 9))]
        np.testing.assert_array_equal(np.hstack(parts), draw(whole, kind, 711))


def test_threads_share_no_variate() -> None:
    stream = Stream(8)
    with ThreadPoolExecutor(8) as pool:
        parts = [*pool.map(lambda n: np.atleast_1d(stream.normal(size=None if n % 3 else 500)), range(900))]
    found = np.sort(np.concatenate(parts))
    np.testing.assert_array_equal(found, np.sort(Stream(8).normal(size=found.size)))


CALLS: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("normal", (), {}),
    ("normal", (1, 2), {}),
    ("normal", (1.0, 2.0, 3), {}),
    ("normal", (), {"size": (2, 3)}),
    ("normal", (), {"size": ()}),
    ("normal", (np.zeros(3), 1.0), {}),
    ("normal", (np.zeros(3), np.ones((2, 1))), {}),
    ("normal", (np.zeros(3), 1.0, (4, 3)), {}),
    ("normal", (np.zeros(3), 1.0, 4), {}),
    ("normal", (0.0, -1.0), {}),
    ("normal", (0.0, np.array([1.0, -1.0])), {}),
    ("normal", (0.0, "a"), {}),
    ("normal", (), {"size": -1}),
    ("normal", (), {"size": 2.5}),
    ("laplace", ([1.0, 2.0],), {}),
    ("laplace", (np.float32(1), np.int64(2)), {}),
    ("exponential", (2.0,), {"size": np.int64(4)}),
    ("exponential", (-2.0,), {}),
    ("uniform", (2, 5, 4), {}),
    ("uniform", (5.0, 2.0), {}),
    ("uniform", (0.0, np.inf), {}),
    ("uniform", (np.zeros(2), [1, 2]), {}),
    ("random", (), {}),
    ("random", (4,), {"dtype": np.float32}),
    ("random", (), {"out": np.empty(3)}),
    ("random", (4,), {"out": np.empty(3)}),
    ("random", (), {"out": np.empty((3, 3)).T}),
    ("random", (), {"out": np.empty(6)[::2]}),
    ("standard_normal", (3,), {"out": np.empty(3)}),
    ("standard_normal", (), {"dtype": int}),
    ("standard_exponential", (3,), {"method": "inv"}),
    ("standard_exponential", (3,), {"dtype": "f4"}),
    ("integers", (5,), {}),
    ("integers", (5, 3), {}),
    ("integers", (0,), {}),
    ("integers", (0,), {"endpoint": True}),
    ("integers", (2, 8, (2, 2)), {}),
    ("integers", (2.5,), {}),
    ("integers", (0, 2), {"dtype": bool, "size": 3}),
    ("integers", (0, 200), {"dtype": np.uint8, "size": 3}),
    ("integers", ([1, 2], 5), {}),
    ("integers", (0, 1 << 64), {}),
    ("integers", (-(1 << 63), 1 << 63), {"size": 2}),
]


@pytest.mark.parametrize("call", CALLS, ids=str)
def test_arguments_are_taken_as_numpy_takes_them(call: tuple[str, tuple[Any, ...], dict[str, Any]]) -> None:
    """Types, shapes and dtypes of what is returned, and the errors."""
    name, arguments, options = call

    def outcome(generator: np.random.Generator) -> Any:
        try:
            found = getattr(generator, name)(*arguments, **options)
        except Exception as error:
            return type(error)
        return type(found), np.shape(found), getattr(found, "dtype", None)

    assert outcome(Stream(1)) == outcome(np.random.default_rng(1))


def digest() -> str:
    """Of the bits of a stream."""
    stream, found = Stream(np.random.SeedSequence(1, spawn_key=(2, 3))), hashlib.sha256()
    for kind in (*KINDS, "integers"):
        found.update(np.ascontiguousarray(draw(stream, kind, 5000)).tobytes())
    return found.hexdigest()


@pytest.mark.parametrize("features", ["", "+avx2,+fma", "+sse4.2"])
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
    study.write_text(study.read_text().replace('name = "s"\n', f'name = "s"\n{line}'))
    return study


def test_a_study_names_its_stream(tmp_path: Path) -> None:
    store = tmp_path / "s.zarr"
    place = ("--store", store, "--workers", "0")
    whole = call("run", study_of(tmp_path, "philox"), *place).stdout
    call("run", study_of(tmp_path / "numpy", "numpy"), "--store", tmp_path / "n.zarr", "--workers", "0")
    call("run", study_of(tmp_path / "none", None), "--store", tmp_path / "none.zarr", "--workers", "0")
    shown = {name: show(tmp_path / name) for name in ("s.zarr", "n.zarr", "none.zarr")}
    assert shown["n.zarr"] == shown["none.zarr"] != shown["s.zarr"]
    assert stored_problem(store).study.study.stream == "philox"
    assert set(stored_problem(store).laws).isdisjoint(stored_problem(tmp_path / "n.zarr").laws)
    refused = call("run", study_of(tmp_path, "numpy"), *place, code=2).stderr
    assert 'study.stream ("philox" in the store, "numpy" given)' in refused
    assert call("run", study_of(tmp_path, None), *place, "--recheck").stdout == whole, "the store's"
    call("run", study_of(tmp_path, None, test=6000), *place)
    call("run", study_of(tmp_path, "philox", test=6000), "--store", tmp_path / "t.zarr", "--workers", "2")
    grown, new = (json.loads(show(path))["spectrum"] for path in (store, tmp_path / "t.zarr"))
    assert grown == new != json.loads(shown["s.zarr"])["spectrum"]
    assert "philox" in call("run", study_of(tmp_path, "mt19937"), *place, code=2).stderr


def test_what_draws_nothing_has_no_stream(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(100.0))
    stored = {"call": "stored", "parameters": {"files": ["a.npy", "a.npy"]}, "train": 40, "test": 40}
    message = call("run", study_of(tmp_path, "philox", **stored), "--store", tmp_path / "s.zarr", code=2).stderr
    assert "study.stream: stored draws nothing" in message


@pytest.mark.parametrize("call_of", ["laplace", "gaussian"])
def test_bounds_of_known_curves_hold(call_of: str, tmp_path: Path) -> None:
    """The whole way from these draws to a bound: 21 ε, both directions, 10⁵ draws a side."""
    parameters = {"laplace": {"epsilon": 1.0}, "gaussian": {"sigma": 1.0}}[call_of]
    study = study_of(
        tmp_path,
        "philox",
        call=call_of,
        parameters=parameters,
        pairs="given = [ { d = [0.0], d_prime = [1.0] } ]",
        train=100_000,
        test=100_000,
        chunk=30_000,
        epsilons=[0.05 * k for k in range(21)],
    )
    call("run", study, "--store", tmp_path / "s.zarr", "--workers", "0")
    found = json.loads(show(tmp_path / "s.zarr"))["spectrum"]
    curve = LaplaceShift(1.0) if call_of == "laplace" else GaussianShift(1.0)
    for row in found:
        exact = float(curve.delta(row["epsilon"]))
        assert row["lower"] <= exact
        assert row["delta"] == pytest.approx(exact, abs=6 * math.exp(row["epsilon"]) / math.sqrt(100_000))
