//! Generates `openapi.json`: schemas from the types, paths from the table of operations.

use crate::*;
use serde_json::{Map, Value, json};
use utoipa::OpenApi;

#[derive(OpenApi)]
#[openapi(components(schemas(
    Alert,
    AlertAction,
    AlertList,
    AlertNotice,
    AlertReduction,
    AlertRule,
    AlertSide,
    AlertState,
    AuditEntry,
    AuditList,
    Authentication,
    Cache,
    CellKey,
    ChangeCounted,
    ChangePassword,
    ChangeProperties,
    ChangeSettings,
    ChangeUser,
    Check,
    ClearPool,
    Client,
    ClientList,
    CloneSnapshot,
    CommandAnswer,
    CountStatistic,
    Counted,
    CountedList,
    CommandFrame,
    CommandQuestion,
    CommandRequest,
    Confirm,
    CreateBookmark,
    CreateDataset,
    CreatePool,
    CreateSnapshots,
    CreateToken,
    CreateUser,
    CreatedToken,
    DamagedDevice,
    DamagedFile,
    Dataset,
    DatasetDetail,
    DatasetKind,
    DatasetList,
    DestroyDataset,
    DestroyPreview,
    Device,
    DeviceGroup,
    ErrorBody,
    ErrorCode,
    ErrorReply,
    Event,
    EventKind,
    EventList,
    ExplainedField,
    ExplainedValue,
    ExportPool,
    ExportedValue,
    Feature,
    FeatureState,
    Health,
    HealthKind,
    HealthReason,
    HealthReply,
    HealthVerdict,
    Hold,
    HoldList,
    HoldSnapshot,
    ImportPool,
    ImportablePool,
    ImportablePoolList,
    Job,
    JobKind,
    JobList,
    JobProgress,
    JobState,
    KeyState,
    Layout,
    LiveColumns,
    LiveMessage,
    LiveStatistic,
    LoadKey,
    Login,
    OperationTimes,
    Outcome,
    Pool,
    PoolDetail,
    PoolList,
    Property,
    PropertyDefinition,
    PropertyDefinitionList,
    PropertyList,
    PropertyOf,
    Protocol,
    PruneCounted,
    Purpose,
    RecordedOperation,
    RecordedOperationList,
    RenameDataset,
    Role,
    RollBack,
    SaveWorksheet,
    Scan,
    ScriptDevice,
    Scripts,
    Statistic,
    StatisticColumn,
    StatisticData,
    StatisticExplanation,
    StatisticField,
    StatisticList,
    Session,
    SetShare,
    Setting,
    SettingChanges,
    SettingList,
    SettingSource,
    SettingsChanged,
    Setup,
    SetupState,
    Severity,
    Share,
    ShareHost,
    ShareList,
    Source,
    StartJob,
    State,
    System,
    SystemHealth,
    Terminal,
    Token,
    TokenList,
    User,
    UserList,
    ValueKind,
    Verdict,
    Verification,
    Version,
    Wanted,
    Worksheet,
    WorksheetGraph,
    WorksheetList,
    WorksheetSpan,
)))]
struct Schemas;

/// Builds the OpenAPI 3.1 document. `openapi.json` is its pretty-printed form.
pub fn document() -> Value {
    let schemas = serde_json::to_value(Schemas::openapi()).expect("schemas are JSON");
    let schemas = schemas["components"]["schemas"].clone();
    let mut paths = Map::new();
    for operation in operations() {
        let path = paths.entry(operation.path).or_insert_with(|| json!({}));
        path[operation.method.name().to_lowercase()] = describe(operation);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Weir",
            "description": ABOUT,
            "version": "1",
            "license": {"name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "session": {
                    "type": "apiKey", "in": "cookie", "name": "weir_session",
                    "description": "Set by `POST /v1/session`. Requests that change something also require the header `X-CSRF-Token`.",
                },
                "token": {"type": "http", "scheme": "bearer", "description": "Created by `POST /v1/tokens`."},
            },
        },
    })
}

const ABOUT: &str = "The API of `weir serve`, on its Unix socket and over TCP. On the socket, every user who can open it is an \
    administrator; over TCP, a session or a token identifies the caller. `x-role` names the lowest role that may perform \
    an operation. Parameters in paths are percent-encoded: the dataset `tank/home` is `/v1/datasets/tank%2Fhome`. 64-bit \
    identifiers are strings, sizes are bytes, times are seconds since 1970.";

fn describe(operation: &Operation) -> Value {
    let mut described = json!({
        "operationId": operation.id,
        "tags": [operation.tag()],
        "summary": operation.summary,
        "x-role": operation.role.map_or(json!("anybody"), |role| json!(role)),
    });
    let in_path = operation.path.split('{').skip(1).filter_map(|part| part.split('}').next());
    let mut parameters: Vec<Value> = in_path
        .map(|name| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}}))
        .collect();
    parameters.extend(operation.params.iter().map(|p| {
        let place = if p.place == Place::Path { "path" } else { "query" };
        json!({"name": p.name, "in": place, "description": p.help, "schema": {"type": p.kind}})
    }));
    if !parameters.is_empty() {
        described["parameters"] = parameters.into();
    }
    if let Some(body) = operation.body {
        described["requestBody"] =
            json!({"required": true, "content": {"application/json": {"schema": reference(body)}}});
    }
    let (status, success) = match operation.reply {
        Reply::Json(schema) => ("200", content("application/json", reference(schema))),
        Reply::Created(schema) => ("201", content("application/json", reference(schema))),
        Reply::Nothing => ("204", json!({"description": "Done."})),
        Reply::Events(schema) => ("200", content("text/event-stream", reference(schema))),
        Reply::Lines(schema) => ("200", content("application/x-ndjson", reference(schema))),
        Reply::File(kinds) => {
            let each = kinds.iter().map(|kind| ((*kind).to_owned(), json!({"schema": {"type": "string"}})));
            ("200", json!({"description": "Done.", "content": Map::from_iter(each)}))
        }
        Reply::Table(schema) => {
            let mut table = content("application/x-ndjson", reference(schema));
            table["content"]["text/csv"] = json!({"schema": {"type": "string"}});
            ("200", table)
        }
    };
    let mut responses = json!({status: success});
    if matches!(operation.reply, Reply::Json("HealthReply")) {
        responses["503"] = content("application/json", reference("HealthReply"));
    }
    let mut error = content("application/json", reference("ErrorReply"));
    error["description"] = "The operation was not performed.".into();
    responses["default"] = error;
    described["responses"] = responses;
    if operation.role.is_some() {
        described["security"] = json!([{"session": []}, {"token": []}]);
    }
    described
}

fn content(kind: &str, schema: Value) -> Value {
    json!({"description": "Done.", "content": {kind: {"schema": schema}}})
}

fn reference(schema: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{schema}")})
}
