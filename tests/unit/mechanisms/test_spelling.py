"""One spelling of every output that is no number: strings and sequences; what has none is refused."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpcdp.errors import MechanismError
from hpcdp.losses.knn.knn import split
from hpcdp.mechanisms.outputs import Schema, canonicalise, schema_of

BYTES = Schema("bytes", None)

LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([0.0, -0.0, 1.0, 2**53, float(2**53)]),
    st.text(st.characters(codec="utf-8"), max_size=4),
    st.sampled_from(["", "[", '"', "\\", "{}", "null", "1", "é\n"]),
)
SEQUENCES = st.recursive(
    st.lists(LEAVES, max_size=3).map(tuple), lambda inner: st.lists(st.one_of(LEAVES, inner), max_size=3).map(tuple)
)


def spell(*outputs):
    return canonicalise(list(outputs), len(outputs), BYTES).tolist()


def as_lists(value):
    """The value as JSON gives it back, with Python's equality between numbers."""
    return [as_lists(item) for item in value] if isinstance(value, tuple) else value


def numpy_twin(value):
    """The same with NumPy's scalars and arrays."""
    if isinstance(value, tuple):
        same = {type(item) for item in value} == {float}
        return np.array(value) if same else [numpy_twin(item) for item in value]
    kinds = {bool: np.bool_, int: np.int64, float: np.float64, str: np.str_}
    return kinds[type(value)](value) if type(value) in kinds and value != "" and "\x00" not in str(value) else value


@given(a=SEQUENCES, b=SEQUENCES)
@settings(max_examples=300)
def test_a_sequence_has_one_spelling_that_no_other_has(a, b):
    (one,) = spell(a)
    assert (one == spell(b)[0]) == (a == b)
    assert spell(a, b, list(a)) == [one, spell(b)[0], one]
    assert spell(numpy_twin(a)) == [one]
    if len(a) == 1 and isinstance(a[0], str) and not a[0].startswith("["):
        assert one == a[0].encode()
    else:
        assert json.loads(one) == as_lists(a)
    frame, numbers = split(one)
    assert (frame == one) == (not numbers)


@given(st.one_of(LEAVES, SEQUENCES), st.one_of(LEAVES, SEQUENCES))
def test_frames_differ_where_more_than_numbers_differs(a, b):
    def gaps(value):
        if isinstance(value, tuple):
            return tuple(gaps(item) for item in value)
        return 0 if isinstance(value, int | float) else value

    parts = [split(spell((None, x))[0]) for x in (a, b)]
    assert (parts[0][0] == parts[1][0]) == (repr(gaps(a)) == repr(gaps(b)))


def test_rules_of_equality():
    assert len(set(spell((True, "x"), (1, "x"), (1.0, "x"), [np.float32(1), "x"], (np.uint8(1), b"x")))) == 1
    assert len(set(spell((0.0, 0.1), (-0.0, np.float64(0.1)), (False, 0.1)))) == 1
    assert len(set(spell((0.1,), (np.float32(0.1),), ("0.1",), (None,), ("",), (), ((),)))) == 7
    assert spell("é", b"\xff", "") == ["é".encode(), b"\xff", b""]


def test_numbers_stay_numbers():
    for raw, kind, columns in [
        ([(1, 2), (3, 4)], "int", 2),
        ([(2, 0.5), (1, 1)], "float", 2),
        (((True,), (False,)), "bool", None),
        (np.array([[1, 2], [3, 4]], object), "int", 2),
        (np.array([1.5, 2], object), "float", None),
        ([("a", "b"), ("c", "d")], "bytes", None),
        (np.array([["a", "b"], ["c", "d"]]), "bytes", None),
        (np.array(["a", "b"], object), "bytes", None),
    ]:
        found = canonicalise(raw, 2)
        assert schema_of(found) == Schema(kind, columns)
        assert schema_of(canonicalise(raw, 2, schema_of(found))) == schema_of(found)
    # where sequences are of mixed length, a chunk of equal lengths is spelled like any other
    for rows in ([[1, 2], [3, 4]], [[1], [2]], [["a"], ["b"]], [["a", "b"], ["c", "d"]], [[0.5, 2], [1, -0.0]]):
        wanted = canonicalise([*rows, []], 3).tolist()[:2]
        assert canonicalise(rows, 2, BYTES).tolist() == wanted
        assert canonicalise(np.array(rows), 2, BYTES).tolist() == wanted


def nested(depth):
    return (nested(depth - 1),) if depth else ()


@pytest.mark.parametrize(
    "raw, words",
    [
        ([{"a": 1}, (1,)], "type dict"),
        ([(1, {2}), (1,)], "type set"),
        ([object(), "a"], "object for others"),
        ([(1, object()), ()], "type object"),
        ([("a", 1j), ()], "type complex"),
        ([(2**63, "a"), ()], "9223372036854775808; accepted: 64-bit"),
        ([(10**5000, "a"), ()], "an integer of 16,610 bits; accepted: 64-bit"),
        ([10**5000, 1], "an integer of 16,610 bits; accepted: 64-bit"),
        (np.ma.masked_array([1.0, 2.0], [True, False]), "masked outputs"),
        (np.full(2, 0x110000, np.uint32).view("U1"), "not valid Unicode"),
        ([("\ud800", 1), ()], "not valid Unicode"),
        (["\ud800", "a"], "not valid Unicode"),
        ([1, (1,)], "the number 1 among"),
        (["a", 1.0], "strings for some outputs and numbers for others"),
        (["a", (1,)], "strings for some outputs and sequences for others"),
        ([np.zeros((2, 2)), ()], "shape (2, 2)"),
        ([(1, np.datetime64("2020-01-01")), ()], "type datetime64"),
        ([nested(20), ()], "nested too deeply; accepted: 16 levels"),
        ([(1,), (1, 2), ()], "3 outputs; accepted: 2"),
    ],
)
def test_what_has_no_spelling_is_refused(raw, words):
    with pytest.raises(MechanismError) as caught:
        canonicalise(raw, 2)
    assert words in str(caught.value)
    with pytest.raises(MechanismError):
        canonicalise(raw, 2, BYTES)


def test_numbers_where_strings_are_due():
    with pytest.raises(MechanismError, match="the number 1 among outputs that are strings or sequences"):
        canonicalise([1, 2], 2, BYTES)
    with pytest.raises(MechanismError, match="integers; its first outputs were strings or sequences, and all must be"):
        canonicalise(np.arange(2), 2, BYTES)
