//! Sending and receiving streams in tests.

use super::{Rig, owners_of};
use dataset::receive::{Target, VerifyingReader, receive};
use dataset::send::{Base, Options, Outgoing};
use dataset::stream::Writer;
use dataset::{Datasets, KeyStore};
use errors::Error;
use std::sync::Arc;

/// The stream of snapshot `to`, from a snapshot or bookmark, without any key.
pub fn send(tree: &Arc<Datasets>, to: &str, from: Option<&str>, options: Options) -> Vec<u8> {
    let base = from.map(|name| match name.split_once('#') {
        None => Base::Snapshot(tree.dataset(name).unwrap()),
        Some((head, mark)) => Base::Bookmark(tree.dataset(head).unwrap().bookmark(mark).unwrap()),
    });
    send_from(tree, to, base.as_ref(), options, &KeyStore::new())
}

/// The same, with keys.
pub fn send_from(tree: &Arc<Datasets>, to: &str, base: Option<&Base>, options: Options, keys: &KeyStore) -> Vec<u8> {
    let outgoing = Outgoing::new(&tree.dataset(to).unwrap(), base, keys, options, None).unwrap();
    let mut writer = Writer::new(Vec::new(), outgoing.endian());
    outgoing.run(&mut writer).unwrap();
    writer.into_inner()
}

pub fn target<'a>(to: &str, force: bool) -> Target<'a> {
    let (dataset, snapshot) = to.split_once('@').unwrap();
    Target {
        dataset: dataset.to_owned(),
        snapshot: snapshot.to_owned(),
        force,
        resumable: false,
        encryption: Vec::new(),
        key: None,
        origin: None,
        user: None,
        owners_of,
        started: &|_| Ok(()),
        let_go: &|| Ok(()),
    }
}

pub fn try_receive(rig: &Rig, stream: &[u8], target: &Target<'_>) -> errors::Result<u64> {
    let mut checked = VerifyingReader::new(stream);
    let Some(first) = checked.next_record()? else { return Err(Error::invalid("", "an empty stream")) };
    receive(&rig.live, &mut checked, &first, target).map(|received| received.bytes)
}

pub fn take(rig: &Rig, stream: &[u8], to: &str, force: bool) -> errors::Result<u64> {
    try_receive(rig, stream, &target(to, force))
}
