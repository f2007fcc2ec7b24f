//! Written blocks can be read: every layout, size, checksum and compression, as gang blocks,
//! rewritten in place, and with failing devices.
//!
//! The read side was tested against pools of OpenZFS, so it is the judge here: each block is read
//! back past the cache, and `verify` checks every copy and every parity column.

use crate::support::*;
use block::crypt::DatasetKeys;
use block::vdev::Contents;
use block::{Compress, RawBlock, WritePolicy, WriteStore};
use bytes::Bytes;
use errors::{Error, Refusal};
use host::device::Device;
use ondisk::{BlkPtr, Checksum, Compression, Endian, ObjectType, Txg};
use rig::noise;
use std::sync::atomic::Ordering;
use transform::compress::zstd;

fn write(store: &WriteStore, data: &[u8], policy: &WritePolicy, keys: Option<&DatasetKeys>) -> BlkPtr {
    store.write(TXG, Bytes::copy_from_slice(data), policy, &AT, keys).unwrap()
}

#[test]
fn every_layout_and_size_reads_back_with_all_columns_right() {
    for layout in ALL {
        for ashift in [9, 12] {
            let bench = bench(layout, ashift);
            for (seed, size) in
                [512, 1024, 1536, 4096, 5120, 8192, 16384, 65536, 131_072, 1 << 20].into_iter().enumerate()
            {
                let data = noise(seed as u64 + 1, size);
                let bp = write(&bench.store, &data, &policy(), None);
                assert_eq!((bp.psize_bytes(), bp.compression().unwrap()), (size as u64, Compression::Off));
                assert_eq!((bp.logical_birth(), bp.fill()), (Txg(TXG), 1));
                check(&bench, &bp, &data, None);
                let data = half(seed as u64, size.max(131_072));
                let bp = write(&bench.store, &data, &policy(), None);
                assert!(bp.psize_bytes() < bp.lsize_bytes(), "{layout:?} {ashift}: {bp}");
                check(&bench, &bp, &data, None);
                bench.store.free(TXG, &bp).unwrap();
            }
        }
    }
}

#[test]
fn every_checksum_and_compression_reads_back() {
    let bench = bench(Layout::Mirror(2), 9);
    let data = half(4, 131_072);
    let checksums = [
        Checksum::Off,
        Checksum::Fletcher2,
        Checksum::Fletcher4,
        Checksum::Sha256,
        Checksum::NoParity,
        Checksum::Sha512,
        Checksum::Skein,
        Checksum::EdonR,
        Checksum::Blake3,
    ];
    for checksum in checksums {
        let bp = write(&bench.store, &data, &WritePolicy { checksum, copies: 2, ..policy() }, None);
        assert_eq!(bp.checksum_kind().unwrap(), checksum);
        check(&bench, &bp, &data, None);
    }
    let zstd = |level| Compress::Zstd(zstd::Level::from_level(level).unwrap());
    let gzip = (1..=9).map(Compress::Gzip);
    let all = [Compress::Lzjb, Compress::Zle, Compress::Lz4, zstd(1), zstd(3), zstd(19), zstd(-5), zstd(-1000)];
    for compression in all.into_iter().chain(gzip) {
        let bp = write(&bench.store, &data, &WritePolicy { compression, ..policy() }, None);
        assert_eq!(bp.compression().unwrap(), compression.algorithm());
        assert!(bp.psize_bytes() < 80_000, "{bp}");
        check(&bench, &bp, &data, None);
        bench.store.free(TXG, &bp).unwrap();
    }
    for compression in [Compress::Off, Compress::Empty] {
        let bp = write(&bench.store, &data, &WritePolicy { compression, ..policy() }, None);
        assert_eq!((bp.compression().unwrap(), bp.psize_bytes()), (Compression::Off, 131_072));
        check(&bench, &bp, &data, None);
    }
    let wrong = WritePolicy { checksum: Checksum::On, ..policy() };
    assert!(matches!(bench.store.write(TXG, Bytes::from(data), &wrong, &AT, None), Err(Error::Invalid { .. })));
}

/// ZFS name: nopwrite.
#[test]
fn contents_that_the_replaced_block_has_are_not_written_again() {
    let bench = bench(Layout::Mirror(2), 9);
    let policy = |checksum| WritePolicy { checksum, compression: Compress::Lz4, ..policy() };
    let data = half(4, 131_072);
    let again = |present: &BlkPtr, data: &[u8], policy: &WritePolicy| {
        let data = Bytes::copy_from_slice(data);
        bench.store.write_or_keep(TXG + 1, present, data, policy, &AT, None).unwrap()
    };
    for checksum in [Checksum::Sha256, Checksum::Sha512, Checksum::Skein, Checksum::EdonR, Checksum::Blake3] {
        let policy = policy(checksum);
        let bp = write(&bench.store, &data, &policy, None);
        assert_eq!(again(&bp, &data, &policy), bp, "{checksum:?}");
        check(&bench, &bp, &data, None);
        // Other contents, and the same in another form.
        for (data, policy) in [
            (half(5, 131_072), policy),
            (data.clone(), WritePolicy { copies: 2, ..policy }),
            (data.clone(), WritePolicy { compression: Compress::Off, ..policy }),
            (data.clone(), WritePolicy { compression: Compress::Gzip(6), ..policy }),
            (data.clone(), WritePolicy { checksum: Checksum::Fletcher4, ..policy }),
        ] {
            let new = again(&bp, &data, &policy);
            assert_eq!(new.logical_birth(), Txg(TXG + 1));
            assert_ne!(new.dva(0), bp.dva(0));
            check(&bench, &new, &data, None);
        }
        assert_eq!(again(&BlkPtr::HOLE, &data, &policy).logical_birth(), Txg(TXG + 1));
    }
    // Equal checksums of this kind do not mean equal contents.
    let weak = policy(Checksum::Fletcher4);
    let bp = write(&bench.store, &data, &weak, None);
    assert_eq!(again(&bp, &data, &weak).logical_birth(), Txg(TXG + 1));
}

/// Regression: for months a gzip level wrote blocks that could not be decompressed, and every
/// verification called them clean, because their checksums were right.
#[test]
fn a_block_that_does_not_unpack_is_not_readable_however_right_its_copies_are() {
    const LSIZE: usize = 131_072;
    for layout in [Layout::Disk, Layout::Mirror(2), Layout::Raidz(2, 6), Layout::Draid] {
        let bench = bench(layout, 12);
        let take = |bytes: Vec<u8>, compression| {
            let (bytes, lsize_bytes) = (Bytes::from(bytes), LSIZE as u64);
            let block = RawBlock { bytes, lsize_bytes, compression, endian: Endian::Little, sealed: None };
            bench.store.write_raw(TXG, &block, &policy(), &AT, None).unwrap()
        };
        for compression in
            [Compression::Lzjb, Compression::Gzip(1), Compression::Zle, Compression::Lz4, Compression::Zstd]
        {
            let algorithm = transform::compress::Algorithm::from_number(compression.to_raw()).unwrap();
            let packed =
                transform::compress::compress(algorithm, zstd::Level::DEFAULT, &half(5, LSIZE), LSIZE).unwrap();
            let good = take(packed.clone(), compression);
            let seen = bench.store.verify_contents(&good, None);
            assert_eq!((seen.readable, seen.contents, seen.error), (true, Contents::Whole, None), "{good}");
            // The first half of the stream, and nothing more.
            let cut = take(packed[..packed.len() / 2].to_vec(), compression);
            let seen = bench.store.verify(&cut);
            assert!(seen.readable && seen.faults.is_empty(), "its copies are as written: {seen:?}");
            let seen = bench.store.verify_contents(&cut, None);
            assert_eq!((seen.readable, seen.contents), (false, Contents::Malformed), "{cut}: {seen:?}");
            assert_eq!((seen.good_copies, seen.faults.len()), (cut.dvas().count(), 0), "no device is to blame");
            let error = seen.error.unwrap();
            assert!(error.contains("does not unpack"), "{error}");
            assert!(bench.store.read_uncached(&cut, &AT, None).is_err(), "a reader thinks the same");
        }
    }
}

#[test]
fn a_gang_and_a_pointer_with_contents_are_unpacked_too() {
    let bench = bench(Layout::Disk, 9);
    bench.space.largest.store(16 << 10, Ordering::Relaxed);
    let packed = transform::compress::compress(
        transform::compress::Algorithm::Gzip(1),
        zstd::Level::DEFAULT,
        &half(5, 131_072),
        131_072,
    )
    .unwrap();
    for (length, expected) in [(packed.len(), Contents::Whole), (packed.len() / 2, Contents::Malformed)] {
        let block = RawBlock {
            bytes: Bytes::copy_from_slice(&packed[..length]),
            lsize_bytes: 131_072,
            compression: Compression::Gzip(1),
            endian: Endian::Little,
            sealed: None,
        };
        let bp = bench.store.write_raw(TXG, &block, &policy(), &AT, None).unwrap();
        assert!(bp.is_gang());
        let seen = bench.store.verify_contents(&bp, None);
        assert_eq!((seen.contents, seen.readable), (expected, expected == Contents::Whole), "{seen:?}");
    }
    for (payload, expected) in
        [(&[3, 0, 0, 0, 0x10, b'a', b'b'][..], Contents::Malformed), (&[0x4f; 8], Contents::Whole)]
    {
        let compression = if expected == Contents::Whole { Compression::Zle } else { Compression::Lz4 };
        let lsize = if expected == Contents::Whole { 8 * 16 } else { 4096 };
        let bp = BlkPtr::new_embedded(ObjectType::PLAIN_FILE_CONTENTS, 0, compression, lsize, payload, Txg(TXG));
        let seen = bench.store.verify_contents(&bp, None);
        assert_eq!((seen.contents, seen.readable), (expected, expected == Contents::Whole), "{bp}: {seen:?}");
    }
}

#[test]
fn zeros_become_a_hole_with_a_birth_unless_compression_is_off() {
    let bench = bench(Layout::Disk, 12);
    let zeros = vec![0; 131_072];
    for compression in [Compress::Lz4, Compress::Empty] {
        let bp = write(&bench.store, &zeros, &WritePolicy { compression, ..policy() }, None);
        assert!(bp.is_hole());
        assert_eq!((bp.logical_birth(), bp.lsize_bytes()), (Txg(TXG), 131_072));
        check(&bench, &bp, &zeros, None);
    }
    assert_eq!(bench.space.used(), 0);
    let bp = write(&bench.store, &zeros, &WritePolicy { compression: Compress::Off, ..policy() }, None);
    assert!(!bp.is_hole());
    check(&bench, &bp, &zeros, None);
    bench.store.set_hole_births(false);
    assert_eq!(write(&bench.store, &zeros, &policy(), None), BlkPtr::HOLE);
}

#[test]
fn small_contents_are_embedded_in_the_pointer_where_allowed() {
    let bench = bench(Layout::Disk, 12);
    let mut data = vec![0; 8192];
    data[..40].copy_from_slice(&noise(1, 40));
    let bp = write(&bench.store, &data, &policy(), None);
    assert!(bp.is_embedded());
    check(&bench, &bp, &data, None);
    bench.store.free(TXG, &bp).unwrap();
    let not_for = [
        WritePolicy { embed: false, ..policy() },
        WritePolicy { level: 1, ..policy() },
        WritePolicy { object_type: ObjectType::DNODE, ..policy() },
    ];
    for policy in not_for {
        let bp = write(&bench.store, &data, &policy, None);
        assert_eq!((bp.is_embedded(), bp.psize_bytes()), (false, 4096));
        check(&bench, &bp, &data, None);
    }
}

#[test]
fn data_that_saves_less_than_an_eighth_is_stored_uncompressed() {
    let bench = bench(Layout::Disk, 9);
    for (zeros, compressed) in [(8192, false), (24_576, true)] {
        let mut data = noise(9, 131_072);
        data[..zeros].fill(0);
        let bp = write(&bench.store, &data, &policy(), None);
        assert_eq!(bp.compression().unwrap() == Compression::Lz4, compressed, "{bp}");
        check(&bench, &bp, &data, None);
    }
}

#[test]
fn a_block_without_room_in_one_piece_becomes_a_gang_and_all_of_it_is_freed() {
    for layout in [Layout::Disk, Layout::Mirror(2), Layout::Raidz(1, 4), Layout::Stripe(3)] {
        for (largest, copies) in [(48 << 10, 1), (48 << 10, 2), (8 << 10, 1), (512, 1), (4096, 3)] {
            let bench = bench(layout, 9);
            bench.space.largest.store(largest, Ordering::Relaxed);
            let data = noise(largest, 131_072);
            let bp = write(&bench.store, &data, &WritePolicy { copies, ..policy() }, None);
            assert!(bp.is_gang());
            assert_eq!(bp.dvas().count(), usize::from(copies + 1).min(3));
            assert_eq!(bp.asize_bytes(), bp.dvas().map(|d| d.asize_bytes).sum::<u64>());
            assert!(bench.space.used() >= bp.asize_bytes());
            check(&bench, &bp, &data, None);
            bench.store.free(TXG, &bp).unwrap();
            assert_eq!(bench.space.used(), 0, "{layout:?} {largest} {copies}");
        }
    }
}

#[test]
fn a_full_pool_refuses_and_keeps_nothing() {
    let bench = bench(Layout::Disk, 9);
    bench.space.largest.store(8192, Ordering::Relaxed);
    bench.space.left.store(100_000, Ordering::Relaxed);
    let data = Bytes::from(noise(1, 131_072));
    let e = bench.store.write(TXG, data, &policy(), &AT, None).unwrap_err();
    assert_eq!(e.refusal(), Some(Refusal::NoSpace));
    assert_eq!(e.to_string(), "tank: block <21:5:0:3>: out of space");
    assert_eq!(bench.space.used(), 0);
}

#[test]
fn a_block_written_again_keeps_its_place_while_it_fits() {
    let bench = bench(Layout::Raidz(1, 3), 12);
    let first = write(&bench.store, &half(1, 131_072), &policy(), None);
    let again = |old: &BlkPtr, data: Vec<u8>| {
        let bp = bench.store.rewrite(TXG, old, Bytes::from(data.clone()), &policy(), &AT, None).unwrap();
        check(&bench, &bp, &data, None);
        bp
    };
    let used = bench.space.used();
    let mut smaller = half(2, 131_072);
    smaller[20_000..].fill(0);
    for data in [smaller, half(3, 131_072), vec![0; 131_072]] {
        let bp = again(&first, data);
        assert_eq!((bp.dva(0), bp.psize_bytes()), (first.dva(0), first.psize_bytes()));
    }
    assert_eq!(bench.space.used(), used);
    let larger = again(&first, noise(4, 131_072));
    assert_ne!(larger.dva(0), first.dva(0));
    assert_eq!(bench.space.used(), larger.asize_bytes());
    // Incompressible before, compressible now: stored uncompressed, because the size does not
    // change.
    let kept = again(&larger, half(5, 131_072));
    assert_eq!((kept.dva(0), kept.compression().unwrap()), (larger.dva(0), Compression::Off));
    // Without compression, incompressible contents do not fit into the place of compressed ones,
    // but compressible ones may.
    let packed = write(&bench.store, &half(7, 131_072), &policy(), None);
    let off = WritePolicy { compression: Compress::Off, ..policy() };
    let rewrite_off = |old: &BlkPtr, data: Vec<u8>| {
        let bp = bench.store.rewrite(TXG, old, Bytes::from(data.clone()), &off, &AT, None).unwrap();
        check(&bench, &bp, &data, None);
        bp
    };
    assert_eq!(rewrite_off(&packed, half(8, 131_072)).dva(0), packed.dva(0));
    let plain = rewrite_off(&packed, noise(8, 131_072));
    assert_eq!((plain.compression().unwrap(), plain.psize_bytes()), (Compression::Off, 131_072));
    let still = rewrite_off(&plain, half(9, 131_072));
    assert_eq!((still.dva(0), still.psize_bytes()), (plain.dva(0), 131_072));
    bench.store.free(TXG, &still).unwrap();
    // Contents of another size are another block.
    let other = again(&kept, noise(6, 65_536));
    assert_ne!(other.dva(0), kept.dva(0));
    assert_eq!(bench.space.used(), other.asize_bytes());
}

#[test]
fn a_gang_and_a_block_of_an_older_txg_are_not_written_over() {
    let bench = bench(Layout::Disk, 9);
    bench.space.largest.store(65_536, Ordering::Relaxed);
    let gang = write(&bench.store, &noise(1, 131_072), &policy(), None);
    bench.space.largest.store(u64::MAX, Ordering::Relaxed);
    let data = noise(2, 131_072);
    let bp = bench.store.rewrite(TXG, &gang, Bytes::from(data.clone()), &policy(), &AT, None).unwrap();
    check(&bench, &bp, &data, None);
    assert_eq!(bench.space.used(), bp.asize_bytes());
    let later = bench.store.write(TXG, Bytes::from(data.clone()), &policy(), &AT, None).unwrap();
    let moved = bench.store.write(TXG + 1, Bytes::from(data), &policy(), &AT, None).unwrap();
    assert_ne!(later.dva(0), moved.dva(0));
}

#[test]
fn a_device_that_fails_is_counted_and_has_missed_the_txg_while_the_rest_carries_on() {
    for (layout, may_fail) in
        [(Layout::Mirror(3), 2), (Layout::Raidz(1, 4), 1), (Layout::Raidz(2, 5), 2), (Layout::Draid, 2)]
    {
        let bench = bench(layout, 12);
        for disk in &bench.disks[..may_fail] {
            disk.fails_writes.store(true, Ordering::Relaxed);
        }
        let data = noise(1, 1 << 20);
        let bp = write(&bench.store, &data, &policy(), None);
        bench.store.flush().unwrap();
        bench.store.cache().remove(&block::arc::Key { vdev: 0, offset_bytes: bp.dva(0).offset_bytes, birth: TXG });
        assert_eq!(bench.store.read_uncached(&bp, &AT, None).unwrap().data[..], data[..]);
        for (number, leaf) in bench.store.tree().leaves().into_iter().enumerate() {
            // A draid's block is not on all children.
            let failed = number < may_fail && (layout != Layout::Draid || leaf.errors().write > 0);
            assert_eq!((leaf.errors().write > 0, leaf.is_stale(TXG)), (failed, failed), "{layout:?} {number}");
            assert_eq!((leaf.take_missed(), leaf.take_missed()), (failed, false));
            assert_eq!(leaf.errors().checksum, 0);
        }
        let more = if layout == Layout::Draid { 9 } else { may_fail + 1 };
        bench.disks[..more].iter().for_each(|disk| disk.fails_writes.store(true, Ordering::Relaxed));
        let used = bench.space.used();
        let e = bench.store.write(TXG, Bytes::from(noise(2, 1 << 20)), &policy(), &AT, None).unwrap_err();
        assert!(matches!(e, Error::Io { .. }), "{e}");
        assert!(e.to_string().contains("disk-0"), "{e}");
        assert_eq!(bench.space.used(), used);
    }
}

#[test]
fn noise_after_a_block_smaller_than_a_sector_is_repaired_once() {
    for layout in [Layout::Raidz(1, 4), Layout::Raidz(2, 5), Layout::Draid] {
        let bench = bench(layout, 12);
        let data = noise(7, 512);
        let bp = write(&bench.store, &data, &policy(), None);
        bench.store.flush().unwrap();
        // Every place of the block, and of parity, as far as parity equals the block.
        let mut places = Vec::new();
        for disk in &bench.disks {
            let mut sector = [0; 4096];
            for at in (0..disk.size_bytes()).step_by(4096) {
                disk.read_at(at, &mut sector).unwrap();
                if sector[..512] == data[..] {
                    places.push((disk, at));
                }
            }
        }
        assert!(places.len() > 1, "{layout:?}");
        for (disk, at) in places {
            disk.memory.write_at(at + 512, &[0xee; 3584]).unwrap();
            let repair = || bench.store.repair(&bp, &AT, block::vdev::RepairPurpose::Wrong { is_known: false });
            assert_eq!(repair().written.len(), 1, "{layout:?}");
            assert_eq!(repair().written, [], "{layout:?}");
            check(&bench, &bp, &data, None);
        }
    }
}

#[test]
fn missing_devices_have_a_dtl_of_missed_writes() {
    for (layout, away) in [(Layout::MirrorWithout, 1), (Layout::RaidzWithout(1), 1), (Layout::RaidzWithout(3), 3)] {
        let bench = bench(layout, 12);
        for txg in [TXG, TXG + 1, TXG + 5] {
            let data = noise(txg, 1 << 18);
            let bp = bench.store.write(txg, Bytes::from(data.clone()), &policy(), &AT, None).unwrap();
            bench.store.flush().unwrap();
            bench.store.cache().remove(&block::arc::Key { vdev: 0, offset_bytes: bp.dva(0).offset_bytes, birth: txg });
            assert_eq!(bench.store.read_uncached(&bp, &AT, None).unwrap().data[..], data[..]);
        }
        let tree = bench.store.tree();
        let leaves = tree.leaves();
        for leaf in &leaves[..away] {
            assert_eq!(leaf.stale_ranges(), [(TXG, TXG + 1), (TXG + 5, TXG + 5)]);
            assert_eq!(leaf.errors(), Default::default());
        }
        assert!(leaves[away..].iter().all(|leaf| leaf.stale_ranges().is_empty()));
    }
}

#[test]
fn many_threads_write_at_once_and_each_reads_its_own() {
    let bench = bench(Layout::Raidz(2, 5), 12);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let bench = &bench;
            scope.spawn(move || {
                for n in 0..20u64 {
                    let data = if n % 2 == 0 { half(thread * 100 + n, 65_536) } else { noise(thread * 100 + n, 8192) };
                    let bp = write(&bench.store, &data, &policy(), None);
                    check(bench, &bp, &data, None);
                    if n % 5 == 0 {
                        bench.store.flush().unwrap();
                    }
                }
            });
        }
    });
}

#[test]
fn after_a_failed_flush_success_is_never_claimed_again() {
    let single = bench(Layout::Disk, 12);
    write(&single.store, &noise(1, 4096), &policy(), None);
    single.disks[0].fails_flushes.store(true, Ordering::Relaxed);
    assert!(single.store.flush().is_err());
    single.disks[0].fails_flushes.store(false, Ordering::Relaxed);
    assert!(single.store.flush().is_err(), "the system forgot the failed flush, we must not");
    assert!(single.store.write(TXG, Bytes::from(noise(1, 4096)), &policy(), &AT, None).is_err());

    let pair = bench(Layout::Mirror(2), 12);
    let data = noise(1, 4096);
    let bp = write(&pair.store, &data, &policy(), None);
    pair.disks[1].fails_flushes.store(true, Ordering::Relaxed);
    pair.store.flush().unwrap();
    let stale: Vec<bool> = pair.store.tree().leaves().iter().map(|l| l.is_stale(TXG)).collect();
    assert_eq!(stale, [false, true]);
    let later = pair.store.write(TXG + 1, Bytes::from(data.clone()), &policy(), &AT, None).unwrap();
    pair.store.flush().unwrap();
    assert!(pair.store.tree().leaves()[1].is_stale(TXG + 1));
    pair.disks[0].fails_flushes.store(true, Ordering::Relaxed);
    write(&pair.store, &data, &policy(), None);
    assert!(pair.store.flush().is_err());
    for bp in [bp, later] {
        assert_eq!(pair.store.read(&bp, &AT, None).unwrap().data[..], data[..]);
    }
}

#[test]
fn only_devices_that_were_written_are_flushed() {
    let bench = bench(Layout::Stripe(3), 12);
    write(&bench.store, &noise(1, 4096), &policy(), None);
    bench.store.flush().unwrap();
    bench.store.flush().unwrap();
    let flushes: Vec<u64> = bench.disks.iter().map(|d| d.flushes.load(Ordering::Relaxed)).collect();
    assert_eq!(flushes, [1, 0, 0]);
}

#[test]
fn the_end_of_an_intent_log_is_no_error_of_the_device() {
    let bench = bench(Layout::Disk, 12);
    let bp = write(&bench.store, &noise(7, 8192), &policy(), None);
    bench.store.flush().unwrap();
    let at = bp.dva(0).offset_bytes + (4 << 20);
    bench.disks[0].memory.write_at(at, &[0; 8192]).unwrap();
    let errors = || bench.store.tree().leaves()[0].errors().checksum;
    let log = block::Bookmark { object: 0, level: -2, ..AT };
    bench.store.cache().clear();
    assert!(bench.store.reader().read_uncached(&bp, &log, None).is_err());
    assert_eq!(errors(), 0);
    assert!(bench.store.reader().read_uncached(&bp, &AT, None).is_err());
    assert_eq!(errors(), 1);
}

#[test]
fn single_copies_fail_by_injection() {
    let bench = bench(Layout::Stripe(3), 12);
    let data = noise(7, 8192);
    let bp = write(&bench.store, &data, &WritePolicy { copies: 3, ..policy() }, None);
    bench.store.flush().unwrap();
    let rule = |copies| {
        block::inject::What::Data(block::inject::DataRule {
            objset: AT.objset,
            object: Some(AT.object),
            kind: None,
            level: 0,
            blocks: 0..=u64::MAX,
            copies,
            error: block::inject::DataError::Io,
            per_million: 1_000_000,
        })
    };
    let (reader, wrong) = (bench.store.reader(), block::vdev::RepairPurpose::Wrong { is_known: false });
    bench.store.cache().clear();
    let first = reader.injection().add(rule(0b011));
    assert_eq!(reader.read_uncached(&bp, &AT, None).unwrap().data, data);
    assert!(bench.store.repair(&bp, &AT, wrong).readable);
    let second = reader.injection().add(rule(0b100));
    bench.store.cache().clear();
    assert!(reader.read_uncached(&bp, &AT, None).is_err());
    assert!(!bench.store.repair(&bp, &AT, wrong).readable);
    let other = block::Bookmark { object: 6, ..AT };
    assert!(bench.store.repair(&bp, &other, wrong).readable);
    assert!(reader.injection().remove(first) && reader.injection().remove(second));
    reader.injection().add(rule(0));
    let repaired = bench.store.repair(&bp, &AT, wrong);
    assert!(!repaired.readable && repaired.error.is_some_and(|error| error.contains("Input/output error")));
}
