"""Outputs of every kind, drawn and stored: the same study whichever way they come, and files that do not fit."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from commands import SEED, call, show, write_study
from journals import records
from numpy.typing import NDArray
from refusing import GOOD, HEAD, refusal

from hpcdp.cli.command import main
from hpcdp.errors import StudyError
from hpcdp.keys import digest_array, law_key
from hpcdp.mechanisms.stored import StoredSamples, load_stored, read_outputs
from hpcdp.store.arrays import read_array

# Randomised response: the other answer with probability 1/4; what is returned of many answers, and of one.
MANY = {
    "booleans": "answer == 1",
    "integers": "answer.astype(np.uint8)",
    "strings": "np.where(answer, 'ja', 'nein ü')",
    "vectors": "np.column_stack([answer, rng.random(size)])",
    "vectors of strings": "np.column_stack([answer, np.ones(size)]).astype(str)",
    "bits": "(answer[:, None] == 1) ^ np.array([False, True, True])",
    "sequences of mixed length": "[[0] * one + [1] for one in answer.tolist()]",
    "an object array": "np.fromiter(((('a', None), int(one)) for one in answer), object, size)",
    "one buffer for all": "np.copyto(OUT[:size], answer) or OUT[:size]",
}
ONE = {
    "a string": "'yes' if answer else 'no'",
    "a number": "float(answer)",
    "a vector": "[answer, 7]",
    "a tuple": "('stop', 1) if answer else (None, 'end')",
}
KINDS = [
    *(("size, rng", "rng.random(size)", returned) for returned in MANY.values()),
    *(("rng", "rng.random()", returned) for returned in ONE.values()),
]
RESPONSE = """
OUT = np.zeros(500, np.int64)


def noisy(database, {arguments}):
    answer = int(database[0]) ^ ({chance} < 0.25)
    return {returned}
"""


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


@pytest.mark.few
@pytest.mark.parametrize("arguments, chance, returned", KINDS, ids=[*MANY, *ONE])
def test_outputs_of_every_kind(arguments: str, chance: str, returned: str, tmp_path: Path, scheduler: str) -> None:
    module = HEAD + RESPONSE.format(arguments=arguments, chance=chance, returned=returned)
    check_randomised_response(measure(tmp_path, scheduler, module=module))


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


@pytest.mark.slow
@pytest.mark.parametrize(
    "suffix, names",
    [(".npy", [0, 1]), (".csv", [0, 1]), (".csv", ["no", "yes"]), (".parquet", ["no", "yes"]), (".zarr", [0.0, 1.5])],
)
def test_stored_samples(suffix, names, tmp_path, scheduler, capsys):
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


def test_integers_of_a_stored_csv_that_numpy_would_round_are_refused(tmp_path: Path) -> None:
    (path := tmp_path / "x.csv").write_text(f"{2**63 + 5}\n1\n")
    with pytest.raises(StudyError, match=r"an integer of 64 bits; accepted: from -2\*\*63 to 2\*\*63 - 1"):
        read_outputs(path)
    path.write_text(f"{2**63 - 1}\n1\n")
    assert read_outputs(path).tolist() == [2**63 - 1, 1]
    path.write_text("1e30\n1\n")
    assert read_outputs(path).tolist() == [1e30, 1.0]


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


@pytest.mark.slow
def test_bits_are_packed(tmp_path, scheduler):
    """Eight in a byte, and counted from there again."""
    module = HEAD + "def noisy(database, size, rng):\n    return rng.random((size, 3)) < 0.3 + 0.4 * database[0]\n"
    pairs = "given = [ { d = [0.0], d_prime = [1.0] } ]"
    study, store = write_study(tmp_path, module, pairs=pairs, train=2000, test=8000), tmp_path / "s.zarr"
    call("run", study, "--store", store, "--cluster", scheduler)
    before = show(store)
    packs = records(store, "packs")
    assert packs
    for pack in packs:
        packed = read_array(store / "samples" / "packs" / pack.name)
        size = sum(int(name.rpartition("-")[2]) for name in pack.body["fingerprints"])
        assert (packed.dtype, packed.shape) == (np.dtype(np.uint8), (-(-size * 3 // 8),))
    for record in records(store, "counts"):
        record.unlink()
    call("resume", store, "--cluster", scheduler)
    assert show(store) == before


def test_strings_and_numbers_of_one_study_are_refused(tmp_path, scheduler):
    module = HEAD + "def noisy(database, size, rng):\n    n = rng.random(size) < 0.5\n"
    module += "    return np.where(n, 'a', 'b') if database[0] else n\n"
    pairs = "given = [ { d = [0.0], d_prime = [1.0] } ]"
    study = write_study(tmp_path, module, pairs=pairs)
    error = call("run", study, "--store", tmp_path / "s.zarr", "--cluster", scheduler, code=2).stderr
    assert "booleans; its first outputs were strings or sequences, and all must be alike" in error
