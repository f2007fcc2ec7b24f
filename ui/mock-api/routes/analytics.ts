//! Routes of statistics, worksheets and alerts.

import type { Schemas } from "../../app/api/client";
import * as analytics from "../analytics";
import { unitOf } from "../health";
import type { Mock } from "../server";
import { type Answer, type Ask, type Route, Refused, seconds, ok, found, R } from "../route";

export function answered(answer: () => unknown): Answer {
  try {
    return ok(answer());
  } catch (error) {
    if (error instanceof analytics.Refusal) throw new Refused(400, "invalid_request", error.message);
    throw error;
  }
}

const countedOf = (mock: Mock, { params }: Ask) =>
  found(
    mock.counted.find((one) => String(one.id) === params[0]),
    `no statistic with the number ${params[0]} is counted`,
  );

const worksheetOf = (mock: Mock, { params }: Ask) =>
  found(
    mock.worksheets.find((sheet) => String(sheet.id) === params[0]),
    `There is no worksheet ${params[0]}.`,
  );

const alertOf = (mock: Mock, { params }: Ask) =>
  found(
    mock.alerts.find((alert) => String(alert.id) === params[0]),
    `There is no alert ${params[0]}.`,
  );

export const ANALYTICS: Route[] = [
  R("GET", "/v1/analytics/statistics", "viewer", () => ok({ items: analytics.catalogue })),
  R("GET", "/v1/analytics/datasets", "viewer", function () {
    return ok({ items: this.counted });
  }),
  R("POST", "/v1/analytics/datasets", "operator", function ({ body }) {
    const { name, archived } = body as unknown as Schemas["CountStatistic"];
    const known = this.counted.find((one) => one.name === name);
    if (known) known.archived ||= archived ?? false;
    else
      this.counted.push(
        analytics.counted(name, Math.max(0, ...this.counted.map(({ id }) => id)) + 1, archived ?? false),
      );
    return ok(known ?? this.counted.at(-1), 201);
  }),
  R("PATCH", "/v1/analytics/datasets/{counted}", "operator", function (ask) {
    const one = countedOf(this, ask);
    one.suspended = Boolean(ask.body.suspended);
    return ok(one);
  }),
  R("DELETE", "/v1/analytics/datasets/{counted}", "operator", function (ask) {
    const one = countedOf(this, ask);
    this.counted = this.counted.filter((other) => other !== one);
    return ok();
  }),
  R("POST", "/v1/analytics/datasets/{counted}/prune", "operator", function (ask) {
    const one = countedOf(this, ask);
    one.ondisk_bytes = Math.round(one.ondisk_bytes / 2);
    return ok(one);
  }),
  R("GET", "/v1/analytics/worksheets", "viewer", function () {
    return ok({
      items: [...this.worksheets].sort((a, b) => a.title.localeCompare(b.title)),
    } satisfies Schemas["WorksheetList"]);
  }),
  R("POST", "/v1/analytics/worksheets", "operator", function ({ body, who }) {
    const sheet: Schemas["Worksheet"] = {
      comment: "",
      ...(body as unknown as Schemas["SaveWorksheet"]),
      id: Math.max(0, ...this.worksheets.map(({ id }) => id)) + 1,
      owner: who!.name,
      created: seconds(),
      changed: seconds(),
    };
    this.worksheets.push(sheet);
    return ok(sheet, 201);
  }),
  R("GET", "/v1/analytics/worksheets/{worksheet}", "viewer", function (ask) {
    return ok(worksheetOf(this, ask));
  }),
  R("PUT", "/v1/analytics/worksheets/{worksheet}", "operator", function (ask) {
    const sheet = worksheetOf(this, ask);
    Object.assign(sheet, ask.body, { changed: seconds() });
    return ok(sheet);
  }),
  R("DELETE", "/v1/analytics/worksheets/{worksheet}", "operator", function (ask) {
    const sheet = worksheetOf(this, ask);
    this.worksheets = this.worksheets.filter((other) => other !== sheet);
    return ok();
  }),
  R("GET", "/v1/analytics/alerts", "operator", function () {
    return ok({ items: this.alerts } satisfies Schemas["AlertList"]);
  }),
  R("POST", "/v1/analytics/alerts", "operator", function ({ body, who }) {
    const rule = body as unknown as Schemas["AlertRule"];
    if (!/^[a-z0-9_-]+\.[a-z0-9_-]+/.test(rule.statistic))
      throw new Refused(400, "invalid_request", `Unknown statistic '${rule.statistic}'.`);
    const id = (this.alerts.at(-1)?.id ?? 0) + 1;
    const alert: Schemas["Alert"] = { id, rule, owner: who!.name, unit: unitOf(rule), waiting: 0 };
    this.alerts.push(alert);
    return ok(alert, 201);
  }),
  R("PUT", "/v1/analytics/alerts/{alert}", "operator", function (ask) {
    const alert = Object.assign(alertOf(this, ask), { rule: ask.body });
    this.changedHealth();
    return ok(alert);
  }),
  R("DELETE", "/v1/analytics/alerts/{alert}", "operator", function (ask) {
    const alert = alertOf(this, ask);
    if (alert.builtin) throw new Refused(409, "conflict", "a built-in alert cannot be deleted: suspend it");
    this.alerts = this.alerts.filter((other) => other !== alert);
    return ok();
  }),
  R("GET", "/v1/analytics/query", "viewer", ({ query }) => answered(() => analytics.query(query))),
  R("GET", "/v1/analytics/explain", "viewer", ({ query }) => answered(() => analytics.explain(query))),
];
