//! The list at the start of a package of streams: its datasets, with their properties.

use crate::context::Failure;
use dataset::property::Value;
use ondisk::nvlist::{Nvlist, Value as Field};
use ondisk::send_record::{Begin, Features};

/// The list at the start of a package.
pub(super) struct List {
    /// `-R`: the package includes all descendants.
    pub recursive: bool,
    /// The name of the snapshot that the package builds on.
    pub from: Option<String>,
    /// The name of the last snapshot.
    pub last: String,
    /// The package includes holds.
    pub holds: bool,
    /// `-w`: encrypted datasets are sent raw.
    pub raw: bool,
    /// The datasets of the package.
    pub members: Vec<Member>,
}

/// A dataset of a package.
pub(super) struct Member {
    /// The name in the sending pool.
    pub name: String,
    /// The guid of the parent dataset's snapshot that was sent with this dataset.
    pub parent: u64,
    /// The guid of the origin; 0: not a clone.
    pub origin: u64,
    /// The snapshots: name and guid.
    pub snapshots: Vec<(String, u64)>,
    fields: Nvlist,
}

impl List {
    /// Parses the payload of the package's BEGIN. `None`: the payload is empty.
    ///
    /// Fails if the payload is not a valid list.
    pub fn new(payload: &[u8], begin: &Begin) -> Result<Option<Self>, Failure> {
        if payload.is_empty() {
            return Ok(None);
        }
        let bad = || Failure::failed("cannot receive: invalid backup stream");
        let list = Nvlist::parse(payload).map_err(|_| bad())?;
        let members = list.get_nvlist("fss").ok_or_else(bad)?;
        let member = |fields: &Nvlist| -> Option<Member> {
            let snapshots = fields.get_nvlist("snaps")?.pairs.iter();
            Some(Member {
                name: fields.get_str("name")?.to_owned(),
                parent: fields.get_u64("parentfromsnap").unwrap_or(0),
                origin: fields.get_u64("origin").unwrap_or(0),
                snapshots: snapshots.filter_map(|s| Some((s.name_lossy().into_owned(), s.value.as_u64()?))).collect(),
                fields: fields.clone(),
            })
        };
        let members = members.pairs.iter().map(|pair| match &pair.value {
            Field::Nvlist(fields) => member(fields).ok_or_else(bad),
            _ => Err(bad()),
        });
        let to_name = String::from_utf8_lossy(&begin.to_name).into_owned();
        Ok(Some(Self {
            recursive: !list.contains("not_recursive"),
            from: list.get_str("fromsnap").map(str::to_owned),
            last: to_name.split_once('@').map_or_else(String::new, |(_, last)| last.to_owned()),
            holds: begin.features.contains(Features::HOLDS),
            raw: list.contains("raw"),
            members: members.collect::<Result<_, _>>()?,
        }))
    }

    /// The dataset that has the snapshot with that guid.
    pub fn of(&self, guid: u64) -> Option<&Member> {
        self.members.iter().find(|member| member.snapshot(guid).is_some())
    }

    /// The properties sent with the dataset of that snapshot.
    pub fn properties(&self, guid: u64) -> Option<Vec<(String, Value)>> {
        self.of(guid)?.fields.get_nvlist("props").map(values)
    }

    /// The properties sent with the snapshot.
    pub fn snapshot_properties(&self, guid: u64) -> Option<Vec<(String, Value)>> {
        let member = self.of(guid)?;
        member.fields.get_nvlist("snapprops")?.get_nvlist(member.snapshot(guid)?).map(values)
    }

    /// Whether the dataset was an encryption root, and its `keylocation`.
    pub fn encryption_root(&self, guid: u64) -> Option<(bool, Option<String>)> {
        let fields = &self.of(guid)?.fields;
        let location = fields.get_nvlist("props").and_then(|props| props.get_str("keylocation"));
        Some((fields.contains("is_encroot"), location.map(str::to_owned)))
    }

    /// The tags of the holds on a snapshot.
    pub fn snapshot_holds(&self, guid: u64) -> Vec<String> {
        let holds = self.of(guid).and_then(|member| {
            let holds = member.fields.get_nvlist("snapholds")?.get_nvlist(member.snapshot(guid)?)?;
            Some(holds.pairs.iter().map(|pair| pair.name_lossy().into_owned()).collect())
        });
        holds.unwrap_or_default()
    }
}

impl Member {
    /// The name of the snapshot with that guid.
    pub fn snapshot(&self, guid: u64) -> Option<&str> {
        self.snapshots.iter().find(|(_, other)| *other == guid).map(|(name, _)| name.as_str())
    }
}

fn values(list: &Nvlist) -> Vec<(String, Value)> {
    let value = |field: &Field| match field {
        Field::Uint64(n) => Some(Value::Number(*n)),
        Field::String(text) => Some(Value::Text(String::from_utf8_lossy(text).into_owned())),
        _ => None,
    };
    list.pairs.iter().filter_map(|pair| Some((pair.name_lossy().into_owned(), value(&pair.value)?))).collect()
}
