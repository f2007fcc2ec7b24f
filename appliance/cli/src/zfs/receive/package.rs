//! Packages of streams (`zfs send -R`, `-I`, `-p`): the list at the start, and the streams behind
//! it.
//!
//! Facts: `zfs_receive_package` in lib/libzfs/libzfs_sendrecv.c.

use super::error_text::said;
use super::list::List;
use super::receiver::Receiver;
use crate::context::{Context, Failure};
use dataset::receive::{VerifiedRecord, VerifyingReader};
use ondisk::send_record::{Begin, Body};
use std::io::Read;

/// Reads the next stream's BEGIN. `None`: the input ends here, or the package does.
pub(super) fn begin_of<R: Read>(stream: &mut VerifyingReader<R>) -> Result<Option<VerifiedRecord>, Failure> {
    let failed = |why: String| Failure::failed(format!("cannot receive: {why}"));
    let packet = stream.next_record().map_err(|e| failed(said(&e)))?;
    match packet {
        Some(packet) => match &packet.record.body {
            Body::Begin(_) => Ok(Some(packet)),
            Body::End { .. } => Ok(None),
            _ => Err(failed("invalid stream (bad magic number)".to_owned())),
        },
        None => Ok(None),
    }
}

impl Receiver<'_> {
    /// Receives all streams. Returns the exit code.
    pub(super) fn all<R: Read>(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut VerifyingReader<R>,
        first: VerifiedRecord,
    ) -> Result<u8, Failure> {
        let Body::Begin(begin) = &first.record.body else { return Ok(1) };
        let to_name = String::from_utf8_lossy(&begin.to_name).into_owned();
        let Some((sent, _)) = to_name.split_once('@') else {
            return Err(Failure::failed("cannot receive: invalid stream (bad snapshot name)"));
        };
        self.sent = sent.to_owned();
        if begin.header_type != Begin::PACKAGE {
            return self.one(cx, stream, &first).map(|()| 0);
        }
        self.list = List::new(&first.payload, begin)?;
        let recursive = self.list.as_ref().is_some_and(|list| list.recursive);
        if recursive && self.asked.to.contains('@') {
            return Err(Failure::failed("cannot receive: cannot specify snapshot name for multi-snapshot stream"));
        }
        // The END record of the list.
        if begin_of(stream)?.is_some() {
            return Err(Failure::failed("cannot receive: invalid backup stream"));
        }
        let again = recursive && !self.asked.is_dry && self.list.as_ref().is_some_and(|list| list.from.is_some());
        if again {
            self.require_owner()?;
        }
        let mut code = if again { self.replicate(cx, &to_name)? } else { 0 };
        while let Some(next) = begin_of(stream)? {
            self.one(cx, stream, &next)?;
        }
        if again {
            // The streams may have brought parents that pending renames need.
            code = self.replicate(cx, &to_name)?;
        }
        if !self.asked.is_dry
            && let Some(list) = self.list.as_ref().filter(|list| list.raw)
            && let Some(top) = &self.top
        {
            self.set_roots(list, top).map_err(|e| Failure::failed(format!("cannot receive: {}", said(&e))))?;
        }
        Ok(code)
    }

    /// A raw stream makes each dataset an encryption root. Datasets that were none when sent
    /// inherit their key from the parent again. Facts: `recv_fix_encryption_hierarchy`.
    fn set_roots(&self, list: &List, top: &str) -> Result<(), errors::Error> {
        let tree = self.tree()?;
        for entry in tree.list(&[top], &dataset::ListOptions::heads())?.entries {
            let Some(head) = entry.dataset().filter(|head| list.recursive || head.name() == top) else { continue };
            let Some(root) = head.encryption_root()? else { continue };
            let is_root = root.id() == head.dir().id();
            let snapshots = head.snapshots()?;
            let Some((was_root, location)) = snapshots.iter().find_map(|s| list.encryption_root(s.phys().guid)) else {
                continue;
            };
            // The parent of the top dataset does not have its key.
            if was_root || (is_root && head.name() != top) {
                self.caller
                    .require(&tree, head.name(), &["change-key"])
                    .map_err(|reason| errors::Error::invalid(head.name(), reason.text))?;
                let location = self.permitted_location(&tree, head.name(), location);
                dataset::write::set_encryption_root(self.live(), head.name(), was_root, location.as_deref())?;
            }
        }
        Ok(())
    }
}
