"""Compiled kernels are kept between runs, and forgotten once a kernel that is compiled into them has changed."""

import importlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from commands import python, write_study
from numba.core.dispatcher import Dispatcher

import hpcdp
from hpcdp._base.compiling import UNKEPT, WORDS
from hpcdp._base.kernels import digest

HELD = "from hpcdp._base.kernels import kernel\n"
ASKED = "from hpcdp import caller; print(caller.twice(1.0)); print(sum(caller.twice.stats.cache_hits.values()))"


def _build(folder, files):
    """A copy of hpcdp in a folder, which has these files too; the folder."""
    shutil.copytree(Path(hpcdp.__file__).parent, folder / "hpcdp", ignore=shutil.ignore_patterns("__pycache__"))
    for name, text in files.items():
        (folder / "hpcdp" / name).write_text(text)
    return folder


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


DEEP = {
    "first.py": f"{HELD}MORE = 1.0\n\n@kernel()\ndef step(x):\n    return x + MORE\n",
    "called.py": f"{HELD}from hpcdp.first import step as first\n\n@kernel()\ndef step(x):\n    return first(x)\n",
    "caller.py": f"{HELD}from hpcdp.called import step\nfrom hpcdp.plain import SCALE\n\n"
    "@kernel()\ndef twice(x):\n    return SCALE * step(step(x))\n",
    "plain.py": "SCALE = 1.0\n",
}


@pytest.mark.slow
@pytest.mark.parametrize("changed, after", [("first.py", 5.0), ("plain.py", 6.0)])
def test_a_kernel_is_compiled_again_where_what_it_is_compiled_from_has_changed(changed, after, tmp_path):
    """A kernel of a kernel, of which numba knows nothing, or a plain value; a time of a file says nothing."""
    _build(tmp_path, DEEP)
    assert _ask(tmp_path) == (3.0, 0)
    os.utime(tmp_path / "hpcdp" / "caller.py")  # as another install of the same has it
    assert _ask(tmp_path) == (3.0, 1)  # kept
    (path := tmp_path / "hpcdp" / changed).write_text(DEEP[changed].replace(" = 1.0", " = 2.0"))
    os.utime(path, ns=(1, 1))  # as files of an older release may be
    assert _ask(tmp_path) == (after, 0)
    assert _ask(tmp_path) == (after, 1)


def test_what_kernels_take_from_other_files_is_in_the_digest(tmp_path):
    found = {digest(Path(hpcdp.__file__).parent)}
    _build(tmp_path, {})
    assert digest(tmp_path / "hpcdp") in found
    names = {"losses/_votes.py", "importance/sums.py", "importance/bounds.py", *_compiled()}
    assert "notions/_event_kernels.py" in names
    for name in names:
        with (tmp_path / "hpcdp" / name).open("a") as file:
            file.write("# more\n")
        found.add(digest(tmp_path / "hpcdp"))
    assert len(found) == 1 + len(names)


def _compiled():
    """Files of hpcdp with a function that numba compiles."""
    package = Path(hpcdp.__file__).parent
    for path in package.rglob("*kernels.py"):
        importlib.import_module(".".join(path.relative_to(package.parent).with_suffix("").parts))
    modules = [module for name, module in sys.modules.items() if name.startswith("hpcdp.")]
    functions = [value for module in modules for value in vars(module).values() if isinstance(value, Dispatcher)]
    return {Path(f.py_func.__code__.co_filename).relative_to(package).as_posix() for f in functions}


RACING = """
import sys, time
from pathlib import Path
import numpy as np
from numba.core.caching import IndexDataCacheFile as kept
from hpcdp import caller
own, other = sys.argv[1:]
index, write = kept._save_index, kept._save_data
def wait(what):  # for the other process, unless it is kept out
    for _ in range(200):
        if not Path(what).exists():
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
caller.total(np.ones(2, own))
"""


@pytest.mark.slow
def test_two_processes_that_keep_two_types_at_once_keep_both_right(tmp_path):
    """numba numbers what it keeps: without a lock it would read numbers of one type by the code of the other."""
    _build(tmp_path, {"caller.py": f"{HELD}\n@kernel()\ndef total(x):\n    return x[0] + x[1]\n"})
    racing = [_start(tmp_path, RACING, *pair) for pair in (("int", "float"), ("float", "int"))]
    assert [_ended(one)[0] for one in racing] == [0, 0]
    asked = "import numpy as np; from hpcdp import caller; print(*(caller.total(np.array(x)) for x in ([2, 1], [2.5, 1.5])))"
    assert _told(tmp_path, asked).split() == ["3", "4.0"]


def test_what_others_keep_stays_where_they_keep_it(tmp_path):
    """Kernels go into a folder of this user alone, below the home where nothing else is said."""
    asked = "from hpcdp.losses import _votes; import numba; print(repr(numba.config.CACHE_DIR))"
    home = {"NUMBA_CACHE_DIR": "", "XDG_CACHE_HOME": "", "HOME": str(tmp_path)}
    assert _ended(_start(tmp_path, asked, **home)) == (0, "''\n", "")
    folder = tmp_path / ".cache" / f"hpcdp-{os.getuid()}"
    assert [path.name for path in folder.iterdir()] == [f"hpcdp-{digest(Path(hpcdp.__file__).parent)}"]
    assert folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.slow
@pytest.mark.parametrize("is_free, told", [(True, [(0, WORDS), (1, "")]), (False, [(0, UNKEPT)] * 2)])
def test_kernels_for_which_numba_finds_no_folder(is_free, told, tmp_path):
    """They are kept among this user's temporary files, or compiled in each process where somebody else has that name."""
    _build(tmp_path, {"caller.py": f"{HELD}\n@kernel()\ndef twice(x):\n    return x + x\n"})
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
        return database.sum() + (double(0.5) * noise if name.read() == "hpcdp-child\\n" else noise)
"""


COMMAND = "import sys; from hpcdp.__main__ import main; sys.exit(main())"  # which forks no workers of its own


@pytest.mark.slow
@pytest.mark.parametrize("place, said", [(("--workers", "2"), [1, 0]), (("--workers", "1", "--dashboard"), [1])])
def test_a_command_says_once_that_its_workers_compile_kernels(place, said, tmp_path):
    study = write_study(tmp_path, COMPILES, call="own:noisy", keep="none")
    environment = {key: value for key, value in os.environ.items() if key != "OMP_NUM_THREADS"}
    words = ["-c", COMMAND, "run", study, *place, "--store"]
    told = [python(tmp_path, *words, f"{number}.zarr", env=environment).stderr for number in range(len(said))]
    assert [words.count(WORDS) for words in told] == said
    assert told[0].index(WORDS) < told[0].index("run: 100 %")
