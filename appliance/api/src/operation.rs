//! The table of operations: path, required role, parameters and response of each.
//!
//! The daemon takes the roles of its routes from this table, `openapi.json` its paths; the tests
//! use both.
//!
//! Invariants:
//!   * an operation that is not in the table is not served
//!   * an operation without a role is open to any client that reaches the port: it reveals nothing
//!     about pools

use crate::Role;

/// HTTP methods in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Method {
    /// Reads; changes nothing.
    Get,
    /// Creates an object or performs an action.
    Post,
    /// Replaces an object as a whole.
    Put,
    /// Changes the named parts of an object.
    Patch,
    /// Removes an object.
    Delete,
}

impl Method {
    /// As HTTP spells it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }
}

/// Where a parameter is placed in the URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// In the path; percent-encoded, so that `/` is `%2F`.
    Path,
    /// In the query string.
    Query,
}

/// A parameter of an operation in the path or the query string.
#[derive(Debug, Clone, Copy)]
pub struct Param {
    /// Name in the path template or the query string.
    pub name: &'static str,
    pub place: Place,
    /// Type: `string`, `integer` or `boolean`.
    pub kind: &'static str,
    /// Description for `openapi.json`, with range and default.
    pub help: &'static str,
}

/// Response to a successful request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply {
    /// 200 with this schema.
    Json(&'static str),
    /// 201 with this schema.
    Created(&'static str),
    /// 204, without a body.
    Nothing,
    /// 200, server-sent events whose data have this schema.
    Events(&'static str),
    /// 200, one document of this schema a line.
    Lines(&'static str),
    /// 200, a file of one of these types.
    File(&'static [&'static str]),
    /// 200, a table: CSV, or one document of this schema a line.
    Table(&'static str),
}

/// A row of the table.
#[derive(Debug, Clone, Copy)]
pub struct Operation {
    /// Unique name: `operationId` in `openapi.json`; the daemon finds the handler by it.
    pub id: &'static str,
    pub method: Method,
    /// Path with `{parameters}`, relative to the root of the server.
    pub path: &'static str,
    /// Lowest role that may perform it; `None`: no authentication is required.
    pub role: Option<Role>,
    /// Summary for `openapi.json`: what it does, in a sentence.
    pub summary: &'static str,
    /// Query parameters. Those of the path follow from `path`.
    pub params: &'static [Param],
    /// Schema of the request's body.
    pub body: Option<&'static str>,
    /// Response to a successful request.
    pub reply: Reply,
}

impl Operation {
    /// Group in `openapi.json`: the first part of the path after `/v1/`, or `service`.
    pub fn tag(&self) -> &'static str {
        let rest = self.path.strip_prefix("/v1/").unwrap_or("service");
        rest.split('/').next().unwrap_or(rest)
    }

    /// Whether it changes nothing.
    pub fn is_read(&self) -> bool {
        self.method == Method::Get
    }

    const fn query(mut self, params: &'static [Param]) -> Self {
        self.params = params;
        self
    }

    const fn takes(mut self, schema: &'static str) -> Self {
        self.body = Some(schema);
        self
    }

    const fn created(mut self, schema: &'static str) -> Self {
        self.reply = Reply::Created(schema);
        self
    }

    const fn gives(mut self, reply: Reply) -> Self {
        self.reply = reply;
        self
    }

    const fn json(mut self, schema: &'static str) -> Self {
        self.reply = Reply::Json(schema);
        self
    }
}

const fn op(
    method: Method,
    path: &'static str,
    id: &'static str,
    role: Option<Role>,
    summary: &'static str,
) -> Operation {
    Operation { id, method, path, role, summary, params: &[], body: None, reply: Reply::Nothing }
}

const ANYBODY: Option<Role> = None;
const VIEWER: Option<Role> = Some(Role::Viewer);
const OPERATOR: Option<Role> = Some(Role::Operator);
const ADMINISTRATOR: Option<Role> = Some(Role::Administrator);

const fn text(name: &'static str, help: &'static str) -> Param {
    Param { name, place: Place::Query, kind: "string", help }
}

const fn number(name: &'static str, help: &'static str) -> Param {
    Param { name, place: Place::Query, kind: "integer", help }
}

const LIMIT: Param = number("limit", "Maximum number of items per page: 1 to 1000, default 100.");
const CURSOR: Param = text("cursor", "`next` of the previous page.");
const PAGE: &[Param] = &[LIMIT, CURSOR];
const DATASETS: &[Param] = &[
    text("root", "A pool or dataset: only it and its descendants."),
    number("depth", "Depth below `root`; 0: only `root`, 1: also its children."),
    text("kind", "Kinds, separated by commas: `filesystem`, `volume` (the default is both), `snapshot`, `bookmark`."),
    text("search", "Only names that contain this."),
    LIMIT,
    CURSOR,
];
const fn flag(name: &'static str, help: &'static str) -> Param {
    Param { name, place: Place::Query, kind: "boolean", help }
}

const PREVIEW: &[Param] = &[
    flag("recursive", "Same as `recursive` of the destroy request."),
    flag("clones", "Same as `clones` of the destroy request."),
];
const HOLDS: &[Param] = &[flag("recursive", "For a snapshot: also those of the same name below."), LIMIT, CURSOR];
const EVENTS: &[Param] = &[number("after", "Only events with a greater number."), LIMIT];
const STREAM: &[Param] = &[text(
    "topics",
    "Topics, separated by commas: `events`, `pools`, `jobs`, `datasets`, `clients`, `health`; default all.",
)];
const COMMAND_OUTPUT: &[Param] = &[text("id", "ID of the question.")];
const PLACES: &[Param] = &[text("place", "A folder or device to search, instead of the default places.")];
const COUNT: &[Param] = &[LIMIT, text("cursor", "`next` of the previous page, for older items.")];

const NAME: Param = text("name", "A statistic, such as `nfs3.ops[op=read][latency]`.");
const FROM: Param = number("from", "First second, since 1970; default a minute ago.");
const TO: Param = number("to", "End (exclusive), in seconds since 1970; default now.");
const QUERY: &[Param] = &[
    NAME,
    FROM,
    TO,
    number("step", "Seconds per column; default 1."),
    number(
        "rows",
        "For a heat map: maximum number of rows, 1 to 4096; rows of the scheme are merged, never split. Keys are their numbers.",
    ),
    text("scale", "Scale of these rows: `linear` (default) or `log`."),
    number("top", "Values from this number on are summed up in the last row."),
];
const RECORDED: &[Param] = &[
    NAME,
    FROM,
    TO,
    number("slower_than_ns", "Only operations that took longer."),
    number("limit", "Maximum number: the last ones, in order of time. 1 to 10000, default 1000."),
    Param {
        name: "follow",
        place: Place::Query,
        kind: "boolean",
        help: "New operations as they happen: `application/x-ndjson`, one operation per line, until the client disconnects.",
    },
];
const COLUMNS: &[Param] = &[
    text("name", "A statistic; may be repeated up to 32 times."),
    number("after", "Start after this second, at most 15 minutes back; same as `Last-Event-ID`."),
];
const EXPLAIN: &[Param] = &[
    NAME,
    FROM,
    TO,
    number("low", "Lower edge of the rectangle, in the unit of the breakdown of `name`."),
    number("high", "Upper edge (exclusive)."),
    number("among_from", "Start of the span to compare with; default 5 minutes before `from`."),
    number("among_to", "End of that span; default `to`."),
];

const PICTURE: &[Param] = &[
    NAME,
    FROM,
    TO,
    number("step", "Seconds per column; default: the shortest with at most one column per pixel."),
    text("format", "`png` (default) or `svg`."),
    number("width", "Width of the plot area in pixels, 1 to 4096; default 600."),
    number("height", "Height of the plot area in pixels, 1 to 4096; default 300."),
    number("rows", "For a heat map: maximum number of rows, at most 1000 and the height; default 100."),
    text("palette", "For a heat map: `cividis` (default), `viridis`, `inferno`, `grey`, `classic`."),
    text("coloring", "For a heat map: by `rank` (default), `linear` or `log`."),
    text("scale", "Vertical axis of a heat map: `linear` (default) or `log`."),
    text("outliers", "Percentage of the largest values of a heat map to leave out: `5`, `1`, `0.1`, `0.01` or `none`."),
    number("low", "For a heat map: lower edge."),
    number("high", "For a heat map: upper edge (exclusive)."),
    text("shape", "For other statistics: `lines` (default) or `stacked`."),
    text("theme", "Theme: `light` (default) or `dark`."),
    Param {
        name: "plain",
        place: Place::Query,
        kind: "boolean",
        help: "Only the plot area, without axes, title and legend.",
    },
];
const EXPORT: &[Param] = &[
    NAME,
    FROM,
    TO,
    number("step", "Seconds per column; default 1."),
    text("format", "`csv` (default), or `json`: one document per line."),
];

const OPERATIONS: &[Operation] = &[
    // The process.
    op(Method::Get, "/healthz", "getHealth", ANYBODY, "Whether the process is healthy; 503 if not.").json("HealthReply"),
    op(Method::Get, "/readyz", "getReadiness", ANYBODY, "Whether all pools are imported and served; 503 if not.")
        .json("HealthReply"),
    op(
        Method::Get,
        "/metrics",
        "getMetrics",
        VIEWER,
        "All metrics in Prometheus's text format, or on request in its protobuf format with native histograms.",
    )
    .gives(Reply::File(&["text/plain", "application/vnd.google.protobuf"])),
    op(Method::Get, "/v1/version", "getVersion", ANYBODY, "Versions.").json("Version"),
    op(Method::Get, "/v1/system", "getSystem", VIEWER, "Resources used by the process.").json("System"),
    op(
        Method::Get,
        "/v1/health",
        "getSystemHealth",
        VIEWER,
        "The verdict on pools, devices, space, scrubs, replication, certificate, clients and alerts, with its reasons.",
    )
    .json("SystemHealth"),
    op(Method::Get, "/v1/settings", "listSettings", ADMINISTRATOR, "The current configuration.")
        .json("SettingList"),
    op(Method::Patch, "/v1/settings", "changeSettings", ADMINISTRATOR, "Changes settings, also for later starts.")
        .takes("ChangeSettings")
        .json("SettingsChanged"),
    op(
        Method::Post,
        "/v1/settings/reload",
        "reloadSettings",
        ADMINISTRATOR,
        "Re-reads the configuration file and the certificate, without disconnecting clients.",
    )
    .json("SettingsChanged"),
    // Users, sessions and tokens.
    op(Method::Get, "/v1/setup", "getSetup", ANYBODY, "Whether the first administrator has not been created yet.")
        .json("SetupState"),
    op(
        Method::Post,
        "/v1/setup",
        "setUp",
        ANYBODY,
        "Creates the first administrator, with the token of the link, and logs in.",
    )
    .takes("Setup")
    .created("Session"),
    op(Method::Post, "/v1/session", "logIn", ANYBODY, "Logs in: sets the cookie and returns the CSRF token.")
        .takes("Login")
        .created("Session"),
    op(Method::Get, "/v1/session", "getSession", VIEWER, "The current user and role.").json("Session"),
    op(Method::Delete, "/v1/session", "logOut", VIEWER, "Logs out."),
    op(
        Method::Put,
        "/v1/session/password",
        "changePassword",
        VIEWER,
        "Changes the caller's password; other sessions end.",
    )
    .takes("ChangePassword"),
    op(Method::Get, "/v1/users", "listUsers", ADMINISTRATOR, "Users.").json("UserList"),
    op(Method::Post, "/v1/users", "createUser", ADMINISTRATOR, "Creates a user.").takes("CreateUser").created("User"),
    op(Method::Patch, "/v1/users/{user}", "changeUser", ADMINISTRATOR, "Changes a user's role or password.")
        .takes("ChangeUser")
        .json("User"),
    op(Method::Delete, "/v1/users/{user}", "deleteUser", ADMINISTRATOR, "Removes a user with all sessions and tokens."),
    op(Method::Get, "/v1/tokens", "listTokens", VIEWER, "Tokens of the caller; for an administrator, all tokens.").json("TokenList"),
    op(Method::Post, "/v1/tokens", "createToken", VIEWER, "Creates a token for the caller.")
        .takes("CreateToken")
        .created("CreatedToken"),
    op(
        Method::Delete,
        "/v1/tokens/{token}",
        "deleteToken",
        VIEWER,
        "Removes a token of the caller; for an administrator, any token.",
    ),
    op(Method::Get, "/v1/audit", "listAudit", ADMINISTRATOR, "Requests in the audit log, newest first.")
        .query(COUNT)
        .json("AuditList"),
    // Pools.
    op(Method::Get, "/v1/pools", "listPools", VIEWER, "Imported pools.").json("PoolList"),
    op(Method::Post, "/v1/pools", "createPool", ADMINISTRATOR, "Creates a pool from devices or files.")
        .takes("CreatePool")
        .created("PoolDetail"),
    op(Method::Get, "/v1/importable", "listImportablePools", ADMINISTRATOR, "Pools available for import.")
        .query(PLACES)
        .json("ImportablePoolList"),
    op(Method::Post, "/v1/import", "importPool", ADMINISTRATOR, "Imports a pool.")
        .takes("ImportPool")
        .json("PoolDetail"),
    op(Method::Get, "/v1/pools/{pool}", "getPool", VIEWER, "A pool with its devices.").json("PoolDetail"),
    op(Method::Get, "/v1/pools/{pool}/properties", "listPoolProperties", VIEWER, "All properties of a pool.")
        .json("PropertyList"),
    op(Method::Patch, "/v1/pools/{pool}/properties", "setPoolProperties", ADMINISTRATOR, "Sets properties of a pool.")
        .takes("ChangeProperties")
        .json("PropertyList"),
    op(Method::Post, "/v1/pools/{pool}/export", "exportPool", ADMINISTRATOR, "Exports a pool; its shares end.")
        .takes("ExportPool"),
    op(
        Method::Post,
        "/v1/pools/{pool}/destroy",
        "destroyPool",
        ADMINISTRATOR,
        "Destroys a pool and all its data.",
    )
    .takes("Confirm"),
    op(Method::Post, "/v1/pools/{pool}/sync", "syncPool", OPERATOR, "Writes all pending changes to disk."),
    op(
        Method::Post,
        "/v1/pools/{pool}/clear",
        "clearPool",
        OPERATOR,
        "Clears errors and retries failed devices.",
    )
    .takes("ClearPool")
    .json("PoolDetail"),
    // Datasets.
    op(Method::Get, "/v1/datasets", "listDatasets", VIEWER, "Datasets, each after its parent.")
        .query(DATASETS)
        .json("DatasetList"),
    op(Method::Post, "/v1/datasets", "createDataset", OPERATOR, "Creates a file system or volume.")
        .takes("CreateDataset")
        .created("DatasetDetail"),
    op(
        Method::Get,
        "/v1/datasets/{dataset}",
        "getDataset",
        VIEWER,
        "A dataset, snapshot or bookmark with its properties.",
    )
    .json("DatasetDetail"),
    op(
        Method::Patch,
        "/v1/datasets/{dataset}/properties",
        "setDatasetProperties",
        OPERATOR,
        "Sets or inherits properties of a dataset.",
    )
    .takes("ChangeProperties")
    .json("DatasetDetail"),
    op(
        Method::Post,
        "/v1/datasets/{dataset}/rename",
        "renameDataset",
        OPERATOR,
        "Renames a dataset within its pool.",
    )
    .takes("RenameDataset")
    .json("DatasetDetail"),
    op(
        Method::Post,
        "/v1/datasets/{dataset}/destroy",
        "destroyDataset",
        ADMINISTRATOR,
        "Destroys a dataset and all its data, or snapshots of one dataset: `pool/a@b,c,d%e` means b, c, and d to e.",
    )
    .takes("DestroyDataset"),
    op(
        Method::Get,
        "/v1/datasets/{dataset}/destroy",
        "previewDestroy",
        OPERATOR,
        "What a destroy would remove, and how much space it would free. Nothing is destroyed.",
    )
    .query(PREVIEW)
    .json("DestroyPreview"),
    op(Method::Post, "/v1/datasets/{dataset}/load-key", "loadKey", OPERATOR, "Loads the key of an encrypted dataset.")
        .takes("LoadKey")
        .json("DatasetDetail"),
    op(
        Method::Post,
        "/v1/datasets/{dataset}/unload-key",
        "unloadKey",
        OPERATOR,
        "Unloads the key of an encrypted dataset.",
    )
    .json("DatasetDetail"),
    // Snapshots.
    op(
        Method::Post,
        "/v1/snapshots",
        "createSnapshots",
        OPERATOR,
        "Takes snapshots atomically: all or none. Returns the named ones.",
    )
    .takes("CreateSnapshots")
    .created("DatasetList"),
    op(
        Method::Post,
        "/v1/datasets/{dataset}/rollback",
        "rollBack",
        ADMINISTRATOR,
        "Rolls a file system or volume back to this snapshot; later changes are lost.",
    )
    .takes("RollBack")
    .json("DatasetDetail"),
    op(Method::Post, "/v1/datasets/{dataset}/clone", "cloneSnapshot", OPERATOR, "Clones a snapshot into a dataset.")
        .takes("CloneSnapshot")
        .created("DatasetDetail"),
    op(
        Method::Post,
        "/v1/datasets/{dataset}/promote",
        "promoteClone",
        OPERATOR,
        "Promotes a clone: snapshots of its origin up to the cloned one become its own.",
    )
    .json("DatasetDetail"),
    op(
        Method::Post,
        "/v1/datasets/{dataset}/bookmark",
        "createBookmark",
        OPERATOR,
        "Creates a bookmark of a snapshot or bookmark.",
    )
    .takes("CreateBookmark")
    .created("DatasetDetail"),
    op(
        Method::Get,
        "/v1/datasets/{dataset}/holds",
        "listHolds",
        VIEWER,
        "Holds on a snapshot, or on all snapshots of a dataset.",
    )
    .query(HOLDS)
    .json("HoldList"),
    op(Method::Post, "/v1/datasets/{dataset}/hold", "holdSnapshot", OPERATOR, "Places a hold on a snapshot.")
        .takes("HoldSnapshot")
        .json("HoldList"),
    op(
        Method::Post,
        "/v1/datasets/{dataset}/release",
        "releaseSnapshot",
        OPERATOR,
        "Releases a hold on a snapshot, and destroys the snapshot if that was deferred.",
    )
    .takes("HoldSnapshot"),
    op(Method::Get, "/v1/properties", "listPropertyDefinitions", VIEWER, "Properties that can be set, for forms.")
        .json("PropertyDefinitionList"),
    // Shares and their clients.
    op(Method::Get, "/v1/shares", "listShares", VIEWER, "File systems whose `sharenfs` or `sharesmb` is not off.")
        .query(PAGE)
        .json("ShareList"),
    op(Method::Put, "/v1/shares/{dataset}", "setShare", OPERATOR, "Sets `sharenfs` or `sharesmb` of a file system.")
        .takes("SetShare")
        .json("Share"),
    op(Method::Get, "/v1/clients", "listClients", VIEWER, "Clients of the file servers, with their rates.")
        .json("ClientList"),
    // Jobs.
    op(
        Method::Get,
        "/v1/jobs",
        "listJobs",
        VIEWER,
        "Jobs, newest first; the last 100 finished ones are kept, across restarts.",
    )
    .json("JobList"),
    op(Method::Post, "/v1/jobs", "startJob", OPERATOR, "Starts a job.").takes("StartJob").created("Job"),
    op(Method::Get, "/v1/jobs/{job}", "getJob", VIEWER, "A job.").json("Job"),
    op(Method::Post, "/v1/jobs/{job}/cancel", "cancelJob", OPERATOR, "Stops a running job.").json("Job"),
    // Events.
    op(
        Method::Get,
        "/v1/events",
        "listEvents",
        VIEWER,
        "Recent events; the last 10,000 are kept, across restarts.",
    )
    .query(EVENTS)
    .json("EventList"),
    op(Method::Get, "/v1/events/stream", "streamEvents", VIEWER, "Changes as they happen: server-sent events.")
        .query(STREAM)
        .gives(Reply::Events("LiveMessage")),
    // Analytics.
    op(Method::Get, "/v1/analytics/statistics", "listStatistics", VIEWER, "Available statistics.")
        .json("StatisticList"),
    op(Method::Get, "/v1/analytics/datasets", "listCounted", VIEWER, "Statistics that are counted, with sizes and costs.")
        .json("CountedList"),
    op(Method::Post, "/v1/analytics/datasets", "countStatistic", OPERATOR, "Counts a statistic from now on.")
        .takes("CountStatistic")
        .created("Counted"),
    op(
        Method::Patch,
        "/v1/analytics/datasets/{counted}",
        "changeCounted",
        OPERATOR,
        "Suspends or resumes a statistic.",
    )
    .takes("ChangeCounted")
    .json("Counted"),
    op(
        Method::Delete,
        "/v1/analytics/datasets/{counted}",
        "deleteCounted",
        OPERATOR,
        "Stops counting a statistic and deletes its data.",
    ),
    op(
        Method::Post,
        "/v1/analytics/datasets/{counted}/prune",
        "pruneCounted",
        OPERATOR,
        "Deletes data of a statistic from before a time.",
    )
    .takes("PruneCounted")
    .json("Counted"),
    op(
        Method::Get,
        "/v1/analytics/query",
        "queryStatistic",
        VIEWER,
        "Values of a statistic. If it was not counted, they are computed as far back as operations are recorded.",
    )
    .query(QUERY)
    .json("StatisticData"),
    op(
        Method::Get,
        "/v1/analytics/stream",
        "streamStatistics",
        VIEWER,
        "Values of statistics, one message per second: server-sent events. They are counted while a client is connected.",
    )
    .query(COLUMNS)
    .gives(Reply::Events("LiveColumns")),
    op(
        Method::Get,
        "/v1/analytics/operations",
        "listOperations",
        VIEWER,
        "Single operations of a statistic, as far back as they are recorded, or as they happen.",
    )
    .query(RECORDED)
    .json("RecordedOperationList"),
    op(
        Method::Get,
        "/v1/analytics/explain",
        "explainStatistic",
        VIEWER,
        "What distinguishes the operations in a rectangle of a heat map.",
    )
    .query(EXPLAIN)
    .json("StatisticExplanation"),
    op(Method::Get, "/v1/analytics/worksheets", "listWorksheets", VIEWER, "Saved worksheets, by title.")
        .json("WorksheetList"),
    op(
        Method::Post,
        "/v1/analytics/worksheets",
        "createWorksheet",
        OPERATOR,
        "Saves a worksheet, and archives its statistics from now on.",
    )
    .takes("SaveWorksheet")
    .created("Worksheet"),
    op(Method::Get, "/v1/analytics/worksheets/{worksheet}", "getWorksheet", VIEWER, "A worksheet.").json("Worksheet"),
    op(
        Method::Put,
        "/v1/analytics/worksheets/{worksheet}",
        "saveWorksheet",
        OPERATOR,
        "Updates a worksheet, and archives its statistics.",
    )
    .takes("SaveWorksheet")
    .json("Worksheet"),
    op(
        Method::Delete,
        "/v1/analytics/worksheets/{worksheet}",
        "deleteWorksheet",
        OPERATOR,
        "Removes a worksheet; its statistics are still counted.",
    ),
    op(
        Method::Get,
        "/v1/analytics/picture",
        "drawStatistic",
        VIEWER,
        "A heat map or graph of a statistic, as the page draws it.",
    )
    .query(PICTURE)
    .gives(Reply::File(&["image/png", "image/svg+xml"])),
    op(Method::Get, "/v1/analytics/export", "exportStatistic", VIEWER, "Values of a statistic, as a table.")
        .query(EXPORT)
        .gives(Reply::Table("ExportedValue")),
    op(Method::Get, "/v1/analytics/alerts", "listAlerts", OPERATOR, "Alerts: thresholds on statistics, and receivers.")
        .json("AlertList"),
    op(Method::Post, "/v1/analytics/alerts", "createAlert", OPERATOR, "Creates an alert.")
        .takes("AlertRule")
        .created("Alert"),
    op(Method::Get, "/v1/analytics/alerts/{alert}", "getAlert", OPERATOR, "An alert.").json("Alert"),
    op(Method::Put, "/v1/analytics/alerts/{alert}", "replaceAlert", OPERATOR, "Replaces the definition of an alert.")
        .takes("AlertRule")
        .json("Alert"),
    op(
        Method::Delete,
        "/v1/analytics/alerts/{alert}",
        "deleteAlert",
        OPERATOR,
        "Removes an alert and its pending notifications.",
    ),
    // The command line.
    op(
        Method::Post,
        "/v1/commands",
        "runCommand",
        VIEWER,
        "Runs `zpool` or `zfs` with these arguments; only administrators can run commands that change something, and local users to whom `zfs allow` delegated it.",
    )
    .takes("CommandRequest")
    .gives(Reply::Lines("CommandFrame")),
    op(Method::Post, "/v1/commands/input", "answerCommand", VIEWER, "Answers a question of a running command.")
        .takes("CommandAnswer"),
    op(
        Method::Post,
        "/v1/commands/bytes",
        "writeCommandInput",
        VIEWER,
        "Sends standard input to a running command, once, with the number of its question; ends when the command needs no more.",
    )
    .query(COMMAND_OUTPUT),
    op(
        Method::Get,
        "/v1/commands/output",
        "readCommandOutput",
        VIEWER,
        "Binary output of a running command, once, with the number of its question.",
    )
    .query(COMMAND_OUTPUT)
    .gives(Reply::File(&["application/octet-stream"])),
];

/// All operations, in the order of the document.
pub fn operations() -> &'static [Operation] {
    OPERATIONS
}
