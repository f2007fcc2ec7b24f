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
            /// This page.
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
    /// Properties.
    PropertyList of Property;
    /// Properties that can be set.
    PropertyDefinitionList of PropertyDefinition;
    /// What is shared.
    ShareList of Share;
    /// Clients of the file servers.
    ClientList of Client;
    /// Jobs, newest first.
    JobList of Job;
    /// Events, oldest first.
    EventList of Event;
    /// Users.
    UserList of User;
    /// Tokens.
    TokenList of Token;
    /// Requests in the audit log, newest first.
    AuditList of AuditEntry;
    /// The current configuration.
    SettingList of Setting;
}
