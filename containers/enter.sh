#!/bin/sh
# Starts hpcdp in a container whose root may be read-only. numba keeps kernels where it can write, so those of the image go to $TMPDIR,
# into a folder of one's own: where $TMPDIR is shared, whoever writes there first would say what is loaded.
set -eu
{ [ -d "${TMPDIR:-}" ] && [ -w "$TMPDIR" ]; } || TMPDIR=/tmp # a batch system's may not be mounted here
export TMPDIR
own="$TMPDIR/hpcdp-container-$(id -u)"
if ! mkdir -m 700 "$own" 2>/dev/null && { [ -L "$own" ] || [ ! -d "$own" ] || [ ! -O "$own" ] ||
    [ -n "$(find "$own" -prune -perm /022)" ]; }; then
    own=$(mktemp -d "$TMPDIR/hpcdp-container.XXXXXX")
fi
export NUMBA_CACHE_DIR="$own/kernels" MPLCONFIGDIR="$own/matplotlib" DASK_CONFIG="$own/dask"
if [ ! -d "$NUMBA_CACHE_DIR" ]; then
    new=$(mktemp -d "$own/kernels.XXXXXX")
    cp -r /opt/hpcdp/kernels/. "$new"
    mv -T "$new" "$NUMBA_CACHE_DIR" 2>/dev/null || rm -rf "$new" # another start was faster
fi
export PYTHONDONTWRITEBYTECODE=1
case "${1:-}" in
python | python3) exec "/opt/hpcdp/bin/$@" ;; # as jobs on a cluster start it: cluster.python
*) exec /opt/hpcdp/bin/hpcdp "$@" ;;
esac
