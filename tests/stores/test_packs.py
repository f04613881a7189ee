"""Packs: very many small blocks of samples, and very many small databases, in few files, which are as sound as files each."""

import json
import shutil
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import call, one_message, stored_problem
from journals import records
from studies import files_below, make_study

from hpcdp.driver import driver
from hpcdp.engine import sampling, tasks
from hpcdp.engine.context import Context
from hpcdp.engine.outcomes import RunFailed
from hpcdp.errors import DamagedError
from hpcdp.keys import digest_array
from hpcdp.mechanisms.outputs import Outputs, Schema
from hpcdp.results.load import load_result
from hpcdp.store import databases
from hpcdp.store.fence import replacing
from hpcdp.store.lease import acquire
from hpcdp.store.packs import pack_name, recorded_packs
from hpcdp.store.root import create_store, open_layout
from hpcdp.store.samples import DamagedBlock, read_blocks, write_blocks
from hpcdp.store.stages import Stage
from hpcdp.study.file import Study
from hpcdp.study.problem import Problem

FIRST, PAIRS, MOST = 3, 140, 210
FEW = {"train": 60, "test": 50, "epsilons": [0.0, 0.5]}
Files = dict[str, Any]


def study_of(pairs: int, folder: Path | None = None, call: str = "pmf", **changes: Any) -> Study:
    rng = np.random.default_rng(7)
    table = rng.dirichlet((3.0, 3.0, 3.0), 2 * MOST).tolist()
    parameters = {"outcomes": [0, 1, 2], "table": table} if call == "pmf" else {}
    given = [([2 * n], [2 * n + 1]) for n in range(pairs)]
    return make_study(call, parameters, given, seed=11, folder=folder, **{**FEW, **changes})


def run(study: Study, store: Path) -> str:
    return driver.run(study, store, workers=0).to_json()


def files(store: Path, *kinds: str) -> Files:
    """Inode, time of change and bytes of the files of samples and databases, and lines of records of some kinds."""
    found: Files = {
        path.relative_to(store).as_posix(): (path.stat().st_ino, path.stat().st_mtime_ns, data)
        for path, data in files_below(store / "samples", store / "study" / "databases")
    }
    return found | {f"{record.kind}/{record.name}": record.read_bytes() for record in records(store, *kinds) if kinds}


@pytest.fixture(name="drawn")
def drawn_fixture(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, int]]:
    """What is drawn from now on: stage, law and chunk."""
    found: list[tuple[str, str, int]] = []
    draw = Context.draw

    def seen(self: Context, stage: Stage, law: str, chunk: int) -> Outputs:
        found.append((stage.name, law, chunk))
        return draw(self, stage, law, chunk)

    monkeypatch.setattr(Context, "draw", seen)
    return found


@pytest.fixture(name="small")
def small_fixture(monkeypatch: pytest.MonkeyPatch) -> None:
    """Packs of some fifty blocks."""
    monkeypatch.setattr(tasks, "PACK_BYTES", 50 * 55 * 8)


@pytest.fixture(scope="module")
def apart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of the first pairs, in which each block has files of its own."""
    store = tmp_path_factory.mktemp("apart") / "s.zarr"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sampling, "_PACKED_BYTES", 0)
        run(study_of(FIRST), store)
    assert len(list((store / "samples").iterdir())) == 2 * 2 * FIRST + 1
    assert len(list((store / "study" / "databases").iterdir())) == 1 + 1
    return store


@pytest.fixture(scope="module")
def together(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of packs."""
    store = tmp_path_factory.mktemp("together") / "s.zarr"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tasks, "PACK_BYTES", 50 * 55 * 8)
        run(study_of(PAIRS), store)
    return store


@pytest.fixture(name="copy")
def copy_fixture(together: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(together, tmp_path / "s.zarr"))


@pytest.mark.slow
def test_few_files_and_the_same_result(apart: Path, together: Path) -> None:
    found = [_estimates(json.loads(load_result(store).to_json())) for store in (together, apart)]
    assert [cell for cell in found[0] if cell[0] < FIRST] == found[1]
    layout, problem = open_layout(together), stored_problem(together)
    held = [block for _, blocks in recorded_packs(layout) for block in blocks]  # type: ignore[union-attr]
    assert sorted(held) == sorted(stage.name_of(law, 0) for stage in problem.kept_stages for law in problem.laws)
    assert len(files(together, "samples", "packs")) < 60
    check_samples(apart, together, stored_problem(apart))


def check_samples(one: Path, other: Path, problem: Problem) -> None:
    """The same of each law and stage of a problem in both stores."""
    for stage in problem.kept_stages:
        for law in problem.laws:
            pair = (next(read_blocks(open_layout(s), stage, law, problem.schema, range(1))) for s in (one, other))
            np.testing.assert_array_equal(*pair)


@pytest.mark.slow
def test_more_of_a_study_draws_what_is_missing_alone(copy: Path, drawn: list[Any], tmp_path: Path) -> None:
    """Two laws and two stages a pair; an ε needs no new samples."""
    before, known = files(copy, "packs", "counts", "fits"), PAIRS
    for pairs in (PAIRS, PAIRS + 3, MOST):
        study = study_of(pairs, epsilons=[0.0, 0.25, 0.5])
        drawn.clear()
        found = run(study, copy)
        assert len(drawn) == len(set(drawn)) == 2 * 2 * (pairs - known)
        known, after = pairs, files(copy, "packs", "counts", "fits")
        assert {path: after[path] for path in before} == before
        anew = run(study, tmp_path / f"{pairs}.zarr")
        assert _estimates(json.loads(anew)) == _estimates(json.loads(found))


def _estimates(found: Mapping[str, Any]) -> list[Any]:
    """What does not depend on how a study grew: sets of thresholds that were counted apart have one L̂ of knn."""
    return [[cell[key] for key in ("pair", "direction", "epsilon", "delta", "exceed")] for cell in found["cells"]]


@pytest.mark.slow
@pytest.mark.parametrize("what", ["bit", "array", "print", "name", "record", "no array"])
def test_damage_is_named_once_and_drawn_again(copy: Path, together: Path, small: None, what: str) -> None:
    before = files(copy, "packs")
    record = records(copy, "packs")[2]
    blocks = set(record.body["fingerprints"])
    array = copy / "samples" / "packs" / record.name
    (data,) = array.rglob("c/*")
    if what == "no array":
        shutil.rmtree(array)
    elif what == "record":
        record.damage()
    else:
        hit = data if what == "bit" else array / "zarr.json"
        flipped = bytearray(hit.read_bytes())
        place = {"bit": 0.5, "array": 0.0, "print": 0.5, "name": flipped.find(b"-test-") / len(flipped)}[what]
        flipped[int(place * len(flipped)) + (1 if what == "name" else 0)] ^= 4
        hit.write_bytes(bytes(flipped))
    said = call("resume", copy, "--workers", "0").stderr
    (line,) = [line for line in said.splitlines() if "damaged" in line]
    assert record.name in line
    assert "computed again" in line
    after = files(copy, "packs")
    same = {path: file for path, file in before.items() if record.name not in path}
    assert {path: after[path] for path in same} == same
    held = {block for _, found in recorded_packs(open_layout(copy)) for block in found}  # type: ignore[union-attr]
    assert blocks <= held
    check_samples(copy, together, stored_problem(copy))
    assert load_result(copy).to_json() == load_result(together).to_json()


def _strings(size: int) -> Outputs:
    found = np.empty(size, object)
    found[:] = [b"x" * (n % 5) for n in range(size)]
    return found


KINDS: list[tuple[Schema, Callable[[int], Outputs]]] = [
    (Schema("float", None), lambda n: np.arange(n) / 7),
    (Schema("int", 3), lambda n: np.arange(3 * n).reshape(n, 3)),
    (Schema("bool", None), lambda n: np.arange(n) % 3 == 0),
    (Schema("bool", 5), lambda n: (np.arange(5 * n) % 3 == 0).reshape(n, 5)),
    (Schema("bytes", None), _strings),
]


@pytest.mark.parametrize(("schema", "make"), KINDS)
def test_all_kinds_of_outputs(tmp_path: Path, schema: Schema, make: Callable[[int], Outputs]) -> None:
    layout = create_store(tmp_path / "s.zarr")
    lease = acquire(layout)
    stage = Stage.of("test", 250, 100, schema)
    laws = [digest_array(np.array([number])) for number in range(9)]
    parts = {law: [make(stage.chunk_size(c)) for c in range(stage.chunks)] for law in laws}
    blocks = {stage.name_of(law, 0): parts[law] for law in sorted(laws)}
    with replacing(layout, lease.generation, layout.pack(pack_name(blocks))) as new:
        prints = write_blocks(new, schema, blocks, len(laws) * stage.total)
    assert {len(found) for found in prints.values()} == {stage.chunks}
    for law in laws:
        for found, part in zip(read_blocks(layout, stage, law, schema, range(stage.chunks)), parts[law], strict=True):
            assert found.dtype == part.dtype
            np.testing.assert_array_equal(found, part)
    with pytest.raises(DamagedBlock, match="missing"):
        list(read_blocks(layout, stage, "0" * 32, schema, range(1)))
    lease.release()


@pytest.mark.slow
def test_a_law_that_fails_costs_itself_alone(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN)
    study = study_of(PAIRS, tmp_path, "own:draw")
    (tmp_path / "broken").touch()
    store = tmp_path / "s.zarr"
    with pytest.raises(RunFailed) as failed:
        driver.run(study, store, workers=0)
    assert "it is broken" in str(failed.value)
    held = {block for _, found in recorded_packs(open_layout(store)) for block in found}  # type: ignore[union-attr]
    assert len(held) == 2 * (2 * PAIRS - 1)
    (tmp_path / "broken").unlink()
    before = files(store, "packs")
    run(study, store)
    after = files(store, "packs")
    assert {path: after[path] for path in before} == before
    (added,) = [record for record in records(store, "packs") if f"packs/{record.name}" not in before]
    assert len(added.body["fingerprints"]) == 2


OWN = """
from pathlib import Path

def draw(database, size, rng):
    if database[0] == 5 and size >= 50 and Path(__file__).with_name("broken").exists():
        raise ValueError("it is broken")
    return rng.integers(3 + database[0] % 2, size=size)
"""


@pytest.mark.slow
def test_a_mechanism_that_cannot_draw_again_has_files_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN)
    study = study_of(PAIRS, tmp_path, "own:draw")
    changed = study.model_copy(update={"mechanism": study.mechanism.model_copy(update={"reproducible": False})})
    run(changed, tmp_path / "s.zarr")
    assert list(recorded_packs(open_layout(tmp_path / "s.zarr"))) == []


@pytest.mark.slow
def test_databases_that_lie_together(copy: Path, together: Path) -> None:
    """What is damaged of them is told by `resume`, and written anew by `run`."""
    (pack,) = (copy / "study" / "databases").glob("*.np?")
    assert pack.name.startswith("pack-")
    problem = stored_problem(copy)
    assert [database.tolist() for database in problem.databases] == [[n] for n in range(2 * PAIRS)]
    assert not any(database.flags.writeable for database in problem.databases)
    with zipfile.ZipFile(pack) as parts:
        ends = [*(part.header_offset for part in parts.infolist()[1:]), parts.start_dir]
    for place in (0, *(end - 1 for end in ends), None):  # where each array is, and cut short
        flipped = bytearray(pack.read_bytes())
        if place is None:
            del flipped[-100:]
        else:
            flipped[place] ^= 4
        pack.write_bytes(bytes(flipped))
        message = one_message(call("resume", copy, "--workers", "0", code=1))
        words = f"hpcdp: study/databases/{pack.name} in {copy} is damaged or missing; run the study file again, which stores it"
        assert message.startswith(words)
        with pytest.raises(DamagedError, match="study/databases"):
            stored_problem(copy)
        assert run(study_of(PAIRS), copy) == load_result(together).to_json()
        assert [database.tolist() for database in stored_problem(copy).databases] == [[n] for n in range(2 * PAIRS)]


def test_databases_of_all_types(tmp_path: Path) -> None:
    layout = create_store(tmp_path / "s.zarr")
    lease = acquire(layout)
    made = [np.array([n % 2 == 0] * (n + 1)) for n in range(100)]
    made += [np.arange(n, n + 6).reshape(3, 2) for n in range(100)]
    made += [np.linspace(0.0, n + 1.0, 3) for n in range(100)]
    made += [np.zeros((9000, 1)), np.zeros((0, 4))]
    known = {digest_array(database): database for database in made}
    databases.store_databases(layout, known, lease.generation)
    assert len(list(layout.databases.glob("pack-*.npz"))) == 1
    assert len(list(layout.databases.glob("*.npy"))) == 1, "the large one"
    found = databases.read_databases(layout, known)
    assert found.keys() == known.keys()
    for digest, database in known.items():
        assert found[digest].dtype == database.dtype
        np.testing.assert_array_equal(found[digest], database)
    lease.release()
