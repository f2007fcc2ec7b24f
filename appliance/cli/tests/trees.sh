#!/usr/bin/env bash
# Holds what `weir mount` and `weir cp -r` show of a pool to what the kernel module recorded of it.
#
#   trees.sh WEIR DEVICES RECORDED [weir's key options]...
#
# WEIR is the program, DEVICES the folder with the pool's devices, RECORDED the one with zfs-list.txt and tree/.
# The lists are made with the commands that made the recorded ones (testing/images/recipe/lib.sh).
set -u
weir=$1 devices=$2 recorded=$3; shift 3
work=$(mktemp -d); mnt=$work/mnt; mkdir "$mnt" "$work/copy"
export WEIR_STATE=$work/state LC_ALL=C
trap '"$weir" umount -l "$mnt" 2>/dev/null; rm -rf --one-file-system "$work"' EXIT
pool=$(head -1 "$recorded/zfs-list.txt" | cut -f1)

entries() { (cd "$1" && find . -xdev -path ./.zfs -prune -o -printf '%y|%m|%U|%G|%s|%T@|%n|%l|%p\n'
  find . -xdev -path ./.zfs -prune -o \( -type b -o -type c \) -exec stat -c 'device %t,%T %n' {} +
  find . -xdev -path ./.zfs -prune -o -type f -print0 | xargs -0 sha256sum) | sort; }
attributes() { (cd "$1" && getfattr -R -h -d -m - -e hex . 2>/dev/null; getfacl -R -n -s -p . 2>/dev/null) | sort; }
# Size and links of a directory are the target file system's affair.
no_directories() { sed -E 's/^(d\|[^|]*\|[^|]*\|[^|]*)\|[0-9]*\|([^|]*)\|[0-9]*/\1|-|\2|-/'; }
same() { # WHAT, two files
  if diff "$2" "$3" > "$work/diff"; then good=$((good + 1)); else bad=$((bad + 1)); echo "$1: < OpenZFS, > Weir"; head -8 "$work/diff"; fi; }
good=0 bad=0

"$weir" mount -d "$devices" "$@" "$pool" "$mnt" || exit 77
for file in "$recorded"/tree/*; do
  name=$(basename "$file") dataset=${name%%.*} head=${dataset%%@*} snapshot=
  case $dataset in *@*) snapshot=${dataset#*@};; esac
  below=${head#"$pool"} dir=$mnt/${below//+//}
  [ -n "$snapshot" ] && root=$dir/.zfs/snapshot/$snapshot || root=$dir
  case $name in
    *.volume) sha256sum < "$(dirname "$dir")/.zfs/volume/$(basename "$dir")${snapshot:+@$snapshot}" > "$work/out"
      same "$name" "$file" "$work/out";;
    *.xattr) command -v getfattr getfacl > /dev/null || continue
      attributes "$root" > "$work/out"; sort "$file" > "$work/in"; same "$name" "$work/in" "$work/out";;
    *.*) ;;
    *) entries "$root" > "$work/out"; sort "$file" > "$work/in"; same "$name" "$work/in" "$work/out"
      # Owners and devices can be copied by root alone. (Not over a child's place, which cp does not look into.)
      [ "$(id -u)" = 0 ] && { [ -n "$snapshot" ] || ! grep -q "^${dataset//+//}/" "$recorded/zfs-list.txt"; } || continue
      rm -rf "$work/copy"; mkdir "$work/copy"
      "$weir" cp -q -r -d "$devices" "$@" "${dataset//+//}:/" "$work/copy" || bad=$((bad + 1))
      no_directories < "$file" | sort > "$work/in"; entries "$work/copy" | no_directories | sort > "$work/out"
      same "copy of $name" "$work/in" "$work/out";;
  esac
done
"$weir" umount "$mnt" || bad=$((bad + 1))
mountpoint -q "$mnt" && { echo "still mounted"; bad=$((bad + 1)); }
echo "$good same, $bad differ"
[ "$bad" = 0 ] && [ "$good" -gt 0 ]
