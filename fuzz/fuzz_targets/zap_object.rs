//! A whole ZAP of any 512-byte blocks: lookups and walks end, and a lookup finds what a walk
//! yields.
#![no_main]

use block::Block;
use libfuzzer_sys::fuzz_target;
use object::zap::BlockSource;
use object::Zap;
use errors::Result;
use ondisk::Endian;
use std::sync::Arc;

struct Blocks(Vec<u8>, Endian);

impl BlockSource for Blocks {
    fn block(&self, blkid: u64) -> Result<Option<Block>> {
        let start = usize::try_from(blkid).unwrap_or(usize::MAX).saturating_mul(512);
        let bytes = self.0.get(start..start.saturating_add(512));
        Ok(bytes.map(|b| Block { data: b.to_vec().into(), endian: self.1 }))
    }

    fn place(&self) -> String {
        "fuzz".to_owned()
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((&[big], data)) = data.split_first_chunk() else { return };
    let endian = if big & 1 == 1 { Endian::Big } else { Endian::Little };
    let Ok(zap) = Zap::from_source(Arc::new(Blocks(data.to_vec(), endian))) else { return };
    let _ = zap.count();
    let mut steps = 0;
    for step in zap.cursor(0) {
        let Ok((entry, cookie)) = step else { break };
        steps += 1;
        assert!(steps <= data.len(), "more entries than bytes");
        let _ = (zap.lookup(&entry.name), zap.lookup_key(&entry.key), zap.lookup_normalised(&entry.name, false));
        let _ = zap.cursor(cookie).next();
    }
});
