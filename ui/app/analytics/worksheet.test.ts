import { expect, test } from "vitest";
import { toSaved, fromSaved, read, VIEW, viewOf, viewText, write } from "./worksheet";

test("an address encodes a whole worksheet, including names with special characters", () => {
  const graphs = [
    {
      id: 0,
      name: "nfs3.ops[file=/a&b=c?#\\]][latency]",
      view: {
        ...VIEW,
        coloring: "log" as const,
        outliers: "5" as const,
        band: [1000, 2_000_000] as const,
        selected: ["100000"],
        pin: true,
      },
    },
    {
      id: 1,
      name: "nfs3.ops[client]",
      view: {
        ...VIEW,
        kind: "line" as const,
        selected: ["10.0.0.1", "<b>&"],
        own: { from: 10, to: 90 },
        table: true,
        tree: true,
      },
    },
    { id: 2, name: "cpu.utilization", view: VIEW },
  ];
  const sheet = { span: { from: 1000, to: 4600 }, graphs };
  expect(read(new URLSearchParams(write(sheet).toString()))).toEqual(sheet);
  expect(viewText(VIEW)).toBe("");
  expect(fromSaved(toSaved(sheet))).toEqual(sheet);
  expect(fromSaved({ span: {}, graphs: [{ name: "a.b", view: { v: 7 } }] })).toEqual({
    span: { last: 60 },
    graphs: [{ id: 0, name: "a.b", view: VIEW }],
  });
});
test("invalid parts of an address get their defaults", () => {
  expect(viewOf("kind=pie&outliers=9&band=5-1&pin=yes&from=9&to=3&palette=rainbow")).toEqual(VIEW);
  expect(read(new URLSearchParams("span=0&g=a.b")).span).toEqual({ last: 10 });
  expect(read(new URLSearchParams("")).graphs).toEqual([]);
});
