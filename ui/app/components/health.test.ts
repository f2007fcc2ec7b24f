import { expect, test } from "vitest";
import type { Schemas } from "../api/client";
import { titleWith, verdictText } from "./health";

const health = (...severities: Schemas["HealthVerdict"][]): Schemas["SystemHealth"] => ({
  verdict: severities[0] ?? "good",
  reasons: severities.map((severity) => ({ severity, kind: "pool", subject: "tank", what: "x", link: "/pools/tank" })),
});

test("the verdict counts its reasons by severity", () => {
  expect(verdictText(health())).toBe("Good");
  expect(verdictText(health("attention"))).toBe("1 thing needs attention");
  expect(verdictText(health("serious", "attention", "attention"))).toBe("1 serious problem, 2 things need attention");
  expect(verdictText(health("serious", "serious"))).toBe("2 serious problems");
});

test("the title of the document has the number of reasons, and nothing while all is good or unknown", () => {
  expect(titleWith("Overview · filer", health("serious", "attention"))).toBe("(2) Overview · filer");
  expect([titleWith("Overview", health()), titleWith("Overview", null)]).toEqual(["Overview", "Overview"]);
});
