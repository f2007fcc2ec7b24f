//! Compares `zpool get` of the sample pools with recorded output of OpenZFS.

use super::super::samples::{rz, tank};
use super::*;
use pool::property::Source;

fn options() -> GetOptions {
    GetOptions {
        fields: fields("all").expect("known"),
        scripted: false,
        literal: false,
        json: false,
        json_int: false,
        key_guid: false,
    }
}

fn wanted(list: &str) -> Option<Vec<Wanted>> {
    Some(values::wanted(list).expect("known"))
}

#[test]
fn values_make_columns_as_wide_as_their_names_suggest() {
    let mut pool = tank();
    pool.properties.comment = Some("hello".into());
    let expected = "NAME  PROPERTY  VALUE    SOURCE\ntank  comment   hello    local\n";
    assert_eq!(render(std::slice::from_ref(&pool), wanted("comment"), &options()), expected);
    let y = pool::property::SetValue::Text("y".into());
    pool.properties.set.insert("org.example:x".into(), y);
    let expected = "NAME  PROPERTY       VALUE          SOURCE\ntank  org.example:x  y              local\n";
    assert_eq!(render(&[pool], wanted("org.example:x"), &options()), expected);
    let scripted = GetOptions { scripted: true, ..options() };
    let expected = "rz\tsize\t352M\t-\nrz\thealth\tONLINE\t-\ntank\tsize\t112M\t-\ntank\thealth\tONLINE\t-\n";
    assert_eq!(render(&[rz(), tank()], wanted("size,health"), &scripted), expected);
}

#[test]
fn all_properties_begin_as_openzfs_lists_them() {
    let text = render(&[tank()], None, &options());
    let expected = "\
NAME  PROPERTY                       VALUE                          SOURCE
tank  size                           112M                           -
tank  capacity                       0%                             -
tank  altroot                        -                              default
tank  health                         ONLINE                         -
tank  guid                           8077149827012158919            -
";
    assert!(text.starts_with(expected), "{text}");
}

#[test]
fn json_is_the_document_of_openzfs() {
    let json = GetOptions { json: true, ..options() };
    let expected = r#"{"output_version":{"command":"zpool get","vers_major":0,"vers_minor":1},"pools":{"tank":{"name":"tank","type":"POOL","state":"ONLINE","pool_guid":"8077149827012158919","txg":"4","spa_version":"5000","zpl_version":"5","properties":{"ashift":{"value":"0","source":{"type":"DEFAULT","data":"-"}}}}}}"#;
    assert_eq!(render(&[tank()], wanted("ashift"), &json).trim_end(), expected);
}

#[test]
fn fields_are_chosen_once() {
    assert_eq!(fields("value,name").expect("known"), [Field::Value, Field::Name]);
    assert_eq!(fields("nosuch"), Err(Failure::usage("invalid column name 'nosuch'")));
    assert!(fields("name,all").is_err());
}

#[test]
fn a_raidz_has_properties_of_its_own() {
    let view = rz();
    let raidz = &view.status.root.children[0];
    let get = |name| vdev_properties::get(raidz, &view.status, &Default::default(), name, false).expect("known");
    assert_eq!(get("children"), ("children", "/tmp/v/c,/tmp/v/d,/tmp/v/e".into(), Source::None));
    assert_eq!(get("size").1, "234M");
    assert_eq!(get("parent").1, "rz");
    assert_eq!(get("allocating"), ("allocating", "on".into(), Source::Default));
    assert_eq!(get("checksum_n"), ("checksum_n", "-".into(), Source::Default));
    assert_eq!(get("trim_support"), ("trim_support", "-".into(), Source::None));
}
