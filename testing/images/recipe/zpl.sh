# The pool `tp`: ZPL versions 1 to 5, attributes of every kind, folded and long names. In addition
# to the trees it records stat numbers (.stat), which of many spellings a lookup finds (.lookup),
# and the order of a directory (.order).
cd /job; . ./lib.sh
mkdir -p /tmp/v /out/tp/tree; cd /tmp/v; truncate -s 96M p0
zpool create -f -O mountpoint=/tp -O atime=off -O compression=lz4 tp /tmp/v/p0 || exit 1
export LIGHT=1 RND=20000 DIRENTS=3
for v in 1 2 3 4 5; do zfs create -o version=$v tp/v$v; fill /tp/v$v; xattrs /tp/v$v; zfs set acltype=posix tp/v$v; acls /tp/v$v; ln -s abc /tp/v$v/l3; ln -s $(head -c 1000 /dev/zero | tr '\0' y) /tp/v$v/l1000; done
zfs create -o xattr=sa -o dnodesize=auto tp/mix; cd /tp/mix; echo a > a; setfattr -n user.sa -v 1 a; zfs set xattr=on tp/mix; zfs set xattr=dir tp/mix; setfattr -n user.dir -v 2 a; setfattr -n user.bigdir -v "0x$(prand 5 30000 | od -An -tx1 | tr -d ' \n')" a
echo 1 > /sys/module/zfs/parameters/zfs_xattr_compat; echo c > c; setfattr -n user.compat -v 3 c; zfs set xattr=sa tp/mix; setfattr -n user.compat2 -v 4 c; setfattr -n security.x -v 5 c; setfattr -n trusted.y -v 6 c; echo 0 > /sys/module/zfs/parameters/zfs_xattr_compat
for i in 1 2 3 4 5 6 7 8 9; do setfattr -n user.many$i -v "0x$(prand $i 700 | od -An -tx1 | tr -d ' \n')" c; done; mkdir d; setfattr -n user.x -v y d; ln -s q s; setfattr -h -n trusted.onlink -v z s
cd /; zfs create -o longname=on tp/long && { echo l > "/tp/long/$(printf 'L%.0s' $(seq 1 400))"; echo l > "/tp/long/$(printf 'm%.0s' $(seq 1 1000))"; }
zfs create tp/proj; mkdir /tp/proj/d; echo 1 > /tp/proj/d/f; zfs project -p 4711 -s -r /tp/proj/d; echo 2 > /tp/proj/d/g
zfs create -o acltype=posix tp/hidden; echo 1 > /tp/hidden/f; setfacl -m u:1234:rw /tp/hidden/f; zfs set acltype=off tp/hidden; zfs create tp/noxattr; echo 1 > /tp/noxattr/f; setfattr -n user.a -v b /tp/noxattr/f; zfs set xattr=off tp/noxattr
names() { printf '%s\n' 'naïve-ファイル' "$(printf 'nai\314\210ve')" 'naïve' 'ÅNGSTRÖM' 'ångström' "$(printf 'a\314\212ngstro\314\210m')" 'ﬁle' 'file' 'FILE' 'straße' 'STRASSE' 'STRAßE' 'გამარჯობა' 'ᲒᲐᲛᲐᲠᲯᲝᲑᲐ' 'ǅ' 'ǆ' 'Ǆ' 'ᾳ' 'ᾼ' 'ΑΙ' 'Ωmega' 'ωmega' 'Ωmega' '①' '1' 'readme' 'README' 'ReadMe' 'ß' 'ẞ' 'İ' 'i' 'ı' 'I' 'ÿ' 'Ÿ' 'µ' 'μ' 'Μ' '각' "$(printf '\341\204\200\341\205\241\341\206\250')" 'ꙁ' 'Ꙁ' '𐐨' '𐐀' 'ȿ' 'Ȿ'; printf 'bad\377byte\n'; }
for n in none formD formKC; do for c in insensitive mixed; do f=tp/n-$n-$c; zfs create -o normalization=$n -o casesensitivity=$c $f || continue
  names | awk 'NR%2==1' | while IFS= read -r x; do [ -e "/$f/$x" ] || echo "$x" > "/$f/$x" 2>/dev/null; done
  names | while IFS= read -r x; do printf '%s|%s\n' "$x" "$(stat -c %i "/$f/$x" 2>/dev/null)"; done > /out/tp/tree/tp+n-$n-$c.lookup; done; done
{ echo dir; ls -U /tp/v5/dir; } > /out/tp/tree/tp+v5.order
mkdir -p /out/tp/tree; zpool sync tp; zfs list -H -o name,mountpoint -t filesystem -r tp | while read n m; do f=$(echo $n | tr / +); tree $m > /out/tp/tree/$f; xtree $m > /out/tp/tree/$f.xattr; (cd $m; find . -xdev -exec stat -c '%i|%b|%W|%X|%Z|%n' {} + | sort > /out/tp/tree/$f.stat); done; rm /out/tp/tree/tp.stat # names what is mounted below
cd /; zpool export tp; zstd -q -1 --rm /tmp/v/p0 -o /out/tp/p0.zst
