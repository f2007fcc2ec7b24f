import { expect, test } from "vitest";
import { columnAt, data, extended, extremes, figure, values, type Answer } from "./data";

const answer = (columns: Answer["columns"], keys: Answer["keys"] = { 1: "a", 2: "b" }): Answer => ({
  name: "nfs3.ops[client]",
  title: "t",
  unit: "ops",
  level: false,
  step: 1,
  closed: 99,
  columns,
  keys,
});
const column = (start: number, ...cells: number[]) => ({
  start,
  seconds: 1,
  total: cells.filter((_, at) => at % 2).reduce((a, b) => a + b, 0),
  cells,
});

test("averages are over the seconds that were recorded", () => {
  const all = data(answer([column(10, 1, 6, 2, 4), column(11, 1, 2), column(13, 2, 8)]));
  const found = values(all, 10, 14);
  expect(found.values.map(({ label, total, average }) => [label, total, average])).toEqual([
    ["b", 12, 4],
    ["a", 8, 8 / 3],
  ]);
  expect([found.total, found.seconds]).toEqual([20, 3]);
  expect(values(all, 11, 12).values.map(({ label }) => label)).toEqual(["a"]);
  expect(columnAt(all, 11)?.total).toBe(2);
  expect(columnAt(all, 12)).toBeUndefined();
});
test("new columns are added, old ones are dropped, and a repeated second replaces the previous one", () => {
  const old = data(answer([column(10, 1, 1), column(11, 1, 2), column(12, 1, 3)]));
  const next = extended(old, data(answer([column(12, 1, 5), column(13, 3, 1)], { 1: "a", 3: "c" })), 11);
  expect(next.columns.map(({ start, total }) => [start, total])).toEqual([
    [11, 2],
    [12, 5],
    [13, 1],
  ]);
  expect(next.keys.get(3)).toBe("c");
  expect(next.keys.get(2)).toBe("b");
});
test("minimum and maximum of the visible columns are found in sequence", () => {
  const all = data(
    answer([column(9, 1, 99), column(10, 1, 6, 2, 4), column(11, 1, 2), column(13, 2, 10), column(14, 1, 50)]),
  );
  expect(extremes(all, 10, 14, true)).toEqual([10, 13, 11]);
  expect(extremes(all, 10, 14, false)).toEqual([11, 10, 13]);
  expect(extremes(all, 20, 30, true)).toEqual([]);
});
test("figures have a unit", () => {
  expect([
    figure(1777.4, "ops", false),
    figure(602 * 1024 * 1024, "bytes", false),
    figure(91.25, "percent", true),
    figure(0, "ops", false),
  ]).toEqual(["1,777 ops/s", "602 MiB/s", "91.3 %", "0 ops/s"]);
});
