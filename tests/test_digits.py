"""Audits of trained models: DP-SGD on digits, its law and its claim, and scores of models that were trained elsewhere."""

from __future__ import annotations

import importlib.util
import json
import math
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from commands import (
    SEED,
    call,
    calls,
    committed,
    contents,
    kill_group,
    one_message,
    records,
    started,
    stored_problem,
    wait_until,
    write_study,
)
from numpy.typing import NDArray
from refusing import refusal

import hpcdp.trial
from hpcdp.analytic import GaussianShift
from hpcdp.claims import parse_claim
from hpcdp.mechanisms.scores import load_scores
from hpcdp.outputs import Schema
from hpcdp.plan import plan
from hpcdp.stages import Stage
from hpcdp.store.layout import Layout
from hpcdp.store.samples import read_blocks
from hpcdp.study import Study

DIGITS = Path(__file__).resolve().parent.parent / "workflows" / "dpsgd_digits"
sys.path.insert(0, str(DIGITS))

import accountant  # noqa: E402
import training  # noqa: E402

FEW = np.vstack([training.load()[0][:7], training.with_canary()[-1:]])
QUICK: dict[str, Any] = {"noise": 2.0, "steps": 4, "rate": 4.0}


def load_make() -> ModuleType:
    """The workflow's script; other workflows have a `make` too."""
    spec = importlib.util.spec_from_file_location("dpsgd_digits_make", DIGITS / "make.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def row_loss(weights: NDArray[np.float64], x: NDArray[np.float64], label: int) -> float:
    """Minus the log-probability of a row's label."""
    logits = x @ weights
    return float(np.log(np.exp(logits).sum()) - logits[label])


def row_gradient(weights: NDArray[np.float64], x: NDArray[np.float64], label: int) -> NDArray[np.float64]:
    """Its gradient, by the textbook."""
    share = np.exp(x @ weights)
    share /= share.sum()
    share[label] -= 1.0
    return np.outer(x, share)


def train_by_loops(
    database: NDArray[np.int64], size: int, rng: np.random.Generator, clip: float, direction: str
) -> NDArray[np.float64]:
    """`training.train` model by model and row by row."""
    noise = [rng.standard_normal((65, 10, size)) for _ in range(QUICK["steps"])]
    found = np.zeros((65, 10, size))
    for model in range(size):
        for z in noise:
            total = QUICK["noise"] * clip * z[:, :, model]
            for row in database:
                if row[-1] == training.CANARY:
                    total = total + clip * training.canary_direction(direction)
                    continue
                gradient = row_gradient(found[:, :, model], training.features(row[None])[0], row[-1])
                total = total + gradient * min(1.0, clip / np.linalg.norm(gradient))
            found[:, :, model] -= QUICK["rate"] / training.LOT * total
    return found


def test_gradients_are_those_of_the_loss() -> None:
    rng = np.random.default_rng(1)
    weights, step = 0.1 * rng.standard_normal((65, 10)), 1e-6
    x, label = training.features(FEW[:1])[0], int(FEW[0, -1])
    for place in [(10, 3), (64, label), (30, 9)]:
        move = np.zeros_like(weights)
        move[place] = step
        slope = (row_loss(weights + move, x, label) - row_loss(weights - move, x, label)) / (2 * step)
        assert row_gradient(weights, x, label)[place] == pytest.approx(slope, rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("clip", [0.5, 1.0, 4.5])  # all rows are clipped, some, none
@pytest.mark.parametrize("direction", ["random", "blank"])
def test_training_all_models_at_once_is_training_each(clip: float, direction: str) -> None:
    many = training.train(FEW, 3, np.random.default_rng(2), clip=clip, direction=direction, **QUICK)
    each = train_by_loops(FEW, 3, np.random.default_rng(2), clip, direction)
    np.testing.assert_allclose(many, each, rtol=0.0, atol=1e-12 * np.abs(each).max())


@pytest.mark.parametrize("steps, direction", [(1, "random"), (6, "blank")])
def test_without_noise_a_canary_moves_the_score_by_one(steps: int, direction: str) -> None:
    """In a random direction only at the first step exactly: then the model that it moved changes the other gradients."""
    settings: dict[str, Any] = {"noise": 0.0, "steps": steps, "rate": 4.0, "clip": 0.7, "direction": direction}
    without, once, twice = (
        training.canary_score(np.vstack([FEW[:-1], *[FEW[-1:]] * count]), 1, np.random.default_rng(0), **settings)[0]
        for count in range(3)
    )
    assert once - without == pytest.approx(1.0, abs=1e-12)
    assert twice - without == pytest.approx(2.0, abs=1e-12)


@pytest.mark.parametrize("steps, direction", [(1, "random"), (4, "blank")])
@pytest.mark.parametrize("count", [0, 1])
def test_the_score_is_normal(steps: int, direction: str, count: int) -> None:
    """With mean 0 or 1 more than without noise, and standard deviation noise/√steps: μ = √steps/noise, no more, no less."""
    database, size = training.with_canary()[: training.LOT + count], 1500
    settings: dict[str, Any] = {"steps": steps, "rate": 4.0, "direction": direction}
    rng = np.random.default_rng([SEED, steps, count])
    still = training.canary_score(training.with_canary()[:-1], 1, rng, noise=0.0, **settings)[0] + count
    scores = training.canary_score(database, size, rng, noise=2.0, **settings)
    spread = 2.0 / math.sqrt(steps)
    assert abs(scores.mean() - still) < 5 * spread / math.sqrt(size)
    assert abs(scores.var(ddof=1) / spread**2 - 1.0) < 5 * math.sqrt(2 / (size - 1))


def test_models_learn() -> None:
    parameters = Study.from_toml(DIGITS / "correct.toml").mechanism.parameters
    rows, others = training.load()
    assert training.accuracy(training.train(rows, 4, np.random.default_rng(3), **parameters), others).min() > 0.75


def test_the_claim_is_the_whole_curve_of_the_accountant() -> None:
    noise, steps = accountant.claimed_training()
    mu = accountant.gaussian_mu(noise, steps)
    assert mu >= 1.0
    kept = np.loadtxt(accountant.CLAIM, delimiter=",", skiprows=1)
    np.testing.assert_allclose(kept, accountant.curve_points(mu), rtol=1e-13)
    claim, sizes = parse_claim("file(claim.csv)", DIGITS), np.linspace(0.0, 1.0, 1001)
    exact = GaussianShift(mu).tradeoff(sizes)
    assert (claim.tradeoff(sizes) <= exact + 1e-12).all()
    assert np.abs(claim.tradeoff(sizes) - exact).max() < 1e-3
    for delta in accountant.DELTAS:
        assert GaussianShift(mu).spectrum(accountant.exact_epsilon(mu, delta)) == pytest.approx(delta, rel=1e-6)


def quick_study(folder: Path, **changes: Any) -> Path:
    """The workflow's study with fewer steps and models; μ stays 1."""
    settings = {"train": 300, "test": 600, "chunk": 60, "loss": "knn", "epsilons": [0.0, 1.0], "etas": []} | changes
    pairs = 'relative = { call = "training:with_canary", rows = [600], relation = "remove" }'
    parameters = QUICK | settings.pop("parameters", {})
    study = write_study(folder, call="training:canary_score", parameters=parameters, pairs=pairs, **settings)
    (folder / "training.py").symlink_to(DIGITS / "training.py")
    return study


@pytest.mark.parametrize("noise, code", [(QUICK["noise"], 0), (QUICK["noise"] / 2, 3)])
def test_the_audit_finds_half_the_noise_and_nothing_else(
    noise: float, code: int, tmp_path: Path, scheduler: str
) -> None:
    study, store = quick_study(tmp_path, parameters={"noise": noise}), tmp_path / "s.zarr"
    where = ("--claim", f"file({accountant.CLAIM})", "--store", store, "--cluster", scheduler, "--format", "json")
    found = json.loads(call("audit", study, *where, "-o", tmp_path / "plot.png", code=code).stdout)
    assert found["verdict"] == "violation" or code == 0
    assert found["bounds"]["mu"]["all"] <= math.sqrt(QUICK["steps"]) / noise


def test_kept_results_are_what_they_should_be_and_the_page_says_them() -> None:
    make = load_make()
    found = json.loads(make.RESULTS.read_text(encoding="utf-8"))
    assert [one["study"] for one in found] == [case.study for case in make.CASES]
    for case, one in zip(make.CASES, found, strict=True):
        assert make.judge(case, one)
        assert not make.judge(make.Case(case.study, not case.violates), one)
        study = Study.from_toml(case.file)
        assert one["audit"]["name"] == study.name
        assert one["audit"]["claim"] == study.study.claim
        assert {key: one[key] for key in ("noise", "steps")}.items() <= study.mechanism.parameters.items()
        assert one["test"] == study.estimate.test >= 150
        assert one["audit"]["bounds"]["mu"]["all"] <= one["mu"]
    assert make.computed_block(found) in make.PAGE.read_text(encoding="utf-8")


def test_a_network_with_opacus(tmp_path: Path) -> None:
    pytest.importorskip("opacus", reason="this test trains with PyTorch and Opacus, the extra `torch`")
    import opacus_training

    parameters: dict[str, Any] = {"noise": 0.0, "steps": 1, "rate": 4.0}
    with_canary, without = (
        opacus_training.canary_score(training.with_canary()[:rows], np.random.default_rng(0), **parameters)
        for rows in (training.LOT + 1, training.LOT)
    )
    assert with_canary - without == pytest.approx(1.0, abs=1e-5)  # Opacus clips to C/(1 + 10⁻⁶/C), in 32 bits
    prv, _ = accountant.opacus_epsilons(5.0, 25, 1e-5)
    assert prv == pytest.approx(accountant.exact_epsilon(1.0, 1e-5), abs=0.02)  # its error is 0.01


# One model a draw, and slow draws.

ONE_A_DRAW = """
import os
import time

from hpcdp.keys import digest_array
from training import canary_score

LOG = os.path.join(os.path.dirname(os.path.abspath(__file__)), "calls.log")


def noisy(database, rng, pause=0.0):
    line = f"{digest_array(database)} 1 {rng.bit_generator.state['state']['state']:x}\\n"
    handle = os.open(LOG, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(handle, line.encode())
    os.close(handle)
    time.sleep(pause)
    return canary_score(database, 1, rng, noise=2.0, steps=1, rate=4.0)[0]


def few():
    from training import with_canary

    return with_canary()[-9:]
"""


def one_a_draw(folder: Path, pause: float, **sizes: int) -> Path:
    pairs = 'relative = { call = "own:few", rows = [8], relation = "remove" }'
    study = write_study(folder, ONE_A_DRAW, pairs=pairs, parameters={"pause": pause}, **sizes)
    (folder / "training.py").symlink_to(DIGITS / "training.py")
    return study


@pytest.mark.slow  # it starts processes
def test_an_interrupted_run_trains_no_model_of_a_committed_chunk_again(tmp_path: Path, scheduler: str) -> None:
    study, store = one_a_draw(tmp_path, 0.03, train=40, test=40, chunk=4), tmp_path / "s.zarr"
    with started("run", study, "--store", store, "--workers", 1, folder=tmp_path) as process:
        wait_until(lambda: len(records(store, "samples")) >= 5, "five chunks")
        assert process.poll() is None
        kill_group(process)
    before, drawn, done = contents(store), len(calls(tmp_path, store)), committed(store)
    assert 5 <= len(done) < 40
    assert len(records(store, "samples")) == len(done), "a chunk is committed when it is drawn"
    call("resume", store, "--cluster", scheduler)
    after = contents(store)
    assert {path: after[path] for path in before} == before
    again = calls(tmp_path, store)[drawn:]
    assert not done & set(again)
    assert set(Counter(again).values()) == {1}
    assert done | set(again) == committed(store)


def test_small_chunks_are_committed_one_by_one_and_many_small_ones_together() -> None:
    schema = Schema("float", None)
    for total in (1, 15, 150, 640, 641, 5000):
        stage = Stage.of("test", total, 10, schema)
        assert [c for block in range(stage.blocks) for c in stage.block_chunks(block)] == list(range(stage.chunks))
        assert all(chunk in stage.block_chunks(stage.block_of(chunk)) for chunk in range(stage.chunks))
        assert sum(stage.block_size(block) for block in range(stage.blocks)) == total
        assert stage.blocks <= 64 + stage.chunks / 16 + 1
        assert all(len(stage.block_chunks(block)) == 1 for block in range(min(64, stage.blocks)))
    assert Stage.of("test", 1600, 100, schema).blocks == 1


def test_a_slow_mechanism_is_tried_out_on_few_draws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second a draw, on a clock fifty times as fast."""
    study = one_a_draw(tmp_path, 0.02, train=200, test=150, chunk=10)
    monkeypatch.setattr(hpcdp.trial, "_SLOW_SECONDS", 0.001)
    monkeypatch.setattr(hpcdp.trial, "_TRIAL_SECONDS", 0.02)
    planned = plan(Study.from_toml(study), 2)
    assert len((tmp_path / "calls.log").read_text().splitlines()) < 16
    assert planned.tasks["sample"] > 8
    assert planned.drawing > 700 * 0.02 / 2
    assert " a draw (measured)" in str(planned)


# Scores of models that were trained elsewhere.

SCORE = "training:saved_score"
KEYS = {"rate": QUICK["rate"], "steps": QUICK["steps"]}


@pytest.fixture(scope="module", name="models")
def models_fixture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with 100 models of each database, a file each."""
    folder = tmp_path_factory.mktemp("models")
    (folder / "training.py").symlink_to(DIGITS / "training.py")
    for name, rows in (("with", training.LOT + 1), ("without", training.LOT)):
        (folder / name).mkdir()
        found = training.train(training.with_canary()[:rows], 100, np.random.default_rng(rows), **QUICK)
        for number in range(100):
            training.save(folder / name / f"{number}.npz", found[:, :, number])
    return folder


def scores_settings(**changes: Any) -> dict[str, Any]:
    parameters = {"files": ["with/*.npz", "without/*.npz"], "score": SCORE, "parameters": KEYS}
    parameters |= {key: changes.pop(key) for key in ("files", "file", "score", "parameters") if key in changes}
    pairs = "given = [{ d = [0], d_prime = [1] }]"
    sizes = {"train": 40, "test": 60, "chunk": 10, "epsilons": [0.0, 1.0], "etas": []}
    return {"call": "scores", "parameters": parameters, "pairs": pairs} | sizes | changes


def test_scores_of_saved_models(models: Path, tmp_path: Path, scheduler: str) -> None:
    study, store = write_study(models, name="scores.toml", **scores_settings()), tmp_path / "s.zarr"
    call("run", study, "--store", store, "--cluster", scheduler)
    problem = stored_problem(store)
    for number, name in enumerate(("with", "without")):
        law = problem.pair_laws[0][number]
        parts = {
            stage.name: [*read_blocks(Layout(store), stage, law, problem.schema, range(stage.chunks))]
            for stage in (problem.train, problem.test)
        }
        expected = [training.saved_score(path, **KEYS) for path in (models / name).glob("*.npz")]
        assert sorted(np.concatenate([*parts["train"], *parts["test"]])) == sorted(expected)
    shown = call("plan", study).stdout
    assert " a draw (measured)" in shown


def test_the_order_of_models_is_that_of_their_names(models: Path) -> None:
    by_glob = load_scores({"files": ["with/*.npz"], "score": SCORE, "parameters": KEYS}, models)
    names = [f"with/{number}.npz" for number in range(100)]
    by_list = load_scores({"files": [names[::-1]], "score": SCORE, "parameters": KEYS}, models)
    assert by_list.models == by_glob.models == (tuple(models / name for name in sorted(names)),)


def test_each_model_is_read_once_in_a_process(models: Path) -> None:
    read = []

    def score(path: Path) -> float:
        read.append(path.name)
        return float(path.stem)

    found = replace(load_scores({"files": ["with/*.npz"], "score": SCORE, "parameters": KEYS}, models), score=score)
    found.parameters = {}
    d, law = np.zeros(1), "0" * 32
    train, test = ([found.take(d, SEED, law, stage, start, 10) for start in (0, 10)] for stage in ("train", "test"))
    assert len(set(np.concatenate([*train, *test]))) == len(read) == 40
    np.testing.assert_array_equal(found.take(d, SEED, law, "train", 0, 20), np.concatenate(train))
    assert len(found.first(d, 16)) == 16
    assert len(found.outputs(d)) == 100
    assert len(read) == 101, "one is read twice on purpose"


def test_one_broken_model_is_named_and_costs_its_chunk(models: Path, tmp_path: Path, scheduler: str) -> None:
    (tmp_path / "without").symlink_to(models / "without")
    (tmp_path / "training.py").symlink_to(DIGITS / "training.py")
    (tmp_path / "with").mkdir()
    for file in (models / "with").iterdir():
        (tmp_path / "with" / file.name).write_bytes(file.read_bytes() if file.name != "77.npz" else b"no model")
    study, store = write_study(tmp_path, **scores_settings()), tmp_path / "s.zarr"
    done = call("run", study, "--store", store, "--cluster", scheduler, code=1)
    assert f"the score of {tmp_path}/with/77.npz raised" in done.stderr
    assert len(records(store, "samples")) == 2 * (4 + 6) - 1
    (tmp_path / "with" / "77.npz").write_bytes((models / "with" / "77.npz").read_bytes())
    message = one_message(call("resume", store, "--cluster", scheduler, code=2))
    assert "the models' files, or the source of their score, changed" in message
    call("resume", store, "--cluster", scheduler, "--allow-changed-code")


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no such file": ({"files": ["with/*.npz", "other/*.npz"]}, "files[1]: no file in {folder} matches 'other/*.npz'"),
    "missing": ({"files": [["with/1.npz", "with/x.npz"], "without/*"]}, "no file at {folder}/with/x.npz"),
    "twice": ({"files": ["with/*.npz", "with/1*.npz"]}, "'with/1.npz' and 'with/1.npz' are one file"),
    "no list": ({"files": "with/*.npz"}, "files: a list of one glob, or one list of files, per database"),
    "no score": ({"score": None}, 'score: "package.module:callable"; given: None'),
    "unknown key": (
        {"parameters": KEYS, "file": []},
        "file: unknown key; accepted by scores: files, score, parameters",
    ),
    "wrong arguments": ({"parameters": {"rate": 1.0}}, "missing a required argument: 'steps'"),
    "too few": ({"test": 61}, "with/*.npz holds 100 outputs; accepted: at least train + test = 101"),
    "no such database": ({"pairs": "given = [{ d = [0], d_prime = [2] }]"}, "a database is one number from 0 to 1"),
    "text": ({"score": "own:text", "parameters": {}}, "is 'with'; accepted: a finite number"),
    "nan": ({"score": "own:nan", "parameters": {}}, "0.npz is nan; accepted: a finite number"),
    "lengths": ({"score": "own:lengths", "parameters": {}}, "10.npz has length 2, that of {folder}/with/0.npz 1"),
    "chance": ({"score": "own:chance", "parameters": {}}, "0.npz has another score when it is scored again"),
}
OWN = """
import math
import random


def text(path):
    return path.parent.name


def nan(path):
    return math.nan


def lengths(path):
    return [float(len(path.name))] * (len(path.stem))


def chance(path):
    return random.random()
"""


@pytest.mark.parametrize("case", REFUSED)
def test_scores_that_are_refused(case: str, models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("with", "without", "training.py"):
        (tmp_path / name).symlink_to(models / name)
    changes, expected = REFUSED[case]
    settings = scores_settings(**changes)
    settings["parameters"] = {key: value for key, value in settings["parameters"].items() if value is not None}
    message = refusal(tmp_path, capsys, OWN, **settings)
    assert expected.format(folder=tmp_path) in message
