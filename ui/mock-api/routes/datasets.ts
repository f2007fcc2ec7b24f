//! Routes of datasets, snapshots and shares.

import type { Schemas } from "../../app/api/client";
import * as snapshots from "../snapshots";
import { type Ask, type Route, Refused, seconds, ok, found, page, R } from "../route";
import { definitions, type State } from "../data";

const datasetOf = (ask: Ask, name = ask.params[0]!) =>
  found(
    ask.state.datasets.find((dataset) => dataset.name === name),
    `cannot open '${name}': dataset does not exist`,
  );
const above = (name: string): string | null => (name.includes("/") ? name.slice(0, name.lastIndexOf("/")) : null);
const pretty = (value: string) => value;

function property(
  state: State,
  dataset: Schemas["Dataset"],
  definition: Schemas["PropertyDefinition"],
): Schemas["Property"] {
  const own = state.local.get(dataset.name)?.get(definition.name);
  const base = { name: definition.name, editable: dataset.kind !== "snapshot" };
  if (own !== undefined) return { ...base, value: own, text: pretty(own), source: "local" };
  for (let up = above(dataset.name); definition.inheritable && up !== null; up = above(up)) {
    const value = state.local.get(up)?.get(definition.name);
    if (value !== undefined) return { ...base, value, text: pretty(value), source: "inherited", inherited_from: up };
  }
  const standard = (definition.default ?? "-").replace("/NAME", `/${dataset.name}`);
  return { ...base, value: standard, text: standard === "131072" ? "128K" : standard, source: "default" };
}

function detail(state: State, dataset: Schemas["Dataset"]): Schemas["DatasetDetail"] {
  const fixed = (
    [
      ["type", dataset.kind],
      ["creation", String(dataset.created)],
      ["used", String(dataset.used_bytes)],
      ["referenced", String(dataset.referenced_bytes)],
      ["compressratio", `${(dataset.compress_ratio ?? 1).toFixed(2)}x`],
      ["encryption", dataset.key === "not_encrypted" ? "off" : "aes-256-gcm"],
      [
        "clones",
        state.datasets
          .filter((one) => one.origin === dataset.name)
          .map((one) => one.name)
          .join(","),
      ],
    ] as const
  ).map(([name, value]): Schemas["Property"] => ({ name, value, text: value, source: "none", editable: false }));
  // User properties are inherited by all datasets, and have no definition.
  const known = new Set(definitions.map((definition) => definition.name));
  const made = new Map<string, Schemas["Property"]>();
  for (let at: string | null = dataset.name.split("@")[0]!; at !== null; at = above(at)) {
    for (const [name, value] of state.local.get(at) ?? []) {
      if (!known.has(name) && name.includes(":") && !made.has(name))
        made.set(name, {
          name,
          value,
          text: value,
          editable: true,
          ...(at === dataset.name ? { source: "local" } : { source: "inherited", inherited_from: at }),
        });
    }
  }
  const kinds = definitions.filter(
    (definition) => definition.of === "dataset" && definition.kinds.includes(dataset.kind),
  );
  return {
    ...dataset,
    properties: [...fixed, ...kinds.map((definition) => property(state, dataset, definition)), ...made.values()].sort(
      (a, b) => a.name.localeCompare(b.name),
    ),
  };
}

function share(state: State, dataset: Schemas["Dataset"]): Schemas["Share"] {
  const set = property(
    state,
    dataset,
    definitions.find((definition) => definition.name === "sharenfs")!,
  );
  const hosts =
    set.value === "on"
      ? [{ hosts: "*", writable: true, squash: "root" }]
      : set.value.split(",").flatMap((option) => {
          const match = /^(rw|ro)=(.*)$/.exec(option);
          return match
            ? match[2]!.split(":").map((host) => ({
                hosts: host.replace(/^@/, ""),
                writable: match[1] === "rw",
                squash: set.value.includes("no_root_squash") ? "none" : "root",
              }))
            : [];
        });
  const locked = dataset.key === "unavailable";
  return {
    dataset: dataset.name,
    protocol: "nfs",
    path: `/${dataset.name}`,
    options: set.value,
    inherited_from: set.inherited_from,
    active: !locked,
    reason: locked ? "It is encrypted and its key is not loaded." : undefined,
    hosts,
  };
}

export const DATASETS: Route[] = [
  R("GET", "/v1/datasets", "viewer", ({ state, query }) => {
    const kinds = (query.get("kind") ?? "filesystem,volume").split(",");
    const root = query.get("root");
    const search = query.get("search")?.toLowerCase();
    const depth = query.get("depth");
    return ok(
      page(
        state.datasets.filter(
          (dataset) =>
            kinds.includes(dataset.kind) &&
            (!search || dataset.name.toLowerCase().includes(search)) &&
            (!root ||
              dataset.name === root ||
              (dataset.name.startsWith(root) && /[/@#]/.test(dataset.name[root.length]!))) &&
            (!root || depth === null || dataset.name.slice(root.length).split("/").length - 1 <= Number(depth)),
        ),
        query,
      ),
    );
  }),
  R("POST", "/v1/datasets", "operator", function (ask) {
    const wanted = ask.body as unknown as Schemas["CreateDataset"];
    if (ask.state.datasets.some((dataset) => dataset.name === wanted.name))
      throw new Refused(422, "failed", `cannot create '${wanted.name}': dataset already exists`);
    const parent = datasetOf(ask, above(wanted.name) ?? "");
    const made: Schemas["Dataset"] = {
      ...parent,
      name: wanted.name,
      guid: String(5_000_000 + ask.state.datasets.length),
      created: seconds(),
      used_bytes: 98_304,
      referenced_bytes: 98_304,
      children: 0,
      snapshots: 0,
      kind: wanted.volume_bytes ? "volume" : "filesystem",
      volume_bytes: wanted.volume_bytes,
      mountpoint: wanted.volume_bytes ? undefined : `/${wanted.name}`,
      key: wanted.passphrase ? "available" : parent.key,
      quota_bytes: undefined,
    };
    parent.children += 1;
    ask.state.datasets.push(made);
    ask.state.local.set(made.name, new Map(Object.entries(wanted.properties ?? {})));
    this.happen("dataset", "info", `${made.name} was created.`, made.name, ask.who!.name);
    this.changedDatasets(made.name.split("/")[0]!);
    return ok(detail(ask.state, made), 201);
  }),
  R("GET", "/v1/datasets/{dataset}", "viewer", (ask) => ok(detail(ask.state, datasetOf(ask)))),
  R("PATCH", "/v1/datasets/{dataset}/properties", "operator", function (ask) {
    const dataset = datasetOf(ask);
    const set = ask.state.local.get(dataset.name) ?? new Map<string, string>();
    const change = ask.body as unknown as Schemas["ChangeProperties"];
    for (const [name, value] of Object.entries(change.set ?? {})) {
      const definition = definitions.find((candidate) => candidate.name === name);
      if (definition?.choices?.length && !definition.choices.includes(value))
        throw new Refused(
          422,
          "failed",
          `cannot set property for '${dataset.name}': '${name}' must be one of '${definition.choices.join(" | ")}'`,
        );
      set.set(name, value);
    }
    for (const name of change.inherit ?? []) set.delete(name);
    ask.state.local.set(dataset.name, set);
    this.happen("dataset", "info", `Properties of ${dataset.name} were changed.`, dataset.name, ask.who!.name);
    this.changedDatasets(dataset.name.split("/")[0]!);
    return ok(detail(ask.state, dataset));
  }),
  R("POST", "/v1/datasets/{dataset}/rename", "operator", function (ask) {
    const dataset = datasetOf(ask);
    const [from, to] = [dataset.name, String(ask.body.to)];
    for (const other of ask.state.datasets)
      if (other.name === from || other.name.startsWith(`${from}/`) || other.name.startsWith(`${from}@`))
        other.name = to + other.name.slice(from.length);
    this.changedDatasets(to.split("/")[0]!);
    return ok(detail(ask.state, dataset));
  }),
  R("POST", "/v1/datasets/{dataset}/destroy", "administrator", function (ask) {
    const name: string = ask.params[0]!;
    if (String(ask.body.confirm) !== name)
      throw new Refused(409, "confirmation_required", "Repeat the name in `confirm`.");
    if (name.includes("@"))
      return this.snap(ask, () =>
        snapshots.destroySnapshots(ask.state, name, ask.body as unknown as Schemas["DestroyDataset"]),
      );
    const dataset = datasetOf(ask);
    ask.state.datasets = ask.state.datasets.filter(
      (other) =>
        other !== dataset && !other.name.startsWith(`${dataset.name}/`) && !other.name.startsWith(`${dataset.name}@`),
    );
    this.happen("dataset", "warning", `${name} was destroyed.`, name, ask.who!.name);
    this.changedDatasets(name.split(/[/@]/)[0]!);
    return ok();
  }),
  R("GET", "/v1/datasets/{dataset}/destroy", "operator", (ask) => {
    const gone = snapshots.meant(ask.state, ask.params[0]!, ask.query.get("recursive") === "true");
    return ok({
      count: gone.length,
      names: gone.map((one) => one.name).slice(0, 1000),
      reclaimed_bytes: gone.reduce((sum, one) => sum + one.used_bytes, 0),
    } satisfies Schemas["DestroyPreview"]);
  }),
  R("POST", "/v1/snapshots", "operator", function (ask) {
    return this.snap(
      ask,
      () =>
        ({
          items: snapshots.take(ask.state, ask.body as unknown as Schemas["CreateSnapshots"]),
        }) satisfies Schemas["DatasetList"],
      201,
    );
  }),
  R("POST", "/v1/datasets/{dataset}/rollback", "administrator", function (ask) {
    return this.snap(ask, () =>
      detail(ask.state, snapshots.rollBack(ask.state, ask.params[0]!, ask.body as unknown as Schemas["RollBack"])),
    );
  }),
  R("POST", "/v1/datasets/{dataset}/clone", "operator", function (ask) {
    return this.snap(
      ask,
      () =>
        detail(ask.state, snapshots.clone(ask.state, ask.params[0]!, ask.body as unknown as Schemas["CloneSnapshot"])),
      201,
    );
  }),
  R("POST", "/v1/datasets/{dataset}/promote", "operator", function (ask) {
    return this.snap(ask, () => detail(ask.state, snapshots.promote(ask.state, ask.params[0]!)));
  }),
  R("GET", "/v1/datasets/{dataset}/holds", "viewer", (ask) =>
    ok({ items: ask.state.holds.filter((hold) => hold.snapshot === ask.params[0]) } satisfies Schemas["HoldList"]),
  ),
  R("POST", "/v1/datasets/{dataset}/hold", "operator", function (ask) {
    return this.snap(
      ask,
      () => ({ items: snapshots.hold(ask.state, ask.params[0]!, String(ask.body.tag)) }) satisfies Schemas["HoldList"],
    );
  }),
  R("POST", "/v1/datasets/{dataset}/release", "operator", function (ask) {
    return this.snap(ask, () => snapshots.release(ask.state, ask.params[0]!, String(ask.body.tag)));
  }),
  R("POST", "/v1/datasets/{dataset}/load-key", "operator", function (ask) {
    const dataset = datasetOf(ask);
    if (ask.body.passphrase !== "open sesame")
      throw new Refused(422, "failed", `Key load error: Incorrect key provided for '${dataset.name}'.`);
    dataset.key = "available";
    this.changedDatasets(dataset.name.split("/")[0]!);
    return ok(detail(ask.state, dataset));
  }),
  R("POST", "/v1/datasets/{dataset}/unload-key", "operator", function (ask) {
    const dataset = datasetOf(ask);
    dataset.key = "unavailable";
    this.changedDatasets(dataset.name.split("/")[0]!);
    return ok(detail(ask.state, dataset));
  }),
  R("GET", "/v1/properties", "viewer", () => ok({ items: definitions })),
  R("GET", "/v1/shares", "viewer", ({ state, query }) =>
    ok(
      page(
        state.datasets
          .filter((dataset) => dataset.kind === "filesystem")
          .map((dataset) => share(state, dataset))
          .filter((one) => one.options !== "off"),
        query,
      ),
    ),
  ),
  R("PUT", "/v1/shares/{dataset}", "operator", function (ask) {
    const dataset = datasetOf(ask);
    const set = ask.state.local.get(dataset.name) ?? new Map<string, string>();
    set.set("sharenfs", String(ask.body.options));
    ask.state.local.set(dataset.name, set);
    this.happen(
      "share",
      "info",
      ask.body.options === "off" ? `${dataset.name} is no longer shared.` : `${dataset.name} is shared.`,
      dataset.name,
      ask.who!.name,
    );
    this.changedDatasets(dataset.name.split("/")[0]!);
    return ok(share(ask.state, dataset));
  }),
];
