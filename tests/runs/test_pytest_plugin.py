"""The pytest plugin, in runs of pytest of its own: in this process, and where a process is part of it in one of their own."""

import json
import re
import subprocess
import sys

import pytest

from hpcdp.notions.bounds import joint_lower

pytest_plugins = "pytester"
pytestmark = pytest.mark.slow
# What a run of pytest in this process loads, it unloads at its end, and Numba cannot be loaded twice.
joint_lower(1, 2, 0, 2, 1.0, 0.5)

SUITE = """
import numpy as np

D, D1 = np.array([0.0]), np.array([1.0])

def noisy(scale):
    def mechanism(database, size, rng):
        return database[0] + rng.laplace(0.0, scale, size)
    return mechanism

def small(database, size, rng):
    return database[0] + rng.laplace(0.0, 0.5, size)

def vectors(database, size, rng):
    return database[0] * np.array([0.0, 1.0]) + rng.laplace(0.0, 0.5, (size, 2))

def texts(database, rng):
    return "yes" if rng.random() < (0.9 if database[0] else 0.1) else "no"

def test_good(assert_private):
    assert_private(noisy(1.0), d=D, d_prime=D1, claim="dp(epsilon=1)", catches="laplace(epsilon=2)", seconds=5)

def test_small(assert_private):
    assert_private(small, d=D, d_prime=D1, claim="dp(epsilon=1)", catches="laplace(epsilon=2)", seconds=5)

def test_vectors(assert_private):
    assert_private(vectors, d=[0], d_prime=[1], claim="dp(epsilon=1)", catches="laplace(epsilon=2)", seconds=5)

def test_texts(assert_private):
    assert_private(texts, d=D, d_prime=D1, claim="dp(epsilon=1)", catches="dp(epsilon=2)", seconds=5)

def test_weak(assert_private):
    assert_private(small, d=D, d_prime=D1, claim="dp(epsilon=1)", catches="laplace(epsilon=1.01)", seconds=0.002)

def test_loop(assert_private):
    for scale in (1.0, 1.1, 1.2):
        assert_private(noisy(scale), d=D, d_prime=D1, claim="dp(epsilon=1)", catches="laplace(epsilon=2)", seconds=5)
"""


def run(pytester, *words):
    return pytester.runpytest_inprocess("-p", "no:randomly", *words)


def run_apart(pytester, *words):
    """As a user does: alarms, threads that go on and copies of a process are of a process of its own."""
    return pytester.runpytest_subprocess("-p", "no:randomly", *words)


def entries(pytester):
    return json.loads((pytester.path / "hpcdp-checks.json").read_text())["checks"]


def counts_of(result):
    """What each failed check counted, by its key: all that follows from its draws and its share."""
    text = result.stdout.str()
    keys = re.findall(r"^E .*PrivacyViolation: (\S+): dp", text, re.MULTILINE)
    told = re.findall(r"probability at most (\S+)\n(?:.*\n)*?.*counts in S: (.*)\n.*\n?.*seed (\S+):", text)
    assert len(keys) == len(told)
    return dict(zip(keys, told, strict=True))


@pytest.fixture(scope="module")
def declared(tmp_path_factory):
    """The declaration of the suite, made once."""
    folder = tmp_path_factory.mktemp("declared")
    (folder / "test_suite.py").write_text(SUITE)
    words = ["-q", "--hpcdp-declare", "-p", "no:cacheprovider", f"--rootdir={folder}", str(folder)]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1, done.stdout + done.stderr  # test_weak decides too seldom
    assert "6 skipped" in done.stdout  # nothing was tested, so nothing is green
    assert "nothing was tested" in done.stdout
    assert "test_weak#1" in done.stdout
    return (folder / "hpcdp-checks.json").read_text()


@pytest.fixture
def suite(pytester, declared, monkeypatch):
    """A folder with the suite and its declaration; not as in CI, where pytest says everything twice."""
    for name in ("CI", "BUILD_NUMBER"):
        monkeypatch.delenv(name, raising=False)
    pytester.makepyfile(test_suite=SUITE)
    (pytester.path / "hpcdp-checks.json").write_text(declared)
    return pytester


def test_the_entry_point_imports_nothing_heavy():
    code = (
        "import sys, hpcdp.testing.plugin; print(sorted({'numpy', 'scipy', 'numba', 'pydantic'} & sys.modules.keys()))"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


@pytest.mark.promise
def test_three_outcomes(suite):
    result = run_apart(suite, "-v")
    result.assert_outcomes(passed=2, failed=3, errors=1)
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*test_weak ERROR*"])
    text = result.stdout.str()
    weak = r"inconclusive: test_suite.py::test_weak#1 would find laplace\(epsilon=1.01\) with probability [\d.]+ %"
    assert re.search(weak, text)
    green = [line for line in text.splitlines() if "nothing found against" in line]
    assert len(green) == 4  # the loop's three
    assert all("laplace(epsilon=2) would have been found with probability" in line for line in green)
    assert all("no proof of privacy" in line for line in green)
    for part in ("certified (finite-sample)", "counts in S:", "seed 0x", "pair: D = d"):
        assert text.count(part) == 3, part
    assert "hpcdp/testing" not in text  # what is shown is the test's line


KINDS = """
import functools
import numpy as np
import pandas as pd
import pytest
from released import bytes_, told

D, D1 = np.array([1.0]), np.array([0.0])
CODES = np.array([200, 100], np.uint8)
PEOPLE = pd.DataFrame({"city": ["Bern", "Graz"]})
GIVEN = dict(claim="dp(epsilon=0.2)", catches="dp(epsilon=1)", seconds=5)

KINDS = {
    "text": ("yes", "no"), "like a sequence": ("[]", "[redacted"), "JSON": ('["a", "b"]', '["a"]'), "quotes": ("a'\\"\\n", "b"),
    "no JSON": ("[1]", "[NaN]"), "of one": ("a", '["a"]'),
}
FRAMES = {
    "one column": lambda is_yes: {"a": np.where(is_yes, "yes", "no")},
    "mixed": lambda is_yes: {"a": np.where(is_yes, "yes", "no"), "b": np.arange(is_yes.size) % 2},
    "numbers": lambda is_yes: {"a": is_yes.astype(int), "b": np.arange(is_yes.size) % 2},
    "times": lambda is_yes: {"a": pd.to_datetime(np.where(is_yes, "2024-01-01", "2024-01-02")), "b": "nan"},
    "missing": lambda is_yes: {"a": np.where(is_yes, "yes", None), "b": 1.5},
    "missing numbers": lambda is_yes: {"a": pd.Series(is_yes.astype(int)).astype("Int64").replace(1, pd.NA), "b": "x"},
}

def drawn(database, size, rng):
    return rng.random(size) < (0.9 if database[-1] == 1.0 else 0.1)

def texts(database, size, rng, *, kind):
    return np.where(drawn(database, size, rng), *KINDS[kind])

def frames(database, size, rng, *, kind):
    return pd.DataFrame(FRAMES[kind](drawn(database, size, rng)))

def row(database, rng):
    return frames(database, 1, rng, kind="mixed").iloc[0]

def nested(database, rng):
    return ("a", "b") if drawn(database, 1, rng)[0] else (("a",), "b")

def first_is_missing(database, size, rng):
    return drawn(np.isnan(database[:1]) * 1.0, size, rng)

def overflow(database, size, rng):  # as unsigned bytes add: 100 + 200 is 44
    return drawn([float(database.sum(dtype=database.dtype) < 100)], size, rng)

def rows(database, size, rng):
    return drawn([float(len(database) == 2)], size, rng)

def reverse(database, size, rng):  # the set that tells most is one that D' prints
    return rng.random(size) < (0.02 if database[-1] == 1.0 else 0.5)

def number(database, size, rng):
    return database[0] + rng.laplace(0.0, 0.4, size)

def vector(database, size, rng):
    return np.stack([number(database, size, rng), rng.random(size)], axis=1)

for name, f, kind in [*(("texts", texts, kind) for kind in KINDS), *(("frames", frames, kind) for kind in FRAMES)]:
    globals()[f"{name}_{kind.replace(' ', '_')}"] = functools.partial(f, kind=kind)
NAMED = [value for value in globals().values() if isinstance(value, functools.partial)]

@pytest.mark.parametrize("f", [*NAMED, row, nested, told, bytes_, reverse, number, vector])
def test_kinds(assert_private, f):
    assert_private(f, d=D, d_prime=D1, **GIVEN)

def test_missing(assert_private):
    assert_private(first_is_missing, d=np.array([np.nan, np.inf]), d_prime=np.array([0.0, -np.inf]), **GIVEN)

def test_bytes(assert_private):
    assert_private(overflow, d=CODES.copy(), d_prime=np.array([200], np.uint8), **GIVEN)

def test_people(assert_private):
    assert_private(rows, d=PEOPLE, d_prime=np.ones((0, 3)), **GIVEN)
"""
RELEASED = """
import numpy as np

def told(database, rng):
    return ("yes" if rng.random() < (0.9 if database[-1] else 0.1) else "no", 1.5, True)

def bytes_(database, size, rng):
    return np.where(rng.random(size) < (0.9 if database[-1] else 0.1), b"yes", b"no")
"""


@pytest.mark.promise
@pytest.mark.slow
def test_scripts_find_what_the_check_found_whatever_outputs_and_databases_are(pytester):
    """Randomised response of 0.9 in all dresses, and noise: scripts draw afresh, without hpcdp, and read outputs as it does."""
    pytester.makepyfile(test_kinds=KINDS, released=RELEASED)
    assert run_apart(pytester, "-q", "--hpcdp-declare").ret == 0
    text = run_apart(pytester, "-q").stdout.str()
    scripts = re.findall(r"recorded set -+\n(# test_kinds.*?no violation shown\"\)\n)", text, re.DOTALL)
    assert len(scripts) == len(re.findall(r"^E .* is violated$", text, re.MULTILINE)) == 22
    (pytester.path / "scripts.json").write_text(json.dumps(scripts))
    every = "import json, sys; sys.modules['hpcdp'] = None\nfor text in json.load(open('scripts.json')): exec(text, {})"
    words = [sys.executable, "-W", "error", "-c", every]
    ended = [subprocess.run(words, cwd=pytester.path, capture_output=True, text=True, check=False) for _ in range(2)]
    assert [done.returncode for done in ended] == [0, 0], ended
    said, again = (done.stdout.splitlines() for done in ended)
    assert len(said) == 22
    assert all(line.endswith(": violated") for line in said), said
    assert said != again, "draws are fresh each time"
    for script in scripts:
        assert len(script.splitlines()) <= 30
        by_value = [name for name in ("test_missing", "test_bytes") if f"::{name}#" in script]
        assert ("d = np.array" in script) == bool(by_value)  # else it is a global of the test's module


def test_shares_and_draws_are_those_of_the_declaration_whatever_is_collected(suite):
    whole = counts_of(run(suite))
    assert len(whole) == 3
    assert {told[0] for told in whole.values()} == {f"{1e-3 / 8:.2e}"}
    assert counts_of(run(suite, "-n", "2")) == whole
    alone = counts_of(run(suite, "-k", "vectors"))
    assert alone == {key: told for key, told in whole.items() if "vectors" in key}
    assert counts_of(run(suite, "--lf")) == whole
    backwards = "def pytest_collection_modifyitems(items):\n    items.reverse()\n"
    suite.makeconftest(backwards)
    assert counts_of(run(suite, "-k", "not loop")) == whole


@pytest.mark.promise
@pytest.mark.release
def test_fresh_draws_differ_and_their_salt_repeats_them(suite):
    first = run(suite, "--hpcdp-fresh", "-k", "small")
    again, plain = run(suite, "--hpcdp-fresh", "-k", "small"), run(suite, "-k", "small")
    assert len({str(counts_of(result)) for result in (first, again, plain)}) == 3
    (salt,) = set(re.findall(r"--hpcdp-salt=(\w+)", first.stdout.str()))
    assert counts_of(run(suite, f"--hpcdp-salt={salt}", "-k", "small")) == counts_of(first)
    workers = run(suite, "--hpcdp-fresh", "-n", "2", "-k", "small or texts")
    (salt,) = set(re.findall(r"--hpcdp-salt=(\w+)", workers.stdout.str()))
    assert counts_of(run(suite, f"--hpcdp-salt={salt}", "-k", "small or texts")) == counts_of(workers)


OTHERWISE = [  # what is changed of the suite, and what is said of it
    {
        "(1.0, 1.1, 1.2)": ("(1.0, 1.1, 1.2, 1.3)", "test_loop#4 is no declared check"),
        'catches="dp(epsilon=2)"': ('catches="dp(epsilon=3)"', "'dp(epsilon=2)' is declared"),
        "seconds=0.002": ("seconds=50", "seconds 50 was given, and 0.002 is declared"),
    },
    {
        "(1.0, 1.1, 1.2)": ("(1.0,)", "test_loop#2, test_suite.py::test_loop#3: declared and not made"),
        "def test_weak": ("def test_renamed", "test_renamed#1 is no declared check"),
    },
    {"(1.0, 1.1, 1.2)": ("()", "#1, test_suite.py::test_loop#2, test_suite.py::test_loop#3: declared and not")},
]


@pytest.mark.parametrize("changes", OTHERWISE)
def test_what_is_not_declared_is_an_error_and_no_pass(suite, changes):
    text = SUITE
    for old, (new, _) in changes.items():
        assert old in text
        text = text.replace(old, new)
    suite.makepyfile(test_suite=text)
    result = run(suite, "-k", "loop or renamed or texts or weak")
    for _, said in changes.values():
        assert said in result.stdout.str()
    assert result.parseoutcomes()["errors"] >= len(changes)


@pytest.mark.parametrize(
    "name, value, said",
    [
        ("draws", [1, 1, 2], "test_small#1 is not as it was declared"),
        ("power", 0.999, "test_small#1 is not as it was declared"),
        ("claim", "dp(epsilon=1.0)", "test_small#1 is not as it was declared"),
        ("weight", 5, "weights of 12 in all were given"),  # a leaked share
        ("level", 0.01, "declared at level 0.01, and its share is 0.000125 now"),
    ],
)
def test_a_declaration_that_is_edited_is_refused(suite, name, value, said):
    """A check of four draws would find nothing, and say that it would have; more than a share is more than the rate."""
    path = suite.path / "hpcdp-checks.json"
    content = json.loads(path.read_text())
    content["checks"]["test_suite.py::test_small#1"][name] = value
    path.write_text(json.dumps(content))
    result = run(suite, "-k", "small")
    result.assert_outcomes(errors=1)
    assert said in result.stdout.str()


def test_rates_that_are_not_those_of_the_declaration_are_refused(suite):
    for setting, said in {
        "false_alarm = 0.01": "was made for 0.001",
        "false_alarm = 1": "accepted: a number above 0 and below 1",
        "runs = 0": "accepted: a whole number from 1",
        "runs = 10": "hpcdp_false_alarm: 0.0001 was given, and hpcdp-checks.json was made for 0.001",
    }.items():
        suite.makeini(f"[pytest]\nhpcdp_{setting}\n")
        assert said in run(suite, "-k", "good").stdout.str()
    suite.makeini("[pytest]\n")
    (suite.path / "hpcdp-checks.json").unlink()
    result = run(suite, "-k", "good")
    assert f"hpcdp-checks.json: not there (in {suite.path}, the root folder of this run" in result.stdout.str()
    result.assert_outcomes(errors=1)


def test_a_check_that_is_added_changes_no_other_share_until_the_places_are_full(suite):
    before = entries(suite)
    assert len(before) == 8
    suite.makepyfile(test_more=SUITE.split("def test_small")[0].replace("test_good", "test_new"))
    result = run(suite, "--hpcdp-declare", "test_more.py")  # the ninth of eight places: all shares are halved
    assert "to be declared again, since shares changed: test_suite.py::test_good#1" in result.stdout.str()
    assert "its share is 6.25e-05 now" in run(suite, "-k", "test_good").stdout.str()
    assert run(suite, "--hpcdp-declare").ret == 1  # test_weak is inconclusive
    assert run(suite, "--hpcdp-declare", "-k", "not weak").ret == 0
    after = entries(suite)
    assert {entry["level"] for entry in after.values()} == {1e-3 / 16}
    suite.makepyfile(test_even_more=(suite.path / "test_more.py").read_text())
    run(suite, "--hpcdp-declare", "test_even_more.py")
    assert {key: entries(suite)[key] for key in after} == after


def test_reruns_are_refused(suite):
    marked = SUITE.replace("def test_good", "import pytest\n@pytest.mark.flaky\ndef test_good")
    suite.makepyfile(test_suite=marked)
    suite.makeini("[pytest]\nmarkers = flaky\n")
    result = run(suite, "-k", "good")
    assert "a mark that runs it again given; accepted: a privacy check that is run once" in result.stdout.str()
    suite.makepyfile(test_suite=SUITE)
    suite.makeconftest("def pytest_addoption(parser):\n    parser.addoption('--reruns', type=int, default=0)\n")
    result = run(suite, "-k", "good", "--reruns", "2")
    assert "--reruns given" in result.stdout.str()
    result.assert_outcomes(errors=1)
    run(suite, "-k", "good").assert_outcomes(passed=1)  # the option is there, and not given


STOP = "import contextlib, signal, pytest\ndef stop(*_):\n    pytest.fail('Timeout')\nsignal.signal(signal.SIGALRM, stop)\n"
HANGS = "def small(database, size, rng):\n    signal.alarm(1)\n    while True:\n        pass\n"
RAISES = "def small(database, size, rng):\n    raise TimeoutError('too late')\n"
SMALL_CALL = '    assert_private(small, d=D, d_prime=D1, claim="dp(epsilon=1)"'


@pytest.mark.parametrize("case", [pytest.param("weak", marks=pytest.mark.promise), "small"])
def test_a_test_that_catches_what_a_check_raises_is_an_error_and_no_pass(suite, case):
    """That it is inconclusive, or what ended it early."""
    catcher = f"    with contextlib.suppress({'Exception' if case == 'weak' else 'BaseException'}):\n    {SMALL_CALL}"
    assert SUITE.count(SMALL_CALL) == 2
    changed = SUITE.replace(SMALL_CALL, catcher)
    suite.makepyfile(
        test_suite=STOP + (changed if case == "weak" else changed.replace("def test_good", f"{HANGS}\ndef test_good"))
    )
    result = (run if case == "weak" else run_apart)(suite, "-k", case)
    result.assert_outcomes(passed=1, errors=1)
    assert result.ret == 1
    assert "passed, though it caught what its checks raised" in result.stdout.str()
    said = {"weak": "Inconclusive: inconclusive: test_suite.py::test_weak#1", "small": "Failed: Timeout"}
    assert said[case] in result.stdout.str()


@pytest.mark.parametrize("body", [HANGS, RAISES])
def test_what_ends_a_check_early_is_never_green(suite, body):
    suite.makepyfile(test_suite=SUITE.replace("def test_good", f"{STOP}{body}\ndef test_good"))
    result = run_apart(suite, "-k", "small")
    assert result.ret == 1
    assert "passed" not in result.parseoutcomes()
    assert "is violated" not in result.stdout.str()


@pytest.mark.parametrize(
    ("claim", "catches", "said"),
    [
        ("dp(epsilon=1)", "dp(epsilon=0.5)", "which dp(epsilon=1) allows"),
        ("dp(epsilon=1)", "dp(epsilon=two)", "epsilon"),
        ("dp(epsilon=1e9)", "dp(epsilon=2e9)", "at most"),
    ],
)
def test_what_cannot_be_declared_is_an_error_of_its_own_test(pytester, claim, catches, said):
    """And all other checks are declared."""
    given = 'claim="dp(epsilon=1)", catches="dp(epsilon=2)"'
    pytester.makepyfile(test_suite=SUITE.replace(given, f'claim="{claim}", catches="{catches}"'))
    result = run(pytester, "--hpcdp-declare", "-k", "texts or small")
    result.assert_outcomes(errors=1, skipped=1, deselected=4)
    assert said in result.stdout.str()
    assert [*entries(pytester)] == ["test_suite.py::test_small#1"]


def test_declaring_needs_one_process(suite):
    result = run(suite, "--hpcdp-declare", "-n", "2")
    assert "accepted: in one process" in result.stderr.str()
    assert result.ret == 4


def test_verdicts_are_recorded_until_the_code_changes(suite):
    unseeded = SUITE.replace(
        "def small(database, size, rng):", "def small(database, size):\n    rng = np.random.default_rng()"
    )
    suite.makepyfile(test_suite=unseeded)
    suite.makeini("[pytest]\nhpcdp_record = true\n")
    first, again = run(suite, "-k", "small or good"), run(suite, "-k", "small or good")
    assert "a rerun draws anew, which adds another chance of a false alarm" in first.stdout.str()
    assert again.stdout.str().count("the recorded verdict: nothing was drawn anew") == 2
    counts = [re.findall(r"counts in S: (.*)", result.stdout.str()) for result in (first, again)]
    assert counts[0] == counts[1]
    assert "no proof of privacy" in again.stdout.str()
    for database in ("D, D1 = np.array([0.5])", "D, D1 = np.array([0.0]), np.array([0.5]) #"):
        suite.makepyfile(test_suite=unseeded.replace("D, D1 = np.array([0.0])", database))
        other = run(suite, "-k", "good").stdout.str()
        assert "test_good#1: nothing found" in other
        assert "recorded verdict" not in other
    suite.makepyfile(test_suite=unseeded.replace("rng.laplace(0.0, 0.5, size)", "rng.laplace(0.0, 0.51, size)"))
    other = run(suite, "-k", "small")
    assert "recorded verdict" not in other.stdout.str()
    assert re.findall(r"counts in S: (.*)", other.stdout.str()) != counts[0]


CALL = 'assert_private(small, d=D, d_prime=D1, claim="dp(epsilon=1)", catches="laplace(epsilon=2)", seconds=5)'
TRY = f"    try:\n        {CALL}\n    except AssertionError:\n"
FIXTURE = "@pytest.fixture\ndef checked(assert_private):\n"
MARK = "@pytest.mark.xfail(strict=%s)\n"
TEST, FIXED = "def test(assert_private):\n", "\ndef test(checked):\n    pass\n"
HIDDEN = {  # tests of a violation, with what pytest says of them
    "skip": (f"{TEST}{TRY}        pytest.skip('flaky')\n", "skipped"),
    "xfail": (f"{TEST}{TRY}        pytest.xfail('flaky')\n", "xfailed"),
    "return": (f"{TEST}{TRY}        return\n", "passed"),
    "skip_after": (f"{TEST}{TRY}        pass\n    pytest.importorskip('no_such_module')\n", "skipped"),
    "marked": (f"{MARK % False}{TEST}{TRY}        pass\n", "xpassed"),
    "marked_and_fails": (f"{MARK % True}{TEST}{TRY}        1 / 0\n", "xfailed"),
    "marked_xfail": (f"{MARK % True}{TEST}{TRY}        pytest.xfail()\n", "xfailed"),
    "fixture": (f"{FIXTURE}{TRY}        pass\n{FIXED}", "passed"),
    "fixture_skips": (f"{FIXTURE}{TRY}        pytest.skip('flaky')\n{FIXED}", "skipped"),
    "end_of_fixture": (f"{FIXTURE}    yield\n{TRY}        pass\n{FIXED}", "passed"),
    "group": (
        f"{TEST}    try:\n        try:\n            {CALL}\n        except AssertionError as error:\n"
        "            raise ExceptionGroup('all', [error])\n    except ExceptionGroup:\n        pytest.skip('flaky')\n",
        "skipped",
    ),
}
SHOWN = {  # tests that hide nothing
    "expected": (f"{MARK % False}{TEST}    {CALL}\n", "xfailed"),
    "group": (
        f"{TEST}    try:\n        {CALL}\n    except AssertionError as error:\n        raise ExceptionGroup('all', [error])\n",
        "failed",
    ),
    "skip": (f"{TEST}    pytest.skip('not here')\n", "skipped"),
}


def outcomes_of(suite, tests, run=run):
    """What pytest says of each test, each of which makes the check of test_small; and all that it prints."""
    texts = [text.replace("def test(", f"def test_{name}(") for name, (text, _) in tests.items()]
    texts = [text.replace("checked", f"checked_{name}") for name, text in zip(tests, texts, strict=True)]
    suite.makepyfile(test_suite="\n".join(["import pytest", SUITE[: SUITE.index("def test_good")], *texts]))
    path = suite.path / "hpcdp-checks.json"
    content = json.loads(path.read_text())
    entry = content["checks"]["test_suite.py::test_small#1"]
    content["checks"] = {f"test_suite.py::test_{name}#1": entry for name in tests}
    path.write_text(json.dumps(content))
    result = run(suite, "-v")
    said = re.findall(r"^test_suite.py::test_(\w+) ([A-Z]+)", result.stdout.str(), re.MULTILINE)
    return {name: [what.lower() for of, what in said if of == name] for name in tests}, result


WORDS = {"xfailed": "xfail", "xpassed": "xpass"}


@pytest.mark.parametrize("names", [[*HIDDEN][:6], [*HIDDEN][6:]])  # a declaration of the suite has eight places
def test_a_verdict_that_is_caught_is_an_error_whatever_the_test_becomes(suite, names):
    said, result = outcomes_of(suite, {name: HIDDEN[name] for name in names})
    text = result.stdout.str()
    for name in names:
        outcome = HIDDEN[name][1]
        assert said[name] == [WORDS.get(outcome, outcome), "error"]
        how = {"xfailed": "expected to fail", "xpassed": "passed"}.get(outcome, outcome)
        assert f"test_suite.py::test_{name}: {how}, though it caught what its checks raised" in text
        assert f"PrivacyViolation: test_suite.py::test_{name}#1: dp(epsilon=1) is violated" in text


def test_what_pytest_shows_is_not_said_again(suite):
    said, result = outcomes_of(suite, SHOWN)
    assert said == {name: [WORDS.get(outcome, outcome)] for name, (_, outcome) in SHOWN.items()}
    assert "it caught" not in result.stdout.str()
    assert result.stdout.str().count("fresh draws against the recorded set") == 1


def test_a_mark_that_expects_any_failure_covers_violations_alone(suite):
    for mark, outcomes in (
        ("xfail(strict=True)", {"xfailed": 1, "errors": 1}),
        ("xfail(strict=True, raises=AssertionError)", {"errors": 1}),
        ("xfail(strict=True, raises=hpcdp.errors.HpcdpError)", {"xfailed": 1}),
        ("xfail(strict=True, raises=None)", {"xfailed": 1, "errors": 1}),
        ("xfail(False, reason='', raises=ValueError)\n@pytest.mark.xfail(strict=True)", {"xfailed": 1, "errors": 1}),
    ):
        marked = f"import hpcdp.errors, pytest\n@pytest.mark.{mark}\ndef test_weak"
        suite.makepyfile(test_suite=SUITE.replace("def test_weak", marked))
        result = run(suite, "-k", "weak")
        result.assert_outcomes(**outcomes)
        assert ("Inconclusive: inconclusive" in result.stdout.str()) == ("errors" in outcomes)


@pytest.mark.skipif(not hasattr(pytest, "Subtests"), reason="this pytest has no subtests")
@pytest.mark.parametrize("hidden", [False, True])
def test_a_violation_in_a_subtest_is_a_failure_and_caught_an_error(suite, hidden):
    call = CALL.replace("small", "noisy(scale)")
    inside = f"try:\n    {call}\nexcept AssertionError:\n    pytest.skip('flaky')" if hidden else call
    inside = "\n".join(" " * 12 + line for line in inside.splitlines())
    loop = "def test_loop(assert_private, subtests):\n    for scale in (1.0, 0.5, 1.2):\n"
    loop += "        with subtests.test(scale=scale):\n"
    suite.makepyfile(test_suite=f"import pytest\n{SUITE[: SUITE.index('def test_loop')]}{loop}{inside}\n")
    result = run(suite, "-k", "loop")
    said = result.stdout.str()
    assert result.ret == 1
    assert ("though it caught what its checks raised" in said) == hidden
    assert said.count("nothing found against") == 2
    assert ("SUBFAILED" in said) != hidden


FORK = f"    if not os.fork():\n        try:\n            {CALL}\n        finally:\n            os._exit(0)\n    os.wait()\n"
LATE = "def late(database, size, rng):\n    begun.set()\n    time.sleep(1.0)\n    return small(database, size, rng)\n"
LATER = f"    threading.Thread(target=lambda: {CALL.replace('small', 'late')}, daemon=True).start()\n    begun.wait()\n"
ELSEWHERE = {  # tests whose checks are made in a copy of the process, or end after them; what pytest says, and why
    "fork": (f"{TEST}{FORK}", "passed", "a check ran in another process"),
    "beside": (
        f"{TEST}    {CALL.replace('small', 'noisy(1.0)')}\n{FORK}    pytest.skip('done')\n",
        "skipped",
        "a check ran in another process",
    ),
    "late": (f"begun = threading.Event()\n{LATE}{TEST}{LATER}", "passed", "1 of its checks had not ended"),
}


def test_a_check_in_another_process_or_that_has_not_ended_is_an_error_of_its_test(suite):
    tests = {name: (text, outcome) for name, (text, outcome, _) in ELSEWHERE.items()}
    tests = {"imports": ("import os, threading, time", ""), **tests, "after": SHOWN["skip"]}
    said, result = outcomes_of(suite, tests, run_apart)
    assert said["after"] == ["skipped"], "what another test left is not said of it"
    for name, (_, outcome, why) in ELSEWHERE.items():
        assert said[name] == [outcome, "error"]
        assert f"test_suite.py::test_{name}: {outcome}, though {why}" in result.stdout.str()
    assert result.ret == 1
