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
