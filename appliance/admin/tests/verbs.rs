//! What prevents a verb has a kind that programs can act on, and its text is OpenZFS's.

use admin::create::{CreateRequest as NewPool, create};
use admin::house::Scope;
use admin::layout::Layout;
use admin::state::{Imported, State};
use admin::verbs::zfs::destroy::{DestroyRequest, Preview, Unseen, plan};
use admin::verbs::zfs::rollback::{self, RollbackRequest};
use admin::verbs::{Invocation, Kind, Refusal};
use admin::write::{WritablePool, maker};
use admin::{House, OwnedPool};
use dataset::write::{self, NewDataset};
use std::sync::Arc;

/// A pool `tank` that this process owns, without mounts.
struct Rig {
    house: Arc<House>,
    pool: Arc<OwnedPool>,
    _folder: tempfile::TempDir,
}

impl Rig {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let disk = folder.path().join("disk");
        std::fs::File::create(&disk).and_then(|f| f.set_len(96 << 20)).expect("an image file");
        let layout = Layout::parse(&[disk.display().to_string()]).expect("a layout");
        let pool = create(&NewPool { name: "tank".to_owned(), layout, ..NewPool::default() }).expect("a pool");
        let guid = pool.writer().pool().expect("synced").guid();
        let record = Imported { name: "tank".to_owned(), guid, places: vec![disk], ..Imported::default() };
        let state = State::new(folder.path().join("state"));
        state.change(|all| all.push(record.clone())).expect("written");
        let house = House::new(state, Scope::All, None);
        let pool = house.adopt(record, pool);
        Self { house, pool, _folder: folder }
    }

    /// A rig with file systems and snapshots.
    fn with(heads: &[&str], snapshots: &[&str]) -> Self {
        let rig = Self::new();
        for name in heads {
            let new = NewDataset { name: (*name).to_owned(), ..NewDataset::default() };
            write::create(&rig.writable().live, &new, maker()).expect("created");
        }
        for name in snapshots {
            write::snapshot(&rig.writable().live, &[(*name).to_owned()], &[]).expect("taken");
        }
        rig
    }

    fn writable(&self) -> &Arc<WritablePool> {
        self.pool.writable().expect("open for writing")
    }

    fn invocation(&self, command: &str) -> Invocation<'static> {
        Invocation {
            state: self.house.state().clone(),
            house: Some(self.house.clone()),
            mounter: None,
            command: command.to_owned(),
            is_gone: Box::new(|| false),
        }
    }

    fn has(&self, name: &str) -> bool {
        self.pool.datasets().expect("readable").entry(name).is_ok()
    }

    fn destroy(&self, request: &DestroyRequest) -> Result<(), Refusal> {
        let invocation = self.invocation(&request.command_line());
        plan(&invocation, request, &mut Unseen)?.run(&invocation)
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.house.close_all();
    }
}

/// A verb was refused, for this reason; nothing is compared beyond the beginning of the text.
fn refused<T: std::fmt::Debug>(result: Result<T, Refusal>, kind: Kind, text: &str) {
    let refusal = result.expect_err("it is refused");
    assert_eq!(refusal.kind, kind, "{}", refusal.message);
    assert!(refusal.message.starts_with(text), "{}\nexpected: {text}", refusal.message);
}

fn named(name: &str) -> DestroyRequest {
    DestroyRequest { name: name.to_owned(), ..DestroyRequest::default() }
}

#[test]
fn destroy_refuses_with_a_kind() {
    let rig = Rig::with(&["tank/a", "tank/a/b"], &["tank/a@1", "tank/a@2"]);
    let live = &rig.writable().live;
    write::clone(live, "tank/a@1", "tank/clone", &[]).expect("cloned");
    write::hold(live, &["tank/a@2".to_owned()], "keep").expect("held");
    let recursive = DestroyRequest { recursive: true, ..named("tank/a") };
    for (request, kind, text) in [
        (named("tank/none"), Kind::NotFound, "cannot open 'tank/none': dataset does not exist"),
        (named("none/a"), Kind::NotFound, "cannot open 'none/a': dataset does not exist"),
        (named("tank/a@none"), Kind::NotFound, "could not find any snapshots to destroy"),
        (named("tank/a#none"), Kind::NotFound, "bookmark 'tank/a#none' does not exist."),
        (named("tank"), Kind::Invalid, "cannot destroy 'tank': operation does not apply to pools"),
        (named("tank/a"), Kind::Conflict, "cannot destroy 'tank/a': filesystem has children\nuse '-r'"),
        (recursive, Kind::Conflict, "cannot destroy 'tank/a': filesystem has dependent clones\nuse '-R'"),
        (named("tank/a@1"), Kind::Conflict, "cannot destroy 'tank/a@1': snapshot has dependent clones"),
        (named("tank/a@2"), Kind::Conflict, "cannot destroy snapshot tank/a@2: it's being held."),
        (DestroyRequest { deferred: true, ..named("tank/a") }, Kind::Invalid, "cannot open 'tank/a': operation not"),
        (DestroyRequest { clones: true, ..named("tank/a#m") }, Kind::Invalid, "recursive is not supported with"),
    ] {
        refused(rig.destroy(&request), kind, text);
    }
    for name in ["tank/a/b", "tank/a@1", "tank/a@2", "tank/clone"] {
        assert!(rig.has(name), "{name}: refused verbs change nothing");
    }
}

#[test]
fn a_plan_names_what_its_run_destroys() {
    struct Names(Vec<String>);
    impl Preview for Names {
        fn name(&mut self, name: &str) {
            self.0.push(name.to_owned());
        }
        fn wants_space(&self) -> bool {
            true
        }
    }
    let rig = Rig::with(&["tank/a", "tank/a/b"], &["tank/a@1", "tank/a@2", "tank/a@3"]);
    let invocation = rig.invocation("zfs destroy tank/a@1%2");
    let mut names = Names(Vec::new());
    let some = plan(&invocation, &named("tank/a@1%2"), &mut names).expect("possible");
    assert_eq!(names.0, ["tank/a@1", "tank/a@2"]);
    assert!(some.reclaimed_bytes.is_some() && rig.has("tank/a@1"));
    some.run(&invocation).expect("destroyed");
    assert!(!rig.has("tank/a@1") && !rig.has("tank/a@2") && rig.has("tank/a@3"));
    let request = DestroyRequest { recursive: true, ..named("tank/a") };
    let mut names = Names(Vec::new());
    let all = plan(&invocation, &request, &mut names).expect("possible");
    assert_eq!(names.0, ["tank/a/b", "tank/a@3", "tank/a"]);
    all.run(&invocation).expect("destroyed");
    assert!(!rig.has("tank/a"));
    assert_eq!(request.command_line(), "zfs destroy -r tank/a");
}

#[test]
fn rollback_refuses_with_a_kind() {
    let rig = Rig::with(&["tank/a"], &["tank/a@1", "tank/a@2"]);
    let roll = |snapshot: &str, recursive| {
        let request = RollbackRequest { snapshot: snapshot.to_owned(), recursive, ..RollbackRequest::default() };
        rollback::run(&rig.invocation(&request.command_line()), &request)
    };
    write::clone(&rig.writable().live, "tank/a@2", "tank/clone", &[]).expect("cloned");
    refused(roll("tank/a@none", false), Kind::NotFound, "cannot open 'tank/a@none': dataset does not exist");
    refused(roll("tank/a", false), Kind::Invalid, "cannot open 'tank/a': operation not applicable");
    refused(roll("tank/a@1", false), Kind::Conflict, "cannot rollback to 'tank/a@1': more recent snapshots");
    refused(roll("tank/a@1", true), Kind::Conflict, "cannot rollback to 'tank/a@1': clones of previous snapshots");
    assert_eq!(roll("tank/a@2", false).map(|report| report.failed), Ok(false));
    rig.destroy(&named("tank/clone")).expect("destroyed");
    roll("tank/a@1", true).expect("rolled back");
    assert!(rig.has("tank/a@1") && !rig.has("tank/a@2"));
}
