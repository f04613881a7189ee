#!/bin/sh
# The steps that all container recipes share, as root inside of the image: build.sh WHEEL LOCK
# Python packages come by hash from LOCK; kernels are compiled for HPCDP_CPU, so that every machine that has its instructions finds them.
set -eu
wheel=$1 lock=$2

command -v python3 >/dev/null && python3 -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || {
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3 python3-venv
    rm -rf /var/lib/apt/lists/*
}
python3 -m venv /opt/hpcdp
/opt/hpcdp/bin/pip install -q --disable-pip-version-check --no-cache-dir --require-hashes --only-binary :all: -r "$lock"
/opt/hpcdp/bin/pip install -q --disable-pip-version-check --no-cache-dir --no-deps --no-index "$wheel"

export NUMBA_CACHE_DIR=/opt/hpcdp/kernels
work=$(mktemp -d)
cd "$work"
for kind in function table models; do # whose losses and audit call the kernels that most studies need
    /opt/hpcdp/bin/hpcdp init "$kind"
done
/opt/hpcdp/bin/hpcdp run function.toml --workers 0 >/dev/null
/opt/hpcdp/bin/hpcdp run table.toml --workers 0 >/dev/null
/opt/hpcdp/bin/hpcdp audit models.toml --workers 0 >/dev/null
cd /
rm -rf "$work"
chmod -R a+rX /opt/hpcdp
id hpcdp >/dev/null 2>&1 || useradd --create-home --uid 1000 hpcdp
