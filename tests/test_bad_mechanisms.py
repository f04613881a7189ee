"""Mechanisms of all kinds. Those that do wrong are refused before anything runs, or set aside by the chunk when they show
it later; whatever returns numbers, strings or vectors, or left them in files, runs from end to end.
"""

from __future__ import annotations

import json
import math
from contextlib import ExitStack
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import pytest
import zarr
from commands import (
    MECHANISM,
    SEED,
    call,
    contents,
    hpcdp,
    one_message,
    show,
    started,
    stored_problem,
    write_study,
)
from numpy.typing import NDArray

from hpcdp.cli import main
from hpcdp.keys import digest_array, law_key, stream
from hpcdp.mechanisms.stored import StoredSamples, load_stored, read_outputs

HEAD = "import sys\nimport numpy as np\n"


def refusal(folder: Path, capsys: pytest.CaptureFixture[str], module: str, **settings: Any) -> str:
    """The message with which `run` refuses a study, after checks that nothing else happened."""
    study = write_study(folder, HEAD + dedent(module), **settings)
    assert main(["run", str(study), "--store", str(folder / "s.zarr"), "--workers", "1"]) == 2
    assert not (folder / "s.zarr").exists()
    out, error = capsys.readouterr()
    assert out == ""
    assert error.startswith("hpcdp: ")
    assert error.count("\n") == 1
    return error


BODIES = {
    "raise ValueError('no luck')": "ValueError: no luck",
    "sys.exit('enough')": "SystemExit: enough",
    "return np.where(rng.random(size) < 0.9, np.nan, 1.0)": "nan",
    "return np.full(size, np.inf)": "inf",
    "return np.full(size, -np.inf)": "-inf",
    "return rng.random(size + 1)": "shape (17,)",
    "return rng.random((2, size))": "shape (2, 16)",
    "return rng.random((size, 2, 2))": "shape (16, 2, 2)",
    "return rng.random((size, 0))": "shape (16, 0)",
    "return rng.random()": "shape ()",
    "return None": "shape ()",
    "return {'outputs': rng.random(size)}": "shape ()",
    "return np.array([rng] * size)": "object array",
    "return [[1.0], [1.0, 2.0]] * (size // 2)": "ignores its rng",
    "return rng.random(size) + 1j": "complex128",
    "return rng.random(size).astype(np.longdouble)": "longdouble",
    "return np.full(size, 2**64 - 1, np.uint64)": "2**63 - 1",
    "return np.full(size, '2020-01-01', 'M8[D]')": "datetime64",
    "return ['\\ud800'] * size": "Unicode",
    "return np.random.laplace(size=size)": "it could not be repeated or resumed",
    "return np.random.default_rng(0).laplace(size=size)": "ignores its rng",
    "return np.random.default_rng(0).integers(0, 2, size)": "ignores its rng",
    "return np.random.default_rng(0).choice(['a', 'b'], size)": "ignores its rng",
    "return np.arange(size) + database.sum()": "ignores its rng",
}


@pytest.mark.parametrize("body", BODIES)
def test_outputs_that_cannot_be_used(body: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    message = refusal(tmp_path, capsys, f"def noisy(database, size, rng):\n    {body}\n")
    assert "mechanism.call own:noisy" in message
    words = BODIES[body].replace("it could not be repeated", "could not be repeated").replace("longdouble", "float128")
    assert words in message


@pytest.mark.parametrize(
    "body, words",
    [
        ("return {'a'} if rng.random() < 0.5 else {1.0}", "type set"),
        ("return 'a' if rng.random() < 0.5 else 1.0", "strings for some outputs and numbers for others"),
        ("return ('a', 1) if rng.random() < 0.5 else 1.0", "the number 1 among outputs that are strings or sequences"),
        ("return ('a', {}) if rng.random() < 0.5 else ('b',)", "type dict"),
        ("return None", "object array"),
        ("raise OSError('gone')", "OSError: gone"),
    ],
)
def test_one_output_a_call_that_cannot_be_used(
    body: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert words in refusal(tmp_path, capsys, f"def noisy(database, rng):\n    {body}\n")


GOOD = "def noisy(database, size, rng):\n    return rng.laplace(size=size)\n"


@pytest.mark.parametrize(
    "module, settings, words",
    [
        (GOOD, {"call": "missing_module:noisy"}, ["mechanism.call", "cannot import module 'missing_module'"]),
        ("def noisy(:\n", {}, ["mechanism.call", "SyntaxError"]),
        ("sys.exit(0)", {}, ["mechanism.call", "ended the program"]),
        ("raise RuntimeError('no licence')", {}, ["mechanism.call", "RuntimeError: no licence"]),
        (GOOD, {"call": "own:nosy"}, ["mechanism.call", "has no 'nosy'"]),
        ("noisy = 3", {}, ["mechanism.call", "a callable", "int"]),
        (GOOD, {"parameters": {"scale": 1.0}}, ["mechanism.parameters", "scale", "accepted by own:noisy: none"]),
        (GOOD.replace("rng)", "rng, *, scale)"), {}, ["mechanism.parameters", "scale"]),
        (GOOD, {"parameters": {"rng": 1}}, ["mechanism.parameters.rng"]),
        ("def noisy(database, size):\n    return np.zeros(size)\n", {}, ["mechanism.call", "no rng"]),
        (GOOD, {"call": "laplacian"}, ["mechanism.call", "'laplacian'", "gaussian"]),
        (GOOD, {"call": "own.noisy"}, ["mechanism.call", "package.module:callable"]),
        (GOOD, {"call": "laplace", "parameters": {"epsilom": 1.0}}, ["mechanism.parameters", "epsilom", "epsilon"]),
        (GOOD, {"call": "laplace", "parameters": {"epsilon": -1.0}}, ["mechanism", "epsilon", "-1"]),
        (GOOD, {"call": "gaussian", "parameters": {"epsilon": 1.0}}, ["mechanism", "delta"]),
        (GOOD, {"call": "stored", "parameters": {"files": ["none.npy"]}}, ["mechanism.parameters.files", "none.npy"]),
        (GOOD, {"call": "stored"}, ["mechanism.parameters.files"]),
    ],
)
def test_names_and_parameters_that_do_not_fit(
    module: str, settings: dict[str, Any], words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    message = refusal(tmp_path, capsys, module, **settings)
    assert [word for word in words if word not in message] == []


def test_the_command_refuses_too(tmp_path: Path) -> None:
    study = write_study(tmp_path, "def noisy(database, size, rng):\n    raise ValueError('no luck')\n")
    for command in (("run", study), ("plan", study)):
        line = one_message(hpcdp(*command, folder=tmp_path, code=2))
        assert "mechanism.call own:noisy: the mechanism raised ValueError: no luck" in line
    assert not (tmp_path / "runs").exists()


# Fails on the chunks whose random streams stand in a file, with the words that follow them.
TOUCHY = (
    MECHANISM
    + """

BAD = os.path.join(os.path.dirname(LOG), "bad.txt")


def touchy(database, size, rng):
    words = f"{rng.bit_generator.state['state']['state']:x}"
    outputs = noisy(database, size, rng)
    with open(BAD) as lines:
        for bad, kind in (line.split(maxsplit=1) for line in lines):
            if bad == words and kind.startswith("nan"):
                outputs[3] = float("nan")
            elif bad == words and kind.startswith("die"):
                os._exit(3)
            elif bad == words:
                raise ValueError(kind.strip())
    return outputs
"""
)
DATABASE = [0.0, 0.5, 1.0]


def state(removed: int | None, stage: str, chunk: int) -> str:
    """The random stream of a chunk of the database without one of its rows."""
    database = np.asarray(DATABASE) if removed is None else np.delete(np.asarray(DATABASE), removed)
    rng = stream(SEED, law_key("own:touchy", {}, digest_array(database)), stage, chunk)
    return f"{rng.bit_generator.state['state']['state']:x}"


def complete_pairs(store: Path) -> set[int]:
    """The pairs of an incomplete store's cells, after a check that each has all of them."""
    found = json.loads(show(store))
    assert found["complete"] is False
    pairs = [cell["pair"] for cell in found["cells"]]
    assert all(pairs.count(pair) == 6 for pair in pairs)
    return set(pairs)


@pytest.fixture(scope="module", name="honest")
def honest_fixture(tmp_path_factory: pytest.TempPathFactory, scheduler: str) -> str:
    """The JSON of the touchy mechanism's study when nothing is wrong."""
    folder = tmp_path_factory.mktemp("honest")
    study = write_study(folder, TOUCHY, call="own:touchy", databases=[DATABASE])
    (folder / "bad.txt").write_text("")
    call("run", study, "--store", folder / "s.zarr", "--cluster", scheduler)
    return show(folder / "s.zarr")


@pytest.mark.parametrize(
    "keep, removed, stage, chunk, kind",
    [("all", 1, "test", 3, "nan"), ("none", 1, "test", 3, "no luck"), ("none", 2, "train", 1, "nan")],
)
def test_a_chunk_that_fails_is_set_aside_and_named(
    keep: str, removed: int, stage: str, chunk: int, kind: str, honest: str, tmp_path: Path, scheduler: str
) -> None:
    study, store = (
        write_study(tmp_path, TOUCHY, call="own:touchy", databases=[DATABASE], keep=keep),
        tmp_path / "s.zarr",
    )
    (tmp_path / "bad.txt").write_text(f"{state(removed, stage, chunk)} {kind}\n")
    error = call("run", study, "--store", store, "--cluster", scheduler, code=1).stderr
    assert f"{stage} chunk {chunk} of database 0 without row {removed}" in error
    assert kind in error
    assert error.count("the mechanism r") == 1, "one cause is told once"
    assert f"hpcdp resume {store}" in error
    assert complete_pairs(store) == {0, 1, 2} - {removed}
    assert f"{stage} chunk {chunk}" in call("status", store).stdout
    before = contents(store)
    (tmp_path / "bad.txt").write_text("")
    call("resume", store, "--cluster", scheduler)
    after = contents(store)
    assert {path: after[path] for path in before} == before
    assert show(store) == honest


def test_the_database_that_all_pairs_share(honest: str, tmp_path: Path, scheduler: str) -> None:
    study, store = write_study(tmp_path, TOUCHY, call="own:touchy", databases=[DATABASE]), tmp_path / "s.zarr"
    (tmp_path / "bad.txt").write_text(f"{state(None, 'train', 0)} nan\n")
    error = call("run", study, "--store", store, "--cluster", scheduler, code=1).stderr
    assert "train chunk 0 of database 0: the mechanism returned nan" in error
    assert "needed by 3 more" in error
    assert complete_pairs(store) == set()
    (tmp_path / "bad.txt").write_text("")
    call("resume", store, "--cluster", scheduler)
    assert show(store) == honest


def test_repaired_code_goes_on_when_that_is_allowed(tmp_path: Path, scheduler: str) -> None:
    picky = MECHANISM.replace(
        "    time.sleep(pause)\n", "    if size == 250:\n        raise ValueError('an odd size')\n"
    )
    settings: dict[str, Any] = {"databases": [DATABASE], "test": 4250}
    study, store = write_study(tmp_path, picky, **settings), tmp_path / "s.zarr"
    error = call("run", study, "--store", store, "--cluster", scheduler, code=1).stderr
    assert "test chunk 8 of database 0" in error
    assert "an odd size" in error
    assert complete_pairs(store) == set()
    before = contents(store)
    write_study(tmp_path, MECHANISM, **settings)
    for command in (("resume", store), ("run", study, "--store", store)):
        line = call(*command, "--cluster", scheduler, code=2).stderr.splitlines()[-1]
        assert "source of own:noisy changed" in line
        assert "--allow-changed-code" in line
    assert complete_pairs(store) == set(), "results are shown whatever became of the code"
    assert "incomplete" in call("status", store).stdout
    call("resume", store, "--allow-changed-code", "--cluster", scheduler)
    after = contents(store)
    assert {path: after[path] for path in before} == before
    call("run", study, "--store", tmp_path / "anew.zarr", "--cluster", scheduler)
    assert show(store) == show(tmp_path / "anew.zarr")
    call("resume", store, "--cluster", scheduler)


@pytest.mark.slow
@pytest.mark.parametrize("keep", ["all", "none"])
def test_a_mechanism_that_ends_its_worker(keep: str, honest: str, tmp_path: Path) -> None:
    study, store = (
        write_study(tmp_path, TOUCHY, call="own:touchy", databases=[DATABASE], keep=keep),
        tmp_path / "s.zarr",
    )
    (tmp_path / "bad.txt").write_text(f"{state(1, 'test', 3)} die\n")
    error = hpcdp("run", study, "--store", store, "--workers", 2, folder=tmp_path, code=1).stderr
    (line,) = [line for line in error.splitlines() if "ended its worker" in line]
    assert line.startswith("  task ")
    assert "database 0 without row 1" in line
    assert complete_pairs(store) == {0, 2}, "all else is done"
    before = contents(store)
    (tmp_path / "bad.txt").write_text("")
    hpcdp("resume", store, "--workers", 2, folder=tmp_path)
    after = contents(store)
    assert {path: after[path] for path in before} == before
    assert show(store) == honest


@pytest.mark.parametrize("keep", ["all", "none"])
def test_chunks_that_become_identical_later(keep: str, tmp_path: Path, scheduler: str) -> None:
    """A mechanism that keeps its first large array: its trial draws are sound, its bounds would not be."""
    cached = (
        MECHANISM
        + "    \n\nKEPT = {}\nhonest = noisy\n\n\ndef noisy(database, size, rng):\n    outputs = honest(database, size, rng)\n"
    )
    cached += "    return outputs if size < 250 else KEPT.setdefault(size, outputs)\n"
    settings: dict[str, Any] = {"databases": [DATABASE], "keep": keep, "test": 2250, "chunk": 1000}
    study, store = write_study(tmp_path, cached, **settings), tmp_path / "s.zarr"
    for command in (("run", study, "--store", store), ("resume", store)):
        error = call(*command, "--cluster", scheduler, code=1).stderr
        assert "identical" in error
        assert "chunk 0 of" in error
        assert "--allow-changed-code" in error
        assert complete_pairs(store) == set()
    write_study(tmp_path, MECHANISM, **settings)
    call("resume", store, "--allow-changed-code", "--cluster", scheduler)
    call("run", study, "--store", tmp_path / "anew.zarr", "--cluster", scheduler)
    assert show(store) == show(tmp_path / "anew.zarr")
    assert stored_problem(store).study.estimate.keep == keep


# Randomised response: the other answer with probability 1/4.
KINDS = {
    "booleans": "def noisy(database, size, rng):\n    return rng.random(size) < (0.75 if database[0] else 0.25)\n",
    "integers": "def noisy(database, size, rng):\n    return int(database[0]) ^ (rng.random(size) < 0.25).astype(np.uint8)\n",
    "strings": "def noisy(database, size, rng):\n    answer = rng.random(size) < 0.25\n"
    "    return np.where(answer ^ bool(database[0]), 'ja', 'nein ü')\n",
    "vectors": "def noisy(database, size, rng):\n    answer = int(database[0]) ^ (rng.random(size) < 0.25)\n"
    "    return np.column_stack([answer, rng.random(size)])\n",
    "vectors of strings": "def noisy(database, size, rng):\n    answer = int(database[0]) ^ (rng.random(size) < 0.25)\n"
    "    return np.column_stack([answer, np.ones(size)]).astype(str)\n",
    "one string a call": "def noisy(database, rng):\n    return 'yes' if (rng.random() < 0.25) ^ bool(database[0]) else 'no'\n",
    "one number a call": "def noisy(database, rng):\n    return float((rng.random() < 0.25) ^ bool(database[0]))\n",
    "one vector a call": "def noisy(database, rng):\n    return [(rng.random() < 0.25) ^ bool(database[0]), 7]\n",
    "one buffer for all": "OUT = np.zeros(500, np.int64)\n\n\ndef noisy(database, size, rng):\n"
    "    OUT[:size] = int(database[0]) ^ (rng.random(size) < 0.25)\n    return OUT[:size]\n",
}


def measure(folder: Path, scheduler: str, **settings: Any) -> dict[str, Any]:
    """What `show` prints of a study of randomised response with one pair."""
    pairs = "given = [ { d = [0.0], d_prime = [1.0] } ]"
    sizes = {"train": 2000, "test": 5000, "epsilons": [0.0, math.log(2), math.log(6)], "etas": [1.0]}
    study = write_study(folder, settings.pop("module", GOOD), **{"pairs": pairs, **sizes, **settings})
    assert main(["run", str(study), "--store", str(folder / "s.zarr"), "--cluster", scheduler]) == 0
    return json.loads(show(folder / "s.zarr"))  # type: ignore[no-any-return]


def check_randomised_response(found: dict[str, Any]) -> None:
    """δ(ε) = 3/4 − e^ε/4 up to ε = log 3, and the trade-off point at η = 1: each within six standard errors."""
    assert found["complete"] is True
    for cell in found["cells"]:
        truth = max(0.0, 0.75 - math.exp(cell["epsilon"]) / 4)
        assert abs(cell["delta"] - truth) <= 6 * math.sqrt((1 + math.exp(2 * cell["epsilon"])) * 0.1875 / 5000)
        assert cell["lower"] <= truth
    (point,) = found["tradeoff"]
    assert abs(point["alpha"] - 0.25) < 0.04
    assert abs(point["beta"] - 0.25) < 0.04


@pytest.mark.parametrize("kind", KINDS)
def test_outputs_of_every_kind(kind: str, tmp_path: Path, scheduler: str) -> None:
    check_randomised_response(measure(tmp_path, scheduler, module=HEAD + KINDS[kind]))


def write_samples(path: Path, samples: NDArray[Any]) -> None:
    if path.suffix == ".npy":
        np.save(path, samples)
    elif path.suffix == ".csv":
        header = "answer\n" if samples.dtype.kind == "i" else ""  # above text it would be one more output
        path.write_text(header + "\n".join(str(sample) for sample in samples.tolist()) + "\n")
    elif path.suffix == ".parquet":
        arrow = pytest.importorskip("pyarrow", reason="this test writes .parquet files, which needs pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        parquet.write_table(arrow.table({"answer": samples}), path)
    else:
        array = zarr.create_array(str(path), shape=samples.shape, dtype=samples.dtype, chunks=(1000,))
        array[:] = samples


@pytest.mark.parametrize(
    "suffix, names",
    [(".npy", [0, 1]), (".csv", [0, 1]), (".csv", ["no", "yes"]), (".parquet", ["no", "yes"]), (".zarr", [0.0, 1.5])],
)
def test_stored_samples(
    suffix: str, names: list[Any], tmp_path: Path, scheduler: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(SEED)
    files = [f"{database}{suffix}" for database in (0, 1)]
    for database, file in enumerate(files):
        write_samples(tmp_path / file, np.array(names)[database ^ (rng.random(7000) < 0.25)])
    settings: dict[str, Any] = {"call": "stored", "parameters": {"files": files}}
    check_randomised_response(measure(tmp_path, scheduler, **settings))
    capsys.readouterr()
    settings |= {"pairs": "given = [ { d = [0.0], d_prime = [1.0] } ]", "train": 2000, "test": 5001}
    settings["parameters"] = {"files": [f"../{file}" for file in files]}
    message = refusal(tmp_path / "short", capsys, GOOD, **settings)
    assert "holds 7000 outputs" in message
    assert "train + test = 7001" in message


def test_the_last_of_many_stored_files_is_too_short(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With fewer rows than train + test, training and test samples would overlap and no bound would hold."""
    rng = np.random.default_rng(SEED)
    for number in range(4):
        np.save(tmp_path / f"{number}.npy", rng.random(1100 if number == 3 else 1200))
    pairs = "given = [ { d = [0.0], d_prime = [1.0] }, { d = [2.0], d_prime = [3.0] } ]"
    files = [f"{number}.npy" for number in range(4)]
    message = refusal(
        tmp_path, capsys, GOOD, call="stored", parameters={"files": files}, pairs=pairs, train=600, test=600
    )
    assert "3.npy holds 1100 outputs" in message
    assert "train + test = 1200" in message


def test_a_header_line_of_a_stored_csv_is_left_out_above_numbers_alone(tmp_path: Path) -> None:
    for text, outputs in {
        "answer\n0.5\n2\n": [0.5, 2.0],
        "answer\nno\nyes\n": ["answer", "no", "yes"],
        "1\nno\nyes\n": ["1", "no", "yes"],
    }.items():
        (tmp_path / "a.csv").write_text(text)
        assert read_outputs(tmp_path / "a.csv").tolist() == outputs


@pytest.mark.parametrize("again", ["a.npy", "./a.npy", "link.npy"])
def test_one_stored_file_for_two_databases(again: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "a.npy", np.arange(2000.0))
    np.save(tmp_path / "b.npy", np.arange(2000.0))  # equal contents are no reason to refuse: they may be few values
    (tmp_path / "link.npy").symlink_to("a.npy")
    message = refusal(tmp_path, capsys, GOOD, call="stored", parameters={"files": ["a.npy", "b.npy", again]})
    assert f"mechanism.parameters.files: 'a.npy' and '{again}' are one file" in message
    assert "independent" in message
    assert load_stored({"files": ["a.npy", "b.npy"]}, tmp_path).files == (tmp_path / "a.npy", tmp_path / "b.npy")


def test_stored_chunks_split_each_file_once(tmp_path: Path) -> None:
    """Whatever came between: chunks of a law are disjoint, and both stages together are the file."""
    for number in range(2):
        np.save(tmp_path / f"{number}.npy", np.arange(90) + 100 * number)
    stored = load_stored({"files": ["0.npy", "1.npy"]}, tmp_path)
    laws = {number: law_key("stored", {}, digest_array(np.array([number]))) for number in range(2)}

    def take(source: StoredSamples, number: int, stage: str, start: int, seed: int = SEED) -> list[int]:
        return source.take(np.array([number]), seed, laws[number], stage, start, 15).tolist()  # type: ignore[no-any-return]

    wanted = [(number, stage, start) for start in (0, 15, 30) for stage in ("train", "test") for number in range(2)]
    found = {key: take(stored, *key) for key in wanted}
    for key in wanted:  # one that has permuted nothing before
        assert take(load_stored({"files": ["0.npy", "1.npy"]}, tmp_path), *key) == found[key]
    for number in range(2):
        drawn = [value for key, values in found.items() if key[0] == number for value in values]
        assert sorted(drawn) == list(range(100 * number, 100 * number + 90))
    first = (0, "train", 0)
    assert take(stored, *first, seed=SEED + 1) != found[first] == take(stored, *first)


def test_a_stored_file_is_permuted_once_for_all_its_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def counting(*words: Any) -> np.random.Generator:
        asked.append(words)
        return stream(*words)

    monkeypatch.setattr("hpcdp.mechanisms.stored.stream", counting)
    np.save(tmp_path / "a.npy", np.arange(50))
    stored = load_stored({"files": ["a.npy"]}, tmp_path)
    for stage in ("train", "test"):
        for start in (0, 10):
            stored.take(np.zeros(1), SEED, "0" * 32, stage, start, 10)
    assert len(asked) == 1


def test_two_studies_at_once_on_one_cluster(tmp_path: Path, scheduler: str) -> None:
    """Their modules have one name, and so have their tasks; each gets the mechanism of its own folder."""
    shares = {"a": 0.25, "b": 0.45}
    pairs = "given = [ { d = [0.0], d_prime = [1.0] } ]"
    with ExitStack() as stack:
        for name, share in shares.items():
            module = HEAD + KINDS["integers"].replace("0.25", str(share))
            study = write_study(tmp_path / name, module, pairs=pairs, train=2000, test=5000, epsilons=[0.0])
            command = ("run", study, "--store", tmp_path / name / "s.zarr", "--cluster", scheduler)
            process = stack.enter_context(started(*command, folder=tmp_path / name))
            stack.callback(process.communicate)  # last in, first out: it is waited for before it would be killed
    for name, share in shares.items():
        (forward, reverse) = json.loads(show(tmp_path / name / "s.zarr"))["cells"]
        for cell in (forward, reverse):
            assert abs(cell["delta"] - (1 - 2 * share)) < 6 * math.sqrt(2 * 0.25 / 5000)
