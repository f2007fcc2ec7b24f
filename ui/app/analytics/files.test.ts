import { expect, test } from "vitest";
import { rows, tree } from "./files";

test("directories have the sum of their contents, the largest come first, and nothing is lost", () => {
  const root = tree([
    { name: "/a/b/c", total: 5 },
    { name: "/a/d", total: 7 },
    { name: "/e", total: 20 },
    { name: "<other>", total: 1 },
    { name: "/a/b", total: 2 },
  ]);
  expect(root.total).toBe(35);
  expect(rows(root, new Set(["/a", "/a/b"])).map(({ id, level, value }) => [id, level, value.total])).toEqual([
    ["/e", 1, 20],
    ["/a", 1, 14],
    ["/a/b", 2, 7],
    ["/a/b/c", 3, 5],
    ["/a/d", 2, 7],
    ["<other>", 1, 1],
  ]);
  expect(
    rows(
      tree([
        { name: "tank/home/a", total: 2 },
        { name: "tank/home/<b", total: 1 },
      ]),
      new Set(["tank", "tank/home"]),
    ).map(({ id, level }) => [id, level]),
  ).toEqual([
    ["tank", 1],
    ["tank/home", 2],
    ["tank/home/a", 3],
    ["tank/home/<b", 3],
  ]);
  expect(rows(root, new Set()).map(({ id, parent, siblings }) => [id, parent, siblings])).toEqual([
    ["/e", false, 3],
    ["/a", true, 3],
    ["<other>", false, 3],
  ]);
});
