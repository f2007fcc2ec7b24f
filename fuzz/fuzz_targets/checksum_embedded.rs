//! Embedded checksums: any bytes give an answer, and what we seal verifies.
#![no_main]

use libfuzzer_sys::fuzz_target;
use transform::checksum::{
    Order,
    embedded::{Kind, seal, verify},
};

fuzz_target!(|data: &[u8]| {
    let Some((&[choice], block)) = data.split_first_chunk() else { return };
    let kind = [Kind::Label, Kind::GangHeader, Kind::Zilog, Kind::Zilog2][usize::from(choice % 4)];
    let order = if choice & 4 == 0 { Order::Little } else { Order::Big };
    let mac_inside = choice & 8 != 0;
    let _ = verify(kind, block, [1, 2, 3, 4], mac_inside);
    let mut block = block.to_vec();
    if seal(kind, &mut block, [1, 2, 3, 4], order, mac_inside).is_ok() {
        assert_eq!(verify(kind, &block, [1, 2, 3, 4], mac_inside).expect("just sealed").order, order);
    }
});
