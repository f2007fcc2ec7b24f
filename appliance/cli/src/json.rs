//! JSON documents as printed by `-j`: one line, members in a fixed order, numbers as strings unless
//! `--json-int`.

use serde_json::{Map, Value, json};

/// An object under construction.
pub type Object = Map<String, Value>;

/// A document with the member that contains the command and the version of the format.
pub fn document(command: &str) -> Object {
    let mut object = Object::new();
    object.insert("output_version".into(), json!({"command": command, "vers_major": 0, "vers_minor": 1}));
    object
}

/// A number: as a number with `--json-int`, else as a string.
pub fn number(number: u64, as_int: bool) -> Value {
    if as_int { number.into() } else { number.to_string().into() }
}

/// The value of a property: with `--json-int`, digits become a number.
pub fn value(text: &str, as_int: bool) -> Value {
    match text.parse::<u64>() {
        Ok(number) if as_int && text.bytes().all(|b| b.is_ascii_digit()) => number.into(),
        _ => text.into(),
    }
}

/// A property with value and source; `data` is the dataset from which a value is inherited.
pub fn property(text: &str, source: &str, data: &str, as_int: bool) -> Value {
    json!({"value": value(text, as_int), "source": {"type": source, "data": data}})
}

/// The document as one line of text.
pub fn line(object: Object) -> String {
    let mut text = Value::Object(object).to_string();
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_keep_their_order() {
        let mut object = document("zfs version");
        object.insert("b".into(), number(u64::MAX, true));
        object.insert("a".into(), property("24K", "NONE", "-", true));
        let expected = r#"{"output_version":{"command":"zfs version","vers_major":0,"vers_minor":1},"b":18446744073709551615,"a":{"value":"24K","source":{"type":"NONE","data":"-"}}}"#;
        assert_eq!(line(object), format!("{expected}\n"));
        assert_eq!(value("12", true), json!(12));
        assert_eq!(value("12", false), json!("12"));
        assert_eq!(value("", true), json!(""));
    }
}
