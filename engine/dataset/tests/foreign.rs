//! Writes to pools of OpenZFS with snapshots, clones and volumes: all accounting must stay correct.
//!
//! The images are those of the scenarios (`WEIR_FIXTURES`, unpacked as SCENARIO/DEVICE).

use crate::common;
use crate::common::Rig;
use dataset::{DatasetKind, ListOptions, write};
use errors::Error;
use ondisk::ObjectType;
use rig::noise;

/// Changes the contents of a file system: some files are overwritten, some truncated, some freed
/// while their names remain, which accounting does not notice.
fn change_files(rig: &Rig, name: &str, round: u64) {
    let live = match rig.live.open(name, Some(common::owners_of)) {
        Ok(live) => live,
        Err(e @ (Error::Unsupported { .. } | Error::KeyUnavailable { .. } | Error::Invalid { .. })) => {
            println!("  not written: {e}");
            return;
        }
        Err(e) => panic!("{e}"),
    };
    let set = live.objset().clone();
    let (mut id, mut files) = (0, Vec::new());
    while let Some(next) = set.next_object(id).unwrap() {
        id = next;
        if set.object(id).unwrap().dnode().object_type == ObjectType::PLAIN_FILE_CONTENTS && files.len() < 16 {
            files.push(id);
        }
    }
    let tx = live.begin_freeing(1 << 20).unwrap();
    for (i, id) in files.into_iter().enumerate() {
        let file = set.object(id).unwrap();
        let size = (file.max_block_id() + 1) * file.block_bytes();
        match (i as u64 + round) % 4 {
            0 => file.write_at(&tx, 0, &noise(round, size.min(100_000) as usize)).unwrap(),
            1 => file.punch(&tx, size / 2, u64::MAX).unwrap(),
            2 => file.set_bonus(&tx, file.bonus().to_vec()).unwrap(),
            _ => set.free_object(&tx, id).unwrap(),
        }
    }
    drop(tx);
}

/// Keys recorded with the image are in `WEIR_RECORDED`/SCENARIO.
fn load_keys(rig: &Rig, scenario: &std::path::Path) {
    let Some(recorded) = std::env::var_os("WEIR_RECORDED") else { return };
    let folder = std::path::PathBuf::from(recorded).join(scenario.file_name().unwrap());
    let material: Vec<Vec<u8>> = ["pass", "key32"].iter().filter_map(|n| std::fs::read(folder.join(n)).ok()).collect();
    for entry in rig.tree().list(&[], &ListOptions::heads()).unwrap().entries {
        let dataset = entry.dataset().unwrap();
        if dataset.crypto_object().unwrap().is_some() && !rig.live.keys().is_available(dataset).unwrap() {
            let _ = material.iter().any(|key| rig.live.keys().load(dataset, key).is_ok());
        }
    }
}

fn check(rig: &Rig) {
    rig.check();
    common::space_walk::check(&rig.tree());
}

/// Takes a snapshot of each head, and rolls back to the one before it where possible.
fn snapshot_all(rig: &Rig, round: u64) {
    for entry in rig.tree().list(&[], &ListOptions::heads()).unwrap().entries {
        if let Err(why) = write::snapshot(&rig.live, &[format!("{}@weir{round}", entry.name())], &[]) {
            println!("  no snapshot: {}", why[0].1);
            continue;
        }
    }
    check(rig);
    if round != 1 {
        return;
    }
    rig.live.close_all().unwrap();
    for entry in rig.tree().list(&[], &ListOptions::heads()).unwrap().entries {
        match write::rollback(&rig.live, &format!("{}@weir{round}", entry.name())) {
            Ok(()) => println!("  rolled back {}", entry.name()),
            Err(e @ (Error::NotFound { .. } | Error::Unsupported { .. } | Error::Invalid { .. })) => println!("  {e}"),
            Err(e) => panic!("{}: {e}", entry.name()),
        }
    }
    check(rig);
}

/// Destroys everything that can be destroyed, including what OpenZFS created, from the leaves of
/// the tree; snapshots in arbitrary order.
fn destroy_all(rig: &Rig) {
    let mut progressed = true;
    while progressed {
        progressed = false;
        for entry in rig.tree().list(&[], &ListOptions::all()).unwrap().entries.iter().rev() {
            let gone = match entry.kind().unwrap() {
                DatasetKind::Snapshot => {
                    let tags = entry.dataset().unwrap().holds().unwrap();
                    let name = [entry.name().to_owned()];
                    tags.iter().for_each(|hold| write::release(&rig.live, &name, &hold.tag).unwrap());
                    write::destroy_snapshots(&rig.live, &name, false).map_err(|mut why| why.remove(0).1)
                }
                DatasetKind::Bookmark => write::destroy_bookmark(&rig.live, entry.name()),
                _ => write::destroy(&rig.live, entry.name()),
            };
            match gone {
                Ok(()) => progressed = true,
                Err(Error::Invalid { .. } | Error::Unsupported { .. } | Error::Refused { .. }) => {}
                Err(e) => panic!("{}: {e}", entry.name()),
            }
        }
        check(rig);
    }
    let left = rig.tree().list(&[], &ListOptions::all()).unwrap().entries;
    println!("  left: {:?}", left.iter().map(|e| e.name()).collect::<Vec<_>>());
}

#[test]
fn pools_of_openzfs_are_written_and_stay_right() {
    let Some(folder) = std::env::var_os("WEIR_FIXTURES").map(std::path::PathBuf::from) else {
        println!("skipped: set WEIR_FIXTURES, see the head of this file");
        return;
    };
    let mut names: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|e| e.unwrap().path()).collect();
    names.sort();
    let mut written = 0;
    for scenario in names.iter().filter(|p| p.is_dir()) {
        if std::env::var("ONLY").is_ok_and(|only| !scenario.ends_with(only)) {
            continue;
        }
        println!("{}", scenario.display());
        let has_devices = std::fs::read_dir(scenario).unwrap().any(|e| {
            let path = e.unwrap().path();
            path.is_file() && path.extension().is_none() && path.metadata().unwrap().len() >= 64 << 20
        });
        if !has_devices {
            continue;
        }
        let mut rig = match Rig::of_image(scenario) {
            Ok(rig) => rig,
            Err(e) => {
                println!("  read-only: {e}");
                continue;
            }
        };
        load_keys(&rig, scenario);
        if !rig.is_clean() {
            println!("  damaged as it is");
            continue;
        }
        rig.check();
        let made = format!("{}/made by weir", rig.live.writer().name());
        rig.create(&made, &[]).unwrap();
        let live = rig.open(&made);
        common::new_file(live.objset(), &live.begin(0).unwrap(), 7).unwrap();
        rig.check();
        for round in 0..3u64 {
            for entry in rig.tree().list(&[], &ListOptions::heads()).unwrap().entries {
                println!("  {}", entry.name());
                match entry.kind().unwrap() {
                    DatasetKind::FileSystem => change_files(&rig, entry.name(), round),
                    DatasetKind::Volume => {
                        let Ok(live) = rig.live.open(entry.name(), None) else { continue };
                        let tx = live.begin_freeing(1 << 20).unwrap();
                        live.objset().object(1).unwrap().write_at(&tx, round * 70_000, &noise(round, 200_000)).unwrap();
                    }
                    _ => {}
                }
            }
            rig.check();
            snapshot_all(&rig, round);
            if round == 1 {
                rig = rig.reopen();
            }
        }
        rig.live.close_all().unwrap();
        for entry in rig.tree().list(&[], &ListOptions::heads()).unwrap().entries {
            if entry.dataset().unwrap().origin().unwrap().is_some() {
                match write::promote(&rig.live, entry.name()) {
                    Ok(()) => println!("  promoted {}", entry.name()),
                    Err(e) => println!("  not promoted: {e}"),
                }
                check(&rig);
            }
        }
        destroy_all(&rig);
        // One of each kind is enough for zdb, which is slower.
        if ["everything", "encrypted", "history", "properties", "version28", "raidz1-3-a9"]
            .iter()
            .any(|name| scenario.ends_with(name))
        {
            rig.judge();
        }
        written += 1;
    }
    assert!(written > 0 || names.is_empty(), "no image could be written");
}
