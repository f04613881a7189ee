"""Studies with [pure]: runs, interruption and resumption, what commands print, and refusals."""

import csv
import io
import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
from commands import call, contents, show, stored_problem
from studies import PURE_PAIRS, pure_study

from hpcdp import RunFailed
from hpcdp.analytic import exact as exact_pair
from hpcdp.driver.driver import resume, run_problem
from hpcdp.engine.executors import Options
from hpcdp.engine.progress import Silent
from hpcdp.errors import StudyError
from hpcdp.losses.local import UNIT, weigh
from hpcdp.methods.pure import pure_keys
from hpcdp.notions.pure import LossAt, pure_lower
from hpcdp.patterns import around, statdp
from hpcdp.store.layout import Layout
from hpcdp.study.file import Study
from hpcdp.study.resolving import resolve
from hpcdp.study.versions import load_problem

LEVEL = 1.0 - 0.95
ROWS = {"relative": {"databases": [[0.0, 1.5, 0.25]], "rows": "all"}}


def run(study, store, client, **options):
    return run_problem(*resolve(study), store, Options(client=client(), **options), Silent())


def test_what_it_shows_is_what_its_samples_say(client, tmp_path):
    """The test outputs are drawn again from their keys, and counted by the formulas of their own module."""
    store = tmp_path / "s.zarr"
    result = run(pure_study({"at": [0.5, -1.0]}), store, client)
    found, problem = result.pure, load_problem(Layout(store), 1)
    region, published = found["region"], found["published"]
    assert found["certified"] == float(pure_lower(region["exceed"][0], 20_000, region["exceed"][1], 20_000, LEVEL))

    def outputs_of(law):
        stage, draw = problem.test, problem.sampler.draw
        sizes = [(n, n * stage.chunk, stage.chunk_size(n)) for n in range(stage.chunks)]
        return np.concatenate([draw(problem.laws[law], law, "test", *size, problem.schema) for size in sizes])

    outputs, h = [outputs_of(law) for law in problem.pair_laws[found["pair"]]], (published["bandwidth"],)
    told = LossAt.of([weigh(x, published["at"], h) for x in outputs], (20_000, 20_000), h, 1e-3, UNIT)
    assert published["literal"] == told.literal(LEVEL)
    assert abs(published["lower"]) in (abs(told.lower(1.0, LEVEL)), abs(told.lower(-1.0, LEVEL)))
    for entry, at in zip(published["intervals"], (0.5, -1.0), strict=True):
        told = LossAt.of([weigh(x, at, h) for x in outputs], (20_000, 20_000), h, 1e-3, UNIT)
        assert (entry["at"], entry["loss"]) == (at, told.loss)
        assert (entry["lower"], entry["upper"]) == told.interval(LEVEL)


def test_what_commands_print_and_refuse(client, tmp_path):
    store = tmp_path / "s.zarr"
    result = run(pure_study({"at": [0.5, -1.0]}), store, client)
    found, before = result.pure, contents(store)
    page = (Path(__file__).parents[2] / "docs" / "store.md").read_text(encoding="utf-8")
    assert {name for name in result.arrays if name.startswith("pure_")} == set(re.findall(r"`(pure_\w+)`", page))
    assert all(f"`{name}`" in page for name in (*found, *found["region"], *found["published"]))
    text, body, rows = (call("show", store, "--pure", "--format", kind).stdout for kind in ("table", "json", "csv"))
    assert "certified ≥" in text
    assert "asymptotic" in text
    assert list(json.loads(body)) == ["name", "complete", "confidence", "warnings", "pure"]
    assert json.loads(body)["pure"] == found
    (line,) = csv.DictReader(io.StringIO(rows))
    assert float(line["certified"]) == found["certified"]
    for arguments in (["--rows"], ["--delta", "0.1"], ["--accuracy"]):
        call("show", store, *arguments, code=2)
    file = tmp_path / "study.toml"
    file.write_text(
        '[study]\nname = "pure"\nseed = 31\n[mechanism]\ncall = "laplace"\nparameters = { epsilon = 0.9 }\n'
        "[pairs]\ngiven = [ { d = [0.0], d_prime = [1.0] } ]\n[pure]\n[estimate]\n"
    )
    for more in ([], ["--sequential"]):
        call("audit", file, "--store", store, "--claim", "laplace(epsilon=1)", *more, code=2)
    call("compare", store, store, "-o", tmp_path / "c.png", code=2)
    call("verify", store, "--claim", "laplace(epsilon=1)", code=2)
    assert contents(store) == before


def test_each_row_and_cells_beside(client, tmp_path):
    # a sum: row i moves it by its value, so its level is |value|·epsilon/1.5
    mechanism = {"call": "bounded_sum", "parameters": {"lower": 0.0, "upper": 1.5, "epsilon": 1.2}}
    study = pure_study({"test": "all"}, ROWS, mechanism, epsilons=[0.0, 0.5])
    result = run(study, tmp_path / "s.zarr", client)
    text = json.loads(show(tmp_path / "s.zarr"))
    assert len(text["spectrum"]) == 2
    assert text["cells"][0]["test"] == [20_000, 20_000]
    entries = {tuple(entry["rows"]): entry for entry in result.pure["rows"]}
    truth = {(1,): 1.2, (2,): 0.2}
    for rows, level in truth.items():
        assert entries[rows]["certified"] <= level
    assert entries[(1,)]["certified"] > 0.9
    assert result["pure_level"].sum() <= 0.05 + 1e-12
    rows = call("show", tmp_path / "s.zarr", "--rows", "--format", "table").stdout.splitlines()
    assert rows[4].split()[0] == "1"
    call("show", tmp_path / "s.zarr", "--delta", "0.1")
    assert "δ(ε)" in call("show", tmp_path / "s.zarr", "--format", "table").stdout


REFUSED = [
    ({"within": [[-1.0, 1.0], [0.0, 1.0]]}, {}, "pure.within: one interval a column, 1"),
    *(
        ({"within": given}, {}, "pure.within: a list of intervals [low, high] with low < high, both finite, one a")
        for given in ([[1.0, -1.0]], [], [-1.0, 1.0], "all", 3, {"a": 1}, [[0.0, math.inf]], [[True, False]])
    ),
    *(({"floor": given}, {}, "pure.floor: ") for given in (0.0, -1, 1e9, math.nan, "x", True)),
    ({"test": "some"}, {}, "pure.test"),
    ({"at": [[0.0, 1.0]]}, {}, "pure.at: outputs of the mechanism (reals); given: (0.0, 1.0)"),
    ({"at": ["x"]}, {}, "pure.at: outputs of the mechanism (reals); given: 'x'"),
    ({"at": [True]}, {}, "pure.at: outputs of the mechanism (reals); given: True"),
    ({"at": [math.nan]}, {}, "pure.at: finite outputs; given: nan"),
    ({"at": 0.5}, {}, "pure.at: a list of outputs; given: 0.5"),
    ({"at": [0.0, 5], "within": [[-1.0, 1.0]]}, {}, "pure.at: outputs in pure.within, [-1, 1]; given: 5"),
    ({}, {"loss": "literal-knn"}, "literal-knn"),
    ({}, {"reuse": True}, "estimate.reuse = True"),
    ({}, {"refine": 1000, "keep": "train"}, "estimate.refine = 1000"),
    ({"unknown": 1}, {}, "unknown"),
]


@pytest.mark.parametrize(("pure", "estimate", "words"), REFUSED)
def test_refusals(pure, estimate, words):
    with pytest.raises(StudyError) as error:
        resolve(pure_study(pure, **estimate))
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_equal_databases_and_no_epsilons_are_refused():
    with pytest.raises(StudyError, match=r"pairs\.given\.1: D and D′ are equal"):
        resolve(pure_study({}, {"given": [PURE_PAIRS[0], {"d": [2.0], "d_prime": [2.0]}]}))
    body = pure_study().to_dict()
    del body["pure"]
    with pytest.raises(StudyError, match="epsilons"):
        Study.from_dict(body)


@pytest.mark.parametrize("given", [0.5, "a", True, 2**70])
def test_outputs_of_another_kind_are_refused(given):
    mechanism = {"call": "randomized_response", "parameters": {"epsilon": 0.8, "values": 3}}
    with pytest.raises(StudyError, match=r"pure\.at: outputs of the mechanism \(integers\); given"):
        resolve(pure_study({"at": [given]}, {"given": [{"d": [0], "d_prime": [1]}]}, mechanism, loss="frequency"))


def test_where_no_training_output_lies(client, tmp_path):
    with pytest.raises(RunFailed) as error:
        run(pure_study({"within": [[100.0, 101.0]]}), tmp_path / "s.zarr", client)
    assert "pure.within: accepted where training outputs lie" in str(error.value)
    assert "given: [[100.0, 101.0]]" in str(error.value)


def test_pairs_that_a_callable_returns(client, tmp_path):
    mechanism = {"call": "noisy_max", "parameters": {"variant": "NM1", "epsilon": 1.4}}
    pairs = {"given": {"call": "hpcdp.patterns:statdp", "parameters": {"dimension": 5}}}
    study = pure_study({}, pairs, mechanism, loss="frequency", train=3000, keep="none")
    result = run(study, tmp_path / "s.zarr", client)
    assert len(result.pairs) == 8
    problem, _ = resolve(study)
    exact = [exact_pair("noisy_max", mechanism["parameters"], p.d, p.d_prime).pure() for p in problem.pairs]
    assert 0.5 < result.pure["certified"] <= exact[result.pure["pair"]]
    assert resume(tmp_path / "s.zarr", client=client()).to_json() == result.to_json()
    for given, words in (
        (
            {"call": "hpcdp.patterns:statdp", "parameters": {"dimension": 1}},
            "dimension: an integer from 2 to 1,000,000",
        ),
        ({"call": "hpcdp.patterns:nothing"}, "pairs.given.call"),
        ({"call": "math:sqrt", "parameters": {}}, "raised TypeError"),
        ({"parameters": {}}, "pairs.given.call"),
        ({"call": "builtins:list"}, "at least one"),
    ):
        with pytest.raises(StudyError, match=words):
            resolve(pure_study({}, {"given": given}, mechanism, loss="frequency"))


RARE = {
    "call": "pmf",
    "parameters": {"outcomes": [0, 1, 2, 9], "table": [[0.5, 0.48, 0.02, 0], [0.5, 0.495, 0.005, 0]]},
}
ONE = {"given": [{"d": [0], "d_prime": [1]}]}


def test_intervals_know_no_floor(client, tmp_path):
    """Densities below τ have a loss too; of an output that no test shows, nothing is told."""
    result = run(pure_study({"at": [2, 9], "floor": 0.1}, ONE, RARE, loss="knn"), tmp_path / "s.zarr", client)
    told, untold = result.pure["published"]["intervals"]
    assert told["lower"] < math.log(4.0) < told["upper"]
    assert told["lower"] > 1.0
    assert [untold[key] for key in ("loss", "lower", "upper")] == [None, None, None]
    text = call("show", tmp_path / "s.zarr", "--pure").stdout
    assert re.search(r"^ +9 +- +- +-$", text, re.M)
    assert "-: no test output of D or of D′ tells of that output." in text


def test_points_have_one_key_however_they_are_written(client, tmp_path):
    store, written = tmp_path / "s.zarr", [[2, 9], [2.0, 9.0]]
    results = [run(pure_study({"at": at}, ONE, RARE, loss="knn"), store, client).pure for at in written]
    assert results[0] == results[1]
    assert len(set(stored_problem(store).once(pure_keys))) == 1
    reals = [resolve(pure_study({"at": at}))[0].once(pure_keys) for at in ([1], [1.0], [1.5])]
    assert reals[0] == reals[1] != reals[2]


@pytest.mark.slow
def test_a_store_that_grew_says_so_and_its_pairs_can_be_told_apart(client, tmp_path):
    store = tmp_path / "s.zarr"
    for tests in (2500, 5000):
        mechanism = {"call": "bounded_sum", "parameters": {"lower": 0.0, "upper": 1.5, "epsilon": 1.2}}
        run(pure_study({"test": "all"}, ROWS, mechanism, test=tests, epsilons=[0.0, 1.0]), store, client)
    for words in (["--pure"], ["--rows"], ["--renyi", "2"], ["--delta", "0.01"]):
        assert "This is a new estimate; the study of this store was before" in call("show", store, *words).stdout, words
    assert "at no stated confidence" in " ".join(call("show", store, "--rows").stdout.split())
    assert "they hold at no stated confidence" in " ".join(call("show", store, "--pure").stdout.split())
    rows = list(csv.DictReader(io.StringIO(call("show", store, "--rows", "--format", "csv").stdout)))
    assert {(row["database"], row["rows"]) for row in rows} == {("0", "0"), ("0", "1"), ("0", "2")}


def test_patterns_are_those_of_the_table():
    assert len(statdp(5)) == 8
    assert statdp(4)[4] == ([1.0] * 4, [2.0, 2.0, 0.0, 0.0])
    assert statdp(5)[7] == ([1.0, 1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0, 1.0])
    assert max(abs(x - y) for d, d_prime in statdp(7) for x, y in zip(d, d_prime, strict=True)) == 1.0
    assert [len(around([0, 0, 0])), len(around([0] * 6, [0, 1])), len(around([0.5] * 3, [0, 0.5, 1]))] == [26, 63, 26]
    assert len(around([1e20, 0.0])) == 2, "equal neighbours once"


@pytest.mark.parametrize(
    ("pattern", "given", "words"),
    [
        (statdp, [10**8], "dimension: an integer from 2 to 1,000,000; given: 100000000"),
        (around, [5], "vector, values: lists of numbers, not empty; given: ['int']"),
        (around, [["a"]], "given: ['list']"),
        (around, [[0.0], []], "not empty; given: ['list', 'list']"),
        (around, [[0.0] * 20], "vector: at most 1,000,000 vectors near it; given: 20 numbers with 3.49e+09"),
    ],
)
def test_patterns_refuse(pattern, given, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        pattern(*given)
