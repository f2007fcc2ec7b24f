//! The table of operations: what can be asked, by whom, with what, and what comes back.
//!
//! The daemon takes its routes' roles from here, `openapi.json` its paths, and the tests both.
//!
//! Invariants:
//!   * what is not in the table is not served
//!   * what has no role can be asked by anybody who reaches the port: it tells nothing about pools

use crate::Role;

/// HTTP methods in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Method {
    /// Looks.
    Get,
    /// Does.
    Post,
    /// Sets.
    Put,
    /// Changes.
    Patch,
    /// Removes.
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

/// Where a parameter stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// In the path; percent-encoded, so that `/` is `%2F`.
    Path,
    /// Behind the question mark.
    Query,
}

/// A parameter.
#[derive(Debug, Clone, Copy)]
pub struct Param {
    /// Name.
    pub name: &'static str,
    /// Where.
    pub place: Place,
    /// `string`, `integer` or `boolean`.
    pub kind: &'static str,
    /// What it means.
    pub help: &'static str,
}

/// What comes back when all is well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply {
    /// 200 with this schema.
    Json(&'static str),
    /// 201 with this schema.
    Created(&'static str),
    /// 204.
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
    /// Name, unique.
    pub id: &'static str,
    /// Method.
    pub method: Method,
    /// Path with `{parameters}`.
    pub path: &'static str,
    /// The least role; `None`: anybody.
    pub role: Option<Role>,
    /// What it does, in a sentence.
    pub summary: &'static str,
    /// Parameters.
    pub params: &'static [Param],
    /// Schema of the request's body.
    pub body: Option<&'static str>,
    /// What comes back.
    pub reply: Reply,
}

impl Operation {
    /// The first part of the path: operations of one kind stand together.
    pub fn tag(&self) -> &'static str {
        let rest = self.path.strip_prefix("/v1/").unwrap_or("service");
        rest.split('/').next().unwrap_or(rest)
    }

    /// Whether it only looks.
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

const LIMIT: Param = number("limit", "Most items on a page: 1 to 1000, 100 when not given.");
const CURSOR: Param = text("cursor", "`next` of the page before.");
const PAGE: &[Param] = &[LIMIT, CURSOR];
const DATASETS: &[Param] = &[
    text("root", "A pool or dataset: only it and what is below it."),
    number("depth", "How far below `root`; 0: only `root`, 1: its children too."),
    text("kind", "Kinds, separated by commas: `filesystem`, `volume` (these when not given), `snapshot`, `bookmark`."),
    text("search", "Only names that contain this."),
    LIMIT,
    CURSOR,
];
const fn flag(name: &'static str, help: &'static str) -> Param {
    Param { name, place: Place::Query, kind: "boolean", help }
}

const PREVIEW: &[Param] = &[
    flag("recursive", "As `recursive` of the request that destroys."),
    flag("clones", "As `clones` of the request that destroys."),
];
const HOLDS: &[Param] = &[flag("recursive", "Of a snapshot: those of the same name below too."), LIMIT, CURSOR];
const EVENTS: &[Param] = &[number("after", "Only events with a greater number."), LIMIT];
const STREAM: &[Param] = &[text(
    "topics",
    "What is wanted, separated by commas: `events`, `pools`, `jobs`, `datasets`, `clients`; all when not given.",
)];
const COMMAND_OUTPUT: &[Param] = &[text("id", "Of the question.")];
const PLACES: &[Param] = &[text("place", "A folder or device to look in, instead of the usual places.")];
const COUNT: &[Param] = &[LIMIT, text("cursor", "`next` of the page before, further back.")];

const NAME: Param = text("name", "A statistic, such as `nfs3.ops[op=read][latency]`.");
const FROM: Param = number("from", "First second, since 1970; a minute ago when not given.");
const TO: Param = number("to", "The first second that is not wanted any more; now when not given.");
const QUERY: &[Param] = &[
    NAME,
    FROM,
    TO,
    number("step", "Seconds of a column; 1 when not given."),
    number(
        "rows",
        "Of a heat map: most rows, 1 to 4096; rows of the scheme are put together, never split. Keys are their numbers.",
    ),
    text("scale", "How these rows follow each other: `linear` (when not given) or `log`."),
    number("top", "What is this number or more is summed up in the last of these rows."),
];
const RECORDED: &[Param] = &[
    NAME,
    FROM,
    TO,
    number("slower_than_ns", "Only those that took longer."),
    number("limit", "Most of them, the newest: 1 to 10000, 1000 when not given."),
    Param {
        name: "follow",
        place: Place::Query,
        kind: "boolean",
        help: "Those that come from now on, as they come: `application/x-ndjson`, an operation a line, until the client goes.",
    },
];
const COLUMNS: &[Param] = &[
    text("name", "A statistic; may be given up to 32 times."),
    number("after", "First the seconds after this one, as far back as 15 minutes; `Last-Event-ID` does the same."),
];
const EXPLAIN: &[Param] = &[
    NAME,
    FROM,
    TO,
    number("low", "The least number in the rectangle, as the breakdown of `name` counts it."),
    number("high", "The first number above it."),
    number("among_from", "First second of what it is compared with; 5 minutes before `from` when not given."),
    number("among_to", "Its end; `to` when not given."),
];

const PICTURE: &[Param] = &[
    NAME,
    FROM,
    TO,
    number("step", "Seconds of a column; the shortest that has no more columns than pixels when not given."),
    text("format", "`png` (when not given) or `svg`."),
    number("width", "Pixels of the area between the axes, 1 to 4096; 600 when not given."),
    number("height", "Pixels of the area between the axes, 1 to 4096; 300 when not given."),
    number("rows", "Of a heat map: its finest resolution upwards, at most 1000 and the height; 100 when not given."),
    text("palette", "Of a heat map: `cividis` (when not given), `viridis`, `inferno`, `grey`, `classic`."),
    text("coloring", "Of a heat map: by `rank` (when not given), `linear` or `log`."),
    text("scale", "The vertical axis of a heat map: `linear` (when not given) or `log`."),
    text("outliers", "Of the largest numbers of a heat map, leave out `5`, `1`, `0.1`, `0.01` percent or `none`."),
    number("low", "Of a heat map: the least number to show."),
    number("high", "Of a heat map: the first number above."),
    text("shape", "What is no heat map: `lines` (when not given) or `stacked`."),
    text("theme", "On what: `light` (when not given) or `dark`."),
    Param {
        name: "plain",
        place: Place::Query,
        kind: "boolean",
        help: "Only the area, without axes, title and legend.",
    },
];
const EXPORT: &[Param] = &[
    NAME,
    FROM,
    TO,
    number("step", "Seconds of a column; 1 when not given."),
    text("format", "`csv` (when not given), or `json`: one document a line."),
];

const OPERATIONS: &[Operation] = &[
    // The process.
    op(Method::Get, "/healthz", "getHealth", ANYBODY, "Whether the process works; 503 if not.").json("HealthReply"),
    op(Method::Get, "/readyz", "getReadiness", ANYBODY, "Whether everything is imported and served; 503 if not.")
        .json("HealthReply"),
    op(
        Method::Get,
        "/metrics",
        "getMetrics",
        VIEWER,
        "All figures in Prometheus's text format, or in its protobuf, with native histograms, for those who ask for it.",
    )
    .gives(Reply::File(&["text/plain", "application/vnd.google.protobuf"])),
    op(Method::Get, "/v1/version", "getVersion", ANYBODY, "Versions.").json("Version"),
    op(Method::Get, "/v1/system", "getSystem", VIEWER, "What the process uses.").json("System"),
    op(Method::Get, "/v1/settings", "listSettings", ADMINISTRATOR, "The configuration that is in force.")
        .json("SettingList"),
    op(Method::Patch, "/v1/settings", "changeSettings", ADMINISTRATOR, "Changes settings, also for later starts.")
        .takes("ChangeSettings")
        .json("SettingsChanged"),
    op(
        Method::Post,
        "/v1/settings/reload",
        "reloadSettings",
        ADMINISTRATOR,
        "Reads the configuration file and the certificate again; no client is lost.",
    )
    .json("SettingsChanged"),
    // Who asks.
    op(Method::Get, "/v1/setup", "getSetup", ANYBODY, "Whether the first administrator is still to be made.")
        .json("SetupState"),
    op(
        Method::Post,
        "/v1/setup",
        "setUp",
        ANYBODY,
        "Makes the first administrator, with the token of the link, and logs in.",
    )
    .takes("Setup")
    .created("Session"),
    op(Method::Post, "/v1/session", "logIn", ANYBODY, "Logs in: sets the cookie and gives the CSRF token.")
        .takes("Login")
        .created("Session"),
    op(Method::Get, "/v1/session", "getSession", VIEWER, "Who asks, and what he may.").json("Session"),
    op(Method::Delete, "/v1/session", "logOut", VIEWER, "Ends the session."),
    op(
        Method::Put,
        "/v1/session/password",
        "changePassword",
        VIEWER,
        "Changes one's own password; other sessions end.",
    )
    .takes("ChangePassword"),
    op(Method::Get, "/v1/users", "listUsers", ADMINISTRATOR, "Users.").json("UserList"),
    op(Method::Post, "/v1/users", "createUser", ADMINISTRATOR, "Makes a user.").takes("CreateUser").created("User"),
    op(Method::Patch, "/v1/users/{user}", "changeUser", ADMINISTRATOR, "Changes a user's role or password.")
        .takes("ChangeUser")
        .json("User"),
    op(Method::Delete, "/v1/users/{user}", "deleteUser", ADMINISTRATOR, "Removes a user, his sessions and tokens."),
    op(Method::Get, "/v1/tokens", "listTokens", VIEWER, "One's own tokens; an administrator's: all.").json("TokenList"),
    op(Method::Post, "/v1/tokens", "createToken", VIEWER, "Makes a token for oneself.")
        .takes("CreateToken")
        .created("CreatedToken"),
    op(
        Method::Delete,
        "/v1/tokens/{token}",
        "deleteToken",
        VIEWER,
        "Removes a token of one's own; an administrator: any.",
    ),
    op(Method::Get, "/v1/audit", "listAudit", ADMINISTRATOR, "What was asked for, newest first.")
        .query(COUNT)
        .json("AuditList"),
    // Pools.
    op(Method::Get, "/v1/pools", "listPools", VIEWER, "Pools that are imported.").json("PoolList"),
    op(Method::Post, "/v1/pools", "createPool", ADMINISTRATOR, "Makes a pool of devices or files.")
        .takes("CreatePool")
        .created("PoolDetail"),
    op(Method::Get, "/v1/importable", "listImportablePools", ADMINISTRATOR, "Pools that could be imported.")
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
    op(Method::Post, "/v1/pools/{pool}/export", "exportPool", ADMINISTRATOR, "Exports a pool: its shares end.")
        .takes("ExportPool"),
    op(
        Method::Post,
        "/v1/pools/{pool}/destroy",
        "destroyPool",
        ADMINISTRATOR,
        "Destroys a pool and all that is in it.",
    )
    .takes("Confirm"),
    op(Method::Post, "/v1/pools/{pool}/sync", "syncPool", OPERATOR, "Brings all changes to disk."),
    op(
        Method::Post,
        "/v1/pools/{pool}/clear",
        "clearPool",
        OPERATOR,
        "Forgets errors, and tries devices again that failed.",
    )
    .takes("ClearPool")
    .json("PoolDetail"),
    // Datasets.
    op(Method::Get, "/v1/datasets", "listDatasets", VIEWER, "Datasets, each after the one that it is in.")
        .query(DATASETS)
        .json("DatasetList"),
    op(Method::Post, "/v1/datasets", "createDataset", OPERATOR, "Makes a file system or volume.")
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
        "Gives a dataset another name in its pool.",
    )
    .takes("RenameDataset")
    .json("DatasetDetail"),
    op(
        Method::Post,
        "/v1/datasets/{dataset}/destroy",
        "destroyDataset",
        ADMINISTRATOR,
        "Destroys a dataset and all that is in it; or snapshots of one dataset: `pool/a@b,c,d%e` names b, c, and d to e.",
    )
    .takes("DestroyDataset"),
    op(
        Method::Get,
        "/v1/datasets/{dataset}/destroy",
        "previewDestroy",
        OPERATOR,
        "What destroying it would take along, and how much space it would give back. Nothing is destroyed.",
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
        "Forgets the key of an encrypted dataset.",
    )
    .json("DatasetDetail"),
    // Snapshots.
    op(
        Method::Post,
        "/v1/snapshots",
        "createSnapshots",
        OPERATOR,
        "Takes snapshots, all at one moment: all of them or none. What comes back is those that were named.",
    )
    .takes("CreateSnapshots")
    .created("DatasetList"),
    op(
        Method::Post,
        "/v1/datasets/{dataset}/rollback",
        "rollBack",
        ADMINISTRATOR,
        "Makes a file system or volume what this snapshot of it is; what was changed since is lost.",
    )
    .takes("RollBack")
    .json("DatasetDetail"),
    op(Method::Post, "/v1/datasets/{dataset}/clone", "cloneSnapshot", OPERATOR, "Makes a dataset of a snapshot.")
        .takes("CloneSnapshot")
        .created("DatasetDetail"),
    op(
        Method::Post,
        "/v1/datasets/{dataset}/promote",
        "promoteClone",
        OPERATOR,
        "Makes a clone the origin of what it was cloned from: snapshots up to that become its own.",
    )
    .json("DatasetDetail"),
    op(
        Method::Post,
        "/v1/datasets/{dataset}/bookmark",
        "createBookmark",
        OPERATOR,
        "Keeps of a snapshot, or bookmark, what is needed to send from it.",
    )
    .takes("CreateBookmark")
    .created("DatasetDetail"),
    op(
        Method::Get,
        "/v1/datasets/{dataset}/holds",
        "listHolds",
        VIEWER,
        "What keeps a snapshot from being destroyed; of a dataset: all its snapshots.",
    )
    .query(HOLDS)
    .json("HoldList"),
    op(Method::Post, "/v1/datasets/{dataset}/hold", "holdSnapshot", OPERATOR, "Keeps a snapshot from being destroyed.")
        .takes("HoldSnapshot")
        .json("HoldList"),
    op(
        Method::Post,
        "/v1/datasets/{dataset}/release",
        "releaseSnapshot",
        OPERATOR,
        "Takes a hold from a snapshot. One that was to be destroyed then is.",
    )
    .takes("HoldSnapshot"),
    op(Method::Get, "/v1/properties", "listPropertyDefinitions", VIEWER, "What properties there are, for forms.")
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
        "Jobs, newest first; the last 100 that ended are kept, over restarts too.",
    )
    .json("JobList"),
    op(Method::Post, "/v1/jobs", "startJob", OPERATOR, "Starts a job.").takes("StartJob").created("Job"),
    op(Method::Get, "/v1/jobs/{job}", "getJob", VIEWER, "A job.").json("Job"),
    op(Method::Post, "/v1/jobs/{job}/cancel", "cancelJob", OPERATOR, "Stops a job that runs.").json("Job"),
    // What happened.
    op(
        Method::Get,
        "/v1/events",
        "listEvents",
        VIEWER,
        "What happened lately: the last 10,000 events are kept, over restarts too.",
    )
    .query(EVENTS)
    .json("EventList"),
    op(Method::Get, "/v1/events/stream", "streamEvents", VIEWER, "What happens, as it happens: server-sent events.")
        .query(STREAM)
        .gives(Reply::Events("LiveMessage")),
    // Analytics.
    op(Method::Get, "/v1/analytics/statistics", "listStatistics", VIEWER, "What can be asked for.")
        .json("StatisticList"),
    op(Method::Get, "/v1/analytics/datasets", "listCounted", VIEWER, "What is counted, with sizes and costs.")
        .json("CountedList"),
    op(Method::Post, "/v1/analytics/datasets", "countStatistic", OPERATOR, "Counts a statistic from now on.")
        .takes("CountStatistic")
        .created("Counted"),
    op(
        Method::Patch,
        "/v1/analytics/datasets/{counted}",
        "changeCounted",
        OPERATOR,
        "Suspends a statistic, or goes on with it.",
    )
    .takes("ChangeCounted")
    .json("Counted"),
    op(
        Method::Delete,
        "/v1/analytics/datasets/{counted}",
        "deleteCounted",
        OPERATOR,
        "Ends counting a statistic, and forgets what was kept of it.",
    ),
    op(
        Method::Post,
        "/v1/analytics/datasets/{counted}/prune",
        "pruneCounted",
        OPERATOR,
        "Forgets what a statistic had before a second.",
    )
    .takes("PruneCounted")
    .json("Counted"),
    op(
        Method::Get,
        "/v1/analytics/query",
        "queryStatistic",
        VIEWER,
        "What a statistic was. What was not counted then is counted now, as far back as operations are recorded.",
    )
    .query(QUERY)
    .json("StatisticData"),
    op(
        Method::Get,
        "/v1/analytics/stream",
        "streamStatistics",
        VIEWER,
        "What statistics are, a message each second: server-sent events. They are counted as long as somebody looks.",
    )
    .query(COLUMNS)
    .gives(Reply::Events("LiveColumns")),
    op(
        Method::Get,
        "/v1/analytics/operations",
        "listOperations",
        VIEWER,
        "Single operations that a statistic counts, as far back as they are recorded; or as they come.",
    )
    .query(RECORDED)
    .json("RecordedOperationList"),
    op(
        Method::Get,
        "/v1/analytics/explain",
        "explainStatistic",
        VIEWER,
        "What is special about the operations in a rectangle of a heat map.",
    )
    .query(EXPLAIN)
    .json("StatisticExplanation"),
    op(Method::Get, "/v1/analytics/worksheets", "listWorksheets", VIEWER, "Worksheets that are kept, by title.")
        .json("WorksheetList"),
    op(
        Method::Post,
        "/v1/analytics/worksheets",
        "createWorksheet",
        OPERATOR,
        "Keeps a worksheet, and archives its statistics from now on.",
    )
    .takes("SaveWorksheet")
    .created("Worksheet"),
    op(Method::Get, "/v1/analytics/worksheets/{worksheet}", "getWorksheet", VIEWER, "A worksheet.").json("Worksheet"),
    op(
        Method::Put,
        "/v1/analytics/worksheets/{worksheet}",
        "saveWorksheet",
        OPERATOR,
        "Keeps what a worksheet says now, and archives its statistics.",
    )
    .takes("SaveWorksheet")
    .json("Worksheet"),
    op(
        Method::Delete,
        "/v1/analytics/worksheets/{worksheet}",
        "deleteWorksheet",
        OPERATOR,
        "Removes a worksheet; its statistics are counted on.",
    ),
    op(
        Method::Get,
        "/v1/analytics/picture",
        "drawStatistic",
        VIEWER,
        "A heat map or graph of a statistic, drawn as the page draws it.",
    )
    .query(PICTURE)
    .gives(Reply::File(&["image/png", "image/svg+xml"])),
    op(Method::Get, "/v1/analytics/export", "exportStatistic", VIEWER, "What a statistic was, as a table.")
        .query(EXPORT)
        .gives(Reply::Table("ExportedValue")),
    op(Method::Get, "/v1/analytics/alerts", "listAlerts", OPERATOR, "Thresholds on statistics, and who is told.")
        .json("AlertList"),
    op(Method::Post, "/v1/analytics/alerts", "createAlert", OPERATOR, "Makes an alert.")
        .takes("AlertRule")
        .created("Alert"),
    op(Method::Get, "/v1/analytics/alerts/{alert}", "getAlert", OPERATOR, "An alert.").json("Alert"),
    op(Method::Put, "/v1/analytics/alerts/{alert}", "replaceAlert", OPERATOR, "Makes another one of an alert.")
        .takes("AlertRule")
        .json("Alert"),
    op(
        Method::Delete,
        "/v1/analytics/alerts/{alert}",
        "deleteAlert",
        OPERATOR,
        "Removes an alert, and what of it waits to be told.",
    ),
    // The command line.
    op(
        Method::Post,
        "/v1/commands",
        "runCommand",
        VIEWER,
        "Runs `zpool` or `zfs` with these arguments; who is not administrator: those that only look.",
    )
    .takes("CommandRequest")
    .gives(Reply::Lines("CommandFrame")),
    op(Method::Post, "/v1/commands/input", "answerCommand", VIEWER, "Answers what a running command asked.")
        .takes("CommandAnswer"),
    op(
        Method::Post,
        "/v1/commands/bytes",
        "writeCommandInput",
        VIEWER,
        "Takes bytes to a running command that asked for its standard input, from who has its question's number, once; ends when the command needs no more.",
    )
    .query(COMMAND_OUTPUT),
    op(
        Method::Get,
        "/v1/commands/output",
        "readCommandOutput",
        VIEWER,
        "Bytes that a running command gives instead of text, to who has its question's number, once.",
    )
    .query(COMMAND_OUTPUT)
    .gives(Reply::File(&["application/octet-stream"])),
];

/// All operations.
pub fn operations() -> &'static [Operation] {
    OPERATIONS
}
