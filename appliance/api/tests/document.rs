//! `openapi.json` is what the code says.

use std::collections::BTreeSet;

fn text() -> String {
    serde_json::to_string_pretty(&api::document()).expect("it is JSON") + "\n"
}

/// To update it: `WEIR_BLESS=1 cargo test -p weir-api`.
#[test]
fn the_document_that_is_checked_in_is_the_one_that_the_code_makes() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/openapi.json");
    if std::env::var_os("WEIR_BLESS").is_some() {
        std::fs::write(path, text()).expect("openapi.json can be written");
    }
    let checked_in = std::fs::read_to_string(path).unwrap_or_default();
    assert!(checked_in == text(), "openapi.json is outdated; WEIR_BLESS=1 cargo test -p weir-api updates it");
}

#[test]
fn every_schema_that_is_referred_to_is_there() {
    let document = api::document();
    let there: BTreeSet<&String> = document["components"]["schemas"].as_object().expect("an object").keys().collect();
    let text = document.to_string();
    let mut wanted = 0;
    for part in text.split("#/components/schemas/").skip(1) {
        let name: String = part.chars().take_while(char::is_ascii_alphanumeric).collect();
        assert!(there.contains(&name), "{name} is referenced and missing");
        wanted += 1;
    }
    assert!(wanted > there.len() / 2, "only {wanted} references were found");
}

#[test]
fn operations_have_names_of_their_own_and_places_of_their_own() {
    let mut ids = BTreeSet::new();
    let mut places = BTreeSet::new();
    for operation in api::operations() {
        assert!(ids.insert(operation.id), "{} is a duplicate", operation.id);
        assert!(
            places.insert((operation.method, operation.path)),
            "{} {} is a duplicate",
            operation.id,
            operation.path
        );
        assert!(operation.body.is_none() || !operation.is_read(), "{}: nothing is read of a GET's body", operation.id);
    }
}

#[test]
fn nothing_that_changes_a_pool_is_open_to_viewers() {
    for operation in api::operations() {
        let own =
            ["/v1/session", "/v1/tokens", "/v1/setup", "/v1/commands"].iter().any(|p| operation.path.starts_with(p));
        if !operation.is_read() && !own {
            assert!(operation.role >= Some(api::Role::Operator), "{}", operation.id);
        }
    }
}
