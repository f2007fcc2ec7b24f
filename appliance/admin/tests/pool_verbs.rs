//! What prevents a verb of zpool has a kind that programs can act on, and its text is OpenZFS's.
//! The pools belong to no process: each verb opens and closes them.

use admin::layout::Layout;
use admin::state::State;
use admin::verbs::zpool::add::{self, AddRequest};
use admin::verbs::zpool::attach::{self, DetachRequest, JoinRequest};
use admin::verbs::zpool::checkpoint::{self, CheckpointRequest};
use admin::verbs::zpool::clear::{self, ClearRequest};
use admin::verbs::zpool::create::{self, CreateRequest};
use admin::verbs::zpool::destroy::{self, DestroyRequest};
use admin::verbs::zpool::export::{self, ExportRequest};
use admin::verbs::zpool::import::{self, ImportRequest};
use admin::verbs::zpool::label_clear::{self, LabelClearRequest};
use admin::verbs::zpool::reguid::{self, ReguidRequest};
use admin::verbs::zpool::remove::{self, RemoveRequest};
use admin::verbs::zpool::scan::{self, ScanChange, ScanRequest};
use admin::verbs::zpool::set::{self, SetRequest};
use admin::verbs::zpool::split::{self, SplitRequest};
use admin::verbs::zpool::states::{self, OfflineRequest, OnlineRequest};
use admin::verbs::zpool::sweep::{self, SweepRequest};
use admin::verbs::zpool::sync::{self, SyncRequest};
use admin::verbs::{Invocation, Kind, PoolLease, Refusal};
use pool::status::VdevState;
use pool::writer::{Joins, Order, Work};

/// A folder with files for devices, and a state folder.
struct Rig {
    folder: tempfile::TempDir,
}

impl Rig {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a folder") }
    }

    /// The path of a file, which is created.
    fn disk(&self, name: &str) -> String {
        let path = self.folder.path().join(name);
        if !path.exists() {
            std::fs::File::create(&path).and_then(|f| f.set_len(96 << 20)).expect("an image file");
        }
        path.display().to_string()
    }

    fn layout(&self, words: &str) -> Result<Layout, admin::layout::Wrong> {
        let is_disk = |word: &&str| word.len() == 1;
        let words = words.split(' ').map(|w| if is_disk(&w) { self.disk(w) } else { w.to_owned() });
        Layout::parse(&words.collect::<Vec<_>>())
    }

    fn invocation(&self, command: String) -> Invocation<'static> {
        Invocation {
            caller: admin::verbs::Caller::owner(),
            state: State::new(self.folder.path().join("state")),
            house: None,
            mounter: None,
            command,
            unmount_elsewhere: Box::new(|_, _| Ok(())),
            check_share: |_, _| true,
            fetch: Box::new(|url| anyhow::bail!("{url}: there is no web server")),
            is_gone: Box::new(|| false),
        }
    }

    fn create(&self, request: CreateRequest) -> Result<(), Refusal> {
        let invocation = self.invocation(request.command_line());
        let ask = |_: &str| anyhow::bail!("there is no terminal");
        create::plan(&invocation, request)?.run(&invocation, &ask).map(drop)
    }

    fn make(&self, name: &str, words: &str) -> Result<(), Refusal> {
        self.create(CreateRequest::new(name.to_owned(), self.layout(words)))
    }

    fn set(&self, pool: &str, device: Option<&str>, property: &str, value: &str) -> Result<(), Refusal> {
        let (device, property, value) = (device.map(str::to_owned), property.to_owned(), value.to_owned());
        let request = SetRequest { pool: pool.to_owned(), device, property, value };
        set::run(&self.invocation(request.command_line()), &request)
    }

    fn import(&self, change: &dyn Fn(&mut ImportRequest)) -> Result<(), Refusal> {
        let places = vec![self.folder.path().to_owned()];
        let mut request = ImportRequest { pool: "tank".to_owned(), places, ..ImportRequest::default() };
        change(&mut request);
        let invocation = self.invocation(request.command_line());
        let found = import::find(&invocation, &request)?;
        import::plan(&invocation, &request, found)?.run(&invocation, None).map(drop)
    }

    fn export(&self, pool: &str) -> Result<(), Refusal> {
        let request = ExportRequest { pools: vec![pool.to_owned()], ..ExportRequest::default() };
        let remarks = export::run(&self.invocation(request.command_line()), &request)?;
        assert_eq!(remarks, Vec::<String>::new());
        Ok(())
    }
}

fn strings(all: &[&str]) -> Vec<String> {
    all.iter().map(|s| (*s).to_owned()).collect()
}

/// Runs what the verb started, until it ends.
fn follow(_: &str, pool: &PoolLease) {
    while pool.writer().scan_activity().scrubbing || pool.writer().scan_activity().resilvering {
        pool.writer().wait_for_scan(std::time::Duration::from_millis(50));
    }
}

/// A verb was refused, for this reason; nothing is compared beyond the beginning of the text.
fn refused<T>(result: Result<T, Refusal>, kind: Kind, text: &str) -> u8 {
    let refusal = result.err().expect("it is refused");
    assert_eq!(refusal.kind, kind, "{}", refusal.message);
    assert!(refusal.message.starts_with(text), "{}\nexpected: {text}", refusal.message);
    refusal.code
}

#[test]
fn create_refuses_with_a_kind() {
    let rig = Rig::new();
    rig.make("tank", "mirror a b").expect("created");
    refused(
        rig.make("mirror", "c"),
        Kind::Invalid,
        "cannot create 'mirror': name is reserved\npool name may have been",
    );
    refused(rig.make("a/b", "c"), Kind::Invalid, "cannot create 'a/b': invalid character '/' in pool name");
    refused(rig.make("tank", "c"), Kind::Conflict, "cannot create 'tank': pool already exists");
    refused(rig.make("other", "a"), Kind::Conflict, "invalid vdev specification\n");
    refused(rig.make("other", "/nosuch/file"), Kind::NotFound, "cannot resolve path '/nosuch/file'");
    refused(rig.make("other", "mirror c"), Kind::Invalid, "invalid vdev specification: mirror requires at least 2");
    refused(rig.make("other", "c mirror d e"), Kind::Invalid, "invalid vdev specification\nuse '-f' to override");
    refused(rig.make("other", "log c"), Kind::Invalid, "invalid vdev specification: at least one toplevel vdev");
    let with = |name: &str, value: &str| {
        let properties = vec![(name.to_owned(), value.to_owned())];
        rig.create(CreateRequest { properties, ..CreateRequest::new("other".to_owned(), rig.layout("c")) })
    };
    refused(with("nonsense", "1"), Kind::Invalid, "property 'nonsense' is not a valid pool or vdev property");
    refused(with("ashift", "99"), Kind::Invalid, "invalid 'ashift=99' property: only values between 9 and 16");
    with("comment", "hello").expect("created");
}

#[test]
fn set_clear_and_sync_refuse_with_a_kind() {
    let rig = Rig::new();
    rig.make("tank", "mirror a b").expect("created");
    let device = rig.disk("a");
    refused(rig.set("none", None, "comment", "x"), Kind::NotFound, "cannot open 'none': no such pool");
    refused(rig.set("tank", None, "size", "1"), Kind::Invalid, "cannot set property for 'tank': 'size' is readonly");
    refused(
        rig.set("tank", None, "multihost", "maybe"),
        Kind::Invalid,
        "cannot set property for 'tank': 'multihost' must",
    );
    refused(
        rig.set("tank", None, "bootfs", "tank/none"),
        Kind::NotFound,
        "cannot set property for 'tank': no such pool",
    );
    refused(rig.set("tank", None, "bootfs", "other"), Kind::Invalid, "cannot set property for 'tank': 'other' is an");
    let code = refused(rig.set("tank", Some("none"), "comment", "x"), Kind::NotFound, "cannot find 'none' in 'tank'");
    assert_eq!(code, 22, "EINVAL, as zpool(8)");
    refused(rig.set("tank", Some(&device), "guid", "1"), Kind::Invalid, "cannot set property guid for ");
    refused(rig.set("tank", Some(&device), "path", "/x"), Kind::Unsupported, "cannot set property path for ");
    rig.set("tank", Some(&device), "comment", "left shelf").expect("set");
    rig.set("tank", None, "comment", "hello").expect("set");

    let cleared = |pool: &str, device: Option<&str>| {
        let request = ClearRequest { pool: pool.to_owned(), device: device.map(str::to_owned) };
        clear::run(&rig.invocation(request.command_line()), &request, &mut follow)
    };
    refused(cleared("none", None), Kind::NotFound, "cannot open 'none': no such pool");
    refused(cleared("tank", Some("none")), Kind::NotFound, "cannot clear errors for none: no such device in pool");
    cleared("tank", Some(&device)).expect("cleared");

    let request = SyncRequest { pools: strings(&["none", "tank"]), force: false };
    let synced = sync::run(&rig.invocation(request.command_line()), &request);
    refused(synced, Kind::NotFound, "cannot open 'none': no such pool");
}

#[test]
fn export_import_and_destroy_refuse_with_a_kind() {
    let rig = Rig::new();
    rig.make("tank", "a").expect("created");
    let unchanged = |_: &mut ImportRequest| {};
    refused(rig.export("none"), Kind::NotFound, "cannot open 'none': no such pool");
    refused(rig.import(&unchanged), Kind::Conflict, "cannot import 'tank': a pool with that name already exists");
    rig.export("tank").expect("exported");
    refused(rig.export("tank"), Kind::NotFound, "cannot open 'tank': no such pool");
    refused(
        rig.import(&|r| r.pool = "none".to_owned()),
        Kind::NotFound,
        "cannot import 'none': no such pool available",
    );
    refused(rig.import(&|r| r.destroyed = true), Kind::NotFound, "cannot import 'tank': no such pool available");
    let renamed = rig.import(&|r| r.new_name = Some("new*".to_owned()));
    refused(renamed, Kind::Invalid, "cannot import 'new*': invalid character '*' in pool name");
    refused(rig.import(&|r| r.checkpoint = true), Kind::NotFound, "cannot import 'tank': checkpoint does not exist");
    rig.import(&|r| r.new_name = Some("new".to_owned())).expect("imported");
    rig.export("new").expect("exported");
    // A second pool with the same name.
    rig.make("new", "b").expect("created");
    rig.export("new").expect("exported");
    refused(rig.import(&|r| r.pool = "new".to_owned()), Kind::Conflict, "cannot import 'new': more than one matching");

    let destroyed = |pool: &str| {
        let request = DestroyRequest { pool: pool.to_owned(), force: false };
        destroy::run(&rig.invocation(request.command_line()), &request)
    };
    refused(destroyed("none"), Kind::NotFound, "cannot open 'none': no such pool");
    rig.make("other", "c").expect("created");
    destroyed("other").expect("destroyed");
    rig.import(&|r| (r.pool, r.destroyed) = ("other".to_owned(), true)).expect("imported");
    rig.export("other").expect("exported");
    rig.import(&|r| (r.pool, r.readonly) = ("other".to_owned(), true)).expect("imported");
    destroyed("other").expect("forgotten, as nothing may be written to it");
    rig.import(&|r| r.pool = "other".to_owned()).expect("imported: its devices were not changed");
}

#[test]
fn verbs_on_devices_refuse_with_a_kind() {
    let rig = Rig::new();
    rig.make("tank", "mirror a b spare s").expect("created");
    let (a, spare) = (rig.disk("a"), rig.disk("s"));
    let offline = |device: &str, fault, temporary| {
        let request = OfflineRequest { pool: "tank".to_owned(), devices: strings(&[device]), fault, temporary };
        states::offline(&rig.invocation(request.command_line()), &request)
    };
    let online = |device: &str| {
        let request = OnlineRequest { pool: "tank".to_owned(), devices: strings(&[device]), expand: false };
        states::online(&rig.invocation(request.command_line()), &request, &mut follow)
    };
    refused(offline("none", false, false), Kind::NotFound, "cannot offline none: no such device in pool");
    refused(offline(&spare, false, false), Kind::Conflict, "cannot offline ");
    refused(offline(&a, true, true), Kind::Unsupported, "unsupported: 'zpool offline -f -t' without 'weir serve'");
    offline(&a, false, false).expect("offline");
    let other = rig.disk("b");
    refused(offline(&other, false, false), Kind::Invalid, "cannot offline ");
    assert_eq!(online(&a).expect("run").devices.first().map(|d| d.state), Some(VdevState::Healthy));
    let none = online("none").expect("run").refused.map(Err::<(), _>).expect("refused");
    refused(none, Kind::NotFound, "couldn't find device \"none\" in pool \"tank\"");

    let join = |how: Joins, old: &str, new: &str| {
        let (pool, old, new) = ("tank".to_owned(), old.to_owned(), new.to_owned());
        let properties = Vec::new();
        let request = JoinRequest { how, pool, old, new, properties, force: false, sequentially: false, wait: true };
        attach::join(&rig.invocation(request.command_line()), &request, &mut follow)
    };
    let c = rig.disk("c");
    assert_eq!(refused(join(Joins::Attach, "none", &c), Kind::NotFound, "cannot attach "), 255);
    refused(join(Joins::Attach, &spare, &c), Kind::Conflict, "cannot attach ");
    refused(join(Joins::Attach, &a, "/nosuch/file"), Kind::NotFound, "cannot resolve path '/nosuch/file'");
    refused(join(Joins::Attach, &a, &other), Kind::Conflict, "invalid vdev specification");
    join(Joins::Attach, &a, &c).expect("attached");
    let detached = |device: &str| {
        let request = DetachRequest { pool: "tank".to_owned(), device: device.to_owned() };
        attach::detach(&rig.invocation(request.command_line()), &request)
    };
    assert_eq!(refused(detached("none"), Kind::NotFound, "cannot detach none: no such device in pool"), 255);
    refused(detached("mirror-0"), Kind::Invalid, "cannot detach mirror-0: only applicable to mirror and replacing");
    detached(&c).expect("detached");

    let removed = |device: &str| {
        let request = RemoveRequest { pool: "tank".to_owned(), devices: strings(&[device]) };
        remove::run(&rig.invocation(request.command_line()), &request)
    };
    refused(removed("none"), Kind::NotFound, "cannot remove none: no such device in pool");
    removed(&spare).expect("removed");
    let swept = |devices: &[&str], work, order| {
        let (pool, devices) = ("tank".to_owned(), strings(devices));
        let request = SweepRequest { pool, devices, work, order, secure: false, wait: false };
        sweep::run(&rig.invocation(request.command_line()), &request)
    };
    assert_eq!(
        refused(swept(&["none"], Work::Trim, Order::Cancel), Kind::NotFound, "cannot trim 'none': no such"),
        255
    );
    refused(swept(&[&a], Work::Initialize, Order::Cancel), Kind::Conflict, "cannot initialize ");

    let added = |words: &str| {
        let request = AddRequest {
            pool: "tank".to_owned(),
            layout: rig.layout(words),
            properties: Vec::new(),
            force: false,
            allow_in_use: false,
            allow_replication_mismatch: false,
            allow_ashift_mismatch: false,
        };
        let invocation = rig.invocation(request.command_line());
        add::plan(&invocation, request)?.run(&invocation)
    };
    refused(added("d"), Kind::Invalid, "invalid vdev specification\nuse '-f' to override the following errors:");
    refused(added("mirror a d"), Kind::Conflict, "invalid vdev specification");
    added("mirror d e").expect("added");
}

#[test]
fn verbs_on_whole_pools_refuse_with_a_kind() {
    let rig = Rig::new();
    rig.make("tank", "a").expect("created");
    let scanned = |pool: &str, change| {
        let request = ScanRequest { pools: strings(&[pool]), change, wait: true };
        scan::run(&rig.invocation(request.command_line()), &request, &mut follow)
    };
    refused(scanned("none", ScanChange::Start), Kind::NotFound, "cannot open 'none': no such pool");
    refused(
        scanned("tank", ScanChange::Stop),
        Kind::Conflict,
        "cannot cancel scrubbing tank: there is no active scrub",
    );
    scanned("tank", ScanChange::Pause).expect("nothing to pause is no error");
    scanned("tank", ScanChange::Start).expect("scrubbed");

    let checkpointed = |discard| {
        let request = CheckpointRequest { pool: "tank".to_owned(), discard };
        checkpoint::run(&rig.invocation(request.command_line()), &request)
    };
    assert!(checkpointed(true).is_err_and(|e| e.message.starts_with("cannot discard checkpoint in 'tank'")));
    assert_eq!(checkpointed(false), Ok(false));
    assert!(checkpointed(false).is_err_and(|e| e.message.starts_with("cannot checkpoint 'tank'")));
    assert_eq!(checkpointed(true), Ok(false));

    let split = |new: &str, devices: &[&str]| {
        let (pool, new_name) = ("tank".to_owned(), new.to_owned());
        let request = SplitRequest { pool, new_name, devices: strings(devices), ..SplitRequest::default() };
        split::run(&rig.invocation(request.command_line()), &request).map(drop)
    };
    refused(split("tank", &[]), Kind::Conflict, "Unable to split tank: pool already exists");
    refused(split("mirror", &[]), Kind::Invalid, "Unable to split tank: name is reserved");
    refused(split("new", &["none"]), Kind::NotFound, "Unable to split tank: Device list must include at most one");

    let request = ReguidRequest { pool: "tank".to_owned(), guid: Some(4711) };
    reguid::run(&rig.invocation(request.command_line()), &request).expect("renumbered");
    let request = ReguidRequest { pool: "tank".to_owned(), guid: Some(0) };
    let zero = reguid::run(&rig.invocation(String::new()), &request);
    assert_eq!(refused(zero, Kind::Invalid, "cannot reguid 'tank': invalid argument for this pool operation"), 255);
    let request = ReguidRequest { pool: "tank".to_owned(), guid: Some(4711) };
    let again = reguid::run(&rig.invocation(String::new()), &request);
    assert_eq!(refused(again, Kind::Conflict, "cannot reguid 'tank': pool already exists"), 255);
    let request = ReguidRequest { pool: "tank".to_owned(), guid: Some(u64::MAX) };
    reguid::run(&rig.invocation(request.command_line()), &request).expect("renumbered");

    let labels = |device: String, force| {
        let request = LabelClearRequest { device, force };
        label_clear::run(&rig.invocation(request.command_line()), &request)
    };
    refused(labels("/nosuch/file".to_owned(), false), Kind::NotFound, "failed to open /nosuch/file: No such file");
    assert_eq!(refused(labels(rig.disk("x"), false), Kind::Invalid, "failed to clear label for "), 255);
    let conflict = labels(rig.disk("a"), true).expect_err("refused");
    assert!(conflict.kind == Kind::Conflict && conflict.message.contains("is a member (ACTIVE) of pool \"tank\""));
    rig.export("tank").expect("exported");
    refused(labels(rig.disk("a"), false), Kind::Conflict, "use '-f' to override the following error:");
    labels(rig.disk("a"), true).expect("cleared");
}
