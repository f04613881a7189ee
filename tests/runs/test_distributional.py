"""Distributional DP: estimates against exact truths, and every way in which a distribution may be wrong."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import call, hpcdp, one_message, show, write_study
from scipy.stats import binom
from studies import run

from hpcdp.analytic import Discrete
from hpcdp.errors import MechanismError, StudyError
from hpcdp.mechanisms._callable import bind
from hpcdp.mechanisms.user_code import import_callable
from hpcdp.planning.summary import refuse_endless
from hpcdp.study.databases import enumerate_pairs
from hpcdp.study.distributions import load_distributions
from hpcdp.study.file import Study
from hpcdp.study.problem import resolve

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


def noisy(database, size, rng, scale):
    return database.sum() + rng.laplace(0.0, scale, size)


def told(database, rng):
    """A sequence as long as there are ones, but for the last: strings and numbers."""
    ones = int(database.sum())
    return ("some",) + (1,) * ones if ones < 3 else ("many", ones)


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


def scores(result: Any, curves: list[Any], reg: float) -> tuple[float, float]:
    """How far the estimates lie above and, beyond reg, below the truths, in standard errors of the best classifier."""
    above, below = [], []
    for cell in result.cells():
        truth = float(curves[cell["pair"]].delta(cell["epsilon"], cell["direction"]))
        n, growth = cell["test"][0], np.exp(cell["epsilon"])
        risk = (1 - truth) / growth / 2
        se = 2 * growth * np.sqrt(risk * (1 - risk) / (2 * n))
        above.append((cell["delta"] - truth) / se)
        below.append((truth - reg - cell["delta"]) / se)
        assert cell["lower"] <= truth
    return max(above), max(below)


@pytest.mark.parametrize("loss", ["frequency", "knn"])
@pytest.mark.parametrize("source", ["bits", "direct"])
def test_noiseless_counts(loss: str, source: str, client: Any, tmp_path: Path) -> None:
    sizes = [(40, 0.5), (90, 0.2), (300, 0.6)]
    delta = [
        {
            "call": f"own:{source}",
            "parameters": {"rows": rows, "probability": p},
            "values": [1, 0],
            "exchangeable": True,
        }
        for rows, p in sizes
    ]
    result = run(pose(tmp_path, delta, loss=loss), tmp_path / "s.zarr", client)
    origins = [{"pair": i, "distribution": i, "index": 0, "values": [1, 0]} for i in range(3)]
    assert result.pairs == origins
    above, below = scores(
        result, [ones_curve(rows, p, 1, 0) for rows, p in sizes], 0.001 if loss == "frequency" else 0.004
    )
    assert above < 5, above
    assert below < 5, below
    for best in result.spectrum():
        found = [c["delta"] for c in result.cells() if c["epsilon"] == best["epsilon"]]
        assert best["delta"] == max(found)


def test_rows_of_different_laws(client: Any, tmp_path: Path) -> None:
    chances = [0.1, 0.3, 0.45]
    section = {
        "call": "own:table",
        "parameters": {"chances": chances},
        "index": [0, 2],
        "values": [[0, 1], [2, 1], [1, 3]],
    }
    result = run(pose(tmp_path, section, "own:weighted", loss="frequency"), tmp_path / "s.zarr", client)
    assert [(p["index"], p["values"]) for p in result.pairs] == [
        (row, [section["values"][a], section["values"][b]]) for row in (0, 2) for a, b in ((0, 1), (0, 2), (1, 2))
    ]

    def law(row: int, value: list[int]) -> Any:
        others = [np.array([1 - 2 * c, c, c]) for i, c in enumerate(chances) if i != row]
        total = np.convolve(*others)
        return np.concatenate([np.zeros(value[0] * value[1]), total, np.zeros(3 - value[0] * value[1])])

    curves = [Discrete(*(law(p["index"], value) for value in p["values"])) for p in result.pairs]
    above, below = scores(result, curves, 0.001)
    assert above < 5, above
    assert below < 5, below


def test_sequences_of_random_databases(client: Any, tmp_path: Path) -> None:
    section = {"call": "own:bits", "parameters": {"rows": 6, "probability": 0.4}, "values": [0, 1], "index": [2]}
    study = pose(tmp_path, section, "own:told", loss="frequency", train=20_000, test=20_000)
    result = run(study, tmp_path / "s.zarr", client)
    above, below = scores(result, [ones_curve(6, 0.4, 0, 1)], 0.001)  # what is told is the number of ones
    assert above < 5, above
    assert below < 5, below


def test_random_rows_and_random_mechanism(client: Any, tmp_path: Path) -> None:
    rows, p, scale = 3, 0.4, 0.8
    section = {"call": "own:bits", "parameters": {"rows": rows, "probability": p}, "values": [0, 1], "index": [1]}
    study = pose(tmp_path, section, "own:noisy", parameters={"scale": scale}, train=20_000, test=20_000)
    result = run(study, tmp_path / "s.zarr", client)
    grid = np.linspace(-25, 25, 400_001)
    laws = [
        sum(
            binom.pmf(ones, rows - 1, p) * np.exp(-np.abs(grid - ones - held) / scale) / (2 * scale)
            for ones in range(rows)
        )
        for held in (0, 1)
    ]
    cells = Discrete(*(law / law.sum() for law in laws))
    above, below = scores(result, [cells], 0.015)
    assert above < 5, above
    assert below < 5, below


def test_all_rows_and_exchangeable_rows(tmp_path: Path) -> None:
    section: dict[str, Any] = {"call": "own:bits", "parameters": {"rows": 7}, "values": [0, 1]}
    every = pose(tmp_path, section)
    one = pose(tmp_path, {**section, "exchangeable": True})
    some = pose(tmp_path, {**section, "exchangeable": True, "index": [4, 2]})
    found = [[p.origin["index"] for p in enumerate_pairs(s, [], load_distributions(s))] for s in (every, one, some)]
    assert found == [list(range(7)), [0], [4]]


def test_databases_come_in_blocks_that_memory_bounds(tmp_path: Path) -> None:
    rows = 20_000
    study = pose(tmp_path, {"call": "own:bits", "parameters": {"rows": rows}, "values": [0, 1], "exchangeable": True})
    (distribution,) = load_distributions(study)
    held = enumerate_pairs(study, [], [distribution])[0].d
    asked, function = [], distribution.function

    def note(size: int, rng: Any, **parameters: Any) -> Any:
        asked.append(size)
        return function(size, rng, **parameters)

    object.__setattr__(distribution, "function", note)
    ones = import_callable("own:ones", tmp_path, "test")
    outputs = held.draw(bind(ones, {}, "own:ones"), 1000, np.random.default_rng(1))
    assert outputs.shape == (1000,)
    assert sum(asked) == 1000
    assert max(asked) * rows * 8 <= 64 << 20
    assert len(asked) == 3


def test_each_and_one_by_one_have_the_same_law(tmp_path: Path) -> None:
    study = pose(tmp_path, {"call": "own:bits", "parameters": {"rows": 9}, "values": [0, 1], "index": [5]})
    held = enumerate_pairs(study, [], load_distributions(study))[0].d_prime
    ones = import_callable("own:ones", tmp_path, "test")
    size = 40_000
    plain = bind(lambda database, size, rng: ones(database, size, rng), {}, "plain")
    for mechanism in (bind(ones, {}, "own:ones"), plain):
        outputs = held.draw(mechanism, size, np.random.default_rng(2))
        expected = binom.pmf(np.arange(10) - 1, 8, 0.5)
        counts = np.bincount(outputs, minlength=10)
        assert counts[0] == 0
        assert (np.abs(counts - size * expected) <= 5 * np.sqrt(size * expected * (1 - expected)) + 1e-9).all()


SECTION = {"call": "own:bits", "parameters": {"rows": 7}, "values": [0, 1]}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"index": [3, 9]}, ["pairs.distributional.0.index", "0 to 6", "9"]),
        ({"index": [2, 2]}, ["pairs.distributional.0.index", "distinct"]),
        ({"index": []}, ["pairs.distributional.0.index", "at least one"]),
        ({"index": "some"}, ["pairs.distributional.0.index", "all", "some"]),
        ({"values": [1]}, ["pairs.distributional.0.values", "at least two"]),
        ({"values": [1, 1]}, ["pairs.distributional.0.values", "distinct"]),
        ({"values": [0, 1, 1.0]}, ["pairs.distributional.0.values.2", "distinct", "equals one before"]),
        ({"values": [1, True]}, ["pairs.distributional.0.values.1", "distinct"]),
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


@pytest.mark.filterwarnings("error")
def test_a_value_beyond_the_integers_is_refused_without_a_warning(tmp_path: Path) -> None:
    section = {"call": "own:table", "parameters": {"chances": [0.2, 0.1]}, "values": [[0, 1], [1e300, 1]]}
    with pytest.raises(StudyError, match="int64, which cannot hold a value at which row 0 is held"):
        resolve(pose(tmp_path, section, "own:weighted"))


@pytest.mark.parametrize(
    ("each", "words"),
    [
        (lambda databases, **_: databases.sum(), "returned one int64 for"),
        (lambda databases, **_: (row for row in databases), "returned one generator for"),
        (lambda databases, **_: databases[1:], "outputs for"),
        (lambda databases, **_: np.zeros((len(databases), 1 + len(databases) % 2)), r"shapes \(1,\), \(2,\)"),
    ],
)
def test_an_each_that_is_wrong(each: Any, words: str, tmp_path: Path) -> None:
    rows = 20_000
    study = pose(tmp_path, {"call": "own:bits", "parameters": {"rows": rows}, "values": [0, 1], "exchangeable": True})
    (distribution,) = load_distributions(study)
    held = enumerate_pairs(study, [], [distribution])[0].d

    def mechanism(database: Any, size: int, rng: Any) -> Any:
        return np.zeros(size)

    mechanism.each = each  # type: ignore[attr-defined]
    size = distribution.block + 1 + distribution.block % 2  # one block of an odd, one of an even size
    with pytest.raises(MechanismError, match=words):
        held.draw(bind(mechanism, {}, "mechanism"), size, np.random.default_rng(1))


def test_stored_samples_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros(10))
    with pytest.raises(StudyError, match="needs a mechanism that draws"):
        resolve(pose(tmp_path, SECTION, "stored", parameters={"files": ["a.npy"]}))


def test_a_distribution_that_goes_wrong_later(tmp_path: Path) -> None:
    (distribution,) = load_distributions(pose(tmp_path, SECTION))
    object.__setattr__(distribution, "function", lambda size, _, rows: np.zeros((size, rows + 1)))
    with pytest.raises(MechanismError, match=r"shape \(5, 8\).*accepted: numbers of shape \(5, 7\)"):
        distribution.draw(5, np.random.default_rng(1))
    object.__setattr__(distribution, "function", lambda size, _, rows: np.full((size, rows), np.nan))
    with pytest.raises(MechanismError, match="returned nan"):
        distribution.draw(5, np.random.default_rng(1))


def test_what_would_take_too_long_is_refused(tmp_path: Path) -> None:
    pairs = 'distributional = { call = "own:bits", parameters = { rows = 5 }, values = [0, 1], exchangeable = true }'
    study = write_study(tmp_path, OWN, call="own:slow", pairs=pairs, train=10**8, test=10**8, chunk=10**6)
    for command in (("plan", study), ("run", study)):
        done = hpcdp(*command, folder=tmp_path, code=2)
        message = one_message(done)
        assert "pairs.distributional: drawing 400,000,000 outputs" in message
        assert "outputs(size, rng, row, value)" in message
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("loss", ["knn", "literal-knn"])
def test_calls_of_each_stage_count_as_what_takes_too_long(tmp_path: Path, loss: str) -> None:
    """Each stage of a law, or of a side of a literal cell, has two chunks and a half, which take 3 calls."""
    problem, trial = resolve(pose(tmp_path, SECTION, loss=loss))
    drawn = len(problem.laws) if loss == "knn" else 2 * len([*problem.risk_cells, *problem.point_cells])
    week = 7 * 86400.0
    slow = replace(trial, seconds_per_draw=0.0, seconds_per_call=week / (6 * drawn))
    refuse_endless(problem, replace(slow, seconds_per_call=0.99 * slow.seconds_per_call), workers=1)
    with pytest.raises(StudyError, match=f"drawing {100_000 * drawn:,} outputs"):
        refuse_endless(problem, replace(slow, seconds_per_call=1.01 * slow.seconds_per_call), workers=1)


def test_results_are_read_without_the_code(tmp_path: Path, scheduler: str) -> None:
    pairs = 'distributional = { call = "own:bits", parameters = { rows = 5 }, values = [0, 1] }'
    settings: dict[str, Any] = {"call": "own:ones", "pairs": pairs, "loss": "frequency", "train": 1000, "test": 1000}
    study, store = write_study(tmp_path, OWN, **settings), tmp_path / "s.zarr"
    call("run", study, "--store", store, "--cluster", scheduler)
    printed = show(store)
    (tmp_path / "own.py").unlink()
    (store / "records" / "results.json").unlink()
    assert show(store) == printed
    assert json.loads(printed)["pairs"][3] == {"pair": 3, "distribution": 0, "index": 3, "values": [0, 1]}
    assert "0 to do" in call("status", store).stdout
    (tmp_path / "own.py").write_text(OWN + "\n")
    error = call("resume", store, "--cluster", scheduler, code=2).stderr
    assert "the source of own:ones changed" in error


def test_the_plan_takes_the_mean_cost_over_distributions(tmp_path: Path) -> None:
    (tmp_path / "paced.py").write_text(
        "import time\n\nimport numpy as np\n\n\n"
        "def rows(size, rng, *, pause):\n    time.sleep(pause * size)\n    return rng.random((size, 3)) < 0.5\n"
    )
    delta = [{"call": "paced:rows", "parameters": {"pause": p}, "values": [0, 1], "index": [0]} for p in (0.01, 0.0)]
    study = pose(tmp_path, delta, loss="frequency")
    seconds = 1.0
    for _ in range(20):  # a busy machine only makes it longer
        seconds = min(seconds, resolve(study)[1].seconds_per_draw)
        if seconds < 0.0095:
            break
    # a sleep is hardly shorter than asked: about 0.005 at least for the mean, 0.01 for the slow one alone or the sum
    assert 0.0045 <= seconds < 0.0095


@pytest.mark.parametrize(
    ("value", "kind", "words"),
    [
        (2**63, "int64", "int64, which cannot hold a value at which row 1 is held"),
        (2**53 + 1, "float64", "float64, which cannot hold a value at which row 1 is held"),
        ([2**53 + 1, 0], "float64", "float64, which cannot hold a value at which row 1 is held"),
        ([2**63, -1], "int64", "int64, which cannot hold a value at which row 1 is held"),
        (2**64, "uint64", r"integers from -2\*\*63 to 2\*\*64 - 1; given: of type int"),
        (2**64 - 1, "uint64", None),
        (2**53, "float64", None),
    ],
)
def test_values_that_databases_do_not_hold_are_refused_by_their_name(tmp_path, value, kind, words):
    columns = ", 2" if isinstance(value, list) else ""
    own = f"import numpy as np\ndef zeros(size, rng):\n    return np.zeros((size, 3{columns}), np.{kind})\n"
    own += "def noisy(database, size, rng):\n    return rng.laplace(size=size)\n"
    (tmp_path / "large.py").write_text(own)
    section = {"call": "large:zeros", "values": [[0, 0] if columns else 0, value], "index": [1]}
    study = pose(tmp_path, section)
    study = Study.from_dict({**study.to_dict(), "mechanism": {"call": "large:noisy"}}, tmp_path)
    if words is None:
        resolve(study)
        return
    with pytest.raises(StudyError, match=words):
        resolve(study)
