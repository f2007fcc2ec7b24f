//! `zfs.sync.*`, and `zfs.check.*`, which only reports what would happen.

use super::arguments::Signature;
use super::errno;
use super::library::{Event, Library, Returned, texts};
use dataset::write::Denied;
use lua::{Complaint, Datum};

const TEXT: &str = "string";

/// What the functions take, in the order of their numbers.
const CHANGES: &[Signature] = &[
    Signature { name: "destroy", positions: &[("filesystem | snapshot", TEXT)], keywords: &[("defer", "boolean")] },
    Signature { name: "promote", positions: &[("clone", TEXT)], keywords: &[] },
    Signature { name: "rollback", positions: &[("filesystem", TEXT)], keywords: &[] },
    Signature { name: "snapshot", positions: &[("filesystem@snapname | volume@snapname", TEXT)], keywords: &[] },
    Signature {
        name: "rename_snapshot",
        positions: &[("filesystem | volume", TEXT), ("oldsnapname", TEXT), ("newsnapname", TEXT)],
        keywords: &[],
    },
    Signature { name: "inherit", positions: &[("dataset", TEXT), ("property", TEXT)], keywords: &[] },
    Signature { name: "bookmark", positions: &[("snapshot | bookmark", TEXT), ("bookmark", TEXT)], keywords: &[] },
    Signature { name: "set_prop", positions: &[("dataset", TEXT), ("property", TEXT), ("value", TEXT)], keywords: &[] },
];

/// What OpenZFS says to a program that was started with `-n`.
const NOT_SYNCING: &str = "running functions from the zfs.sync submodule requires passing sync=TRUE to \
                           lzc_channel_program() (i.e. do not specify the \"-n\" command line argument)";

impl Library<'_> {
    /// Makes a change, or checks whether it could be made. Returns 0 or an error number, and
    /// details where there are some.
    pub(super) fn change(&mut self, at: usize, arguments: Vec<Datum>, is_check: bool) -> Returned {
        let signature = CHANGES.get(at).ok_or_else(|| Complaint::Error("no such function".to_owned()))?;
        let arguments = signature.parse(arguments)?;
        let deferred = match arguments.get(1) {
            Some(Datum::Boolean(deferred)) => Some(*deferred),
            _ => None,
        };
        let names = texts(arguments);
        let name = names[0].as_str();
        if deferred.is_some() && !name.contains('@') {
            return Err(Complaint::Error(format!("'deferred' kwarg only supported for snapshots: {name}")));
        }
        let dry_run = is_check || self.read_only;
        let result = self.operate(signature.name, &names, deferred.unwrap_or(false), dry_run);
        if !is_check && self.read_only {
            return Err(Complaint::Error(NOT_SYNCING.to_owned()));
        }
        match result {
            Ok(None) => Ok(vec![Datum::Number(0)]),
            Ok(Some(details)) => Ok(vec![Datum::Number(0), details]),
            Err(denied) => {
                let number = errno::of_denied(&denied);
                if number == errno::EIO && !is_check {
                    return Err(Complaint::Error(format!("I/O error while accessing dataset '{name}'")));
                }
                let mut results = vec![Datum::Number(number)];
                if let Denied::Conflicts(names) = denied {
                    results.push(Datum::array(names.iter().map(Datum::text)));
                }
                Ok(results)
            }
        }
    }

    fn operate(
        &mut self,
        change: &str,
        names: &[String],
        deferred: bool,
        dry_run: bool,
    ) -> Result<Option<Datum>, Denied> {
        let (txg, name) = (self.txg, names[0].as_str());
        match change {
            "destroy" => {
                txg.destroy(name, deferred, dry_run)?;
                if !dry_run && !name.contains('@') {
                    self.events.push(Event::Destroyed(name.to_owned()));
                }
            }
            "promote" => {
                let root = self.root_before(name);
                txg.promote(name, dry_run)?;
                if let (Some(before), false) = (root, dry_run) {
                    self.events.push(Event::Root { before, now: name.to_owned() });
                }
            }
            "rollback" => {
                let target = txg.rollback(name, dry_run)?;
                if !dry_run {
                    return Ok(Some(Datum::Table(vec![(Datum::text("target"), Datum::text(target))])));
                }
            }
            "snapshot" => txg.snapshot(name, dry_run)?,
            "rename_snapshot" => txg.rename_snapshot(name, &names[1], &names[2], dry_run)?,
            "inherit" => txg.inherit(name, &names[1], dry_run)?,
            "bookmark" => txg.bookmark(name, &names[1], dry_run)?,
            _ => txg.set_user_property(name, &names[1], &names[2], dry_run)?,
        }
        Ok(None)
    }

    /// The origin of a clone, if that is the clone's encryption root.
    fn root_before(&self, name: &str) -> Option<String> {
        let clone = self.find(name).ok()?;
        let (origin, root) = (clone.origin().ok()??, clone.encryption_root().ok()??);
        (origin.name().split('@').next() == Some(root.name())).then(|| root.name().to_owned())
    }
}
