//! Users, groups and projects as people name them in properties: `userquota@ann`, `groupused@100`.
//!
//! Facts: userquota_propname_decode in lib/libzfs/libzfs_dataset.c.

use crate::verbs::{Kind, Reason};
use dataset::property::parse_size;
use dataset::quota::Principal;
use std::borrow::Cow;

/// A quota to set: of whom, the id, whether it counts objects, and the limit; 0: no limit.
pub type Quota = (Principal, u64, bool, u64);

/// Names and values of properties as a user writes them.
type Properties = Vec<(String, String)>;

/// The kind of principal that the name of a property begins with, and the rest of the name.
fn kind(property: &str) -> Option<(Principal, &str)> {
    let kinds = [("user", Principal::User), ("group", Principal::Group), ("project", Principal::Project)];
    kinds.into_iter().find_map(|(word, principal)| Some((principal, property.strip_prefix(word)?)))
}

/// Parses the name of a quota property: the kind of principal, whether it counts objects, and the
/// principal.
fn quota_of(name: &str) -> Option<(Principal, bool, &str)> {
    let (what, who) = name.split_once('@')?;
    let (principal, what) = kind(what)?;
    match what {
        "quota" => Some((principal, false, who)),
        "objquota" => Some((principal, true, who)),
        _ => None,
    }
}

/// Whether a property is a quota of a user, group or project.
pub fn is_quota(name: &str) -> bool {
    quota_of(name).is_some()
}

/// The id of a user, group or project. Names are those in the files of this machine: other sources
/// would need the C library, which may wait for the network.
fn id_of(principal: Principal, who: &str) -> Option<u64> {
    let file = match principal {
        Principal::User => Some("/etc/passwd"),
        Principal::Group => Some("/etc/group"),
        Principal::Project => None,
    };
    let table = file.and_then(|file| std::fs::read_to_string(file).ok()).unwrap_or_default();
    listed(&table, who).or_else(|| who.parse().ok())
}

/// The id of a name in a file such as /etc/passwd.
fn listed(table: &str, name: &str) -> Option<u64> {
    table.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next()? == name).then(|| fields.nth(1)?.parse().ok()).flatten()
    })
}

/// The id of a user with that name, or that id.
pub fn user(name: &str) -> Option<u32> {
    id_of(Principal::User, name)?.try_into().ok()
}

/// The id of a group with that name, or that id.
pub fn group(name: &str) -> Option<u32> {
    id_of(Principal::Group, name)?.try_into().ok()
}

/// The name of a user; `None`: this machine has none.
pub fn user_name(id: &str) -> Option<String> {
    named(&std::fs::read_to_string("/etc/passwd").ok()?, id)
}

/// The name of a group; `None`: this machine has none.
pub fn group_name(id: &str) -> Option<String> {
    named(&std::fs::read_to_string("/etc/group").ok()?, id)
}

/// The name with an id in a file such as /etc/passwd.
fn named(table: &str, id: &str) -> Option<String> {
    table.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == id).then(|| name.to_owned())
    })
}

/// The property with the id of its user or group: `userused@ann` is `userused@1000`. Other
/// properties are unchanged.
pub fn with_id(property: &str) -> Cow<'_, str> {
    let found = property.split_once('@').and_then(|(what, who)| {
        let (principal, rest) = kind(what)?;
        let is_number = matches!(rest, "used" | "objused" | "quota" | "objquota");
        is_number.then(|| id_of(principal, who)).flatten().map(|id| format!("{what}@{id}"))
    });
    found.map_or(Cow::Borrowed(property), Cow::Owned)
}

/// Parses the assignment of a quota property, such as `userquota@ann=10G`. `none` is 0: no limit.
pub fn quota(name: &str, value: &str) -> Result<Quota, Reason> {
    let invalid = |why: String| Reason::new(Kind::Invalid, why);
    let (principal, objects, who) = quota_of(name).ok_or_else(|| invalid(format!("invalid property '{name}'")))?;
    let id = id_of(principal, who).ok_or_else(|| invalid(format!("'{name}' has an invalid user/group name")))?;
    let limit = match value {
        "none" => 0,
        text => parse_size(text).map_err(invalid)?,
    };
    Ok((principal, id, objects, limit))
}

/// Separates the quotas of users, groups and projects from other properties.
pub fn split_quotas(properties: &[(String, String)]) -> Result<(Vec<Quota>, Properties), Reason> {
    let (quotas, others): (Vec<_>, Vec<_>) = properties.iter().cloned().partition(|(name, _)| is_quota(name));
    let quotas = quotas.iter().map(|(name, value)| quota(name, value)).collect::<Result<_, Reason>>()?;
    Ok((quotas, others))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_named_or_numbered() {
        let table = "root:x:0:0:root:/root:/bin/sh\nann:x:1000:1000::/home/ann:\n7:x:1007:7::/:\nbroken\n";
        assert_eq!(
            (listed(table, "ann"), listed(table, "root"), listed(table, "7")),
            (Some(1000), Some(0), Some(1007))
        );
        assert_eq!((listed(table, "bob"), listed(table, "broken")), (None, None));
        assert_eq!((named(table, "1000"), named(table, "1")), (Some("ann".to_owned()), None));
        assert_eq!(with_id("userused@root"), "userused@0");
        assert_eq!(
            (with_id("groupobjquota@root"), with_id("projectquota@5")),
            ("groupobjquota@0".into(), "projectquota@5".into())
        );
        for unchanged in ["used", "userused@no such user", "projectused@root", "written@root", "com.example:user@root"]
        {
            assert_eq!(with_id(unchanged), unchanged);
        }
    }

    #[test]
    fn quotas_are_parsed_apart_from_other_properties() {
        let pairs: Vec<_> = [("userquota@root", "1M"), ("compression", "on"), ("projectobjquota@7", "none")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into();
        let (quotas, others) = split_quotas(&pairs).expect("good");
        assert_eq!(quotas, [(Principal::User, 0, false, 1 << 20), (Principal::Project, 7, true, 0)]);
        assert_eq!(others, [("compression".to_owned(), "on".to_owned())]);
        let refused = |name: &str, value: &str| quota(name, value).expect_err(name).text;
        assert_eq!(refused("userquota@", "1"), "'userquota@' has an invalid user/group name");
        assert_eq!(refused("userquota@root", "much"), "bad numeric value 'much'");
        assert!(!is_quota("userused@root") && !is_quota("quota") && !is_quota("defaultuserquota"));
    }
}
