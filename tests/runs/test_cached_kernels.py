"""Compiled kernels are kept between runs, and forgotten once a kernel that is compiled into them has changed."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from commands import write_study

from hpcdp._base.compiling import UNKEPT, WORDS

OWN, BARE = "from hpcdp._base.kernels import kernel", "import numba\nkernel = lambda: numba.njit(cache=True)"
CALLER = "from called import step\n\n@kernel()\ndef twice(x):\n    return step(step(x))\n"
ASKED = "import caller; print(caller.twice(1.0)); print(sum(caller.twice.stats.cache_hits.values()))"


def _called(folder, what, changed):
    path = folder / "called.py"
    path.write_text(f"{what}\n\n@kernel()\ndef step(x):\n    return x + {changed}\n")
    os.utime(path, ns=(when := 10**18 + 10**9 * changed, when))  # of another time than before, in the past
    return path


def _start(folder, program, *arguments, **variables):
    """Python with the files of a folder, which keeps kernels there unless variables of its environment say otherwise."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder / "kept"), "PYTHONPATH": str(folder), **variables}
    words = [sys.executable, "-B", "-c", program, *arguments]
    pipe = subprocess.PIPE
    return subprocess.Popen(words, env=environment, cwd=folder, stdout=pipe, stderr=pipe, text=True)


def _ended(started):
    """Its exit code, standard output and standard error."""
    with started:
        said = started.communicate(timeout=300)
    return started.returncode, *said


def _told(folder, program):
    code, out, error = _ended(_start(folder, program))
    assert code == 0, error
    return out


def _ask(folder):
    value, hits = _told(folder, ASKED).split()
    return float(value), int(hits)


@pytest.mark.slow
@pytest.mark.parametrize("what, after", [(OWN, 5.0), (BARE, 3.0)], ids=["own", "numba's alone"])
def test_a_kernel_is_compiled_again_where_what_it_calls_has_changed(tmp_path, what, after):
    (tmp_path / "caller.py").write_text(f"{what}\n{CALLER}")
    os.utime(tmp_path / "caller.py", ns=(10**18, 10**18))
    _called(tmp_path, what, 1)
    assert _ask(tmp_path) == (3.0, 0)
    os.utime(tmp_path / "caller.py")
    os.utime(_called(tmp_path, what, 1))  # as another install of the same has it
    assert _ask(tmp_path) == (3.0, 1)  # kept
    os.utime(_called(tmp_path, what, 2), ns=(1, 1))  # as files of an older release may be
    assert _ask(tmp_path)[0] == after  # numba alone, which compares the caller's own file, is wrong
    assert _ask(tmp_path) == (after, 1)


DEEP = {
    "first.py": "MORE = 1.0\n\n@kernel()\ndef step(x):\n    return x + MORE\n",
    "called.py": "from first import MORE, step as first\n\n@kernel()\ndef step(x):\n    return first(x)\n",
    "caller.py": "from called import step\nfrom plain import SCALE\n@kernel()\ndef twice(x):\n    return SCALE * step(step(x))\n",
    "plain.py": "SCALE = 1.0\n",
}


@pytest.mark.slow
@pytest.mark.parametrize("changed, after", [("first.py", 5.0), ("plain.py", 6.0)])
def test_what_kernels_of_kernels_and_plain_values_are_counts_too(changed, after, tmp_path):
    for name, text in DEEP.items():
        (tmp_path / name).write_text(f"{OWN}\n{text}")
    assert _ask(tmp_path) == (3.0, 0)
    assert _ask(tmp_path) == (3.0, 1)
    (tmp_path / changed).write_text(f"{OWN}\n{DEEP[changed]}".replace(" = 1.0", " = 2.0"))
    assert _ask(tmp_path) == (after, 0)


@pytest.mark.slow
def test_numbers_of_numpy_and_options_count_too(tmp_path):
    """Of a file of which no kernel is known."""
    (tmp_path / "caller.py").write_text(
        f"import numpy as np\n{OWN}\nfrom called import STEP, OPTIONS\n"
        "@kernel(**OPTIONS)\ndef twice(x):\n    return x + STEP + (1.0 / np.float64(STEP - STEP) > 1.0)\n"
    )
    text = "import numpy as np\nSTEP = np.int64(1)\nOPTIONS = dict(error_model='numpy')\n"
    (tmp_path / "called.py").write_text(text)
    assert _ask(tmp_path) == (3.0, 0)
    assert _ask(tmp_path) == (3.0, 1)
    (tmp_path / "called.py").write_text(text.replace("int64(1)", "int64(2)"))
    assert _ask(tmp_path) == (4.0, 0)
    (tmp_path / "called.py").write_text(text.replace("'numpy'", "'python'"))
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        _ask(tmp_path)


@pytest.mark.slow
def test_who_ends_while_a_changed_kernel_is_kept_leaves_none_of_before(tmp_path):
    """numba writes which file holds a kernel, and then that file."""
    (tmp_path / "caller.py").write_text(f"{OWN}\n{CALLER}")
    _called(tmp_path, OWN, 1)
    assert _ask(tmp_path) == (3.0, 0)
    _called(tmp_path, OWN, 2)
    ends = (
        "import os; from numba.core.caching import IndexDataCacheFile as kept;"
        " kept._save_data = lambda *_: os._exit(7); import caller; caller.twice(1.0)"
    )
    assert _ended(_start(tmp_path, ends))[0] == 7
    assert _ask(tmp_path)[0] == 5.0


RACING = """
import os, sys, time
from pathlib import Path
from numba.core.caching import IndexDataCacheFile as kept
import caller
own, other = sys.argv[1:]
index, write = kept._save_index, kept._save_data
def wait(what):
    while not Path(what).exists():
        time.sleep(0.01)
def indexed(self, found):
    Path(f"{own} has read").touch()
    wait(f"{other} has read")
    wait("int is indexed") if own == "float" else None
    index(self, found)
    Path(f"{own} is indexed").touch()
def written(self, name, data):
    wait("float is written") if own == "int" else None
    write(self, name, data)
    Path(f"{own} is written").touch()
kept._save_index, kept._save_data = indexed, written
caller.twice({"int": 1, "float": 1.5}[own])
"""


@pytest.mark.slow
def test_two_processes_that_keep_two_types_at_once_keep_both_right(tmp_path):
    (tmp_path / "caller.py").write_text(f"{OWN}\n\n@kernel()\ndef twice(x):\n    return x / 2 + x\n")
    racing = [_start(tmp_path, RACING, *pair) for pair in (("int", "float"), ("float", "int"))]
    assert [_ended(one)[0] for one in racing] == [0, 0]
    for first, second in ((2, 2.5), (2.5, 2)):
        told = _told(tmp_path, f"import caller; print(caller.twice({first}), caller.twice({second}))")
        assert sorted(told.split()) == ["3.0", "3.75"]


@pytest.mark.slow
def test_a_kept_kernel_is_loaded_without_what_compiles_it(tmp_path):
    """And what somebody else compiles after it, with numba's own functions and with ours, is right."""
    (tmp_path / "filled.py").write_text(
        f"import numpy as np\n{OWN}\n\n@kernel()\ndef ramp(n):\n    out = np.zeros(n)\n    for i in range(n):\n"
        "        out[i] = i\n    return out\n"
    )
    asked = "import filled, sys; print(filled.ramp(4).tolist(), 'numba.np.linalg' in sys.modules)"
    told = [_told(tmp_path, asked) for _ in range(2)]
    assert told == ["[0.0, 1.0, 2.0, 3.0] True\n", "[0.0, 1.0, 2.0, 3.0] False\n"]
    asked = (
        "import filled, numba, numpy as np; x = filled.ramp(4)\n"
        "@numba.njit\ndef more(a):\n    return np.linalg.norm(a) + filled.ramp(3).sum() + np.searchsorted(a, 2.0)\n"
        "print(round(more(x), 6))"
    )
    assert float(_told(tmp_path, asked)) == pytest.approx(14**0.5 + 3 + 2, abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("is_free, told", [(True, [(0, WORDS), (1, "")]), (False, [(0, UNKEPT)] * 2)])
def test_kernels_for_which_numba_finds_no_folder(is_free, told, tmp_path):
    """They are kept among this user's temporary files, or compiled in each process where somebody else has that name."""
    (tmp_path / "caller.py").write_text(f"{OWN}\n\n@kernel()\ndef twice(x):\n    return x + x\n")
    (tmp_path / "__pycache__").touch()  # no folder can be made there, nor in the home, also by root
    (temporary := tmp_path / "temporary").mkdir()
    if not is_free:
        (temporary / f"hpcdp-{os.getuid()}").touch()
    nowhere = {"NUMBA_CACHE_DIR": "", "HOME": "/dev/null", "XDG_CACHE_HOME": "/dev/null", "TMPDIR": str(temporary)}
    asked = f"import sys; from hpcdp._base import compiling as c; c.tell_by(lambda: sys.stderr.write(c.words)); {ASKED}"
    for hits, words in told:
        assert _ended(_start(tmp_path, asked, **nowhere)) == (0, f"2.0\n{hits}\n", words)


COMPILES = """
from hpcdp._base.kernels import kernel


@kernel()
def double(x):
    return x + x


def noisy(database, size, rng):
    noise = rng.laplace(size=size)
    with open("/proc/self/comm") as name:  # trial draws compile nothing
        return database.sum() + (double(0.5) * noise if name.read() == "hpcdp-worker\\n" else noise)
"""


COMMAND = "import sys; from hpcdp.__main__ import main; sys.exit(main())"  # which forks no workers of its own


@pytest.mark.slow
@pytest.mark.parametrize("place, said", [(("--workers", "2"), [1, 0]), (("--workers", "1", "--dashboard"), [1])])
def test_a_command_says_once_that_its_workers_compile_kernels(place, said, tmp_path):
    study = write_study(tmp_path, COMPILES, call="own:noisy", keep="none")
    environment = {key: value for key, value in os.environ.items() if key != "OMP_NUM_THREADS"}
    told = [
        subprocess.run(
            [sys.executable, "-c", COMMAND, "run", study, "--store", tmp_path / f"{number}.zarr", *place],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        ).stderr
        for number in range(len(said))
    ]
    assert [words.count(WORDS) for words in told] == said
    assert told[0].index(WORDS) < told[0].index("run: 100 %")
