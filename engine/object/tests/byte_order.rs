//! Blocks that a big-endian host wrote, as a set that is open for writing has them. They come from
//! raw blocks with that byte order, as in a stream.

use block::RawBlock;
use object::{NewObject, Object, ObjectSet, Tx};
use ondisk::{Compression, Endian, ObjectType, ObjsetKind};
use rig::sync::{Syncing, store};
use std::sync::Arc;

const BLOCK_BYTES: u32 = 4096;

/// An object of `object_type` on disk with the numbers 1 to 4, big-endian, in a set that was opened
/// again.
fn big(object_type: ObjectType, check: impl Fn(&Object, &dyn Fn() -> Arc<ObjectSet>, &Tx)) {
    let (store, _) = store();
    let set = ObjectSet::open_live(&store, None, 5, None, ObjsetKind::Other).unwrap();
    let tx = Tx::open(10, Box::new(()));
    let object = set.create_object(&tx, &NewObject::new(object_type, BLOCK_BYTES)).unwrap();
    // Packed with zle, because others are stored in this host's order: 32 bytes as they are, then
    // 21 runs of 192 zeros, and one of 32.
    let numbers = (1..=4u64).flat_map(u64::to_be_bytes);
    let bytes: Vec<u8> = [31].into_iter().chain(numbers).chain([255; 21]).chain([95]).collect();
    let block = RawBlock {
        bytes: bytes.into(),
        lsize_bytes: BLOCK_BYTES.into(),
        compression: Compression::Zle,
        endian: Endian::Big,
        sealed: None,
    };
    object.put_raw(&tx, 0, block).unwrap();
    drop(tx);
    set.quiesce(10);
    let root = set.sync(&Syncing::new(10, &store)).unwrap();
    let again = ObjectSet::open_live(&store, Some(&root), 5, None, ObjsetKind::Other).unwrap();
    let tx = Tx::open(11, Box::new(()));
    let synced = || {
        again.quiesce(11);
        let root = again.sync(&Syncing::new(11, &store)).unwrap();
        ObjectSet::open(store.reader().clone(), &root, 5, None).unwrap()
    };
    check(&again.object(object.id()).unwrap(), &synced, &tx);
}

#[test]
fn numbers_of_a_big_endian_host_keep_their_values_when_one_of_them_changes() {
    // The array of the metaslabs of a device once had numbers of both orders in one block.
    big(ObjectType::OBJECT_ARRAY, |object, synced, tx| {
        assert_eq!(object.read_words(3).unwrap(), [1, 2, 3]);
        object.write_at(tx, 8, &77u64.to_le_bytes()).unwrap();
        assert_eq!(object.read_words(3).unwrap(), [1, 77, 3]);
        let reader = synced().object(object.id()).unwrap();
        assert_eq!(reader.read_words(4).unwrap(), [1, 77, 3, 4]);
    });
}

#[test]
fn contents_of_files_are_bytes_in_either_order() {
    big(ObjectType::PLAIN_FILE_CONTENTS, |object, synced, tx| {
        object.write_at(tx, 8, b"changed.").unwrap();
        let mut found = [0; 24];
        synced().object(object.id()).unwrap().read_at(0, &mut found).unwrap();
        assert_eq!(found, *b"\0\0\0\0\0\0\0\x01changed.\0\0\0\0\0\0\0\x03");
    });
}
