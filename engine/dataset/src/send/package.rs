//! Packages of streams (`-R`, `-I`, `-p`): the leading list of datasets, snapshots and properties,
//! and the choice of streams that follow.
//!
//! Facts: `gather_nvlist`, `send_iterate_fs`, `dump_filesystems` in lib/libzfs/libzfs_sendrecv.c.

use super::Base;
use crate::dataset::Dataset;
use crate::property::set::{PropertySet, SetBy};
use crate::property::value::Value as Contents;
use crate::property::{self, Attr};
use crate::stream::Writer;
use errors::{Error, Place, Result};
use ondisk::Endian;
use ondisk::nvlist::{Nvlist, Value};
use ondisk::send_record::{Begin, Body, Features};
use std::collections::HashMap;
use std::io::Write;

/// Properties that a snapshot has only because its dataset has them.
const SPACE_LIMITS: [&str; 4] = ["quota", "reservation", "refquota", "refreservation"];

/// Contents of a package.
#[derive(Debug, Clone, Default)]
pub struct PackageOptions {
    /// `-R`: all descendants, with snapshots, clones and properties.
    pub replicate: bool,
    /// `-I`, and `-R` without `-i`: the intermediate snapshots.
    pub all: bool,
    /// `-p`: properties.
    pub props: bool,
    /// `-b`: properties as received.
    pub backup: bool,
    /// `-h`: holds.
    pub holds: bool,
    /// `-w`: raw streams.
    pub raw: bool,
    /// `-s`: skips datasets that lack the snapshot.
    pub skip_missing: bool,
    /// `-U`: allows encrypted datasets to be sent unencrypted.
    pub decrypt: bool,
    /// `-X`: excluded datasets.
    pub exclude: Vec<String>,
    /// The first stream is incremental from the dataset's origin.
    pub from_origin: bool,
}

/// A stream of a package.
pub struct Planned {
    /// The snapshot to send.
    pub to: Dataset,
    /// What the stream is incremental from; `None`: a full stream.
    pub from: Option<Base>,
}

/// A dataset of a package.
struct Member {
    head: Dataset,
    list: Nvlist,
    parent: u64,
    origin: u64,
}

/// A package that is ready to be written.
pub struct Package {
    to_name: String,
    header: Nvlist,
    members: Vec<Member>,
    /// Maps the GUID of a snapshot to the index of its member.
    holder: HashMap<u64, usize>,
    options: PackageOptions,
    from: Option<String>,
    to: String,
    /// Warnings about skipped datasets.
    pub warnings: Vec<String>,
}

/// What is known of the parent dataset.
#[derive(Clone, Copy, Default)]
struct Above {
    snapshot: u64,
    to_txg: u64,
}

impl Package {
    /// Plans the snapshots `from` to `to` (names after the `@`) of `head`; with `-R`, also of all
    /// its descendants.
    pub fn new(head: &Dataset, from: Option<&str>, to: &str, options: PackageOptions) -> Result<Self> {
        let mut header = Nvlist::new();
        if let Some(from) = from {
            header.put("fromsnap", from);
        }
        header.put("tosnap", to);
        if !options.replicate {
            header.put("not_recursive", Value::Boolean);
        }
        if options.raw {
            header.put("raw", Value::Boolean);
        }
        let mut package = Self {
            to_name: format!("{}@{to}", head.name()),
            header,
            members: Vec::new(),
            holder: HashMap::new(),
            options,
            from: from.map(str::to_owned),
            to: to.to_owned(),
            warnings: Vec::new(),
        };
        package.gather(head, Above::default())?;
        let mut members = Nvlist::new();
        for member in &package.members {
            members.put(&format!("{:#x}", member.head.phys().guid), Value::Nvlist(member.list.clone()));
        }
        package.header.put("fss", Value::Nvlist(members));
        Ok(package)
    }

    /// Whether the list is sent: packages that only contain several streams have none.
    fn has_list(&self) -> bool {
        let o = &self.options;
        o.replicate || o.props || o.holds || o.backup
    }

    fn gather(&mut self, head: &Dataset, above: Above) -> Result<()> {
        if self.options.exclude.iter().any(|name| name == head.name()) {
            return Ok(());
        }
        let snapshots = head.snapshots()?;
        let find = |name: &str| snapshots.iter().find(|s| s.snapshot_name() == Some(name));
        let Some(to) = find(&self.to) else { return self.without_snapshot(head, above) };
        let to_txg = to.phys().creation_txg.0;
        let from_txg = self.from.as_deref().and_then(find).map_or(0, |s| s.phys().creation_txg.0);
        let mut list = Nvlist::new();
        list.put("name", head.name());
        list.put("parentfromsnap", above.snapshot);
        let origin = head.origin()?.map_or(0, |origin| origin.phys().guid);
        if origin != 0 {
            list.put("origin", origin);
        }
        let o = &self.options;
        if o.props || o.backup || o.replicate {
            let set = head.dir().props(head.mos())?;
            list.put("props", Value::Nvlist(properties(&set, false, o.backup)));
        }
        if head.crypto_object()?.is_some() {
            if head.encryption_root()?.is_some_and(|root| root.id() == head.dir().id()) {
                list.put("is_encroot", Value::Boolean);
            }
            if !o.raw && !o.decrypt && self.has_list() {
                let what = "encrypted dataset may not be sent with properties without the raw flag or no-preserve-encryption flag";
                return Err(Error::invalid(head.name(), what));
            }
        }
        let (mut names, mut props, mut holds) = (Nvlist::new(), Nvlist::new(), Nvlist::new());
        let mut base = 0;
        let (mut seen_from, mut seen_to) = (o.all && self.from.is_none(), false);
        let many = o.replicate || o.all;
        for snapshot in &snapshots {
            let (name, guid) = (snapshot.snapshot_name().unwrap_or_default(), snapshot.phys().guid);
            let txg = snapshot.phys().creation_txg.0;
            let (is_from, is_to) = (self.from.as_deref() == Some(name), name == self.to);
            if txg > to_txg || (!many && !is_to) || (!o.replicate && txg < from_txg) {
                continue;
            }
            names.put(name, guid);
            if is_from || (base == 0 && is_to) {
                base = guid;
            }
            if !o.replicate && many {
                if !seen_from && is_from {
                    seen_from = true;
                    continue;
                }
                if (seen_to || !seen_from) && !(is_to && self.from.is_none()) {
                    continue;
                }
                seen_to |= is_to;
            }
            let set = snapshot.own_props()?;
            props.put(name, Value::Nvlist(properties(&set, true, o.backup)));
            if o.holds {
                let mut tags = Nvlist::new();
                snapshot.holds()?.iter().for_each(|hold| tags.put(&hold.tag, hold.time));
                holds.put(name, Value::Nvlist(tags));
            }
        }
        list.put("snaps", Value::Nvlist(names));
        list.put("snapprops", Value::Nvlist(props));
        if o.holds {
            list.put("snapholds", Value::Nvlist(holds));
        }
        let at = self.members.len();
        self.holder.extend(snapshots.iter().map(|s| (s.phys().guid, at)));
        self.members.push(Member { head: head.clone(), list, parent: above.snapshot, origin });
        if self.options.replicate {
            for child in head.tree().children(head.dir())? {
                if child.phys().head_dataset != 0 {
                    self.gather(&head.tree().head(&child)?, Above { snapshot: base, to_txg })?;
                }
            }
        }
        Ok(())
    }

    fn without_snapshot(&mut self, head: &Dataset, above: Above) -> Result<()> {
        let snapshot = format!("{}@{}", head.name(), self.to);
        if above.to_txg != 0 && head.phys().creation_txg.0 > above.to_txg {
            return Ok(());
        }
        if !self.options.skip_missing {
            return Err(Error::not_found(snapshot, "the snapshot"));
        }
        self.warnings.push(format!(
            "WARNING: skipping dataset {} and its children: snapshot {} does not exist",
            head.name(),
            self.to
        ));
        Ok(())
    }

    /// Returns the streams, ordered so that the base of each is received before it.
    pub fn streams(&self) -> Result<Vec<Planned>> {
        let origins: Vec<u64> = self.members.iter().map(|m| m.origin).filter(|guid| *guid != 0).collect();
        let mut sent = vec![false; self.members.len()];
        let mut planned = Vec::new();
        while sent.contains(&false) {
            let mut moved = false;
            for at in 0..self.members.len() {
                let member = &self.members[at];
                let waits = |guid: u64| guid != 0 && self.holder.get(&guid).is_some_and(|by| *by != at && !sent[*by]);
                if sent[at] || waits(member.parent) || waits(member.origin) {
                    continue;
                }
                (sent[at], moved) = (true, true);
                self.plan(&member.head, &origins, &mut planned).at(member.head.name())?;
            }
            if !moved {
                return Err(Error::corrupt(&self.to_name, "datasets were cloned from one another in a circle"));
            }
        }
        Ok(planned)
    }

    fn plan(&self, head: &Dataset, origins: &[u64], planned: &mut Vec<Planned>) -> Result<()> {
        let snapshots = head.snapshots()?;
        let is = |s: &Dataset, name: Option<&str>| name.is_some() && s.snapshot_name() == name;
        let from = self.from.as_deref();
        let has_from = snapshots.iter().any(|s| is(s, from));
        let mut seen_from = from.is_none() || (self.options.replicate && !has_from);
        let mut previous: Option<Dataset> = None;
        let mut seen_to = false;
        for snapshot in &snapshots {
            if !seen_from {
                if is(snapshot, from) {
                    (seen_from, previous) = (true, Some(snapshot.clone()));
                }
                continue;
            }
            let is_to = is(snapshot, Some(&self.to));
            if !self.options.all && !is_to && !origins.contains(&snapshot.phys().guid) {
                continue;
            }
            let from = match previous.take() {
                Some(previous) => Some(previous),
                None if self.options.from_origin || self.options.replicate => head.origin()?,
                None => None,
            };
            planned.push(Planned { to: snapshot.clone(), from: from.map(Base::Snapshot) });
            previous = Some(snapshot.clone());
            if is_to {
                seen_to = true;
                break;
            }
        }
        if !seen_to {
            let why = if seen_from { "is not earlier than it" } else { "does not exist" };
            let source =
                from.map_or_else(String::new, |from| format!("\nincremental source ({}@{from}) {why}", head.name()));
            return Err(Error::invalid("", format!("could not send {}@{}:{source}", head.name(), self.to)));
        }
        Ok(())
    }

    /// Writes the part before the streams.
    pub fn open<W: Write>(&self, out: &mut Writer<W>, endian: Endian) -> Result<()> {
        let list = if self.has_list() { self.header.to_xdr(endian) } else { Vec::new() };
        let features = if self.options.holds { Features::HOLDS } else { Features::empty() };
        let begin = Begin {
            header_type: Begin::PACKAGE,
            features,
            creation_time: 0,
            objset_type: 0,
            flags: 0,
            to_guid: 0,
            from_guid: 0,
            to_name: self.to_name.clone().into_bytes(),
        };
        out.record(Body::Begin(begin), &list)?;
        out.list_end()
    }

    /// Writes the part after the streams.
    pub fn close<W: Write>(&self, out: &mut Writer<W>) -> Result<()> {
        out.last_end()
    }
}

/// Returns the locally set, settable properties, in the form used in streams.
fn properties(set: &PropertySet, of_snapshot: bool, received_only: bool) -> Nvlist {
    let mut list = Nvlist::new();
    for name in set.names() {
        let def = match property::find(name) {
            _ if property::is_user_property(name) => None,
            Some(def) if matches!(def.attr, Attr::Default | Attr::Inherit) => Some(def),
            _ => continue,
        };
        if of_snapshot && SPACE_LIMITS.contains(&name) {
            continue;
        }
        let value = match set.get(name) {
            _ if received_only => set.received(name),
            Some(SetBy::Local(value) | SetBy::Received(value)) => Some(value),
            None => None,
        };
        match (value, def) {
            (Some(Contents::Text(text)), _) => list.put(name, text.as_str()),
            (Some(Contents::Number(n)), Some(_)) => list.put(name, *n),
            (Some(Contents::Number(n)), None) => list.put(name, n.to_string().as_str()),
            (None, _) => {}
        }
    }
    list
}
