#!/bin/sh
# The container recipes, in a Debian root that debootstrap makes, as root, on Linux: built, then used as another user, with a
# read-only root, a /work to write in and a /tmp in which yet another user has taken the name of the folder for kernels.
#   ENGINE=chroot  the recipes' steps without any engine; podman: containers/Dockerfile; apptainer: containers/hpcdp.def, which is
#                  built by a user who is not root and has no subordinate ids, with the apptainer of Debian sid
#   SUITE=trixie   the Debian release        HPCDP_CPU=x86-64-v3  the processor that kernels are compiled for
set -eu
cd "$(dirname "$0")/../.."
python=$PWD/.venv/bin/python suite=${SUITE:-trixie} engine=${ENGINE:-chroot} cpu=${HPCDP_CPU:-x86-64-v3} user=1234
PATH=$PATH:/usr/sbin:/sbin
here=$(mktemp -d) root=$here/root
trap 'rm -rf --one-file-system "$here"' EXIT
for needed in debootstrap $(test "$engine" != podman || echo podman runc); do
    command -v "$needed" >/dev/null || { echo "tests/packages/container.sh needs $needed: apt-get install $needed" >&2; exit 1; }
done
bootstrap() { # SUITE FOLDER PACKAGES
    debootstrap --variant=minbase --include="$3" "$1" "$2" >"$here/log" || { tail "$here/log" >&2; exit 1; }
    chmod 755 "$2" # mktemp closes it to the user inside
}

chmod 755 "$here"
bootstrap "$suite" "$root" python3,python3-venv
mkdir -p "$root/work" "$here/packages" "$here/source/dist" "$here/work" "$here/tmp/hpcdp-container-$user"
version=$(chroot "$root" python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
echo "container: Debian $suite, Python $version, by $engine"
# the root needs no index of packages: they are fetched here, for its Python, and their hashes are checked there again
"$python" -m pip download -q --disable-pip-version-check --only-binary :all: --require-hashes --python-version "$version" \
    -d "$here/packages" -r containers/requirements.lock
printf '[global]\nno-index = true\nfind-links = /mnt\n' >"$root/etc/pip.conf"
"$python" -m pip wheel -q --disable-pip-version-check --no-build-isolation --no-deps -w "$here/source/dist" .
cp -r containers "$here/source"
cp tests/packages/container_use.sh "$here/work"
chmod 1777 "$here/tmp"
chmod 777 "$here/tmp/hpcdp-container-$user"
chown "$user:$user" "$here/work"
cd "$here/source"

case $engine in
chroot)
    unshare --mount --pid --fork sh -eu -c '
        root=$1 here=$2 user=$3
        export NUMBA_CPU_NAME=$4 NUMBA_CPU_FEATURES="" LC_ALL=C.UTF-8
        mount -t proc proc "$root/proc"
        mount --bind /dev "$root/dev"
        mount --bind "$here/packages" "$root/mnt"
        cp -r containers dist "$root/opt"
        export PIP_NO_INDEX=1 PIP_FIND_LINKS=/mnt
        chroot "$root" sh -c "sh /opt/containers/build.sh /opt/dist/hpcdp-*.whl /opt/containers/requirements.lock"
        install -m 755 containers/enter.sh "$root/opt/hpcdp/enter.sh"
        du -sh "$root/opt/hpcdp/kernels" "$root/opt/hpcdp"
        mount --bind "$root" "$root"
        mount -t proc proc "$root/proc"
        mount --bind /dev "$root/dev"
        mount -t tmpfs tmpfs "$root/dev/shm"
        mount -o remount,bind,ro "$root"
        mount --bind "$here/tmp" "$root/tmp"
        mount --bind "$here/work" "$root/work"
        chroot --userspec="$user:$user" "$root" sh -c "cd /work && sh container_use.sh"
    ' sh "$root" "$here" "$user" "$cpu"
    ;;
podman)
    # a store of images of its own, without overlays; limits that nobody has to raise
    podman() { command podman --root "$here/images" --runroot "$here/run" --storage-driver vfs --cgroup-manager cgroupfs --runtime runc "$@"; }
    tar -C "$root" -c . | podman import -q - localhost/base >/dev/null
    podman build -q --isolation chroot --pull-never --build-arg BASE=localhost/base --build-arg HPCDP_CPU="$cpu" \
        -v "$here/packages:/mnt:ro" -f containers/Dockerfile -t hpcdp .
    use() {
        podman run --rm --read-only -v "$here/tmp:/tmp" -v "$here/work:/work" --user "$user:$user" --network host \
            --ulimit nofile=4096:4096 --ulimit nproc=4096:4096 "$@"
    }
    use hpcdp --version
    use --entrypoint sh hpcdp container_use.sh
    ;;
apptainer)
    tools=$here/tools
    bootstrap sid "$tools" apptainer,ca-certificates
    cp /etc/hosts /etc/resolv.conf "$tools/etc"
    mkdir -p "$tools$here" "$tools/old"
    useradd --root "$tools" --uid "$user" --create-home somebody
    : >"$tools/etc/subuid" # as on most clusters
    sed 's/^Bootstrap: docker$/Bootstrap: localimage/' containers/hpcdp.def >hpcdp.def # a root here instead of a registry's
    rm -rf "$root/dev" && mkdir "$root/dev" # nobody else may copy devices
    chown -R "$user:$user" "$here/source" "$root"
    unshare --mount --pid --fork sh -eu -c '
        tools=$1 here=$2 user=$3 cpu=$4
        mount --make-rprivate /
        mount --bind "$tools" "$tools"
        mount -t proc proc "$tools/proc"
        mount --rbind /dev "$tools/dev"
        mount --bind "$here" "$tools$here"
        cd "$tools"
        pivot_root . old
        umount -l /old
        cd "$here/source"
        setpriv --reuid "$user" --regid "$user" --clear-groups sh -eu -c "
            export TMPDIR=$here/source
            apptainer -q build --build-arg BASE=$here/root --build-arg HPCDP_CPU=$cpu --bind $here/packages:/mnt hpcdp.sif hpcdp.def
            cd ../work
            apptainer -q run --no-home --bind $here/tmp:/tmp ../source/hpcdp.sif --version
            apptainer -q exec --no-home --bind $here/tmp:/tmp,$here/work:/work --pwd /work ../source/hpcdp.sif sh container_use.sh
        "
    ' sh "$tools" "$here" "$user" "$cpu"
    ;;
*)
    echo "ENGINE: chroot, podman or apptainer; given: $engine" >&2
    exit 2
    ;;
esac
echo "container: all steps done"
