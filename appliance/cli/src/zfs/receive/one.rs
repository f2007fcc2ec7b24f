//! Receives one stream.

use super::error_text::said;
use super::name::Destination;
use super::receiver::Receiver;
use crate::context::{Context, Failure};
use crate::number::nice_bytes;
use crate::zpool::writing::why;
use dataset::property::Value;
use dataset::receive::{Target, VerifiedRecord, VerifyingReader, receive, skip};
use dataset::write::{self, ReceivedProperties};
use dataset::{Dataset, Datasets, ListOptions};
use errors::{Error, Refusal};
use ondisk::ObjsetKind;
use ondisk::send_record::{Begin, Body, Features};
use std::io::Read;
use std::sync::Arc;
use std::time::Instant;

/// BEGIN flag: the stream's base is a snapshot of another dataset.
const FLAG_CLONE: u32 = 1;
/// Set only after the last stream: an intermediate state may be larger than the quota.
const SET_LAST: &str = "refquota";

impl Receiver<'_> {
    /// Receives the stream that `first` begins.
    pub(super) fn one<R: Read>(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut VerifyingReader<R>,
        first: &VerifiedRecord,
    ) -> Result<(), Failure> {
        let Body::Begin(begin) = &first.record.body else {
            return Err(Failure::failed("cannot receive: invalid stream (bad magic number)"));
        };
        let asked = self.asked;
        let to_name = String::from_utf8_lossy(&begin.to_name).into_owned();
        let mut to = Destination::new(asked, &to_name, &self.sent)?;
        let resumes = begin.features.contains(Features::RESUMING);
        let is_based = begin.from_guid == 0 || begin.flags & FLAG_CLONE != 0 || asked.properties.origin.is_some();
        let makes = is_based && !resumes;
        let cannot = match (makes, resumes) {
            (true, _) => "cannot receive new filesystem stream",
            (_, true) => "cannot receive resume stream",
            _ => "cannot receive incremental stream",
        };
        if asked.heals {
            let tree = self.tree().map_err(|e| Failure::failed(format!("{cannot}: {}", said(&e))))?;
            self.require(&tree, &to.dataset, None, cannot)?;
            return self.heal(cx, stream, first, begin, &to);
        }
        let tree = self.tree().map_err(|e| Failure::failed(format!("{cannot}: {}", said(&e))))?;
        let origin = match &asked.properties.origin {
            Some(origin) => Some(origin.clone()),
            None if begin.flags & FLAG_CLONE != 0 && !resumes => {
                let missing = || Failure::failed(format!("{cannot}: local origin for clone {to} does not exist"));
                Some(closest(&tree, &to.dataset, begin.from_guid).ok_or_else(missing)?)
            }
            None => None,
        };
        if asked.verbose
            && let Some(origin) = &origin
        {
            let how = if asked.properties.origin.is_some() { "using provided" } else { "found" };
            cx.print(&format!("{how} clone origin {origin}\n"));
        }
        self.find_place(&tree, begin, makes, &to_name, &mut to);
        let there = tree.dataset(&to.dataset).ok();
        let is_there = there.is_some();
        let was_redacted = there.is_some_and(|head| head.redacted_by().is_ok_and(|guids| guids.is_some()));
        if asked.is_prefix && !asked.is_tail && !asked.is_dry && !is_there {
            self.make_parents(&to)?;
        }
        let tree = self.tree().map_err(|e| Failure::failed(format!("{cannot}: {}", said(&e))))?;
        if !asked.is_dry {
            self.require(&tree, &to.dataset, origin.as_deref(), cannot)?;
        }
        if asked.verbose {
            let verb = if asked.is_dry { "would receive" } else { "receiving" };
            let kind = if begin.from_guid != 0 { "incremental" } else { "full" };
            cx.print(&format!("{verb} {kind} stream of {to_name} into {to}\n"));
            let _ = cx.out.flush();
        }
        if let Some(flow) = &self.flow {
            flow.dataset(&to.dataset);
            let how = if begin.from_guid != 0 { "incremental" } else { "full" };
            flow.doing(format!("{to_name} into {to}, {how}"));
        }
        let failed = |e: &Error| Failure::failed(format!("{cannot}: {}", said(e)));
        let is_top = self.top.get_or_insert_with(|| to.dataset.clone()) == &to.dataset;
        let is_volume = begin.objset_type == ObjsetKind::Volume as u32;
        let (properties, encryption) = self.properties(cx, begin, &tree, &to, is_top, is_volume, makes)?;
        if asked.is_dry {
            return skip(stream).map(drop).map_err(|e| failed(&e));
        }
        let properties = self.permitted(cx, &tree, &to.dataset, is_there, properties);
        let started = Instant::now();
        let let_go = || self.let_go(&to.dataset, begin.from_guid == 0);
        let early = ReceivedProperties {
            brought: properties
                .brought
                .clone()
                .map(|all| all.into_iter().filter(|(name, _)| name != SET_LAST).collect()),
            ..properties.clone()
        };
        // An existing dataset keeps its properties until the whole stream has arrived.
        let begun = |head| match is_there {
            true => Ok(()),
            false => write::receive_properties(self.live(), &to.dataset, &early, true, Some(head)).map(drop),
        };
        let target = Target {
            dataset: to.dataset.clone(),
            snapshot: to.snapshot.clone(),
            force: asked.force,
            resumable: asked.resumable,
            encryption: encryption.properties,
            key: encryption.key.clone(),
            origin,
            user: self.caller.other().cloned(),
            owners_of: admin::write::maker().owners_of,
            started: &begun,
            let_go: &let_go,
        };
        let received = match receive(self.live(), stream, first, &target) {
            Ok(received) => received,
            Err(e @ (Error::Refused { why: Refusal::Exists, .. } | Error::NotFound { .. })) if self.has(&to, begin) => {
                if asked.verbose {
                    cx.print(&format!("snap {to} already exists; ignoring\n"));
                }
                tracing::debug!(%e, "the snapshot is there");
                return skip(stream).map(drop).map_err(|e| failed(&e));
            }
            Err(error) => return Err(self.tell(cannot, &to, &error)),
        };
        if let Some(key) = &encryption.key {
            admin::kept_keys::keep_new(&cx.state, self.record, &to.dataset, key)
                .map_err(|e| Failure::failed(format!("{cannot}: {e:#}")))?;
        }
        // What was permitted before the stream may have been taken back.
        let tree = self.tree().map_err(|e| failed(&e))?;
        let properties = self.permitted(cx, &tree, &to.dataset, is_there, properties);
        let late = write::receive_properties(self.live(), &to.dataset, &properties, !is_there, Some(received.head));
        for (name, error) in late.map_err(|e| failed(&e))? {
            if name != SET_LAST || self.is_last(&to) {
                cx.complain(&format!("cannot receive {name} property on {}: {}", to.dataset, why(&error)));
            }
        }
        self.snapshot_parts(cx, begin, &to)?;
        // Do not mount: programs would read the omitted blocks of a redacted stream as zeros, and
        // the key of a raw stream is not loaded yet.
        if !is_there && !is_volume && !begin.features.intersects(Features::REDACTED | Features::RAW) {
            self.made.push(to.dataset.clone());
        }
        if is_there && !was_redacted && begin.features.contains(Features::REDACTED) {
            self.unmounted.borrow_mut().retain(|name| *name != to.dataset);
        }
        if asked.verbose {
            let seconds = started.elapsed().as_secs().max(1);
            let rate = nice_bytes(received.bytes / seconds);
            let bytes = nice_bytes(received.bytes);
            cx.print(&format!("received {bytes} stream in {seconds} seconds ({rate}/sec)\n"));
        }
        Ok(())
    }

    /// `-c`: the snapshot exists; rewrites its blocks that cannot be read.
    fn heal<R: Read>(
        &self,
        cx: &mut Context<'_>,
        stream: &mut VerifyingReader<R>,
        first: &VerifiedRecord,
        begin: &Begin,
        to: &Destination,
    ) -> Result<(), Failure> {
        let asked = self.asked;
        let failed = |what: &str| Failure::failed(format!("cannot receive: {what}"));
        let bars = asked.is_prefix || asked.is_tail || asked.force || asked.resumable || asked.no_mount;
        if bars || asked.skip_holds {
            return Err(failed("corrective recv can not be used when combined with this flag"));
        }
        let tree = self.tree().map_err(|e| failed(&said(&e)))?;
        let Ok(snapshot) = tree.dataset(&to.to_string()) else {
            return Err(failed("corrective recv must specify an existing snapshot to heal"));
        };
        if snapshot.phys().guid != begin.to_guid {
            return Err(failed("local snapshot doesn't match the snapshot in the provided stream"));
        }
        drop((snapshot, tree));
        if asked.verbose {
            let verb = if asked.is_dry { "would receive" } else { "receiving" };
            let kind = if begin.from_guid != 0 { "incremental" } else { "full" };
            let to_name = String::from_utf8_lossy(&begin.to_name);
            cx.print(&format!("{verb} corrective {kind} stream of {to_name} into {to}\n"));
            let _ = cx.out.flush();
        }
        if asked.is_dry {
            return skip(stream).map(drop).map_err(|e| failed(&said(&e)));
        }
        let started = Instant::now();
        let healed = dataset::receive::heal(self.live(), stream, first, &to.to_string());
        let healed = healed.map_err(|e| failed(&said(&e)))?;
        if asked.verbose {
            let seconds = started.elapsed().as_secs().max(1);
            let (bytes, rate) = (nice_bytes(healed.stream_bytes), nice_bytes(healed.stream_bytes / seconds));
            cx.print(&format!("received {bytes} stream in {seconds} seconds ({rate}/sec)\n"));
            cx.print(&format!("{} of {} blocks were damaged and are healed\n", healed.healed, healed.looked_at));
        }
        Ok(())
    }

    /// Finds a dataset of a package by its snapshots: here it may have another name or another
    /// parent.
    fn find_place(&self, tree: &Arc<Datasets>, begin: &Begin, makes: bool, to_name: &str, to: &mut Destination) {
        if tree.dataset(&to.dataset).is_ok() {
            return;
        }
        if makes {
            let parent = self.list.as_ref().and_then(|list| list.of(begin.to_guid)).map_or(0, |member| member.parent);
            let Some((above, last)) = to.dataset.rsplit_once('/') else { return };
            if parent != 0
                && tree.dataset(above).is_err()
                && let Some(found) = closest(tree, above, parent)
            {
                to.dataset = format!("{}/{last}", found.split('@').next().unwrap_or_default());
            }
        } else if (self.asked.is_prefix || to_name.get(self.sent.len()..).is_none_or(|rest| !rest.starts_with('@')))
            && let Some(found) = closest(tree, &to.dataset, begin.from_guid)
        {
            to.dataset = found.split('@').next().unwrap_or_default().to_owned();
        }
    }

    /// With `-d`, creates the missing parents of the received dataset.
    fn make_parents(&self, to: &Destination) -> Result<(), Failure> {
        let failed = |e: &Error| Failure::failed(format!("cannot receive: failed to create ancestors: {}", why(e)));
        let tree = self.tree().map_err(|e| failed(&e))?;
        let Some((parent, _)) = to.dataset.rsplit_once('/').filter(|(parent, _)| tree.dataset(parent).is_err()) else {
            return Ok(());
        };
        let permitted = self.caller.require_to_create(&tree, parent, true, []);
        permitted.map_err(|reason| reason.refuse("cannot receive: failed to create ancestors"))?;
        let user = self.caller.other().cloned();
        let new = write::NewDataset { name: parent.to_owned(), parents: true, user, ..Default::default() };
        write::create(self.live(), &new, admin::write::maker()).map_err(|e| failed(&e))
    }

    /// Receives the properties and holds of the snapshot.
    fn snapshot_parts(&self, cx: &mut Context<'_>, begin: &Begin, to: &Destination) -> Result<(), Failure> {
        let Some(list) = &self.list else { return Ok(()) };
        let name = to.to_string();
        let tree = self.tree().map_err(|e| Failure::failed(format!("cannot receive: {}", said(&e))))?;
        let may = |permission: &str| self.caller.require(&tree, &name, &[permission]).is_ok();
        if let Some(brought) = list.snapshot_properties(begin.to_guid).filter(|_| may("userprop")) {
            self.receive_snapshot_properties(cx, &name, brought)
                .map_err(|e| Failure::failed(format!("cannot receive: {}", said(&e))))?;
        }
        if list.holds && !self.asked.skip_holds && self.caller.require(&tree, &to.dataset, &["hold"]).is_ok() {
            for tag in list.snapshot_holds(begin.to_guid) {
                if let Err(failures) = write::hold(self.live(), std::slice::from_ref(&name), &tag) {
                    for (_, error) in failures {
                        cx.complain(&format!("cannot hold snapshot '{name}': {}", why(&error)));
                    }
                }
            }
        }
        Ok(())
    }

    /// Stores the snapshot properties that a package brings, in place of those from an earlier
    /// package. Locally set properties stay.
    pub(super) fn receive_snapshot_properties(
        &self,
        cx: &mut Context<'_>,
        name: &str,
        brought: Vec<(String, Value)>,
    ) -> Result<(), Error> {
        let properties = ReceivedProperties { brought: Some(brought), ..ReceivedProperties::default() };
        for (property, error) in write::receive_properties(self.live(), name, &properties, true, None)? {
            cx.complain(&format!("cannot receive {property} property on {name}: {}", why(&error)));
        }
        Ok(())
    }

    /// Whether the snapshot exists already.
    fn has(&self, to: &Destination, begin: &Begin) -> bool {
        let tree = self.tree();
        let snapshots = tree.and_then(|tree| tree.dataset(&to.dataset)).and_then(|head| head.snapshots());
        snapshots.is_ok_and(|all| all.iter().any(|s| s.phys().guid == begin.to_guid))
    }

    /// Whether the package has no later snapshot.
    fn is_last(&self, to: &Destination) -> bool {
        self.list.as_ref().is_none_or(|list| list.last == to.snapshot)
    }

    fn tell(&self, cannot: &str, to: &Destination, error: &Error) -> Failure {
        let dataset = self.tree().and_then(|tree| tree.dataset(&to.dataset)).ok();
        let token = || dataset.as_ref().and_then(|d: &Dataset| dataset::resume::token(d).ok().flatten());
        let text = match error {
            Error::Refused { why: Refusal::Exists, .. } => {
                return Failure::failed(format!("cannot restore to {to}: destination already exists"));
            }
            Error::Refused { why: Refusal::Busy, .. } if token().is_some() => {
                let name = &to.dataset;
                format!("destination {name} contains partially-complete state from \"zfs receive -s\".")
            }
            Error::Corrupt { .. } | Error::Io { .. } if self.asked.resumable && token().is_some() => format!(
                "checksum mismatch or incomplete stream.\nPartially received snapshot is saved.\nA resuming stream can be generated \
                 on the sending system by running:\n    zfs send -t {}\n{error}",
                token().unwrap_or_default()
            ),
            error => said(error),
        };
        Failure::failed(format!("{cannot}: {text}"))
    }
}

/// The snapshot with that guid whose name is nearest to `name`: copies may exist in several places.
pub(super) fn closest(tree: &Arc<Datasets>, name: &str, guid: u64) -> Option<String> {
    let list = tree.list(&[], &ListOptions::all()).ok()?;
    let found = list.entries.iter().filter_map(|entry| entry.dataset());
    let found = found.filter(|d| d.is_snapshot() && d.phys().guid == guid).map(|d| d.name().to_owned());
    let shared = |other: &String| {
        let other = other.split('@').next().unwrap_or_default();
        name.split('/').zip(other.split('/')).take_while(|(a, b)| a == b).count()
    };
    found.rev_best(shared)
}

/// Picks the first item with the highest score.
trait Best: Iterator<Item = String> + Sized {
    fn rev_best(self, of: impl Fn(&String) -> usize) -> Option<String> {
        self.fold(None, |best: Option<(usize, String)>, name| match best {
            Some((most, best)) if most >= of(&name) => Some((most, best)),
            _ => Some((of(&name), name)),
        })
        .map(|(_, name)| name)
    }
}

impl<I: Iterator<Item = String>> Best for I {}
