//! Paged lists.

use crate::{
    AuditEntry, Client, Dataset, Event, Hold, ImportablePool, Job, Pool, Property, PropertyDefinition, Setting, Share,
    Token, User,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

macro_rules! lists {
    ($($(#[$about:meta])* $name:ident of $item:ty;)*) => {$(
        $(#[$about])*
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
        pub struct $name {
            /// The items of this page.
            pub items: Vec<$item>,
            /// `cursor` of the next page; absent on the last one.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub next: Option<String>,
        }
    )*};
}

lists! {
    /// Pools that this process has imported.
    PoolList of Pool;
    /// Pools available for import.
    ImportablePoolList of ImportablePool;
    /// Datasets, each after its parent.
    DatasetList of Dataset;
    /// Holds, by snapshot and tag.
    HoldList of Hold;
    /// All properties of a pool or dataset.
    PropertyList of Property;
    /// Properties that can be set.
    PropertyDefinitionList of PropertyDefinition;
    /// File systems shared by NFS or SMB, by name.
    ShareList of Share;
    /// Clients of the file servers.
    ClientList of Client;
    /// Jobs, newest first.
    JobList of Job;
    /// Events, oldest first.
    EventList of Event;
    /// All users, by name.
    UserList of User;
    /// Tokens: all of them for administrators, otherwise one's own.
    TokenList of Token;
    /// Requests in the audit log, newest first.
    AuditList of AuditEntry;
    /// All settings of the daemon with their current values.
    SettingList of Setting;
}
