//! Compares the algorithms with published vectors, and with keys created by OpenZFS.

use proptest::prelude::*;

use super::*;
use rig::{unhex, unhex_array};

/// Suite, key, IV, AAD, plaintext, ciphertext, MAC: from project Wycheproof, which OpenZFS's own
/// test uses.
const VECTORS: [(Suite, &str, &str, &str, &str, &str, &str); 12] = [
    (
        Suite::Aes128Gcm,
        "28ff3def08179311e2734c6d1c4e2871",
        "32bcb9b569e3b852d37c766a",
        "c3",
        "dfc61a20df8505b53e3cd59f25770d5018add3d6",
        "f58d453212c2c8a436e9283672f579f119122978",
        "5901131d0760c8715901d881fdfd3bc0",
    ),
    (
        Suite::Aes128Gcm,
        "5b9604fe14eadba931b0ccf34843dab9",
        "028318abc1824029138141a2",
        "",
        "001d0c231287c1182784554ca3a21908",
        "26073cc1d851beff176384dc9896d5ff",
        "0a3ea7a5487cb5f7d70fb6c58d038554",
    ),
    (
        Suite::Aes192Gcm,
        "969fed5068541d65418c2c1de8fe1f845e036030496e1272",
        "817fe51c31f2879141a34335",
        "cb",
        "3d8233191a2823bf767e99167b1d4af4f4848458",
        "0d2c3a3c0cc4b40e70ed45e188e356a0e1533b31",
        "92909a80e90540e1878ab59ef300072b",
    ),
    (
        Suite::Aes192Gcm,
        "00112233445566778899aabbccddeeff1021324354657687",
        "000000000000000000000000",
        "",
        "0b4dbbba8982e0f649f8ba85f3aa061b",
        "3f875c9bd7d8511448459468e398c3b2",
        "ffffffffffffffffffffffffffffffff",
    ),
    (
        Suite::Aes256Gcm,
        "b279f57e19c8f53f2f963f5f2519fdb7c1779be2ca2b3ae8e1128b7d6c627fc4",
        "98bc2c7438d5cd7665d76f6e",
        "c0",
        "fcc515b294408c8645c9183e3f4ecee5127846d1",
        "eb5500e3825952866d911253f8de860c00831c81",
        "ecb660e1fb0541ec41e8d68a64141b3a",
    ),
    (
        Suite::Aes256Gcm,
        "29d3a44f8723dc640239100c365423a312934ac80239212ac3df3421a2098123",
        "00112233445566778899aabb",
        "aabbccddeeff",
        "",
        "",
        "2a7d77fa526b8250cb296078926b5020",
    ),
    (
        Suite::Aes128Ccm,
        "d97c9b043bdccfd59491a995e78f1696",
        "ef423240358830df915506a3",
        "3ddba7b3ab69c8b2",
        "f047594a5cffda64303a80b2fa6a957169",
        "e0caf2a9d50f70ecaa43b4a287c3b34a99",
        "cff4c61882b413b686ff35b63a3a73de",
    ),
    (
        Suite::Aes128Ccm,
        "59ab7ec1c02bb206af5a9131f1134311",
        "5508f5cea197386986d92dbe",
        "a43d39f78a2e9a8a",
        "",
        "",
        "09ec70faae333537a7314929ddfb525b",
    ),
    (
        Suite::Aes192Ccm,
        "e258b117c2fdd75587f07b400ae4af3e673a51dcf761e4ca",
        "5ead03aa8c720d21b77075db",
        "27702950960b9c79",
        "afe96113a684bc52a6d962cf2724f6791d",
        "7830446f333057d996a1a79b21c68d8b43",
        "72ac478a66f5637563f1f12c1d0267ca",
    ),
    (
        Suite::Aes192Ccm,
        "03b4675851b78b69fb7b5589882e718b075e9a5402b520fb",
        "c4ca2d678e51742ec5e560ab",
        "91e10ac5636fe99b",
        "",
        "",
        "937f15ffd1ccd645d9c7cdd6677311cd",
    ),
    (
        Suite::Aes256Ccm,
        "f60c6a1b625725f76c7037b48fe3577fa7f7b87b1bd5a982176d182306ffb870",
        "f0384fb876121410633d993d",
        "9aaf299eeea78f79",
        "63858ca3e2ce69887b578a3c167b421c9c",
        "f05e290bbbc61927fa65760648dcca88b0",
        "b721be96a6b95c0931fb243dd1287c70",
    ),
    (
        Suite::Aes256Ccm,
        "7a4cd759172e02eb204db2c3f5c746227df584fc1345196391dbb9577a250742",
        "a92ef0ac991dd516a3c6f689",
        "bd506764f2d2c410",
        "",
        "",
        "569d82691892e103e627407c95f08a0e",
    ),
];

#[test]
fn published_vectors_seal_and_open() {
    for (suite, key, iv, aad, plain, sealed, mac) in VECTORS {
        let (cipher, iv, aad) = (Cipher::new(suite, &unhex(key)), unhex_array(iv), unhex(aad));
        let mut data = unhex(plain);
        assert_eq!(cipher.seal(&iv, &aad, &mut data), Some(unhex_array(mac)), "{}", suite.name());
        assert_eq!(data, unhex(sealed));
        cipher.open(&iv, &aad, &mut data, &unhex_array(mac)).unwrap();
        assert_eq!(data, unhex(plain));
    }
}

#[test]
fn a_flipped_bit_anywhere_is_refused() {
    for (suite, key, iv, aad, _, sealed, mac) in VECTORS {
        let cipher = Cipher::new(suite, &unhex(key));
        let refused = |iv: &str, aad: &[u8], sealed: &[u8], mac: &[u8; 16]| {
            cipher.open(&unhex_array(iv), aad, &mut sealed.to_vec(), mac) == Err(AuthenticationFailed)
        };
        let (aad, sealed, mac): (_, _, [u8; 16]) = (unhex(aad), unhex(sealed), unhex_array(mac));
        for bit in 0..128 {
            let mut bad = mac;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(refused(iv, &aad, &sealed, &bad));
        }
        for at in 0..sealed.len() {
            let mut bad = sealed.clone();
            bad[at] ^= 0x10;
            assert!(refused(iv, &aad, &bad, &mac));
        }
        let mut longer = aad.clone();
        longer.push(0);
        assert!(refused(iv, &longer, &sealed, &mac));
        assert!(refused("ffffffffffffffffffffffff", &aad, &sealed, &mac));
    }
}

#[test]
fn ccm_takes_less_than_16_mib_and_gcm_takes_it() {
    let mut data = vec![0; 16 << 20];
    assert_eq!(Cipher::new(Suite::Aes128Ccm, &[0; 16]).seal(&[0; 12], &[], &mut data), None);
    let gcm = Cipher::new(Suite::Aes128Gcm, &[0; 16]);
    let mac = gcm.seal(&[0; 12], &[], &mut data).unwrap();
    gcm.open(&[0; 12], &[], &mut data, &mac).unwrap();
    assert!(data.iter().all(|b| *b == 0));
}

/// Expected values computed with OpenSSL's HMAC through Python.
#[test]
fn block_keys_are_hkdf_sha512_with_the_salt_as_info() {
    let master: Vec<u8> = (0..32).collect();
    let salt = unhex_array("f0f1f2f3f4f5f6f7");
    for (suite, expected) in [
        (Suite::Aes128Gcm, "34f74a605e4070c688a0f47fa671f2c3"),
        (Suite::Aes192Gcm, "e825ff142299709fd7fa09b70fa6a208ec858e72275ce362"),
        (Suite::Aes256Gcm, "57f18065fb09b56bb741b6f1e04091052c3da217f5c8b11a56764f08dd36704a"),
    ] {
        let key = KeyDerivation::new(suite, &master).block_key(&salt);
        assert_eq!(key[..suite.key_bytes()], unhex(expected));
        assert!(key[suite.key_bytes()..].iter().all(|b| *b == 0));
    }
}

/// RFC 4231, cases 1 and 2. HMAC pads keys with zeros to 128 bytes, so their short keys can be
/// passed as 64 bytes.
#[test]
fn hmac_sha512_matches_rfc_4231() {
    let mut key = [0; 64];
    key[..20].fill(0x0b);
    let mac: [u8; 64] = HmacKey::new(&key).mac(b"Hi There");
    assert_eq!(
        mac.to_vec(),
        unhex(
            "87aa7cdea5ef619d4ff0b4241a1d6cb02379f4e2ce4ec2787ad0b30545e17cdedaa833b7d6b8a702038b274eaea3f4e4be9d914e\
             eb61f1702e696c203a126854"
        )
    );
    let mut key = [0; 64];
    key[..4].copy_from_slice(b"Jefe");
    let key = HmacKey::new(&key);
    let expected = unhex_array("164b7a7bfcf819e2e395fbe73b56e0a3");
    assert_eq!(key.verify(b"what do ya want for nothing?", &expected), Ok(()));
    assert_eq!(key.verify(b"what do ya want for nothing!", &expected), Err(AuthenticationFailed));
    let mut pieces = key.start();
    pieces.update(b"what do ya want ");
    pieces.update(b"for nothing?");
    assert_eq!(pieces.finish::<16>(), expected);
}

/// FIPS 180-4, "abc".
#[test]
fn sha512_of_pieces_is_that_of_the_whole() {
    assert_eq!(sha512_of::<16>([b"a".as_slice(), b"bc"]), unhex_array("ddaf35a193617abacc417349ae204131"));
}

/// Expected value computed with OpenSSL's PBKDF2 through Python.
#[test]
fn passphrases_become_keys_with_pbkdf2() {
    let expected = unhex("fadeabe546b9b5342fdb7248f04ec319fe015f382c14197c7db7d4a91a64242a");
    for material in ["password", "password\n", "password\nsecond line", "password\0tail"] {
        let key = wrapping_key(KeyFormat::Passphrase, material.as_bytes(), 6590201546584852395, 1000).unwrap();
        assert_eq!(key[..], expected);
    }
    for iterations in [0, 1 << 32] {
        let result = wrapping_key(KeyFormat::Passphrase, b"password", 1, iterations);
        assert_eq!(result.unwrap_err(), UserKeyError::InvalidIterations);
    }
}

#[test]
fn raw_and_hex_keys_have_exact_lengths() {
    let key = |format, material: &[u8]| wrapping_key(format, material, 0, 0).map(|k| k.to_vec());
    assert_eq!(key(KeyFormat::Raw, &[10; 32]), Ok(vec![10; 32]));
    assert_eq!(key(KeyFormat::Raw, &[10; 31]), Err(UserKeyError::RawTooShort));
    assert_eq!(key(KeyFormat::Raw, &[10; 33]), Err(UserKeyError::RawTooLong));
    assert_eq!(key(KeyFormat::Raw, &[]), Err(UserKeyError::RawTooShort));
    let digits = "00fF".repeat(16);
    assert_eq!(key(KeyFormat::Hex, digits.as_bytes()), Ok([0, 255].repeat(16)));
    assert_eq!(key(KeyFormat::Hex, format!("{digits}\n").as_bytes()), Ok([0, 255].repeat(16)));
    assert_eq!(key(KeyFormat::Hex, &digits.as_bytes()[1..]), Err(UserKeyError::HexTooShort));
    assert_eq!(key(KeyFormat::Hex, format!("{digits}0").as_bytes()), Err(UserKeyError::HexTooLong));
    assert_eq!(key(KeyFormat::Hex, digits.replace('F', "g").as_bytes()), Err(UserKeyError::InvalidHex));
    assert_eq!(
        key(KeyFormat::Hex, digits.replace("f", "\u{ff}").replace("00", "0").as_bytes()),
        Err(UserKeyError::InvalidHex)
    );
}

/// Two key objects of a pool created by OpenZFS 2.3.2: AES-256-GCM with a passphrase, AES-128-CCM
/// with a raw key.
#[test]
fn keys_wrapped_by_openzfs_open_with_the_right_key_only() {
    let passphrase = wrapping_key(KeyFormat::Passphrase, b"correct horse 1\n", 6590201546584852395, 350_000).unwrap();
    let raw = unhex_array("0190a93acce4dfd290581e92bcdd4a4d25a895b50c5245ecce9f596c31eeff6a");
    for (suite, guid, iv, mac, sealed_master, sealed_hmac, right, wrong) in [
        (
            Suite::Aes256Gcm,
            319269741672685440,
            "438af009ae3fb10c77006413",
            "e974e8f8ce627bdb1220ba2f44908153",
            "79f6be750fe50271556c90608930db0b4c39d6b822a8469c9a4eeb238971b8a3",
            "5ac786fe6800112ce4eb726bef3c63c77a4ced1dbac85484bd1aca076f82a553\
             c1e55e18278d01c4f5563071e77e89000d9bf3fad4b04a61dbfddf2f5e57738b",
            &*passphrase,
            &raw,
        ),
        (
            Suite::Aes128Ccm,
            9156013972717795369,
            "ad69974ec6a97e45912a4631",
            "9ccda2ad3d2ca04ec58c1bf268bd42d2",
            "2b07d49f360ab45e6e16aff8f7a2e5c300000000000000000000000000000000",
            "6c63e51b5cb9e84e0873f074b95045106968dacb40097d753b5a63a20e7b8cce\
             f3c3603c865028acb6a8eb4bf766ed61172f922def2fccd0157a9adbb4026fb9",
            &raw,
            &*passphrase,
        ),
    ] {
        let context = WrapContext { suite, guid, version: 1, iv: unhex_array(iv) };
        let (mac, sealed_master, sealed_hmac) =
            (unhex_array(mac), unhex_array(sealed_master), unhex_array(sealed_hmac));
        let open = |key, context: &WrapContext| unwrap_keys(key, context, &mac, &sealed_master, &sealed_hmac);
        let (master, hmac) = open(right, &context).unwrap();
        assert_eq!(wrap_keys(right, &context, &master, &hmac), (mac, sealed_master, sealed_hmac));
        assert!(open(wrong, &context).is_err());
        assert!(open(right, &WrapContext { guid: guid + 1, ..context }).is_err());
        assert!(open(right, &WrapContext { version: 0, ..context }).is_err());
    }
}

#[test]
fn suites_have_the_numbers_of_the_property() {
    for (raw, suite) in (3..).zip(Suite::ALL) {
        assert_eq!((Suite::from_raw(raw), suite.to_raw()), (Some(suite), raw));
    }
    for raw in [0, 1, 2, 9, u64::MAX] {
        assert_eq!(Suite::from_raw(raw), None);
    }
    for raw in 1..4 {
        assert_eq!(KeyFormat::from_raw(raw).unwrap().to_raw(), raw);
    }
    assert_eq!((KeyFormat::from_raw(0), KeyFormat::from_raw(4)), (None, None));
}

proptest! {
    /// Ciphers, HMAC keys and derivations are created once and used by all threads for all blocks:
    /// blocks that are rejected, truncated or abandoned must not change them.
    #[test]
    fn a_key_in_use_gives_what_a_fresh_one_gives_whatever_was_refused_before(
        suite in prop::sample::select(&Suite::ALL[..]),
        key: [u8; 32],
        hmac_key: [u8; 32],
        blocks in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..600), any::<[u8; IV_BYTES]>(), any::<prop::sample::Index>()), 1..12),
    ) {
        let hmac_key: [u8; HMAC_KEY_BYTES] = std::array::from_fn(|i| hmac_key[i % 32]);
        let (cipher, hmac, derivation) = (Cipher::new(suite, &key), HmacKey::new(&hmac_key), KeyDerivation::new(suite, &key));
        for (data, iv, at) in blocks {
            let fresh = Cipher::new(suite, &key);
            let aad = &data[..at.index(data.len() + 1)];
            let (mut sealed, mut expected) = (data.clone(), data.clone());
            let mac = cipher.seal(&iv, aad, &mut sealed).unwrap();
            prop_assert_eq!((mac, &sealed), (fresh.seal(&iv, aad, &mut expected).unwrap(), &expected));
            let mut wrong = mac;
            wrong[at.index(MAC_BYTES)] ^= 1;
            let mut altered = sealed.clone();
            prop_assert!(cipher.open(&iv, aad, &mut altered, &wrong).is_err());
            let mut cut = sealed[..sealed.len() / 2].to_vec();
            prop_assert!(data.is_empty() || cipher.open(&iv, aad, &mut cut, &mac).is_err());
            prop_assert!(cipher.open(&iv, aad, &mut sealed, &mac).is_ok());
            prop_assert_eq!(&sealed, &data);

            let mut dropped = hmac.start();
            dropped.update(aad);
            drop(dropped);
            prop_assert!(hmac.verify(&data, &wrong).is_err());
            prop_assert_eq!(hmac.mac::<64>(&data), HmacKey::new(&hmac_key).mac::<64>(&data));
            let salt = std::array::from_fn(|i| iv[i]);
            prop_assert_eq!(derivation.block_key(&salt), KeyDerivation::new(suite, &key).block_key(&salt));
        }
    }
}
