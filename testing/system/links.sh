# Common setup for scripts that test other people's tools with Weir. Sourced: `.
# testing/system/links.sh NAME [ADVICE TOOL]...`, where ADVICE says how to get TOOL.
#
# Starts `weir serve` in its own folder, $work, puts links `zfs` and `zpool` to the program at the
# front of PATH, and creates two pools: `source`, mounted at $work/a, and `target` at $work/b.
# Everything is removed at the end. Needs root and /dev/fuse. WEIR=PROGRAM selects another build,
# POOL_SIZE another size, NFS_PORT a port for NFS (without it, no NFS), KEEP=1 keeps the folder.
set -Eeuo pipefail
name=$1; shift
[ "$(id -u)" = 0 ] && [ -e /dev/fuse ] || { echo "$name: skipped, needs root and /dev/fuse"; exit 0; }
while [ $# -gt 0 ]; do
    command -v "$2" > /dev/null || { echo "$name: skipped, $2 is not installed ($1)"; exit 0; }
    shift 2
done
weir=$(realpath "${WEIR:-target/release/weir}")
work=$(mktemp -d "${TMPDIR:-/var/tmp}/$name.XXXXXX")
export WEIR_STATE=$work/state
mkdir -p "$work"/{bin,state,conf,cache,run,a,b}
ln -s "$weir" "$work/bin/zfs"; ln -s "$weir" "$work/bin/zpool"
export PATH=$work/bin:$PATH
server='' others=''
cleanup() {
    local pid
    [ -z "$others" ] || { kill -9 "$others"; wait "$others"; } 2> /dev/null || true
    [ -z "$server" ] || { kill "$server"; wait "$server"; } 2> /dev/null || true
    umount -R "$work/a" "$work/b" 2> /dev/null || true
    [ -n "${KEEP:-}" ] && echo "kept $work" || rm -rf --one-file-system "$work"
}
trap cleanup EXIT
fail() { echo "FAILED: $*"; tail -20 "$work/said" 2> /dev/null; exit 1; }
trap 'fail "line $LINENO: $BASH_COMMAND"' ERR
# Waits, for at most two minutes, until a command succeeds.
await() {
    local _
    for _ in $(seq 1200); do "$@" > "$work/said" 2>&1 && return 0; sleep 0.1; done
    fail "waited in vain for: $*"
}

printf '[nfs]\nlisten = [%s]\n[nbd]\nlisten = []\n[api]\nlisten = []\n' "${NFS_PORT:+\"127.0.0.1:$NFS_PORT\"}" > "$work/weir.toml"
"$weir" serve --config "$work/weir.toml" > "$work/log" 2>&1 &
server=$!
await test -S "$work/state/run/weir.sock"
truncate -s "${POOL_SIZE:-512M}" "$work/d0" "$work/d1"
zpool create -f -O mountpoint="$work/a" -O compression=lz4 source "$work/d0"
zpool create -f -O mountpoint="$work/b" target "$work/d1"

# Creates new data in the tree source/data of three file systems, distinguished by NUMBER.
tree() { zfs create source/data; zfs create source/data/below; zfs create -o recordsize=16K source/data/other; }
fill() { head -c 3000000 /dev/urandom > "$work/a/data/f$1"; cp -r bench "$work/a/data/below/d$1"; printf "%s" "$1" >> "$work/a/data/other/log"; sync -f "$work/a/data"; }
# Compares source with the file system of target that should be its copy: files, and snapshots by
# name and GUID.
same() { diff -r "$work/a/data" "$work/b/$1" > "$work/said" 2>&1 || fail "$1 differs"; }
snapshots() { zfs list -Hp -t snapshot -o name,guid -r "$1" | sed "s|^$1||" | sort; }
same_snapshots() { diff <(snapshots "$1") <(snapshots "$2") > "$work/said" || fail "not the same snapshots"; }
# Stops the server and verifies every block of both pools.
whole() {
    kill "$server"; wait "$server" || true; server=
    "$weir" verify source > "$work/said" 2>&1 || fail "verify source"
    "$weir" verify target > "$work/said" 2>&1 || fail "verify target"
}
