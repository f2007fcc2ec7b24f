//! Compares the catalogue with the output of `zpool get -Hp all` in OpenZFS 2.3.

use super::*;

fn shown(p: &Property) -> String {
    let value = match &p.value {
        Value::Absent => "-".to_owned(),
        Value::Number(n) if p.def.is_some_and(|d| d.kind == Kind::Ratio) => format!("{}.{:02}", n / 100, n % 100),
        Value::Number(n) => n.to_string(),
        Value::Text(t) => t.clone(),
    };
    let source = match p.source {
        Source::None => "-",
        Source::Default => "default",
        Source::Local => "local",
    };
    format!("{} {value} {source}", p.name)
}

/// An old pool with no property set: the recorded output for the image `version28`.
#[test]
fn an_old_pool_shows_every_property_in_order() {
    let context = PropertyContext {
        guid: 8012281005717583447,
        load_guid: 11737675588106880535,
        version: 28,
        health: "ONLINE".into(),
        stats: PoolStats {
            size_bytes: 50331648,
            allocated_bytes: 1139200,
            free_bytes: 49192448,
            ..PoolStats::default()
        },
        ..PropertyContext::default()
    };
    let lines: Vec<String> = context.all().iter().map(shown).collect();
    let expected = "size 50331648 -|capacity 2 -|altroot - default|health ONLINE -|guid 8012281005717583447 -|\
        version 28 local|bootfs - default|delegation on default|autoreplace off default|cachefile - default|\
        failmode wait default|listsnapshots off default|autoexpand off default|dedupratio 1.00 -|free 49192448 -|\
        allocated 1139200 -|readonly off -|ashift 0 default|comment - default|expandsize - -|freeing 0 -|\
        fragmentation - -|leaked 0 -|multihost off default|checkpoint - -|load_guid 11737675588106880535 -|\
        autotrim off default|compatibility off default|bcloneused 0 -|bclonesaved 0 -|bcloneratio 1.00 -|\
        dedup_table_size 0 -|dedup_table_quota auto default|last_scrubbed_txg 0 -";
    assert_eq!(lines[..34].join("|"), expected);
    assert_eq!(lines.len(), 34 + FEATURES_2_3.len());
    assert_eq!(lines[34], "feature@async_destroy disabled local");
    assert_eq!(lines.last().expect("not empty"), "feature@large_microzap disabled local");
}

#[test]
fn features_are_disabled_enabled_or_active() {
    let mut context = PropertyContext { version: 5000, ..PropertyContext::default() };
    context.features.for_read.insert("org.illumos:lz4_compress".into(), 3);
    context.features.for_write.insert("com.delphix:async_destroy".into(), 0);
    context.features.for_read.insert("org.example:future".into(), 1);
    let state = |name: &str| context.get(name).map(|p| p.value);
    assert_eq!(state("feature@lz4_compress"), Some(Value::Text("active".into())));
    assert_eq!(state("feature@async_destroy"), Some(Value::Text("enabled".into())));
    assert_eq!(state("feature@skein"), Some(Value::Text("disabled".into())));
    assert_eq!(state("feature@nosuch"), None);
    assert_eq!(state("unsupported@org.example:future"), Some(Value::Text("readonly".into())));
    assert!(context.lacks_features(|_| true) && !context.lacks_features(|name| name == "async_destroy"));
    assert!(context.has_superfluous_features(|name| name == "async_destroy"));
    assert!(!context.has_superfluous_features(|name| matches!(name, "async_destroy" | "lz4_compress")));
}

#[test]
fn set_properties_are_local() {
    let mut context = PropertyContext { comment: Some("hello".into()), ..PropertyContext::default() };
    context.set.insert("autotrim".into(), SetValue::Number(1));
    context.set.insert("failmode".into(), SetValue::Number(99));
    context.set.insert("org.example:x".into(), SetValue::Text("y".into()));
    let of = |name: &str| shown(&context.get(name).expect(name));
    assert_eq!(of("autotrim"), "autotrim on local");
    assert_eq!(of("failmode"), "failmode 99 local");
    assert_eq!(of("comment"), "comment hello local");
    assert_eq!(of("org.example:x"), "org.example:x y local");
    assert_eq!(of("alloc"), "allocated 0 -");
    assert_eq!(of("org.example:none"), "org.example:none - default");
    assert!(context.get("nosuch").is_none());
}

/// The short names that OpenZFS's commands accept (module/zcommon/zpool_prop.c), without those that
/// differ only in case.
#[test]
fn short_names_are_those_of_openzfs() {
    let short = CATALOGUE.iter().map(|d| (d.column.to_ascii_lowercase(), d.name)).filter(|(short, name)| short != name);
    let text: Vec<String> = short.clone().map(|(short, name)| format!("{short}={name}")).collect();
    assert_eq!(
        text.join(" "),
        "cap=capacity replace=autoreplace listsnaps=listsnapshots expand=autoexpand dedup=dedupratio alloc=allocated \
         rdonly=readonly expandsz=expandsize frag=fragmentation ckpoint=checkpoint bclone_used=bcloneused \
         bclone_saved=bclonesaved bclone_ratio=bcloneratio ddtsize=dedup_table_size ddtquota=dedup_table_quota"
    );
    for (short, name) in short {
        assert_eq!(full_name(&short), name);
    }
    assert!(find("EXPAND").is_none());
}

#[test]
fn columns_are_as_wide_as_openzfs_makes_them() {
    let width = |name: &str| find(name).expect(name).width();
    let widths = ["size", "fragmentation", "capacity", "dedupratio", "health", "altroot", "checkpoint", "expandsize"];
    assert_eq!(widths.map(width), [5, 5, 5, 5, 8, 7, 7, 8]);
}
