//! Weir's HTTP+JSON interface without Weir: for developing the page, and for its tests. Keeps
//! everything in memory, supports creating, changing and destroying, and simulates rates and jobs.
//! Users: ann (administrator, "correct horse"), bob (operator, "battery staple") and eve (viewer,
//! "only looking").

import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { readFile } from "node:fs/promises";
import { extname, join, normalize } from "node:path";
import type { Schemas } from "../app/api/client";
import * as analytics from "./analytics";
import { fresh, random, type State } from "./data";
import { builtIn, healthOf } from "./health";
import { ok, Refused, type Answer, type Ask, type Role, type Route, seconds } from "./route";
import { ACCESS } from "./routes/access";
import { ACTIVITY } from "./routes/activity";
import { ANALYTICS, answered } from "./routes/analytics";
import { DATASETS } from "./routes/datasets";
import { line, POOLS } from "./routes/pools";
import * as snapshots from "./snapshots";

const ROLES: Role[] = ["viewer", "operator", "administrator"];
const STREAMS = ["/v1/events/stream", "/v1/analytics/stream"];
/** The operations that a token for statistics allows. */
const OF_STATISTICS = ["/v1/analytics/query", "/v1/analytics/stream", "/v1/analytics/statistics"];

const ROUTES: Route[] = [...ACCESS, ...POOLS, ...DATASETS, ...ACTIVITY, ...ANALYTICS];

export interface Options {
  many?: number;
  snapshots?: number;
  setup?: boolean;
  clients?: number;
  loggedIn?: boolean;
  quick?: boolean;
  /** Milliseconds between rates. */ beat?: number;
}

export class Mock {
  state: State;
  counted = analytics.freshCounted();
  worksheets = analytics.freshWorksheets();
  alerts: Schemas["Alert"][] = builtIn();
  readonly #streams = new Set<ServerResponse>();
  readonly #columnStreams = new Set<ServerResponse>();
  readonly #sessions = new Map<string, { user: string; csrf: string }>();
  readonly #dice = random(42);
  readonly #timers: ReturnType<typeof setInterval>[] = [];
  readonly #options: Options;
  #sockets = new Set<import("node:net").Socket>();

  constructor(options: Options = {}) {
    this.#options = options;
    this.state = fresh(options);
    this.#timers.push(
      setInterval(() => this.#move(), options.beat ?? 2000),
      setInterval(() => this.#work(), options.quick ? 200 : 1000),
    );
    for (const timer of this.#timers) timer.unref();
    this.#move();
  }

  close(): void {
    for (const timer of this.#timers) clearInterval(timer);
    for (const stream of [...this.#streams, ...this.#columnStreams]) stream.end();
  }

  /** For tests: files that are missing. */
  missing: RegExp | null = null;

  /** For tests: while true, connections are closed at once, as if no process listened. */
  down = false;

  /** For tests: closes all connections, as if the process was killed. */
  cut(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  /** For tests: while true, nothing is sent and nothing answered, as if the process was stopped. */
  frozen = false;

  /** For tests: the open streams. */
  get streams(): { events: number; statistics: number } {
    return { events: this.#streams.size, statistics: this.#columnStreams.size };
  }

  /** For tests: ends all sessions. */
  endSessions(): void {
    this.#sessions.clear();
    for (const stream of [...this.#streams, ...this.#columnStreams]) stream.end();
  }

  listen(dist: string, port = 0): Promise<{ server: Server; url: string }> {
    const answer = this.handler();
    const server = createServer((request, response) =>
      answer(request, response, () => void serveFile(dist, request, response)),
    );
    server.on("connection", (socket) => {
      if (this.down) {
        socket.destroy();
        return;
      }
      this.#sockets.add(socket);
      socket.on("close", () => this.#sockets.delete(socket));
    });
    return new Promise((resolve) =>
      server.listen(port, "127.0.0.1", () => {
        const at = server.address();
        resolve({ server, url: `http://127.0.0.1:${typeof at === "object" && at ? at.port : port}` });
      }),
    );
  }

  handler() {
    return (request: IncomingMessage, response: ServerResponse, next: () => void): void => {
      const url = new URL(request.url ?? "/", "http://mock");
      if (!url.pathname.startsWith("/v1/") && !["/healthz", "/readyz", "/metrics"].includes(url.pathname))
        return this.missing?.test(url.pathname) ? void response.writeHead(404).end() : next();
      if (this.frozen) return;
      void this.#answer(request, url, response).catch((error: unknown) => {
        const refused = error instanceof Refused ? error : new Refused(500, "internal", String(error));
        send(response, {
          status: refused.status,
          body: { error: { code: refused.code, message: refused.message } } satisfies Schemas["ErrorReply"],
        });
      });
    };
  }

  broadcast(message: Schemas["LiveMessage"]): void {
    if (this.frozen) return;
    for (const stream of this.#streams) stream.write(`event: ${message.type}\ndata: ${JSON.stringify(message)}\n\n`);
  }

  happen(
    kind: Schemas["EventKind"],
    severity: Schemas["Severity"],
    message: string,
    subject?: string,
    by?: string,
  ): void {
    const event: Schemas["Event"] = {
      id: (this.state.events.at(-1)?.id ?? 0) + 1,
      time_ms: Date.now(),
      kind,
      severity,
      message,
      subject,
      by,
    };
    this.state.events.push(event);
    this.broadcast({ type: "event", event });
  }

  async #answer(request: IncomingMessage, url: URL, response: ServerResponse): Promise<void> {
    const sid = /weir_session=([^;]+)/.exec(request.headers.cookie ?? "")?.[1] ?? null;
    const session = sid ? this.#sessions.get(sid) : undefined;
    const isToken = request.headers.authorization === "Bearer weir_3nJxq9mock";
    const who = this.#options.loggedIn
      ? this.state.users[0]!
      : isToken
        ? { name: "token", role: "viewer" as const, created: 0, sessions: 0 }
        : (this.state.users.find((user) => user.name === session?.user) ?? null);
    const method = request.method ?? "GET";
    const route = ROUTES.find((candidate) => candidate.method === method && candidate.path.test(url.pathname));
    if (!route && !STREAMS.includes(url.pathname)) throw new Refused(404, "not_found", `There is no ${url.pathname}.`);
    const role = route ? route.role : "viewer";
    const only = isToken ? this.state.tokens.at(-1)?.statistics : undefined;
    if (
      only &&
      (!OF_STATISTICS.includes(url.pathname) || url.searchParams.getAll("name").some((name) => !only.includes(name)))
    )
      throw new Refused(403, "forbidden", "This token opens only its statistics.");
    if (role !== null) {
      if (!who) throw new Refused(401, "unauthenticated", "Log in first.");
      if (ROLES.indexOf(who.role) < ROLES.indexOf(role))
        throw new Refused(403, "forbidden", `This requires the role ${role}.`);
      if (method !== "GET" && !this.#options.loggedIn && request.headers["x-csrf-token"] !== session?.csrf)
        throw new Refused(403, "forbidden", "X-CSRF-Token is missing or wrong.");
    }
    if (!route)
      return url.pathname === "/v1/analytics/stream"
        ? this.#columns(url.searchParams, response)
        : this.#stream(response);
    const text = await bodyOf(request);
    const params = (route.path.exec(url.pathname) ?? []).slice(1).map(decodeURIComponent);
    send(
      response,
      route.answer.call(this, {
        state: this.state,
        params,
        query: url.searchParams,
        body: text ? (JSON.parse(text) as Record<string, unknown>) : {},
        who,
        sid,
      }),
    );
  }

  #columns(query: URLSearchParams, response: ServerResponse): void {
    const names = query.getAll("name");
    answered(() => analytics.columnsOf(names, 0));
    response.writeHead(200, { "Content-Type": "text/event-stream", "Cache-Control": "no-store" });
    let next = Number(query.get("after") ?? seconds() - 1) + 1;
    const pushColumns = () => {
      if (this.frozen) return;
      for (; next < seconds(); next += 1)
        response.write(`event: columns\nid: ${next}\ndata: ${JSON.stringify(analytics.columnsOf(names, next))}\n\n`);
    };
    pushColumns();
    const timer = setInterval(pushColumns, 100);
    timer.unref();
    this.#columnStreams.add(response);
    response.on("close", () => {
      clearInterval(timer);
      this.#columnStreams.delete(response);
    });
  }

  #stream(response: ServerResponse): void {
    response.writeHead(200, { "Content-Type": "text/event-stream", "Cache-Control": "no-store" });
    response.write(": hello\n\n");
    this.#streams.add(response);
    const heartbeat = setInterval(() => this.frozen || response.write(": \n\n"), 2000);
    heartbeat.unref();
    response.on("close", () => {
      clearInterval(heartbeat);
      this.#streams.delete(response);
    });
    const to = (message: Schemas["LiveMessage"]) =>
      response.write(`event: ${message.type}\ndata: ${JSON.stringify(message)}\n\n`);
    to({ type: "pools", pools: this.state.pools.map(line) });
    to({ type: "health", health: this.health() });
    for (const job of this.state.jobs) to({ type: "job", job });
    to({ type: "clients", clients: this.state.clients });
  }

  open(user: Schemas["User"]): Answer {
    const sid = Math.random().toString(36).slice(2) + Math.random().toString(36).slice(2);
    this.#sessions.set(sid, { user: user.name, csrf: `csrf-${sid}` });
    user.last_login = seconds();
    return {
      status: 201,
      body: this.sessionOf(user, sid),
      headers: { "Set-Cookie": `weir_session=${sid}; Path=/; HttpOnly; SameSite=Strict` },
    };
  }

  end(sid: string | null): void {
    if (sid) this.#sessions.delete(sid);
  }

  sessionOf(user: Schemas["User"], sid: string | null): Schemas["Session"] {
    return {
      user: user.name,
      role: user.role,
      by: "session",
      csrf_token: this.#sessions.get(sid ?? "")?.csrf ?? "none",
      expires: seconds() + 43_200,
    };
  }

  /** Changes snapshots, and notifies clients. */
  snap(ask: Ask, act: () => unknown, status?: number): Answer {
    try {
      const made = act();
      this.changedDatasets((ask.params[0] ?? String((ask.body.names as string[])[0])).split(/[/@]/)[0]!);
      return ok(made, status);
    } catch (error) {
      if (error instanceof snapshots.Refusal)
        throw new Refused(error.code === "conflict" ? 409 : 404, error.code, error.message);
      throw error;
    }
  }

  /** The verdict, from the devices and the firing alerts. */
  health(): Schemas["SystemHealth"] {
    return healthOf(this.state, this.alerts);
  }

  changedHealth(): void {
    this.broadcast({ type: "health", health: this.health() });
  }

  changedPools(): void {
    this.broadcast({ type: "pools", pools: this.state.pools.map(line) });
    this.changedHealth();
  }

  changedDatasets(pool: string): void {
    this.broadcast({ type: "datasets", pool });
  }

  /** Rates vary randomly; device counters follow. */
  #move(): void {
    this.state.clients.forEach((client, nth) => {
      const wave = 1 + Math.sin(Date.now() / 9000 + nth) * 0.4 + (this.#dice() - 0.5) * 0.3;
      const base = [9000, 4200, 2600, 900, 340, 120, 40, 6, 0][nth % 9]!;
      client.operations_per_second = Math.max(0, base * wave);
      client.read_bytes_per_second = client.operations_per_second * (nth % 3 === 0 ? 32_768 : 6000);
      client.written_bytes_per_second =
        nth % 2 === 1 ? client.operations_per_second * 9000 : client.operations_per_second * 300;
      client.operations += Math.round(client.operations_per_second * 2);
      client.last_seen = seconds() - (base === 0 ? 700 : 0);
    });
    this.broadcast({ type: "clients", clients: this.state.clients });
    for (const pool of this.state.pools) {
      const visit = (device: Schemas["Device"]) => {
        if (device.state === "ONLINE" && device.class !== "spare") {
          device.read_bytes += Math.round((20 + this.#dice() * 30) * 1024 ** 2);
          device.write_bytes += Math.round((4 + this.#dice() * 8) * 1024 ** 2);
        }
        device.children.forEach(visit);
      };
      visit(pool.devices);
    }
  }

  #work(): void {
    for (const job of this.state.jobs) {
      if (job.state === "cancelling") job.state = "cancelled";
      else if (job.state === "running") {
        const step = job.progress.total_bytes * (this.#options.quick ? 0.2 : 0.02);
        job.progress.done_bytes = Math.min(job.progress.total_bytes, job.progress.done_bytes + step);
        job.progress.percent = (job.progress.done_bytes / job.progress.total_bytes) * 100;
        job.progress.bytes_per_second = step;
        job.progress.seconds_left = Math.round((job.progress.total_bytes - job.progress.done_bytes) / step);
        if (job.progress.done_bytes >= job.progress.total_bytes) {
          job.state = "done";
          job.verification = {
            verdict: "clean",
            txg: 48_212,
            blocks: 231_004,
            bytes: job.progress.total_bytes,
            damaged_blocks: 0,
            lost_blocks: 0,
            files: [],
            devices: [],
            notes: [],
            seconds: seconds() - job.started,
          };
          this.happen("job", "info", `Verifying ${job.target} ended: clean.`, job.target, job.started_by);
        }
      } else continue;
      if (job.state !== "running") job.ended = seconds();
      this.broadcast({ type: "job", job });
    }
  }
}

function send(response: ServerResponse, { status, body, headers = {} }: Answer): void {
  const text = body === undefined ? "" : JSON.stringify(body);
  response.writeHead(status, {
    ...(text ? { "Content-Type": "application/json" } : {}),
    "Cache-Control": "no-store",
    ...headers,
  });
  response.end(text);
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  const parts: Buffer[] = [];
  for await (const part of request) parts.push(part as Buffer);
  return Buffer.concat(parts).toString("utf8");
}

const TYPES: Record<string, string> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript",
  ".css": "text/css",
  ".svg": "image/svg+xml",
};
/** Headers as sent by the daemon: nothing inline, nothing from other origins. */
const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors ";

async function serveFile(dist: string, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const path = normalize(decodeURIComponent(new URL(request.url ?? "/", "http://mock").pathname));
  // Names of datasets and clients contain dots, too: anything that is not a file is an address of
  // the page.
  for (const file of path.startsWith("/assets/") ? [path] : [path, "/index.html"]) {
    const content = await readFile(join(dist, file)).catch(() => null);
    if (content === null) continue;
    response.writeHead(200, {
      "Content-Type": TYPES[extname(file)] ?? "application/octet-stream",
      "Content-Security-Policy": `${POLICY}${path.startsWith("/embed/") ? "*" : "'none'"}`,
    });
    response.end(content);
    return;
  }
  response.writeHead(404).end();
}

let shared: Mock | undefined;
/** For `npm run dev`. */
export function handler() {
  shared?.close();
  shared = new Mock({ many: Number(process.env.WEIR_MOCK_MANY ?? 0) });
  return shared.handler();
}
