# Common setup of the recipes; each begins with `. docs/cookbook/setup.sh NAME`. Not a recipe.
#
# Provides a folder that is removed at the end, the program as `weir`, `zpool` and `zfs`, and `serve`
# to start the daemon. WEIR selects another program, COOKBOOK_KEEP=1 keeps the folder, COOKBOOK_PORT
# selects another port for NFS.
set -Eeuo pipefail
recipe=$1
weir=$(realpath "${WEIR:-${CARGO_TARGET_DIR:-target}/release/weir}")
[ -x "$weir" ] || { echo "$recipe: no program $weir; run make build, or set WEIR=PROGRAM"; exit 1; }
work=$(mktemp -d "${TMPDIR:-/var/tmp}/weir-$recipe.XXXXXX")
export WEIR_STATE=$work/state
port=${COOKBOOK_PORT:-12949}
mkdir -p "$work/bin" "$work/state"
for name in weir zpool zfs; do ln -s "$weir" "$work/bin/$name"; done
PATH=$work/bin:$PATH
server=
cleanup() {
    [ -z "$server" ] || { kill "$server" 2> /dev/null && wait "$server" 2> /dev/null; } || true
    if [ -n "${COOKBOOK_KEEP:-}" ]; then echo "$recipe: kept $work"; else rm -rf --one-file-system "$work"; fi
}
trap cleanup EXIT
fail() { echo "$recipe: FAILED: $*"; tail -20 "$work/log" 2> /dev/null || true; exit 1; }
trap 'fail "line $LINENO: $BASH_COMMAND"' ERR
say() { printf '\n== %s\n' "$*"; }
# needs TOOL PACKAGE: skips the recipe with a message if the tool is missing.
needs() { command -v "$1" > /dev/null || { echo "$recipe: skipped, needs $1 (Debian: $2)"; exit 0; }; }
serve() {
    weir serve --no-mount --set "nfs.listen=[\"127.0.0.1:$port\"]" --set "nbd.listen=[]" --set "api.listen=[]" "$@" > "$work/log" 2>&1 &
    server=$!
    for _ in $(seq 600); do
        [ -S "$work/state/run/nbd.sock" ] && (exec 3<> "/dev/tcp/127.0.0.1/$port") 2> /dev/null && [ -S "$work/state/run/weir.sock" ] && return
        kill -0 "$server" 2> /dev/null || fail "weir serve ended"
        sleep 0.1
    done
    fail "weir serve does not answer"
}
nfs() { echo "nfs://127.0.0.1$1?nfsport=$port&mountport=$port"; }
nbd() { echo "nbd+unix:///$1?socket=$work/state/run/nbd.sock"; }
# metric NAME: the sum of a metric of the daemon over all labels. Needs curl.
metric() { curl -s --unix-socket "$work/state/run/weir.sock" http://weir/metrics | awk -v m="$1" 'index($1, m) == 1 { s += $2 } END { printf "%.0f\n", s }'; }
