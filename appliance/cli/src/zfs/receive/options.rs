//! The options of one call.

use crate::context::Failure;
use crate::getopt::Parsed;
use dataset::property::{find, full_name, is_user_property};

/// The options of one call.
pub(super) struct Asked {
    pub to: String,
    pub is_prefix: bool,
    pub is_tail: bool,
    pub is_dry: bool,
    pub verbose: bool,
    pub force: bool,
    pub force_unmount: bool,
    pub resumable: bool,
    pub skip_holds: bool,
    pub no_mount: bool,
    /// `-c`: the snapshot exists, and the stream heals its blocks.
    pub heals: bool,
    pub properties: AskedProperties,
}

impl Asked {
    pub fn new(parsed: &Parsed) -> Result<Self, Failure> {
        let to = match parsed.operands.as_slice() {
            [] => return Err(Failure::usage("missing snapshot argument")),
            [to] => to.clone(),
            _ => return Err(Failure::usage("too many arguments")),
        };
        if parsed.has('d') && parsed.has('e') {
            return Err(Failure::usage("invalid option combination: -d and -e are mutually exclusive"));
        }
        Ok(Self {
            to,
            is_tail: parsed.has('e'),
            is_prefix: parsed.has('d') || parsed.has('e'),
            is_dry: parsed.has('n'),
            verbose: parsed.has('v'),
            force: parsed.has('F'),
            force_unmount: parsed.has('M'),
            resumable: parsed.has('s'),
            skip_holds: parsed.has('h'),
            no_mount: parsed.has('u'),
            heals: parsed.has('c'),
            properties: AskedProperties::new(parsed)?,
        })
    }
}

/// Properties that describe the key of an encryption root.
const OF_KEYS: [&str; 4] = ["encryption", "keyformat", "keylocation", "pbkdf2iters"];

/// The properties of `-o` and `-x`.
#[derive(Default)]
pub(super) struct AskedProperties {
    /// `-o origin=snapshot`.
    pub origin: Option<String>,
    /// `-o`: names in full, and values.
    pub set: Vec<(String, String)>,
    /// `-x`: names in full.
    pub exclude: Vec<String>,
}

impl AskedProperties {
    pub fn new(parsed: &Parsed) -> Result<Self, Failure> {
        let mut asked = Self::default();
        for (letter, argument) in &parsed.given {
            let name = match (letter, argument.split_once('=')) {
                ('o', Some((name, value))) => {
                    asked.set.push((name.to_owned(), value.to_owned()));
                    name
                }
                ('o', None) => return Err(Failure::usage("missing '=' for property=value argument")),
                ('x', None) => {
                    asked.exclude.push(argument.clone());
                    argument
                }
                ('x', Some(_)) => {
                    return Err(Failure::usage("invalid property: a value does not go with -x"));
                }
                _ => continue,
            };
            let all = asked.set.iter().map(|(n, _)| n).chain(&asked.exclude);
            if all.filter(|other| *other == name).count() > 1 {
                return Err(Failure::failed(format!("property '{name}' specified multiple times")));
            }
            check(name)?;
        }
        // What the stream brings and what the dataset has go by names in full.
        asked.set.iter_mut().for_each(|(name, _)| *name = full_name(name).to_owned());
        asked.exclude.iter_mut().for_each(|name| *name = full_name(name).to_owned());
        if let Some(at) = asked.set.iter().position(|(name, _)| name == "origin") {
            asked.origin = Some(asked.set.remove(at).1);
        }
        Ok(asked)
    }
}

/// Whether it is one of the encryption properties.
pub(super) fn is_of_keys(name: &str) -> bool {
    OF_KEYS.contains(&name)
}

fn check(name: &str) -> Result<(), Failure> {
    if name == "origin" || is_user_property(name) {
        return Ok(());
    }
    if is_of_keys(name) {
        return Ok(());
    }
    match find(name) {
        Some(def) if !def.readonly() && !matches!(def.name, "version" | "volsize") => Ok(()),
        _ => Err(Failure::failed(format!("cannot receive: invalid property '{name}'"))),
    }
}
