"""The study file: what is accepted, and that every refusal names the key, what was given and what is accepted."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from hpcdp.errors import MechanismError, StudyError
from hpcdp.mechanisms.outputs import canonicalise
from hpcdp.study.databases import enumerate_pairs, load_databases, read_database, to_database
from hpcdp.study.file import Study
from hpcdp.study.section import ALWAYS

GOOD: dict[str, Any] = {
    "study": {"name": "laplace", "seed": 20240520},
    "mechanism": {"call": "laplace", "parameters": {"epsilon": 1.0}},
    "pairs": {"given": [{"d": [0.0], "d_prime": [1.0]}]},
    "estimate": {"epsilons": {"start": 0.0, "stop": 2.0, "count": 21}},
}


def changed(path: str, value: Any) -> dict[str, Any]:
    """GOOD with one key set; a value of ... removes the key."""
    data = copy.deepcopy(GOOD)
    *sections, key = path.split(".")
    at = data
    for section in sections:
        at = at.setdefault(section, {})
    if value is ...:
        del at[key]
    else:
        at[key] = value
    return data


def test_defaults_are_those_of_the_contract() -> None:
    study = Study.from_dict(GOOD)
    e = study.estimate
    assert (e.loss, e.train, e.test, e.chunk, e.keep, e.confidence) == ("auto", 262144, 1835008, 262144, "all", 0.95)
    assert study.study.stream == "philox"
    assert e.etas == ()
    assert study.study.claim is None
    assert e.epsilons[0] == 0.0
    assert e.epsilons[-1] == 2.0
    np.testing.assert_allclose(e.epsilons, np.linspace(0, 2, 21), rtol=0, atol=1e-15)


def test_grids_of_any_count_share_their_points() -> None:
    coarse = Study.from_dict(GOOD).estimate.epsilons
    fine = Study.from_dict(changed("estimate.epsilons", {"start": 0, "stop": 2, "count": 41})).estimate.epsilons
    assert set(coarse) <= set(fine)


@pytest.mark.parametrize("stream", ["numpy", "philox", ...])
def test_a_dictionary_says_all(stream: Any) -> None:
    """Whatever the absence of a key means in stores, which hold less."""
    study = Study.from_dict(changed("study.stream", stream) if stream is not ... else GOOD)
    again = Study.from_dict(study.to_dict())
    assert again.study.stream == study.study.stream == ("philox" if stream is ... else stream)
    assert again.to_dict() == study.to_dict()
    assert ("stream" in study.to_stored()["study"]) == (stream != "numpy")


def test_a_store_holds_no_key_that_is_left_out() -> None:
    """Else stores of before a key was added would be refused as another study's."""
    study = Study.from_dict(GOOD)
    absent = {name for name, key in study.estimate.keys().items() if key.absent is not ALWAYS}
    assert len(absent) > 5
    assert not absent & study.to_stored()["estimate"].keys()


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("estimate.tests", 5, ["estimate.tests", "unknown key", "5", "train"]),
        ("studi", {}, ["studi", "unknown key", "mechanism"]),
        ("study.seed", -1, ["study.seed", "-1", "0"]),
        ("study.seed", 1.5, ["study.seed", "1.5", "whole number"]),
        ("study.name", ..., ["study.name", "required"]),
        ("study.name", "a/b", ["name", "a/b", "letters"]),
        ("estimate.epsilons", ..., ["estimate.epsilons", "required"]),
        ("estimate.epsilons", [-0.5, 1.0], ["epsilons", "at least 0", "-0.5"]),
        ("estimate.epsilons", [0.0, 1000.0], ["epsilons", "at most 200", "1000.0"]),
        ("estimate.epsilons", [], ["epsilons", "at least one"]),
        ("estimate.epsilons", ["a"], ["epsilons", "finite numbers"]),
        ("estimate.epsilons", [float("inf")], ["epsilons", "finite"]),
        ("estimate.epsilons", {"start": 0, "stop": 1}, ["epsilons", "count"]),
        ("estimate.etas", [0.0], ["etas", "above 0"]),
        ("estimate.train", 0, ["estimate.train", "0", "at least"]),
        ("estimate.test", 0, ["estimate.test", "0", "at least"]),
        ("estimate.test", "many", ["estimate.test", "many", "whole number"]),
        ("estimate.confidence", 1.0, ["estimate.confidence", "1.0", "below"]),
        ("estimate.confidence", 0, ["estimate.confidence", "0", "at least"]),
        ("estimate.loss", "magic", ["magic", "frequency"]),
        ("estimate.parameters", {"q": 3}, ["q", "k"]),
        ("estimate.parameters", {"metric": "cosine"}, ["metric", "cosine", "euclidean"]),
        ("estimate.keep", "some", ["estimate.keep", "some", "train"]),
        ("pairs", {}, ["pairs", "exactly one"]),
        ("pairs.relative", {"file": "x.csv"}, ["pairs", "exactly one", "given, relative"]),
        ("pairs", {"distributional": {"call": "a:b"}}, ["pairs.distributional.0.values", "missing", "exchangeable"]),
        ("pairs", {"relative": {"databases": [[1]], "relation": "swap"}}, ["relation", "swap", "remove"]),
        ("pairs", {"relative": {}}, ["exactly one of databases, file, call"]),
        ("pairs", {"relative": {"databases": [[1, 2]], "rows": []}}, ["rows"]),
        ("pairs.given", [{"d": [0.0]}], ["d_prime", "required"]),
    ],
)
def test_refusals_name_key_value_and_choice(path: str, value: Any, words: list[str]) -> None:
    with pytest.raises(StudyError) as caught:
        Study.from_dict(changed(path, value))
    for word in words:
        assert word in str(caught.value), str(caught.value)


@pytest.mark.parametrize(
    ("pairs", "words"),
    [
        ({"given": [{"d": [], "d_prime": [1.0]}]}, ["pairs.given.0.d", "empty"]),
        ({"given": [{"d": ["x"], "d_prime": [1.0]}]}, ["pairs.given.0.d", "numbers", "text in row 0"]),
        ({"given": [{"d": [1.0, "2.0"], "d_prime": [1.0]}]}, ["numbers only; given: text in row 1"]),
        ({"given": [{"d": [[1.0, 2.0], [3, "4"]], "d_prime": [1.0]}]}, ["given: text in row 1, column 1"]),
        ({"given": [{"d": [[1, 2], [3]], "d_prime": [1.0]}]}, ["pairs.given.0.d", "different lengths"]),
        ({"relative": {"databases": [[1.0], []]}}, ["databases.1", "empty"]),
        ({"relative": {"databases": [[1.0, 2.0]], "rows": [2]}}, ["rows", "0 to 1", "2"]),
        ({"relative": {"file": "nowhere.csv"}}, ["nowhere.csv", "no file"]),
        ({"relative": {"file": "text.csv"}}, ["text.csv", "column 1 (from 0)", "not numeric in row 0", "DataFrame"]),
        (
            {"relative": {"file": "semicolons.csv"}},
            ["column 0 (from 0) has semicolons in row 1", "commas between cells", "pandas.read_csv(file, sep=';')"],
        ),
        ({"relative": {"file": "gap.csv"}}, ["column 1 (from 0) is empty in row 1", "fill in what is missing"]),
        ({"relative": {"file": "line.csv"}}, ["column 0 (from 0) is empty in row 2", "fill in what is missing"]),
        ({"relative": {"file": "head.csv"}}, ["head.csv", "empty"]),
        ({"relative": {"file": "table.txt"}}, ["table.txt", ".csv", ".txt"]),
        ({"relative": {"call": "no_such_module:f"}}, ["pairs.relative.call", "no_such_module"]),
        ({"relative": {"call": "nonsense"}}, ["package.module:callable", "nonsense"]),
    ],
)
def test_databases_that_cannot_be_had(tmp_path: Path, pairs: dict[str, Any], words: list[str]) -> None:
    (tmp_path / "text.csv").write_text("age,name\n3,Ada\n4,Bob\n")
    (tmp_path / "semicolons.csv").write_text("age;income\n3\n4;5\n")
    (tmp_path / "gap.csv").write_text("age,income\n3,1\n4,\n")
    (tmp_path / "line.csv").write_text("income\n3\n1\n\n4\n\n")
    (tmp_path / "head.csv").write_text("age,height\n")
    (tmp_path / "table.txt").write_text("1\n")
    study = Study.from_dict({**GOOD, "pairs": pairs}, tmp_path)
    with pytest.raises(StudyError) as caught:
        enumerate_pairs(study, load_databases(study))
    for word in words:
        assert word in str(caught.value), str(caught.value)


def neighbours(tmp_path: Path, **relative: Any) -> list[tuple[list[Any], dict[str, Any]]]:
    study = Study.from_dict({**GOOD, "pairs": {"relative": relative}}, tmp_path)
    return [(pair.d_prime.tolist(), pair.origin) for pair in enumerate_pairs(study, load_databases(study))]


def test_remove_one_neighbours_that_are_equal_are_one_pair(tmp_path: Path) -> None:
    assert neighbours(tmp_path, databases=[[0, 1, 1], [5.0, 6.0]]) == [
        ([1, 1], {"database": 0, "rows": [0]}),
        ([0, 1], {"database": 0, "rows": [1, 2]}),
        ([6.0], {"database": 1, "rows": [0]}),
        ([5.0], {"database": 1, "rows": [1]}),
    ]
    assert len(neighbours(tmp_path, databases=[[0, 1, 1]], rows=[2])) == 1


def test_edit_neighbours(tmp_path: Path) -> None:
    found = neighbours(tmp_path, databases=[[0, 1]], relation="edit", values=[0, 7])
    assert found == [
        ([7, 1], {"database": 0, "rows": [0], "value": 7}),
        ([0, 0], {"database": 0, "rows": [1], "value": 0}),
        ([0, 7], {"database": 0, "rows": [1], "value": 7}),
    ]
    assert [d for d, _ in neighbours(tmp_path, databases=[[0, 1]], relation="edit")] == [[1, 1], [0, 0]]


@pytest.mark.parametrize("kind", ["csv", "plain.csv", "npy", "parquet"])
def test_files_hold_the_same_database(tmp_path: Path, kind: str) -> None:
    table = np.array([[1.5, 2.0], [3.0, 4.0], [5.0, -6.0]])
    path = tmp_path / f"data.{kind}"
    if kind == "csv":
        path.write_text("a,b\n1.5,2\n3,4\n5,-6\n")
    elif kind == "plain.csv":
        path.write_text("1.5,2\n3,4\n5,-6\n")
    elif kind == "npy":
        np.save(path, table)
    else:
        import pyarrow as pa
        import pyarrow.parquet as parquet

        parquet.write_table(pa.table({"a": table[:, 0], "b": table[:, 1]}), path)
    study = Study.from_dict({**GOOD, "pairs": {"relative": {"file": path.name}}}, tmp_path)
    (database,) = load_databases(study)
    np.testing.assert_array_equal(database, table)


def test_a_toml_file_is_read_with_its_folder(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    pairs = "[[pairs.given]]\nd = [0]\nd_prime = [1]\n"
    path.write_text('[study]\nname = "a"\nseed = 1\n[mechanism]\ncall = "laplace"\n' + pairs)
    with pytest.raises(StudyError, match=r"estimate: required and missing"):
        Study.from_toml(path)
    path.write_text(path.read_text() + "[estimate]\nepsilons = [0, 1]\n")
    assert Study.from_toml(path).folder == tmp_path.resolve()
    with pytest.raises(StudyError, match="no study file"):
        Study.from_toml(tmp_path / "other.toml")
    path.write_text("[study\n")
    with pytest.raises(StudyError, match="not TOML"):
        Study.from_toml(path)


@pytest.mark.parametrize("largest", [2**53 + 1, 2**60 + 7, 2**63 - 1])
def test_unsigned_beside_signed_integers_stay_what_they_are(largest: int) -> None:
    """NumPy makes floats of both, as databases and as outputs."""
    rows = [(np.uint64(largest), np.int64(-5)), (np.uint64(3), np.int64(largest))]
    frame = pd.DataFrame({"a": np.array([largest, 3], np.uint64), "b": np.array([-5, largest])})
    for given in (rows, [list(row) for row in rows], frame):
        for array in (to_database(given, "here"), canonicalise(given, 2)):
            assert array.dtype == np.int64
            assert array.tolist() == [[largest, -5], [3, largest]]
    frame["a"] += np.uint64(2**63)
    with pytest.raises(StudyError, match=r"an integer of 64 bits, and accepted"):
        to_database(frame, "here")
    with pytest.raises(MechanismError, match=rf"the integer {largest + 2**63}; accepted: 64-bit"):
        canonicalise(frame, 2)
    assert canonicalise([(np.uint64(2**60), 0.5)] * 2, 2).dtype == np.float64


@pytest.mark.parametrize("number", [2**53 + 1, -(2**53) - 1, 2**60 + 7, 2**63 - 1])
def test_integers_beside_reals_that_would_be_rounded_are_refused(number: int, tmp_path: Path) -> None:
    words = f"given: one of {number.bit_length()} bits in row 1, column 0, which would be rounded"
    for given in ([[1, 0.5], [number, 2]], [(1, 0.5), (np.int64(number), 2.0)]):
        with pytest.raises(StudyError, match=words):
            to_database(given, "here")
    with pytest.raises(StudyError, match=f"given: one of {number.bit_length()} bits in row 0, which"):
        to_database([number, 0.5], "here")
    for path in files(tmp_path, [1, number], [0.5, 2.0]):
        with pytest.raises(StudyError, match=words):
            read_database(path)


def files(folder: Path, *columns: list[Any]) -> list[Path]:
    """A table as CSV and as Parquet."""
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    frame = {"a": pa.array(columns[0], pa.uint64() if max(columns[0]) >> 63 else pa.int64()), "b": pa.array(columns[1])}
    parquet.write_table(pa.table(frame), folder / "x.parquet")
    (folder / "x.csv").write_text("a,b\n" + "".join(f"{a},{b}\n" for a, b in zip(*columns, strict=True)))
    return [folder / "x.csv", folder / "x.parquet"]


def test_integers_of_files_that_numpy_would_round(tmp_path: Path) -> None:
    for path in files(tmp_path, [2**63 + 5, 2], [-1, 3]):
        with pytest.raises(StudyError, match=r"given: an integer of 64 bits, and accepted are integers from"):
            read_database(path)
    for path in files(tmp_path, [2**63 - 1, 2], [-1, -(2**53) - 1]):
        assert read_database(path).tolist() == [[2**63 - 1, -1], [2, -(2**53) - 1]]


@pytest.mark.parametrize(
    ("value", "bits"),
    [
        ([2**64 - 1], "64"),
        (np.array([[2**64 - 1]], np.uint64), "64"),
        ([10**5000], "16,610"),
        ([2**63 + 5, 1], "64"),  # beside others they would become floats, and other integers with them
        ([[1, 2], [2**63, 0.5]], "64"),
        ([True, np.uint64(2**63)], "64"),
        ([-(2**63) - 1, 0.5], "64"),
    ],
)
def test_integers_that_int64_does_not_hold_are_refused(value: Any, bits: str) -> None:
    accepted = r"and accepted are integers from -2\*\*63 to 2\*\*63 - 1"
    with pytest.raises(StudyError, match=f"here: numbers only; given: an integer of {bits} bits, {accepted}"):
        to_database(value, "here")


@pytest.mark.parametrize(
    "value",
    [
        np.array([2**63 - 1], np.uint64),
        [-(2**63), 2**63 - 1],
        [1e30, 1],
        np.array([1e30, -(2.0**63)]),
        [2**60 + 2**10, 0.5],  # beside a real, but floats hold it
    ],
)
def test_integers_and_reals_that_can_be_held_stay(value: Any) -> None:
    assert to_database(value, "here").tolist() == list(value)
