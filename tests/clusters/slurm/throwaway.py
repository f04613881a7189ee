"""A real SLURM of one's own on this machine: controller, nodes and munge in one folder, gone afterwards."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import psutil

PATH = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"  # the daemons live in sbin
PROGRAMS = ["munged", "munge", "slurmctld", "slurmd", "slurmstepd"]
PROGRAMS += ["sbatch", "scancel", "scontrol", "squeue", "srun"]
FOREIGN = ("SLURM", "SALLOC_", "SBATCH_", "SCANCEL_", "SQUEUE_", "SRUN_")  # settings for another SLURM
LONGEST_PATH = 65  # slurmstepd's socket is FOLDER/spool/NODE/NODE_JOB.STEP, and a socket's path has at most 107 bytes
PORT_BLOCK = 64  # ports reserved for one cluster, and so one more than it may have nodes
KILL_WAIT = 3  # seconds from SIGTERM to SIGKILL
NODE_TIMEOUT = 15  # seconds without an answer until a node counts as lost; SLURM notices it up to 25 seconds later
REQUEUE_WAIT = 10  # seconds until a requeued job may start again
USABLE = {"IDLE", "MIXED", "ALLOCATED", "COMPLETING"}

CONFIGURATION = """
ClusterName={cluster}
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
{listen}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
# A requeued job waits until its old credential has expired: 120 seconds unless told otherwise.
AuthInfo=socket={folder}/munge.socket,cred_expire={requeue_wait}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
MpiDefault=none
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
DefMemPerCPU={memory_per_cpu}
# Believe the CPUs and the memory below, not what the machine has.
SlurmdParameters=config_overrides
ReturnToService=2
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,sched_min_interval=100000,batch_sched_delay=0,bf_interval=1
PriorityType=priority/basic
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
JobRequeue=1
OverTimeLimit=0
KillWait={kill_wait}
CompleteWait=0
MinJobAge=3600
SlurmdTimeout={node_timeout}
NodeName=n[1-{nodes}] NodeHostname={host} NodeAddr=127.0.0.1 Port=[{first}-{last}] CPUs={cpus} RealMemory={memory}
PartitionName=main Nodes=ALL Default=YES DefaultTime=10 MaxTime=INFINITE PriorityTier=10 State=UP
PartitionName=scavenge Nodes=ALL DefaultTime=10 MaxTime=INFINITE PriorityTier=1 State=UP
"""


class SlurmError(RuntimeError):
    """The cluster did not do what it was asked. The message ends with the last lines of its logs."""


@dataclass(frozen=True)
class Job:
    """A job in the queue. state: as squeue prints it, such as RUNNING; nodes: none before it started."""

    id: int
    name: str
    state: str
    nodes: tuple[str, ...]
    reason: str


def is_installed() -> bool:
    """Whether SLURM's daemons and commands, and munge, are on this machine."""
    return all(shutil.which(program, path=PATH) for program in PROGRAMS)


class ThrowawaySlurm:
    """Nodes n1, n2, ... and the partitions main and scavenge, whose jobs are requeued when main needs their nodes.

    Nodes may have more CPUs and memory than the machine: both are booked, not enforced. Jobs run as the user who started the
    cluster.
    """

    def __init__(self, nodes: int = 4, cpus: int = 8, memory_mb: int = 16000) -> None:
        self.nodes = [f"n{i + 1}" for i in range(nodes)]
        self._sizes = {"cpus": cpus, "memory": memory_mb, "memory_per_cpu": max(1, memory_mb // cpus)}
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}
        self._reservation: socket.socket | None = None
        folder = tempfile.mkdtemp(prefix="hpcdp-slurm-")
        if len(folder) > LONGEST_PATH:
            os.rmdir(folder)
            folder = tempfile.mkdtemp(prefix="hpcdp-slurm-", dir="/tmp")
        self.folder = Path(folder)
        self.folder.chmod(0o755)  # munged insists that everybody can reach its socket
        self.environment = {key: value for key, value in os.environ.items() if not key.startswith(FOREIGN)}
        self.environment |= {"SLURM_CONF": str(self.folder / "slurm.conf"), "PATH": PATH}

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def run(self, *command: object, check: bool = True, timeout: float = 30) -> subprocess.CompletedProcess[str]:
        """Run one of SLURM's commands, in the cluster's folder. Raises SlurmError if it fails, unless check is False."""
        words = [str(word) for word in command]
        done = subprocess.run(
            words, env=self.environment, cwd=self.folder, capture_output=True, text=True, timeout=timeout, check=False
        )
        if check and done.returncode:
            message = f"{' '.join(words)}: exit code {done.returncode}\n{done.stdout}{done.stderr}"
            raise SlurmError(message + self._logs())
        return done

    def submit(self, command: str, *options: object) -> int:
        """Submit a shell command as a job and return its id. Its output is dropped unless options say otherwise."""
        done = self.run("sbatch", "--parsable", "--output=/dev/null", *options, f"--wrap={command}")
        return int(done.stdout.split(";")[0])

    def jobs(self, name: str | None = None) -> list[Job]:
        """All jobs of the cluster, or those of a name, the oldest first; those that have ended too."""
        lines = self.run("squeue", "-h", "-r", "-t", "all", "-S", "i", "-o", "%A|%T|%N|%r|%j").stdout.splitlines()
        found = []
        for line in lines:
            number, state, nodes, reason, job_name = line.split("|", 4)
            if name in (None, job_name):
                found.append(Job(int(number), job_name, state, self._expand(nodes), reason))
        return found

    def job(self, job_id: int) -> Job:
        """One job."""
        (job,) = [job for job in self.jobs() if job.id == job_id]
        return job

    def wait_for(self, job_id: int, *states: str, seconds: float = 30) -> Job:
        """Wait until a job is in one of some states."""
        self._wait(lambda: self.job(job_id).state in states, f"job {job_id} to be {' or '.join(states)}", seconds)
        return self.job(job_id)

    def node_of(self, job: Job | int) -> str:
        """The only node of a job."""
        (node,) = (job if isinstance(job, Job) else self.job(job)).nodes
        return node

    def processes(self, job_id: int) -> list[psutil.Process]:
        """The live processes of a job, on all its nodes, without SLURM's own slurmstepd."""
        return [process for process, job in self._members() if job == str(job_id)]

    def cancel(self, *ids: int) -> None:
        """Cancel jobs; those that have ended already are left alone."""
        if ids:
            self.run("scancel", "--quiet", *ids)

    def stop_controller(self) -> None:
        """End slurmctld as an administrator does."""
        self._end("slurmctld")

    def start_controller(self) -> None:
        """Start slurmctld and wait until it answers. It counts on the nodes again some seconds later."""
        self._launch("slurmctld", "slurmctld", "-D", "-f", self.environment["SLURM_CONF"])
        self._wait(self._controller_answers, "slurmctld to answer")

    def kill_node_daemon(self, node: str) -> None:
        """SIGKILL to a node's slurmd only: its jobs' processes go on."""
        self._end(node, signal.SIGKILL)

    def reset(self) -> None:
        """Start what does not run, end all jobs, and wait until the queue is empty and all nodes are idle."""
        for node in self.nodes:
            if not self._runs(node):
                self._launch_node(node)
        if not self._runs("slurmctld"):
            self.start_controller()
        # of a node whose daemon was away at a job's end the controller asks again only after a minute or two
        self._wait(self._end_jobs, "all jobs to end", 180)
        self._wait(self._all_idle, "idle nodes")

    def close(self) -> None:
        """End all jobs and daemons of this cluster, and nothing else, and remove its folder."""
        if self._runs("slurmctld"):
            with suppress(SlurmError, subprocess.TimeoutExpired):
                self._wait(self._end_jobs, "all jobs to end", 10)
        for name in reversed(self._daemons):  # the nodes, the controller, munge
            self._end(name)
        self._wait(self._kill_leftovers, "all processes to be gone", 10)
        shutil.rmtree(self.folder, ignore_errors=True)
        if self._reservation is not None:
            self._reservation.close()

    def _start(self) -> None:
        self._write_files()
        munge = self.folder / "munge"
        files = [f"--{kind}-file={munge}.{kind}" for kind in ("key", "pid", "seed")]
        self._launch("munged", "munged", "--foreground", f"--socket={munge}.socket", *files)
        self._wait(lambda: self.run("munge", "-n", "-S", f"{munge}.socket", check=False).returncode == 0, "munged")
        self.start_controller()
        for node in self.nodes:
            self._launch_node(node)
        self._wait(self._all_idle, "idle nodes")
        count = len(self.nodes)
        self.run("srun", "--quiet", f"--nodes={count}", f"--ntasks={count}", "--time=1", "true")
        self._wait(self._all_idle, "idle nodes")

    def _write_files(self) -> None:
        for node in self.nodes:
            (self.folder / "spool" / node).mkdir(parents=True)
        (self.folder / "state").mkdir(0o700)
        key = self.folder / "munge.key"
        key.touch(0o600)
        key.write_bytes(os.urandom(128))
        port, self._reservation = _reserve_ports()
        host = socket.gethostname().partition(".")[0]
        text = CONFIGURATION.format(
            cluster=self.folder.name,
            host=host,
            listen=_listen_setting(host),
            user=pwd.getpwuid(os.getuid()).pw_name,
            folder=self.folder,
            port=port,
            first=port + 1,
            last=port + len(self.nodes),
            nodes=len(self.nodes),
            kill_wait=KILL_WAIT,
            node_timeout=NODE_TIMEOUT,
            requeue_wait=REQUEUE_WAIT,
            **self._sizes,
        )
        (self.folder / "slurm.conf").write_text(text)
        version = self.run("slurmd", "-V").stdout.split()[1]
        if [int(number) for number in version.split(".")[:2]] >= [23, 11]:
            # Since then slurmd wants a cgroup plugin although nothing uses one.
            (self.folder / "cgroup.conf").write_text("CgroupPlugin=disabled\n")

    def _launch(self, name: str, *command: str) -> None:
        with (self.folder / f"{name}.out").open("ab") as out:
            self._daemons[name] = subprocess.Popen(
                command,
                env=self.environment,
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )

    def _launch_node(self, node: str) -> None:
        self._launch(node, "slurmd", "-D", "-N", node, "-f", self.environment["SLURM_CONF"])

    def _runs(self, name: str) -> bool:
        return name in self._daemons and self._daemons[name].poll() is None

    def _controller_answers(self) -> bool:
        if not self._runs("slurmctld"):
            raise SlurmError(f"slurmctld did not start{self._logs()}")
        return " is UP" in self.run("scontrol", "ping", check=False).stdout

    def _end(self, name: str, how: signal.Signals = signal.SIGTERM) -> None:
        daemon = self._daemons[name]
        daemon.send_signal(how)
        try:
            daemon.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(daemon.pid, signal.SIGKILL)  # its group: slurmctld has a child
            daemon.wait()

    def _end_jobs(self) -> bool:
        """Cancel and kill all jobs, and what their steps left behind; whether there was nothing to do any more."""
        jobs = self.run("squeue", "-h", "-r", "-o", "%A").stdout.split()  # without those that have ended
        self.cancel(*map(int, jobs))
        return self._kill_leftovers() and not jobs

    def _state(self, node: str) -> set[str]:
        line = self.run("scontrol", "show", "node", node, "--oneliner").stdout
        (state,) = [word.removeprefix("State=") for word in line.split() if word.startswith("State=")]
        return set(state.split("+"))

    def _usable(self, node: str) -> bool:
        """Whether a node's daemon listens and the controller counts on it; a node that is down is resumed."""
        if not self._runs(node):
            raise SlurmError(f"the daemon of {node} has ended{self._logs()}")
        connections = psutil.Process(self._daemons[node].pid).net_connections("tcp")
        if not any(connection.status == psutil.CONN_LISTEN for connection in connections):
            return False
        state = self._state(node)
        if state & {"DOWN", "DRAIN"}:
            self.run("scontrol", "update", f"NodeName={node}", "State=RESUME", check=False)
        return state <= USABLE

    def _all_idle(self) -> bool:
        return all(self._usable(node) and self._state(node) == {"IDLE"} for node in self.nodes)

    def _expand(self, nodes: str) -> tuple[str, ...]:
        """The nodes of a list such as n[1-3]."""
        if "[" not in nodes:
            return (nodes,) if nodes else ()
        return tuple(self.run("scontrol", "show", "hostnames", nodes).stdout.split())

    def _members(self) -> Iterator[tuple[psutil.Process, str]]:
        """The live processes of this cluster's jobs by their environment, each with its job's id."""
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                environment = process.environ()
                if environment.get("SLURM_CLUSTER_NAME") == self.folder.name and "SLURM_JOB_ID" in environment:
                    yield process, environment["SLURM_JOB_ID"]

    def _kill_leftovers(self) -> bool:
        """Kill what the daemons left behind; whether there was nothing any more."""
        found = [process for process, _ in self._members()]
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                # slurmstepd shows neither its environment nor its command line, but it holds its node's log.
                if process.name() == "slurmstepd" and any(
                    self.folder in Path(f.path).parents for f in process.open_files()
                ):
                    found += [process, *process.children(recursive=True)]
        for process in found:
            with suppress(psutil.Error):
                process.kill()
        return not found

    def _wait(self, is_so: Callable[[], bool], what: str, seconds: float = 30) -> None:
        end = time.monotonic() + seconds
        while not is_so():
            if time.monotonic() > end:
                raise SlurmError(f"waited {seconds} s for {what}{self._logs()}")
            time.sleep(0.2)  # each look is a process or two, or reads all that run

    def _logs(self) -> str:
        ends = {path.name: path.read_text(errors="replace").splitlines()[-12:] for path in self.folder.glob("*.out")}
        return "".join(f"\n--- {name}\n" + "\n".join(ends[name]) for name in sorted(ends))


def _reserve_ports() -> tuple[int, socket.socket]:
    """The first of a block of free ports that no other throwaway cluster has reserved, and what holds the block."""
    ephemeral = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    for first in range(max(1024, ephemeral - 80 * PORT_BLOCK), ephemeral - PORT_BLOCK, PORT_BLOCK):
        lock = socket.socket(socket.AF_UNIX)
        try:
            lock.bind(f"\0hpcdp-slurm-{first}")  # a name without a file, which ends with its process
            for port in range(first, first + PORT_BLOCK):
                with socket.socket() as probe:
                    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the daemons do
                    probe.bind(("", port))
        except OSError:
            lock.close()
        else:
            return first, lock
    raise SlurmError(f"there are no {PORT_BLOCK} free ports in a row below {ephemeral}")


def _listen_setting(host: str) -> str:
    """Keep the daemons to the loopback interface, which works only where the host's name means it."""
    with suppress(OSError):
        if socket.gethostbyname(host) == "127.0.0.1":
            return "CommunicationParameters=NoCtldInAddrAny,NoInAddrAny"
    return "# The host's name is not 127.0.0.1, so the daemons listen on all interfaces; munge's key guards them."
