//! Delegated permissions: what is stored, whom it grants what, and the limits that bind users to
//! whom something is delegated.

use crate::common::Rig;
use dataset::Credentials;
use dataset::delegation::Permissions;
use dataset::write::{self, Delegation, KeyChange, NewDataset, NewKey};
use errors::{Error, Refusal, Result};
use std::sync::Arc;
use transform::crypt::KeyFormat;
use zeroize::Zeroizing;

fn user(uid: u32) -> Credentials {
    Credentials { uid, gid: uid, groups: Arc::new([]) }
}

fn words(list: &str) -> Vec<String> {
    list.split(',').map(str::to_owned).collect()
}

fn allow(rig: &Rig, dataset: &str, key: &str, permissions: &str) {
    let change = Delegation::Allow { key: key.to_owned(), permissions: words(permissions) };
    write::delegate(&rig.live, dataset, &[change]).unwrap();
}

fn own(rig: &Rig, dataset: &str) -> Permissions {
    rig.tree().dataset(dataset).unwrap().delegations().unwrap()
}

fn keys(rig: &Rig, dataset: &str) -> Vec<String> {
    own(rig, dataset).into_iter().map(|(key, names)| format!("{key}={}", Vec::from_iter(names).join(","))).collect()
}

fn may(rig: &Rig, dataset: &str, permission: &str, who: &Credentials) -> bool {
    rig.tree().dataset(dataset).unwrap().is_granted(permission, who).unwrap()
}

fn create_as(rig: &Rig, name: &str, uid: u32) -> Result<()> {
    let new = NewDataset { name: name.to_owned(), user: Some(user(uid)), ..NewDataset::default() };
    write::create(&rig.live, &new, crate::common::MAKER)
}

#[test]
fn permissions_apply_here_below_or_both_to_users_groups_and_everyone() {
    let rig = Rig::new();
    for name in ["tank/a", "tank/a/b", "tank/c"] {
        rig.create(name, &[]).unwrap();
    }
    write::snapshot(&rig.live, &["tank/a@s".to_owned(), "tank/a/b@s".to_owned()], &[]).unwrap();
    allow(&rig, "tank/a", "ul$7", "send");
    allow(&rig, "tank/a", "ud$7", "hold");
    allow(&rig, "tank/a", "gl$100", "mount");
    allow(&rig, "tank/a", "gd$200", "mount");
    allow(&rig, "tank/a", "el$", "diff");
    let (seven, eight) = (user(7), user(8));
    let at = |permission: &str, who: &Credentials| {
        ["tank", "tank/a", "tank/a@s", "tank/a/b", "tank/a/b@s", "tank/c"].map(|name| may(&rig, name, permission, who))
    };
    assert_eq!(at("send", &seven), [false, true, false, false, false, false]);
    // Of a snapshot, only what is granted to descendants counts.
    assert_eq!(at("hold", &seven), [false, false, true, true, true, false]);
    assert_eq!(at("send", &eight), [false; 6]);
    assert_eq!(at("diff", &eight), [false, true, false, false, false, false]);
    let member = Credentials { uid: 8, gid: 100, groups: Arc::new([300, 200]) };
    assert_eq!(at("mount", &member), [false, true, true, true, true, false]);
    assert_eq!(at("mount", &Credentials { groups: Arc::new([]), ..member }), [false, true, false, false, false, false]);
    rig.check();
}

#[test]
fn a_set_is_looked_up_from_where_it_is_granted_to_the_nearest_definition() {
    let rig = Rig::new();
    for name in ["tank/a", "tank/a/b"] {
        rig.create(name, &[]).unwrap();
    }
    let seven = user(7);
    allow(&rig, "tank", "s-$@low", "hold");
    allow(&rig, "tank", "S-$@high", "@low");
    allow(&rig, "tank", "s-$@high", "send");
    // The set alone grants nothing.
    assert!(!may(&rig, "tank/a", "hold", &seven));
    allow(&rig, "tank/a", "Ul$7", "@high");
    allow(&rig, "tank/a", "Ud$7", "@high");
    for (permission, granted) in [("hold", true), ("send", true), ("mount", false), ("@high", false)] {
        assert_eq!(may(&rig, "tank/a/b", permission, &seven), granted, "{permission}");
    }
    // A definition below the grant has no effect; with a grant it hides the one above.
    allow(&rig, "tank/a/b", "s-$@high", "mount");
    assert!(!may(&rig, "tank/a/b", "mount", &seven) && may(&rig, "tank/a/b", "send", &seven));
    allow(&rig, "tank/a/b", "Ul$7", "@high");
    assert!(may(&rig, "tank/a/b", "mount", &seven) && !may(&rig, "tank/a/b", "send", &seven));
    assert!(may(&rig, "tank/a", "send", &seven) && !may(&rig, "tank/a", "mount", &seven));
    // Sets that consist of each other end.
    allow(&rig, "tank", "S-$@low", "@high");
    assert!(!may(&rig, "tank/a", "rollback", &seven));
}

#[test]
fn what_is_taken_back_is_gone_and_freed() {
    let rig = Rig::new();
    rig.create("tank/a", &[]).unwrap();
    assert!(own(&rig, "tank/a").is_empty());
    allow(&rig, "tank/a", "ul$7", "send,hold,compression");
    allow(&rig, "tank/a", "Ul$7", "@x");
    allow(&rig, "tank/a", "c-$", "destroy");
    assert_eq!(keys(&rig, "tank/a"), ["Ul$7=@x", "c-$=destroy", "ul$7=compression,hold,send"]);
    let change = |change| write::delegate(&rig.live, "tank/a", &[change]).unwrap();
    let key = || "ul$7".to_owned();
    change(Delegation::Remove { key: key(), permissions: words("hold,mount") });
    assert_eq!(keys(&rig, "tank/a"), ["Ul$7=@x", "c-$=destroy", "ul$7=compression,send"]);
    change(Delegation::Remove { key: key(), permissions: words("compression,send") });
    change(Delegation::RemoveAll { key: "Ul$7".to_owned() });
    change(Delegation::RemoveAll { key: "ud$9".to_owned() });
    assert_eq!(keys(&rig, "tank/a"), ["c-$=destroy"]);
    rig.check();
    write::destroy(&rig.live, "tank/a").unwrap();
    let rig = rig.reopen();
    rig.check();
    // zdb finds objects that nothing refers to.
    rig.judge();
}

#[test]
fn keys_and_permissions_that_do_not_exist_are_refused() {
    let rig = Rig::new();
    rig.create("tank/a", &[]).unwrap();
    write::snapshot(&rig.live, &["tank/a@s".to_owned()], &[]).unwrap();
    for (dataset, key, permissions) in [
        ("tank/a", "xl$7", "send"),
        ("tank/a", "ul$seven", "send"),
        ("tank/a", "ul$7", "scrub"),
        ("tank/a", "ul$7", "@set"),
        ("tank/a", "Ul$7", "send"),
        ("tank/a", "s-$set", "send"),
        ("tank/a@s", "ul$7", "send"),
    ] {
        let change = Delegation::Allow { key: key.to_owned(), permissions: words(permissions) };
        let result = write::delegate(&rig.live, dataset, &[change]);
        assert!(matches!(result, Err(Error::Invalid { .. })), "{dataset} {key} {permissions}: {result:?}");
    }
    assert!(own(&rig, "tank/a").is_empty());
}

#[test]
fn the_creator_gets_what_is_delegated_at_creation_by_all_datasets_above() {
    let rig = Rig::new();
    rig.create("tank/a", &[]).unwrap();
    allow(&rig, "tank", "c-$", "destroy");
    allow(&rig, "tank/a", "c-$", "snapshot");
    allow(&rig, "tank/a", "C-$", "@set");
    allow(&rig, "tank/a", "s-$@set", "hold");
    // Known before the dataset exists.
    let before = |permission: &str| rig.tree().dataset("tank/a").unwrap().is_granted_to_creator(permission, &user(7));
    assert!(before("destroy").unwrap() && before("snapshot").unwrap() && before("hold").unwrap());
    assert!(!before("mount").unwrap() && !may(&rig, "tank/a", "destroy", &user(7)));
    create_as(&rig, "tank/a/mine", 7).unwrap();
    assert_eq!(keys(&rig, "tank/a/mine"), ["Ul$7=@set", "ul$7=destroy,snapshot"]);
    assert!(may(&rig, "tank/a/mine", "hold", &user(7)) && !may(&rig, "tank/a/mine", "hold", &user(8)));
    // Clones too, but nothing is copied from their origin.
    allow(&rig, "tank/a/mine", "ul$9", "send");
    write::snapshot(&rig.live, &["tank/a/mine@s".to_owned()], &[]).unwrap();
    write::clone_for(&rig.live, Some(&user(8)), "tank/a/mine@s", "tank/clone", &[]).unwrap();
    assert_eq!(keys(&rig, "tank/clone"), ["ul$8=destroy"]);
    // The owner of the pools is a creator as any other.
    rig.create("tank/a/owner", &[]).unwrap();
    let (uid, _) = host::creator();
    assert_eq!(keys(&rig, "tank/a/owner"), [format!("Ul${uid}=@set"), format!("ul${uid}=destroy,snapshot")]);
    rig.check();
}

/// Facts: `dsl_enforce_ds_ss_limits`.
#[test]
fn limits_bind_users_who_may_not_change_them() {
    let rig = Rig::new();
    for name in ["tank/a", "tank/a/b", "tank/other"] {
        rig.create(name, &[]).unwrap();
    }
    rig.set("tank/a", "filesystem_limit", "2").unwrap();
    rig.set("tank/a", "snapshot_limit", "1").unwrap();
    let full = |result: Result<()>| assert_eq!(result.unwrap_err().refusal(), Some(Refusal::QuotaExceeded));
    create_as(&rig, "tank/a/c", 7).unwrap();
    full(create_as(&rig, "tank/a/b/d", 7));
    full(write::rename_for(&rig.live, Some(&user(7)), "tank/other", "tank/a/other"));
    let take = |name: &str, who: Option<&Credentials>| {
        let taken = write::snapshot_for(&rig.live, who, &[name.to_owned()], &[]);
        taken.map_err(|mut all| all.pop().unwrap().1)
    };
    take("tank/a/b@one", Some(&user(7))).unwrap();
    full(take("tank/a/c@two", Some(&user(7))));
    full(write::clone_for(&rig.live, Some(&user(7)), "tank/a/b@one", "tank/a/clone", &[]));
    // The owner, and users who may change the limit.
    take("tank/a/c@two", None).unwrap();
    allow(&rig, "tank/a", "ul$7", "filesystem_limit,snapshot_limit");
    take("tank/a/c@three", Some(&user(7))).unwrap();
    write::rename_for(&rig.live, Some(&user(7)), "tank/other", "tank/a/other").unwrap();
    // A clone elsewhere takes its origin's snapshots along when it is promoted.
    rig.create("tank/limited", &[]).unwrap();
    rig.set("tank/limited", "snapshot_limit", "0").unwrap();
    write::clone(&rig.live, "tank/a/b@one", "tank/limited/clone", &[]).unwrap();
    full(write::promote_for(&rig.live, Some(&user(7)), "tank/limited/clone", None));
    write::promote(&rig.live, "tank/limited/clone").unwrap();
    rig.check();
}

/// A user cannot delay a pool by a key whose derivation takes long.
#[test]
fn users_choose_no_unlimited_work_for_their_keys() {
    let rig = Rig::new();
    rig.create("tank/a", &[]).unwrap();
    let material = Zeroizing::new(b"a passphrase".to_vec());
    let create = |name: &str, iterations: &str| {
        let new = NewDataset {
            name: name.to_owned(),
            properties: crate::common::owned(&[
                ("encryption", "on"),
                ("keyformat", "passphrase"),
                ("pbkdf2iters", iterations),
            ]),
            key: Some(material.clone()),
            user: Some(user(7)),
            ..NewDataset::default()
        };
        write::create(&rig.live, &new, crate::common::MAKER)
    };
    let refused = |result: Result<()>| {
        let error = result.unwrap_err().to_string();
        assert!(error.contains("pbkdf2iters must be at most 10000000"), "{error}");
    };
    refused(create("tank/a/mine", "10000001"));
    refused(create("tank/a/mine", "4000000000"));
    create("tank/a/mine", "100000").unwrap();
    let key = |iterations: u64| {
        KeyChange::New(NewKey {
            format: KeyFormat::Passphrase,
            location: "prompt".into(),
            iterations: Some(iterations),
            material: material.clone(),
        })
    };
    refused(write::change_key_for(&rig.live, Some(&user(7)), "tank/a/mine", key(4_000_000_000)));
    write::change_key_for(&rig.live, Some(&user(7)), "tank/a/mine", key(100_001)).unwrap();
    assert_eq!(rig.get("tank/a/mine", "pbkdf2iters"), "100001");
    rig.check();
}

#[test]
fn a_clone_is_promoted_from_the_origin_that_was_checked() {
    let rig = Rig::new();
    rig.create("tank/a", &[]).unwrap();
    for name in ["tank/a@one", "tank/a@two"] {
        write::snapshot(&rig.live, &[name.to_owned()], &[]).unwrap();
    }
    write::clone(&rig.live, "tank/a@one", "tank/clone", &[]).unwrap();
    let id = |name: &str| Some(rig.tree().dataset(name).unwrap().id());
    for other in [Some(0), id("tank/a@two")] {
        let error = write::promote_for(&rig.live, Some(&user(7)), "tank/clone", other).unwrap_err().to_string();
        assert!(error.contains("its origin has just changed"), "{error}");
    }
    write::promote_for(&rig.live, Some(&user(7)), "tank/clone", id("tank/a@one")).unwrap();
    rig.check();
}
