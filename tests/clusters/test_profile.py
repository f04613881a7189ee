"""Cluster profiles: those that are shipped parse and are planned with, the template has every key, mistakes are named."""

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from commands import call, write_study

from hpcdp.clusters.profile import Profile, Site, WorkerJob
from hpcdp.clusters.slurm import clock, outside_a_job
from hpcdp.errors import StudyError

SLURM = Path(__file__).parents[2] / "slurm"
SHIPPED = sorted(SLURM.glob("*.toml"))
TEMPLATE = SLURM / "template.toml"
SECTIONS = {name: field.annotation for name, field in Profile.model_fields.items()}
FOREIGN = [  # options with which a script is no job of a run
    *("--array=0-3", "--array 0-3", "--arr=0-1", "-a 0-3", "-a0-3", "--nice -Ha0", "--comment='x y' --array=1"),
    *("--job-name=x", "-Jx", "--wrap=true", "--test-only", "-W", "--wait", "-M other", "--hold --clusters=other"),
]
KEYS = [(section, key) for section, model in SECTIONS.items() for key in model.model_fields]


def profile(**changes: Any) -> dict[str, Any]:
    """The tables of a sound profile. changes: section__key = value, or section = table; None leaves the key out."""
    found: dict[str, Any] = {"worker": {"cores": 8, "memory": "16GB", "walltime": "4h"}, "size": {"jobs": 4}}
    for name, value in changes.items():
        section, _, key = name.partition("__")
        if key:
            table = found.setdefault(section, {})
            table[key] = value
            if value is None:
                del table[key]
        else:
            found[section] = value
    return found


def written(text: str) -> Iterator[tuple[str, str, Any, bool]]:
    """(section, key, value, whether it is in force) of every line of a profile that sets a key or shows how to."""
    section = ""
    for line in text.splitlines():
        if head := re.match(r"\[(\w+)\]", line):
            section = head[1]
        elif setting := re.fullmatch(r"(# )?((\w+) = .+)", line):
            yield section, setting[3], tomllib.loads(setting[2])[setting[3]], not setting[1]


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_study(tmp_path_factory.mktemp("study"), train=100, test=100)


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_profiles_can_be_planned_with(path: Path, study: Path) -> None:
    text = call("plan", study, "--profile", path).stdout
    slots = Profile.from_toml(path).slots
    assert f"a worker process, {slots:,} workers".replace(",", "") in text.replace(",", "")
    assert re.search(r"^  jobs +\d+ at once, \d+ in all, about \S+ node-hours \(\S+ core-hours\)$", text, re.M)
    assert "TOO" not in text


def test_what_is_shipped() -> None:
    assert {path.stem for path in SHIPPED} >= {"node128", "small", "template", "test"}
    small, found = (Profile.from_toml(SLURM / f"{name}.toml") for name in ("small", "node128"))
    assert (small.size.least, small.size.most, small.worker.slots) == (4, 4, 8)
    assert (found.worker.cores, found.worker.process_count, found.worker.threads) == (128, 128, 1)
    assert found.worker.memory == 128 * 2 * 2**30
    assert found.worker.library_threads == 1
    assert found.size.least < found.size.most
    text = (SLURM / "node128.toml").read_text()
    (blas,) = [line for line in text.splitlines() if line.startswith("# processes = ")]
    changed = Profile.from_dict(tomllib.loads(text.replace(blas, blas.removeprefix("# "))))
    assert f"128 / {changed.worker.process_count} = {changed.worker.library_threads} library threads" in text


def test_the_template_has_every_key_and_its_examples_and_defaults_are_right() -> None:
    lines = list(written(TEMPLATE.read_text()))
    assert {(section, key) for section, key, _, _ in lines} == set(KEYS)
    required = {(section, key) for section, key, _, in_force in lines if in_force}
    assert required == {("worker", "cores"), ("worker", "memory"), ("worker", "walltime"), ("size", "jobs")}
    for section, key, value, in_force in lines:
        if in_force or section == "size":
            continue
        part = getattr(Profile.from_dict(profile(**{f"{section}__{key}": value})), section)
        assert part.model_fields_set >= {key}
        default = SECTIONS[section].model_fields[key].default
        assert default in (None, ()) or getattr(part, key) == default, key
    sizes = {key: value for section, key, value, _ in lines if section == "size"}
    assert Profile.from_dict(profile(size={k: sizes[k] for k in ("minimum", "maximum")})).size.most == sizes["maximum"]
    nodes = Profile.from_dict(profile(cluster__driver="allocation", size={"nodes": sizes["nodes"]}))
    assert nodes.size.most == sizes["nodes"]


def test_durations_and_memory() -> None:
    durations = {
        "90s": 90, "10 min": 600, "2 m": 120, "30m": 1800, "8h": 28800, "2d": 172800, "30:00": 1800, "08:30:00": 30600,
        "1-12:00:00": 129600, "0-00:01:30": 90, "0-08:30:00": 30600,
    }  # fmt: skip
    for text, seconds in durations.items():
        found = Profile.from_dict(profile(worker__walltime=text, cluster__drain="45s"))
        assert (found.worker.walltime, found.driver_walltime, found.useful_seconds) == (seconds, seconds, seconds - 45)
    assert [clock(s) for s in (90, 30600, 129600)] == ["0-00:01:30", "0-08:30:00", "1-12:00:00"], "as SLURM reads them"
    memory = {"512MB": 2**29, "4GB": 2**32, "1.5TB": 3 * 2**39, "2G": 2**31, "64 MiB": 2**26}
    assert {text: Profile.from_dict(profile(worker__memory=text)).worker.memory for text in memory} == memory


DURATION = 'a duration such as "30s", "90m", "8h", "2d" or "1-12:00:00"'
MEMORY = 'an amount of memory such as "4GB" or "512MB"'
WORKER_KEYS = ", ".join(WorkerJob.model_fields)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"worker__core": 8}, f"worker.core: unknown key (given: 8); accepted: {WORKER_KEYS}"),
        ({"cluster__tsl": True}, f"cluster.tsl: unknown key (given: True); accepted: {', '.join(Site.model_fields)}"),
        ({"workers": {}}, "workers: unknown key (given: a table); accepted: cluster, worker, size, driver"),
        ({"worker__cores": None}, f"worker.cores: required and missing; accepted keys here: {WORKER_KEYS}"),
        ({"worker__walltime": "4 hours"}, f"worker.walltime: {DURATION}; given: '4 hours'"),
        ({"cluster__poll": "-1s"}, f"cluster.poll: {DURATION}; given: '-1s'"),
        ({"worker__memory": "lots"}, f"worker.memory: {MEMORY}; given: 'lots'"),
        ({"worker__cores": 0}, "worker.cores: at least 1; given: 0"),
        ({"cluster__system": "pbs"}, "cluster.system: 'slurm'; given: 'pbs'"),
        ({"cluster__driver": "login"}, "cluster.driver: 'elastic' or 'allocation'; given: 'login'"),
        ({"cluster__interface": "ib 0"}, "cluster.interface: one word without spaces; given: 'ib 0'"),
        ({"cluster__port": 70000}, "cluster.port: at most 65535; given: 70000"),
        ({"cluster__prologue": "module load x"}, "cluster.prologue: a list of lines of text; given: 'module load x'"),
        ({"worker__scratch": "a\nb"}, "worker.scratch: one line of text; given: 'a\\nb'"),
        ({"worker__threads": 2, "worker__processes": 8}, "processes × threads is at most cores = 8; given: 8 × 2"),
        ({"worker__processes": 9}, "processes × threads is at most cores = 8; given: 9 × 1"),
        ({"cluster__drain": "3h"}, "cluster.drain is at most half of worker.walltime = 14400 s; given: 10800 s"),
        ({"driver__walltime": "90s"}, "cluster.drain is at most half of driver.walltime = 90 s; given: 60 s"),
        ({"size": {"jobs": 0}}, "size.jobs: at least 1; given: 0"),
        ({"size": {"minimum": 5, "maximum": 2}}, "size.minimum is at most maximum = 2; given: 5"),
        ({"size": {"minimum": 2}}, "size.maximum is needed where minimum is given"),
        ({"size": {}}, "size: exactly one of: jobs | minimum and maximum | nodes"),
        ({"size": {"nodes": 2}}, 'size.nodes goes with cluster.driver = "allocation", jobs or maximum with "elastic"'),
        ({"cluster__driver": "allocation"}, 'size.nodes goes with cluster.driver = "allocation"'),
    ],
)
def test_mistakes_are_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(StudyError, match=re.escape(message)) as caught:
        Profile.from_dict(profile(**changes), "site.toml")
    assert str(caught.value).startswith("site.toml: ")


@pytest.mark.parametrize("line", FOREIGN)
def test_directives_that_make_a_script_no_job_of_ours(line: str) -> None:
    said = "options of sbatch but --array, --clusters, --job-name, --wait, --test-only, --wrap"
    for section in ("worker", "driver"):
        with pytest.raises(StudyError, match=rf"^site\.toml: {section}\.directives: {said}, .*{re.escape(line)}"):
            Profile.from_dict(profile(**{f"{section}__directives": ["--exclusive", line]}), "site.toml")
    with pytest.raises(StudyError, match=r"cluster\.prologue: options of sbatch but"):
        Profile.from_dict(profile(cluster__prologue=["module load x", f"#SBATCH {line}"]))


def test_a_refused_directive_leaves_nothing_behind(tmp_path: Path, study: Path) -> None:
    site = tmp_path / "site.toml"
    site.write_text((SLURM / "small.toml").read_text().replace("[worker]", '[worker]\ndirectives = ["--array=0-1"]'))
    for command in (["submit", study, "--profile", site], ["run", study, "--cluster", site]):
        said = call(*command, "--store", tmp_path / "s.zarr", code=2).stderr
        assert re.fullmatch(r"hpcdp: .*worker\.directives: options of sbatch but --array.*\n", said)
    assert not (tmp_path / "s.zarr").exists()


def test_directives_that_are_accepted() -> None:
    lines = ["--constraint=rome", "--account=a", "-A a", "--wait-all-nodes=1", "-p all", "--cpu-freq=high", "-c 4"]
    lines += ["--mail-type=ARRAY_TASKS", "--comment='the --array of old'", "--requeue", "--open-mode=append", "-t 1"]
    found = Profile.from_dict(profile(worker__directives=lines, cluster__prologue=["# --array", "module load x"]))
    assert found.worker.directives == tuple(lines)


def test_variables_that_rule_sbatch_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SBATCH_ARRAY_INX", "SBATCH_JOB_NAME", "SLURM_JOB_ID", "SBATCH_ACCOUNT", "SLURM_CONF"):
        monkeypatch.setenv(name, "1")
    found = outside_a_job()
    assert {name for name in found if name.startswith(("SLURM", "SBATCH"))} >= {"SBATCH_ACCOUNT", "SLURM_CONF"}
    assert not {"SBATCH_ARRAY_INX", "SBATCH_JOB_NAME", "SLURM_JOB_ID"} & set(found)


def test_every_mistake_is_named_at_once() -> None:
    with pytest.raises(StudyError, match=r"worker\.cores: .*; worker\.memory: .*size\.jobs: "):
        Profile.from_dict(profile(worker__cores=0, worker__memory="x", size__jobs=0))


def test_files_that_are_no_profiles(tmp_path: Path, study: Path) -> None:
    missing, broken = tmp_path / "missing.toml", tmp_path / "broken.toml"
    broken.write_text("[worker\n")
    for path, words in (
        (missing, f"cannot read the profile {missing}: No such file"),
        (broken, f"{broken} is not TOML: "),
    ):
        assert words in call("plan", study, "--profile", path, code=2).stderr


@pytest.mark.slow
def test_ctrl_c_stays_the_commands(tmp_path: Path) -> None:
    """dask-jobqueue handles it once it is imported, which a run does when it has begun: it would exit, and say nothing."""
    (tmp_path / "file").touch()
    script = f"""
import signal, sys
from pathlib import Path
from hpcdp.clusters import Where, connect
from hpcdp.clusters.slurm import JobFolder
from hpcdp.clusters.profile import Profile
from hpcdp.errors import StoreError

before = signal.getsignal(signal.SIGINT)
try:
    with connect(Where(Profile.from_toml("slurm/small.toml")), folder=JobFolder(Path("{tmp_path}/file"), "s")):
        raise AssertionError("there is no folder for its keys")
except StoreError:
    print("dask_jobqueue" in sys.modules, signal.getsignal(signal.SIGINT) is before)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=SLURM.parent, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.stdout == "True True\n", done.stderr
