//! Values of `sharesmb`: `on`, `off`, or options; and the name of the share.
//!
//! On Linux, OpenZFS accepts only `on` and `off`. The options are those of illumos.

/// Sharing options of a file system for SMB.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SmbOptions {
    /// The name that clients see, instead of one derived from the dataset.
    pub name: Option<String>,
    pub read_only: bool,
    /// Users without an account may connect.
    pub guests: bool,
    /// Files that a user may not read are not listed.
    pub hides_unreadable: bool,
    /// Description that clients see.
    pub description: Option<String>,
}

impl SmbOptions {
    /// Parses the property's value; `None`: off.
    pub fn parse(text: &str) -> Result<Option<Self>, String> {
        let mut options = Self::default();
        match text {
            "off" | "" | "-" => return Ok(None),
            "on" => return Ok(Some(options)),
            _ => {}
        }
        for word in text.split(',') {
            let yes = |value: &str| match value {
                "true" => Ok(true),
                "false" => Ok(false),
                other => Err(format!("invalid value '{other}', expected true or false")),
            };
            match word.split_once('=').unwrap_or((word, "")) {
                ("ro", "") => options.read_only = true,
                ("rw", "") => options.read_only = false,
                ("guestok", value) => options.guests = yes(value)?,
                ("abe", value) => options.hides_unreadable = yes(value)?,
                ("name", name) if name == share_name(name) && !name.is_empty() => options.name = Some(name.to_owned()),
                ("name", name) => return Err(format!("'{name}' is not a valid share name")),
                ("description", text) if !text.is_empty() && !text.contains(char::is_control) => {
                    options.description = Some(text.to_owned());
                }
                _ => {
                    return Err(format!(
                        "unknown option '{word}', expected ro, rw, guestok=, abe=, name= or description="
                    ));
                }
            }
        }
        Ok(Some(options))
    }
}

/// Default name of a dataset's share: characters that are invalid in share names become
/// underscores.
pub fn share_name(dataset: &str) -> String {
    let fits = |c: char| !c.is_control() && !"%<>*?|/\\+=;:\",[]".contains(c);
    dataset.chars().map(|c| if fits(c) { c } else { '_' }).take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_understood_or_named() {
        assert_eq!(SmbOptions::parse("off"), Ok(None));
        assert_eq!(SmbOptions::parse("on"), Ok(Some(SmbOptions::default())));
        let all = SmbOptions::parse("ro,guestok=true,abe=true,name=docs,description=All papers").expect("right");
        let expected = SmbOptions {
            name: Some("docs".into()),
            read_only: true,
            guests: true,
            hides_unreadable: true,
            description: Some("All papers".into()),
        };
        assert_eq!(all, Some(expected));
        for wrong in ["maybe", "on,ro", "guestok=1", "name=", "name=a/b", "name=a]\nb", "ro=host", "description=a\nb"] {
            assert!(SmbOptions::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn names_of_shares_have_no_slashes() {
        assert_eq!(share_name("tank/home/ann:1"), "tank_home_ann_1");
        assert_eq!(share_name(&"x".repeat(200)).len(), 80);
    }
}
