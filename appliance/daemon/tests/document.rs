//! Calls every operation of `openapi.json` on a running daemon, and checks that the answer matches
//! the schema in the document.

use crate::rig::{Answer, Client, PASSWORD, Rig};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Why a value does not match a schema, if so.
fn misfit(document: &Value, schema: &Value, value: &Value, at: &str) -> Option<String> {
    if let Some(name) = schema["$ref"].as_str() {
        let schema = document.pointer(name.trim_start_matches('#')).unwrap_or(&Value::Null);
        if schema.is_null() {
            return Some(format!("{at}: there is no {name}"));
        }
        return misfit(document, schema, value, at);
    }
    if let Some(all) = schema["allOf"].as_array() {
        return all.iter().find_map(|s| misfit(document, s, value, at));
    }
    if let Some(one) = schema["oneOf"].as_array() {
        let misfits: Vec<_> = one.iter().map(|s| misfit(document, s, value, at)).collect();
        return match misfits.iter().any(Option::is_none) {
            true => None,
            false => Some(format!("{at}: none of: {misfits:?}")),
        };
    }
    if let Some(words) = schema["enum"].as_array() {
        return (!words.contains(value)).then(|| format!("{at}: {value} is none of {words:?}"));
    }
    let is = |kind: &str| match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        _ => false,
    };
    let kinds: Vec<&str> = match &schema["type"] {
        Value::String(kind) => vec![kind],
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => return Some(format!("{at}: the schema says no type: {schema}")),
    };
    if !kinds.iter().any(|k| is(k)) {
        return Some(format!("{at}: {value} is not {kinds:?}"));
    }
    if let Some(items) = value.as_array() {
        let each = items.iter().enumerate();
        return each.into_iter().find_map(|(i, v)| misfit(document, &schema["items"], v, &format!("{at}[{i}]")));
    }
    let object = value.as_object()?;
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    for name in required {
        if !object.contains_key(name) {
            return Some(format!("{at}: {name} is missing"));
        }
    }
    let known = schema["properties"].as_object()?;
    known.iter().find_map(|(name, s)| misfit(document, s, object.get(name)?, &format!("{at}.{name}")))
}

struct Document {
    document: Value,
    done: BTreeSet<String>,
}

impl Document {
    /// Compares an answer with the document's description of the operation.
    fn check(&mut self, id: &str, answer: &Answer, status: u16) -> Value {
        assert_eq!(answer.status, status, "{id}: {}", answer.text());
        let operation = api::operations().iter().find(|o| o.id == id).unwrap_or_else(|| panic!("no {id}"));
        let described = &self.document["paths"][operation.path][operation.method.name().to_lowercase()];
        assert_eq!(described["operationId"], id);
        let responses = &described["responses"];
        let response = responses.get(status.to_string()).unwrap_or(&responses["default"]);
        let kind = answer.header("content-type").unwrap_or_default().split(';').next().unwrap_or_default().to_owned();
        if status < 400 {
            self.done.insert(id.to_owned());
        }
        if response["content"].is_null() {
            assert!(answer.body.is_empty(), "{id}: {}", answer.text());
            return Value::Null;
        }
        let schema = &response["content"][&kind]["schema"];
        assert!(!schema.is_null(), "{id} {status}: the document has no {kind}");
        let values = match kind.as_str() {
            "application/json" => vec![answer.json()],
            "application/x-ndjson" => {
                answer.text().lines().map(|l| serde_json::from_str(l).expect("a line of JSON")).collect()
            }
            _ => vec![answer.text().into()],
        };
        for value in &values {
            if let Some(misfit) = misfit(&self.document, schema, value, id) {
                panic!("{misfit}\n{value:#}");
            }
        }
        values.into_iter().next().unwrap_or_default()
    }
}

#[test]
fn every_operation_matches_the_document() {
    let rig = Rig::new();
    let text =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../api/openapi.json")).expect("checked in");
    let mut d = Document { document: serde_json::from_str(&text).expect("JSON"), done: BTreeSet::new() };
    let anonymous = Client::default();
    let ask = |client: &Client, method: &str, path: &str, body: Value| {
        rig.ask(client, method, path, Some(&body).filter(|b| !b.is_null()))
    };
    let get = |client: &Client, path: &str| rig.ask(client, "GET", path, None);

    // Without users.
    d.check("getHealth", &get(&anonymous, "/healthz"), 200);
    d.check("getReadiness", &get(&anonymous, "/readyz"), 200);
    d.check("getVersion", &get(&anonymous, "/v1/version"), 200);
    assert_eq!(d.check("getSetup", &get(&anonymous, "/v1/setup"), 200)["needed"], true);
    d.check("listPools", &get(&anonymous, "/v1/pools"), 401);
    let token = rig.service.access.setup.make();
    let wrong = json!({"token": "0", "user": "root", "password": PASSWORD});
    d.check("setUp", &ask(&anonymous, "POST", "/v1/setup", wrong), 401);
    let answer = ask(&anonymous, "POST", "/v1/setup", json!({"token": token, "user": "root", "password": PASSWORD}));
    d.check("setUp", &answer, 201);
    let login = json!({"user": "root", "password": PASSWORD});
    let answer = ask(&anonymous, "POST", "/v1/session", login.clone());
    d.check("logIn", &answer, 201);
    let root = Client::session(&answer);
    d.check("getSession", &get(&root, "/v1/session"), 200);

    // Pools.
    let made = rig.make_pool(&root, "tank");
    assert_eq!(d.check("createPool", &made, 201)["state"], "ONLINE");
    let pools = d.check("listPools", &get(&root, "/v1/pools"), 200);
    assert_eq!(pools["items"].as_array().map(Vec::len), Some(1));
    let pool = d.check("getPool", &get(&root, "/v1/pools/tank"), 200);
    assert_eq!(pool["devices"]["children"][0]["children"].as_array().map(Vec::len), Some(4), "{pool:#}");
    assert_eq!(d.check("getPool", &get(&root, "/v1/pools/gone"), 404)["error"]["place"], "gone");
    d.check("listPoolProperties", &get(&root, "/v1/pools/tank/properties"), 200);
    let set = json!({"set": {"comment": "of the test"}});
    let properties = d.check("setPoolProperties", &ask(&root, "PATCH", "/v1/pools/tank/properties", set), 200);
    let comment = properties["items"].as_array().expect("a list").iter().find(|p| p["name"] == "comment");
    assert_eq!(comment.map(|p| p["value"].clone()), Some(json!("of the test")));
    d.check("syncPool", &ask(&root, "POST", "/v1/pools/tank/sync", Value::Null), 204);
    d.check("clearPool", &ask(&root, "POST", "/v1/pools/tank/clear", json!({})), 200);

    // Datasets.
    let body = json!({"name": "tank/home", "properties": {"compression": "lz4"}});
    d.check("createDataset", &ask(&root, "POST", "/v1/datasets", body.clone()), 201);
    assert_eq!(ask(&root, "POST", "/v1/datasets", body).code(), "conflict");
    let volume = json!({"name": "tank/vol", "volume_bytes": 16 << 20, "sparse": true});
    assert_eq!(d.check("createDataset", &ask(&root, "POST", "/v1/datasets", volume), 201)["kind"], "volume");
    let secret = json!({
        "name": "tank/secret", "passphrase": "open sesame",
        "properties": {"encryption": "on", "keyformat": "passphrase", "keylocation": "prompt"},
    });
    assert_eq!(d.check("createDataset", &ask(&root, "POST", "/v1/datasets", secret), 201)["key"], "available");
    d.check("unloadKey", &ask(&root, "POST", "/v1/datasets/tank%2Fsecret/unload-key", Value::Null), 200);
    let wrong = ask(&root, "POST", "/v1/datasets/tank%2Fsecret/load-key", json!({"passphrase": "open barley"}));
    assert!(wrong.status >= 400, "{}", wrong.text());
    let key = json!({"passphrase": "open sesame"});
    assert_eq!(
        d.check("loadKey", &ask(&root, "POST", "/v1/datasets/tank%2Fsecret/load-key", key), 200)["key"],
        "available"
    );
    let listed = d.check("listDatasets", &get(&root, "/v1/datasets?root=tank&limit=2"), 200);
    let cursor = listed["next"].as_str().expect("there are more").replace('/', "%2F");
    let rest = d.check("listDatasets", &get(&root, &format!("/v1/datasets?root=tank&cursor={cursor}")), 200);
    let names = |page: &Value| -> Vec<String> {
        page["items"].as_array().expect("a list").iter().map(|i| i["name"].as_str().expect("text").to_owned()).collect()
    };
    let all: Vec<String> = [names(&listed), names(&rest)].concat();
    assert_eq!(all, ["tank", "tank/home", "tank/secret", "tank/vol"]);
    let detail = d.check("getDataset", &get(&root, "/v1/datasets/tank%2Fhome"), 200);
    let compression =
        detail["properties"].as_array().expect("a list").iter().find(|p| p["name"] == "compression").cloned();
    assert_eq!(compression.map(|p| (p["value"].clone(), p["source"].clone())), Some((json!("lz4"), json!("local"))));
    let change = json!({"set": {"atime": "off", "org.test:note": "-rf"}, "inherit": ["compression"]});
    let changed =
        d.check("setDatasetProperties", &ask(&root, "PATCH", "/v1/datasets/tank%2Fhome/properties", change), 200);
    let note = changed["properties"].as_array().expect("a list").iter().find(|p| p["name"] == "org.test:note").cloned();
    assert_eq!(note.map(|p| p["value"].clone()), Some(json!("-rf")));
    let renamed = ask(&root, "POST", "/v1/datasets/tank%2Fhome/rename", json!({"to": "tank/people"}));
    assert_eq!(d.check("renameDataset", &renamed, 200)["name"], "tank/people");
    d.check("getDataset", &get(&root, "/v1/datasets/tank%2Fhome"), 404);
    d.check("listPropertyDefinitions", &get(&root, "/v1/properties"), 200);

    // Snapshots. A refused request changes nothing.
    let names = json!({"names": ["tank/people@a", "tank/vol@a"], "properties": {"org.test:why": "a test"}});
    let taken = d.check("createSnapshots", &ask(&root, "POST", "/v1/snapshots", names), 201);
    assert_eq!(names_of(&taken, "name"), ["tank/people@a", "tank/vol@a"]);
    assert_eq!((&taken["items"][0]["holds"], &taken["items"][0]["clones"]), (&json!(0), &json!(0)));
    for short in ["b", "c", "d"] {
        let names = json!({"names": [format!("tank@{short}")], "recursive": true});
        d.check("createSnapshots", &ask(&root, "POST", "/v1/snapshots", names), 201);
    }
    for wrong in [json!([]), json!(["tank/people"]), json!(["-r@x"]), json!(["tank@a,b"])] {
        let answer = ask(&root, "POST", "/v1/snapshots", json!({"names": wrong}));
        assert_eq!(answer.code(), "invalid_request", "{wrong}");
    }
    assert_eq!(ask(&root, "POST", "/v1/snapshots", json!({"names": ["tank/people@a"]})).code(), "conflict");
    let escaped = |name: &str| name.replace('%', "%25").replace('/', "%2F").replace('#', "%23").replace('\n', "%0A");
    let at = |name: &str, verb: &str| format!("/v1/datasets/{}/{verb}", escaped(name));
    let keep = json!({"tag": "keep:1"});
    let held = d.check("holdSnapshot", &ask(&root, "POST", &at("tank/people@b", "hold"), keep.clone()), 200);
    assert_eq!((&held["items"][0]["tag"], &held["items"][0]["snapshot"]), (&json!("keep:1"), &json!("tank/people@b")));
    assert_eq!(ask(&root, "POST", &at("tank/people@b", "hold"), keep.clone()).code(), "conflict");
    assert_eq!(ask(&root, "POST", &at("tank/people@b", "hold"), json!({"tag": "-r"})).code(), "invalid_request");
    for (of, count) in [("tank/people@b", 1), ("tank/people", 1), ("tank/people@c", 0), ("tank@b", 0)] {
        let holds = d.check("listHolds", &get(&root, &at(of, "holds")), 200);
        assert_eq!(holds["items"].as_array().map(Vec::len), Some(count), "{of}");
    }
    let below = d.check("listHolds", &get(&root, &(at("tank@b", "holds") + "?recursive=true&limit=5")), 200);
    assert_eq!(names_of(&below, "snapshot"), ["tank/people@b"]);
    // Previews: what would be destroyed, and what prevents it.
    let preview = d.check("previewDestroy", &get(&root, &at("tank/people@a,c%d", "destroy")), 200);
    assert_eq!(preview["names"], json!(["tank/people@a", "tank/people@c", "tank/people@d"]));
    assert!(preview["reclaimed_bytes"].is_u64(), "{preview}");
    let preview = d.check("previewDestroy", &get(&root, &(at("tank@c", "destroy") + "?recursive=true")), 200);
    assert_eq!(preview["count"], 4, "{preview}");
    let preview = d.check("previewDestroy", &get(&root, &(at("tank/people", "destroy") + "?recursive=true")), 200);
    assert_eq!((&preview["count"], preview.get("reclaimed_bytes")), (&json!(5), None), "{preview}");
    assert_eq!(get(&root, &at("tank/people", "destroy")).code(), "conflict");
    assert_eq!(get(&root, &at("tank/people@gone", "destroy")).code(), "not_found");
    assert_eq!(get(&root, &at("tank/people@a\n", "destroy")).code(), "invalid_request");
    let destroy = at("tank/people@b,c", "destroy");
    assert_eq!(ask(&root, "POST", &destroy, json!({"confirm": "tank/people@b"})).code(), "confirmation_required");
    assert_eq!(ask(&root, "POST", &destroy, json!({"confirm": "tank/people@b,c"})).code(), "conflict", "one is held");
    assert_eq!(get(&root, "/v1/datasets/tank%2Fpeople@c").status, 200, "all of them or none");
    d.check("releaseSnapshot", &ask(&root, "POST", &at("tank/people@b", "release"), keep.clone()), 204);
    assert_eq!(ask(&root, "POST", &at("tank/people@b", "release"), keep).code(), "not_found");
    // Clones and promotion.
    let clone = json!({"to": "tank/made/of-it", "parents": true, "properties": {"atime": "off"}});
    let cloned = d.check("cloneSnapshot", &ask(&root, "POST", &at("tank/people@b", "clone"), clone), 201);
    assert_eq!(cloned["origin"], "tank/people@b");
    assert_eq!(get(&root, "/v1/datasets/tank%2Fpeople@b").json()["clones"], 1);
    assert_eq!(get(&root, &at("tank/people@b", "destroy")).code(), "conflict");
    let preview = d.check("previewDestroy", &get(&root, &(at("tank/people@b", "destroy") + "?clones=true")), 200);
    assert_eq!(preview["names"], json!(["tank/people@b"]), "as reported by zfs destroy -nRv");
    let promoted = ask(&root, "POST", &at("tank/made/of-it", "promote"), Value::Null);
    assert!(d.check("promoteClone", &promoted, 200).get("origin").is_none());
    assert_eq!(get(&root, "/v1/datasets/tank%2Fpeople").json()["origin"], "tank/made/of-it@b");
    let back = ask(&root, "POST", &at("tank/people", "promote"), Value::Null);
    d.check("promoteClone", &back, 200);
    let destroy = json!({"confirm": "tank/made/of-it"});
    d.check("destroyDataset", &ask(&root, "POST", &at("tank/made/of-it", "destroy"), destroy), 204);
    d.check("destroyDataset", &ask(&root, "POST", &at("tank/made", "destroy"), json!({"confirm": "tank/made"})), 204);
    let mark = json!({"name": "tank/people#b"});
    let marked = d.check("createBookmark", &ask(&root, "POST", &at("tank/people@b", "bookmark"), mark), 201);
    assert_eq!(marked["kind"], "bookmark");
    let preview = d.check("previewDestroy", &get(&root, &at("tank/people#b", "destroy")), 200);
    assert_eq!(preview["names"], json!(["tank/people#b"]));
    let renamed = ask(&root, "POST", &at("tank@d", "rename"), json!({"to": "tank@last", "recursive": true}));
    assert_eq!(d.check("renameDataset", &renamed, 200)["name"], "tank@last");
    assert_eq!(get(&root, "/v1/datasets/tank%2Fvol@last").status, 200);
    let sure = json!({"confirm": "tank/people@b"});
    assert_eq!(ask(&root, "POST", &at("tank/people@b", "rollback"), sure).code(), "conflict", "there are newer ones");
    let sure = json!({"confirm": "tank/people@b", "recursive": true});
    let back = d.check("rollBack", &ask(&root, "POST", &at("tank/people@b", "rollback"), sure.clone()), 200);
    assert_eq!((&back["name"], &back["snapshots"]), (&json!("tank/people"), &json!(2)));
    let operator = rig.token_of("operator");
    let preview = d.check("previewDestroy", &get(&operator, &at("tank/people@b", "destroy")), 200);
    assert_eq!(preview["count"], 1, "users who may not destroy it may list it");
    assert_eq!(ask(&operator, "POST", &at("tank/people@b", "rollback"), sure).code(), "forbidden");
    let destroy = json!({"confirm": "tank@%", "recursive": true});
    let gone = ask(&root, "POST", &at("tank@%", "destroy"), destroy);
    d.check("destroyDataset", &gone, 204);
    let rest = get(&root, "/v1/datasets?root=tank&kind=snapshot").json();
    assert_eq!(rest["items"], json!([]), "every dataset's own snapshots are in its own range");

    // Shares.
    let share = ask(&root, "PUT", "/v1/shares/tank%2Fpeople", json!({"options": "rw=@127.0.0.0/8,insecure"}));
    assert_eq!(d.check("setShare", &share, 200)["hosts"][0]["hosts"], "@127.0.0.0/8");
    assert_eq!(names_of(&d.check("listShares", &get(&root, "/v1/shares"), 200), "dataset"), ["tank/people"]);
    assert_eq!(
        ask(&root, "PUT", "/v1/shares/tank%2Fpeople", json!({"options": "rw,nonsense=1"})).code(),
        "invalid_request"
    );
    d.check("listClients", &get(&root, "/v1/clients"), 200);

    // Analytics: a statistic that was not recorded is computed from the recorded operations.
    let found = d.check("listStatistics", &get(&root, "/v1/analytics/statistics"), 200);
    assert!(names_of(&found, "name").contains(&"nfs3.ops".to_owned()), "{found:#}");
    assert!(
        !d.check("listCounted", &get(&root, "/v1/analytics/datasets"), 200)["items"]
            .as_array()
            .expect("a list")
            .is_empty()
    );
    let wanted = json!({"name": "io.ops[op=write][latency]", "archived": true});
    let made = d.check("countStatistic", &ask(&root, "POST", "/v1/analytics/datasets", wanted), 201);
    let path = format!("/v1/analytics/datasets/{}", made["id"]);
    // A txg without changes writes nothing, and the timer may already have written everything.
    ask(&root, "PATCH", "/v1/pools/tank/properties", json!({"set": {"comment": "counted"}}));
    ask(&root, "POST", "/v1/pools/tank/sync", Value::Null);
    let series = (0..200).find_map(|_| {
        std::thread::sleep(std::time::Duration::from_millis(50));
        let series = get(&root, "/v1/analytics/query?name=io.ops%5Bop%3Dwrite%5D%5Blatency%5D");
        let columns = series.json()["columns"].as_array().cloned().unwrap_or_default();
        columns.iter().any(|c| c["total"] != json!(0)).then_some(series)
    });
    let series = d.check("queryStatistic", &series.expect("devices were written"), 200);
    assert_eq!(series["title"], "Disk: I/O operations of type write broken down by latency");
    for column in series["columns"].as_array().expect("columns") {
        let cells: Vec<u64> = column["cells"].as_array().expect("cells").iter().filter_map(Value::as_u64).collect();
        let sum: u64 = cells.chunks(2).filter_map(|c| c.get(1)).sum();
        assert_eq!(json!(sum), column["total"], "{column:#}");
        assert!(cells.chunks(2).all(|c| !series["keys"][c[0].to_string()]["from"].is_null()), "{series:#}");
    }
    let picture = "/v1/analytics/picture?name=io.ops%5Blatency%5D&width=120&height=60";
    let drawn = get(&root, picture);
    d.check("drawStatistic", &drawn, 200);
    assert!(drawn.body.starts_with(b"\x89PNG\r\n"), "{}", drawn.text());
    let drawn = d.check("drawStatistic", &get(&root, &format!("{picture}&format=svg&theme=dark&scale=log")), 200);
    assert!(drawn.as_str().is_some_and(|svg| svg.contains("Disk: I/O operations broken down by latency")), "{drawn}");
    for wrong in ["&width=5000", "&step=1&from=1&to=1000", "&palette=rainbow", "&rows=61", "&format=gif"] {
        assert_eq!(get(&root, &format!("{picture}{wrong}")).code(), "invalid_request", "{wrong}");
    }
    let table = get(&root, "/v1/analytics/export?name=io.ops%5Bdisk%5D");
    let table = d.check("exportStatistic", &table, 200);
    assert!(table.as_str().is_some_and(|t| t.starts_with("start,time,seconds,key,from,to,count,value\r\n")), "{table}");
    d.check("exportStatistic", &get(&root, "/v1/analytics/export?name=io.ops%5Bdisk%5D&format=json"), 200);
    let found = d.check("explainStatistic", &get(&root, "/v1/analytics/explain?name=io.ops%5Blatency%5D"), 200);
    assert!(found["fields"].as_array().is_some_and(|f| f.iter().any(|f| f["field"] == "disk")), "{found:#}");
    assert_eq!(get(&root, "/v1/analytics/query?name=io.ops%5Bcolour%5D").code(), "invalid_request");
    let folded = get(&root, "/v1/analytics/query?name=io.ops%5Blatency%5D&rows=20&scale=log&top=1000000");
    let folded = d.check("queryStatistic", &folded, 200);
    assert!(folded["keys"].as_object().is_some_and(|k| k.len() <= 20), "{folded:#}");
    for wrong in ["rows=0", "rows=5000", "top=5", "rows=9&scale=odd"] {
        let path = format!("/v1/analytics/query?name=io.ops%5Blatency%5D&{wrong}");
        assert_eq!(get(&root, &path).code(), "invalid_request", "{wrong}");
    }
    assert_eq!(get(&root, "/v1/analytics/query?name=io.ops&rows=9").code(), "invalid_request");
    // One recorded statistic, and one that is counted only while it is read.
    let (counted, passing) = ("io.ops%5Bop%3Dwrite%5D%5Blatency%5D", "io.ops%5Bdisk%5D%5Bcolour%5D");
    assert_eq!(get(&root, &format!("/v1/analytics/stream?name={passing}")).code(), "invalid_request");
    assert_eq!(get(&root, "/v1/analytics/stream").code(), "invalid_request");
    let after = series["columns"][0]["start"].as_u64().expect("a second") - 1;
    let passing = "io.bytes%5Bdisk%5D";
    let streamed = format!("/v1/analytics/stream?name={passing}&name={counted}&after={after}");
    let (status, mut stream) = rig.open_stream(&root, &streamed);
    assert_eq!(status, 200);
    let last = series["columns"].as_array().and_then(|c| c.last()?["start"].as_u64()).expect("a second");
    let mut seen = after;
    for _ in 0..series["columns"].as_array().map_or(0, Vec::len) + 2 {
        let message = next_message(&mut stream);
        let schema = json!({"$ref": "#/components/schemas/LiveColumns"});
        assert_eq!(misfit(&d.document, &schema, &message, "streamStatistics"), None);
        let second = message["second"].as_u64().expect("a second");
        // No past second may be missing; of live ones, a stalled machine may miss some.
        assert!(second == seen + 1 || (second > seen && seen >= last), "{seen}: {message:#}");
        seen = second;
        let names: Vec<_> =
            message["statistics"].as_array().expect("a list").iter().map(|s| s["name"].clone()).collect();
        assert_eq!(names, ["io.bytes[disk]", "io.ops[op=write][latency]"]);
        if let Some(column) = series["columns"].as_array().expect("columns").iter().find(|c| c["start"] == json!(seen))
        {
            assert_eq!(message["statistics"][1]["column"], *column);
        }
    }
    d.done.insert("streamStatistics".to_owned());
    let is_counted =
        |name: &str| names_of(&get(&root, "/v1/analytics/datasets").json(), "name").contains(&name.to_owned());
    assert!(is_counted("io.bytes[disk]"));
    drop(stream);
    assert!(
        (0..600).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(50));
            !is_counted("io.bytes[disk]")
        }),
        "no client is connected"
    );

    // Single operations: recorded ones, and new ones.
    let recorded = "/v1/analytics/operations?name=io.ops%5Bop%3Dwrite%5D";
    let listed = d.check("listOperations", &get(&root, &format!("{recorded}&limit=3")), 200);
    let items = listed["items"].as_array().expect("a list");
    assert!(
        (1..=3).contains(&items.len()) && items.iter().all(|o| o["op"] == "write" && o["client"] == "tank"),
        "{listed:#}"
    );
    assert_eq!(
        d.check("listOperations", &get(&root, &format!("{recorded}&slower_than_ns=999999999999")), 200)["items"],
        json!([])
    );
    assert_eq!(get(&root, &format!("{recorded}&limit=0")).code(), "invalid_request");
    assert_eq!(get(&root, "/v1/analytics/operations?name=arc.size").code(), "invalid_request");
    let (status, mut follow) = rig.open_stream(&root, &format!("{recorded}&follow=true"));
    assert_eq!(status, 200);
    ask(&root, "PATCH", "/v1/pools/tank/properties", json!({"set": {"comment": "followed"}}));
    ask(&root, "POST", "/v1/pools/tank/sync", Value::Null);
    let line = std::iter::from_fn(|| {
        let mut line = String::new();
        (std::io::BufRead::read_line(&mut follow, &mut line).expect("a line") > 0).then_some(line)
    });
    let line = line.into_iter().find(|l| l.starts_with('{')).expect("an operation");
    let operation: Value = serde_json::from_str(&line).expect("JSON");
    let schema = json!({"$ref": "#/components/schemas/RecordedOperation"});
    assert_eq!((misfit(&d.document, &schema, &operation, "listOperations"), &operation["op"]), (None, &json!("write")));
    drop(follow);

    // Worksheets.
    let sheet = json!({
        "title": "Slow disks", "span": {"seconds": 600},
        "graphs": [{"name": "io.ops[disk]", "view": {"palette": "cividis", "zoom": [1, 2.5]}}, {"name": "io.bytes[offset]"}],
    });
    let sheets = "/v1/analytics/worksheets";
    let made = d.check("createWorksheet", &ask(&root, "POST", sheets, sheet.clone()), 201);
    assert_eq!((&made["owner"], &made["graphs"][0]), (&json!("root"), &sheet["graphs"][0]));
    assert!(is_counted("io.bytes[offset]"), "statistics of a worksheet are kept");
    let one = format!("{sheets}/{}", made["id"]);
    let mut other = sheet.clone();
    other["comment"] = json!("of the test");
    assert_eq!(d.check("saveWorksheet", &ask(&root, "PUT", &one, other.clone()), 200)["comment"], "of the test");
    assert_eq!(d.check("getWorksheet", &get(&root, &one), 200)["comment"], "of the test");
    other["graphs"][0]["name"] = json!("io.ops[colour]");
    let refused = d.check("saveWorksheet", &ask(&root, "PUT", &one, other), 400);
    assert_eq!(refused["error"]["place"], "graphs[0].name");
    let viewer = rig.token_of("viewer");
    assert_eq!(names_of(&d.check("listWorksheets", &get(&viewer, sheets), 200), "title"), ["Slow disks"]);
    assert_eq!(ask(&viewer, "POST", sheets, sheet).code(), "forbidden");
    assert_eq!(ask(&viewer, "DELETE", &one, Value::Null).code(), "forbidden");
    // File names may be hidden from viewers.
    let files = "name=fuse.ops%5Bfile%3Dtank/secret%5D";
    assert_eq!(get(&viewer, &format!("/v1/analytics/query?{files}")).status, 200);
    ask(&root, "PATCH", "/v1/settings", json!({"set": {"analytics.viewers_see_files": "false"}}));
    for place in ["query", "stream", "explain", "operations"] {
        assert_eq!(get(&viewer, &format!("/v1/analytics/{place}?{files}")).code(), "forbidden", "{place}");
    }
    let series = get(&viewer, "/v1/analytics/explain?name=io.ops%5Blatency%5D").json();
    assert!(series["fields"].as_array().is_some_and(|f| !f.is_empty()), "the rest is shown: {series:#}");
    ask(&root, "PATCH", "/v1/settings", json!({"set": {"analytics.viewers_see_files": null}}));
    d.check("deleteWorksheet", &ask(&root, "DELETE", &one, Value::Null), 204);
    d.check("getWorksheet", &get(&root, &one), 404);
    assert_eq!(
        d.check("changeCounted", &ask(&root, "PATCH", &path, json!({"suspended": true})), 200)["suspended"],
        true
    );
    d.check("pruneCounted", &ask(&root, "POST", &format!("{path}/prune"), json!({"before": 5})), 200);
    d.check("deleteCounted", &ask(&root, "DELETE", &path, Value::Null), 204);
    assert_eq!(ask(&root, "DELETE", &path, Value::Null).code(), "not_found");

    // Alerts.
    let alert = json!({"title": "slow writes", "statistic": "io.ops[op=write][latency]", "reduction": "percentile",
        "percentile": 99.0, "side": "above", "limit": 1e9, "actions": [{"kind": "syslog"}]});
    let made = d.check("createAlert", &ask(&root, "POST", "/v1/analytics/alerts", alert.clone()), 201);
    let path = format!("/v1/analytics/alerts/{}", made["id"]);
    assert_eq!(d.check("getAlert", &get(&root, &path), 200)["rule"]["for_seconds"], 60);
    assert_eq!(d.check("replaceAlert", &ask(&root, "PUT", &path, alert), 200)["id"], made["id"]);
    d.check("listAlerts", &get(&root, "/v1/analytics/alerts"), 200);
    d.check("deleteAlert", &ask(&root, "DELETE", &path, Value::Null), 204);
    d.check("deleteAlert", &ask(&root, "DELETE", &path, Value::Null), 404);

    // Activity.
    let job = d.check("startJob", &ask(&root, "POST", "/v1/jobs", json!({"kind": "verify", "target": "tank"})), 201);
    let path = format!("/v1/jobs/{}", job["id"]);
    let ended = (0..600).find_map(|_| {
        std::thread::sleep(std::time::Duration::from_millis(50));
        let job = get(&root, &path).json();
        (!job["ended"].is_null()).then_some(job)
    });
    let ended = ended.expect("the job ends");
    assert_eq!((&ended["state"], &ended["verification"]["verdict"]), (&json!("done"), &json!("clean")), "{ended:#}");
    d.check("getJob", &get(&root, &path), 200);
    d.check("cancelJob", &ask(&root, "POST", &format!("{path}/cancel"), Value::Null), 200);
    d.check("listJobs", &get(&root, "/v1/jobs"), 200);
    d.check("listEvents", &get(&root, "/v1/events?after=0"), 200);
    let command = json!({"program": "zpool", "args": ["list", "-Ho", "name"]});
    let ran = ask(&root, "POST", "/v1/commands", command);
    assert_eq!(d.check("runCommand", &ran, 200), json!({"stdout": "tank\n"}));
    assert!(ran.text().ends_with("{\"exit\":0}\n"), "{}", ran.text());
    d.check("answerCommand", &ask(&root, "POST", "/v1/commands/input", json!({"id": "0", "bytes": null})), 404);
    // There is no question to answer here; the passphrases above show that answers arrive.
    d.done.insert("answerCommand".to_owned());
    d.check("writeCommandInput", &ask(&root, "POST", "/v1/commands/bytes?id=0", Value::Null), 404);
    d.done.insert("writeCommandInput".to_owned());
    d.check("readCommandOutput", &get(&root, "/v1/commands/output?id=0"), 404);
    // No command offers output here; the program's own tests show that bytes arrive.
    d.done.insert("readCommandOutput".to_owned());
    let (status, mut stream) = rig.open_stream(&root, "/v1/events/stream?topics=pools,jobs");
    assert_eq!(status, 200);
    let message = next_message(&mut stream);
    let schema = json!({"$ref": "#/components/schemas/LiveMessage"});
    assert_eq!(misfit(&d.document, &schema, &message, "streamEvents"), None);
    assert_eq!((&message["type"], &message["pools"][0]["name"]), (&json!("pools"), &json!("tank")));
    d.done.insert("streamEvents".to_owned());

    // The process.
    assert!(
        d.check("getMetrics", &get(&root, "/metrics"), 200)
            .as_str()
            .expect("text")
            .contains("weir_process_memory_bytes ")
    );
    let native = root.clone().with("Accept", "application/vnd.google.protobuf;encoding=delimited");
    let native = rig.ask(&native, "GET", "/metrics", None);
    d.check("getMetrics", &native, 200);
    assert!(native.body.windows(26).any(|w| w == b"weir_device_read_time_seco"), "figures of devices");
    d.check("getSystem", &get(&root, "/v1/system"), 200);
    d.check("getSystemHealth", &get(&root, "/v1/health"), 200);
    d.check("listSettings", &get(&root, "/v1/settings"), 200);
    let change = json!({"set": {"api.session_hours": "5"}});
    assert_eq!(
        d.check("changeSettings", &ask(&root, "PATCH", "/v1/settings", change), 200)["changed"][0],
        "api.session_hours"
    );
    let change = json!({"set": {"nfs.listen": "127.0.0.1:2"}});
    d.check("changeSettings", &ask(&root, "PATCH", "/v1/settings", change), 400);
    d.check("reloadSettings", &ask(&root, "POST", "/v1/settings/reload", Value::Null), 200);

    // Accounts.
    let eve = json!({"name": "eve", "role": "viewer", "password": PASSWORD});
    d.check("createUser", &ask(&root, "POST", "/v1/users", eve.clone()), 201);
    d.check("createUser", &ask(&root, "POST", "/v1/users", eve), 409);
    assert_eq!(d.check("listUsers", &get(&root, "/v1/users"), 200)["items"].as_array().map(Vec::len), Some(4));
    d.check("changeUser", &ask(&root, "PATCH", "/v1/users/eve", json!({"role": "operator"})), 200);
    d.check("deleteUser", &ask(&root, "DELETE", "/v1/users/eve", Value::Null), 204);
    d.check("deleteUser", &ask(&root, "DELETE", "/v1/users/root", Value::Null), 409);
    let made =
        d.check("createToken", &ask(&root, "POST", "/v1/tokens", json!({"name": "backup", "role": "viewer"})), 201);
    let token = Client::token(made["secret"].as_str().expect("a secret"));
    assert_eq!(d.check("getSession", &get(&token, "/v1/session"), 200)["by"], "token");
    d.check("listTokens", &get(&root, "/v1/tokens"), 200);
    d.check("deleteToken", &ask(&root, "DELETE", &format!("/v1/tokens/{}", made["id"]), Value::Null), 204);
    d.check("getSession", &get(&token, "/v1/session"), 401);
    let other = Client::session(&ask(&anonymous, "POST", "/v1/session", login));
    let password = json!({"current": PASSWORD, "new": "another horse"});
    d.check("changePassword", &ask(&root, "PUT", "/v1/session/password", password), 204);
    d.check("getSession", &get(&other, "/v1/session"), 401);

    // Destruction requires the name as confirmation.
    let destroy = "/v1/datasets/tank%2Fvol/destroy";
    let refused = d.check("destroyDataset", &ask(&root, "POST", destroy, json!({"confirm": "tank"})), 409);
    assert_eq!(refused["error"]["code"], "confirmation_required");
    d.check("destroyDataset", &ask(&root, "POST", destroy, json!({"confirm": "tank/vol"})), 204);
    d.check("exportPool", &ask(&root, "POST", "/v1/pools/tank/export", json!({})), 204);
    let folder = rig.folder.path().to_str().expect("text").to_owned();
    let importable = get(&root, &format!("/v1/importable?place={}", folder.replace('/', "%2F")));
    assert_eq!(d.check("listImportablePools", &importable, 200)["items"][0]["name"], "tank");
    let import = json!({"pool": "tank", "places": [folder]});
    d.check("importPool", &ask(&root, "POST", "/v1/import", import), 200);
    d.check("destroyPool", &ask(&root, "POST", "/v1/pools/tank/destroy", json!({"confirm": "tank"})), 204);
    d.check("getPool", &get(&root, "/v1/pools/tank"), 404);
    let audit = d.check("listAudit", &get(&root, "/v1/audit?limit=1000"), 200);
    let what = names_of(&audit, "what");
    for expected in [
        "zpool destroy tank",
        "zfs destroy tank/vol",
        "createToken",
        "setUp",
        "zfs set sharenfs=rw=@127.0.0.0/8,insecure tank/people",
    ] {
        assert!(what.iter().any(|w| w == expected), "{expected}: {what:#?}");
    }
    assert!(!what.iter().any(|w| w.contains("zpool list")), "reads are not in it");
    assert!(!audit.to_string().contains("sesame") && !audit.to_string().contains(PASSWORD));
    d.check("logOut", &ask(&root, "DELETE", "/v1/session", Value::Null), 204);
    d.check("getSession", &get(&root, "/v1/session"), 401);

    let all: BTreeSet<String> = api::operations().iter().map(|o| o.id.to_owned()).collect();
    assert_eq!(all.difference(&d.done).collect::<Vec<_>>(), Vec::<&String>::new(), "operations that were not done");
}

fn names_of(page: &Value, field: &str) -> Vec<String> {
    page["items"].as_array().expect("a list").iter().map(|i| i[field].as_str().expect("text").to_owned()).collect()
}

/// The data of the next server-sent event.
fn next_message(from: &mut impl std::io::BufRead) -> Value {
    loop {
        let mut line = String::new();
        assert!(from.read_line(&mut line).expect("a line") > 0, "the stream ended");
        if let Some(data) = line.strip_prefix("data: ") {
            return serde_json::from_str(data).expect("JSON");
        }
    }
}

#[test]
fn the_validator_finds_mismatches() {
    let document = json!({"components": {"schemas": {"A": {"type": "object", "required": ["a"], "properties": {
        "a": {"type": "integer"}, "b": {"type": ["string", "null"]}, "c": {"enum": ["x"]},
        "d": {"type": "array", "items": {"$ref": "#/components/schemas/A"}}}}}}});
    let schema = json!({"$ref": "#/components/schemas/A"});
    let fits = |value: Value| misfit(&document, &schema, &value, "");
    assert_eq!(fits(json!({"a": 1, "b": null, "c": "x", "d": [{"a": 2}]})), None);
    for wrong in [
        json!({}),
        json!({"a": "1"}),
        json!({"a": 1, "b": 2}),
        json!({"a": 1, "c": "y"}),
        json!({"a": 1, "d": [{}]}),
        json!([]),
    ] {
        assert!(fits(wrong.clone()).is_some(), "{wrong}");
    }
}
