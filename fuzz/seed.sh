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
