import { expect, test } from "vitest";
import { data } from "./data";
import { NOTHING } from "./heatmap";
import { round, series, seriesPixels } from "./series";

const all = data({
  name: "nfs3.ops[client]",
  title: "",
  unit: "ops",
  level: false,
  step: 1,
  closed: 99,
  columns: [
    { start: 0, seconds: 1, total: 5, cells: [1, 4, 2, 1] },
    { start: 2, seconds: 1, total: 10, cells: [1, 3, 2, 7] },
  ],
  keys: { 1: "a", 2: "b" },
});

test("scales end at round numbers", () => {
  expect([0, 0.3, 1, 3, 7, 10, 11, 480].map(round)).toEqual([1, 0.5, 1, 5, 10, 10, 20, 500]);
});
test("a stack adds up, and missing data is hatched", () => {
  const drawing = series(all, 0, 3, true, null);
  expect(drawing.series.map(({ label }) => label)).toEqual(["b", "a"]);
  expect([drawing.top, drawing.recorded(1)]).toEqual([10, false]);
  const picture = seriesPixels(drawing, true, 3, 10);
  const column = (x: number) => Array.from({ length: 10 }, (_, y) => picture[y * 3 + x]);
  expect(column(2)).toEqual([1, 1, 1, 0, 0, 0, 0, 0, 0, 0]);
  expect(column(0)).toEqual([NOTHING, NOTHING, NOTHING, NOTHING, NOTHING, 1, 1, 1, 1, 0]);
});
test("the scale fits a single selected series", () => {
  const drawing = series(all, 0, 3, false, new Set([1]));
  expect([drawing.top, drawing.series.length]).toEqual([5, 1]);
});
test("more than seven are shown as seven and the others", () => {
  const many = data({
    name: "",
    title: "",
    unit: "ops",
    level: false,
    step: 1,
    closed: 99,
    columns: [{ start: 0, seconds: 1, total: 45, cells: Array.from({ length: 9 }, (_, nth) => [nth, nth + 1]).flat() }],
    keys: {},
  });
  const drawing = series(many, 0, 1, true, null);
  expect(drawing.series).toHaveLength(8);
  expect(drawing.series[7]!.values[0]).toBe(3);
});
