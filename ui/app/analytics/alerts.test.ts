import { expect, test } from "vitest";
import { actionsOf, limitOf, limitText } from "./alerts";

test("limits have units of time", () => {
  expect(["20ms", "1.5 s", "5000", "-1", "1us"].map(limitOf)).toEqual([20_000_000, 1_500_000_000, 5000, -1, 1000]);
  expect(["", "fast", "5 K", "1e3x"].map(limitOf)).toEqual([null, null, null, null]);
  const text = (statistic: string, limit: number, reduction: "total" | "average" = "average") =>
    limitText({ statistic, reduction, limit });
  expect([
    text("nfs3.ops[latency]", 20_000_000),
    text("nfs3.ops[latency]", 1_500_000),
    text("nfs3.ops[logwait]", 7),
    text("nfs3.ops[size]", 1000),
    text("nfs3.ops[latency]", 1000, "total"),
  ]).toEqual(["20 ms", "1500 us", "7 ns", "1000", "1000"]);
});

test("receivers are grouped by their kind", () => {
  expect(actionsOf({ webhooks: "https://a/b\n https://c/d\n", mail: "a@b, c@d", syslog: true })).toEqual([
    { kind: "webhook", url: "https://a/b" },
    { kind: "webhook", url: "https://c/d" },
    { kind: "mail", to: ["a@b", "c@d"] },
    { kind: "syslog" },
  ]);
  expect(actionsOf({ webhooks: "", mail: " ", syslog: false })).toEqual([]);
});
