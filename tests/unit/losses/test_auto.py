"""auto: what decides among its losses, and where another loss takes its place."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from commands import hpcdp
from numpy.typing import NDArray

from hpcdp.driver.driver import run as run_study
from hpcdp.losses import kind_of, make_loss
from hpcdp.losses.protocol import Decides, Side
from hpcdp.study.file import Study

Floats = NDArray[np.float64]

EPSILONS = np.array([0.2, 0.8])
THRESHOLDS = np.concatenate([-EPSILONS[::-1], EPSILONS])


def _steps(rng: np.random.Generator, size: int, *weights: float) -> Floats:
    return rng.choice(len(weights), size, p=weights) + rng.random(size)


LAWS: dict[str, Callable[[np.random.Generator, int], tuple[Floats, Floats]]] = {
    "normal": lambda rng, size: (rng.normal(size=size), rng.normal(1.3, size=size)),
    "steps": lambda rng, size: (_steps(rng, size, 0.35, 0.1, 0.35, 0.2), _steps(rng, size, 0.15, 0.35, 0.1, 0.4)),
}


def _sides(name: str, size: int, seed: int) -> tuple[Side, Side]:
    rng = np.random.default_rng([seed, size])
    p, q = LAWS[name](rng, size)
    return Side(p, size), Side(q, size)


def test_another_set_decides_only_where_it_is_better() -> None:
    """Jumps of the densities: what decides is not the spline; with normal noise it is the spline nearly everywhere."""
    for name, wanted in (("steps", False), ("normal", True)):
        model = make_loss("auto", {}).fit(*_sides(name, 60_000, 1))
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
    p, q = _sides("steps", 3001, 4)
    model = make_loss("auto", {}).fit(p, q)
    assert isinstance(model, Decides)
    counter, decision = model.decide(THRESHOLDS)
    assert decision.judged.shape == (2, 2 * THRESHOLDS.size + 1)
    assert decision.judged.sum(axis=1).tolist() == [3001, 3001]
    rng = np.random.default_rng(5)
    mixed = [Side(rng.permutation(side.outputs), side.draws) for side in (p, q)]
    fresh = np.concatenate([side.outputs for side in _sides("steps", 5000, 3)])
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


class Folder:
    """A study's file and its stores: what a command says of them, and what a store then holds."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(self, estimate: str, store: str, command: str = "run", code: int = 0) -> str:
        (self.folder / "s.toml").write_text(TOML.replace("LOSS", estimate))
        return hpcdp(command, "s.toml", "--store", store, folder=self.folder, code=code).stderr

    def loss_after(self, estimate: str, store: str, command: str = "run", code: int = 0) -> Any:
        self.run(estimate, store, command, code)
        path = max((self.folder / store / "study").glob("study-*.json"))
        return json.loads(path.read_text())["body"]["study"]["estimate"]["loss"]

    def show(self, store: str, *options: str) -> str:
        return hpcdp("show", store, *options, folder=self.folder).stdout


JSON = ("--format", "json")


@pytest.mark.slow
def test_stores_and_files_that_name_no_loss(tmp_path: Path) -> None:
    """The default written out goes on as where it is left out; a store that was never one of auto stays what it is."""
    here, auto, reuse = Folder(tmp_path), 'loss = "auto"\n', "reuse = true"
    here.run('loss = "knn"', "older.zarr")
    before = here.show("older.zarr", *JSON)
    assert here.loss_after("", "older.zarr") == "knn"  # as made before there was another default
    assert here.show("older.zarr", *JSON) == before
    assert here.loss_after("", "new.zarr") == "auto"
    first = here.show("new.zarr", *JSON)
    assert here.loss_after("", "new.zarr", "audit") == "auto"
    for _ in range(2):
        assert here.loss_after("", "audited.zarr", "audit") == here.loss_after(auto, "named.zarr", "audit") == "knn"
    assert here.loss_after(reuse, "new.zarr") == "knn"  # the same samples
    assert ", loss auto. The bounds of each" in " ".join(here.show("new.zarr").split())
    files = ("", auto + reuse, auto, reuse, auto, "")  # and back again
    assert [here.loss_after(file, "new.zarr") for file in files] == ["auto", "knn", "auto", "knn", "auto", "auto"]
    assert json.loads(here.show("new.zarr", *JSON))["cells"] == json.loads(first)["cells"]
    assert here.loss_after(auto + reuse, "reused.zarr") == "knn"
    assert here.loss_after(auto, "reused.zarr", code=2) == "knn"
    refused = here.run(auto, "older.zarr", code=2)
    said = 'estimate.loss ("knn" in the store, "auto" given); a file that leaves estimate.loss out goes on with'
    assert said in refused
    assert "auto chooses by itself" in here.run('loss = ["auto", "kde"]\nrefine = 100', "many.zarr", code=2)


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
