//! What prevents a verb has a kind that programs can act on, and its text is OpenZFS's.

use admin::create::{CreateRequest as NewPool, create};
use admin::house::Scope;
use admin::layout::Layout;
use admin::state::{Imported, State};
use admin::verbs::zfs::bookmark::{self, BookmarkRequest};
use admin::verbs::zfs::create::{self, CloneRequest, CreateRequest, NewVolume};
use admin::verbs::zfs::destroy::{DestroyRequest, Preview, Unseen, plan};
use admin::verbs::zfs::hold::{self, HoldRequest};
use admin::verbs::zfs::inherit::{self, InheritRequest};
use admin::verbs::zfs::keys::{self, KeysRequest, LoadKeyRequest};
use admin::verbs::zfs::program::{self, ProgramRequest};
use admin::verbs::zfs::promote;
use admin::verbs::zfs::redact::{self, RedactRequest};
use admin::verbs::zfs::rename::{self, RenameRequest};
use admin::verbs::zfs::rollback::{self, RollbackRequest};
use admin::verbs::zfs::set::{self, SetRequest};
use admin::verbs::zfs::snapshot::{self, SnapshotRequest};
use admin::verbs::zfs::upgrade::{self, UpgradeRequest};
use admin::verbs::{Invocation, Kind, Refusal};
use admin::write::{WritablePool, maker};
use admin::{House, OwnedPool};
use dataset::write::{self, NewDataset};
use lua::Datum;
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
        let features = admin::compatibility::features("off").expect("no file is needed");
        let new = NewPool { name: "tank".to_owned(), layout, features, ..NewPool::default() };
        let pool = create(&new).expect("a pool");
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
            caller: admin::verbs::Caller::owner(),
            state: self.house.state().clone(),
            house: Some(self.house.clone()),
            mounter: None,
            command: command.to_owned(),
            unmount_elsewhere: Box::new(|_, _| Ok(())),
            check_share: |_, value| value != "nonsense",
            fetch: Box::new(|url| anyhow::bail!("{url}: there is no web server")),
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

fn strings(all: &[&str]) -> Vec<String> {
    all.iter().map(|s| (*s).to_owned()).collect()
}

fn pairs(all: &[(&str, &str)]) -> Vec<(String, String)> {
    all.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect()
}

#[test]
fn snapshot_refuses_with_a_kind() {
    let rig = Rig::with(&["tank/a", "tank/b"], &["tank/a@1"]);
    let take = |names: &[&str], properties: &[(&str, &str)]| {
        let request = SnapshotRequest { names: strings(names), recursive: false, properties: pairs(properties) };
        snapshot::run(&rig.invocation(&request.command_line()), &request)
    };
    let usage = take(&["tank/none@1"], &[]).expect_err("refused");
    assert_eq!((usage.kind, usage.code), (Kind::NotFound, 2), "OpenZFS prints the usage then");
    refused(take(&["tank/a"], &[]), Kind::Invalid, "");
    refused(take(&["tank/a@1"], &[]), Kind::Conflict, "cannot create snapshot 'tank/a@1': dataset already exists");
    refused(take(&["tank/a@x", "tank/a@y"], &[]), Kind::Invalid, "cannot create snapshots : multiple snapshots");
    refused(take(&["tank/a@2"], &[("compression", "lz4")]), Kind::Invalid, "cannot create snapshot");
    let both = take(&["tank/b@1", "tank/a@1"], &[]).expect_err("refused");
    assert!(both.message.ends_with("\nno snapshots were created"), "{}", both.message);
    assert!(!rig.has("tank/b@1"));
    take(&["tank/a@2", "tank/b@2"], &[("org.test:why", "a test")]).expect("taken");
    assert!(rig.has("tank/a@2") && rig.has("tank/b@2"));
}

#[test]
fn hold_and_release_refuse_with_a_kind() {
    let rig = Rig::with(&["tank/a"], &["tank/a@1", "tank/a@2"]);
    let request =
        |tag: &str, names: &[&str]| HoldRequest { tag: tag.to_owned(), snapshots: strings(names), recursive: false };
    let keep = |tag: &str, names: &[&str]| hold::hold(&rig.invocation("zfs hold"), &request(tag, names));
    let release = |tag: &str, names: &[&str]| hold::release(&rig.invocation("zfs release"), &request(tag, names));
    keep("keep", &["tank/a@1"]).expect("held");
    refused(keep(".x", &["tank/a@1"]), Kind::Invalid, "tag may not start with '.'");
    refused(keep("keep", &["tank/a"]), Kind::Invalid, "'tank/a' is not a snapshot");
    refused(keep("keep", &["tank/none@1"]), Kind::NotFound, "cannot open 'tank/none': dataset does not exist");
    refused(keep("keep", &["tank/a@3"]), Kind::NotFound, "cannot hold snapshot 'tank/a@3': dataset does not exist");
    refused(keep("keep", &["tank/a@1"]), Kind::Conflict, "cannot hold snapshot 'tank/a@1': tag already exists");
    refused(keep(&"x".repeat(300), &["tank/a@1"]), Kind::Invalid, "cannot hold snapshot 'tank/a@1': tag too long");
    refused(
        release("other", &["tank/a@1"]),
        Kind::NotFound,
        "cannot release hold from snapshot 'tank/a@1': no such tag on this dataset",
    );
    // One of two is refused; the other is held.
    refused(keep("both", &["tank/a@3", "tank/a@2"]), Kind::NotFound, "cannot hold snapshot 'tank/a@3'");
    release("both", &["tank/a@2"]).expect("it was held");
    assert_eq!(request("keep", &["tank/a@1"]).command_line("hold"), "zfs hold keep tank/a@1");
}

#[test]
fn bookmark_refuses_with_a_kind() {
    let rig = Rig::with(&["tank/a"], &["tank/a@1"]);
    let mark = |source: &str, name: &str| {
        let request = BookmarkRequest { source: source.to_owned(), name: name.to_owned(), recursive: false };
        bookmark::run(&rig.invocation(&request.command_line()), &request)
    };
    mark("tank/a@1", "#m").expect("created");
    assert!(rig.has("tank/a#m"));
    refused(mark("tank/a", "tank/a#x"), Kind::Invalid, "invalid source name 'tank/a'");
    refused(mark("tank/a@1", "tank/a"), Kind::Invalid, "invalid bookmark name 'tank/a'");
    refused(mark("tank/a@2", "#x"), Kind::NotFound, "cannot open 'tank/a@2': dataset does not exist");
    refused(mark("tank/a@1", "other/a#x"), Kind::Invalid, "cannot create bookmark 'other/a#x': bookmark is in a");
    refused(mark("tank/a@1", "#m"), Kind::Conflict, "cannot create bookmark 'tank/a#m': bookmark exists");
}

/// Exit codes are OpenZFS's, which are error numbers.
#[test]
fn redact_refuses_with_a_kind_and_an_error_number() {
    let rig = Rig::with(&["tank/a"], &["tank/a@1", "tank/a@2"]);
    write::clone(&rig.writable().live, "tank/a@1", "tank/c", &[]).expect("cloned");
    write::snapshot(&rig.writable().live, &["tank/c@s".to_owned()], &[]).expect("taken");
    let redact = |snapshot: &str, bookmark: &str, by: &[&str]| {
        let redaction_snapshots = by.iter().map(|name| (*name).to_owned()).collect();
        let request =
            RedactRequest { snapshot: snapshot.to_owned(), bookmark: bookmark.to_owned(), redaction_snapshots };
        redact::run(&rig.invocation(&request.command_line()), &request)
    };
    redact("tank/a@1", "m", &["tank/c@s"]).expect("redacted");
    assert!(rig.has("tank/a#m"));
    redact("tank/a@1", "later", &["tank/a@2", "tank/c"]).expect("later snapshots and heads redact too");
    write::bookmark(&rig.writable().live, &[("tank/a@1".to_owned(), "tank/a#plain".to_owned())]).expect("created");
    let long = "x".repeat(250);
    let missing = "cannot open 'tank/c@no': dataset does not exist\nprovided snapshot tank/c@no does not exist";
    for (found, code, kind, says) in [
        (redact("tank/a@1", "m", &["tank/c@s"]), 17, Kind::Conflict, "specified redaction bookmark (m) provided"),
        (redact("tank/a@1", "plain", &["tank/c@s"]), 17, Kind::Conflict, "specified redaction bookmark (plain)"),
        (redact("tank/a@1", "m", &["tank/a@2"]), 3, Kind::Conflict, "attempted to resume redaction  with a"),
        (redact("tank/a@1", "n", &["tank/c@no"]), 2, Kind::NotFound, missing),
        (redact("none/a@1", "n", &["tank/c@s"]), 2, Kind::NotFound, "cannot open 'none/a@1': dataset does not exist"),
        (redact("tank/a@2", "n", &["tank/c@s"]), 22, Kind::Invalid, "redaction snapshot must be descendent of"),
        (redact("tank/a@1", "n", &["tank/a@1"]), 22, Kind::Invalid, "redaction snapshot must be descendent of"),
        (redact("tank/a", "n", &["tank/c@s"]), 22, Kind::Invalid, "redaction snapshot must be descendent of"),
        (redact("tank/a@1", "#n", &["tank/c@s"]), 22, Kind::Invalid, "redaction bookmark name must not contain '#'"),
        (redact("tank/a#m", "n", &["tank/c@s"]), 22, Kind::Invalid, "redaction snapshot must be descendent of"),
        (redact("tank/a@1", "n", &["@s"]), 18, Kind::Invalid, "potentially invalid redaction snapshot; full"),
        (redact("tank/a@1", &long, &["tank/c@s"]), 36, Kind::Invalid, "provided bookmark name cannot be used"),
    ] {
        assert_eq!(found.as_ref().map_err(|refusal| refusal.code), Err(code), "{says}");
        refused(found, kind, says);
    }
}

#[test]
fn create_and_clone_refuse_with_a_kind() {
    let rig = Rig::with(&["tank/a"], &["tank/a@1"]);
    let new = |name: &str, properties: &[(&str, &str)], volume: Option<&str>| {
        let volume = volume.map(|size| NewVolume { size: size.to_owned(), ..NewVolume::default() });
        let name = name.to_owned();
        let request = CreateRequest { name, volume, properties: pairs(properties), ..CreateRequest::default() };
        let invocation = rig.invocation(&request.command_line());
        create::plan(&invocation, &request)?.run(&invocation, &|_| anyhow::bail!("there is no terminal"))
    };
    refused(new("none/a", &[], None), Kind::NotFound, "cannot create 'none/a': no such pool 'none'");
    refused(new("tank", &[], None), Kind::Conflict, "cannot create 'tank': dataset already exists");
    refused(new("tank/a", &[], None), Kind::Conflict, "cannot create 'tank/a': dataset already exists");
    refused(new("tank/x/y", &[], None), Kind::NotFound, "cannot create 'tank/x/y': parent does not exist");
    refused(new("tank/a@1", &[], None), Kind::Invalid, "cannot create 'tank/a@1': snapshot delimiter '@'");
    refused(new("tank/x", &[("compression", "no")], None), Kind::Invalid, "cannot create 'tank/x': 'compression' must");
    refused(new("tank/x", &[], Some("much")), Kind::Invalid, "bad volume size 'much': bad numeric value 'much'");
    let secret = [("encryption", "on"), ("keyformat", "passphrase")];
    refused(new("tank/x", &secret, None), Kind::Invalid, "cannot create 'tank/x': there is no terminal");
    new("tank/v", &[], Some("1000000")).expect("created");

    let copy = |origin: &str, name: &str, parents| {
        let (origin, name) = (origin.to_owned(), name.to_owned());
        let request = CloneRequest { origin, name, parents, ..CloneRequest::default() };
        create::clone(&rig.invocation(&request.command_line()), &request)
    };
    refused(copy("tank/a@2", "tank/c", false), Kind::NotFound, "cannot open 'tank/a@2': dataset does not exist");
    refused(copy("tank/a", "tank/c", false), Kind::Invalid, "cannot open 'tank/a': operation not applicable");
    refused(copy("tank/a@1", "none/c", false), Kind::Invalid, "cannot create 'none/c': source and target pools");
    refused(copy("tank/a@1", "tank/a", false), Kind::Conflict, "cannot create 'tank/a': dataset already exists");
    refused(copy("tank/a@1", "tank/x/c", false), Kind::NotFound, "cannot create 'tank/x/c': parent does not exist");
    copy("tank/a@1", "tank/x/c", true).expect("cloned");
    copy("tank/a@1", "tank/x/c", true).expect("it exists, which is no error with -p");
}

#[test]
fn promote_and_rename_refuse_with_a_kind() {
    let rig = Rig::with(&["tank/a", "tank/b", "tank/b/c"], &["tank/a@1"]);
    let live = &rig.writable().live;
    write::clone(live, "tank/a@1", "tank/clone", &[]).expect("cloned");
    write::snapshot(live, &strings(&["tank/a@0"]), &[]).expect("taken");
    let promoted = |name: &str| promote::run(&rig.invocation(&promote::command_line(name)), name);
    refused(promoted("tank/none"), Kind::NotFound, "cannot open 'tank/none': dataset does not exist");
    refused(promoted("tank/a"), Kind::Invalid, "cannot promote 'tank/a': ");
    write::snapshot(live, &strings(&["tank/clone@1"]), &[]).expect("taken");
    refused(
        promoted("tank/clone"),
        Kind::Conflict,
        "cannot promote 'tank/clone': conflicting snapshot '1' from parent",
    );

    let renamed = |from: &str, to: &str, change: &dyn Fn(&mut RenameRequest)| {
        let mut request = RenameRequest { from: from.to_owned(), to: to.to_owned(), ..RenameRequest::default() };
        change(&mut request);
        rename::run(&rig.invocation(&request.command_line()), &request)
    };
    let plain = |_: &mut RenameRequest| {};
    refused(renamed("tank/none", "tank/x", &plain), Kind::NotFound, "cannot open 'tank/none': dataset does not exist");
    refused(renamed("tank/b", "other/b", &plain), Kind::Invalid, "cannot rename to 'other/b': datasets must be within");
    refused(renamed("tank/b", "tank/a", &plain), Kind::Conflict, "cannot rename 'tank/b': dataset already exists");
    refused(renamed("tank/b", "tank/x/b", &plain), Kind::NotFound, "cannot create 'tank/x/b': parent does not exist");
    refused(renamed("tank/a@1", "tank/b@1", &plain), Kind::Invalid, "cannot rename to 'tank/b@1': snapshots must be");
    refused(renamed("tank/a@1", "@0", &plain), Kind::Conflict, "cannot rename 'tank/a@1': dataset already exists");
    refused(renamed("tank/b", "tank/x", &|r| r.recursive = true), Kind::Invalid, "source dataset for recursive rename");
    renamed("tank/b", "tank/x/b", &|r| r.parents = true).expect("renamed");
    assert!(rig.has("tank/x/b/c") && !rig.has("tank/b"));
    assert!(renamed("tank/a@0", "first", &plain).is_ok() && rig.has("tank/a@first"));
}

fn upgrade_request(names: &[&str], version: u64) -> UpgradeRequest {
    UpgradeRequest { file_systems: names.iter().map(|n| (*n).to_owned()).collect(), recursive: false, version }
}

#[test]
fn versions_of_file_systems_rise_and_never_fall() {
    let rig = Rig::new();
    for (name, version) in [("tank/a", "1"), ("tank/b", "3")] {
        let properties = vec![("version".to_owned(), version.to_owned())];
        let new = NewDataset { name: name.to_owned(), properties, ..NewDataset::default() };
        write::create(&rig.writable().live, &new, maker()).expect("created");
    }
    let outdated = || {
        let all = upgrade::outdated(&rig.invocation("")).expect("listed");
        all.into_iter().map(|one| (one.name, one.version)).collect::<Vec<_>>()
    };
    assert_eq!(outdated(), [("tank/a".to_owned(), 1), ("tank/b".to_owned(), 3)]);
    let done = upgrade::run(&rig.invocation("zfs upgrade"), &upgrade_request(&["tank/a", "tank/b"], 2)).expect("run");
    assert_eq!((done.upgraded, done.unchanged, done.failed), (1, 0, true));
    assert_eq!(done.notes, ["tank/b: can not be downgraded; it is already at version 3"]);
    let done = upgrade::run(&rig.invocation("zfs upgrade"), &upgrade_request(&["tank/a", "tank/no"], 2)).expect("run");
    assert_eq!((done.upgraded, done.unchanged, done.failed), (0, 1, true));
    assert_eq!(done.errors, ["cannot open 'tank/no': dataset does not exist"]);
    let set = |property: &str, value: &str| {
        let properties = vec![(property.to_owned(), value.to_owned())];
        let request = SetRequest { properties, datasets: vec!["tank/a".to_owned()], keep_mounts: false };
        set::run(&rig.invocation("zfs set"), &request).map(drop).map_err(|refusal| (refusal.kind, refusal.message))
    };
    let cannot = |kind, why: &str| Err((kind, format!("cannot set property for 'tank/a': {why}")));
    assert_eq!(set("version", "1"), cannot(Kind::Invalid, "Can not downgrade; already at version 2"));
    let old = "pool and or dataset must be upgraded to set this property or value";
    assert_eq!(set("userquota@7", "1M"), cannot(Kind::Unsupported, old));
    assert_eq!(set("version", "current"), Ok(()));
    assert_eq!(set("userquota@7", "1M"), Ok(()));
    assert_eq!(outdated(), [("tank/b".to_owned(), 3)]);
    let properties = [("version", "2"), ("casesensitivity", "mixed")].map(|(n, v)| (n.to_owned(), v.to_owned()));
    let new = CreateRequest { name: "tank/c".to_owned(), properties: properties.to_vec(), ..CreateRequest::default() };
    let refusal = create::plan(&rig.invocation(""), &new).map(drop).expect_err("names compare since version 3");
    assert_eq!(refusal.kind, Kind::Unsupported);
}

#[test]
fn set_and_inherit_refuse_with_a_kind() {
    let rig = Rig::with(&["tank/a"], &["tank/a@1"]);
    let set = |names: &[&str], properties: &[(&str, &str)]| {
        let request = SetRequest { properties: pairs(properties), datasets: strings(names), keep_mounts: false };
        set::run(&rig.invocation(&request.command_line()), &request)
    };
    let bad = set(&["tank/a"], &[("compression", "no")]).expect_err("refused");
    assert_eq!((bad.kind, bad.code), (Kind::Invalid, 255), "{}", bad.message);
    assert!(bad.message.starts_with("cannot set property for 'tank/a': 'compression' must be one of"));
    refused(set(&["tank/none"], &[("atime", "off")]), Kind::NotFound, "cannot open 'tank/none': dataset does not");
    refused(set(&["tank/a"], &[("used", "1")]), Kind::Invalid, "cannot set property for 'tank/a': ");
    refused(
        set(&["tank/a"], &[("sharenfs", "nonsense")]),
        Kind::Invalid,
        "cannot set property for 'tank/a': 'sharenfs' cannot be set to invalid options",
    );
    refused(
        set(&["tank/a"], &[("reservation", "1T")]),
        Kind::Failed,
        "cannot set property for 'tank/a': size is greater than available space",
    );
    refused(set(&["tank/a"], &[("userquota@no-such-user", "1M")]), Kind::Invalid, "cannot set property for");
    set(&["tank", "tank/a"], &[("atime", "off"), ("org.test:x", "-rf")]).expect("set");

    let inherit = |name: &str, property: &str| {
        let (property, datasets) = (property.to_owned(), strings(&[name]));
        let request = InheritRequest { property, datasets, ..InheritRequest::default() };
        inherit::run(&rig.invocation(&request.command_line()), &request)
    };
    refused(inherit("tank/none", "atime"), Kind::NotFound, "cannot open 'tank/none': dataset does not exist");
    refused(inherit("tank/a", "used"), Kind::Invalid, "used property is read-only");
    refused(
        inherit("tank/a", "quota"),
        Kind::Invalid,
        "'quota' property cannot be inherited\nuse 'zfs set quota=none'",
    );
    refused(inherit("tank/a", "nonsense"), Kind::Invalid, "invalid property 'nonsense'");
    refused(inherit("tank/a@1", "atime"), Kind::Invalid, "cannot inherit atime for 'tank/a@1': property doesn't apply");
    refused(inherit("tank/a#m", "atime"), Kind::Invalid, "cannot open 'tank/a#m': bookmark delimiter '#'");
    inherit("tank/a", "atime").expect("inherited");
}

#[test]
fn keys_refuse_with_a_kind() {
    let rig = Rig::with(&["tank/a"], &[]);
    let secret = pairs(&[("encryption", "on"), ("keyformat", "passphrase")]);
    let request = CreateRequest { name: "tank/s".to_owned(), properties: secret, ..CreateRequest::default() };
    let invocation = rig.invocation(&request.command_line());
    let key = |_: &str| Ok(admin::new_key::Material::new(b"open sesame".to_vec()));
    create::plan(&invocation, &request).expect("possible").run(&invocation, &key).expect("created");
    let below = NewDataset { name: "tank/s/below".to_owned(), ..NewDataset::default() };
    write::create(&rig.writable().live, &below, maker()).expect("created");

    let of = |name: &str| KeysRequest { datasets: strings(&[name]), recursive: false };
    let load = |name: &str, answer: &str| {
        let request = LoadKeyRequest { keys: of(name), ..LoadKeyRequest::default() };
        let invocation = rig.invocation(&request.command_line());
        keys::load(&invocation, &request, &|_| Ok(answer.as_bytes().to_vec())).and_then(keys::KeysOutcome::into_result)
    };
    let unload = |name: &str| {
        let request = of(name);
        keys::unload(&rig.invocation(&request.command_line()), &request).and_then(keys::KeysOutcome::into_result)
    };
    refused(load("tank/none", ""), Kind::NotFound, "cannot open 'tank/none': dataset does not exist");
    refused(load("tank/a", ""), Kind::Invalid, "Key load error: 'tank/a' is not encrypted.");
    refused(load("tank/s/below", ""), Kind::Invalid, "Key load error: Keys must be loaded for encryption root of");
    refused(load("tank/s", ""), Kind::Conflict, "Key load error: Key already loaded for 'tank/s'.");
    refused(unload("tank/s/below"), Kind::Invalid, "Key unload error: Keys must be unloaded for encryption root of");
    unload("tank/s").expect("unloaded");
    refused(unload("tank/s"), Kind::Conflict, "Key unload error: Key already unloaded for 'tank/s'.");
    let wrong = load("tank/s", "open barley").expect_err("refused");
    assert_eq!((wrong.kind, wrong.code), (Kind::Failed, 255), "{}", wrong.message);
    assert_eq!(wrong.message, "Key load error: Incorrect key provided for 'tank/s'.");
    load("tank/s", "open sesame").expect("loaded");
}

/// What a program of `zfs program` returns, given `tank`.
fn program(rig: &Rig, source: &str, read_only: bool) -> Result<Option<Datum>, String> {
    let request = ProgramRequest {
        pool: "tank".to_owned(),
        source: source.as_bytes().to_vec(),
        script: "script".to_owned(),
        arguments: strings(&["one", "two"]),
        read_only,
        instruction_limit: program::INSTRUCTIONS,
        memory_limit: program::MEMORY_BYTES,
    };
    let ended = program::run(&rig.invocation(&request.command_line()), &request).expect("the pool is there");
    ended.map_err(|failure| failure.message)
}

/// What it returns is this number.
fn returns(rig: &Rig, source: &str, expected: i64) {
    assert_eq!(program(rig, source, false), Ok(Some(Datum::Number(expected))), "{source}");
}

#[test]
fn a_program_sees_its_changes_which_are_all_in_one_txg() {
    let rig = Rig::with(&["tank/a", "tank/a/b"], &["tank/a@old"]);
    let source = r##"
        assert((...)["argv"][2] == "two")
        local fs = "tank/a"
        assert(zfs.sync.snapshot(fs .. "@1") == 0 and zfs.exists(fs .. "@1"))
        assert(zfs.sync.snapshot(fs .. "/b@1") == 0)
        assert(zfs.get_prop(fs .. "@1", "createtxg") == zfs.get_prop(fs .. "/b@1", "createtxg"))
        assert(zfs.sync.bookmark(fs .. "@1", fs .. "#mark") == 0)
        assert(zfs.sync.rename_snapshot(fs, "1", "one") == 0)
        assert(zfs.sync.set_prop(fs, "org:note", "text") == 0)
        local value, source = zfs.get_prop(fs .. "/b", "org:note")
        assert(value == "text" and source == fs)
        assert(zfs.sync.inherit(fs, "org:note") == 0 and zfs.get_prop(fs, "org:note") == nil)
        local found = {}
        for child in zfs.list.children(fs) do found[#found + 1] = child end
        for snapshot in zfs.list.snapshots(fs) do found[#found + 1] = snapshot end
        for bookmark in zfs.list.bookmarks(fs) do found[#found + 1] = bookmark end
        assert(zfs.sync.destroy(fs .. "/b@1") == 0)
        assert(zfs.sync.destroy(fs .. "/b") == 0 and not zfs.exists(fs .. "/b"))
        return table.concat(found, " ")"##;
    let found = program(&rig, source, false);
    assert_eq!(found, Ok(Some(Datum::text("tank/a/b tank/a@old tank/a@one tank/a#mark"))));
    assert!(rig.has("tank/a@one") && rig.has("tank/a#mark") && !rig.has("tank/a@1") && !rig.has("tank/a/b"));
}

#[test]
fn a_program_that_fails_keeps_what_it_did() {
    let rig = Rig::with(&["tank/a"], &[]);
    let failed = program(&rig, "zfs.sync.snapshot('tank/a@1')\nzfs.list.children('tank/none')", false);
    let message = failed.expect_err("it fails");
    let expected = "[string \"channel program\"]:2: bad argument #1 to 'children' (no such dataset 'tank/none')";
    assert!(message.starts_with(expected), "{message}");
    assert!(rig.has("tank/a@1"));
    // And the pool can be changed as before.
    returns(&rig, "return zfs.sync.snapshot('tank/a@2')", 0);
}

#[test]
fn a_program_that_may_only_look_is_refused_changes() {
    let rig = Rig::with(&["tank/a"], &["tank/a@1"]);
    let source = "return zfs.check.snapshot('tank/a@2') + zfs.check.destroy('tank/a@1') + zfs.check.rollback('tank/a')";
    assert_eq!(program(&rig, source, true), Ok(Some(Datum::Number(0))));
    let message = program(&rig, "return zfs.sync.snapshot('tank/a@2')", true).expect_err("it is refused");
    assert!(message.contains("requires passing sync=TRUE"), "{message}");
    assert!(!rig.has("tank/a@2") && rig.has("tank/a@1"));
}

#[test]
fn functions_of_programs_return_error_numbers() {
    let rig = Rig::with(&["tank/a", "tank/a/b"], &["tank/a@1", "tank/a@2"]);
    let live = &rig.writable().live;
    write::clone(live, "tank/a@1", "tank/clone", &[]).expect("cloned");
    write::snapshot(live, &["tank/clone@1".to_owned()], &[]).expect("taken");
    write::hold(live, &["tank/a@2".to_owned()], "keep").expect("held");
    for (call, number) in [
        ("snapshot('tank/a@1')", "EEXIST"),
        ("snapshot('tank/a')", "EINVAL"),
        ("snapshot('tank/none@1')", "ENOENT"),
        ("snapshot('other/a@1')", "EXDEV"),
        ("snapshot('tank/a@' .. ('x'):rep(300))", "ENAMETOOLONG"),
        ("destroy('tank/none')", "ENOENT"),
        ("destroy('tank/a@none')", "0"),
        ("destroy('tank/a')", "EBUSY"),
        ("destroy('tank')", "EEXIST"),
        ("destroy('tank/a@1')", "EEXIST"),
        ("destroy('tank/a@2')", "EBUSY"),
        ("promote('tank/a')", "EINVAL"),
        ("promote('tank/clone')", "EEXIST"),
        ("rollback('tank/a/b')", "ESRCH"),
        ("rollback('tank/a@1')", "EINVAL"),
        ("rename_snapshot('tank/a', '1', '2')", "EEXIST"),
        ("rename_snapshot('tank/a', 'none', '3')", "0"),
        ("bookmark('tank/a@none', 'tank/a#x')", "ENOENT"),
        ("set_prop('tank/a', 'compression', 'on')", "EINVAL"),
        ("set_prop('tank/a', 'org:x', ('x'):rep(9000))", "E2BIG"),
        ("set_prop('tank/a', 'org:' .. ('x'):rep(300), 'x')", "ENAMETOOLONG"),
        ("rename_snapshot('tank/none', '1', '2')", "ENOENT"),
        ("inherit('tank/a', 'used')", "EINVAL"),
        ("inherit('tank/none', 'compression')", "ENOENT"),
    ] {
        let source = format!("local number, e = zfs.check.{call}, {number}; return number == e and 'same' or number");
        assert_eq!(program(&rig, &source, false), Ok(Some(Datum::text("same"))), "{call}");
        let source = source.replace("check", "sync");
        if number != "0" {
            assert_eq!(program(&rig, &source, false), Ok(Some(Datum::text("same"))), "sync: {call}");
        }
    }
    // Two snapshots of the same state are one too many.
    let twice = "return zfs.sync.snapshot('tank/a@3') * 1000 + zfs.sync.snapshot('tank/a@4') - EAGAIN";
    returns(&rig, twice, 0);
    let names = "local _, names = zfs.sync.promote('tank/clone'); return table.concat(names, ',')";
    assert_eq!(program(&rig, names, false), Ok(Some(Datum::text("1"))));
    returns(&rig, "return zfs.sync.destroy{'tank/a@2', defer=true}", 0);
    assert!(rig.has("tank/a@2"));
}

#[test]
fn programs_promote_and_roll_back() {
    let rig = Rig::with(&["tank/a"], &["tank/a@1"]);
    write::clone(&rig.writable().live, "tank/a@1", "tank/clone", &[]).expect("cloned");
    let source = "assert(zfs.sync.promote('tank/clone') == 0 and zfs.exists('tank/clone@1'))
        for clone in zfs.list.clones('tank/clone@1') do assert(clone == 'tank/a') end
        local number, details = zfs.sync.rollback('tank/clone')
        assert(details.target == 'tank/clone@1')
        return number";
    returns(&rig, source, 0);
    assert!(rig.has("tank/clone@1") && rig.has("tank/a"));
    // A second one in the next txg: the dataset is as usable as before.
    returns(&rig, "return zfs.sync.rollback('tank/clone') + zfs.sync.snapshot('tank/clone@2')", 0);
}

#[test]
fn programs_do_not_destroy_what_is_served() {
    let rig = Rig::with(&[], &[]);
    let volume = Some(NewVolume { size: "1M".to_owned(), ..NewVolume::default() });
    let request = CreateRequest { name: "tank/v".to_owned(), volume, ..CreateRequest::default() };
    let invocation = rig.invocation(&request.command_line());
    let no_key = |_: &str| Err(anyhow::anyhow!("there is no key"));
    create::plan(&invocation, &request).expect("possible").run(&invocation, &no_key).expect("created");
    write::snapshot(&rig.writable().live, &strings(&["tank/v@1"]), &[]).expect("taken");
    let numbers = "return (zfs.check.destroy('tank/v@1') - EBUSY) + (zfs.sync.destroy('tank/v@1') - EBUSY)";
    {
        let _served = rig.writable().volume("tank/v@1").expect("served");
        returns(&rig, numbers, 0);
        returns(&rig, "return zfs.sync.destroy{'tank/v@1', defer=true} - EBUSY", 0);
    }
    returns(&rig, "return zfs.sync.destroy('tank/v@1')", 0);
    {
        let _served = rig.writable().volume("tank/v").expect("served");
        returns(&rig, &numbers.replace("@1", ""), 0);
    }
    returns(&rig, "return zfs.sync.destroy('tank/v')", 0);
}

#[test]
fn keys_stay_stored_when_a_program_promotes_and_destroys() {
    let rig = Rig::with(&[], &[]);
    let secret = pairs(&[("encryption", "on"), ("keyformat", "passphrase")]);
    let request = CreateRequest { name: "tank/s".to_owned(), properties: secret, ..CreateRequest::default() };
    let invocation = rig.invocation(&request.command_line());
    let key = |_: &str| Ok(admin::new_key::Material::new(b"open sesame".to_vec()));
    create::plan(&invocation, &request).expect("possible").run(&invocation, &key).expect("created");
    let live = &rig.writable().live;
    write::snapshot(live, &strings(&["tank/s@1"]), &[]).expect("taken");
    write::clone(live, "tank/s@1", "tank/clone", &[]).expect("cloned");
    returns(&rig, "return zfs.sync.promote('tank/clone') + zfs.sync.destroy('tank/s')", 0);
    let folder = rig.house.state().folder().join("keys");
    let files = std::fs::read_dir(&folder).expect("the folder of keys").map(|file| file.expect("a file").path());
    let stored: String = files.map(|file| std::fs::read_to_string(file).expect("readable")).collect();
    assert!(stored.contains("\"tank/clone\"") && !stored.contains("\"tank/s\""), "{stored}");
}

#[test]
fn properties_have_the_types_that_programs_expect() {
    let rig = Rig::with(&["tank/a"], &["tank/a@1"]);
    let guid = rig.pool.datasets().and_then(|tree| Ok(tree.dataset("tank/a")?.phys().guid)).expect("it is there");
    returns(&rig, "return (zfs.get_prop('tank/a', 'guid'))", guid as i64);
    let source = "
        local function is(name, property, value, source)
            local v, s = zfs.get_prop(name, property)
            assert(v == value and s == source, property .. ': ' .. tostring(v) .. ' ' .. tostring(s))
        end
        is('tank/a', 'type', 'filesystem', nil)
        is('tank/a@1', 'type', 'snapshot', nil)
        is('tank/a', 'atime', 'on', 'default')
        is('tank/a', 'quota', 0, 'default')
        is('tank/a', 'compressratio', 100, nil)
        is('tank/a', 'mountpoint', '/tank/a', 'default')
        is('tank/a', 'mounted', nil, nil)
        is('tank/a', 'volsize', nil, nil)
        is('tank/a@1', 'volsize', 0, 'default')
        is('tank/a', 'keystatus', 'none', nil)
        is('tank/a', 'filesystem_count', nil, nil)
        is('tank/a', 'snapshot_limit', -1, 'default')
        is('tank/a', 'origin', nil, nil)
        is('tank/a', 'prevsnap', 'tank/a@1', nil)
        is('tank/a', 'written@1', 0, 'tank/a')
        is('tank/a', 'userquota@1000', nil, nil)
        is('tank/a', 'org:none', nil, nil)
        local names = {}
        for _, name in ipairs(zfs.list.system_properties('tank/a')) do names[name] = true end
        assert(names.compression and not names.volsize and not names.mounted)
        return 1";
    returns(&rig, source, 1);
    for (call, message) in [
        ("get_prop('tank/a', 'none')", "'none' is not a valid property"),
        ("get_prop('tank/none', 'type')", "bad argument #1 to 'get_prop' (no such dataset 'tank/none')"),
        ("get_prop('other', 'type')", "(dataset 'other' is not in the target pool 'tank')"),
        ("exists('other')", "dataset 'other' is not in the target pool"),
        ("list.clones('tank/a')", "(tank/a is not a snapshot)"),
        ("sync.destroy{'tank/a', defer=true}", "'deferred' kwarg only supported for snapshots: tank/a"),
        ("sync.destroy()", "too few arguments: destroy{<filesystem | snapshot(string)>, defer=(boolean)}"),
    ] {
        let found = program(&rig, &format!("zfs.{call}"), false).expect_err("it fails");
        assert!(found.contains(message), "{call}: {found}");
    }
}

#[test]
fn a_program_ends_by_its_limits_and_with_its_caller() {
    let rig = Rig::with(&["tank/a"], &[]);
    let timed_out = program(&rig, "while true do end", false).expect_err("it is ended");
    assert!(timed_out.starts_with("Channel program timed out."), "{timed_out}");
    assert_eq!(program(&rig, "return ('x'):rep(100000000)", false), Err("Memory limit exhausted.".to_owned()));
    let request = ProgramRequest {
        pool: "tank".to_owned(),
        source: b"zfs.sync.snapshot('tank/a@1'); while true do zfs.check.snapshot('tank/a@2') end".to_vec(),
        instruction_limit: 100_000_000,
        memory_limit: program::MEMORY_BYTES,
        ..ProgramRequest::default()
    };
    let invocation = Invocation { is_gone: Box::new(|| true), ..rig.invocation("zfs program tank") };
    let ended = program::run(&invocation, &request).expect("the pool is there").expect_err("it is ended");
    assert!(ended.message.starts_with("Channel program was canceled."), "{}", ended.message);
    assert!(rig.has("tank/a@1"));
    for (instructions, memory, message) in [
        (0, 1000, "Invalid instruction or memory limit."),
        (200_000_000, 1000, "Invalid instruction or memory limit."),
        (1000, 0, "Invalid instruction or memory limit."),
        (1000, 200_000_000, "Invalid instruction or memory limit."),
        (1000, 1 << 63, "Return value too large."),
    ] {
        let request = ProgramRequest { instruction_limit: instructions, memory_limit: memory, ..request.clone() };
        let ended = program::run(&rig.invocation("zfs program"), &request).expect("the pool is there");
        assert_eq!(ended.expect_err("it is refused").message, message);
    }
}
