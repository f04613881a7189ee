#!/bin/sh
# The steps of the container recipes in a Debian root that debootstrap makes, which no container engine is needed for: as root, on Linux.
# Built as in containers/Dockerfile; then used as another user, with a read-only root, and a /tmp and a /work to write in.
#   SUITE=trixie  the Debian release        HPCDP_CPU=x86-64-v3  the processor that kernels are compiled for
set -eu
cd "$(dirname "$0")/.."
python=$PWD/.venv/bin/python suite=${SUITE:-trixie} root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
command -v debootstrap >/dev/null || { echo "tests/container.sh needs debootstrap: apt-get install debootstrap" >&2; exit 1; }
export NUMBA_CPU_NAME="${HPCDP_CPU:-x86-64-v3}" NUMBA_CPU_FEATURES="" LC_ALL=C.UTF-8

debootstrap --variant=minbase --include=python3,python3-venv "$suite" "$root" >"$root.log" || { tail "$root.log" >&2; exit 1; }
rm "$root.log"
chmod 755 "$root" # mktemp closes it to the user inside
mkdir -p "$root/tmp/build/packages" "$root/work"
version=$(chroot "$root" python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
echo "container: Debian $suite, Python $version"
# the root needs no index of packages: they are fetched here, for its Python, and their hashes are checked there again
"$python" -m pip download -q --disable-pip-version-check --only-binary :all: --require-hashes --python-version "$version" \
    -d "$root/tmp/build/packages" -r containers/requirements.lock
"$python" -m pip wheel -q --disable-pip-version-check --no-build-isolation --no-deps -w "$root/tmp/build" .
cp containers/build.sh containers/requirements.lock "$root/tmp/build"

unshare --mount --pid --fork sh -eu -c '
    root=$1
    mount -t proc proc "$root/proc"
    mount --bind /dev "$root/dev"
    chroot "$root" env PIP_NO_INDEX=1 PIP_FIND_LINKS=/tmp/build/packages sh -c \
        "sh /tmp/build/build.sh /tmp/build/hpcdp-*.whl /tmp/build/requirements.lock"
    install -m 755 containers/enter.sh "$root/opt/hpcdp/enter.sh"
    rm -rf "$root/tmp/build"
    du -sh "$root/opt/hpcdp/kernels" "$root/opt/hpcdp"
    mount --bind "$root" "$root"
    mount -t proc proc "$root/proc"
    mount --bind /dev "$root/dev"
    mount -t tmpfs tmpfs "$root/dev/shm"
    mount -o remount,bind,ro "$root"
    mount -t tmpfs tmpfs "$root/tmp"
    mount -t tmpfs tmpfs "$root/work"
    chmod 1777 "$root/tmp" "$root/work"
    chroot --userspec=hpcdp:hpcdp "$root" sh -eu -c "
        cd /work
        ! touch /opt/hpcdp/x 2>/dev/null || { echo the root is not read-only >&2; exit 1; }
        test \$(id -u) != 0
        /opt/hpcdp/enter.sh init function
        /opt/hpcdp/enter.sh run function.toml
        /opt/hpcdp/enter.sh verify runs/function.zarr
        /opt/hpcdp/enter.sh init table >/dev/null
        /opt/hpcdp/enter.sh run table.toml >/dev/null
        /opt/hpcdp/enter.sh python -c \"import hpcdp; print(hpcdp.__version__)\"
        before=\$(find /opt/hpcdp/kernels -name \"*.nbc\" | wc -l)
        after=\$(find /tmp -name \"*.nbc\" | wc -l)
        echo \"container: \$before compiled kernels came with it, \$((after - before)) were compiled for the studies\"
        test \$before -gt 0 -a \$before = \$after
    "
' sh "$root"
echo "container: all steps done"
