import { describe, expect, test } from "vitest";
import { DAY, extent, forward, HOUR, lengthText, move, MONTH, pause, stepFor, ticks, zoom } from "./time";

describe("spans", () => {
  test("columns are as fine as the picture allows", () => {
    expect([60, 1800, HOUR, DAY, MONTH].map((last) => stepFor({ last }, 1800))).toEqual([1, 1, 2, 60, 1800]);
    for (const seconds of [61, 7777, 90_000, 5 * MONTH]) {
      const span = { from: 1_000_003, to: 1_000_003 + seconds };
      const { from, to, step } = extent(span, 2e9, stepFor(span, 1000));
      expect((to - from) / step).toBeLessThanOrEqual(1000);
      expect([from <= span.from, to >= span.to]).toEqual([true, true]);
    }
  });
  test("a live range ends with the last complete second; columns start at multiples of their step", () => {
    expect(extent({ last: 60 }, 1000, 1)).toEqual({ from: 941, to: 1001, step: 1 });
    const day = extent({ last: DAY }, 1_000_000_030, 60);
    expect([day.from % 60, day.to % 60, day.to - day.from]).toEqual([0, 0, DAY]);
    expect(day.to).toBeGreaterThan(1_000_000_030);
  });
  test("moving back ends a live range, moving past the end resumes it", () => {
    const back = move({ last: 60 }, -0.5, 1000);
    expect(back).toEqual({ from: 911, to: 971 });
    expect(move(back, 1, 1000)).toEqual({ last: 60 });
    expect(forward(back)).toEqual({ last: 60 });
    expect(pause({ last: 60 }, 1000)).toEqual({ from: 941, to: 1001 });
  });
  test("zooming keeps the middle and stays within the recorded time", () => {
    expect(zoom({ from: 100, to: 200 }, 0.5, 1000)).toEqual({ from: 125, to: 175 });
    expect(zoom({ last: 60 }, 2, 1000)).toEqual({ last: 120 });
    expect(zoom({ last: 12 }, 0.5, 1000)).toEqual({ last: 10 });
    expect(zoom({ from: 900, to: 1000 }, 2, 1000)).toEqual({ from: 801, to: 1001 });
  });
  test("marks are at round times, not too close", () => {
    const marks = ticks(1_700_000_003, 1_700_000_063, 600);
    expect(marks.map(({ at }) => at)).toEqual([
      1_700_000_010, 1_700_000_020, 1_700_000_030, 1_700_000_040, 1_700_000_050, 1_700_000_060,
    ]);
    expect(ticks(0, 0, 600)).toEqual([]);
    expect([60, HOUR, 2 * DAY, 90].map(lengthText)).toEqual(["1 minute", "1 hour", "2 days", "90 seconds"]);
  });
});
