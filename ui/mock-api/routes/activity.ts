//! Routes of clients, jobs and events.

import type { Schemas } from "../../app/api/client";
import { type Route, seconds, ok, found, R } from "../route";

export const ACTIVITY: Route[] = [
  R("GET", "/v1/health", "viewer", function () {
    return ok(this.health());
  }),
  R("GET", "/v1/clients", "viewer", ({ state }) => ok({ items: state.clients })),
  R("GET", "/v1/jobs", "viewer", ({ state }) => ok({ items: [...state.jobs].reverse() })),
  R("POST", "/v1/jobs", "operator", function ({ state, body, who }) {
    const pool = found(
      state.pools.find((candidate) => candidate.name === body.target),
      `cannot open '${String(body.target)}': no such pool`,
    );
    const job: Schemas["Job"] = {
      id: state.jobs.length + 1,
      kind: body.kind as Schemas["JobKind"],
      target: pool.name,
      state: "running",
      started_by: who!.name,
      started: seconds(),
      progress: { done_bytes: 0, total_bytes: pool.allocated_bytes, percent: 0, bytes_per_second: 0 },
    };
    state.jobs.push(job);
    this.happen("job", "info", `Verifying ${pool.name} began.`, pool.name, who!.name);
    this.broadcast({ type: "job", job });
    return ok(job, 201);
  }),
  R("GET", "/v1/jobs/{job}", "viewer", ({ state, params }) =>
    ok(
      found(
        state.jobs.find((job) => String(job.id) === params[0]),
        `There is no job ${params[0]}.`,
      ),
    ),
  ),
  R("POST", "/v1/jobs/{job}/cancel", "operator", function ({ state, params }) {
    const job = found(
      state.jobs.find((candidate) => String(candidate.id) === params[0]),
      `There is no job ${params[0]}.`,
    );
    if (job.state === "running") job.state = "cancelling";
    this.broadcast({ type: "job", job });
    return ok(job);
  }),
  R("GET", "/v1/events", "viewer", ({ state, query }) =>
    ok({
      items: state.events
        .filter((event) => event.id > Number(query.get("after") ?? 0))
        .slice(-Number(query.get("limit") ?? 100)),
    }),
  ),
];
