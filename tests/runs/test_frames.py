"""DataFrames: as databases, of which a store holds codes, and rows and series of theirs as outputs."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from commands import blocks, call, kept, one_message
from given_objects import FRAME, SECRET
from journals import records

import hpcdp
from hpcdp.errors import MechanismError, StudyError
from hpcdp.mechanisms._callable import CallableMechanism
from hpcdp.mechanisms.outputs import canonicalise
from hpcdp.mechanisms.tabular import Frames, plain_output, plain_outputs
from hpcdp.study.databases import enumerate_pairs, load_databases

LEVELS = FRAME.set_axis(
    pd.MultiIndex.from_arrays([[SECRET, "x", SECRET], [2, 1, 1], FRAME["when"].ffill()], names=["a", None, "c"])
)
"""An index of three levels: text, numbers and times."""
OTHER_KIND = "here, DataFrame 1: columns, dtypes with their categories, and index as in the first"


@pytest.mark.parametrize(
    "frame",
    [
        FRAME,
        FRAME.reset_index(drop=True),
        FRAME.set_index("age"),
        FRAME.set_index("when"),
        FRAME[["age", "big"]].set_axis(["same", "same"], axis=1),
        FRAME.set_axis(pd.MultiIndex.from_product([["a", "b"], range(5)]), axis=1),
        pd.DataFrame({0: np.linspace(0.1, 0.9, 7)}),
        LEVELS,
        LEVELS.iloc[[0, 1, 0]],
        LEVELS.set_axis(pd.MultiIndex.from_frame(FRAME[["group", "zone", "weight", "mixed"]].iloc[:2].iloc[[0, 1, 0]])),
        LEVELS.set_axis(pd.MultiIndex.from_arrays([[True, False, True], np.array([1, 2, 3], np.uint8)])),
    ],
)
def test_codes_and_back(frame: pd.DataFrame) -> None:
    """With dtypes, index and text, of the frame and of all neighbours without a row."""
    frames, (codes,) = Frames.of([frame], "here")
    assert codes.dtype == np.int64
    pd.testing.assert_frame_equal(frames.decode(codes), frame)
    for row in range(len(frame)):
        without = (
            frame.drop(index=frame.index[row]) if frame.index.is_unique else frame.iloc[np.arange(len(frame)) != row]
        )
        pd.testing.assert_frame_equal(frames.decode(np.delete(codes, row, axis=0)), without, check_index_type="equiv")


@pytest.mark.parametrize(
    "change",
    [
        lambda frame: frame.astype({"age": np.int64}),
        lambda frame: frame.rename(columns={"age": "years"}),
        lambda frame: frame.assign(group=frame["group"].cat.remove_unused_categories()),
        lambda frame: frame.rename_axis("whom"),
        lambda frame: frame.reset_index(drop=True),
        lambda frame: frame.set_index("member", append=True),
    ],
)
def test_frames_of_other_kinds_have_other_codes_and_are_refused_together(change: Callable[[Any], Any]) -> None:
    (one,), (other,) = Frames.of([FRAME], "here")[1], Frames.of([change(FRAME)], "here")[1]
    assert not np.array_equal(one[:, 0], other[:, 0])
    with pytest.raises(StudyError, match=OTHER_KIND):
        Frames.of([FRAME, change(FRAME)], "here")


def test_indices_of_other_categories_or_levels_are_refused_together() -> None:
    """Codes of one would be labels of the other, or none."""
    labels = pd.CategoricalIndex(["x", "y", "x"])
    one, other = FRAME.set_axis(labels), FRAME.set_axis(pd.CategoricalIndex(["x", "z", "x"]))
    of_times = LEVELS.set_axis(
        LEVELS.index.set_levels(pd.to_datetime(["2020-01-01", "2021-02-03"]), level=1, verify_integrity=False)
    )
    x, y = (pd.DataFrame({"group": pd.Categorical(["x", "y"], categories=order)}) for order in (["x", "y"], ["y", "x"]))
    # whose dtypes are equal, and count their values in other orders
    for first, second in ((one, other), (LEVELS, of_times), (LEVELS, LEVELS.rename_axis(["a", "b", "c"])), (x, y)):
        with pytest.raises(StudyError, match=OTHER_KIND):
            Frames.of([first, second], "here")


def test_a_frame_beside_it_changes_no_codes() -> None:
    """So that a database that is added to T changes nothing that is there."""
    alone = Frames.of([FRAME], "here")[1][0]
    beside = Frames.of([FRAME.assign(name="aaron"), FRAME], "here")[1][1]
    np.testing.assert_array_equal(alone, beside)


DTYPES = FRAME.dtypes.tolist()


def answer(database: pd.DataFrame, rng: np.random.Generator) -> Any:
    """Randomised response, wrong in one of four, of whether somebody is there; and a coin of its own."""
    assert database.dtypes.tolist() == DTYPES
    is_there = SECRET in set(database["name"]) and "r1" in database.index
    said = is_there if rng.random() < 0.75 else not is_there
    return "yes" if said else "no", int(rng.integers(2)), 0.5


FORMS: dict[str, Callable[..., Any]] = {
    "a tuple": answer,
    "a series": lambda database, rng: pd.Series(answer(database, rng), index=["said", "coin", "half"]),
    "a row of a frame": lambda database, rng: pd.DataFrame([answer(database, rng)]),
    "a row by its place": lambda database, rng: pd.DataFrame([answer(database, rng)]).iloc[0],
    "a frame": lambda database, size, rng: pd.DataFrame([answer(database, rng) for _ in range(size)]),
    "a frame of levels": lambda database, size, rng: FORMS["a frame"](
        database.droplevel(list(range(1, database.index.nlevels))), size, rng
    ),
    "a column": lambda database, size, rng: pd.Series([answer(database, rng)[0] for _ in range(size)]),
}


def check(result: Any, truths: list[Callable[[float], float]], size: int) -> None:
    """Of each pair; wrong with at most one in 10⁶ seeds, by Hoeffding's inequality for both shares at all cells."""
    cells = result.cells()
    off = math.sqrt(math.log(2 * 2 * len(cells) / 1e-6) / (2 * size))
    for row in cells:
        growth = math.exp(row["epsilon"])
        assert abs(row["delta"] - truths[row["pair"]](growth)) < off * (1.0 + growth)


def seen(growth: float) -> float:
    """The exact δ of what `answer` says with a row and without it."""
    return 0.75 - 0.25 * growth


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_randomised_response_of_a_text(form: str) -> None:
    sizes = {"train": 2000, "test": 2000, "loss": "frequency", "seed": 11, "workers": 0}
    result = hpcdp.spectrum(FORMS[form], FRAME, FRAME.drop(index="r1"), epsilons=[0.0, 0.5], **sizes)
    check(result, [seen], 2000)


def framed(databases: list[Any], values: Any = None, **mechanism: Any) -> hpcdp.Study:
    """A study of T, whose databases are frames perhaps; values: of rows that are edited."""
    edits = {} if values is None else {"relation": "edit", "values": values}
    return hpcdp.Study.from_dict(
        {
            "study": {"name": "s", "seed": 5},
            "mechanism": {"call": FORMS["a frame"], **mechanism},
            "pairs": {"relative": {"databases": databases, **edits}},
            "estimate": {"train": 400, "test": 600, "chunk": 200, "epsilons": [0.0], "loss": "frequency"},
        }
    )


def of_codes(*stores: Path) -> None:
    """Stores of one study hold the same, and no text of its frames."""
    found = []
    for store in stores:
        entries = [(r.kind, entry) for r in records(store, "fits", "counts") for entry in r.body["entries"]]
        found.append(
            {json.dumps(entry) for entry in entries}
        )  # whatever pairs share a record, by the time that they take
        assert not any(SECRET.encode() in body for body in kept(store).values())
    assert found == found[:1] * len(stores)
    assert all(blocks(store) == blocks(stores[0]) for store in stores)


@pytest.mark.slow
def test_a_store_holds_codes_alone(tmp_path: Path) -> None:
    """Of frames in T, every row of which is removed in turn; here, and in workers, with the same bits."""
    here, there = tmp_path / "h.zarr", tmp_path / "w.zarr"
    result = hpcdp.run(framed([FRAME]), here)
    assert [pair["rows"] for pair in result.pairs] == [[0], [1], [2]]
    hpcdp.run(framed([FRAME]), there, workers=1)
    of_codes(here, there)
    grown = hpcdp.run(framed([FRAME, FRAME.assign(age=FRAME["age"] + np.int32(1))]), here)
    assert grown.complete
    assert len(grown.pairs) == 6


@pytest.mark.parametrize("frame", [FRAME, LEVELS, FRAME.reset_index(drop=True)])
@pytest.mark.parametrize("values", [None, FRAME.iloc[[1, 2]].assign(name=["carl", None]).reset_index(drop=True)])
def test_edits_set_what_a_row_holds_and_leave_its_label(frame: pd.DataFrame, values: pd.DataFrame | None) -> None:
    """Of each row to each other row; without values to all rows of its own. With dtypes, index and text."""
    edits = {} if values is None else {"values": values}
    relative = {"databases": [frame], "relation": "edit", **edits}
    study = hpcdp.Study.from_dict(
        {**framed([frame]).to_dict(), "mechanism": {"call": FORMS["a frame"]}, "pairs": {"relative": relative}}
    )
    assert study.frames is not None
    frames, codes = study.frames
    pairs = enumerate_pairs(study, load_databases(study))
    source, found = frame if values is None else values, []
    for row in range(len(frame)):
        for place in range(len(source)):
            if values is None and place == row:
                continue
            taken = [place if number == row else len(source) + number for number in range(len(frame))]
            both = pd.concat([source.reset_index(drop=True), frame.reset_index(drop=True)], ignore_index=True)
            found.append(both.iloc[taken].set_axis(frame.index))
    own = [edited for edited in found if not edited.equals(frame)]
    assert len(pairs) == len(own) == (6 if values is None else 5)
    made = [frames.decode(pair.d_prime) for pair in pairs]
    for edited in own:
        (same,) = [one for one in made if one.equals(edited)]
        pd.testing.assert_frame_equal(same, edited, check_index_type="exact" if frame.index.nlevels > 1 else "equiv")
    again = hpcdp.Study.from_dict(study.to_dict())  # as a store has it
    assert [pair.origin for pair in enumerate_pairs(again, codes)] == [pair.origin for pair in pairs]


@pytest.mark.slow
def test_who_goes_on_gives_them_again(tmp_path: Path) -> None:
    (tmp_path / "frames_own.py").write_text(
        "def noisy(database, size, rng):\n    return database['age'].sum() + rng.laplace(size=size)\n"
    )
    named = hpcdp.Study.from_dict({**framed([FRAME]).to_dict(), "mechanism": {"call": "frames_own:noisy"}}, tmp_path)
    with pytest.raises(StudyError, match="given as DataFrames, of which a store keeps codes alone"):
        hpcdp.run(named, tmp_path / "s.zarr")
    whole = {**named.to_dict(), "pairs": {"relative": {"databases": [FRAME]}}}
    whole["estimate"] = {**whole["estimate"], "loss": "knn"}
    hpcdp.run(hpcdp.Study.from_dict(whole, tmp_path), tmp_path / "s.zarr")
    said = one_message(call("resume", tmp_path / "s.zarr", code=2))
    assert said.endswith("of which a store keeps codes alone; give them again to hpcdp.run")
    said = one_message(call("show", tmp_path / "s.zarr", "--rows", "--show-rows", code=2))
    assert "given: a DataFrame, whose texts are not stored" in said


ROWS_OF_FRAMES = "values: a DataFrame of rows where databases are DataFrames, and else a list of rows"


@pytest.mark.parametrize(
    ("databases", "given", "words"),
    [
        ([FRAME, [1.0]], {}, "pairs: DataFrames alone, or none; given: 1 of 2 databases"),
        ([FRAME.iloc[:0]], {}, "DataFrame 0: an empty database"),
        ([FRAME.set_axis(pd.MultiIndex.from_arrays([[1, 1, 1], [1, 2, None]]))], {}, "level 1 of the index: labels of int64"),
        ([FRAME.set_index(pd.Index([threading.Lock(), 1, 2]), append=True)], {}, "0: the index, level 1: text, numbers"),
        ([FRAME.assign(name=[["x"], 1, 2])], {}, "column 'name': text, numbers, .* given: a list"),
        ([FRAME.assign(name=[threading.Lock(), 1, 2])], {}, "column 'name': text, numbers, booleans, times and missing values"),
        ([FRAME], {"call": "laplace", "parameters": {"epsilon": 1.0}}, "a database of numbers, which laplace takes"),
        ([FRAME], {"call": {"command": ["cat"]}}, "a database of numbers, which "),
        ([FRAME["age"]], {}, "pairs.relative.databases.0: a list"),
        ([FRAME], {"values": [[1, 2]]}, ROWS_OF_FRAMES),
        ([[1.0, 2.0]], {"values": FRAME}, ROWS_OF_FRAMES),
        ([FRAME], {"values": FRAME.iloc[:0]}, "codes"),
        ([FRAME], {"values": FRAME.drop(columns="age")}, "rows that are set have columns and dtypes"),
        ([FRAME], {"values": FRAME.astype({"age": np.int64})}, "rows that are set have columns and dtypes"),
    ],
)  # fmt: skip
def test_what_cannot_be_a_database_or_set_in_one(databases: list[Any], given: Any, words: str, tmp_path: Path) -> None:
    with pytest.raises(StudyError, match=words):
        hpcdp.run(framed(databases, **given), tmp_path / "s.zarr")
    assert not (tmp_path / "s.zarr").exists()


def test_what_a_frame_raises_is_the_mechanism_s() -> None:
    class Odd(pd.DataFrame):
        def to_numpy(self, *_: Any) -> Any:
            raise ValueError("no numbers")

    mechanism = CallableMechanism(lambda _, **__: Odd({"a": [1.0]}), {}, vectorised=True)
    with pytest.raises(MechanismError, match=r"the mechanism raised ValueError: no numbers"):
        mechanism.draw(np.zeros(1), 1, np.random.default_rng(0))


def test_rows_of_numbers_stay_numbers() -> None:
    frame = pd.DataFrame({"a": [1, 2], "b": [0.5, 1.5]})
    np.testing.assert_array_equal(canonicalise(plain_outputs(frame), 2), [[1.0, 0.5], [2.0, 1.5]])
    np.testing.assert_array_equal(canonicalise(plain_outputs(frame["a"]), 2), [1, 2])
    assert plain_output(frame.iloc[0]).tolist() == [1.0, 0.5]


def test_what_is_missing_and_times() -> None:
    rows = plain_outputs(FRAME[["name", "count", "when", "age"]])
    assert rows[0] == (SECRET, 1, "2020-01-01T00:00:00", 30)
    assert rows[2] == (None, 3, None, -50)
    with pytest.raises(StudyError, match="the mechanism returned a DataFrame of 3 rows as one output;"):
        hpcdp.spectrum(
            lambda frame, rng: frame.assign(member=rng.random(len(frame)) < 0.5),
            FRAME,
            FRAME.drop(index="r1"),
            epsilons=[0.0],
            train=9,
            test=9,
        )
