import { describe, expect, test } from "vitest";
import { Forest, window } from "./tree";

const parentOf = (name: string) => (name.includes("/") ? name.slice(0, name.lastIndexOf("/")) : null);
const forest = (names: string[]) => new Forest(names, (name) => name, parentOf);

describe("a tree as rows", () => {
  test("children follow their parent, one level deeper", () => {
    const rows = forest(["tank", "tank/home", "tank/home/ann", "tank/vm", "rust"]).rows(new Set());
    expect(rows.map((row) => [row.id, row.level, row.position, row.siblings])).toEqual([
      ["tank", 1, 1, 2],
      ["tank/home", 2, 1, 2],
      ["tank/home/ann", 3, 1, 1],
      ["tank/vm", 2, 2, 2],
      ["rust", 1, 2, 2],
    ]);
  });
  test("a folded row hides all its descendants", () => {
    const rows = forest(["tank", "tank/home", "tank/home/ann", "tank/vm"]).rows(new Set(["tank/home"]));
    expect(rows.map((row) => row.id)).toEqual(["tank", "tank/home", "tank/vm"]);
    expect(rows[1]).toMatchObject({ parent: true, open: false });
  });
  test("a filter keeps ancestors and unfolds them", () => {
    const rows = forest(["tank", "tank/home", "tank/home/ann", "tank/vm"]).rows(new Set(["tank"]), (name) =>
      name.endsWith("ann"),
    );
    expect(rows.map((row) => row.id)).toEqual(["tank", "tank/home", "tank/home/ann"]);
  });
  test("a dataset whose parent is not shown is a root", () => {
    expect(forest(["tank/home"]).rows(new Set())[0]).toMatchObject({ level: 1, parent: false });
  });
  test("100,000 rows and a chain 50,000 deep are fast", () => {
    const wide = Array.from({ length: 100_000 }, (_, index) => (index === 0 ? "tank" : `tank/d${index}`));
    const began = performance.now();
    expect(forest(wide).rows(new Set())).toHaveLength(100_000);
    const deep = Array.from({ length: 50_000 }, (_, index) => index);
    const chain = new Forest(deep, String, (index) => (index === 0 ? null : String(index - 1)));
    expect(chain.rows(new Set()).at(-1)).toMatchObject({ level: 50_000 });
    expect(performance.now() - began).toBeLessThan(10_000);
  });
  test("only rows in view are drawn, at every edge", () => {
    expect(window(100_000, 30, 0, 600, 10)).toEqual({ first: 0, last: 30 });
    expect(window(100_000, 30, 1_500_000, 600, 10)).toEqual({ first: 49_990, last: 50_030 });
    expect(window(5, 30, 0, 600)).toEqual({ first: 0, last: 5 });
    expect(window(3, 30, 9000, 600)).toEqual({ first: 3, last: 3 });
    expect(window(0, 30, 0, 600)).toEqual({ first: 0, last: 0 });
  });
});
