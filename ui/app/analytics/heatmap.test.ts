import { describe, expect, test } from "vitest";
import { layout, ln, reach } from "./axis";
import { HeatMap, HATCH, NOTHING, type Cells, type Look } from "./heatmap";
import { pixels } from "./paint";
import { Ranks } from "./rank";
import { bucketOf, buckets } from "./scheme";

const LOOK: Look = { log: false, outliers: "none", band: null, coloring: "rank", rows: 100, pin: null };
const latency = buckets("latency");
const dice = (seed: number) => () => {
  seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
  return seed / 2 ** 32;
};
function random(cols: number, seed: number): Cells[] {
  const next = dice(seed);
  return Array.from({ length: cols }, (): Cells =>
    next() < 0.1
      ? null
      : Array.from(new Set(Array.from({ length: 20 }, () => Math.floor(next() ** 3 * 400)))).flatMap((bucket) => [
          bucket,
          1 + Math.floor(next() * 9),
        ]),
  );
}

describe("buckets", () => {
  test("are those of the server", () => {
    expect([latency.from.length, buckets("percent").from.length]).toEqual([722, 101]);
    for (const [value, from, to] of [
      [104_000, 100_000, 110_000],
      [23_500, 23_000, 24_000],
      [7_300_000_000, 7_300_000_000, 7_400_000_000],
      [999, 0, 1000],
    ] as const) {
      const bucket = bucketOf(latency, value);
      expect([latency.from[bucket], latency.to[bucket]]).toEqual([from, to]);
    }
    expect(bucketOf(latency, 2 ** 50)).toBe(721);
    const size = buckets("size");
    expect([size.from[bucketOf(size, 8192)], size.to[bucketOf(size, 8192)]]).toEqual([8192, 8704]);
  });
});

describe("rows", () => {
  test("are unions of buckets: none is in two, none in between is missing", () => {
    for (const scheme of ["latency", "size", "offset", "percent"] as const)
      for (const log of [false, true]) {
        const all = buckets(scheme);
        const { row, first, end } = layout(all, { low: log ? 1000 : 0, high: 5_000_000, log, rows: 100 });
        const shown = [...row].filter((of) => of >= 0);
        expect(shown).toEqual([...shown].sort((a, b) => a - b));
        expect(new Set(shown).size).toBe(first.length);
        for (let nth = 1; nth < first.length; nth += 1) expect(end[nth - 1]).toBe(first[nth]);
      }
  });
  test("the axis omits at most as many events as the mode allows, and reports their number", () => {
    const totals = new Float64Array(latency.from.length);
    totals[bucketOf(latency, 100_000)] = 9_969;
    totals[bucketOf(latency, 700_000)] = 30;
    totals[bucketOf(latency, 9_000_000)] = 1;
    const high = (outliers: Look["outliers"]) => reach(latency, totals, { log: false, outliers, band: null }).high;
    expect([high("5"), high("1"), high("0.1"), high("0.01"), high("none")]).toEqual([
      110_000, 110_000, 710_000, 710_000, 9_100_000,
    ]);
    const map = new HeatMap(latency, { ...LOOK, outliers: "1" });
    map.set([[bucketOf(latency, 100_000), 9_969, bucketOf(latency, 700_000), 30, bucketOf(latency, 9_000_000), 1]]);
    expect(map.hidden()).toEqual({ above: 31, below: 0, events: 10_000 });
  });
  test("the logarithm is right to the last digits", () => {
    for (const x of [1, 1.5, 2, 10, 1e3, 123_456_789, 1e13])
      expect(Math.abs(ln(x) - Math.log(x))).toBeLessThanOrEqual(4e-15 * Math.max(1, Math.log(x)));
  });
});

describe("colours", () => {
  test("by rank are the share of cells with the same count or less", () => {
    const ranks = new Ranks();
    for (const count of [1, 1, 1, 5, 100_000]) ranks.add(count);
    ranks.add(0);
    ranks.settle("rank");
    expect([1, 5, 100_000].map((count) => ranks.index(count))).toEqual([153, 204, 255]);
    ranks.settle("linear");
    expect(ranks.index(5)).toBe(0);
    ranks.remove(100_000);
    ranks.settle("linear");
    expect([1, 5].map((count) => ranks.index(count))).toEqual([51, 255]);
    expect(ranks.legend(4)).toEqual([{ count: 5, index: 255 }]);
  });
  test("an outlier of one in three hundred has a colour that stands out", () => {
    const ranks = new Ranks();
    for (let cell = 0; cell < 600; cell += 1) ranks.add(40 + (cell % 17));
    for (let cell = 0; cell < 60; cell += 1) ranks.add(1);
    ranks.settle("rank");
    const byRank = ranks.index(1);
    ranks.settle("linear");
    expect(byRank).toBeGreaterThan(ranks.index(1));
    expect(byRank).toBeGreaterThan(20);
  });
});

describe("columns that are appended one by one", () => {
  test("give the same picture as all together", () => {
    for (const [nth, look] of [
      LOOK,
      { ...LOOK, outliers: "1" as const, coloring: "log" as const },
      { ...LOOK, log: true, coloring: "linear" as const },
    ].entries()) {
      const columns = random(90, 7 + nth);
      const live = new HeatMap(latency, look);
      live.set(columns.slice(0, 50));
      for (let at = 50; at < 90; at += 1) {
        live.push(columns[at]!);
        const fresh = new HeatMap(latency, look);
        fresh.set(columns.slice(at - 49, at + 1));
        expect(
          Buffer.from(pixels(live, 137, 80).buffer).equals(Buffer.from(pixels(fresh, 137, 80).buffer)),
          `after column ${at}`,
        ).toBe(true);
        expect(live.ranks.cells).toBe(fresh.ranks.cells);
      }
    }
  });
  test("missing data is hatched, zero is plain", () => {
    const map = new HeatMap(latency, LOOK);
    map.set([[], null, [0, 3]]);
    const picture = pixels(map, 30, 12);
    const columns = [0, 1, 2].map(
      (column) =>
        new Set(
          Array.from({ length: 12 }, (_, y) => [
            ...picture.slice(y * 30 + column * 10, y * 30 + column * 10 + 10),
          ]).flat(),
        ),
    );
    expect(columns).toEqual([new Set([NOTHING]), new Set([NOTHING, HATCH]), new Set([255])]);
  });
  test("a cell reports the share of its column, and the share below it", () => {
    const map = new HeatMap(latency, LOOK);
    map.set([[bucketOf(latency, 100_000), 70, bucketOf(latency, 500_000), 20, bucketOf(latency, 900_000), 10]]);
    const row = map.rowAt(Math.floor((500_001 * 100) / map.layout.high));
    expect(map.share(0, row)).toEqual({ below: 70, count: 20, total: 100 });
    expect(map.range(row).from).toBeLessThanOrEqual(500_000);
  });
});

test("a picture of 1800 by 200 cells takes a column in less than a frame", () => {
  const columns = Array.from({ length: 1800 }, (_, nth) => random(1, nth + 1)[0] ?? []);
  const map = new HeatMap(latency, { ...LOOK, rows: 200 });
  map.set(columns);
  const into = new Uint16Array(1800 * 400);
  pixels(map, 1800, 400, into);
  const began = performance.now();
  for (let nth = 0; nth < 20; nth += 1) {
    map.push(columns[nth]!);
    pixels(map, 1800, 400, into);
  }
  const each = (performance.now() - began) / 20;
  console.log(`a column of 1800 x 200 cells, coloured again: ${each.toFixed(1)} ms`);
  expect(each).toBeLessThan(64);
});
