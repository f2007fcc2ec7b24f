//! `zpool status -j`.

use super::info_json;
use super::iostat::nice_time;
use super::status_options::StatusOptions;
use super::vdev_words::{is_healthy, shown_state};
use crate::json::{self, Object};
use crate::number::{date_zone, nice_bytes, nice_number};
use admin::advice;
use admin::health;
use pool::status::{PoolStatus, Progress, ScanKind, ScanStatus, VdevAux, VdevClass, VdevState, VdevStatus, VdevWork};
use serde_json::Value;

/// The document of these pools.
pub fn document(pools: &[&PoolStatus], options: &StatusOptions) -> String {
    let mut all = Object::new();
    for status in pools {
        let reason = health::reason(status, false);
        if options.explain && reason.is_healthy() {
            continue;
        }
        let key = if options.key_guid { status.guid.to_string() } else { status.name.clone() };
        all.insert(key, Value::Object(pool(status, options)));
    }
    let mut document = json::document("zpool status");
    document.insert("pools".into(), Value::Object(all));
    json::line(document)
}

struct Maker<'a> {
    status: &'a PoolStatus,
    options: &'a StatusOptions,
}

fn pool(status: &PoolStatus, options: &StatusOptions) -> Object {
    let maker = Maker { status, options };
    let mut object = info_json::pool(status, false, options.json_int);
    let reason = health::reason(status, false);
    if let Some((text, action)) = advice::imported(reason) {
        object.insert("status".into(), text.into());
        if !action.is_empty() {
            object.insert("action".into(), action.into());
        }
    }
    if let Some(id) = reason.message_id() {
        object.insert("msgid".into(), id.into());
        object.insert("moreinfo".into(), format!("https://openzfs.github.io/openzfs-docs/msg/{id}").into());
    }
    let mut scan = status.scan.as_ref().filter(|s| s.kind != ScanKind::None).map(|s| maker.scan(s)).unwrap_or_default();
    let rebuilds = maker.rebuilds();
    if !rebuilds.is_empty() {
        scan.insert("rebuild_stats".into(), Value::Object(rebuilds));
    }
    if !scan.is_empty() {
        object.insert("scan_stats".into(), Value::Object(scan));
    }
    maker.work(&mut object);
    let mut tree = Object::new();
    maker.device(&mut tree, &status.root, None, false);
    let groups: [(&str, Vec<&VdevStatus>, bool); 5] = [
        ("dedup", maker.class(VdevClass::Dedup), false),
        ("special", maker.class(VdevClass::Special), false),
        ("logs", maker.class(VdevClass::Log), false),
        ("l2cache", status.caches.iter().collect(), false),
        ("spares", status.spares.iter().collect(), true),
    ];
    let mut named = Vec::new();
    for (key, vdevs, are_spares) in groups {
        let mut group = Object::new();
        let target = if options.flat { &mut tree } else { &mut group };
        for vdev in vdevs {
            maker.device(target, vdev, None, are_spares);
        }
        if !group.is_empty() {
            named.push((key.to_owned(), Value::Object(group)));
        }
    }
    object.insert("vdevs".into(), Value::Object(tree));
    object.extend(named);
    if options.dedup {
        object.insert("dedup_stats".into(), Value::Object(maker.dedup()));
    }
    object.insert("error_count".into(), maker.number(status.error_count));
    if options.verbose && status.error_count != 0 {
        object.insert("errlist".into(), status.errors.clone().into());
    }
    object
}

impl Maker<'_> {
    fn class(&self, class: VdevClass) -> Vec<&VdevStatus> {
        let tops = self.status.root.children.iter();
        tops.filter(|c| c.class == class && c.kind != "hole" && c.kind != "indirect").collect()
    }

    fn value(&self, number: u64, nice: impl Fn(u64) -> String) -> Value {
        match (self.options.json_int, self.options.literal) {
            (true, _) => number.into(),
            (_, true) => number.to_string().into(),
            _ => nice(number).into(),
        }
    }

    fn number(&self, number: u64) -> Value {
        self.value(number, nice_number)
    }

    fn bytes(&self, number: u64) -> Value {
        self.value(number, nice_bytes)
    }

    fn full(&self, number: u64) -> Value {
        json::number(number, self.options.json_int)
    }

    fn time(&self, seconds: u64) -> Value {
        self.value(seconds, |s| if s == 0 { "-".into() } else { date_zone(s) })
    }

    fn scan(&self, scan: &ScanStatus) -> Object {
        let mut object = Object::new();
        let function = match scan.kind {
            ScanKind::None => "NONE",
            ScanKind::Scrub => "SCRUB",
            ScanKind::Resilver => "RESILVER",
            ScanKind::ErrorScrub => "ERRORSCRUB",
        };
        object.insert("function".into(), function.into());
        object.insert("state".into(), progress(scan.state).into());
        let members = [
            ("start_time", self.time(scan.start_time)),
            ("end_time", self.time(scan.end_time)),
            ("to_examine", self.bytes(scan.to_examine_bytes)),
            ("examined", self.bytes(scan.examined_bytes)),
            ("skipped", self.bytes(scan.skipped_bytes)),
            ("processed", self.bytes(scan.processed_bytes)),
            ("errors", self.number(scan.errors)),
            ("bytes_per_scan", self.bytes(scan.pass_examined_bytes)),
            ("pass_start", self.full(scan.pass_start)),
            ("scrub_pause", self.time(scan.pause_time)),
            ("scrub_spent_paused", self.full(scan.spent_paused)),
            ("issued_bytes_per_scan", self.bytes(scan.pass_issued_bytes)),
            ("issued", self.bytes(scan.issued_bytes())),
        ];
        object.extend(members.map(|(key, value)| (key.to_owned(), value)));
        object
    }

    /// The sequential rebuilds, keyed by the name of the top-level vdev.
    fn rebuilds(&self) -> Object {
        let mut all = Object::new();
        for (top, rebuild) in self.status.rebuilds() {
            let name = info_json::name(top, self.status, self.options.names);
            let mut object = info_json::vdev(top, &name, false, self.options.json_int);
            let state = match rebuild.progress() {
                Progress::Active => "ACTIVE",
                Progress::Cancelled => "CANCELED",
                Progress::Finished | Progress::None => "COMPLETE",
            };
            let r = &rebuild.now;
            object.insert("state".into(), state.into());
            let duration = |ms: u64| self.value(ms.saturating_mul(1_000_000), nice_time);
            let members = [
                ("start_time", self.time(r.start_time)),
                ("end_time", self.time(r.end_time)),
                ("scan_time", duration(r.run_time_ms)),
                ("scanned", self.bytes(r.scanned_bytes)),
                ("issued", self.bytes(r.issued_bytes)),
                ("rebuilt", self.bytes(r.rebuilt_bytes)),
                ("to_scan", self.bytes(r.total_bytes)),
                ("errors", self.number(r.errors)),
                ("pass_time", duration(rebuild.pass_time_ms)),
                ("pass_scanned", self.bytes(rebuild.pass_scanned_bytes)),
                ("pass_issued", self.bytes(rebuild.pass_issued_bytes)),
                ("pass_skipped", self.bytes(r.scanned_bytes.saturating_sub(r.issued_bytes))),
            ];
            object.extend(members.map(|(key, value)| (key.to_owned(), value)));
            all.insert(name, Value::Object(object));
        }
        all
    }

    /// Adds device removal, checkpoint and raidz expansion.
    fn work(&self, object: &mut Object) {
        let name = |id: u64| {
            let vdev = self.status.root.children.iter().find(|c| c.id == id);
            Value::from(vdev.map_or_else(|| id.to_string(), |v| info_json::name(v, self.status, self.options.names)))
        };
        let members =
            |list: Vec<(&str, Value)>| Value::Object(list.into_iter().map(|(k, v)| (k.to_owned(), v)).collect());
        if let Some(r) = self.status.removal.as_ref().filter(|r| r.state != Progress::None) {
            let mut list = vec![("name", name(r.vdev)), ("state", progress(r.state).into())];
            list.extend([
                ("removing_vdev", self.full(r.vdev)),
                ("start_time", self.time(r.start_time)),
                ("end_time", self.time(r.end_time)),
                ("to_copy", self.bytes(r.to_copy_bytes)),
                ("copied", self.bytes(r.copied_bytes)),
                ("mapping_memory", self.bytes(r.mapping_bytes)),
            ]);
            object.insert("removal_stats".into(), members(list));
        }
        if let Some(c) = &self.status.checkpoint {
            let state = if c.discarding { "DISCARDING" } else { "EXISTS" };
            let list = vec![
                ("state", state.into()),
                ("start_time", self.time(c.start_time)),
                ("space", self.bytes(c.space_bytes)),
            ];
            object.insert("checkpoint_stats".into(), members(list));
        }
        if let Some(e) = self.status.expand.as_ref().filter(|e| e.state != Progress::None) {
            let list = vec![
                ("name", name(e.vdev)),
                ("state", progress(e.state).into()),
                ("expanding_vdev", self.full(e.vdev)),
                ("start_time", self.time(e.start_time)),
                ("end_time", self.time(e.end_time)),
                ("to_reflow", self.bytes(e.to_reflow_bytes)),
                ("reflowed", self.bytes(e.reflowed_bytes)),
                ("waiting_for_resilver", self.full(u64::from(e.waiting_for_resilver))),
            ];
            object.insert("raidz_expand_stats".into(), members(list));
        }
    }

    fn device(&self, target: &mut Object, vdev: &VdevStatus, parent: Option<&str>, is_spare: bool) {
        if vdev.kind == "indirect" || (self.options.unhealthy && vdev.kind != "root" && is_healthy(vdev)) {
            return;
        }
        let name = info_json::name(vdev, self.status, self.options.names);
        let mut object = info_json::vdev(vdev, &name, false, self.options.json_int);
        if let Some(parent) = parent.filter(|_| self.options.flat) {
            object.insert("parent".into(), parent.into());
        }
        if !is_spare {
            self.counts(&mut object, vdev);
        } else if vdev.aux == VdevAux::Spared || vdev.state == VdevState::Healthy {
            object.insert("state".into(), shown_state(vdev, true).into());
        }
        if self.options.direct {
            object.insert("dio_verify_errors".into(), self.number(0));
        }
        if vdev.not_present {
            object.insert("not_present".into(), self.full(1));
            object.insert("was".into(), vdev.path.clone().unwrap_or_default().into());
        } else if vdev.aux != VdevAux::None {
            object.insert("aux".into(), vdev.aux.json_name().into());
        }
        if vdev.removing {
            object.insert("removing".into(), self.full(1));
        } else if vdev.no_alloc {
            object.insert("noalloc".into(), self.full(1));
        }
        if vdev.is_leaf() {
            if self.options.initialize {
                let words = ["init_state", "initialized", "to_initialize", "init_time", "init_errors"];
                self.leaf_work(&mut object, &vdev.initialize, words, "UNINITIALIZED");
            }
            if self.options.trim {
                if !vdev.trim_unsupported {
                    let words = ["trim_state", "trimmed", "to_trim", "trim_time", "trim_errors"];
                    self.leaf_work(&mut object, &vdev.trim, words, "UNTRIMMED");
                }
                object.insert("trim_notsup".into(), self.full(u64::from(vdev.trim_unsupported)));
            }
        }
        let mut below = Object::new();
        for child in vdev.children.iter().filter(|c| c.class == vdev.class && c.kind != "hole") {
            if self.options.flat {
                self.device(target, child, Some(&name), is_spare);
            }
            self.device(&mut below, child, Some(&name), is_spare);
        }
        if !below.is_empty() {
            object.insert("vdevs".into(), Value::Object(below));
        }
        // As in a list of unique names, a repeated name takes the position of its last occurrence.
        target.shift_remove(&name);
        target.insert(name, Value::Object(object));
    }

    fn counts(&self, object: &mut Object, vdev: &VdevStatus) {
        let sizes = [
            ("alloc_space", vdev.alloc_bytes),
            ("total_space", vdev.space_bytes),
            ("def_space", vdev.dspace_bytes),
            ("rep_dev_size", vdev.replace_bytes),
            ("ex_dev_size", vdev.expand_bytes),
            ("self_healed", vdev.self_healed_bytes),
            ("phys_space", vdev.phys_bytes),
        ];
        for (key, size) in sizes.into_iter().filter(|(_, size)| *size != 0) {
            object.insert(key.into(), self.bytes(size));
        }
        object.insert("read_errors".into(), self.number(vdev.read_errors));
        object.insert("write_errors".into(), self.number(vdev.write_errors));
        object.insert("checksum_errors".into(), self.number(vdev.checksum_errors));
        for (key, size) in [("scan_processed", vdev.scan_processed_bytes), ("checkpoint_space", vdev.checkpoint_bytes)]
        {
            if size != 0 {
                object.insert(key.into(), self.bytes(size));
            }
        }
        if vdev.resilver_deferred {
            object.insert("resilver_deferred".into(), self.full(1));
        }
        if vdev.is_leaf() {
            object.insert("slow_ios".into(), self.number(vdev.slow_ios));
        }
    }

    fn leaf_work(&self, object: &mut Object, work: &VdevWork, keys: [&str; 5], none: &str) {
        let state = match work.state {
            1 => "ACTIVE",
            2 => "CANCELED",
            3 => "SUSPENDED",
            4 => "COMPLETE",
            _ => {
                object.insert(keys[0].into(), none.into());
                return;
            }
        };
        object.insert(keys[0].into(), state.into());
        object.insert(keys[1].into(), self.bytes(work.done_bytes));
        object.insert(keys[2].into(), self.bytes(work.total_bytes));
        object.insert(keys[3].into(), self.time(work.action_time));
        object.insert(keys[4].into(), self.number(work.errors));
    }

    fn dedup(&self) -> Object {
        let tables = &self.status.dedup;
        let mut object = Object::new();
        object.insert("obj_count".into(), self.number(tables.entries));
        object.insert("dspace".into(), self.bytes(tables.disk_bytes));
        object.insert("mspace".into(), self.bytes(tables.core_bytes));
        object
    }
}

fn progress(state: Progress) -> &'static str {
    match state {
        Progress::None => "NONE",
        Progress::Active => "SCANNING",
        Progress::Finished => "FINISHED",
        Progress::Cancelled => "CANCELED",
    }
}
