"""What the commands of jobs do with their parsed arguments: submit, logs, cancel, certificate, cluster-test."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from hpcdp._base.asked import typed
from hpcdp.cli._computing import plan_of, print_plan, say
from hpcdp.errors import DONE, FAILED, StudyError
from hpcdp.store.layout import Layout
from hpcdp.store.records import foreign
from hpcdp.store.root import open_latest


def submit(options: argparse.Namespace) -> None:
    """Put a whole run on a cluster as a job."""
    from hpcdp.clusters import Where, slurm
    from hpcdp.clusters.folder import driver_name, job_folder
    from hpcdp.clusters.profile import Profile
    from hpcdp.clusters.submit import refuse_second_driver, submit_driver
    from hpcdp.driver.driver import read_study, store_problem
    from hpcdp.study.resolving import resolve
    from hpcdp.study.versions import refuse_other_study

    profile = Profile.from_toml(options.profile)
    slurm.check_installed()
    study, store = read_study(options.study, options.store)
    text = Path(options.profile).read_text(encoding="utf-8")
    problem, trial = resolve(study, say, profile.worker.library_threads)
    refuse_other_study(store, problem, options.allow_changed_code)
    print_plan(plan_of(options, store, problem, trial, Where(profile)))
    folder = job_folder(Layout(store), study.name)
    refuse_second_driver(folder)
    ended = {job.id for job in slurm.jobs_named([driver_name(folder.name)]) if not job.is_active}
    store_problem(problem, store, options.allow_changed_code, options.trust_code, ended)
    print(submit_driver(profile, text, folder, store.resolve(), options.trust_code), flush=True)
    path = typed(store)
    print(f"store: {store}; see hpcdp status {path}, hpcdp logs {path}, hpcdp cancel {path}", file=sys.stderr)


def logs(options: argparse.Namespace) -> None:
    """Print the ends of the logs of a store's jobs."""
    from hpcdp.report.status import logs

    for line in logs(_folder_of(options.store), options.lines, options.job):
        print(line)


def cancel(options: argparse.Namespace) -> None:
    """End a run and its jobs."""
    from hpcdp.clusters import slurm
    from hpcdp.clusters.submit import cancel

    slurm.check_installed()
    for line in cancel(Layout(options.store), _folder_of(options.store)):
        print(line)


def _folder_of(store: Path) -> Any:
    """The folder of a store's jobs; StudyError when there is no store."""
    from hpcdp.clusters.folder import job_folder
    from hpcdp.study.stored import stored_study

    with foreign(store):
        layout, version = open_latest(store)
        return job_folder(layout, stored_study(layout, version).name)


def certificate(options: argparse.Namespace) -> None:
    """Make a certificate for a scheduler of the user's own."""
    from hpcdp.clusters.certificates import Certificate

    if options.folder.exists():
        raise StudyError(f"FOLDER: one that does not exist yet; given: {options.folder}")
    print(Certificate.create(options.folder).exports())


def cluster_test(options: argparse.Namespace) -> int:
    """Do a small task on each node of a few jobs, and say what is wrong; the exit code is 1 if anything is."""
    from hpcdp.clusters import check_profile, silence_dask
    from hpcdp.clusters.cluster_test import try_cluster
    from hpcdp.clusters.profile import Profile

    profile = Profile.from_toml(options.profile)
    check_profile(profile)
    if not options.debug:
        silence_dask()
    nodes = options.nodes or max(1, profile.size.least)
    if nodes > profile.size.most:
        raise StudyError(f"--nodes: at most {profile.size.most}, the jobs of {options.profile}; given: {nodes}")
    wrong = try_cluster(profile, nodes, options.wait, say)
    for line in wrong:
        print(f"wrong: {line}")
    if not wrong:
        print(f"{options.profile} works: every process of {nodes} job{'s' if nodes > 1 else ''} did its task")
    return FAILED if wrong else DONE
