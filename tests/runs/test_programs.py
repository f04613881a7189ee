"""A black box that is a program: its protocol, what it may do wrong, and how it ends."""

from __future__ import annotations

import ast
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
import pytest
from commands import LONG, started, wait_until, write_study
from programs import BARE, GREETING, SERVED, ZEROS, binder, draw, is_running, pid_of, served

import hpcdp.serve
from hpcdp.errors import MechanismError, StudyError
from hpcdp.mechanisms._program import ProgramMechanism, bind_program, program_digest


@pytest.fixture(name="bind")
def bind_fixture(tmp_path: Path) -> Iterator[Callable[..., ProgramMechanism]]:
    """Write a program into a folder and bind it, as a study would; whatever was started is ended."""
    with binder(tmp_path) as bind:
        yield bind


@pytest.mark.parametrize(
    ("body", "database", "expected"),
    [
        ("return np.full(size, database.sum() * scale)", [1.0, 2.5], np.full(3, 7.0)),
        ("return np.full((size, 2), database.sum(), np.int64)", [[1, 2], [3, 4]], np.full((3, 2), 10)),
        ("return [str(database.dtype)] * size", [True, False], np.full(3, "bool")),
        ("return np.full((size, 2), 'ä€')", [1], np.full((3, 2), "ä€")),
        ("return np.ones(size, '>f4')", [1], np.ones(3, np.float32)),
        ("return np.arange(2 * size)[::2] > 2", [1], np.array([False, False, True])),
        ("return np.zeros(size) + database.shape[0]", np.zeros((0, 2)), np.zeros(3)),
        ("return np.array([os.getcwd() == os.path.dirname(os.path.abspath(__file__))] * size)", [1], np.ones(3, bool)),
        ("return np.array([sum(n in os.environ for n in ('PYTHONPATH', 'PYTHONHOME'))] * size)", [1], np.zeros(3, int)),
    ],
)
def test_databases_parameters_and_outputs_of_every_type_pass(
    bind,
    monkeypatch,
    body,
    database,
    expected,
):
    monkeypatch.setenv("PYTHONPATH", "somewhere")
    found = draw(bind(body=body, parameters={"scale": 2.0}), 3, database=database)
    found = np.char.decode(found, "utf-8") if found.dtype.kind == "S" else found
    assert np.array_equal(found, expected)
    assert found.dtype.kind == expected.dtype.kind


def test_outputs_follow_from_the_seed_whatever_the_process(bind: Callable[..., ProgramMechanism]) -> None:
    program = bind()
    first, other, again = (draw(program, seed=seed) for seed in (1, 2, 1))
    assert np.array_equal(first, again)
    assert not np.intersect1d(first, other).size
    pid = pid_of(program)
    program.end()
    assert not is_running(pid)
    assert np.array_equal(draw(program), first)
    assert pid_of(program) != pid


def test_more_bytes_than_pipes_hold_pass_both_ways(bind: Callable[..., ProgramMechanism]) -> None:
    size, database = 700_000, np.arange(500_000.0)
    program = bind(body="print('x' * 3_000_000); return database[: 1] + np.arange(2.0 * size).reshape(size, 2)")
    assert np.array_equal(draw(program, size, database=database), np.arange(2.0 * size).reshape(size, 2))


def test_what_a_served_mechanism_prints_or_reads_is_kept_apart(bind: Callable[..., ProgramMechanism]) -> None:
    body = "print('a'); os.system('echo b'); assert sys.stdin.read() == ''; return rng.random(size)"
    program = bind(body=body)
    assert draw(program).shape == (16,)
    assert draw(program).shape == (16,)


def test_one_output_a_call_and_one_of_each_database(bind: Callable[..., ProgramMechanism], tmp_path: Path) -> None:
    served(tmp_path)
    program = bind(SERVED.replace("size, rng", "rng").format(body="return database.sum() + 0 * rng.random()"))
    assert np.array_equal(draw(program, 3), np.full(3, 3.0))
    databases = np.arange(12).reshape(4, 3)
    assert np.array_equal(program.draw_each(databases, np.random.default_rng(1)), databases.sum(axis=1))
    bare = bind(BARE.format(greeting=GREETING, answer=ZEROS))
    assert bare.draw_each(databases, np.random.default_rng(1)) is None


STARTS = {  # what a program does instead of greeting, and a pattern of what is told
    "print('Loading the model', flush=True)": "wrote 'Loading the model' on its standard output where the line {.hpcdp.: 1} was",
    "sys.stdout.write('no end of line'); sys.exit(3)": "wrote 'no end of line'",
    "sys.stderr.write('no licence\\n'); sys.exit(3)": "ended with exit code 3; its standard error ends: no licence",
    "import missing_library": "ModuleNotFoundError: No module named 'missing_library'",
    'say({"hpcdp": 2})': "speaks version 2 of the protocol; accepted by this hpcdp: 1",
    "say(b'[1, 2]\\n')": r"wrote '\[1, 2\]'",
    "say(b'x' * 200_000 + b'\\n')": "wrote 'xxx",
    "say(b'[' * 60_000 + b'\\n')": r"wrote '\[\[\[",
    "os.kill(os.getpid(), 9)": "was ended by SIGKILL",
    "os.close(1); time.sleep(60)": "closed its standard output",
    "sys.stderr.write('waiting\\n'); sys.stderr.flush(); time.sleep(60)": (
        r"was not ready within 1.5 s.*its standard error ends: waiting"
    ),
}


@pytest.mark.parametrize("greeting", STARTS)
def test_programs_that_do_not_start_as_they_should(bind: Callable[..., ProgramMechanism], greeting: str) -> None:
    times = {"start_timeout": 1.5} if "waiting" in greeting else {}
    with pytest.raises(MechanismError, match=STARTS[greeting]) as caught:
        draw(bind(BARE.format(greeting=greeting, answer=ZEROS), **times))
    assert "\n" not in str(caught.value)


ANSWERS = {
    'print("thinking", flush=True)': "wrote 'thinking' on its standard output where an answer with id 1",
    'say({"id": 7, "dtype": "<f8", "shape": [size]})': "answer with id 1",
    'say({"id": id, "dtype": "<f8"})': "answer with id 1, dtype and shape, or error",
    'say({"id": id, "error": "epsilon is too large"})': "answered with an error: epsilon is too large",
    'say({"id": id, "dtype": ">f8", "shape": [size]})': "dtype '>f8'; accepted",
    'say({"id": id, "dtype": "O", "shape": [size]})': "dtype 'O'; accepted",
    'say({"id": id, "dtype": "<c16", "shape": [size]})': "dtype '<c16'; accepted",
    'say({"id": id, "dtype": 8, "shape": [size]})': "dtype 8; accepted",
    'say({"id": id, "dtype": "<f8", "shape": [size + 1]})': "shape [17]; accepted: [16] or [16, d]",
    'say({"id": id, "dtype": "<f8", "shape": [size, 2, 2]})': "shape [16, 2, 2]; accepted",
    'say({"id": id, "dtype": "<f8", "shape": [size, 0]})': "shape [16, 0]; accepted",
    'say({"id": id, "dtype": "<f8", "shape": [size, 1e3]})': "shape [16, 1000.0]; accepted",
    'say({"id": id, "dtype": "<f8", "shape": [size, 10**12]})': "announced 128,000,000,000,000 bytes",
    'say({"id": id, "dtype": "|S9999999", "shape": [size, 99]})': "accepted: at most 4,294,967,296",
    'say({"id": id, "dtype": "<f8", "shape": [size]}); say(bytes(8)); sys.exit(0)': "ended with exit code 0",
    'os.kill(os.getpid(), 11)': "was ended by SIGSEGV",
    'sys.stderr.write("\\n".join(f"line {i}" for i in range(99999)) + "\\n"); raise SystemExit("worse")': (
        "exit code 1; its standard error ends: line 99995 | line 99996 | line 99997 | line 99998 | worse"
    ),
    'time.sleep(60)': "did not answer within 0.5 s (mechanism.call.timeout)",
    'say({"id": id, "dtype": "<f8", "shape": [size]}); say(bytes(8)); time.sleep(60)': "did not answer within 0.5 s",
}  # fmt: skip


@pytest.mark.parametrize("answer", ANSWERS)
def test_programs_that_answer_nonsense_hang_or_die(bind: Callable[..., ProgramMechanism], answer: str) -> None:
    program = bind(BARE.format(greeting=GREETING, answer=f"if os.path.exists('bad'): {answer}\n    else: {ZEROS}"))
    (program.folder / "bad").touch()
    impatient = replace(program, timeout=0.5) if "sleep" in answer else program  # with the same process
    children = len(psutil.Process().children())
    with pytest.raises(MechanismError) as caught:
        draw(impatient)
    assert ANSWERS[answer] in str(caught.value)
    assert len(psutil.Process().children()) == children + (1 if "answered with an error" in str(caught.value) else 0)
    (program.folder / "bad").unlink()
    assert np.array_equal(draw(program), np.zeros(16)), "the next chunk finds a program that works"


def test_words_after_an_answer_are_shown(bind: Callable[..., ProgramMechanism]) -> None:
    program = bind(BARE.format(greeting=GREETING, answer=ZEROS + '; print("done!", flush=True); os.mkdir("said")'))
    draw(program)
    wait_until((program.folder / "said").is_dir, "the program has said it")
    with pytest.raises(MechanismError, match=r"wrote 'done!.n' on its standard output where nothing, after its answer"):
        draw(program)


def test_a_database_that_is_not_read_costs_a_time_out(bind: Callable[..., ProgramMechanism]) -> None:
    program = bind("import time\nprint('{\"hpcdp\": 1}', flush=True)\ntime.sleep(60)", timeout=0.5)
    with pytest.raises(MechanismError, match="did not answer within"):
        draw(program, database=np.zeros(1_000_000))


def of_folder(folder: Path) -> list[int]:
    """Processes of programs, and of what they started, that run in a folder."""
    found = []
    for process in psutil.process_iter(["cwd", "cmdline"]):
        words = process.info["cmdline"] or []
        if process.info["cwd"] == str(folder) and ("program.py" in words or "900" in words):
            found.append(process.pid)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("end", [None, signal.SIGTERM, signal.SIGKILL])
def test_no_program_outlives_its_run(end: int | None, tmp_path: Path) -> None:
    """Nor does its child, which reads nothing."""
    path = served(tmp_path, "time.sleep(0.001 * size if size > 100 else 0); return rng.random(size)")
    path.write_text(f"import subprocess, time\nsubprocess.Popen(['sleep', '900'])\n{path.read_text()}")
    size = 8000 if end else 200
    call = {"command": [sys.executable, "program.py"]}
    study = write_study(tmp_path, call=call, rows=[0], train=size, test=size)
    with started("run", study, "--workers", 2, folder=tmp_path) as process:
        if end is None:
            process.communicate(timeout=LONG)
        else:
            stored = (tmp_path / "runs" / "s.zarr").is_dir  # trial draws are over then
            wait_until(lambda: stored() and len(of_folder(tmp_path)) == 4, "both workers have a program with a child")
            process.send_signal(end)
        wait_until(lambda: not of_folder(tmp_path), "no program is left")


def test_the_helper_runs_on_old_pythons_and_prints_itself() -> None:
    text = Path(hpcdp.serve.__file__).read_text()
    ast.parse(text, feature_version=(3, 8))
    imported = {node.names[0].name for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Import)}
    assert imported <= {*sys.stdlib_module_names, "numpy"}
    done = subprocess.run([sys.executable, "-m", "hpcdp.serve"], capture_output=True, text=True, check=True)
    assert done.stdout == text


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["no-such-program-here"], "'no-such-program-here' is not on the PATH"),
        (["./absent"], "no executable file at"),
        (["./program.py"], "no executable file at"),
        (["/etc/passwd"], "no executable file at"),
    ],
)
def test_the_executable_must_be_there(tmp_path: Path, command: list[str], words: str) -> None:
    served(tmp_path)
    with pytest.raises(StudyError, match=r"mechanism\.call\.command") as caught:
        bind_program(command, 1.0, 1.0, {}, tmp_path)
    assert words in str(caught.value)
    with pytest.raises(StudyError, match=r"mechanism\.parameters: .*JSON"):
        bind_program(["sh"], 1.0, 1.0, {"scale": float("inf")}, tmp_path)


def test_the_digest_covers_the_files_that_the_command_names(tmp_path: Path) -> None:
    (tmp_path / "tool").write_text("1")
    (tmp_path / "data.bin").write_text("2")
    (tmp_path / "python").symlink_to(sys.executable)
    commands = [["./tool", "data.bin", "--fast"], ["./python", "data.bin"], ["python3", str(tmp_path / "data.bin")]]

    def digests() -> list[str]:
        return [program_digest(command, tmp_path) for command in commands]

    first = digests()
    assert first == digests()
    assert len(set(first)) == 3
    (tmp_path / "tool").write_text("3")
    second = digests()
    assert [a == b for a, b in zip(first, second, strict=True)] == [False, True, True]
    (tmp_path / "data.bin").write_text("4")
    assert not set(second) & set(digests())
    (tmp_path / "python").unlink()
    (tmp_path / "python").symlink_to("/bin/sh")
    assert program_digest(commands[1], tmp_path) == digests()[1]
