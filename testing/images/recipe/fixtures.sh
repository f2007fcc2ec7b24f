# Runs as root in a guest with the OpenZFS kernel module, with lib.sh and a file `part` (1 to 6,
# selects scenarios) in /job. Leaves one folder per scenario in /out.
cd /job; . ./lib.sh
mount -o remount,size=90% /tmp
V=/tmp/v; mkdir -p $V
dev() { for x in "$@"; do truncate -s ${SIZE:-64M} $V/$x; done; }
paths() { for x in "$@"; do printf '%s ' $V/$x; done; }
pack() { # pack NAME POOL DEVICES...: record, export, compress
  n=$1 p=$2; shift 2; record $p /out/$n; [ "${NOEXPORT:-}" ] || zpool export $p; for x in "$@"; do zstd -q -3 --rm $V/$x -o /out/$n/$x.zst; done; echo "made $n $(du -sk /out/$n | cut -f1)k"; }
zp() { zpool create -f "$@"; }

everything() { export LIGHT=1 RND=140000; SIZE=384M dev d0; zp -O atime=off -O mountpoint=/tank tank $V/d0
  for c in off lz4 lzjb gzip-1 gzip-6 gzip-9 zle zstd-1 zstd-3 zstd-19 zstd-fast-10; do zfs create -o compression=$c tank/c-$c; DIRENTS=5 fill /tank/c-$c; done
  for c in off fletcher2 fletcher4 sha256 sha512 skein edonr blake3; do zfs create -o checksum=$c tank/k-$c; DIRENTS=5 fill /tank/k-$c; done
  for r in 512 4k 16k 1M; do zfs create -o recordsize=$r tank/r-$r; DIRENTS=5 fill /tank/r-$r; done
  zfs create -o copies=3 -o xattr=dir tank/xdir; DIRENTS=3 fill /tank/xdir; xattrs /tank/xdir
  zfs create -o xattr=sa -o acltype=posix -o dnodesize=auto tank/xsa; DIRENTS=3 fill /tank/xsa; xattrs /tank/xsa; acls /tank/xsa
  zfs create -o casesensitivity=insensitive -o normalization=formD -o utf8only=on tank/ci; DIRENTS=20 fill /tank/ci
  zfs create -o dnodesize=16k tank/dn16k; DIRENTS=20 fill /tank/dn16k
  zfs create -o quota=50M -o reservation=5M -o refquota=40M -o com.example:note='hello world' tank/q; fill /tank/q; zfs set userquota@1000=20M groupquota@77=10M tank/q
  zfs create tank/big; mkdir /tank/big/many; i=0; while [ $i -lt $((12000+SEED*111)) ]; do : > /tank/big/many/file-number-$i; i=$((i+1)); done; rm /tank/big/many/file-number-1*7
  zfs create -o canmount=off tank/noc; zfs create -o mountpoint=legacy tank/legacy
  pack everything tank d0; unset LIGHT RND; }
layouts() {
  SIZE=64M dev m0 m1 m2; zp -o ashift=9 tm mirror $(paths m0 m1 m2); fill /tm; zfs snapshot tm@a; pack mirror3 tm m0 m1 m2
  SIZE=64M dev z0 z1 z2; zp -o ashift=9 tz1 raidz1 $(paths z0 z1 z2); fill /tz1; pack raidz1-3-a9 tz1 z0 z1 z2
  SIZE=64M dev y0 y1 y2 y3 y4; zp -o ashift=12 tz2 raidz2 $(paths y0 y1 y2 y3 y4); fill /tz2; pack raidz2-5-a12 tz2 y0 y1 y2 y3 y4
  SIZE=64M dev x0 x1 x2 x3 x4 x5 x6; zp -o ashift=12 tz3 raidz3 $(paths x0 x1 x2 x3 x4 x5 x6); fill /tz3; pack raidz3-7-a12 tz3 x0 x1 x2 x3 x4 x5 x6
  SIZE=64M dev w0 w1 w2 w3 w4 w5 w6 w7; zp td draid2:4d:1s:8c $(paths w0 w1 w2 w3 w4 w5 w6 w7); fill /td; pack draid2-4d-1s-8c td w0 w1 w2 w3 w4 w5 w6 w7
  SIZE=64M dev s0 s1 s2 s3; zp ts $(paths s0 s1) mirror $(paths s2 s3); fill /ts; pack stripe-and-mirror ts s0 s1 s2 s3
  SIZE=64M dev h0 h1 h2 h3 l0 l1 c0 p0 p1 q0 e0; zp th mirror $(paths h0 h1) mirror $(paths h2 h3) log mirror $(paths l0 l1) cache $V/c0 spare $V/q0 special mirror $(paths p0 p1) dedup $V/e0
  zfs set sync=always special_small_blocks=4k dedup=sha256 th; fill /th; cp /th/random.bin /th/dup1; cp /th/random.bin /th/dup2; cat /th/random.bin /th/text.txt > /dev/null; pack hybrid th h0 h1 h2 h3 l0 l1 c0 p0 p1 q0 e0; }
history_of() { SIZE=256M dev n0; zp -O compression=lz4 th $V/n0; zfs create th/fs; fill /th/fs
  for s in 1 2 3 4 5 6; do zfs snapshot -r th@s$s; prand $((30+s)) 70000 > /th/fs/new$s; rm -f /th/fs/dir/entry-$s*; prand $((40+s)) 5000 | dd of=/th/fs/random.bin bs=1 seek=$((s*90000)) conv=notrunc 2>/dev/null; done
  zfs destroy th/fs@s3; zfs clone th/fs@s2 th/clone; echo cl > /th/clone/only-here; rm /th/clone/b128k; zfs snapshot th/clone@c1; zfs clone th/fs@s4 th/prom; echo pr > /th/prom/p; zfs promote th/prom
  zfs hold -r keep th@s5; zfs bookmark th/fs@s6 th/fs#mark; zfs rename th/fs@s6 th/fs@six; zfs create -V 16M -o volblocksize=8k th/vol; udevwait /dev/zvol/th/vol; mke2fs -q -F /dev/zvol/th/vol; zfs snapshot th/vol@v1; zfs create -s -V 1G th/sparsevol
  zfs create -o recordsize=1M th/clonesrc; prand 50 1500000 > /th/clonesrc/src; zpool sync th; cp --reflink=always /th/clonesrc/src /th/clonesrc/ref; zfs rollback th/clone@c1
  mkdir -p /out/streams; zfs send th/fs@s1 2>/dev/null > /dev/null; for a in "th/prom@s1 full" "-Lec th/prom@s1 full-Lec" "-i @s1 th/prom@s2 inc" "-I @s1 th/prom@s4 inc-I" "-R th/prom@s4 recursive" "-w th/prom@s1 raw" "th/vol@v1 volume" "-Lec th/vol@v1 volume-Lec"; do set -- $a; n=; for w in "$@"; do n=$w; done; zfs send ${a% *} > /out/streams/$n.zsend; zstream dump -v < /out/streams/$n.zsend > /out/streams/$n.dump 2>&1; done
  zfs create -o encryption=on -o keyformat=raw -o keylocation=file:///tmp/key32 th/encraw 2>/dev/null; zfs diff th/prom@s1 th/prom@s4 > /out/streams/diff-s1-s4.txt; (cd /out/streams; for f in *.zsend; do zstd -q -9 --rm $f; done)
  pack history th n0; }
encrypted() { prand 60 32 > /tmp/key32; SIZE=128M dev e1; zp te $V/e1; echo "correct horse $SEED" > /tmp/pass
  zfs create -o encryption=aes-256-gcm -o keyformat=passphrase -o keylocation=file:///tmp/pass te/gcm; zfs create -o encryption=aes-128-ccm -o keyformat=raw -o keylocation=file:///tmp/key32 te/ccm
  zfs create -o compression=zstd te/gcm/child; zfs create -o encryption=aes-192-gcm -o keyformat=hex -o keylocation=file:///tmp/hex te/hex 2>/dev/null
  for f in gcm ccm gcm/child; do DIRENTS=10 fill /te/$f; xattrs /te/$f; done; zfs snapshot -r te@s; mkdir -p /out/encrypted; cp /tmp/key32 /tmp/pass /out/encrypted/; zfs send -w te/ccm@s | zstd -q > /out/encrypted/ccm-raw.zsend.zst
  pack encrypted te e1; }
devices() {
  SIZE=128M dev k0; zp tk $V/k0; fill /tk; zpool checkpoint tk; rm /tk/random.bin; echo after > /tk/after-checkpoint; pack checkpoint tk k0
  SIZE=96M dev g0 g1 g2 g3; zp tg raidz1 $(paths g0 g1 g2); fill /tg; zpool attach tg raidz1-0 $V/g3; zpool wait -t raidz_expand tg; prand 71 300000 > /tg/after; pack raidz-expanded tg g0 g1 g2 g3
  echo 20000 > /sys/module/zfs/parameters/metaslab_force_ganging; echo 100 > /sys/module/zfs/parameters/metaslab_force_ganging_pct 2>/dev/null; SIZE=128M dev j0; zp -O recordsize=128k -O compression=off tj $V/j0; fill /tj; zpool sync tj; pack gang tj j0; echo 16777217 > /sys/module/zfs/parameters/metaslab_force_ganging
  SIZE=64M dev i0; zp -o version=28 ti $V/i0; fill /ti; zfs snapshot ti@a; pack version28 ti i0
  SIZE=64M dev b0; zp -d tb $V/b0; fill /tb; pack no-features tb b0
  SIZE=64M dev u0; zp tu $V/u0; zfs create -o sync=always tu/fs; fill /tu/fs; zpool sync tu; zpool freeze tu; echo 'in the log only' > /tu/fs/logged; prand 72 60000 | dd of=/tu/fs/random.bin bs=60000 seek=2 conv=notrunc,fsync 2>/dev/null; mkdir /tu/fs/logdir; mv /tu/fs/text.txt /tu/fs/logdir/moved; rm /tu/fs/b511; ln -s x /tu/fs/loglink; truncate -s 1000 /tu/fs/b128k; setfattr -n user.log -v 1 /tu/fs/b513; dd if=/dev/zero of=/tu/fs/syncfile bs=1 count=1 conv=fsync 2>/dev/null
    mkdir -p /out/unclean-log; tree /tu/fs > /out/unclean-log/tree-after-replay; cp $V/u0 /tmp/u0.copy; zstd -q -3 /tmp/u0.copy -o /out/unclean-log/u0.zst; echo "made unclean-log"; zpool export -f tu & sleep 1
}
removed() { SIZE=600M dev r0 r1; zp tr $(paths r0 r1); fill /tr; zpool remove tr $V/r1; zpool wait -t remove tr; prand 70 100000 > /tr/after; pack removed tr r0; }
expanding() { export LIGHT=1 DIRENTS=60; SIZE=64M dev v0 v1 v2 v3; zp -o ashift=9 tv raidz1 $(paths v0 v1 v2); fill /tv; zfs create -o compression=off tv/plain
  for i in 1 2 3 4 5 6; do text $((80+i)) 24000 > /tv/plain/text$i; done; fill /tv/plain; zpool sync tv
  echo 4000000 > /sys/module/zfs/parameters/raidz_expand_max_reflow_bytes; zpool attach tv raidz1-0 $V/v3 & sleep 10; prand 73 300000 > /tv/during; NOEXPORT=1 pack raidz-expanding tv v0 v1 v2 v3; }
case "$(cat /job/part)" in 1) everything;; 2) layouts;; 3) history_of; encrypted;; 4) devices;; 5) removed;; 6) expanding;; esac
dmesg | grep -iE 'panic|BUG|oops' | head
