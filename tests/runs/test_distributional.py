"""Distributional DP: estimates against exact truths, and every way in which a distribution may be wrong."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from commands import blocks, call, nothing_lost, one_message, write_study
from scipy.stats import binom
from studies import run

import hpcdp
from hpcdp.analytic import Discrete
from hpcdp.errors import StudyError
from hpcdp.report.html.page import write_page
from hpcdp.study.databases import enumerate_pairs
from hpcdp.study.distributions import load_distributions
from hpcdp.study.file import Study
from hpcdp.study.resolving import resolve

OWN = '''
import time

import numpy as np


def bits(n, generator, rows, probability=0.5):
    """Independent rows of 0 and 1."""
    return generator.random((n, rows)) < probability


class Direct:
    """The same rows, and their number without the rows."""

    def __call__(self, size, rng, *, rows, probability):
        return bits(size, rng, rows, probability)

    def outputs(self, count, generator, row, value, probability, rows):
        return generator.binomial(rows - 1, probability, count) + int(value)


direct = Direct()


def table(size, rng, *, chances):
    """Rows of two columns: a value of 0, 1, 2 and a weight; a row's law depends on its place."""
    columns = [rng.choice(3, size=(size, 1), p=[1 - 2 * c, c, c]) for c in chances]
    values = np.concatenate(columns, axis=1)
    return np.stack([values, np.ones_like(values)], axis=2)


def ones(database, size, rng):
    return np.full(size, int(database.sum()))


def ones_of_each(databases, rng):
    return databases.sum(axis=1)


ones.each = ones_of_each


def weighted(database, rng):
    """One output a call: the weighted sum, for which there is no way for many at once."""
    return int((database[:, 0] * database[:, 1]).sum())


def slow(database, rng):
    time.sleep(0.02)
    return float(database.sum()) + rng.normal()
'''
EPSILONS = [0.0, 0.1, 0.3, 0.7]
CONFIDENCE = 0.9999  # so that no bound fails by chance


def pose(folder: Path, distributional: Any, call: str = "own:ones", **estimate: Any) -> Study:
    """A study of distributional pairs with the mechanisms above."""
    folder.mkdir(exist_ok=True)
    (folder / "own.py").write_text(OWN)
    parameters = estimate.pop("parameters", {})
    return Study.from_dict(
        {
            "study": {"name": "ddp", "seed": 20261121},
            "mechanism": {"call": call, "parameters": parameters},
            "pairs": {"distributional": distributional},
            "estimate": {
                "epsilons": EPSILONS,
                "train": 50_000,
                "test": 50_000,
                "chunk": 20_000,
                "confidence": CONFIDENCE,
                **estimate,
            },
        },
        folder,
    )


def ones_curve(rows: int, probability: float, first: int, second: int) -> Discrete:
    """The number of ones when one of the rows is held at either value."""
    support = np.arange(rows + 1)
    return Discrete(*(binom.pmf(support - held, rows - 1, probability) for held in (first, second)))


def check(result: Any, curves: list[Any], reg: float) -> None:
    """Estimates lie within 5 standard errors of the best classifier above and, beyond reg, below the exact δ."""
    for cell in result.cells():
        truth = float(curves[cell["pair"]].delta(cell["epsilon"], cell["direction"]))
        n, growth = cell["test"][0], np.exp(cell["epsilon"])
        risk = (1 - truth) / growth / 2
        error = 2 * growth * np.sqrt(risk * (1 - risk) / (2 * n))
        assert truth - reg - 5 * error < cell["delta"] < truth + 5 * error, cell
        assert cell["lower"] <= truth


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["frequency", "knn"])
@pytest.mark.parametrize("source", ["bits", "direct"])
def test_noiseless_counts(loss: str, source: str, client: Any, tmp_path: Path) -> None:
    sizes = [(40, 0.5), (90, 0.2), (300, 0.6)]
    held = {"call": f"own:{source}", "values": [1, 0], "exchangeable": True}
    delta = [{**held, "parameters": {"rows": rows, "probability": p}} for rows, p in sizes]
    result = run(pose(tmp_path, delta, loss=loss), tmp_path / "s.zarr", client)
    origins = [{"pair": i, "distribution": i, "index": 0, "values": [1, 0]} for i in range(3)]
    assert result.pairs == origins
    check(result, [ones_curve(rows, p, 1, 0) for rows, p in sizes], 0.001 if loss == "frequency" else 0.004)


def test_a_distribution_that_is_added_leaves_the_others_as_they_are(tmp_path: Path) -> None:
    """Of the store's samples, those of the new one alone are drawn; whatever places the distributions have."""
    held = {"call": "own:bits", "values": [1, 0], "index": [0, 2]}
    one, two, new = ({**held, "parameters": {"rows": 12, "probability": p}} for p in (0.3, 0.5, 0.7))
    sizes = {"loss": "frequency", "train": 300, "test": 400, "chunk": 100, "keep": "all"}
    found = []
    for given in ([one, two], [new, one, two], [two]):
        with nothing_lost(tmp_path / "s.zarr"):
            result = hpcdp.run(pose(tmp_path, given, **sizes), tmp_path / "s.zarr", workers=0)
        found.append((result["exceed"], blocks(tmp_path / "s.zarr")))
    (before, drawn), (grown, more), (left, same) = found
    np.testing.assert_array_equal(grown[2:], before)
    np.testing.assert_array_equal(left, before[2:])
    assert len(more) == 1.5 * len(drawn)
    assert same == more
    write_page(result, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "wants to learn the value of one row; all other rows are random" in page
    assert "apart. Only these databases" not in page  # which is the threat of plain pairs
    assert "Distributional DP: one row has a known value, and all other rows are random." in page


@pytest.mark.slow
def test_rows_of_different_laws(client: Any, tmp_path: Path) -> None:
    chances = [0.1, 0.3, 0.45]
    held = {"index": [0, 2], "values": [[0, 1], [2, 1], [1, 3]]}
    section = {"call": "own:table", "parameters": {"chances": chances}, **held}
    result = run(pose(tmp_path, section, "own:weighted", loss="frequency"), tmp_path / "s.zarr", client)
    assert [(p["index"], p["values"]) for p in result.pairs] == [
        (row, [section["values"][a], section["values"][b]]) for row in (0, 2) for a, b in ((0, 1), (0, 2), (1, 2))
    ]

    def law(row: int, value: list[int]) -> Any:
        others = [np.array([1 - 2 * c, c, c]) for i, c in enumerate(chances) if i != row]
        total = np.convolve(*others)
        return np.concatenate([np.zeros(value[0] * value[1]), total, np.zeros(3 - value[0] * value[1])])

    curves = [Discrete(*(law(p["index"], value) for value in p["values"])) for p in result.pairs]
    check(result, curves, 0.001)


def test_all_rows_and_exchangeable_rows(tmp_path: Path) -> None:
    section: dict[str, Any] = {"call": "own:bits", "parameters": {"rows": 7}, "values": [0, 1]}
    every = pose(tmp_path, section)
    one = pose(tmp_path, {**section, "exchangeable": True})
    some = pose(tmp_path, {**section, "exchangeable": True, "index": [4, 2]})
    found = [[p.origin["index"] for p in enumerate_pairs(s, [], load_distributions(s))] for s in (every, one, some)]
    assert found == [list(range(7)), [0], [4]]


LOGGED = """
import os
import numpy as np

LOG = os.path.join(os.path.dirname(os.path.abspath(__file__)), "sizes.log")

def bits(size, rng, *, rows):
    with open(LOG, "a") as log:
        print(size, file=log)
    found = rng.random((size, rows)) < 0.5
    WRONG
    return found

def noisy(database, size, rng):
    return np.full(size, database[0]) + rng.laplace(size=size)
"""


def logged_study(folder: Path, rows: int, chunk: int, wrong: str = "") -> Study:
    (folder / "logged.py").write_text(LOGGED.replace("WRONG", wrong))
    section = {"call": "logged:bits", "parameters": {"rows": rows}, "values": [0, 1], "exchangeable": True}
    sizes = {"train": chunk, "test": chunk, "chunk": chunk, "epsilons": [0.0]}
    return pose(folder, section, "logged:noisy", **sizes)


@pytest.mark.slow
def test_databases_come_in_blocks_that_memory_bounds(tmp_path: Path) -> None:
    rows, chunk = 20_000, 450
    hpcdp.run(logged_study(tmp_path, rows, chunk), tmp_path / "s.zarr", workers=0)
    asked = [*map(int, (tmp_path / "sizes.log").read_text().split())]
    assert sum(asked) >= 4 * chunk
    assert max(asked) * rows * 8 <= 64 << 20


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ("found = np.zeros((size, rows + 1))", r"shape \(\d+, 8\) .*accepted: numbers of shape \(\d+, 7\)"),
        ("found = np.full((size, rows), np.nan)", "returned nan"),
    ],
)
def test_a_distribution_that_goes_wrong_later(wrong: str, words: str, tmp_path: Path) -> None:
    """After trial draws, which are over when the work begins."""
    study = logged_study(tmp_path, 7, 331, f"if size == 331 and os.path.exists(LOG + '.begun'): {wrong}")
    begun = SimpleNamespace(note=print, begin=lambda *_: (tmp_path / "sizes.log.begun").touch(), advance=print)
    with pytest.raises(hpcdp.RunFailed, match=words):
        hpcdp.run(study, tmp_path / "s.zarr", workers=0, progress=begun)


SECTION = {"call": "own:bits", "parameters": {"rows": 7}, "values": [0, 1]}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"index": [3, 9]}, ["pairs.distributional.0.index", "0 to 6", "9"]),
        ({"index": [2, 2]}, ["pairs.distributional.0.index", "distinct"]),
        ({"index": []}, ["pairs.distributional.0.index", "at least one"]),
        ({"values": [1]}, ["pairs.distributional.0.values", "at least two"]),
        ({"values": [1, 1]}, ["pairs.distributional.0.values", "distinct"]),
        ({"values": [0, 1, 1.0]}, ["pairs.distributional.0.values.2", "distinct", "equals one before"]),
        ({"values": [0, [1, 2]]}, ["pairs.distributional.0.values.1", "given: a list of 2", "finite number"]),
        ({"values": ["yes", "no"]}, ["pairs.distributional.0.values.0", "given: of type str"]),
        ({"values": [0, 0.5]}, ["bool", "cannot hold", "row 0"]),
        ({"parameters": {}}, ["pairs.distributional.0", "own:bits", "rows"]),
        ({"parameters": {"rows": 7, "size": 3}}, ["pairs.distributional.0.parameters.size", "leave it out"]),
        ({"parameters": {"rows": 7, "columns": 3}}, ["pairs.distributional.0", "columns"]),
        ({"parameters": {"rows": 0}}, ["pairs.distributional.0.call", "shape (1, 0)"]),
        ({"call": "own:nothing"}, ["pairs.distributional.0.call", "nothing"]),
        ({"call": "bits"}, ["pairs.distributional.0.call", "package.module:callable"]),
        ({"call": "numpy:arange"}, ["pairs.distributional.0"]),
        ({"row": 0}, ["pairs.distributional.0.row", "unknown key", "index", "exchangeable"]),
    ],
)
def test_refusals(change: dict[str, Any], words: list[str], tmp_path: Path) -> None:
    with pytest.raises(StudyError) as caught:
        resolve(pose(tmp_path, {**SECTION, **change}))
    for word in words:
        assert word in str(caught.value), str(caught.value)


@pytest.mark.parametrize(
    ("each", "words"),
    [
        ("databases.sum()", "returned one int64 for"),
        ("(row for row in databases)", "returned one generator for"),
        ("databases[1:]", "outputs for"),
    ],
)
def test_an_each_that_is_wrong(each: str, words: str, tmp_path: Path) -> None:
    own = f"def plain(database, size, rng):\n    return [0] * size\n\n\nplain.each = lambda databases, rng: {each}\n"
    (tmp_path / "each_own.py").write_text(own)
    with pytest.raises(StudyError, match=words):
        resolve(pose(tmp_path, SECTION, "each_own:plain"))


def test_stored_samples_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros(10))
    with pytest.raises(StudyError, match="accepted: a mechanism that draws"):
        resolve(pose(tmp_path, SECTION, "stored", parameters={"files": ["a.npy"]}))


@pytest.mark.slow
def test_what_would_take_too_long_is_refused(tmp_path: Path) -> None:
    pairs = 'distributional = { call = "own:bits", parameters = { rows = 5 }, values = [0, 1], exchangeable = true }'
    study = write_study(tmp_path, OWN, call="own:slow", pairs=pairs, train=10**8, test=10**8, chunk=10**6)
    for command in (("plan", study), ("run", study, "--store", tmp_path / "s.zarr")):
        message = one_message(call(*command, code=2))
        assert "pairs.distributional: drawing 400,000,000 outputs" in message
        assert "outputs(size, rng, row, value)" in message
    assert not (tmp_path / "s.zarr").exists()


HELD = "cannot hold a value at which row 1 is held"


@pytest.mark.parametrize(
    ("value", "kind", "words"),
    [
        (2**63, "int64", f"int64, which {HELD}"),
        (1e300, "int64", f"int64, which {HELD}"),
        ([2**63, -1], "int64", f"int64, which {HELD}"),
        (2**53, "float64", None),
        (2**53 + 1, "float64", f"float64, which {HELD}"),
        ([2**53 + 1, 0], "float64", f"float64, which {HELD}"),
        (2**64 - 1, "uint64", None),
        (2**64, "uint64", r"integers from -2\*\*63 to 2\*\*64 - 1; given: of type int"),
    ],
)
def test_values_that_databases_do_not_hold_are_refused_by_their_name(tmp_path, value, kind, words):
    with nullcontext() if words is None else pytest.raises(StudyError, match=words):
        resolve(held_at(tmp_path, value, kind))


def held_at(folder: Path, value: Any, kind: str) -> Study:
    """A study of zeros of this type, of which one row is held at 0 or at a value."""
    columns = ", 2" if isinstance(value, list) else ""
    (folder / "large.py").write_text(
        f"import numpy as np\ndef zeros(size, rng):\n    return np.zeros((size, 3{columns}), np.{kind})\n"
        "def noisy(database, size, rng):\n    return rng.laplace(size=size)\n"
    )
    section = {"call": "large:zeros", "values": [[0, 0] if columns else 0, value], "index": [1]}
    return pose(folder, section, "large:noisy")
