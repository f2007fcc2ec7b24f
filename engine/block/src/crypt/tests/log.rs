//! Intent log blocks: some written by OpenZFS, and constructed ones for cases that no available
//! pool contains.

use ondisk::zil::LogBlock;

use super::*;

/// The keys of the pool that was frozen with a pending log.
pub(super) fn log_keys(suite: Suite) -> Arc<DatasetKeys> {
    let object = match suite {
        Suite::Aes256Gcm => KeyObject {
            wrapped: WrappedKeyParams {
                suite: 8,
                guid: 0x75c2faa5bbf217fb,
                version: 1,
                iv: unhex_array("24fb76119687df9faf6bb66f"),
                mac: unhex_array("da9d2c2aac31353bfa60a420386f25b0"),
                wrapped_master_key: unhex_array("324bcc0cd36826fdcd82a7d0a6e3d4cbff7a67f0389925448a2200a4954c9692"),
                wrapped_hmac_key: unhex_array(
                    "28492f38f11f50325457f4b899bde1756b239505d2f0cfc5de428f3b862a963fbf32db4ec2455ffcd7354a6266acbf6763f4cbce603b\
                     b40fd3fff1faf1c314f0",
                ),
            },
            root_dir: 0x40,
            key_format: 3,
            pbkdf2_salt: 0xb090c2ada84df2dc,
            pbkdf2_iterations: 100_000,
        },
        _ => KeyObject {
            wrapped: WrappedKeyParams {
                suite: 3,
                guid: 0x0472f6b4f280fe18,
                version: 1,
                iv: unhex_array("acbffce3e04862d91bc61c1d"),
                mac: unhex_array("974809949992df23c9d6acb0ed06c88f"),
                wrapped_master_key: unhex_array("d44894a10efdc3d50d600eb93f4fa09f00000000000000000000000000000000"),
                wrapped_hmac_key: unhex_array(
                    "e58e781b645a813f2415c14bc70007eb854148945bcb8a78dc7f1093faff84f563afcf5693b8f4f9a8f8e456d7c5255eb181c33ef3d0\
                     c531229101b1dcc800d8",
                ),
            },
            root_dir: 0x49,
            key_format: 2,
            pbkdf2_salt: 0,
            pbkdf2_iterations: 0,
        },
    };
    let material: &[u8] = match suite {
        Suite::Aes256Gcm => b"abcdefgh-passphrase",
        _ => b"00112233445566778899aabbccddeeff0F1E2D3C4B5A69788796A5B4C3D2E1F0\n",
    };
    DatasetKeys::unwrap(&object.wrapped, &object.wrapping_key(material).unwrap()).unwrap()
}

#[test]
fn log_blocks_of_openzfs_show_their_records() {
    let (gcm, ccm) = (log_keys(Suite::Aes256Gcm), log_keys(Suite::Aes128Ccm));
    let bodies = |keys: &DatasetKeys, bp: &BlkPtr, mut block: Vec<u8>| {
        keys.open_block(bp, &mut block).unwrap();
        let log = LogBlock::parse(&block, bp).unwrap();
        log.records().map(|r| format!("{:?}", r.unwrap().parse_body().unwrap())).collect::<Vec<_>>()
    };

    let (bp, block) = golden!("ccm_log_write");
    let records = bodies(&ccm, &bp, block.clone());
    assert_eq!(records.len(), 1);
    // 3000 bytes of AES-128 in counter mode with the key 7952, which filled the file.
    assert!(records[0].starts_with("Write { object: 6, offset: 0, length: 3000, pointer: HOLE"), "{}", records[0]);
    assert!(records[0].contains("data: [148, 103, 108, 11, 128, 20, 242, 190,"), "{}", records[0]);
    assert!(records[0].ends_with("91, 94, 90, 101, 31, 220, 28, 102] }"), "{}", records[0]);

    let (bp, clone) = golden!("ccm_log_clone");
    let records = bodies(&ccm, &bp, clone.clone());
    let expected =
        "CloneRange { object: 129, offset: 0, length: 50000, block_bytes: 50176, pointers: [DVA[0]=<0:eac00:c400>";
    assert!(records[0].starts_with(expected), "{}", records[0]);

    let (bp_indirect, indirect) = golden!("gcm_log_indirect");
    let records = bodies(&gcm, &bp_indirect, indirect.clone());
    assert_eq!(records.len(), 2);
    assert!(
        records[0].starts_with("Write { object: 134, offset: 73728, length: 57344, pointer: DVA[0]=<0:ba400:20000>")
    );
    assert!(
        records[1].starts_with("Write { object: 134, offset: 131072, length: 8192, pointer: DVA[0]=<0:25a000:2400>")
    );

    // A plain pointer is authenticated.
    for (keys, bp, mut block) in [(ccm, bp, clone), (gcm, bp_indirect, indirect)] {
        block[184 + 80] ^= 1;
        assert!(keys.open_block(&bp, &mut block).is_err());
    }
}

#[test]
fn log_blocks_open_as_they_were_sealed() {
    for (keys, endian) in [(gcm_keys(), Endian::Little), (ccm_keys(), Endian::Big)] {
        let plain = log_block(endian);
        let mut block = plain.clone();
        let bp = keys.seal(ObjectType::INTENT_LOG, endian, &mut block).unwrap();
        let sealed = block.clone();
        // Record headers, pointers and the empty rest are in the clear; the bodies are encrypted.
        assert_eq!(sealed[..168], plain[..168]);
        assert_eq!(sealed[184..216], plain[184..216]);
        assert_ne!(sealed[216..248], plain[216..248]);
        assert_eq!(sealed[248..376], plain[248..376]);
        keys.open_block(&bp, &mut block).unwrap();
        assert_eq!(block[..168], plain[..168]);
        assert_eq!(block[184..], plain[184..]);
        // The next block's pointer, a record's txg, a plain pointer, a secret body, the MAC.
        for at in [8, 200, 250, 220, 170] {
            let mut block = sealed.clone();
            block[at] ^= 1;
            assert!(keys.open_block(&bp, &mut block).is_err(), "byte {at}");
        }
        // Magic and sequence checksum are not covered; what follows the last record is wiped.
        let mut block = sealed.clone();
        (block[150], block[4000]) = (1, 1);
        keys.open_block(&bp, &mut block).unwrap();
        assert_eq!(block[4000], 0);
    }
}

#[test]
fn lying_lengths_in_log_blocks_are_named() {
    let says = |at: usize, value: u64| {
        let mut block = log_block(Endian::Little);
        Endian::Little.put_u64(&mut block[at..], value);
        layout::log_block(&block, Endian::Little).err().map(|e| e.to_string()).unwrap_or_default()
    };
    for value in [0, 183, 4097, u64::MAX] {
        assert!(says(136, value).contains("zc_nused"));
    }
    assert!(says(136, 190).contains("6 bytes left"));
    for value in [0, 31, 191, 5000, u64::MAX, 1 << 63] {
        assert!(says(192, value).contains("lrc_reclen"), "{value}");
    }
    assert!(layout::log_block(&[0; 183], Endian::Little).is_err());
}
