//! Examples that the server's tests use too: both must draw the same pictures.

import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { data } from "./data";
import { HeatMap } from "./heatmap";
import { pixels } from "./paint";
import { bucketOf, buckets, type Scheme } from "./scheme";
import { series, seriesPixels } from "./series";
import type { Coloring, Outliers } from "./worksheet";

interface Case {
  name: string;
  width: number;
  height: number;
}
interface HeatCase extends Case {
  scheme: Scheme;
  rows: number;
  scale: "linear" | "log";
  coloring: Coloring;
  outliers: Outliers;
  low?: number;
  high?: number;
  columns: (readonly [number, number | null, number][] | null)[];
  expected: { low: number; high: number; above: number; below: number; cells: number[]; pixels: number[][] };
}
interface GraphCase extends Case {
  shape: "lines" | "stacked";
  step: number;
  level: boolean;
  columns: ({ seconds: number; total: number; cells: [number, number][] } | null)[];
  expected: { top: number; series: (number | null)[]; pixels: number[][] };
}
const examples = JSON.parse(readFileSync("test/fixtures/picture.json", "utf8")) as {
  heat: HeatCase[];
  graphs: GraphCase[];
};
const lines = (picture: Uint16Array, width: number) =>
  Array.from({ length: picture.length / width }, (_, y) => [...picture.slice(y * width, (y + 1) * width)]);

describe("heat maps", () => {
  test.each(examples.heat.map((one) => [one.name, one] as const))("%s", (_, one) => {
    const scheme = buckets(one.scheme);
    const columns = one.columns.map(
      (column) =>
        column &&
        column.flatMap(([from, to, count]) => {
          const bucket = bucketOf(scheme, from);
          expect([scheme.from[bucket], scheme.to[bucket]]).toEqual([from, to ?? Infinity]);
          return [bucket, count];
        }),
    );
    const map = new HeatMap(scheme, {
      log: one.scale === "log",
      outliers: one.outliers,
      coloring: one.coloring,
      rows: one.rows,
      pin: null,
      band: one.low !== undefined || one.high !== undefined ? [one.low ?? null, one.high ?? null] : null,
    });
    map.set(columns);
    const { expected } = one;
    expect([map.layout.low, map.layout.high]).toEqual([expected.low, expected.high]);
    expect([map.hidden().above, map.hidden().below]).toEqual([expected.above, expected.below]);
    const cells = columns
      .flatMap((__, column) => Array.from({ length: map.rows }, (___, row) => map.count(column, row)))
      .filter((count) => count > 0);
    expect(cells.sort((a, b) => a - b)).toEqual(expected.cells);
    expect(lines(pixels(map, one.width, one.height), one.width)).toEqual(expected.pixels);
  });
});

describe("graphs", () => {
  test.each(examples.graphs.map((one) => [one.name, one] as const))("%s", (_, one) => {
    const given = data({
      name: "",
      title: "",
      unit: "ops",
      level: one.level,
      step: one.step,
      closed: 99,
      keys: {},
      columns: one.columns.flatMap((column, nth) =>
        column
          ? [{ start: nth * one.step, seconds: column.seconds, total: column.total, cells: column.cells.flat() }]
          : [],
      ),
    });
    const stacked = one.shape === "stacked";
    const drawing = series(given, 0, one.columns.length * one.step, stacked, null);
    expect([drawing.top, drawing.series.map(({ key }) => key)]).toEqual([one.expected.top, one.expected.series]);
    expect(lines(seriesPixels(drawing, stacked, one.width, one.height), one.width)).toEqual(one.expected.pixels);
  });
});
