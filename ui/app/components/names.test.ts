import { expect, test } from "vitest";
import { parentName, poolName } from "./names";

test("a snapshot is in its dataset, a dataset in the one above, a pool in nothing", () => {
  expect(["tank/a@mon/day", "tank/a#b", "tank/a/b", "tank@x", "tank"].map(parentName)).toEqual(["tank/a", "tank/a", "tank/a", "tank", null]);
  expect(["tank/a@x", "tank@x", "tank"].map(poolName)).toEqual(["tank", "tank", "tank"]);
});
