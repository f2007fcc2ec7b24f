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
use admin::verbs::zfs::promote;
use admin::verbs::zfs::rename::{self, RenameRequest};
use admin::verbs::zfs::rollback::{self, RollbackRequest};
use admin::verbs::zfs::set::{self, SetRequest};
use admin::verbs::zfs::snapshot::{self, SnapshotRequest};
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
