//! Lists that are given page by page.

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
    /// Pools that could be imported.
    ImportablePoolList of ImportablePool;
    /// Datasets, each after the one that it is in.
    DatasetList of Dataset;
    /// What keeps snapshots, by snapshot and tag.
    HoldList of Hold;
    /// Properties.
    PropertyList of Property;
    /// What properties there are.
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
    /// What was asked for, newest first.
    AuditList of AuditEntry;
    /// The configuration that is in force.
    SettingList of Setting;
}
