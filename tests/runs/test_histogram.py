"""Studies with loss = "histogram": what they count and print, domains, precision, interruption, refusals."""

import csv
import io
import json
import math

import numpy as np
import pytest
from commands import blocks, call, show

import hpcdp
from hpcdp import MechanismError, Study, StudyError, load_result
from hpcdp.analytic import exact
from hpcdp.driver.plan import plan
from hpcdp.losses.histogram import OutsideError, count_bins
from hpcdp.notions.bins import Bins, limits, lower_ends, refuse_atoms, renyi_ratio, upper_ends
from hpcdp.notions.bounds import binomial_upper
from hpcdp.study.resolving import resolve

C = 1.5820
PAIRS = {"given": [{"d": [0.0], "d_prime": [1.0]}, {"d": [0.0], "d_prime": [0.5]}]}
DOMAIN = {"domain": {"lower": 0.0, "upper": 1.0, "points": 9, "lipschitz": 3.164}}
TARGET = {"precision": 0.25}
VOTES = {"loss": "knn", "parameters": {}, "epsilons": [0.5]}


def binned_study(pairs=None, scale=1.0, parameters=None, mechanism=None, **estimate):
    sizes = {"train": 6000, "chunk": 2500} | ({} if "target" in estimate else {"test": 12_000})
    return Study.from_dict(
        {
            "study": {"name": "binned", "seed": 41},
            "mechanism": mechanism or {"call": "truncated", "parameters": {"scale": scale}},
            "pairs": pairs or PAIRS,
            "estimate": {
                "loss": "histogram",
                "parameters": {"range": [0, 1], "lipschitz": C, **(parameters or {})},
                **sizes,
                **estimate,
            },
        }
    )


def run(study, store):
    return hpcdp.run(study, store, workers=0)


def drawn(problem, law, size):
    """A law's test outputs, drawn again from their keys."""
    chunk = problem.train.chunk
    sizes = [min(chunk, size - start) for start in range(0, size, chunk)]
    parts = [
        problem.sampler.draw(problem.laws[law], law, "test", n, n * chunk, part, problem.schema)
        for n, part in enumerate(sizes)
    ]
    return np.concatenate(parts)


@pytest.mark.parametrize("keep", ["all", "none"])
def test_what_it_shows_is_what_its_samples_say(tmp_path, keep):
    store = tmp_path / "s.zarr"
    study = binned_study(keep=keep)
    result = run(study, store)
    found, problem = result.pure, resolve(study)[0]
    edges = np.linspace(0.0, 1.0, found["bins"] + 1)
    laws = list(problem.laws)
    counts = np.stack([np.histogram(drawn(problem, law, 12_000), edges)[0] for law in laws])
    assert (result["bin_counts"] == counts).all()
    # one level over the limits of all bins of all three laws
    low, high = limits(counts, 12_000, 0.05, 3)
    bins = Bins.of((0.0, 1.0), found["bins"], C)
    for pair, (d, d_prime) in enumerate(problem.pair_laws):
        entry = found["rows"][pair]
        for direction, (p, q) in (("forward", (d, d_prime)), ("reverse", (d_prime, d))):
            one, other = laws.index(p), laws.index(q)
            lower, at = lower_ends(low[one], high[other])
            assert entry[direction]["certified"] == max(0.0, lower)
            assert entry[direction]["upper"] == upper_ends(high[one], low[other], bins)[0]
            assert entry[direction]["bin"] == pytest.approx(edges[at : at + 2].tolist())
            assert entry[direction]["published"] == pytest.approx(np.log(counts[one] / counts[other]).max())
        for name in ("certified", "upper", "published"):
            assert entry[name] == max(entry[direction][name] for direction in ("forward", "reverse"))
        assert entry["certified"] <= (1.0, 0.5)[pair] <= entry["upper"]
    assert found["pair"] == found["upper_pair"] == 0
    assert found["refuted"] is None
    # what is printed, rounded to the safe side
    text = call("show", store).stdout
    assert "≤ if C holds" in text
    assert "finite-sample" in text
    line = next(line.split() for line in text.splitlines() if line.strip().startswith("0 "))
    assert float(line[1]) <= found["certified"] <= float(line[1]) + 1e-5
    assert float(line[4]) - 1e-5 <= found["upper"] <= float(line[4])
    body = json.loads(call("show", store, "--pure", "--format", "json").stdout)
    assert body["pure"] == found == json.loads(show(store))["pure"]
    rows = list(csv.DictReader(io.StringIO(call("show", store, "--pure", "--format", "csv").stdout)))
    assert [float(row["upper"]) for row in rows] == [row["upper"] for row in found["rows"]]
    for words in (["--rows"], ["--delta", "0.1"], ["--accuracy"], ["--zcdp"]):
        call("show", store, *words, code=2)
    # Rényi divergences as published, of the larger pair and direction
    (entry,) = json.loads(call("show", store, "--renyi", "2", "--format", "json").stdout)["published_renyi"]
    both = [counts[[laws.index(law) for law in pair]] for pair in problem.pair_laws]
    assert entry["estimate"] == pytest.approx(max(renyi_ratio(*x[o], 2.0) for x in both for o in ([0, 1], [1, 0])))
    text = call("show", store, "--renyi", "2").stdout
    assert f" {entry['estimate']:.6f} " in text
    assert "by a union bound" in text
    assert "none, with so few outputs" in call("show", store, "--renyi", "1e6").stdout


def test_a_claim_is_judged_by_both_ends(tmp_path):
    store = tmp_path / "s.zarr"
    run(binned_study(), store)
    assert "(violated)" in call("verify", store, "--claim", "dp(epsilon=0.5)", code=3).stdout
    told = call("verify", store, "--claim", "dp(epsilon=2)").stdout
    assert "Of these pairs the claim holds if C holds" in told
    call("verify", store, "--claim", "laplace(epsilon=1)", code=2)


def test_cells_come_from_the_same_counts(tmp_path):
    result = run(binned_study(epsilons=[0.0, 0.5, 1.2]), tmp_path / "s.zarr")
    curve = exact("truncated", {"scale": 1.0}, np.array([0.0]), np.array([1.0]))
    for row in result.spectrum():
        truth = float(curve.delta(row["epsilon"]))
        assert row["lower"] <= truth
        assert row["delta"] == pytest.approx(truth, abs=0.03)
    assert result.pure["certified"] == run(binned_study(), tmp_path / "t.zarr").pure["certified"]
    for words in (["--delta", "0.1"], ["--accuracy"], ["--renyi", "2"]):
        call("show", tmp_path / "s.zarr", *words)


def test_a_domain_enumerates_no_pair(tmp_path):
    result = run(binned_study(DOMAIN), tmp_path / "s.zarr")
    found, counts = result.pure, result["bin_counts"]
    assert counts.shape == (9, found["bins"])
    assert result.pairs == []
    low, high = limits(counts, 12_000, 0.05, 9)
    bins = Bins.of((0.0, 1.0), found["bins"], C, 0.5 * 3.164 / 9)
    # every pair, one by one
    pairs = [(a, b) for a in range(9) for b in range(9) if a != b]
    lowest = [lower_ends(low[a], high[b])[0] for a, b in pairs]
    tops = [upper_ends(high[a], low[b], bins)[0] for a, b in pairs]
    assert found["certified"] == pytest.approx(max(lowest), abs=1e-12)
    assert found["upper"] == pytest.approx(max(tops), abs=1e-12)
    midpoints = [(n + 0.5) / 9 for n in range(9)]
    assert found["points"] == pytest.approx([midpoints[i] for i in pairs[int(np.argmax(lowest))]])
    assert found["upper_points"] == pytest.approx([midpoints[i] for i in pairs[int(np.argmax(tops))]])
    assert found["certified"] <= 1.0 <= found["upper"]
    assert "of all pairs of inputs in [0, 1], from 9 midpoints" in call("show", tmp_path / "s.zarr").stdout
    assert "9 midpoints" in str(plan(binned_study(DOMAIN), 0))
    call("plot", tmp_path / "s.zarr")
    call("verify", tmp_path / "s.zarr", "--claim", "dp(epsilon=0.2)", code=3)
    told = call("verify", tmp_path / "s.zarr", "--claim", f"dp(epsilon={math.ceil(found['upper'])})").stdout
    assert "Of this domain the claim holds if C and D hold" in told
    with pytest.raises(StudyError, match=r"pairs\.domain\.points"):
        run(binned_study({"domain": {**DOMAIN["domain"], "points": 8}}), tmp_path / "s.zarr")


def test_a_domain_whose_densities_change_faster_has_no_upper_limit(tmp_path):
    run(binned_study({"domain": {**DOMAIN["domain"], "points": 3, "lipschitz": 1e-3}}), tmp_path / "s.zarr")
    found = load_result(tmp_path / "s.zarr").pure
    assert found["upper"] is None
    assert sorted(found["refuted"]["points"]) == pytest.approx([1 / 6, 5 / 6])
    low, high = found["refuted"]["densities"]
    assert low - high > 1e-3 * 2 / 3
    told = " ".join(call("show", tmp_path / "s.zarr").stdout.split())
    assert "REFUTED: D = 0.001." in told
    assert "≤ if C and D hold" in told


def test_a_target_ends_where_its_precision_is_reached(tmp_path):
    found = run(binned_study(target=TARGET), tmp_path / "s.zarr").pure
    # all pairs lie between two laws here: those of the first pair promise the widest
    assert found["test"] < 40_000
    # a pilot's counts plan the size, so that the width of .5 that was asked for is met within their error
    assert found["upper"] - found["certified"] == pytest.approx(0.5, rel=0.15)


def test_bins_that_are_given_need_no_training(tmp_path):
    study = binned_study(parameters={"bins": 12})
    assert "train" not in str(plan(study, 0))
    result = run(study, tmp_path / "s.zarr")
    assert result.pure["bins"] == 12
    assert {name.split("-")[1] for name in blocks(tmp_path / "s.zarr")} == {"test"}
    # more bins than outputs: the published estimate fails, and there is no upper end
    found = run(binned_study(parameters={"bins": 5000}, test=3000), tmp_path / "t.zarr").pure
    assert found["published"] is None
    assert found["upper"] is None
    assert "failed" in call("show", tmp_path / "t.zarr").stdout
    assert found["refuted"] is None


def test_counts_that_refute_c_take_the_upper_end_away(tmp_path):
    found = run(binned_study(parameters={"lipschitz": 0.3}), tmp_path / "s.zarr").pure
    assert found["upper"] is None
    assert found["certified"] > 0.5
    refuted = found["refuted"]
    (a, _), (b, _) = refuted["bins"]
    assert refuted["densities"][0] - refuted["densities"][1] > 0.3 * abs(a - b)
    assert "REFUTED: C = 0.3" in call("show", tmp_path / "s.zarr").stdout


def test_plan_says_the_sizes():
    def words_of(study):
        return " ".join(str(plan(study, 0)).split())

    text = words_of(binned_study(parameters={"lipschitz": 1.58}, target={"precision": 0.2}))
    for words in ("226 bins and 39,501,853 outputs", "226 bins and 4,878,062", "113 bins and 2,264,766", "0.4 wide"):
        assert words in text
    domain = {"domain": {"lower": 0.0, "upper": 1.0, "points": 226, "lipschitz": 3.16}}
    study = binned_study(domain, parameters={"lipschitz": 1.58}, target={"precision": 0.2})
    for words in ("678 bins and 1,205,855,615 outputs a call", "170 bins and 11,890,145 outputs"):
        assert words in words_of(study)
    assert "the certified interval needs no such limit" in words_of(binned_study(parameters={"lipschitz": 2.5}))


PLANTED = '''
import os

import numpy as np

from hpcdp.mechanisms import load_builtin


def broken(database, size, rng):
    outputs = load_builtin("truncated")(database, size, rng, scale=1.0)
    fails = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fail")
    if outputs[0] > 0.7 and os.path.exists(fails):
        raise ArithmeticError("it does not like large outputs")
    return outputs


def rare(database, size, rng):
    """Uniform but for one output in some ten thousand, which lies outside."""
    drawn = rng.random(size)
    drawn[rng.random(size) < 2e-4] = 1.25
    return drawn


def stuck(database, size, rng):
    """Chunks of many outputs ignore the generator."""
    return (np.random.default_rng(3) if size >= 2500 else rng).random(size) * (1.0 - 1e-6 * database[0])
'''


@pytest.fixture(name="module")
def module_fixture(tmp_path, monkeypatch):
    (tmp_path / "planted_bins.py").write_text(PLANTED)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_an_output_outside_is_quoted(module):
    with pytest.raises(StudyError, match=r"estimate.parameters.range: .* given: \[0.1, 1.0\], and the output .* trial"):
        run(binned_study(parameters={"range": [0.1, 1]}), module / "s.zarr")
    study = binned_study(mechanism={"call": "planted_bins:rare"}, parameters={"lipschitz": 0.5})
    with pytest.raises(StudyError, match=r"estimate.parameters.range: .* and the output 1.25 \(t\w+ chunks .*\)"):
        run(study, module / "s.zarr")


@pytest.mark.slow
def test_equal_chunks_are_found(module):
    study = binned_study(mechanism={"call": "planted_bins:stuck"}, keep="none")
    with pytest.raises(MechanismError, match="are identical"):
        run(study, module / "s.zarr")
    assert not load_result(module / "s.zarr").complete


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"parameters": {"range": [1, 1]}}, "parameters.range: an interval [low, high] with low < high"),
        ({"parameters": {"range": [1e9, 1e9 + 1e-4]}}, "parameters.range: an interval that floats resolve"),
        ({"parameters": {"lipschitz": 0}}, "parameters.lipschitz"),
        ({"parameters": {"bins": 0}}, 'parameters.bins: "auto" or an integer from 1'),
        ({"parameters": {"bin": 3}}, "parameters.bin: unknown; accepted by histogram: range, lipschitz, bins"),
        ({"etas": [1.0]}, "estimate.loss: estimate.loss = 'histogram' was given with estimate.etas"),
        ({"target": {"epsilon": 0.5}, "epsilons": [0.5]}, "was given with estimate.target without precision"),
        ({"target": {"precision": 0.1, "direction": "forward"}}, "precision: with most alone"),
        ({"target": {"precision": 0.0}}, "target.precision"),
        ({**VOTES, "target": TARGET}, 'accepted: estimate.target.precision with estimate.loss = "histogram"'),
        ({**VOTES, "pairs": DOMAIN}, "pairs.domain was given with estimate.loss = 'knn'; accepted: pairs.domain with"),
        ({"pairs": DOMAIN, "epsilons": [0.5]}, "pairs.domain was given with estimate.epsilons"),
        ({"pairs": {"domain": {**DOMAIN["domain"], "points": 1}}}, "pairs.domain.points"),
        ({"pairs": {"domain": {**DOMAIN["domain"], "upper": 0.0}}}, "lower < upper"),
        ({"pairs": {**PAIRS, **DOMAIN}}, "exactly one of given, relative, distributional, domain"),
        ({"reuse": True}, "estimate.reuse = True was given with estimate.loss = 'histogram'"),
        ({"renyi": [2.0]}, "estimate.renyi with a loss that learns one L̂"),
        ({"loss": ["knn", "histogram"], "epsilons": [0.5]}, "several are without literal-knn and histogram"),
        ({"loss": "histogram"}, "parameters.range: required and missing; accepted by histogram: range, lipschitz,"),
    ],
)
def test_refusals(changes, words):
    data = binned_study().to_dict()
    left_out = ("test", "keep") if "target" in changes else ()
    known = {key: value for key, value in data["estimate"].items() if key not in left_out}
    parameters = {} if "loss" in changes else {**known["parameters"], **changes.get("parameters", {})}
    estimate = {**known, **changes, "parameters": parameters}
    pairs = estimate.pop("pairs", data["pairs"])
    with pytest.raises(StudyError) as raised:
        Study.from_dict({**data, "pairs": pairs, "estimate": estimate})
    assert words in str(raised.value)


def test_other_outputs_and_a_precision_that_cannot_be_had(tmp_path):
    mechanism = {"call": "randomized_response", "parameters": {"epsilon": 1.0}}
    with pytest.raises(StudyError, match=r"estimate\.loss: histogram: outputs that are one real number each"):
        run(binned_study({"given": [{"d": [0], "d_prime": [1]}]}, mechanism=mechanism), tmp_path / "s.zarr")
    study = binned_study(target={"precision": 0.01, "most": 20_000})
    with pytest.raises(StudyError, match=r"target.precision: 0.01 needs an interval 0.02 wide; .*most = 20,000"):
        run(study, tmp_path / "s.zarr")
    # what is stored is told of all the same
    assert "incomplete" in call("status", tmp_path / "s.zarr").stdout
    assert load_result(tmp_path / "s.zarr").pure is None
    assert "not all counts are there yet" in call("show", tmp_path / "s.zarr").stdout
    told = call("resume", tmp_path / "s.zarr", "--workers", "0", code=2).stderr
    assert "accepted, into another store: a larger precision" in told


def test_both_ends_of_the_range_are_in_it_and_nothing_beyond():
    outputs = np.append(np.random.default_rng(2).random(50_000) * 3.0 - 1.0, [-1.0, 2.0])
    counts = np.zeros(7, np.int64)
    count_bins(outputs, (-1.0, 2.0), counts)
    assert (counts == np.histogram(outputs, 7, (-1.0, 2.0))[0]).all()
    for bad in (math.nextafter(2.0, 3.0), -1.0 - 1e-9, math.nan, math.inf):
        with pytest.raises(OutsideError, match="an interval that holds every output"):
            count_bins(np.array([0.0, bad]), (-1.0, 2.0), np.zeros(3, np.int64))


def clamped(path, share, size=70_000):
    """A study of stored outputs, uniform on [0, 1); of D' a share of them is 1, as clamping makes it."""
    rng = np.random.default_rng(12)
    for side in (0, 1):
        outputs = rng.random(size)
        outputs[rng.random(size) < share * side] = 1.0
        np.save(path / f"{side}.npy", outputs)
    files = {"call": "stored", "parameters": {"files": [str(path / f"{side}.npy") for side in (0, 1)]}}
    pairs = {"given": [{"d": [0], "d_prime": [1]}]}
    return binned_study(pairs, mechanism=files, chunk=30_000, test=30_000, parameters={"bins": 10})


def test_an_atom_is_refused_and_what_is_not_seen_of_one_is_printed(tmp_path):
    """Uniform outputs and 1 with probability .002 of D' alone: ε is infinite, and an upper limit was printed.

    Such outputs hold no second 1 with probability e⁻⁵⁰; honest ones are refused with probability 10⁻⁶ at most.
    """
    with pytest.raises(StudyError, match=r"30,000 outputs of which \d\d are 1, so that this value has a probability"):
        run(clamped(tmp_path, 0.002), tmp_path / "atom.zarr")
    (tmp_path / "honest").mkdir()
    result = run(clamped(tmp_path / "honest", 0.0), tmp_path / "honest.zarr")
    assert result.pure["atom"] == float(binomial_upper(1, 30_000, 0.05)) < 4.8 / 30_000
    text = " ".join(call("show", tmp_path / "honest.zarr").stdout.split())
    assert "and no single value has a probability of its own (clamping makes such); an assumption" in text
    assert "A single value has at most 0.00016, each by itself with confidence 95 %; finite-sample." in text
    told = " ".join(call("verify", tmp_path / "honest.zarr", "--claim", "dp(epsilon=1)").stdout.split())
    assert "the claim holds if C holds, and no single value has a probability of its own (clamping makes such)" in told


def test_equal_outputs_are_what_their_type_explains():
    """Equal numbers of narrow types are no atoms, unless one of them comes too often; honest cases fail with probability 10⁻⁶."""
    rng = np.random.default_rng(13)
    limits_of = [
        refuse_atoms(rng.random(1 << 16, np.float32).astype(np.float64), 1.0, C),
        refuse_atoms(np.sqrt(rng.random(1 << 16)).astype(np.float16).astype(np.float64), 1.0, 2.0),
        refuse_atoms(1e7 * rng.random(1 << 16), 1e7, 1e-14),
        refuse_atoms(rng.random(1), 1.0, C),
    ]
    assert 1e-5 < limits_of[2] < limits_of[0] < 2e-4 < limits_of[1] < 0.01 < limits_of[3] <= 1.0
    narrow = rng.random(1 << 16, np.float32).astype(np.float64)
    narrow[:20] = 0.25
    for outputs in (narrow, np.round(rng.random(1 << 16), 3), np.append(rng.random(999), [0.5, 0.5])):
        with pytest.raises(OutsideError, match="a probability of its own"):
            refuse_atoms(outputs, 1.0, C)
