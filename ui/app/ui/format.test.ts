import { describe, expect, test } from "vitest";
import { ago, bytes, count, duration, parseBytes, percent } from "./format";

describe("formatted numbers", () => {
  test("sizes have three digits and the suffixes of zfs", () => {
    expect([0, 512, 1536, 10 * 1024 ** 2, 352 * 1024 ** 2, 1024 ** 4 * 1.25].map(bytes)).toEqual([
      "0B",
      "512B",
      "1.50K",
      "10.0M",
      "352M",
      "1.25T",
    ]);
  });
  test("rounding never shows 1000 of a unit with four digits and a fraction", () => {
    expect(bytes(99.96 * 1024)).toBe("100K");
    expect(bytes(9.999 * 1024)).toBe("10.0K");
  });
  test("unfinished work is never shown as 100 %", () => {
    expect(percent(997, 1000)).toBe("99%");
    expect(percent(1000, 1000)).toBe("100%");
    expect(percent(1, 1000)).toBe("<1%");
    expect(percent(0, 0)).toBe("–");
  });
  test("durations show two units", () => {
    expect([0, 59, 61, 3600, 90061].map(duration)).toEqual(["0 s", "59 s", "1 min 1 s", "1 h", "1 d 1 h"]);
  });
  test("formatted sizes are parsed back", () => {
    for (const size of [1024, 10 * 1024 ** 3, 1536 * 1024]) expect(parseBytes(bytes(size))).toBe(size);
    expect(parseBytes("1.5 GiB")).toBe(1.5 * 1024 ** 3);
    expect(parseBytes("none")).toBeNull();
    expect(parseBytes("10X")).toBeNull();
  });
  test("counts and ages", () => {
    expect(count(1234567)).toBe("1,234,567");
    expect(count(2.25)).toBe("2.3");
    expect(ago(1000, 301_000)).toBe("5 min ago");
  });
});
