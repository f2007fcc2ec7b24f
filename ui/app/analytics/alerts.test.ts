import { expect, test } from "vitest";
import type { Statistic } from "./catalogue.svelte";
import { actionsOf, limitInput, limitOf, receiversOf, reductionsOf, unitOf, valueText } from "./alerts";

test("limits have the unit of their statistic", () => {
  const of = (unit: string, ...texts: string[]) => texts.map((text) => limitOf(text, unit));
  expect(of("ns", "20ms", "1.5 s", "5000", "-1", "1us")).toEqual([20_000_000, 1_500_000_000, 5000, -1, 1000]);
  expect(of("bytes/s", "8K", "1.5 GiB", "7", "20ms")).toEqual([8192, 1_610_612_736, 7, null]);
  expect(of("percent", "80 %", "80", "80ms")).toEqual([80, 80, null]);
  expect(of("ops/s", "", "fast", "5 K", "1e3x", "20ms", "20")).toEqual([null, null, null, null, null, 20]);
});

test("limits and values are shown in their unit", () => {
  expect([
    valueText(20_000_000, "ns"),
    valueText(1_500_000, "ns"),
    valueText(80, "percent"),
    valueText(1.5 * 1024 ** 3, "bytes/s"),
    valueText(5.12345, "ops/s"),
    valueText(3, ""),
  ]).toEqual(["20 ms", "1500 us", "80 %", "1.50G/s", "5.123 ops/s", "3"]);
  for (const limit of [20_000_000, 7, 1_500_000]) expect(limitOf(limitInput(limit, "ns"), "ns")).toBe(limit);
});

test("what can be compared depends on the breakdown", () => {
  expect(["nfs3.ops", "nfs3.ops[op=read][latency]", "cap.percentfull[pool]", "!"].map(reductionsOf)).toEqual([
    ["total"],
    ["total", "average", "percentile"],
    ["total", "largest"],
    ["total"],
  ]);
  const ops = { unit: "ops", level: false } as Statistic;
  const unit = (statistic: string, reduction: "total" | "average") => unitOf({ statistic, reduction }, ops);
  expect([unit("nfs3.ops[latency]", "average"), unit("nfs3.ops[latency]", "total")]).toEqual(["ns", "ops/s"]);
});

test("receivers are grouped by their kind, and return to the form unchanged", () => {
  const actions = actionsOf({ webhooks: "https://a/b\n https://c/d\n", mail: "a@b, c@d", syslog: true });
  expect(actions).toEqual([
    { kind: "webhook", url: "https://a/b" },
    { kind: "webhook", url: "https://c/d" },
    { kind: "mail", to: ["a@b", "c@d"] },
    { kind: "syslog" },
  ]);
  expect(actionsOf(receiversOf(actions))).toEqual(actions);
  expect(actionsOf({ webhooks: "", mail: " ", syslog: false })).toEqual([]);
});
