"""Mistakes in studies and claims that are easily made: each is one message that tells what was meant, or what is the matter."""

from __future__ import annotations

import itertools
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import SEED, call, write_study

import hpcdp
from hpcdp.driver.driver import store_problem
from hpcdp.errors import StudyError
from hpcdp.study.claims import parse_claim
from hpcdp.study.file import Study
from hpcdp.study.resolving import resolve

FAST = "def noisy(database, size, rng, scale=1.0):\n    return database.sum() + rng.laplace(scale=scale, size=size)\n"


def study_of(folder: Path, **sections: Any) -> Study:
    parts: dict[str, Any] = {
        "study": {"name": "s", "seed": SEED},
        "mechanism": {"call": "laplace", "parameters": {"epsilon": 1.0}},
        "pairs": {"given": [{"d": [0.0], "d_prime": [1.0]}]},
        "estimate": {"epsilons": [0.0, 1.0], "train": 100, "test": 100},
    }
    return Study.from_dict({**parts, **sections}, folder)


def refused(*arguments: object) -> str:
    """The one message with which a command refuses."""
    found = call(*arguments, code=2)
    assert found.stdout == ""
    (line,) = found.stderr.splitlines()
    return line


@pytest.mark.parametrize("given, accepted", [("1e4", 10_000), ("1_000.0", 1000)])
def test_integers_written_as_floats(tmp_path: Path, given: str, accepted: int) -> None:
    path = write_study(tmp_path, FAST, train=7, epsilons={"start": 0, "stop": 1, "count": 9})
    path.write_text(
        path.read_text().replace("train = 7\n", f"train = {given}\n").replace('"count" = 9', '"count" = 3e0')
    )
    study = Study.from_toml(path)
    assert study.to_dict()["estimate"]["train"] == accepted
    assert type(study.estimate.train) is int


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("test = 1e15", "estimate.test: at most 10000000000000; given: 1000000000000000"),
        ("refine = 1e40", "estimate.refine: at most 10000000000000"),
        ("test = 1e12\nchunk = 100", "estimate.chunk: at least 10,000 with test = 1,000,000,000,000; given: 100"),
        ("confidence = 1e-300", "estimate.confidence: at least 1e-09; given: 1e-300"),
        ("target = 5", "estimate.target: "),
        (f"epsilons = [1, 1{'0' * 400}]", "a list of finite numbers"),  # an integer that is no float
        (
            "epsilons = { start = 0.5, stop = 1.0, count = 1000000000 }",
            "epsilons: count is an integer from 1 to 100,000",
        ),
        (
            "etas = { start = 0.5, stop = 1.0, count = 1000000000 }",
            "etas: count is an integer from 1 to 100,000; given: 1",
        ),
        *((f"train = {text}", "estimate.train: ") for text in ("1.5", "inf", "nan", "true", '"1e4"')),
        ('[mechanism]\nisolated = "no"', "mechanism.isolated: true or false; given: 'no'"),
    ],
)
def test_values_that_no_run_could_have(tmp_path: Path, line: str, words: str) -> None:
    """They are refused before anything is planned, with the line of a key."""
    path = write_study(tmp_path, call="laplace", parameters={"epsilon": 1.0}, databases=[[0.0, 1.0]])
    head, _, own = line.rpartition("]\n")
    section, keys = f"{head or '[estimate'}]", own.splitlines()
    gone = tuple(f"{key} =" for key in ("chunk", "test", *(key.partition(" ")[0] for key in keys)))
    kept = [old for old in path.read_text().splitlines() if not old.startswith(gone)]
    place = kept.index(section) + 1
    path.write_text("\n".join([*kept[:place], *keys, *kept[place:]]) + "\n")
    message = refused("plan", path)
    assert words in message
    assert "instead of" not in message
    assert re.search(rf"\({re.escape(str(path))}, line \d+\)$", message)


@pytest.mark.parametrize(
    "old, new, meant",
    [
        ('"own:noisy"', '"laplce"', "did you mean laplace?"),
        ('"own:noisy"', '"own.py:noisy"', "did you mean own:noisy?"),
        ('"own:noisy"', '"./own.py:noisy"', "did you mean own:noisy?"),
        ('"own:noisy"', '"own:nosy"', "did you mean noisy?"),
        ('"own:noisy"', '"owm:noisy"', "did you mean own?"),
        ('"own:noisy"', '"parts.owm:noisy"', "did you mean parts.own?"),
        ("parameters = {  }", "parameters = { scael = 1.0 }", "did you mean scale?"),
        ('loss = "knn"', 'loss = "knm"', "did you mean knn?"),
        ("[estimate]", "[estimate]\nparameters = { metrik = 1 }", "did you mean metric?"),
        ('name = "s"', 'name = "s"\nclaim = "gausian(mu=1)"', "did you mean gaussian?"),
    ],
)
def test_what_was_meant(tmp_path: Path, old: str, new: str, meant: str) -> None:
    path = write_study(tmp_path, FAST)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "own.py").write_text(FAST)
    assert meant in refused("plan", path)


def test_numbers_that_are_given_as_text(tmp_path: Path) -> None:
    own = "def noisy(database, size, rng, scale, unit='m', more=None):\n    return rng.laplace(size=size) * (scale / 2.0)\n"
    path = write_study(tmp_path, own)
    text = path.read_text()
    given = 'parameters = { scale = "1.0", unit = "km", more = { at = "2e3", on = 1 } }'
    path.write_text(text.replace("parameters = {  }", given))
    said = refused("plan", path)
    assert "raised TypeError: unsupported operand" in said
    assert 'mechanism.parameters.scale is text: "1.0"; mechanism.parameters.more.at is text: "2e3"' in said
    assert "unit" not in said
    path.write_text(text.replace("parameters = {  }", 'parameters = { scale = 1.0, unit = "1.0" }'))
    assert "mechanism.parameters" not in call("plan", path).stderr  # what raises nothing may be text


@pytest.mark.slow
def test_a_store_that_a_name_or_a_study_means(tmp_path: Path) -> None:
    path = write_study(tmp_path, FAST)
    store = tmp_path / "runs" / "s.zarr"
    call("run", path, "--store", store, "--workers", "0", "--no-plot")
    near = tmp_path / "runs" / "s"
    for given in (tmp_path / "s", tmp_path / "s.toml", tmp_path / "s.zarr", near):
        for command in ("show", "status", "verify"):
            assert refused(command, given) == f"hpcdp: no hpcdp store at {given}; did you mean {store}?"
    (tmp_path / "runs" / "other.zarr").mkdir()  # which is none
    assert refused("show", tmp_path / "other") == f"hpcdp: no hpcdp store at {tmp_path / 'other'}"
    alone = path.rename(tmp_path / "alone.toml")
    assert refused("resume", alone).endswith(f"no hpcdp store at {alone}; it is a study file: hpcdp run {alone}")


def test_a_study_that_is_nested_deeply(tmp_path: Path) -> None:
    path = tmp_path / "deep.toml"
    path.write_text("a = " + "[" * 100_000 + "]" * 100_000)
    assert refused("plan", path) == f"hpcdp: {path} is not TOML: it is nested too deeply"
    parts = 4_000  # tomllib reads them, in memory that grows as the square
    for text in ("a." * parts + "a = 1", "[" + "a ." * parts + "a]", "a = { " + '"a".' * parts + "a = 1 }"):
        path.write_text(text)
        assert "a key of 100 parts or more" in refused("plan", path)
    path.write_text(f"a = '{'b.' * 98}'\n" + "a." * 98 + "a = 1")
    assert "of 100 parts" not in refused("plan", path)


def test_a_claim_on_what_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "large.csv").write_bytes(b"")
    os.truncate(tmp_path / "large.csv", 1 << 40)
    for path, words in [
        ("/dev/zero", "it is a device, a pipe or a socket; accepted: a regular file"),
        (str(tmp_path / "pipe"), "it is a device, a pipe or a socket; accepted: a regular file"),
        (str(tmp_path), "it is a folder; accepted: a regular file"),
        (str(tmp_path / "large.csv"), "it holds 1,099,511,627,776 bytes; accepted: at most 16,777,216"),
    ]:
        with pytest.raises(StudyError) as caught:
            parse_claim(f"file({path})", tmp_path)
        assert str(caught.value) == f"claim 'file({path})': {path}: {words}"
    with pytest.raises(StudyError, match="no hpcdp store at /dev/zero"):
        parse_claim("store(/dev/zero)", tmp_path)


def test_stored_samples_without_sizes_are_halved(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(501.0))
    np.save(tmp_path / "b.npy", np.arange(700.0))
    stored = {"call": "stored", "parameters": {"files": ["a.npy", "b.npy"]}}
    pairs = {"given": [{"d": [0], "d_prime": [1]}]}
    for given, sizes in [({}, (250, 250)), ({"train": 100}, (100, 401)), ({"test": 1}, (500, 1))]:
        study = study_of(tmp_path, mechanism=stored, pairs=pairs, estimate={"epsilons": [0.0], **given})
        problem, _ = resolve(study)
        assert (problem.study.estimate.train, problem.study.estimate.test) == sizes
        assert problem.test.total == sizes[1]
        assert problem.sampler.chunk == max(sizes)
    both = study_of(tmp_path, mechanism=stored, pairs=pairs, estimate={"epsilons": [0.0], "train": 400, "test": 400})
    with pytest.raises(StudyError, match="holds 501 outputs; accepted: at least train"):
        resolve(both)


@pytest.fixture(name="store")
def store_fixture(tmp_path: Path) -> Path:
    """A store of own:noisy, which nothing was drawn for yet."""
    problem, _ = resolve(Study.from_toml(write_study(tmp_path, FAST, "first.toml", parameters={"scale": 1.0})))
    store_problem(problem, tmp_path / "s.zarr")
    return tmp_path / "s.zarr"


def again(store: Path, module: str = FAST, **changes: Any) -> str:
    """The message about another study for a store."""
    settings: dict[str, Any] = {"parameters": {"scale": 1.0}, **changes}
    problem, _ = resolve(Study.from_toml(write_study(store.parent, module, "second.toml", **settings)))
    with pytest.raises(StudyError) as caught:
        store_problem(problem, store)
    return str(caught.value)


def test_changed_keys_are_named_with_both_values(store: Path) -> None:
    found = again(store, seed=SEED + 1, parameters={"scale": 2.0}, train=1000, epsilons=[0.0, 1.0])
    for words in (
        f"study.seed ({SEED} in the store, {SEED + 1} given)",
        "mechanism.parameters.scale (1.0 in the store, 2.0 given)",
        "estimate.train (2000 in the store, 1000 given) (may only grow)",
        "estimate.epsilons without [0.5] (points may only be added)",
    ):
        assert words in found
    assert found.startswith(
        f"{store} holds another study, that of {store.parent / 'first.toml'}, which has the same name;"
    )


def test_a_changed_source_is_one(store: Path) -> None:
    found = again(store, FAST + "# changed\n")
    assert found == (
        "mechanism.call: the source of own:noisy changed since the store was made, "
        "so the store's numbers describe the earlier version; "
        "accepted: another store= or study.name, which measures it anew. If the distribution of outputs is unchanged, "
        "allow_changed_code=True goes on all the same, with a warning"
    )
    found = again(store, FAST + "\nother = noisy\n", call="own:other")
    assert 'mechanism.call ("own:noisy" in the store, "own:other" given)' in found
    assert "the source of" not in found
    elsewhere = store.parent / "elsewhere"
    elsewhere.mkdir()
    moved = Path(shutil.move(store, elsewhere / "s.zarr"))
    assert f"the source of own:noisy changed from that in {store.parent} since" in again(moved, FAST + "#\n")


def test_messages_name_what_a_command_and_what_python_takes(store: Path) -> None:
    """Both are told the same otherwise."""
    changed = write_study(store.parent, FAST + "# changed\n", "changed.toml", parameters={"scale": 1.0})
    other = write_study(store.parent, FAST, "other.toml", parameters={"scale": 2.0})
    full = store.parent / "full"
    full.mkdir()
    (full / "own.txt").write_text("mine")
    cases: list[tuple[list[Any], Callable[[], Any], dict[str, str]]] = [
        (
            ["run", changed, "--store", store],
            lambda: hpcdp.run(changed, store),
            {"--store": "store=", "--allow-changed-code": "allow_changed_code=True"},
        ),
        (["run", other, "--store", store], lambda: hpcdp.run(other, store), {"--store": "store="}),
        (["run", other, "--store", full], lambda: hpcdp.run(other, full), {"--store": "store="}),
        (
            ["resume", store, "--cluster", "no.json"],
            lambda: hpcdp.resume(store, cluster="no.json"),
            {"--cluster no.json": "cluster=no.json"},
        ),
        (["plot", store, "-o", "p.pdf"], lambda: hpcdp.load_result(store).plot("p.pdf"), {"-o p.pdf": "path=p.pdf"}),
        (["report", store, "-o", "p"], lambda: hpcdp.load_result(store).report("p"), {"-o p": "path=p"}),
    ]
    for words, function, options in cases:
        (store.parent / "own.py").write_text(FAST + ("# changed\n" if words[1] == changed else ""))
        said = call(*words, code=2).stderr.splitlines()[-1].removeprefix("hpcdp: ")
        for option in options:
            assert option in said
        with pytest.raises(StudyError) as caught:
            function()
        for option, argument in options.items():
            said = said.replace(option, argument)
        assert re.sub(r" \([^ ]+\.toml, line \d+\)$", "", said) == str(caught.value)
        assert not re.search("(^| )--?[a-z]", str(caught.value))


@pytest.mark.parametrize("given", [{"study": {"name": "x"}}, 3, None])
def test_what_is_no_study(given: Any) -> None:
    with pytest.raises(
        StudyError, match=rf"^study: a {type(given).__name__} was given; accepted: a Study or the path of its file"
    ) as caught:
        hpcdp.run(given)
    assert ("Study.from_dict" in str(caught.value)) == isinstance(given, dict)


def test_outputs_of_another_kind(store: Path) -> None:
    module = "def noisy(database, size, rng, scale=1.0):\n    return rng.laplace(scale=scale, size=(size, 2))\n"
    write_study(store.parent, module)
    problem, _ = resolve(Study.from_toml(write_study(store.parent, module, "second.toml", parameters={"scale": 1.0})))
    with pytest.raises(
        StudyError, match=r"holds another study; changed: the outputs of mechanism\.call \(.*null.* in the store, .*2"
    ):
        store_problem(problem, store, allow_changed_code=True)


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> hpcdp.Result:
    folder = tmp_path_factory.mktemp("result")
    estimate = {"epsilons": [0.0, 1.0], "etas": [0.5, 1.0], "train": 100, "test": 100, "loss": "knn"}
    return hpcdp.run(study_of(folder, estimate=estimate), folder / "s.zarr", workers=0)


def spectrum(**given: Any) -> hpcdp.Result:
    return hpcdp.spectrum(
        "laplace", [0.0], [1.0], **{"parameters": {"epsilon": 1.0}, "train": 100, "test": 100, **given}
    )


Called = Callable[[hpcdp.Result, Any], Any]
MU = "gaussian(mu=1)"
RUNS: list[Called] = [
    lambda r, v: hpcdp.run(r.study, r.store, workers=v),
    lambda r, v: hpcdp.resume(r.store, workers=v),
    lambda _, v: spectrum(workers=v),
    lambda r, v: hpcdp.audit(r.study, MU, store=r.store, workers=v),
]
STORES: list[Called] = [
    lambda r, v: hpcdp.run(r.study, v),
    lambda _, v: hpcdp.resume(v),
    lambda _, v: spectrum(store=v),
]
JUDGES: list[Called] = [lambda r, v: hpcdp.audit(r, v), lambda r, v: hpcdp.verify(r, v)]
PICTURES: list[Called] = [lambda r, v: r.report(v), lambda r, v: r.plot(v)]
A_PATH = "VALUE was given; accepted: a path"
ARGUMENTS: dict[str, tuple[list[Called], list[Any], str]] = {
    "workers": (RUNS, ["x", True, 1.5, -1, float("nan")], "accepted: 0 (none, in one process) or a positive integer"),
    "store": (STORES, [5, 1.5, b"x", "a\0b", ["a"], True], f"store: {A_PATH}"),
    "place": ([lambda _, v: hpcdp.load_result(v)], [5], f"place: {A_PATH}"),
    "path": (PICTURES, [5, b"x.png"], f"path: {A_PATH}"),
    "cluster": ([lambda r, v: hpcdp.run(r.study, r.store, cluster=v)], [5, None], "VALUE was given; accepted: local"),
    "epsilons": (
        [lambda _, v: spectrum(epsilons=v)],
        [0.5, np.array(0.5)],
        "VALUE was given; accepted: several numbers",
    ),
    "parameters": ([lambda _, v: spectrum(parameters=v)], [5, "x"], "a table; given: VALUE"),
    "claim": (JUDGES, [5, None, b"x", 1.0], "claim: VALUE was given; accepted: a text such as"),
    "result": ([lambda _, v: hpcdp.verify(v, MU)], ["s.zarr"], "result: VALUE was given; accepted: a Result"),
    "orientation": (
        [lambda r, v: hpcdp.audit(r.study, MU, v, store=r.store)],
        ["back", None],
        "orientation: VALUE was given; accepted: both, forward, reverse",
    ),
    "limits": (
        [lambda r, v: hpcdp.audit(r, MU, limits=v)],
        ["Exact", 5],
        "VALUE was given; accepted: exact, hoeffding",
    ),
    "orders": (
        [lambda r, v: r.renyi([v])],
        ["x", True, None],
        "orders: VALUE was given; accepted: orders of at least 1",
    ),
    "orders alone": ([lambda r, v: r.renyi(v)], [2.0, "2"], "orders: VALUE was given; accepted: a list of numbers"),
    "delta": ([lambda r, v: r.epsilon_at(v)], ["x", None, True, 1.0], "VALUE was given; accepted: a number from 0 to"),
}


@pytest.mark.parametrize("argument", ARGUMENTS)
def test_arguments_of_functions_are_refused_in_one_message(
    result: hpcdp.Result, argument: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is drawn."""
    functions, values, words = ARGUMENTS[argument]
    monkeypatch.setattr("hpcdp.study.resolving.try_out", None)
    for function, value in itertools.product(functions, values):
        with pytest.raises(StudyError) as refusal:
            function(result, value)
        assert words.replace("VALUE", repr(value)) in str(refusal.value)
        assert argument.split()[0] in str(refusal.value)


def test_a_plan_that_does_not_fit_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More memory than the machine has, whatever it has; more disk than is free where the store is to be."""
    large = study_of(tmp_path, estimate={"train": 3 * 10**12, "test": 1000, "chunk": 1 << 20, "epsilons": [1.0]})
    with pytest.raises(
        StudyError, match=r"estimate\.train: a process would need about .* TB of memory, and this machine has"
    ):
        hpcdp.run(large, tmp_path / "large.zarr")
    kept = study_of(tmp_path, estimate={"train": 1000, "test": 10**13, "chunk": 1 << 20, "epsilons": [1.0]})
    with pytest.raises(StudyError, match=r"estimate\.keep: the samples would take .* TB, and .* has .* free"):
        hpcdp.run(kept, tmp_path / "kept.zarr")
    assert not [*tmp_path.glob("*.zarr")]
