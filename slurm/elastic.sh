#!/usr/bin/env bash
# A small job that runs the driver; the driver submits jobs of workers as the profile says.
#
#     sbatch slurm/elastic.sh STUDY PROFILE [--store PATH]
#
# It does by hand what `hpcdp submit STUDY --profile PROFILE` does. Change the lines that begin with #SBATCH, or give
# sbatch options: sbatch --partition=long --time=2-00:00:00 slurm/elastic.sh …

#SBATCH --job-name=hpcdp-driver
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=2
#SBATCH --mem=4G
#SBATCH --time=08:00:00
#SBATCH --output=hpcdp-driver-%j.log
#SBATCH --open-mode=append
#SBATCH --no-requeue
# USR1 comes so many seconds before the time limit; give at least the profile's cluster.drain. The driver then starts no
# new task, waits for those that run, ends its jobs, and says how to go on. B: to this script, and to nothing else.
#SBATCH --signal=B:USR1@120

set -euo pipefail

usage="usage: sbatch slurm/elastic.sh STUDY PROFILE [--store PATH]"
study=${1:?$usage}
profile=${2:?$usage}

# Where Python with hpcdp is. This line is for a checkout with .venv, from which you call sbatch. Adapt it, or load
# modules here. Without it, the PATH of the shell in which you call sbatch counts.
PATH="$PWD/.venv/bin:$PATH"

# exec: the driver takes the place of this script, so the signal reaches it.
exec python -m hpcdp run "$study" --cluster "$profile" "${@:3}"
