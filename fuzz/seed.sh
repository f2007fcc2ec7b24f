#!/bin/sh
# Puts real blocks into the corpora, so that the fuzzer starts behind the headers. Run from anywhere; add your own targets.
set -e
cd "$(dirname "$0")"
for codec in lzjb gzip zle lz4 zstd; do
    mkdir -p "corpus/decompress_$codec"
    # A block of 128 KiB, see weir_fuzz::decompress.
    { printf '\000\000\002'; cat "../base/transform/testdata/compress/$codec.bin"; } > "corpus/decompress_$codec/openzfs"
done
mkdir -p corpus/checksum_embedded
{ printf '\000'; cat ../base/transform/testdata/checksum/uberblock.bin; } > corpus/checksum_embedded/uberblock
{ printf '\003'; cat ../base/transform/testdata/checksum/log-block.bin; } > corpus/checksum_embedded/log-block
# Structures: the golden bytes of base/ondisk/testdata.
ondisk() {
    target=$1
    shift
    mkdir -p "corpus/$target"
    for name in "$@"; do cp "../base/ondisk/testdata/$name.bin" "corpus/$target/$name"; done
}
ondisk nvlist label_draid2_xdr send_begin_raw_native
ondisk label label_raidz1_xdr label_trailer
ondisk uberblock uberblock_le uberblock_be
ondisk spacemap spacemap_v1 spacemap_log
ondisk bpobj bpobj_bonus bpobj
ondisk gang gang_header
ondisk indirect indirect_mapping indirect_mapping_bonus
ondisk intent_log zil_blocks
ondisk ddt ddt_value_zap ddt_key ddt_log_bonus
ondisk brt brt_bonus brt_entcounts
ondisk history history history_bonus
ondisk l2arc l2arc_header
ondisk scan_state scan removing checkpoint_uberblock
ondisk send_record send_records
ondisk blkptr blkptr blkptr_embedded blkptr_encrypted
ondisk dnode dnode objset
ondisk dsl dsl_dir.th-vol dsl_dataset.th-prom-s2 deadlist.th-prom-s4
# Blocks of encrypted datasets with their pointers.
mkdir -p corpus/encrypted_block
cp ../engine/block/testdata/crypt_*.bin corpus/encrypted_block
golden=../base/ondisk/testdata
mkdir -p corpus/zap corpus/zap_object corpus/sa corpus/acl
# The first byte tells the byte order.
for target in zap zap_object; do { printf '\001'; cat $golden/zap_master_sparc.bin; } > corpus/$target/micro; done
for part in header leaf; do { printf '\000'; cat $golden/zap_layouts_$part.bin; } > corpus/zap/$part; done
# Layout 6 of testdata/README.md: how many attributes, then number and length of each.
{ printf '\020\005\010\006\010\004\010\014\010\015\010\007\010\013\010\000\020\001\020\002\020\003\020\010\010\025\010\020\010\023\000\024\000'; cat $golden/sa_bonus.bin; } > corpus/sa/bonus
printf '\002\000\000\000\001\000\006\000\377\377\377\377\002\000\004\000\322\004\000\000' > corpus/acl/posix
tail -c 88 $golden/znode_sparc.bin > corpus/acl/znode
# Exchanges of NFS: connections of right calls.
${CARGO:-cargo} run --quiet --manifest-path ../Cargo.toml --package weir-wire -- seeds "$PWD/corpus/rpc" 300
