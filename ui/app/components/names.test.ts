import { expect, test } from "vitest";
import { isOfDataset, isOfPool, jobTitle, parentName, poolName } from "./names";

test("the parent of a snapshot is its dataset; a pool has none", () => {
  expect(["tank/a@mon/day", "tank/a#b", "tank/a/b", "tank@x", "tank"].map(parentName)).toEqual([
    "tank/a",
    "tank/a",
    "tank/a",
    "tank",
    null,
  ]);
  expect(["tank/a@x", "tank@x", "tank"].map(poolName)).toEqual(["tank", "tank", "tank"]);
});

test("a job belongs to its pool, and to the dataset of its snapshot", () => {
  const job = { kind: "send", target: "tank/a@x" };
  expect(jobTitle(job)).toBe("Send tank/a@x");
  expect(jobTitle({ kind: "receive", target: "tank/b" })).toBe("Receive into tank/b");
  expect(["tank", "tan"].map((pool) => isOfPool(job, pool))).toEqual([true, false]);
  expect(["tank", "tank/a", "tank/a@x", "tank/a@y"].map((name) => isOfDataset(job, name))).toEqual([
    false,
    true,
    true,
    false,
  ]);
});
