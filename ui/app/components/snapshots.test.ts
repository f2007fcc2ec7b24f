import { expect, test } from "vitest";
import { findSnapshots, shortName, specOf } from "./snapshots";

const all = ["a", "hourly-1", "hourly-2", "daily-1", "hourly-3", "b"].map((name) => ({ name: `tank/home@${name}` }));

test("neighbours are combined to a range, others are listed", () => {
  expect(shortName("tank/home@a")).toBe("a");
  expect(specOf(all, findSnapshots(all, "hourly"))).toBe("hourly-1%hourly-2,hourly-3");
  expect(specOf(all, all)).toBe("a%b");
  expect(specOf(all, [all[0]!])).toBe("a");
  expect(specOf(all, [])).toBe("");
  expect(findSnapshots(all, "  DAILY 1 ").map((one) => one.name)).toEqual(["tank/home@daily-1"]);
  expect(findSnapshots(all, "home")).toEqual([]);
});
