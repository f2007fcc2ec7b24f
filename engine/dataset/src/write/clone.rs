//! Clones: file systems and volumes that start as a copy of a snapshot and share its blocks.
//!
//! Facts: `dsl_dataset_clone_check`, `dsl_dataset_clone_sync`, `dsl_dataset_create_sync`,
//! `dsl_dataset_zero_zil` in module/zfs/dsl_dataset.c, `dsl_crypto_key_clone_sync` in dsl_crypt.c.

use super::cx::Cx;
use super::limits::Counted;
use super::props::{self, Change};
use super::tree::{self, Node};
use super::values::{self, AUTO};
use super::{contents, create, deadlist, keys, limit_check, limits, request_log, space, volume_reservation};
use crate::delegation::Credentials;
use crate::intent_log::put_header;
use crate::live::LiveDatasets;
use block::Bookmark;
use errors::{Error, Refusal, Result};
use ondisk::dsl_dir::FIELD_LIVELIST;
use ondisk::zap::Value as ZapValue;
use ondisk::{Endian, Objset, ZilHeader};
use pool::SpaceCheck;

/// Properties that a clone takes from its origin permanently.
const OF_ORIGIN: &[&str] = &[
    "encryption",
    "keyformat",
    "keylocation",
    "pbkdf2iters",
    "casesensitivity",
    "normalization",
    "utf8only",
    "version",
    "volblocksize",
    "volsize",
];

/// Creates clone `name` of snapshot `origin`, with these properties.
pub fn clone(live: &LiveDatasets, origin: &str, name: &str, properties: &[(String, String)]) -> Result<()> {
    clone_for(live, None, origin, name, properties)
}

/// The same for a user; `None`: for the owner of the pools.
pub fn clone_for(
    live: &LiveDatasets,
    user: Option<&Credentials>,
    origin: &str,
    name: &str,
    properties: &[(String, String)],
) -> Result<()> {
    tree::check_new_name(name)?;
    let (origin, name, properties, user) = (origin.to_owned(), name.to_owned(), properties.to_vec(), user.cloned());
    live.writer().task(move |sync| clone_in(&Cx::on_behalf(sync, user.as_ref()), &origin, &name, &properties))?;
    live.refresh()
}

fn clone_in(cx: &Cx<'_>, origin: &str, name: &str, properties: &[(String, String)]) -> Result<()> {
    cx.sync.check_space(name, create::CREATED_BLOCKS, SpaceCheck::Normal)?;
    let from = tree::find(cx, origin)?;
    let id = from.snapshot.ok_or_else(|| Error::invalid(origin, "only a snapshot can be cloned"))?;
    let (parent, last) = tree::find_parent(cx, name)?;
    limit_check::check(cx, parent, Counted::FileSystems, 1, 0)?;
    if let Some((property, _)) = properties.iter().find(|(property, _)| OF_ORIGIN.contains(&property.as_str())) {
        return Err(Error::invalid(name, format!("'{property}' is that of the origin, and cannot be set")));
    }
    let phys = cx.dataset(id)?.phys;
    let at = Bookmark { objset: id, object: 0, level: -1, blkid: 0 };
    let root = cx.mos().store().read_unopened(&phys.bp, &at)?;
    if root.endian != Endian::Little
        && phys.bp.uses_crypt()
        && !Objset::parse(&root.data, root.endian)?.zil.log.is_hole()
    {
        return Err(Error::unsupported(name, "clones of encrypted snapshots with a log that a big-endian host wrote"));
    }
    let mut settings = values::settings_for(cx, &Node { name: name.to_owned(), snapshot: None, ..from }, properties)?;
    if settings.iter().any(|setting| setting.name == "refreservation" && setting.number() == AUTO) {
        let size = volume_reservation::size_of(cx, id)?;
        settings.iter_mut().for_each(|setting| volume_reservation::resolve_auto(cx, setting, size, 1));
    }
    check_space(cx, parent, name, &settings)?;
    contents::settings(cx, parent, name)?;
    cx.sync.all_or_nothing(|| {
        let dir = tree::create_dir(cx, parent, last)?;
        let head = create_on(cx, dir, id)?;
        let node = Node { name: name.to_owned(), dir, head, snapshot: None };
        if cx.is_enabled(deadlist::LIVELIST) {
            let list = deadlist::create(cx)?;
            cx.set_field(dir, FIELD_LIVELIST, &ZapValue::one(list))?;
            cx.feature_increment(deadlist::LIVELIST)?;
        }
        zero_log(cx, &node)?;
        cx.history("clone", name, head, &format!("origin={origin} ({id})"))?;
        settings.iter().cloned().try_for_each(|setting| props::apply(cx, &node, &Change::Set(setting)))?;
        request_log::clone(cx, origin, &settings)
    })
}

/// Rejects reservations of a new clone below directory `parent` that the pool has no room for.
fn check_space(cx: &Cx<'_>, parent: u64, name: &str, settings: &[values::Setting]) -> Result<()> {
    let reserves = settings.iter().filter(|s| matches!(s.name.as_str(), "reservation" | "refreservation"));
    match reserves.map(values::Setting::number).max() {
        Some(bytes) if bytes > space::available(cx, parent, cx.sync.pool_bytes())? => Err(Refusal::NoSpace.at(name)),
        _ => Ok(()),
    }
}

/// Creates a head for the new directory `dir` with the contents and keys of snapshot `origin`.
pub(crate) fn create_on(cx: &Cx<'_>, dir: u64, origin: u64) -> Result<u64> {
    let head = tree::create_head(cx, dir, Some(origin), 0)?;
    keys::share(cx, cx.dataset(origin)?.phys.dir, dir)?;
    limits::start(cx, dir)?;
    Ok(head)
}

/// Clears the log header in the root block of a head that started from a snapshot: the log is not
/// its own.
pub(crate) fn zero_log(cx: &Cx<'_>, node: &Node) -> Result<()> {
    let bp = cx.dataset(node.head)?.phys.bp;
    let at = Bookmark { objset: node.head, object: 0, level: -1, blkid: 0 };
    let block = cx.mos().store().read_unopened(&bp, &at)?;
    let none = ZilHeader::parse(&[0; ZilHeader::SIZE_BYTES], Endian::Little)?;
    if Objset::parse(&block.data, block.endian)?.zil == none {
        return Ok(());
    }
    put_header(*cx, node.head, &none, contents::settings(cx, node.dir, &node.name)?)
}
