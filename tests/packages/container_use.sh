# What a user does in a container, whose /tmp others share: sh container_use.sh, in a folder to write in.
set -eu
hpcdp() { /opt/hpcdp/enter.sh "$@"; }
! touch /opt/hpcdp/x 2>/dev/null || { echo the root is not read-only >&2; exit 1; }
test "$(id -u)" != 0
hpcdp init function
hpcdp run function.toml
hpcdp verify runs/function.zarr
hpcdp init table >/dev/null
hpcdp run table.toml >/dev/null
hpcdp python -c "import hpcdp; print(hpcdp.__version__)"
before=$(find /opt/hpcdp/kernels -name "*.nbc" | wc -l)
after=$(find /tmp/hpcdp-container* -name "*.nbc" | wc -l)
starts=$(find /tmp/hpcdp-container* -name kernels | wc -l)
echo "container: $before compiled kernels came with it, $((after - starts * before)) were compiled for the studies"
test "$before" -gt 0 -a "$after" = $((starts * before))
planted=/tmp/hpcdp-container-$(id -u) # which another user was to make before
test -d "$planted" -a ! -O "$planted" && test -z "$(ls -A "$planted")" || { echo "$planted is another user's, and was used" >&2; exit 1; }
