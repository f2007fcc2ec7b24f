//! `multihost=on`, with two hosts that see the same disks, by the clock of a simulated machine.

use block::Class;
use errors::Refusal;
use host::clock::Instant;
use host::device::{Device, MemoryDevice};
use host::threads;
use object::NewObject;
use ondisk::ObjectType;
use ondisk::uberblock::Uberblock;
use pool::mmp::{self, Activity, Owner};
use pool::property::SetValue;
use pool::writer::{CreatePool, NewVdev, WriteOptions, default_features};
use pool::{FoundPool, OpenOptions, Writer, search_devices};
use sim::simulation;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const DISK_BYTES: usize = 72 << 20;
/// Slots of a ring with sectors of 512 bytes.
const SLOTS: u64 = 128;

/// What a host has of the shared disks.
struct Host {
    id: u64,
    /// Its writes fail.
    is_cut_off: Arc<AtomicBool>,
    disks: Vec<Arc<View>>,
}

/// A shared disk as one host sees it.
struct View {
    disk: Arc<MemoryDevice>,
    is_cut_off: Arc<AtomicBool>,
}

impl Device for View {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.disk.read_at(offset, buf)
    }

    fn size_bytes(&self) -> u64 {
        self.disk.size_bytes()
    }

    fn name(&self) -> &str {
        self.disk.name()
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        match self.is_cut_off.load(Ordering::SeqCst) {
            true => Err(io::Error::from_raw_os_error(5)),
            false => self.disk.write_at(offset, data),
        }
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    fn is_writable(&self) -> bool {
        true
    }
}

/// Two hosts, with the IDs 1 and 2.
fn hosts(disks: usize) -> [Host; 2] {
    let shared = |n| Arc::new(MemoryDevice::new(format!("disk-{n}"), vec![0; DISK_BYTES]));
    let disks: Vec<_> = (0..disks).map(shared).collect();
    [1, 2].map(|id| {
        let is_cut_off: Arc<AtomicBool> = Arc::default();
        let view = |disk: &Arc<MemoryDevice>| View { disk: disk.clone(), is_cut_off: is_cut_off.clone() };
        let disks = disks.iter().map(|disk| Arc::new(view(disk))).collect();
        Host { id, is_cut_off, disks }
    })
}

impl Host {
    fn options(&self) -> WriteOptions {
        let host = Some((self.id, format!("host-{}", self.id)));
        WriteOptions { interval: Duration::from_secs(5), host, ..WriteOptions::default() }
    }

    /// A mirror of all disks, with `multihost` on.
    fn create(&self) -> Arc<Writer> {
        let of = |kind, leaf, children| NewVdev {
            kind,
            parity: 0,
            draid: None,
            class: Class::Normal,
            leaf,
            ashift: 9,
            children,
        };
        let disk = |view: &Arc<View>| {
            let device: Arc<dyn Device> = view.clone();
            of("file", Some((view.name().to_owned(), device)), Vec::new())
        };
        let new = CreatePool {
            version: 5000,
            name: "tank".into(),
            tops: vec![of("mirror", None, self.disks.iter().map(disk).collect())],
            features: default_features().map(str::to_owned).collect(),
            comment: None,
            compatibility: None,
        };
        let writer = Writer::create(&new, &OpenOptions::default(), &self.options(), |_| Ok(())).expect("created");
        set(&writer, true);
        writer
    }

    fn found(&self) -> FoundPool {
        search_devices(self.disks.iter().map(|view| view.clone() as Arc<dyn Device>)).pools.remove(0)
    }

    fn open(&self) -> errors::Result<Arc<Writer>> {
        Writer::open(&self.found(), &OpenOptions::default(), &self.options())
    }

    fn check(&self) -> Activity {
        mmp::check(&self.found(), self.id, None, &|| false).expect("checked")
    }

    fn uberblocks(&self) -> Vec<(u64, Uberblock)> {
        let labels = self.disks.iter().map(|view| block::label::read(view.as_ref(), true));
        labels.flat_map(|labels| labels.uberblocks).map(|found| (found.slot, found.uberblock)).collect()
    }

    /// The ID in the labels.
    fn owner(&self) -> Option<u64> {
        self.found().config().get_u64("hostid")
    }
}

fn set(writer: &Writer, on: bool) {
    let value = SetValue::Number(on.into());
    writer.task(move |cx| cx.set_pool_property("multihost", &value)).expect("set");
}

fn write(writer: &Writer) -> errors::Result<u64> {
    writer.task(|cx| {
        let object = cx.mos().create_object(cx.tx(), &NewObject::new(ObjectType::UINT64_OTHER, 4096))?;
        object.write_at(cx.tx(), 0, &[7; 40_000])?;
        Ok(object.id())
    })
}

fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn refused(opened: errors::Result<Arc<Writer>>) -> Option<Refusal> {
    opened.err().and_then(|error| error.refusal())
}

#[test]
fn a_pool_in_use_is_refused_at_once_and_an_exported_one_opens_at_once() {
    simulation::run(1, || {
        let [one, two] = hosts(2);
        let pool = one.create();
        threads::sleep(seconds(3));
        let begun = Instant::now();
        let owner = Owner { host: "host-1".into(), hostid: 1 };
        assert_eq!(two.check(), Activity::Active(owner));
        assert_eq!(refused(two.open()), Some(Refusal::ImportedElsewhere));
        assert!(begun.elapsed() < seconds(5), "it was found after {:?}", begun.elapsed());
        // Its owner noticed nothing, also after an hour without changes.
        threads::sleep(seconds(3600));
        write(&pool).expect("written");
        assert!(pool.suspension().is_none());
        pool.export().expect("exported");
        let begun = Instant::now();
        let pool = two.open().expect("opened");
        assert!(begun.elapsed() < seconds(3), "it was open after {:?}", begun.elapsed());
        assert_eq!(two.owner(), Some(2));
        write(&pool).expect("written");
        pool.export().expect("exported");
    });
}

#[test]
fn a_pool_whose_owner_died_is_opened_after_twice_its_deadline() {
    simulation::run(2, || {
        let [one, two] = hosts(1);
        let pool = one.create();
        threads::sleep(seconds(3));
        // It dies: nothing is synced.
        one.is_cut_off.store(true, Ordering::SeqCst);
        drop(pool);
        let begun = Instant::now();
        let Activity::None(unchanged) = two.check() else { panic!("some host writes") };
        assert!((seconds(20)..seconds(27)).contains(&begun.elapsed()), "{:?}", begun.elapsed());
        // The same host needs no wait.
        assert_eq!(one.check(), Activity::NotRequired);
        let begun = Instant::now();
        let known = OpenOptions { unchanged: Some(unchanged), ..OpenOptions::default() };
        let pool = Writer::open(&two.found(), &known, &two.options()).expect("opened");
        assert!(begun.elapsed() < seconds(3), "it waited again: {:?}", begun.elapsed());
        assert_eq!(refused(one.open()), Some(Refusal::ImportedElsewhere), "the first host came back");
        write(&pool).expect("written");
        pool.export().expect("exported");
    });
}

#[test]
fn a_pool_without_heartbeats_is_suspended_before_another_host_opens_it_and_never_resumes() {
    simulation::run(3, || {
        let [one, two] = hosts(2);
        let pool = one.create();
        write(&pool).expect("written");
        threads::sleep(seconds(2));
        one.is_cut_off.store(true, Ordering::SeqCst);
        threads::sleep(seconds(9));
        assert!(pool.suspension().is_none(), "10 s have not passed");
        threads::sleep(seconds(2));
        let suspended = pool.suspension().expect("suspended");
        assert!(suspended.is_multihost && !suspended.until_reopened, "{suspended:?}");
        assert_eq!(pool.begin().err().and_then(|e| e.refusal()), Some(Refusal::Suspended));
        let other = two.open().expect("opened");
        let txg = other.synced_txg();
        // Its devices are back, but they are not its devices any more.
        one.is_cut_off.store(false, Ordering::SeqCst);
        threads::sleep(seconds(60));
        write(&other).expect("written");
        assert!(pool.sync().is_err());
        threads::sleep(seconds(60));
        let cleared = pool
            .clear(None, &|path| Err(errors::Error::missing(path, "any other device")))
            .expect_err("the other host has it");
        assert_eq!(cleared.refusal(), Some(Refusal::ImportedElsewhere));
        assert!(pool.suspension().is_some_and(|s| s.is_multihost));
        drop(pool);
        assert!(two.uberblocks().iter().all(|(_, u)| u.txg.0 < txg || u.txg.0 <= other.synced_txg()));
        write(&other).expect("written");
        other.export().expect("exported");
        assert_eq!(two.owner(), Some(2));
        one.open().expect("opened after the export").export().expect("exported");
    });
}

#[test]
fn a_suspended_pool_that_no_host_took_over_resumes_after_a_wait() {
    simulation::run(4, || {
        let [one, two] = hosts(2);
        let pool = one.create();
        one.is_cut_off.store(true, Ordering::SeqCst);
        threads::sleep(seconds(30));
        assert!(pool.suspension().is_some_and(|s| s.is_multihost));
        one.is_cut_off.store(false, Ordering::SeqCst);
        let begun = Instant::now();
        pool.clear(None, &|path| Err(errors::Error::missing(path, "any other device"))).expect("cleared");
        assert!((seconds(20)..seconds(27)).contains(&begun.elapsed()), "{:?}", begun.elapsed());
        assert!(pool.suspension().is_none());
        write(&pool).expect("written");
        threads::sleep(seconds(100));
        assert!(pool.suspension().is_none());
        assert!(matches!(two.check(), Activity::Active(_)), "heartbeats are written again");
        pool.export().expect("exported");
    });
}

#[test]
fn heartbeats_have_a_slot_of_their_own_only_while_multihost_is_on() {
    simulation::run(5, || {
        let [one, two] = hosts(3);
        let pool = one.create();
        for _ in 0..SLOTS + 10 {
            write(&pool).expect("written");
        }
        threads::sleep(seconds(20));
        let last = pool.synced_txg();
        let found = two.uberblocks();
        let (beats, txgs): (Vec<_>, Vec<_>) = found.into_iter().partition(|(slot, _)| *slot == SLOTS - 1);
        assert!(txgs.iter().all(|(slot, u)| *slot == u.txg.0 % (SLOTS - 1)), "a txg is in its slot");
        // All labels of all disks have the last 127 txgs.
        assert_eq!(txgs.len() as u64, 3 * 4 * (SLOTS - 1));
        assert!(txgs.iter().all(|(_, u)| u.txg.0 > last - (SLOTS - 1)));
        let of_last: Vec<_> = beats.iter().filter(|(_, u)| u.txg.0 == last).collect();
        assert!(of_last.len() > 6, "{} of 12 labels have a heartbeat", of_last.len());
        for (_, beat) in &of_last {
            let fields = beat.multihost.expect("multihost fields");
            assert_eq!((fields.interval_ms(), fields.fail_intervals()), (Some(1000), Some(10)));
            assert!(fields.sequence().is_some_and(|s| s > 0) && fields.is_on());
            // One for each leaf in a second.
            assert!((333_000_000..1_100_000_000).contains(&fields.delay_ns), "{}", fields.delay_ns);
        }
        set(&pool, false);
        let newest = |host: &Host| host.uberblocks().into_iter().map(|(_, u)| u).max_by(Uberblock::compare);
        assert_eq!(newest(&two).and_then(|u| u.multihost).map(|m| (m.delay_ns, m.config)), Some((0, 0)));
        threads::sleep(seconds(100));
        for _ in 0..SLOTS {
            write(&pool).expect("written");
        }
        assert!(two.uberblocks().iter().all(|(slot, u)| *slot == u.txg.0 % SLOTS), "all slots are for txgs again");
        assert!(pool.suspension().is_none());
        drop(pool);
        // Not protected, as without multihost.
        assert_eq!(two.check(), Activity::NotRequired);
    });
}

#[test]
fn of_two_hosts_that_import_at_the_same_time_at_most_one_gets_the_pool() {
    let mut passed = 0;
    for seed in 0..24 {
        passed += simulation::run(seed, || {
            let [one, two] = hosts(2);
            let pool = one.create();
            threads::sleep(seconds(2));
            match seed % 2 {
                0 => pool.export().expect("exported"),
                _ => pool.close().expect("closed"),
            }
            drop(pool);
            // Host 1 is gone; these are two others.
            let others = [3, 4].map(|id| Host { id, is_cut_off: Arc::default(), disks: two.disks.clone() });
            let opened: Vec<_> = threads::scope(|scope| {
                let begin = |host| scope.spawn(move || Host::open(host));
                let running: Vec<_> = others.iter().map(begin).collect();
                running.into_iter().map(|thread| thread.join().expect("no panic")).collect()
            });
            let mut passed = 0;
            for opened in opened {
                match opened {
                    Ok(pool) => {
                        passed += 1;
                        write(&pool).expect("written");
                        pool.export().expect("exported");
                    }
                    Err(error) => assert_eq!(error.refusal(), Some(Refusal::ImportedElsewhere), "{error}"),
                }
            }
            assert!(passed <= 1, "seed {seed}: both hosts have the pool");
            passed
        });
    }
    assert!(passed > 12, "of 24 pools only {passed} were imported");
}

#[test]
fn a_host_without_an_id_opens_no_pool_with_multihost() {
    simulation::run(6, || {
        let [one, mut two] = hosts(1);
        two.id = 0;
        let pool = one.create();
        pool.close().expect("closed");
        assert_eq!(two.check(), Activity::NoHostId);
        assert_eq!(refused(two.open()), Some(Refusal::NoHostId));
        let pool = one.open().expect("the same host");
        pool.export().expect("exported");
        assert_eq!(refused(two.open()), Some(Refusal::NoHostId), "an exported one neither");
    });
}
