"""auto: what its sets keep of δ beside the losses it chooses among, what decides, and where another loss takes its place."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from commands import hpcdp
from numpy.typing import NDArray
from scipy import stats
from studies import learn_and_count, make_study, pose

from hpcdp.analytic import exact
from hpcdp.driver.driver import run as run_study
from hpcdp.losses import kind_of, make_loss
from hpcdp.losses.line.step import StepCounter
from hpcdp.losses.protocol import Decides, Side
from hpcdp.results.load import assemble
from hpcdp.study.file import Study

Floats = NDArray[np.float64]

EPSILONS = np.array([0.2, 0.8])
THRESHOLDS = np.concatenate([-EPSILONS[::-1], EPSILONS])
GRID = np.linspace(-200.0, 200.0, 2_000_001)


class Mixture:
    """Of laws with weights."""

    def __init__(self, weights: list[float], laws: list[Any]) -> None:
        self.weights, self.laws = weights, laws

    def cdf(self, x: Floats) -> Floats:
        return np.asarray(sum(w * law.cdf(x) for w, law in zip(self.weights, self.laws, strict=True)))

    def rvs(self, size: int, random_state: np.random.Generator) -> Floats:
        which = random_state.choice(len(self.weights), size=size, p=self.weights)
        drawn = [law.rvs(size, random_state=random_state) for law in self.laws]
        return np.asarray(np.choose(which, drawn))


def _steps(weights: list[float]) -> Mixture:
    return Mixture(weights, [stats.uniform(at, 1.0) for at in range(len(weights))])


LAWS: dict[str, tuple[Any, Any]] = {
    "normal": (stats.norm(0.0), stats.norm(1.3)),
    "laplace": (stats.laplace(0.0), stats.laplace(1.1)),
    "logistic": (stats.logistic(0.0), stats.logistic(1.2)),
    "cauchy": (stats.cauchy(0.0), stats.cauchy(1.4)),
    "two scales": (stats.norm(0.0, 1.0), stats.norm(0.0, 2.0)),
    "steps": (_steps([0.35, 0.1, 0.35, 0.2]), _steps([0.15, 0.35, 0.1, 0.4])),
    "shifted uniform": (stats.uniform(0.0, 1.0), stats.uniform(0.3, 1.0)),
    "two modes": (
        Mixture([0.6, 0.4], [stats.norm(0.0), stats.norm(90.0)]),
        Mixture([0.4, 0.6], [stats.norm(0.7), stats.norm(90.7)]),
    ),
}


def _delta(p: Any, q: Any) -> Floats:
    dp, dq = np.diff(p.cdf(GRID)), np.diff(q.cdf(GRID))
    return np.array([np.maximum(0.0, dp - math.exp(e) * dq).sum() for e in EPSILONS])


def _kept(counter: Any, p: Any, q: Any) -> Floats:
    """P(S) − e^ε Q(S) of the learned sets, exact."""
    assert isinstance(counter, StepCounter)
    starts, codes = np.append(counter.lookup.starts, np.inf), counter.codes
    dp, dq = np.diff(p.cdf(starts)), np.diff(q.cdf(starts))
    inside = [codes > 2 * int(np.searchsorted(THRESHOLDS, e)) + 1 for e in EPSILONS]
    return np.array([(dp - math.exp(e) * dq)[part].sum() for e, part in zip(EPSILONS, inside, strict=True)])


def _sides(p: Any, q: Any, size: int, seed: int) -> tuple[Side, Side]:
    rng = np.random.default_rng([seed, size])
    return Side(p.rvs(size, random_state=rng), size), Side(q.rvs(size, random_state=rng), size)


def _loss_of_choice(name: str, size: int) -> float:
    """By how much P(S) − e^ε Q(S) is smaller than for the better of two of the losses, medians of nine seeds, at the worst ε."""
    p, q = LAWS[name]
    kept = {
        loss: np.median(
            [_kept(make_loss(loss, {}).fit(*_sides(p, q, size, s)).counter(THRESHOLDS), p, q) for s in range(9)], axis=0
        )
        for loss in ("knn", "smooth", "auto")
    }
    delta = _delta(p, q)
    print(name, size, delta.round(5).tolist(), {loss: found.round(5).tolist() for loss, found in kept.items()})
    assert (kept["auto"] <= delta + 1e-6).all()
    return float((np.maximum(kept["knn"], kept["smooth"]) - kept["auto"]).max())


@pytest.mark.slow
@pytest.mark.parametrize("size", [4000, 60_000])
@pytest.mark.parametrize("name", LAWS)
def test_sets_keep_about_what_the_best_of_the_losses_keeps(name: str, size: int) -> None:
    """What the choice may cost is the standard error that a share of the training outputs has at most."""
    assert _loss_of_choice(name, size) <= 0.5 / math.sqrt(size)


def test_another_set_decides_only_where_it_is_better() -> None:
    """Jumps of the densities: what decides is not the spline; with normal noise it is the spline nearly everywhere."""
    for name, wanted in (("steps", False), ("normal", True)):
        model = make_loss("auto", {}).fit(*_sides(*LAWS[name], 60_000, 1))
        assert isinstance(model, Decides)
        _, decision = model.decide(THRESHOLDS)
        assert (decision.chosen.count("smooth") >= 3) == wanted, decision.chosen


def test_a_few_values_are_told_by_their_frequencies() -> None:
    rng = np.random.default_rng(1)
    sides = [Side(rng.choice(5, size=3000, p=w).astype(np.int64), 3000) for w in ([0.2] * 5, [0.3, 0.1, 0.2, 0.2, 0.2])]
    fresh = np.arange(5)
    scores = [make_loss(loss, {}).fit(*sides).score(fresh) for loss in ("auto", "frequency")]
    np.testing.assert_array_equal(*scores)


def test_judged_outputs_are_all_training_outputs_in_any_order() -> None:
    p, q = _sides(*LAWS["steps"], 3001, 4)
    model = make_loss("auto", {}).fit(p, q)
    assert isinstance(model, Decides)
    counter, decision = model.decide(THRESHOLDS)
    assert decision.judged.shape == (2, 2 * THRESHOLDS.size + 1)
    assert decision.judged.sum(axis=1).tolist() == [3001, 3001]
    rng = np.random.default_rng(5)
    mixed = [Side(rng.permutation(side.outputs), side.draws) for side in (p, q)]
    fresh = np.concatenate([side.outputs for side in _sides(*LAWS["steps"], 5000, 3)])
    state = counter.state()
    assert state is not None
    for other in (
        make_loss("auto", {}).fit(*mixed).counter(THRESHOLDS),
        make_loss("auto", {}).restore(state, THRESHOLDS),
    ):
        np.testing.assert_array_equal(other.count(fresh), counter.count(fresh))


def _checks(rng: np.random.Generator, size: int, more: float) -> Floats:
    """Points of a square whose fields of one colour hold more."""
    corner = rng.integers(0, 6, size=(size, 2))
    flip = (corner.sum(axis=1) % 2 == 1) & (rng.random(size) < more)
    corner[flip, 0] = (corner[flip, 0] + 1) % 6
    return corner + rng.random((size, 2))


@pytest.mark.slow
def test_vectors_take_the_loss_that_is_better() -> None:
    """A checkerboard, of which no polynomial tells anything, and normal noise, of which one tells all."""
    rng = np.random.default_rng(9)
    size, thresholds = 8_000, np.array([-0.2, 0.2])
    laws = {
        "checks": [_checks(rng, size, 0.6), _checks(rng, size, 0.0)],
        "normal": [rng.normal(size=(size, 3)), rng.normal([0.6, 0.0, -0.3], size=(size, 3))],
    }
    for name, drawn in laws.items():
        sides = [Side(outputs, size) for outputs in drawn]
        model = make_loss("auto", {}).fit(*sides)
        assert isinstance(model, Decides)
        counter, decision = model.decide(thresholds)
        assert len(set(decision.chosen)) == 1
        assert (decision.chosen[0] == "smooth") == (name == "normal"), decision.chosen
        state = counter.state()
        assert (state is None) == (decision.chosen[0] == "knn")  # which needs its training outputs
        if state is not None:
            again = make_loss("auto", {}).restore(state, thresholds)
            np.testing.assert_array_equal(again.count(drawn[0][:500]), counter.count(drawn[0][:500]))


def test_strings_are_left_to_votes() -> None:
    outputs = np.array([b"a", b"b", b"a", b"c"] * 50, object)
    sides = Side(outputs, 200), Side(outputs[::-1].copy(), 200)
    np.testing.assert_array_equal(
        make_loss("auto", {}).fit(*sides).score(outputs), make_loss("knn", {}).fit(*sides).score(outputs)
    )


HEAD = {
    "study": {"name": "s", "seed": 5},
    "mechanism": {"call": "laplace", "parameters": {"epsilon": 1.0}},
    "pairs": {"given": [{"d": [0.0], "d_prime": [1.0]}]},
}


def _studied(**changes: Any) -> Study:
    sections = {key: changes.pop(key) for key in ("mechanism", "pure") if key in changes}
    return Study.from_dict({**HEAD, **sections, "estimate": {"epsilons": [0.5], **changes}})


def test_sizes_of_a_study_that_names_none() -> None:
    def sizes(**estimate: Any) -> tuple[int, int]:
        found = _studied(**estimate).estimate
        return found.train, found.test

    total = 1 << 21
    train, test = sizes()
    assert train + test == total
    assert 0.1 <= train / total <= 0.2
    assert sizes(loss="knn") == sizes(loss="smooth") == (1 << 20, 1 << 20)
    assert sizes(train=1000) == (1000, 1 << 20)
    assert sizes(test=1000) == (1 << 20, 1000)
    assert sizes(parameters={"k": 5}) == (1 << 20, 1 << 20)


OTHERWISE: dict[str, dict[str, Any]] = {
    "reuse": {"reuse": True},
    "reuse of auto": {"reuse": "auto"},
    "refine": {"refine": 1000},
    "target": {"target": {"epsilon": 0.5}},
    "time": {"time": "10 s"},
    "pure": {"pure": {}},
    "not reproducible": {"mechanism": {"call": "own:f", "reproducible": False}},
    "stored": {"mechanism": {"call": "stored", "parameters": {"files": ["a.npy", "b.npy"]}}},
    "parameters": {"parameters": {"k": "10sqrt"}},
}


@pytest.mark.parametrize("what", OTHERWISE)
def test_where_another_loss_takes_its_place(what: str) -> None:
    study = _studied(**OTHERWISE[what])
    assert study.estimate.loss == "knn"
    assert Study.from_dict(study.to_dict()).to_dict() == study.to_dict()


TOML = """
[study]
name = "s"
seed = 5
claim = "laplace(epsilon=1)"
[mechanism]
call = "laplace"
parameters = { epsilon = 1.0 }
[pairs]
given = [{ d = [0.0], d_prime = [1.0] }]
[estimate]
LOSS
train = 2000
test = 3000
epsilons = [0.0, 0.5]
"""


def _loss_of(folder: Path, store: str) -> Any:
    path = max((folder / store / "study").glob("study-*.json"))
    return json.loads(path.read_text())["body"]["study"]["estimate"]["loss"]


class Folder:
    """A study's file and its stores: what a command says of them, and what a store then holds."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(self, estimate: str, store: str, command: str = "run", code: int = 0) -> str:
        (self.folder / "s.toml").write_text(TOML.replace("LOSS", estimate))
        return hpcdp(command, "s.toml", "--store", store, folder=self.folder, code=code).stderr

    def loss_after(self, estimate: str, store: str, code: int = 0) -> Any:
        self.run(estimate, store, code=code)
        return _loss_of(self.folder, store)

    def show(self, store: str, *options: str) -> str:
        return hpcdp("show", store, *options, folder=self.folder).stdout


JSON = ("--format", "json")


@pytest.mark.slow
def test_stores_and_files_that_name_no_loss(tmp_path: Path) -> None:
    here = Folder(tmp_path)
    here.run('loss = "knn"', "older.zarr")
    before = here.show("older.zarr", *JSON)
    assert here.loss_after("", "older.zarr") == "knn"  # as made before there was another default
    assert here.show("older.zarr", *JSON) == before
    assert here.loss_after("", "new.zarr") == "auto"
    for store in ("audited.zarr", "audited.zarr", "new.zarr"):
        here.run("", store, "audit")
    assert [_loss_of(tmp_path, store) for store in ("new.zarr", "audited.zarr")] == ["auto", "knn"]
    first = here.show("new.zarr", *JSON)
    assert here.loss_after("reuse = true", "new.zarr") == "knn"  # the same samples
    assert ", loss auto. The bounds of each" in " ".join(here.show("new.zarr").split())
    assert here.loss_after("", "new.zarr") == "auto"  # and back again
    assert json.loads(here.show("new.zarr", *JSON))["cells"] == json.loads(first)["cells"]
    assert here.loss_after('loss = "auto"', "new.zarr") == "auto"
    for _ in range(2):
        here.run('loss = "auto"', "named.zarr", "audit")
    assert _loss_of(tmp_path, "named.zarr") == "knn"
    refused = here.run('loss = "auto"', "older.zarr", code=2)
    assert (
        'estimate.loss ("knn" in the store, "auto" given); a file that leaves estimate.loss out goes on with' in refused
    )
    assert "auto chooses by itself" in here.run('loss = ["auto", "kde"]\nrefine = 100', "many.zarr", code=2)


@pytest.mark.slow
def test_the_default_loss_written_out_goes_on_as_where_it_is_left_out(tmp_path: Path) -> None:
    here, written, reuse = Folder(tmp_path), 'loss = "auto"\n', "reuse = true"
    for store, first in (("left_out.zarr", ""), ("written.zarr", written)):
        files = (first, written + reuse, written, reuse, written, "")
        wanted = ["auto", "knn", "auto", "knn", "auto", "auto"]
        assert [here.loss_after(file, store) for file in files] == wanted
    assert here.loss_after(written + reuse, "reused.zarr") == "knn"
    assert here.loss_after(reuse, "reused.zarr") == "knn"
    assert here.loss_after(written, "reused.zarr", code=2) == "knn", "the store was never one of auto"
    assert here.loss_after('loss = "knn"', "left_out.zarr", code=2) == "auto"


CONFIDENCE = 0.8
STUDIES: dict[str, tuple[str, dict[str, Any], list[float], list[float]]] = {
    "laplace": ("laplace", {"epsilon": 1.0}, [0.0], [1.0]),
    "three outcomes": ("pmf", {"outcomes": [0, 1, 2], "table": [[0.6, 0.3, 0.1], [0.2, 0.3, 0.5]]}, [0], [1]),
    "randomised response": ("randomized_response", {"epsilon": 1.2, "values": 2}, [0], [1]),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", STUDIES)
def test_all_bounds_hold_together(name: str) -> None:
    """Of studies, all of whose bounds are at most the pair's δ, with everything that training decides decided anew."""
    call, parameters, d, d_prime = STUDIES[name]
    epsilons, held, runs = [0.0, 0.3, 0.6, 0.9], 0, 100
    curve = exact(call, parameters, np.asarray(d), np.asarray(d_prime))
    assert curve is not None
    delta = np.stack([curve.delta(np.asarray(epsilons), way) for way in ("forward", "reverse")])
    for seed in range(runs):
        study = make_study(
            call, parameters, [(d, d_prime)], seed=seed, loss="auto", train=300, test=900, chunk=900,
            epsilons=epsilons, confidence=CONFIDENCE, keep="none",
        )  # fmt: skip
        problem = pose(study)
        index, _ = learn_and_count(problem)
        held += bool((assemble(problem, index)["lower"][1][0] <= delta + 1e-12).all())
    assert held / runs >= CONFIDENCE - 4 * math.sqrt(CONFIDENCE * (1 - CONFIDENCE) / runs)


def test_vectors_of_few_outputs_have_the_default() -> None:
    rng = np.random.default_rng(2)
    model = make_loss("auto", {}).fit(*[Side(rng.normal(size=(90, 2)), 90) for _ in range(2)])
    assert isinstance(model, Decides)
    assert set(model.decide(THRESHOLDS)[1].chosen) == {"smooth"}


@pytest.mark.few
@pytest.mark.parametrize("columns", [1, 2, 7])
@pytest.mark.parametrize("loss", ["smooth", "auto"])
def test_few_outputs_teach_what_they_can(loss: str, columns: int) -> None:
    for size in (1, 2, 3, 5, 8, 9, 10, 64, 127, 130):
        rng = np.random.default_rng([size, columns])
        sides = [Side(rng.normal(size=(size, columns)) + shift, size) for shift in (0.0, 0.5)]
        counter = make_loss(loss, {}).fit(*sides).counter(THRESHOLDS)
        assert counter.count(rng.normal(size=(50, columns))).sum() == 50


@pytest.mark.parametrize("shape", [(), (3,)])
def test_a_side_without_outputs_is_told_at_once(shape: tuple[int, ...]) -> None:
    """As of a region that one law does not reach."""
    there, none = np.random.default_rng(1).normal(size=(50, *shape)), np.empty((0, *shape))
    counts = [
        make_loss("auto", {}).fit(Side(one, 1000), Side(other, 1000)).counter(THRESHOLDS).count(there).tolist()
        for one, other in ((there, none), (none, there))
    ]
    assert counts == [[0] * 8 + [50], [50] + [0] * 8]


STEPS = """
import numpy as np

WEIGHTS = {0: [0.25] * 4, 1: [0.2875, 0.2125, 0.275, 0.225]}


def steps(database, size, rng):
    return rng.choice(4, size=size, p=WEIGHTS[int(database[0])]) + rng.random(size)
"""


@pytest.mark.slow
def test_thresholds_that_are_added_have_a_loss_of_their_own(tmp_path: Path) -> None:
    """No classes are common to all: no D̂, no second bound, and the points of as many families share the level."""
    (tmp_path / "near.py").write_text(STEPS)

    def run(epsilons: list[float], etas: list[float], store: str, loss: str = "auto") -> dict[str, Any]:
        (tmp_path / "s.toml").write_text(
            '[study]\nname = "s"\nseed = 156\n[mechanism]\ncall = "near:steps"\n[pairs]\ngiven = [{ d = [0], d_prime = [1] }]\n'
            f'[estimate]\nloss = "{loss}"\ntrain = 1000\ntest = 20000\nchunk = 20000\nrenyi = [2.0]\n'
            f"epsilons = {epsilons}\netas = {etas}\n"
        )
        hpcdp("run", "s.toml", "--store", store, folder=tmp_path)
        found = json.loads(hpcdp("show", store, "--format", "json", folder=tmp_path).stdout)
        orders = json.loads(hpcdp("show", store, "--renyi", "2", "--format", "json", folder=tmp_path).stdout)
        return {"radius": found["tradeoff"][0]["radius"], **orders["renyi"][0]}

    def radius(families: int) -> float:
        return math.sqrt(math.log(4.0 * families / 0.05) / 2 / 20_000)

    some = run([0.0, 0.1], [0.8, 1.25], "s.zarr")
    more = run([0.0, 0.05, 0.1], [0.8, 0.9, 1.25], "s.zarr")
    whole = run([0.0, 0.05, 0.1], [0.8, 0.9, 1.25], "whole.zarr")
    assert some["radius"] == whole["radius"] == pytest.approx(radius(1))
    assert more["radius"] == pytest.approx(radius(2))
    assert some["estimate"] is not None
    assert whole["estimate"] is not None
    assert (more["estimate"], more.get("variational")) == (None, None)
    run([0.0, 0.1], [0.8, 1.25], "knn.zarr", "knn")
    one = run([0.0, 0.05, 0.1], [0.8, 0.9, 1.25], "knn.zarr", "knn")
    assert one["radius"] == pytest.approx(radius(1))
    assert one["estimate"] is not None


def test_a_size_that_is_left_out_is_the_stores(tmp_path: Path) -> None:
    """Where the store has the division of a study that names none."""
    sizes = patch.object(type(kind_of("auto")), "sizes", (1 << 10, 7 << 10))
    with sizes:
        text = TOML.replace("LOSS\ntrain = 2000\ntest = 3000\n", "chunk = 1024\n")
        (tmp_path / "s.toml").write_text(text)
        study, store = tmp_path / "s.toml", tmp_path / "s.zarr"
        assert run_study(study, store, workers=0).complete
        study.write_text(text.replace("chunk", "train = 4096\nchunk"))
        grown = run_study(study, store, workers=0).study.estimate
        assert (grown.train, grown.test) == (4096, 7 << 10)
