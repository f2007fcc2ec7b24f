//! Blocks of encrypted datasets: a block pointer (128 bytes) and the bytes that it points to.
#![no_main]

use std::sync::{Arc, LazyLock};

use block::crypt::{DatasetKeys, WrappedKeyParams, verify_indirect};
use libfuzzer_sys::fuzz_target;
use ondisk::{BlkPtr, Endian, blkptr};
use transform::crypt::{Suite, WrapContext, wrap_keys};

/// GCM keys, so that a refused block is not modified.
static KEYS: LazyLock<Arc<DatasetKeys>> = LazyLock::new(|| {
    let context = WrapContext { suite: Suite::Aes256Gcm, guid: 1, version: 1, iv: [0; 12] };
    let (mac, wrapped_master_key, wrapped_hmac_key) = wrap_keys(&[1; 32], &context, &[2; 32], &[3; 64]);
    let WrapContext { suite, guid, version, iv } = context;
    let suite = suite.to_raw();
    let params = WrappedKeyParams { suite, guid, version, iv, mac, wrapped_master_key, wrapped_hmac_key };
    DatasetKeys::unwrap(&params, &[1; 32]).expect("we wrapped them")
});

fuzz_target!(|data: &[u8]| {
    let Some((pointer, stored)) = data.split_at_checked(blkptr::SIZE_BYTES) else { return };
    let bp = BlkPtr::parse(pointer, Endian::Little).expect("it is as long as a pointer");
    let mut block = stored.to_vec();
    if KEYS.open_block(&bp, &mut block).is_err() {
        assert_eq!(block, stored);
    }
    let _ = verify_indirect(&bp, stored);
    let _ = KEYS.verify_objset(stored, bp.endian());
});
