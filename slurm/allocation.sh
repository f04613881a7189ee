#!/usr/bin/env bash
# One job of some nodes that holds everything: a Dask scheduler, the driver, and worker processes on every node.
#
#     sbatch slurm/allocation.sh STUDY [--store PATH]
#
# It shows the parts by hand. `hpcdp submit STUDY --profile PROFILE` with cluster.driver = "allocation" does the same and
# more: it replaces workers that are lost and counts node-hours. Change the lines that begin with #SBATCH, or give sbatch
# options: sbatch --nodes=4 --cpus-per-task=128 --mem=256G slurm/allocation.sh …
#
# HPCDP_INTERFACE: the network interface on which the parts talk, such as ib0. Without it, the one of the host's name.

#SBATCH --job-name=hpcdp-allocation
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=8
#SBATCH --mem=16G
#SBATCH --time=04:00:00
#SBATCH --output=hpcdp-allocation-%j.log
#SBATCH --open-mode=append
#SBATCH --no-requeue
# USR1 comes to this script 60 s before the time limit. See the trap below.
#SBATCH --signal=B:USR1@60

set -euo pipefail

study=${1:?usage: sbatch slurm/allocation.sh STUDY [--store PATH]}

# Where Python with hpcdp is. This line is for a checkout with .venv, from which you call sbatch. Adapt it, or load
# modules here. Without it, the PATH of the shell in which you call sbatch counts.
PATH="$PWD/.venv/bin:$PATH"

# What this run needs lies in a folder of its own, which all nodes must see.
folder="$PWD/hpcdp-allocation-$SLURM_JOB_ID"
file="$folder/scheduler.json"
mkdir -m 700 "$folder"

driver="" workers="" scheduler=""
wait_for_end() { # at most 10 s; SLURM ends what is left after this script
    for _ in {1..20}; do
        kill -0 "$1" 2>/dev/null || break
        sleep 0.5
    done
}
clean_up() {
    trap '' USR1 # too late for it
    if [[ -n $workers ]]; then
        scancel --signal=TERM "$SLURM_JOB_ID.0" || true # step 0: the workers, which leave in order
        wait_for_end "$workers"
    fi
    if [[ -n $scheduler ]]; then
        kill "$scheduler" 2>/dev/null || true
        wait_for_end "$scheduler"
    fi
    rm -rf "$folder"
}
trap clean_up EXIT
# The driver then starts no new task, waits up to 20 s for those that run, and says how to go on. By hand, at any time:
# scancel --batch --signal=USR1 JOB
trap '[[ -z $driver ]] || kill -USR1 "$driver"' USR1

# A certificate of this run only. Scheduler, workers and driver find it through the variables that this sets, and talk
# to nobody without it. In two steps, so that a failure ends the script.
exports=$(python -m hpcdp certificate "$folder/key")
eval "$exports"

# Compiled kernels and Dask's own files go to the node's own disk: a shared one would see many small files. They are loaded
# and run, so nobody else may write there: a folder of ours that is closed to others, or one that nobody could foresee.
private_folder() {
    local scratch="${TMPDIR:-/tmp}" own
    mkdir -m 700 "$scratch/hpcdp-$(id -u)" 2>/dev/null || true
    own=$(find "$scratch/hpcdp-$(id -u)" -prune -type d -user "$(id -u)" ! -perm /077 2>/dev/null) || own=""
    [[ -n $own ]] || own=$(mktemp -d "$scratch/hpcdp-XXXXXXXXXX") || exit 1
    export NUMBA_CACHE_DIR="$own/numba" DASK_TEMPORARY_DIRECTORY="$own"
}
export -f private_folder
private_folder

# One thread a process, also inside BLAS and numba. The settings of Dask's scheduler are those that hpcdp gives its own.
export OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 NUMBA_NUM_THREADS=1
export DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES=2 DASK_DISTRIBUTED__SCHEDULER__WORKER_SATURATION=1.0
export DASK_LOGGING__DISTRIBUTED=warning
export DASK_DISTRIBUTED__WORKER__PROFILE__INTERVAL=100ms DASK_DISTRIBUTED__ADMIN__TICK__INTERVAL=500ms
export DASK_DISTRIBUTED__ADMIN__SYSTEM_MONITOR__INTERVAL=2s

network=()
if [[ -n ${HPCDP_INTERFACE:-} ]]; then
    network=(--interface "$HPCDP_INTERFACE")
fi

# The scheduler, on this node. The dashboard listens on loopback only, where every user of the node can open it; hpcdp
# status tells how to reach it.
python -m distributed.cli.dask_scheduler --protocol tls --port 0 --dashboard-address 127.0.0.1:0 \
    --scheduler-file "$file" "${network[@]}" &
scheduler=$!
until [[ -s $file ]]; do
    kill -0 "$scheduler" 2>/dev/null || { echo "the scheduler did not start" >&2 && exit 1; }
    sleep 0.5
done

# The workers: one a node, with a thread for each core, which has a process of its own. They find the scheduler through the
# file. When one ends, the others go on.
srun --ntasks-per-node=1 --cpus-per-task="$SLURM_CPUS_PER_TASK" --kill-on-bad-exit=0 \
    bash -c 'private_folder && exec python -m distributed.cli.dask_worker "$@"' worker \
    --scheduler-file "$file" "${network[@]}" --no-nanny --nthreads "$SLURM_CPUS_PER_TASK" --memory-limit 0 \
    --worker-class hpcdp.clusters.scheduler.QuietWorker --death-timeout 60 &
workers=$!

# The driver. It ends with 0 when the study is done, and with 130 when it was stopped; then submit the same again.
python -m hpcdp run "$study" --cluster "$file" "${@:2}" &
driver=$!
code=0
wait "$driver" || code=$?
while kill -0 "$driver" 2>/dev/null; do # a signal ended the wait, not the driver
    code=0
    wait "$driver" || code=$?
done
exit "$code"
