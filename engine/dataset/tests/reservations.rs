//! Reservations of volumes: `auto`, and those that follow the size; and of clones.

use crate::common::{self, Rig};
use dataset::write::{self, NewDataset};
use errors::Refusal;

fn volume(rig: &Rig, name: &str, properties: &[(&str, &str)]) {
    let mut all = common::owned(&[("volsize", "16M"), ("volblocksize", "8K")]);
    all.extend(common::owned(properties));
    let new = NewDataset { name: name.into(), is_volume: true, properties: all, ..NewDataset::default() };
    write::create(&rig.live, &new, common::MAKER).unwrap();
}

#[test]
fn the_reservation_of_a_volume_follows_its_size_unless_it_was_set_to_another_value() {
    let rig = Rig::new();
    let needed = |bytes: u64| write::volume_reservation(&rig.found(), bytes, 8 << 10, 1).to_string();
    volume(&rig, "tank/thick", &[("refreservation", "auto")]);
    volume(&rig, "tank/thin", &[]);
    assert_eq!(rig.get("tank/thick", "refreservation"), needed(16 << 20));
    for name in ["tank/thick", "tank/thin"] {
        rig.set(name, "volsize", "8M").unwrap();
    }
    assert_eq!(rig.get("tank/thick", "refreservation"), needed(8 << 20));
    assert_eq!(rig.get("tank/thin", "refreservation"), "0");
    rig.set("tank/thick", "refreservation", "4M").unwrap();
    rig.set("tank/thick", "volsize", "16M").unwrap();
    assert_eq!(rig.get("tank/thick", "refreservation"), (4 << 20).to_string());
    rig.set("tank/thin", "refreservation", "auto").unwrap();
    assert_eq!(rig.get("tank/thin", "refreservation"), needed(8 << 20));
    // A refused size changes nothing.
    assert!(rig.set("tank/thin", "volsize", "12345").unwrap_err().to_string().contains("multiple of volume block"));
    assert_eq!(rig.get("tank/thin", "refreservation"), needed(8 << 20));
    assert!(rig.set("tank", "refreservation", "auto").unwrap_err().to_string().contains("only allowed on volumes"));
    rig.check();
}

#[test]
fn a_clone_can_reserve_what_its_size_takes_if_there_is_room() {
    let rig = Rig::new();
    volume(&rig, "tank/origin", &[]);
    write::snapshot(&rig.live, &["tank/origin@s".into()], &[]).unwrap();
    let auto = common::owned(&[("refreservation", "auto")]);
    write::clone(&rig.live, "tank/origin@s", "tank/clone", &auto).unwrap();
    let needed = write::volume_reservation(&rig.found(), 16 << 20, 8 << 10, 1);
    assert_eq!(rig.get("tank/clone", "refreservation"), needed.to_string());
    rig.check();
    let huge = common::owned(&[("refreservation", "1T")]);
    let refused = write::clone(&rig.live, "tank/origin@s", "tank/huge", &huge).unwrap_err();
    assert_eq!(refused.refusal(), Some(Refusal::NoSpace));
    rig.check();
}

#[test]
fn a_child_may_drop_the_normalization_of_its_parent_with_its_unicode_names() {
    let rig = Rig::new();
    rig.create("tank/a", &[("normalization", "formD")]).unwrap();
    rig.create("tank/a/plain", &[("utf8only", "off")]).unwrap();
    let of = |name: &str| (rig.get(name, "normalization"), rig.get(name, "utf8only"));
    assert_eq!(of("tank/a"), ("formD".into(), "on".into()));
    assert_eq!(of("tank/a/plain"), ("none".into(), "off".into()));
    assert!(rig.create("tank/b", &[("utf8only", "off"), ("normalization", "formC")]).is_err());
}
