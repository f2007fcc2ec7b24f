import { expect, test } from "vitest";
import { parseRule, ruleOf, summary } from "./schedule";

test("a rule is a number of snapshots, optionally with only", () => {
  expect(parseRule("24")).toEqual({ keep: 24, only: false });
  expect(parseRule("24,only")).toEqual({ keep: 24, only: true });
  expect(parseRule("none")).toEqual({ keep: 0, only: false });
  for (const wrong of ["", "many", "24, only", "-1", "100001"]) expect(parseRule(wrong), wrong).toBeNull();
});

test("local and inherited rules apply, except only, received and refused ones", () => {
  const property = (label: string, value: string, source = "local", inherited_from?: string) => ({
    name: label.includes(":") ? label : `weir:snapshot-${label}`,
    value,
    source,
    inherited_from,
  });
  const properties = [
    property("hourly", "24", "inherited", "tank"),
    property("daily", "31"),
    property("weekly", "8,only", "inherited", "tank"),
    property("monthly", "12", "received"),
    property("frequent", "0"),
  ];
  expect(summary(properties, "tank/a")).toBe("24 hourly, 31 daily");
  expect(ruleOf(properties, "tank/a", "hourly")).toEqual({
    keep: 24,
    only: false,
    here: false,
    from: "tank",
    refused: false,
  });
  expect(summary([...properties, property("com.sun:auto-snapshot:daily", "false")], "tank/a")).toBe("24 hourly");
  expect(summary([...properties, property("com.sun:auto-snapshot", "False", "inherited", "tank")], "tank/a")).toBe("");
});
