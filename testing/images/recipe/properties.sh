# Runs in the guest: creates a pool whose datasets have properties of every kind and source, then
# records what the kernel module reports about it after a read-only import. Leaves the records in
# /out; the pool is the file /disks/p0 (256 MiB, sparse).
exec 2>&1
D=/disks/p0; P=tp
zpool create -f -O atime=off -O com.example:top=root -O mountpoint=/tp $P $D || exit 1
step() { echo "## $*"; "$@" || echo "FAILED $?: $*"; }
mk() { head -c $2 /dev/urandom > $1; }
step zfs create $P/a; mk /tp/a/one 30000; mk /tp/a/two 20000; step zfs snapshot -o com.example:snap=first $P/a@s1
step zfs set com.example:later=added $P/a@s1
mk /tp/a/three 15000; rm /tp/a/one; step zfs snapshot $P/a@s2; echo x > /tp/a/four; step zfs snapshot $P/a@s3
step zfs set com.example:top=mine $P/a; step zfs create $P/a/below; step zfs create -o com.example:leaf='a b' $P/a/below/leaf; step zfs snapshot -r $P/a@rec
step zfs create -o casesensitivity=insensitive -o normalization=formD -o utf8only=on $P/ci; step zfs snapshot $P/ci@MiXed
step zfs create -o casesensitivity=mixed -o normalization=formKC $P/mx
step zfs create $P/lim; step zfs set filesystem_limit=9 $P/lim; step zfs set snapshot_limit=20 $P/lim; step zfs create $P/lim/x; step zfs create $P/lim/y; step zfs snapshot -r $P/lim@l1; step zfs snapshot $P/lim/x@l2
step zfs create -o quota=60M -o reservation=6M -o refquota=50M -o refreservation=4M $P/q; step zfs create -o quota=30M -o refreservation=3M $P/q/in; step zfs create -o reservation=2M $P/q/in/deep; mk /tp/q/in/deep/f 20000; mk /tp/q/f 30000; step zfs snapshot -r $P/q@q1; mk /tp/q/f 10000
step zfs create -o refquota=1M $P/full; mk /tp/full/f 1040000
step zfs clone $P/a@s2 $P/clone; echo c > /tp/clone/c; step zfs snapshot $P/clone@cs; step zfs clone $P/clone@cs $P/clone2; step zfs snapshot $P/clone2@rs; rm /tp/clone2/two; step zfs snapshot $P/clone2@rs2
step zfs clone $P/a@s1 $P/prom; step zfs promote $P/prom
step zfs bookmark $P/a@s2 $P/a#b2; step zfs bookmark $P/a@s3 $P/a#b3; step zfs bookmark $P/a#b2 $P/a#copy; step zfs destroy $P/a@s3
step zfs redact $P/a@s2 redbook $P/clone2@rs2
step zfs hold tag1 $P/a@rec; step zfs hold tag2 $P/a@rec; step zfs hold -r deep $P/q@q1; step zfs destroy -d $P/q/in@q1
step sh -c "zfs send -p $P/q/in/deep@q1 | zfs recv -o com.example:o=over -x reservation $P/got"; step sh -c "zfs send -p $P/ci@MiXed | zfs recv $P/gotci"
step zfs create -o compression=gzip-5 -o checksum=sha512 -o recordsize=16K -o com.example:send=yes -o dedup=off -o copies=2 $P/src; mk /tp/src/f 150000; step zfs snapshot $P/src@1; mk /tp/src/g 120000; step zfs snapshot $P/src@2
step sh -c "zfs send -p $P/src@1 | zfs recv -u $P/rp"; step zfs set compression=lz4 $P/rp; step zfs inherit copies $P/rp; step zfs create $P/rp/kid
step sh -c "zfs send -p $P/src@1 | zfs recv -u $P/rp2"; step zfs set checksum=sha256 $P/rp2; step zfs inherit -S checksum $P/rp2
step sh -c "zfs send -Lec $P/src@2 | head -c 180000 | zfs recv -us $P/partial"; step sh -c "zfs send -i @1 $P/src@2 | head -c 90000 | zfs recv -us $P/rp2"
step sh -c "zfs send --redact redbook $P/a@s2 | zfs recv -u $P/redacted"
step zfs create -V 4M -o volblocksize=4k $P/v4; step zfs create -s -V 64M -o volblocksize=64k -o snapdev=visible -o volmode=dev $P/v64; step zfs create -V 2M -o readonly=on -o volthreading=off -o logbias=throughput $P/v16; step zfs snapshot $P/v4@v; step zfs clone $P/v4@v $P/vc; step zfs set refreservation=auto $P/v64
echo 0123456789abcdef0123456789abcdef0123456789abcdef0123456789ABCDEF > /tmp/hex; echo "a passphrase" > /tmp/pp; head -c 32 /dev/zero > /tmp/raw
step zfs create -o encryption=aes-192-gcm -o keyformat=hex -o keylocation=file:///tmp/hex $P/enc; step zfs create $P/enc/in; step zfs create -o encryption=aes-256-ccm -o keyformat=passphrase -o pbkdf2iters=120000 -o keylocation=file:///tmp/pp $P/enc/own; mk /tp/enc/in/f 10000; step zfs snapshot -r $P/enc@e; step zfs clone $P/enc/in@e $P/enc/cl; step zfs create -V 2M $P/enc/vol; step zfs set keylocation=prompt $P/enc/own; step zfs bookmark $P/enc/in@e $P/enc/in#ebm; step sh -c "zfs send -w $P/enc/own@e | zfs recv -u $P/rawgot"
step zfs create -o mountpoint=none $P/none; step zfs create $P/none/n; step zfs create -o mountpoint=/elsewhere $P/none/m; step zfs create $P/none/m/sub; step zfs create -o mountpoint=legacy $P/leg; step zfs create -o canmount=noauto $P/noauto; step zfs create -o canmount=off -o mountpoint=/ $P/rooted; step zfs create -u $P/rooted/inroot
step zfs create -o compression=zstd-7 -o checksum=blake3 -o dedup=sha256,verify -o recordsize=1M -o sync=disabled -o xattr=dir -o acltype=nfsv4 -o dnodesize=1k -o redundant_metadata=some -o logbias=throughput -o primarycache=metadata -o secondarycache=none -o prefetch=metadata -o direct=always -o relatime=off -o exec=off -o devices=off -o setuid=off -o snapdir=visible -o aclmode=passthrough -o aclinherit=passthrough-x -o vscan=on -o nbmand=on -o overlay=off -o special_small_blocks=32K -o longname=on -o copies=2 $P/odd; step zfs create $P/odd/kid; step zfs snapshot -r $P/odd@o
step zfs create -o compression=zstd-fast-100 -o xattr=off -o acltype=posix -o readonly=on -o snapdir=disabled -o context=none -o volmode=geom $P/odd2; step zfs create -o compression=gzip $P/gz; step zfs create -o compression=zstd-fast $P/zf
step zfs create $P/uq; for u in 10 20 30; do head -c $((u*500)) /dev/urandom > /tp/uq/$u; chown $u:$((u+1)) /tp/uq/$u; done; step zfs set userquota@10=1M userquota@99=2M groupquota@11=3M userobjquota@20=100 groupobjquota@21=50 $P/uq; chattr -p 77 /tp/uq/30 2>/dev/null || zfs project -p 77 /tp/uq/30; step zfs set projectquota@77=4M projectobjquota@77=40 $P/uq
step zfs create $P/many; for i in 1 2 3 4; do zfs create $P/many/f$i; done; for i in 1 2 3 4 5 6; do zfs snapshot -r $P/many@n$((i*5%6)); done
step zfs create $P/a-x; step zfs create $P/a.b; step zfs create "$P/a b"; step zfs create $P/A
zpool sync $P; for c in userspace groupspace projectspace; do echo "== $c"; zfs $c -Hp -o type,name,used,quota,objused,objquota $P/uq; done > /out/space.txt 2>&1
zfs get -Hp -r -t all all $P > /out/zfs-get.txt
zpool export $P; sleep 1
zpool import -o readonly=on -N -d /disks $P; echo import $?
zfs get -Hp -r -t all all $P > /out/zfs-get-readonly.txt 2> /out/err; zfs get -H -r -t all all $P > /out/zfs-get-readonly-human.txt 2>/dev/null; echo got
zfs list -Hp -r -t all -o name,used,avail,refer $P > /out/zfs-list.txt; zfs holds -r -Hp $(zfs list -H -o name -t snapshot -r $P) > /out/zfs-holds.txt
zfs list -Hp -r -t all -o name,clones,numclones,prevsnap,inconsistent,unique,redacted,ivsetguid,keyguid,pbkdf2salt,redact_snaps,receive_resume_token,useraccounting,name $P > /out/hidden.txt
zfs get -Hp written@s1,written@s2,written@rec,written#b2,written#b3,written#copy,written@$P/prom@s1 $P/a $P/prom $P/clone $P/clone2 $P/a@rec > /out/written.txt
zfs get -Hp -o name,property,value,received,source all $P/rp $P/rp2 $P/rp/kid $P/got $P/gotci > /out/received.txt
zpool get -Hp all $P > /out/zpool-get.txt
for t in $(cut -f12 /out/hidden.txt | grep ^1-); do zstream token $t; done > /out/tokens.txt
zpool export $P; echo done
