import { expect, test } from "vitest";
import { layoutFacts } from "./layout";

test("layouts show how many devices may fail and the usable space", () => {
  expect(layoutFacts("raidz1", 4, 1000)).toMatchObject({ least: 2, mayFail: 1, usable: 3000 });
  expect(layoutFacts("raidz2", 6, 1000)).toMatchObject({ least: 3, mayFail: 2, usable: 4000 });
  expect(layoutFacts("mirror", 3, 1000)).toMatchObject({ least: 2, mayFail: 2, usable: 1000 });
  expect(layoutFacts("single", 2, 1000)).toMatchObject({ least: 1, mayFail: 0, usable: 2000 });
  expect(layoutFacts("raidz3", 3, 1000)).toMatchObject({ least: 4, usable: null });
  expect(layoutFacts("raidz1", 4, null).sentence).toBe("Any one device may fail. 75% of the space holds data.");
});
