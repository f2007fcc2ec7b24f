import { expect, test } from "vitest";
import type { Schemas } from "./client";
import { live } from "./live.svelte";

const client = (address: string, rate: number): Schemas["Client"] => ({
  address,
  protocols: ["nfs3"],
  connections: 1,
  since: 0,
  last_seen: 0,
  operations: 0,
  read_bytes: 0,
  written_bytes: 0,
  operations_per_second: rate,
  read_bytes_per_second: rate * 10,
  written_bytes_per_second: 0,
});
const event = (id: number): Schemas["Event"] => ({
  id,
  time_ms: id * 1000,
  kind: "pool",
  severity: "info",
  message: `event ${id}`,
});

test("rates are kept for each connected client, and summed", () => {
  live.take({ type: "clients", clients: [client("a", 1), client("b", 2)] });
  live.take({ type: "clients", clients: [client("a", 3)] });
  expect(live.rates.get("a")?.operations).toEqual([1, 3]);
  expect(live.rates.has("b")).toBe(false);
  expect(live.total.operations).toEqual([3, 3]);
  for (let beat = 0; beat < 500; beat += 1) live.take({ type: "clients", clients: [client("a", 1)] });
  expect(live.rates.get("a")?.operations).toHaveLength(120);
});

test("duplicate events are dropped, and their number is limited", () => {
  for (let id = 1; id <= 2100; id += 1) live.take({ type: "event", event: event(id) });
  live.take({ type: "event", event: event(2100) });
  expect(live.events).toHaveLength(2000);
  expect(live.events.at(-1)?.id).toBe(2100);
});

test("a change of datasets is reported for its pool only", () => {
  const before = live.datasetsChanged.get("tank") ?? 0;
  live.take({ type: "datasets", pool: "tank" });
  expect(live.datasetsChanged.get("tank")).toBe(before + 1);
  expect(live.datasetsChanged.get("other")).toBeUndefined();
});
