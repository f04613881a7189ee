"""Studies with [at_risk]: against laws that are known, interrupted, grown, shown, and what is refused."""

import json
import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from commands import call, contents, nothing_lost, one_message, show, write_study
from scipy.integrate import quad

import hpcdp
from hpcdp import Study, StudyError, at_risk, load_result
from hpcdp.study.at_risk import PairDraws
from hpcdp.study.resolving import resolve

QUERIES = """
import os

import numpy as np


def mean(database):
    return database.mean()


def moments(database):
    database.sort()  # a query may change what it is given
    return [database.mean(), (database**2).mean(), database.max()]


def broken(database):
    if database[0] > 0.95 and os.path.exists(os.path.join(os.path.dirname(__file__), "fail")):
        raise ArithmeticError("it does not like large rows")
    return database.mean()


def lawless(database):
    return np.random.default_rng().random()


def wide(database):
    return database[: 1 + int(database[-1] > 0.5)]


def endless(database):
    return np.inf


def uniform(size, rng, high=1.0):
    return rng.uniform(0.0, high, size)


def stuck(size, rng):
    return np.ones(size)[: size - 1]
"""
ROWS, SCALE = 20, 0.02


@pytest.fixture(name="folder")
def folder_fixture(tmp_path):
    (tmp_path / "queries.py").write_text(QUERIES)
    return tmp_path


def values(**changes):
    section = {
        "query": "queries:mean",
        "population": {"call": "queries:uniform"},
        "rows": ROWS,
        "pairs": 1000,
        "scale": SCALE,
        "cover": [0.9, 0.95],
        "chunk": 100,
        **changes,
    }
    return {"study": {"name": "people", "seed": 7}, "at_risk": section}


def made(folder, store="s.zarr", **changes):
    """Run in no worker; the result."""
    return hpcdp.run(Study.from_dict(values(**changes), folder), folder / store, workers=0)


def write(folder, **changes):
    """The study as a file."""
    lines = ["[study]", 'name = "people"', "seed = 7", "[at_risk]"]
    for key, value in values(**changes)["at_risk"].items():
        entries = value.items() if isinstance(value, dict) else ()
        table = "{ " + ", ".join(f"{k} = {json.dumps(v)}" for k, v in entries) + " }"
        lines.append(f"{key} = {table if entries else json.dumps(value)}")
    (folder / "study.toml").write_text("\n".join(lines))
    return folder / "study.toml"


def within(epsilon, confidence=at_risk.exact_confidence):
    """P(|L| <= ε) of the mean of uniform rows with Laplace noise: S = |u − v|/rows has density 2(1 − t), t = S·rows."""
    most = 1.0 / (ROWS * SCALE)
    edge = min(1.0, epsilon / most)
    return quad(lambda t: 2.0 * (1.0 - t) * confidence(epsilon, max(t, 1e-9) * most), 0.0, 1.0, points=[edge])[0]


@pytest.mark.slow
def test_what_is_promised_is_so_of_a_known_law(folder):
    result = made(folder)
    assert [(entry["cover"], entry["rank"]) for entry in result.risk] == [(0.9, 916), (0.95, 962)]
    ordered = np.sort(result["risk_sensitivity"])
    assert abs(ordered.mean() * ROWS - 1 / 3) < 5 * math.sqrt(1 / 18 / 1000)  # |u − v| has mean 1/3, variance 1/18
    assert (np.abs(result["risk_loss"]) <= result["risk_sensitivity"] / SCALE).all()
    for entry in result.risk:
        found = entry["within"]
        assert entry["sensitivity"] == ordered[entry["rank"] - 1]
        assert entry["epsilon"] == entry["sensitivity"] / SCALE
        assert 1 - (1 - entry["sensitivity"] * ROWS) ** 2 >= entry["cover"]  # this seed is one of the 95 %
        true = within(entry["epsilon"])
        assert found["certified"] <= true
        assert abs(found["hits"] / found["pairs"] - true) < 5 * math.sqrt(true * (1 - true) / 1000)
        assert found["lower"] <= found["hits"] / found["pairs"]
        assert entry["published"] == at_risk.cover_as_published(entry["cover"], 1000) == 0.0  # ρ = .01 needs more pairs
        assert found["epsilon0"] == ordered[-1] / SCALE
    # a planted fault: noise of its own for each database, as the paper's model has it, is not what losses are
    epsilon = result.risk[0]["epsilon"] / 4
    share, error = (np.abs(result["risk_loss"]) <= epsilon).mean(), 5 * math.sqrt(0.25 / 1000)
    assert abs(share - within(epsilon)) < error < abs(share - within(epsilon, at_risk.model_confidence))


POPULATION = np.random.default_rng(5).random((50, 3))


def fresh(size, rng):
    return POPULATION[rng.integers(len(POPULATION), size=size)]


class Shuffled:
    """Its own rows, in another order each time."""

    def __init__(self):
        self.rows = POPULATION[: ROWS + 1].copy()

    def __call__(self, size, rng):
        rng.shuffle(self.rows)
        return self.rows[:]


SOURCES = {
    "a file": lambda: None,
    "lists": lambda: lambda size, rng: fresh(size, rng).tolist(),
    "read only": lambda: lambda size, rng: (rows := fresh(size, rng)).setflags(write=False) or rows,
    "a view of its own memory": Shuffled,
}


def spoil(database):
    """An answer, and nothing of the database left."""
    answer = database[0] - 2.0 * database[-1] + database.sum(axis=0)
    database[...] = np.nan
    database.shape = (-1,) if database.flags.c_contiguous else database.shape
    database.setflags(write=False)
    return answer


@pytest.mark.parametrize("source", SOURCES)
def test_a_query_that_spoils_its_databases_changes_no_other(source):
    """A planted fault, memory that a query's answers and the next pair share, gives other figures or none."""
    found = []
    for query in (spoil, lambda database: spoil(np.array(database))):
        population = POPULATION.copy()
        draws = PairDraws(query, SOURCES[source](), {}, ROWS, SCALE)
        found.append(draws.draw(population, 40, np.random.default_rng(9)))
        np.testing.assert_array_equal(population, POPULATION)
    np.testing.assert_array_equal(*found)
    assert np.unique(found[0][:, 0]).size == 40


def test_loss_and_sensitivity_are_those_of_the_answers():
    # the noise of each draw is the last thing that its stream gives: the same stream gives it again
    shift = np.array([0.3, -0.2])
    answers = iter([np.array([1.0, 1.0]), np.array([1.0, 1.0]) - shift])
    draws = PairDraws(lambda _: next(answers), None, {}, 2, 0.5)
    (found,) = draws.draw(np.arange(5.0), 1, np.random.default_rng(3))
    rng = np.random.default_rng(3)
    rng.integers(5, size=3)
    noise = rng.laplace(scale=0.5, size=2)
    assert found.tolist() == pytest.approx([0.5, (np.abs(noise + shift) - np.abs(noise)).sum() / 0.5, 2.0])


@pytest.mark.slow
def test_a_query_that_fails_costs_its_chunks_and_resumed_and_grown_it_is_the_same(folder):
    study, store = Study.from_dict(values(query="queries:broken", chunk=5, pairs=300), folder), folder / "part.zarr"
    fails = SimpleNamespace(note=print, begin=lambda *_: (folder / "fail").touch(), advance=print)  # after trial draws
    with pytest.raises(hpcdp.RunFailed, match=r"of the pairs.*it does not like large rows"):
        hpcdp.run(study, store, workers=0, progress=fails)
    part = load_result(store)
    assert not part.complete
    assert part.risk == []
    assert "pairs are missing" in call("show", store).stdout
    assert 0 < int(call("status", store).stdout.partition("  pairs ")[2].split()[0]) < 300
    (folder / "fail").unlink()
    with nothing_lost(store):
        whole = hpcdp.resume(store, workers=0)
    anew = made(folder, "anew.zarr", query="queries:broken", chunk=5, pairs=300)
    assert anew.to_json() == whole.to_json() == show(store).strip()
    for name, (_, array) in anew.arrays.items():
        np.testing.assert_array_equal(array, whole[name])
    assert "300 of 300" in call("status", store).stdout
    # more pairs keep those that are there; another cover draws nothing
    more = made(folder, "part.zarr", query="queries:broken", chunk=5, pairs=400)
    np.testing.assert_array_equal(more["risk_sensitivity"][:300], whole["risk_sensitivity"])
    kept = set(contents(store))
    covers = {"cover": 0.5, "confidence": 0.9}
    again = made(folder, "part.zarr", query="queries:broken", chunk=5, pairs=400, **covers)
    assert again.risk[0]["cover"] == 0.5
    assert not [
        part for part in set(contents(store)) - kept if isinstance(part, Path) or part.kind in ("samples", "packs")
    ]
    assert again.grown == ["300 pairs"]


@pytest.mark.slow
def test_commands(folder, scheduler, monkeypatch):
    monkeypatch.chdir(folder)
    np.save(folder / "people.npy", np.random.default_rng(2).random(500))
    path = write(folder, query="queries:moments", population={"file": "people.npy"}, pairs=300, cover=[0.9])
    assert "hpcdp risk" in one_message(call("run", path, code=2))
    plan = call("plan", path).stdout
    assert "300 pairs of databases of 20 rows" in plan
    assert not [word for word in ("reuse", "D′", "ordered pair", "expected error") if word in plan]
    done = call("risk", path, "--cluster", scheduler)
    assert "with replacement" in done.stdout
    assert "refuted" in done.stdout
    store = folder / "runs" / "people.zarr"
    found = json.loads(show(store))
    assert list(found) == ["name", "complete", "confidence", "risk"]
    (entry,) = found["risk"]
    assert list(entry) == ["cover", "rank", "sensitivity", "epsilon", "published", "within"]
    assert {"hits", "pairs", "lower"} <= set(entry["within"])
    epsilon, epsilon0 = entry["epsilon"], entry["within"]["epsilon0"]
    assert entry["within"]["published"] == at_risk.both_as_published(epsilon, epsilon0, 0.9, 300, k=3)
    assert call("show", store, "--format", "csv").stdout.splitlines()[1].startswith("0.9,")
    assert (folder / "runs" / "people.png").is_file()
    assert call("plot", store, "-o", folder / "s.svg").returncode == 0
    assert call("resume", store, "--cluster", scheduler).stdout.splitlines()[0] == done.stdout.splitlines()[0]
    for words in (["--delta", "0"], ["--risk", "1"], ["--rows"]):
        assert "accepted with counts by ε, of which this store has none" in call("show", store, *words, code=2).stderr
    assert "no δ" in one_message(call("verify", store, "--claim", "dp(epsilon=1)", code=2))
    # the rows of the file, and the query, are what the store is of
    np.save(folder / "people.npy", np.random.default_rng(3).random(500))
    assert "the rows of people.npy" in one_message(call("risk", path, code=2))
    write(folder, query="queries:moments", population={"file": "people.npy"}, pairs=300, cover=[0.9], scale=0.1)
    assert "at_risk.scale (0.02 in the store, 0.1 given)" in one_message(call("risk", path, code=2))
    ordinary = write_study(folder / "ordinary")
    assert "has no [at_risk]" in one_message(call("risk", ordinary, "--store", folder / "o.zarr", code=2))
    refused = one_message(call("run", ordinary, "--store", store, code=2))
    assert "at_risk (the store's study has it)" in refused


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"query": "queries:lawless"}, "at_risk.query queries:lawless: pairs and answers differed where the random"),
        ({"query": "queries:wide"}, "numbers of one database and"),
        ({"query": "queries:endless"}, "the query returned inf; accepted: a finite number or a vector of them"),
        ({"query": "queries:nobody"}, "at_risk.query"),
        ({"query": "queries:uniform"}, "queries:uniform takes (size, rng, high=1.0); accepted: query(database)"),
        ({"population": {"call": "queries:stuck"}}, "accepted: numbers of shape (21,) or (21, columns)"),
        ({"population": {"call": "queries:uniform", "parameters": {"low": 1}}}, "accepted: call(size, rng, **parame"),
        ({"population": {"file": "nobody.npy"}}, "at_risk.population.file nobody.npy: no file"),
        ({"cover": [0.99], "pairs": 100}, "100 pairs cover at most 0.9705; 299 are needed"),
        ({"cover": [0.9, 1.0]}, "at_risk.cover: numbers above 0 and below 1"),
        ({"cover": [0.9, 0.9]}, "at_risk.cover: distinct numbers"),
        ({"query": "laplace"}, "\"package.module:callable\"; given: 'laplace'"),
        ({"population": {}}, "exactly one of file, call; given: none"),
        ({"population": {"file": "a.npy", "parameters": {"a": 1}}}, "accepted with call"),
        ({"scale": 0.0}, "at_risk.scale"),
        ({"rows": 0}, "at_risk.rows"),
        ({"noise": "gaussian"}, "at_risk.noise: unknown key"),
    ],
)
def test_what_is_wrong_or_cannot_be_drawn_is_said_before_anything_runs(folder, changes, words):
    with pytest.raises(StudyError) as error:
        resolve(Study.from_dict(values(**changes), folder))
    assert words in str(error.value)


def test_at_risk_stands_alone():
    with pytest.raises(StudyError, match=r"\[study\] and \[at_risk\] alone; given with it: estimate, study\.claim"):
        Study.from_dict(
            {**values(), "study": {"name": "a", "seed": 1, "claim": "dp(epsilon=1)"}, "estimate": {"epsilons": [1.0]}}
        )
    study = Study.from_dict(values())
    assert list(study.to_dict()) == ["study", "at_risk"]
    assert Study.from_dict(study.to_dict()).to_dict() == study.to_dict()


@pytest.mark.parametrize("kind, large", [("int64", 2**62), ("uint64", 2**63), ("longdouble", 2**62)])
def test_answers_beyond_the_integers_of_floats_are_subtracted_before_they_are_rounded(kind, large):
    """As time stamps in nanoseconds are: S and L are what they are without the large number, to the last bit."""
    dtype = np.dtype(kind).type

    def small(database):
        return int(database[-1] * 100)

    queries = (lambda database: dtype(large) + dtype(small(database)), small)
    pairs = [PairDraws(query, lambda size, rng: rng.random(size), {}, rows=4, scale=0.1) for query in queries]
    found = [one.draw(np.empty((0, 1)), 200, np.random.default_rng(7)) for one in pairs]
    np.testing.assert_array_equal(*found)
    assert found[0][:, 0].max() > 50.0
