#!/bin/sh
# Starts hpcdp in a container whose root may be read-only. numba keeps kernels where it can write, so those of the image go to $TMPDIR.
set -eu
export TMPDIR="${TMPDIR:-/tmp}"
export NUMBA_CACHE_DIR="$TMPDIR/hpcdp-kernels-$(id -u)"
if [ ! -d "$NUMBA_CACHE_DIR" ]; then
    new=$(mktemp -d "$TMPDIR/hpcdp-kernels.XXXXXX")
    cp -r /opt/hpcdp/kernels/. "$new"
    mv -T "$new" "$NUMBA_CACHE_DIR" 2>/dev/null || rm -rf "$new" # another start was faster
fi
export MPLCONFIGDIR="$TMPDIR/hpcdp-matplotlib-$(id -u)" DASK_CONFIG="$TMPDIR/hpcdp-dask-$(id -u)"
export PYTHONDONTWRITEBYTECODE=1
case "${1:-}" in
python | python3) exec "/opt/hpcdp/bin/$@" ;; # as jobs on a cluster start it: cluster.python
*) exec /opt/hpcdp/bin/hpcdp "$@" ;;
esac
