//! Routes of pools.

import type { Schemas } from "../../app/api/client";
import { type Ask, type Route, Refused, ok, found, R } from "../route";

export const line = ({
  devices: _1,
  caches: _2,
  spares: _3,
  features: _4,
  damaged_files: _5,
  warnings: _6,
  activity: _7,
  ...pool
}: Schemas["PoolDetail"]): Schemas["Pool"] => pool;

const poolOf = (ask: Ask) =>
  found(
    ask.state.pools.find((pool) => pool.name === ask.params[0]),
    `cannot open '${ask.params[0]}': no such pool`,
  );

export const POOLS: Route[] = [
  R("GET", "/v1/pools", "viewer", ({ state }) => ok({ items: state.pools.map(line) })),
  R("POST", "/v1/pools", "administrator", function ({ state, body }) {
    const group = (body as unknown as Schemas["CreatePool"]).groups[0]!;
    const name = String(body.name);
    if (state.pools.some((pool) => pool.name === name))
      throw new Refused(409, "conflict", `cannot create '${name}': pool already exists`);
    const model = structuredClone(state.pools[0]!);
    const size = (group.make_files_bytes ?? 1024 ** 3) * group.paths.length;
    const made: Schemas["PoolDetail"] = {
      ...model,
      name,
      guid: String(9_000_000 + state.pools.length),
      used_bytes: 120_000,
      allocated_bytes: 160_000,
      size_bytes: size,
      free_bytes: size,
      available_bytes: size * 0.7,
      capacity_percent: 0,
      scan: undefined,
      txg: 5,
      spares: [],
      caches: [],
    };
    made.devices = {
      ...model.devices,
      name,
      children: [
        {
          ...model.devices.children[0]!,
          name: `${group.layout}-0`,
          children: group.paths.map((path, nth) => ({
            ...model.devices.children[0]!.children[0]!,
            name: path,
            path,
            guid: String(7_000_000 + nth),
          })),
        },
      ],
    };
    state.pools.push(made);
    state.datasets.push({
      ...state.datasets[0]!,
      name,
      guid: String(8_000_000 + state.datasets.length),
      used_bytes: 120_000,
      children: 0,
      mountpoint: `/${name}`,
    });
    this.happen("pool", "info", `${name} was created.`, name, "ann");
    this.changedPools();
    this.changedDatasets(name);
    return ok(made, 201);
  }),
  R("GET", "/v1/importable", "administrator", ({ state, query }) =>
    ok({
      items:
        query.get("place") === "/empty"
          ? []
          : [
              {
                name: "rescue",
                guid: "1234567890123456789",
                state: "ONLINE",
                health: { ok: true },
                destroyed: false,
                devices: state.pools[0]!.devices,
              },
            ],
    } satisfies Schemas["ImportablePoolList"]),
  ),
  R("POST", "/v1/import", "administrator", function ({ state, body }) {
    const name = (body.new_name as string | undefined) ?? "rescue";
    const made = {
      ...structuredClone(state.pools[0]!),
      name,
      guid: String(body.pool),
      read_only: Boolean(body.read_only),
    };
    state.pools.push(made);
    state.datasets.push({ ...state.datasets[0]!, name, children: 0 });
    this.changedPools();
    this.changedDatasets(name);
    return ok(made);
  }),
  R("GET", "/v1/pools/{pool}", "viewer", (ask) => ok(poolOf(ask))),
  R("GET", "/v1/pools/{pool}/properties", "viewer", (ask) => {
    const pool = poolOf(ask);
    const set = ask.state.poolProperties.get(pool.name);
    return ok({
      items: [
        {
          name: "size",
          value: String(pool.size_bytes),
          text: String(pool.size_bytes),
          source: "none",
          editable: false,
        },
        { name: "health", value: pool.state, text: pool.state, source: "none", editable: false },
        ...["autotrim", "comment"].map((name): Schemas["Property"] => ({
          name,
          value: set?.get(name) ?? (name === "autotrim" ? "off" : "-"),
          text: set?.get(name) ?? (name === "autotrim" ? "off" : "-"),
          source: set?.has(name) ? "local" : "default",
          editable: true,
        })),
      ],
    } satisfies Schemas["PropertyList"]);
  }),
  R("PATCH", "/v1/pools/{pool}/properties", "administrator", (ask) => {
    const pool = poolOf(ask);
    const set = ask.state.poolProperties.get(pool.name) ?? new Map<string, string>();
    for (const [name, value] of Object.entries(ask.body.set ?? {})) set.set(name, value as string);
    ask.state.poolProperties.set(pool.name, set);
    return ok({ items: [] });
  }),
  R("POST", "/v1/pools/{pool}/export", "administrator", function (ask) {
    const pool = poolOf(ask);
    ask.state.pools = ask.state.pools.filter((other) => other !== pool);
    ask.state.datasets = ask.state.datasets.filter((dataset) => dataset.name.split(/[/@]/)[0] !== pool.name);
    this.changedPools();
    return ok();
  }),
  R("POST", "/v1/pools/{pool}/destroy", "administrator", function (ask) {
    const pool = poolOf(ask);
    if (ask.body.confirm !== pool.name)
      throw new Refused(409, "confirmation_required", "Repeat the name in `confirm`.");
    ask.state.pools = ask.state.pools.filter((other) => other !== pool);
    ask.state.datasets = ask.state.datasets.filter((dataset) => dataset.name.split(/[/@]/)[0] !== pool.name);
    this.happen("pool", "warning", `${pool.name} was destroyed.`, pool.name, ask.who!.name);
    this.changedPools();
    return ok();
  }),
  R("POST", "/v1/pools/{pool}/clear", "operator", function (ask) {
    const pool = poolOf(ask);
    const visit = (device: Schemas["Device"]) => {
      device.read_errors = device.write_errors = device.checksum_errors = 0;
      device.children.forEach(visit);
    };
    visit(pool.devices);
    this.changedPools();
    return ok(pool);
  }),
];
