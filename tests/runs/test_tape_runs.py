"""Runs of random tapes: equal bytes however they are cut, killed, resumed or damaged; races, failures, and declarations."""

from __future__ import annotations

import math
import re
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import call, one_message, show, stored_problem, write_study
from journals import records
from studies import TAPED

from hpcdp import load_result
from hpcdp.analytic import GaussianShift
from hpcdp.driver.driver import resume, run_problem
from hpcdp.engine.executors import Options
from hpcdp.engine.index import first_of
from hpcdp.engine.outcomes import StudyRefuted
from hpcdp.engine.progress import Silent
from hpcdp.importance.plan import tape_keys
from hpcdp.importance.training import KEPT_BACK
from hpcdp.study.file import Study
from hpcdp.study.resolving import resolve

# A normal distribution whose mean the database moves by 1/4 a row.
NORMAL = """
def shifted(database, size, rng):
    return 0.25 * database.sum() + rng.normal(size=size)
"""
SMALL: dict[str, Any] = {
    **TAPED,
    "mechanism": NORMAL,
    "train": 1 << 13,
    "test": 1 << 19,
    "epsilons": [0.0, 0.5, 0.7],
    "certify": [0.7],
}


def taped(folder: Path, **changes: Any) -> Path:
    return write_study(folder, **{**SMALL, **changes})


def choices(store: Path) -> list[dict[str, Any]]:
    """What was chosen of each pair."""
    return [entry["choice"] for record in records(store, "fits") for entry in record.body["entries"]]


def spans(store: Path) -> list[tuple[str, int, int, int]]:
    """(part, side, first chunk, end) of each record of draws."""
    laws = stored_problem(store).pair_laws[0]
    bodies = [record.body for record in records(store, "counts")]
    return sorted(
        (body["stage"], laws.index(law), body["start"], body["stop"]) for body in bodies for law in body["laws"]
    )


def chunks(store: Path) -> list[int]:
    """Chunks of both laws: from proposals, and plain ones."""
    (choice,) = choices(store)
    return [2 * choice["draws"] >> 16, sum(choice["leftover"]) >> 16]


@pytest.fixture(scope="module", name="whole")
def whole_fixture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an undisturbed run in one process."""
    folder = tmp_path_factory.mktemp("tape")
    call("run", taped(folder), "--store", folder / "s.zarr", "--workers", 0)
    return folder


@pytest.fixture(name="copy")
def copy_fixture(whole: Path, tmp_path: Path) -> Path:
    """A store that a test may damage."""
    return Path(shutil.copytree(whole / "s.zarr", tmp_path / "s.zarr"))


@pytest.mark.slow
def test_what_a_run_tells(whole: Path) -> None:
    """All chunks that were chosen were drawn, and what is certified is below the truth, which is near δ̂."""
    result = load_result(whole / "s.zarr")
    drawn = [
        sum(stop - start for p, _, start, stop in spans(whole / "s.zarr") if p == part) for part in ("tape", "leftover")
    ]
    assert drawn == chunks(whole / "s.zarr")
    assert min(drawn) >= 4
    truth = GaussianShift(0.25).delta(np.array(SMALL["epsilons"]), "forward")
    assert (result["lower"] <= truth).all()
    assert result["lower"][0, :, 2].max() > 0.1 * truth[2]
    assert (np.abs(result["delta"][0] - truth) <= 4.5 * result["standard_error"][0]).all()
    assert (result["standard_error"][0, :, 2] < 0.15 * truth[2]).all()


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "certify"), [(1.34, None), (0.7, [0.7])])
def test_plain_draws_for_a_certificate_are_made_where_one_is_asked_for(epsilon, certify, tmp_path):
    """δ is 10⁻⁹ and 4·10⁻⁴. Else they take as long again as draws from proposals, by planned costs, and at least a million."""
    target = {"epsilon": epsilon, "relative_error": 0.1}
    study = _asking(tmp_path, epsilons=[0.0, epsilon], target=target, certify=certify)
    done = call("run", study, "--store", tmp_path / "s.zarr", "--workers", 0, "--no-plot")
    (choice,) = choices(tmp_path / "s.zarr")
    most = max(1 << 20, math.ceil(choice["draws"] * 3.0 / 1.3))
    needed = max(choice["needed"])
    planned, said = " ".join(done.stderr.split()), " ".join(done.stdout.split())
    assert re.search(r"time about \d+ s for the levels", planned)
    limit = r"with all that target\.most allows, the draws after the levels would take [\d.]+ (s|min|h) in one process"
    assert re.search(limit, planned)
    assert f"levels learned of 1 pair; 1 pair tested proposals pair 0: {choice['draws']:,} draws" in planned
    if certify:
        assert max(choice["leftover"]) >= needed
        assert "a study asks for it" not in planned + said
        return
    assert max(choice["leftover"]) <= most + (1 << 16)
    assert "at least 1,048,576 plain draws of each distribution, which take as long as the others" in planned
    assert needed > most
    how = f"a study asks for it by estimate.certify = [{epsilon}]"
    assert re.search(rf"takes about \S+, [\d.]+ (s|min|h) (in one process|on \d+ workers); {re.escape(how)}", planned)
    assert how in said


@pytest.mark.promise
@pytest.mark.slow
def test_equal_bytes_with_other_workers_and_spans(whole: Path, client, tmp_path: Path, monkeypatch) -> None:
    printed, all_chunks = show(whole / "s.zarr"), sum(chunks(whole / "s.zarr"))
    monkeypatch.setattr("hpcdp.engine.sampling.task_seconds", lambda *_: 0.0)
    study = taped(tmp_path)
    for name, options in (("here", Options(workers=0)), ("there", Options(client=client()))):
        run_problem(*resolve(Study.from_toml(study)), tmp_path / name, options, Silent())
        assert show(tmp_path / name) == printed
        assert len(spans(tmp_path / name)) == all_chunks
    assert len(spans(whole / "s.zarr")) < all_chunks


@pytest.mark.slow
def test_draws_of_another_choice_are_not_used(copy: Path, whole: Path) -> None:
    """As where another machine learned otherwise: what tests one set says nothing of another."""
    (record,) = records(copy, "fits")
    body = record.body
    body["entries"][0]["choice"]["state"] = "0" * 32
    record.rewrite(body)
    before = len(spans(copy))
    call("resume", copy, "--workers", 0, code=1)  # the arrays are not those that the record names
    call("resume", copy, "--workers", 0)
    assert show(copy) == show(whole / "s.zarr")
    assert len(spans(copy)) == before, "its own draws were there"


def _asking(folder: Path, **changes: Any) -> Path:
    target = {"epsilon": 0.7, "direction": "forward", "relative_error": 0.05, "most": 1_000_000}
    keys = {**SMALL, "test": TAPED["test"], "target": target, **changes}
    return write_study(folder, **{key: value for key, value in keys.items() if value is not None})


@pytest.mark.slow
def test_plain_draws_are_of_the_direction_that_is_asked_for(tmp_path: Path) -> None:
    """All of the level and all plain draws are its, as many as the formula tells of it; the other one has its estimate."""
    store = tmp_path / "s.zarr"
    call("run", _asking(tmp_path), "--store", store, "--workers", 0)
    (choice,) = choices(store)
    assert choice["levels"] == [[0.0, 0.0, pytest.approx(0.05)], [0.0, 0.0, 0.0]]
    wanted = -math.log(0.9 * 0.05) * math.exp(0.7) / (KEPT_BACK * choice["delta"][0][2])
    assert wanted <= choice["leftover"][0] <= wanted * 1.001 + (1 << 16)
    assert choice["leftover"][1] == 0
    assert {side for part, side, *_ in spans(store) if part == "leftover"} == {1}  # of D′
    result = load_result(store)
    truth = GaussianShift(0.25).delta(np.array(SMALL["epsilons"]), "forward")
    assert (result["lower"][0, 1] == 0.0).all()
    assert 0.4 * truth[2] < result["lower"][0, 0, 2] <= truth[2]
    assert (np.abs(result["delta"][0] - truth) <= 4.5 * result["standard_error"][0]).all()
    # without certify all cells have bounds
    call("run", _asking(tmp_path / "all", certify=None), "--store", tmp_path / "a.zarr", "--workers", 0)
    assert min(min(row) for row in choices(tmp_path / "a.zarr")[0]["levels"]) > 0.0


MOVES = [0.2, 1.0, 0.5, 1.0, 0.3]
GIVEN = "given = [ " + ", ".join(f"{{ d = [0.0], d_prime = [{move}] }}" for move in MOVES) + " ]"


@pytest.mark.slow
def test_pairs_race_and_equal_ones_are_one(tmp_path: Path) -> None:
    """All are learned, few are tested, and the pair that moves most has the largest δ̂."""
    sizes = {"epsilons": [0.0, 0.1, 0.3], "certify": [0.3], "test": 1 << 18}
    problem, trial = resolve(Study.from_toml(taped(tmp_path, pairs=GIVEN, **sizes)))
    result = run_problem(problem, trial, tmp_path / "s.zarr", Options(workers=0), Silent())
    keys = first_of(problem.once(tape_keys))
    assert len(choices(tmp_path / "s.zarr")) == len(keys)
    assert len(keys) == len(problem.pairs) - 1
    tested = [number for number in range(len(problem.pairs)) if result["draws"][number].any()]
    assert 0 < len({problem.once(tape_keys)[number] for number in tested}) < 0.5 * len(keys)
    assert (result["delta"][1] == result["delta"][3]).all()
    truth = GaussianShift(0.25).delta(np.array(sizes["epsilons"]), "forward")
    assert (result["spectrum_lower"] <= truth).all()
    first = result["standard_error"][tested[0]].max(axis=0)
    assert (np.abs(result["spectrum_delta"] - truth) <= 5.0 * first).all()
    assert math.fsum({problem.once(tape_keys)[n]: result["level"][n].sum() for n in tested}.values()) <= 0.05 + 1e-12


FAILING = """
import numpy as np


def beyond(database, size, rng):
    noise = rng.normal(size=size)
    if noise.max() > 7.0:
        raise ValueError("noise beyond 7")
    return 0.25 * database.sum() + noise


def infinite(database, size, rng):
    noise = rng.normal(size=size)
    return 0.25 * database.sum() + np.where(noise > 7.0, np.nan, noise)
"""


@pytest.mark.parametrize("function, words", [("beyond", "ValueError: noise beyond 7"), ("infinite", "nan|finite")])
def test_a_mechanism_that_fails_at_tilted_noise_is_named(function: str, words: str, tmp_path: Path) -> None:
    """Plain draws never come there, proposals for tiny δ do: the run ends, and names the stage and the chunk."""
    study = taped(tmp_path, mechanism=FAILING, call=f"own:{function}", epsilons=[0.5, 1.8], certify=[1.8])
    done = call("run", study, "--store", tmp_path / "s.zarr", "--workers", 0, code=1)
    assert re.search(rf"(level|tape|leftover) chunk \d+ of (database|d|d_prime).*({words})", done.stderr), done.stderr
    assert "has to return an output at all noise, however far out" in done.stderr
    assert not load_result(tmp_path / "s.zarr").complete


OTHERWISE = """
def shifted(database, size, rng):
    noise = rng.normal(size=size)
    if size == 1 << 13:
        noise = noise + 0.0 * rng.exponential(size=size)
    return 0.25 * database.sum() + noise
"""


@pytest.mark.slow
def test_a_call_that_draws_otherwise_than_trial_draws_is_refused(tmp_path: Path) -> None:
    """Of a size that was not looked at, in levels."""
    study = taped(tmp_path, mechanism=OTHERWISE, train=1 << 14)
    done = call("run", study, "--store", tmp_path / "s.zarr", "--workers", 0, code=1)
    words = "the mechanism drew 1 normal, 1 exponential for each output, and in trial draws 1 normal"
    assert re.search(
        rf"level chunk 0 of database \w+ .*{words}|level chunk 0 of d(_prime)? of pair 0: {words}", done.stderr
    )


RELEASE = """
import numpy as np


def released(database, size, rng, threshold=7.405):
    noisy = database[0] + rng.normal(size=size)
    there = (database[0] > 0.0) & (noisy > threshold)
    return np.where(there, noisy, 0.0)


def leaky(database, size, rng, threshold=7.405):
    noisy = database[0] + rng.normal(size=size)
    return np.where(noisy > threshold, noisy, 0.0)


def large(outputs):
    return outputs > 5.0


def large_one(output):
    return bool(output > 5.0)


def all_of_them(outputs):
    return outputs > -1.0


def unsure(outputs):
    return 0.5


def fails(outputs):
    raise KeyError("no")
"""
RELEASED: dict[str, Any] = {
    "mechanism": RELEASE,
    "call": "own:released",
    "pairs": "given = [ { d = [1.0], d_prime = [0.0] } ]",
    "epsilons": [0.5, 1.0],
    "certify": [1.0],
    "train": 1 << 14,
    "test": 1 << 17,
}
TINY = 0.5 * math.erfc(6.405 / math.sqrt(2.0))  # P(N(0, 1) > 6.405), what a threshold of 7.405 lets through


def declaring(folder: Path, impossible: str | None, **changes: Any) -> Path:
    study = taped(folder, **{**RELEASED, **changes})
    if impossible is not None:
        study.write_text(study.read_text().replace("[mechanism]\n", f'[mechanism]\nimpossible = "{impossible}"\n'))
    return study


@pytest.mark.slow
def test_a_declared_set_certifies_a_release(tmp_path: Path) -> None:
    """.9 of 7.5·10⁻¹¹, with a few draws; without the declaration nothing, and with one for each output the same bytes."""
    study = declaring(tmp_path, "own:large")
    begin = time.process_time()
    call("run", study, "--store", tmp_path / "s.zarr", "--workers", 0)
    print(f"{time.process_time() - begin:.1f} processor seconds")
    result = load_result(tmp_path / "s.zarr")
    lower = result["lower"][0, 0]
    assert (lower >= 0.9 * TINY).all()
    assert (lower <= TINY).all()
    assert (result["leftover_draws"][0, 0] == 0).all()
    assert result.study.mechanism.impossible == "own:large"
    # without it the leftover of so few draws is far above δ
    call("run", declaring(tmp_path / "other", None), "--store", tmp_path / "o.zarr", "--workers", 0)
    assert (load_result(tmp_path / "o.zarr")["lower"][0, 0] == 0.0).all()
    call("run", declaring(tmp_path / "one", "own:large_one"), "--store", tmp_path / "one.zarr", "--workers", 0)
    for name in ("weights", "squares", "logs"):
        assert (load_result(tmp_path / "one.zarr")[name] == result[name]).all()


@pytest.mark.slow
def test_what_is_outside_the_declared_set_is_not_counted(tmp_path: Path) -> None:
    """A predicate of half of S certifies that half alone."""
    mechanism = RELEASE.replace("outputs > 5.0", "outputs > 7.6")
    study = declaring(tmp_path, "own:large", mechanism=mechanism)
    call("run", study, "--store", tmp_path / "s.zarr", "--workers", 0)
    result = load_result(tmp_path / "s.zarr")
    half = 0.5 * math.erfc(6.6 / math.sqrt(2.0))
    assert 0.85 * half <= result["lower"][0, 0, 1] <= half < 0.3 * TINY
    assert abs(result["delta"][0, 0, 1] - TINY) < 4.0 * result["standard_error"][0, 0, 1]


@pytest.mark.slow
def test_an_output_of_d_prime_in_the_declared_set_refutes_it(tmp_path: Path) -> None:
    study = declaring(tmp_path, "own:large", call="own:leaky")
    done = call("run", study, "--store", tmp_path / "s.zarr", "--workers", 0, code=2)
    assert "mechanism.impossible: says that no output of D′ satisfies own:large, which" in done.stderr
    assert "level chunk" in done.stderr
    with pytest.raises(StudyRefuted, match=r"^mechanism\.impossible"):
        resume(tmp_path / "s.zarr", workers=0)
    trial = declaring(tmp_path / "trial", "own:all_of_them", call="own:leaky")
    message = one_message(call("run", trial, "--store", tmp_path / "t.zarr", code=2))
    assert "16 of 16 of them did, in 16 trial draws of d_prime of pair 0" in message
    assert not (tmp_path / "t.zarr").exists()


@pytest.mark.parametrize(
    "predicate, words",
    [
        ("own:unsure", "mechanism.impossible: own:unsure returned float for one output"),
        ("own:fails", "mechanism.impossible: own:fails raised KeyError"),
        ("own:missing", "mechanism.impossible: module 'own' has no 'missing'"),
        ("no_such_module:large", "mechanism.impossible: cannot import module 'no_such_module'"),
    ],
)
def test_a_predicate_that_says_nothing_is_refused(predicate: str, words: str, tmp_path: Path) -> None:
    message = one_message(call("run", declaring(tmp_path, predicate), "--store", tmp_path / "s.zarr", code=2))
    assert words in message
    assert not (tmp_path / "s.zarr").exists()


@pytest.mark.slow
def test_a_declaration_is_code_and_part_of_the_study(tmp_path: Path) -> None:
    study, store = declaring(tmp_path, "own:large"), tmp_path / "s.zarr"
    call("run", study, "--store", store, "--workers", 0)
    drawn = len(spans(store))
    # another set is another test: all is learned and drawn for it
    declaring(tmp_path, "own:large_one")
    call("run", study, "--store", store, "--workers", 0)
    assert len(spans(store)) > drawn
    # another text of the same name is refused
    (tmp_path / "own.py").write_text(RELEASE.replace("outputs > 5.0", "outputs > 4.0"))
    message = one_message(call("resume", store, code=2))
    assert "changed since the store was made, so the store's numbers describe the earlier version" in message


@pytest.mark.slow
def test_equal_pairs_that_become_unequal_do_not_share_more_than_the_level(tmp_path: Path) -> None:
    """Levels of a pair are learned once, by how many unequal ones there are then; T may change."""
    study = {**SMALL, "rows": [1], "epsilons": [0.0, 0.2], "certify": [0.0], "test": 1 << 16}
    study.pop("pairs")
    for second in (1.0, 0.98, 0.5):  # equal; both tested; the second one left out by training
        study["databases"] = [[0.0, 1.0], [0.0, second]]
        call("run", write_study(tmp_path, **study), "--store", tmp_path / "s.zarr", "--workers", 0)
        result = load_result(tmp_path / "s.zarr")
        numbers = [0] if second == 1.0 else [0, 1]
        assert result["level"][numbers].sum() == pytest.approx(0.05, rel=1e-9)
