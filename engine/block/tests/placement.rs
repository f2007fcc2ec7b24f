//! Blocks of real raidz and draid pools: each is where the map says, and its parity is what we
//! compute.
//!
//! Goal: verify the on-disk placement against OpenZFS. Method: `placement/SCENARIO.txt` lists block
//! pointers printed by zdb. The asize of each block must match zdb's. If the images are available
//! (`WEIR_FIXTURES`, unpacked as SCENARIO/DEVICE), the columns are read, assembled, and compared
//! with the pointer's fletcher4; then the parity columns are verified.

use block::vdev::columns::Map;
use block::vdev::draid;
use block::vdev::raidz::{Geometry, Reflow};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

struct Pointer {
    offset: u64,
    psize: u64,
    asize: u64,
    birth: u64,
    checksum: [u64; 4],
}

fn pointers(text: &str) -> Vec<Pointer> {
    let hex = |word: &str| u64::from_str_radix(word, 16).expect("a hexadecimal number");
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let mut sums = words[4].split(':').map(hex);
            Pointer {
                offset: hex(words[0]),
                psize: hex(words[1]),
                asize: hex(words[2]),
                birth: words[3].parse().expect("a txg"),
                checksum: std::array::from_fn(|_| sums.next().expect("four words")),
            }
        })
        .collect()
}

fn fletcher4(bytes: &[u8]) -> [u64; 4] {
    bytes.chunks_exact(4).fold([0u64; 4], |[mut a, mut b, mut c, mut d], word| {
        a = a.wrapping_add(u64::from(u32::from_le_bytes(word.try_into().expect("four bytes"))));
        b = b.wrapping_add(a);
        c = c.wrapping_add(b);
        d = d.wrapping_add(c);
        [a, b, c, d]
    })
}

fn devices(scenario: &str) -> Option<Vec<std::fs::File>> {
    let folder = std::env::var_os("WEIR_FIXTURES").map(PathBuf::from)?.join(scenario);
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(folder).ok()?.map(|entry| entry.expect("a readable folder").path()).collect();
    paths.sort();
    Some(paths.iter().map(|path| std::fs::File::open(path).expect("a readable image")).collect())
}

fn check(
    scenario: &str,
    list: &str,
    asize: impl Fn(u64, u64) -> u64,
    map: impl Fn(u64, u64, u64) -> errors::Result<Map>,
) {
    let pointers = pointers(list);
    assert!(pointers.len() > 20);
    let devices = devices(scenario);
    if devices.is_none() {
        println!("skipped the images of {scenario}: set WEIR_FIXTURES to the folder of unpacked scenarios");
    }
    for pointer in pointers {
        assert_eq!(asize(pointer.psize, pointer.birth), pointer.asize, "asize of {:#x} bytes", pointer.psize);
        let map = map(pointer.offset, pointer.psize, pointer.birth).expect("a sound pointer");
        let Some(devices) = &devices else { continue };
        let mut columns: Vec<Vec<u8>> = map.columns.iter().map(|column| vec![0; column.size_bytes]).collect();
        for read in map.reads(|_| true) {
            let mut bytes = vec![0; read.size_bytes];
            devices[read.child].read_exact_at(&mut bytes, read.offset_bytes + (4 << 20)).expect("within the image");
            let mut rest = bytes.as_slice();
            for place in read.columns {
                let (part, after) = rest.split_at(columns[place].len());
                columns[place].copy_from_slice(part);
                rest = after;
            }
        }
        let block = map.assemble(&columns);
        let at = format!("{scenario}, block at {:#x} of {:#x} bytes", pointer.offset, pointer.psize);
        assert_eq!(fletcher4(&block[..pointer.psize as usize]), pointer.checksum, "{at}");
        let stored: Vec<Option<&[u8]>> = columns.iter().map(|column| Some(column.as_slice())).collect();
        assert!(map.wrong_parity(&block, &stored).is_empty(), "parity of {at}");
    }
}

fn check_raidz(scenario: &str, list: &str, geometry: &Geometry) {
    check(scenario, list, |psize, birth| geometry.asize_bytes(psize, birth), |o, s, b| geometry.map(o, s, b));
}

#[test]
fn raidz1_of_three_is_where_openzfs_puts_it() {
    let geometry = Geometry::new(9, 3, 1).expect("a sound shape");
    check_raidz("raidz1-3-a9", include_str!("placement/raidz1-3-a9.txt"), &geometry);
}

#[test]
fn raidz2_of_five_is_where_openzfs_puts_it() {
    let geometry = Geometry::new(12, 5, 2).expect("a sound shape");
    check_raidz("raidz2-5-a12", include_str!("placement/raidz2-5-a12.txt"), &geometry);
}

#[test]
fn raidz3_of_seven_is_where_openzfs_puts_it() {
    let geometry = Geometry::new(12, 7, 3).expect("a sound shape");
    check_raidz("raidz3-7-a12", include_str!("placement/raidz3-7-a12.txt"), &geometry);
}

#[test]
fn raidz_widened_from_three_to_four_is_where_openzfs_puts_it() {
    let geometry = Geometry::expanded(9, 4, 1, &[40], None).expect("a sound shape");
    check_raidz("raidz-expanded", include_str!("placement/raidz-expanded.txt"), &geometry);
}

#[test]
fn raidz_while_it_is_widened_is_where_openzfs_puts_it() {
    // The uberblock's word: the scratch area is no longer in use, and 61,846,016 bytes have been
    // moved.
    let reflow = Reflow::from_uberblock(4 << 55 | 61_846_016 >> 9);
    let geometry = Geometry::expanded(9, 4, 1, &[], Some(reflow)).expect("a sound shape");
    check_raidz("raidz-expanding", include_str!("placement/raidz-expanding.txt"), &geometry);
}

#[test]
fn draid2_of_eight_is_where_openzfs_puts_it() {
    let geometry = draid::Geometry::new(draid::Shape {
        ashift: 9,
        width: 8,
        children: 8,
        parity: 2,
        data: 4,
        spares: 1,
        groups: 7,
    })
    .expect("a sound shape");
    check(
        "draid2-4d-1s-8c",
        include_str!("placement/draid2-4d-1s-8c.txt"),
        |psize, _| geometry.asize_bytes(psize),
        |offset, size, _| geometry.map(offset, size),
    );
}
