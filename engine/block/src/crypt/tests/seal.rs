//! Blocks of OpenZFS, opened and sealed again with the same salt and IV, become the same bytes
//! under the same pointer.

use super::log::log_keys;
use super::*;

#[test]
fn blocks_of_openzfs_are_sealed_again_as_they_were() {
    let blocks = [
        (gcm_keys(), golden!("gcm_text")),
        (ccm_keys(), golden!("ccm_text")),
        (gcm_keys(), golden!("gcm_dnodes")),
        (ccm_keys(), golden!("ccm_dnodes")),
    ];
    for (keys, (bp, stored)) in blocks {
        let mut block = stored.clone();
        keys.open_block(&bp, &mut block).unwrap();
        assert_ne!(block, stored);
        let mut again = bp;
        again.set_crypt_mac(&[0; 16]);
        again.set_crypt_params(&[0; 8], &[0; 12]);
        keys.seal_with(&mut again, &bp.crypt_salt(), &bp.crypt_iv(), &mut block).unwrap();
        assert!(block == stored);
        assert_eq!(again.words(), bp.words());
    }
}

#[test]
fn macs_of_openzfs_come_out_again() {
    for (keys, (bp, stored)) in [(gcm_keys(), golden!("gcm_master")), (ccm_keys(), golden!("ccm_master"))] {
        let mut again = bp;
        again.set_crypt_mac(&[0; 16]);
        keys.authenticate(&mut again, &stored);
        assert_eq!(again, bp);
    }
    for (keys, (bp, stored)) in [(gcm_keys(), golden!("gcm_indirect")), (ccm_keys(), golden!("ccm_indirect"))] {
        let mut contents = vec![0; bp.lsize_bytes() as usize];
        decompress(Algorithm::Lz4, &stored, &mut contents).unwrap();
        let mut again = bp;
        again.set_crypt_mac(&[0; 16]);
        keys.seal_indirect(&mut again, &contents);
        assert_eq!(again, bp);
    }
    for (keys, (_, stored)) in [(gcm_keys(), golden!("gcm_objset")), (ccm_keys(), golden!("ccm_objset"))] {
        let mut again = stored.clone();
        again[0x2d0..0x310].fill(0xee);
        keys.seal_objset(&mut again).unwrap();
        assert!(again == stored);
    }
}

#[test]
fn log_blocks_of_openzfs_are_sealed_again_as_they_were() {
    let (gcm, ccm) = (log_keys(Suite::Aes256Gcm), log_keys(Suite::Aes128Ccm));
    for (keys, (bp, stored)) in
        [(&ccm, golden!("ccm_log_write")), (&ccm, golden!("ccm_log_clone")), (&gcm, golden!("gcm_log_indirect"))]
    {
        let mut block = stored.clone();
        keys.open_block(&bp, &mut block).unwrap();
        // OpenZFS leaves stale memory in the tail of a log block; neither checksum nor MAC covers
        // it.
        let used = Endian::Little.u64(&block[136..]) as usize;
        block[168..184].fill(0);
        keys.seal_log_block(&bp, &mut block).unwrap();
        assert!(block[..used] == stored[..used]);
    }
}

#[test]
fn salts_change_before_they_are_used_too_often() {
    let keys = gcm_keys();
    let first = keys.salt_for_writing();
    assert_eq!(keys.salt_for_writing(), first);
    keys.writing_salt.lock().1 = 1;
    assert_eq!(keys.salt_for_writing(), first);
    assert_ne!(keys.salt_for_writing(), first);
}
