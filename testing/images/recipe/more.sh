# Runs in a guest with the OpenZFS module, with lib.sh, zvol_id and a file `part` beside it (the
# names of the scenarios). Leaves one folder per scenario in /out: transient states of a pool, and
# layouts of other widths.
#
#   echo 'expanding replacing draid-spare' > part
cd /job; . ./lib.sh
mount -o remount,size=90% /tmp
export SEED=${SEED:-2} LIGHT=1 RND=60000 DIRENTS=6
V=/tmp/v; P=/sys/module/zfs/parameters; mkdir -p $V
dev() { for x in "$@"; do truncate -s ${SIZE:-64M} $V/$x; done; }
paths() { for x in "$@"; do printf '%s ' $V/$x; done; }
pack() { n=$1 p=$2; shift 2; record $p /out/$n; zpool export $p; for x in "$@"; do zstd -q -3 --rm $V/$x -o /out/$n/$x.zst; done; echo "made $n $(du -sk /out/$n | cut -f1)k at $(cut -d. -f1 /proc/uptime)s"; }
zp() { zpool create -f -O atime=off "$@"; }

mirror2_a12() { dev ma mb; zp -o ashift=12 m2 mirror $(paths ma mb); fill /m2; zfs snapshot m2@s; echo 1 > $P/zfs_scan_suspend_progress; zpool scrub m2; sleep 1; zpool scrub -p m2; pack mirror2-a12 m2 ma mb; echo 0 > $P/zfs_scan_suspend_progress; }
raidz1_4_a12() { dev ra rb rc rd; zp -o ashift=12 r1 raidz1 $(paths ra rb rc rd); fill /r1; prand 77 400000 > /r1/more; zpool scrub -w r1; pack raidz1-4-a12 r1 ra rb rc rd; }
raidz2_4_a9() { dev sa sb sc sd; zp -o ashift=9 r2 raidz2 $(paths sa sb sc sd); fill /r2; pack raidz2-4-a9 r2 sa sb sc sd; }
raidz3_5() { dev ta tb tc td te; zp -o ashift=12 r3 raidz3 $(paths ta tb tc td te); fill /r3; pack raidz3-5 r3 ta tb tc td te; }
draid1_3d_6c_1s() { dev d1a d1b d1c d1d d1e d1f; zp d1 draid1:3d:6c:1s $(paths d1a d1b d1c d1d d1e d1f); fill /d1; pack draid1-3d-6c-1s d1 d1a d1b d1c d1d d1e d1f; }
draid3_2d_7c_1s() { dev d3a d3b d3c d3d d3e d3f d3g; zp d3 draid3:2d:7c:1s $(paths d3a d3b d3c d3d d3e d3f d3g); fill /d3; pack draid3-2d-7c-1s d3 d3a d3b d3c d3d d3e d3f d3g; }
classes() { dev la lb lc ld le; zp cl $(paths la lb) log $V/lc special $V/ld cache $V/le; zfs set special_small_blocks=8k sync=always cl; fill /cl; pack classes cl la lb lc ld le; }

expanding() { dev xa xb xc xd; zp -o ashift=9 xp raidz1 $(paths xa xb xc); fill /xp; prand 78 2500000 > /xp/before; zpool sync xp; echo 120000 > $P/raidz_expand_max_reflow_bytes; zpool attach xp raidz1-0 $V/xd; sleep 8; cat $P/raidz_expand_max_reflow_bytes; prand 79 200000 > /xp/during; zpool status xp; pack expanding xp xa xb xc xd; echo 0 > $P/raidz_expand_max_reflow_bytes; }
replacing() { dev pa pb pc pd; zp rp raidz1 $(paths pa pb pc); fill /rp; zpool sync rp; echo 1 > $P/zfs_scan_suspend_progress; zpool replace rp $V/pb $V/pd; sleep 2; prand 80 90000 > /rp/during; pack replacing rp pa pb pc pd; echo 0 > $P/zfs_scan_suspend_progress; }
draid_spare() { dev qa qb qc qd qe qf; zp dq draid1:3d:6c:1s $(paths qa qb qc qd qe qf); fill /dq; zpool sync dq; zpool offline dq $V/qc; zpool replace dq $V/qc draid1-0-0; zpool wait -t resilver dq; prand 81 90000 > /dq/after; pack draid-spare dq qa qb qc qd qe qf; }
spare() { dev ea eb ec ed ee; zp sp raidz1 $(paths ea eb ec) spare $V/ed $V/ee; fill /sp; zpool sync sp; zpool offline sp $V/eb; zpool replace -f sp $V/eb $V/ed; zpool wait -t resilver sp; prand 82 90000 > /sp/after; pack spare sp ea eb ec ed ee; }
stale() { dev fa fb; zp st mirror $(paths fa fb); fill /st; zpool sync st; zpool offline st $V/fb; prand 83 90000 > /st/after; rm /st/b511; pack stale st fa fb; }
replaced() { dev ga gb gc gd; zp rd raidz1 $(paths ga gb gc); fill /rd; zpool sync rd; zpool replace rd $V/gb $V/gd; zpool wait -t replace rd; prand 84 90000 > /rd/after; pack replaced rd ga gb gc gd; }
removed2() { SIZE=600M dev ha hb hc hd he hf; zp rm $(paths ha) mirror $(paths hc hd) mirror $(paths he hf); fill /rm; zpool sync rm; zpool remove rm mirror-1; zpool wait -t remove rm; DIRENTS=3 fill /rm/more; zpool sync rm; zpool remove rm mirror-2; zpool wait -t remove rm; rm -r /rm/more/a; zpool checkpoint rm; rm /rm/random.bin; prand 85 90000 > /rm/after; pack removed2 rm ha hc hd he hf; }
removing() { SIZE=600M dev ia ib; zp rg $(paths ia ib); fill /rg; prand 86 900000 > /rg/lots; zpool sync rg; echo 1 > $P/zfs_removal_suspend_progress; zpool remove rg $V/ib; sleep 2; prand 87 90000 > /rg/during; rm /rg/b128k; pack removing rg ia ib; echo 0 > $P/zfs_removal_suspend_progress; }
resilvering() { dev ja jb jc; zp rs mirror $(paths ja jb); fill /rs; zpool sync rs; echo 1 > $P/zfs_scan_suspend_progress; zpool attach rs $V/ja $V/jc; sleep 2; prand 88 90000 > /rs/during; pack resilvering rs ja jb jc; echo 0 > $P/zfs_scan_suspend_progress; }
for s in $(cat /job/part); do mkdir -p /out/$s; $(echo $s | tr - _) > /out/$s/log 2>&1; tail -2 /out/$s/log; done
dmesg | grep -iE 'panic|BUG|oops' | head
