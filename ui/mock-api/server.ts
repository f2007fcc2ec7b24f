//! Weir's HTTP+JSON interface without Weir: for developing the page, and for its tests. Keeps
//! everything in memory, supports creating, changing and destroying, and simulates rates and jobs.
//! Users: ann (administrator, "correct horse"), bob (operator, "battery staple") and eve (viewer,
//! "only looking").

import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { readFile } from "node:fs/promises";
import { extname, join, normalize } from "node:path";
import type { Schemas } from "../app/api/client";
import * as analytics from "./analytics";
import { definitions, fresh, random, START, type State } from "./data";
import * as snapshots from "./snapshots";

type Role = Schemas["Role"];
type Answer = { status: number; body?: unknown; headers?: Record<string, string> };
interface Ask {
  state: State;
  params: string[];
  query: URLSearchParams;
  body: Record<string, unknown>;
  who: Schemas["User"] | null;
  sid: string | null;
}
interface Route {
  method: string;
  path: RegExp;
  role: Role | null;
  answer: (ask: Ask) => Answer;
}

const ROLES: Role[] = ["viewer", "operator", "administrator"];
const seconds = () => Math.floor(Date.now() / 1000);

class Refused extends Error {
  constructor(
    readonly status: number,
    readonly code: Schemas["ErrorCode"],
    message: string,
  ) {
    super(message);
  }
}

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
  alerts: Schemas["Alert"][] = [];
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

  changedPools(): void {
    this.broadcast({ type: "pools", pools: this.state.pools.map(line) });
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

const line = ({
  devices: _1,
  caches: _2,
  spares: _3,
  features: _4,
  damaged_files: _5,
  warnings: _6,
  activity: _7,
  ...pool
}: Schemas["PoolDetail"]): Schemas["Pool"] => pool;

function ok(body?: unknown, status = body === undefined ? 204 : 200): Answer {
  return { status, body };
}

function found<T>(value: T | undefined, what: string): T {
  if (value === undefined) throw new Refused(404, "not_found", what);
  return value;
}

const poolOf = (ask: Ask) =>
  found(
    ask.state.pools.find((pool) => pool.name === ask.params[0]),
    `cannot open '${ask.params[0]}': no such pool`,
  );
const datasetOf = (ask: Ask, name = ask.params[0]!) =>
  found(
    ask.state.datasets.find((dataset) => dataset.name === name),
    `cannot open '${name}': dataset does not exist`,
  );
const above = (name: string): string | null => (name.includes("/") ? name.slice(0, name.lastIndexOf("/")) : null);
const pretty = (value: string) => value;

function property(
  state: State,
  dataset: Schemas["Dataset"],
  definition: Schemas["PropertyDefinition"],
): Schemas["Property"] {
  const own = state.local.get(dataset.name)?.get(definition.name);
  const base = { name: definition.name, editable: dataset.kind !== "snapshot" };
  if (own !== undefined) return { ...base, value: own, text: pretty(own), source: "local" };
  for (let up = above(dataset.name); definition.inheritable && up !== null; up = above(up)) {
    const value = state.local.get(up)?.get(definition.name);
    if (value !== undefined) return { ...base, value, text: pretty(value), source: "inherited", inherited_from: up };
  }
  const standard = (definition.default ?? "-").replace("/NAME", `/${dataset.name}`);
  return { ...base, value: standard, text: standard === "131072" ? "128K" : standard, source: "default" };
}

function detail(state: State, dataset: Schemas["Dataset"]): Schemas["DatasetDetail"] {
  const fixed = (
    [
      ["type", dataset.kind],
      ["creation", String(dataset.created)],
      ["used", String(dataset.used_bytes)],
      ["referenced", String(dataset.referenced_bytes)],
      ["compressratio", `${(dataset.compress_ratio ?? 1).toFixed(2)}x`],
      ["encryption", dataset.key === "not_encrypted" ? "off" : "aes-256-gcm"],
      [
        "clones",
        state.datasets
          .filter((one) => one.origin === dataset.name)
          .map((one) => one.name)
          .join(","),
      ],
    ] as const
  ).map(([name, value]): Schemas["Property"] => ({ name, value, text: value, source: "none", editable: false }));
  // User properties are inherited by all datasets, and have no definition.
  const known = new Set(definitions.map((definition) => definition.name));
  const made = new Map<string, Schemas["Property"]>();
  for (let at: string | null = dataset.name.split("@")[0]!; at !== null; at = above(at)) {
    for (const [name, value] of state.local.get(at) ?? []) {
      if (!known.has(name) && name.includes(":") && !made.has(name))
        made.set(name, {
          name,
          value,
          text: value,
          editable: true,
          ...(at === dataset.name ? { source: "local" } : { source: "inherited", inherited_from: at }),
        });
    }
  }
  const kinds = definitions.filter(
    (definition) => definition.of === "dataset" && definition.kinds.includes(dataset.kind),
  );
  return {
    ...dataset,
    properties: [...fixed, ...kinds.map((definition) => property(state, dataset, definition)), ...made.values()].sort(
      (a, b) => a.name.localeCompare(b.name),
    ),
  };
}

function share(state: State, dataset: Schemas["Dataset"]): Schemas["Share"] {
  const set = property(
    state,
    dataset,
    definitions.find((definition) => definition.name === "sharenfs")!,
  );
  const hosts =
    set.value === "on"
      ? [{ hosts: "*", writable: true, squash: "root" }]
      : set.value.split(",").flatMap((option) => {
          const match = /^(rw|ro)=(.*)$/.exec(option);
          return match
            ? match[2]!.split(":").map((host) => ({
                hosts: host.replace(/^@/, ""),
                writable: match[1] === "rw",
                squash: set.value.includes("no_root_squash") ? "none" : "root",
              }))
            : [];
        });
  const locked = dataset.key === "unavailable";
  return {
    dataset: dataset.name,
    protocol: "nfs",
    path: `/${dataset.name}`,
    options: set.value,
    inherited_from: set.inherited_from,
    active: !locked,
    reason: locked ? "It is encrypted and its key is not loaded." : undefined,
    hosts,
  };
}

function page<T>(items: T[], query: URLSearchParams): { items: T[]; next?: string } {
  const limit = Math.min(1000, Number(query.get("limit") ?? 100));
  const from = Number(query.get("cursor") ?? 0);
  return {
    items: items.slice(from, from + limit),
    next: from + limit < items.length ? String(from + limit) : undefined,
  };
}

const STREAMS = ["/v1/events/stream", "/v1/analytics/stream"];

function answered(answer: () => unknown): Answer {
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

/** The operations that a token for statistics allows. */
const OF_STATISTICS = ["/v1/analytics/query", "/v1/analytics/stream", "/v1/analytics/statistics"];

const alertOf = (mock: Mock, { params }: Ask) =>
  found(
    mock.alerts.find((alert) => String(alert.id) === params[0]),
    `There is no alert ${params[0]}.`,
  );

const R = (method: string, path: string, role: Role | null, answer: (this: Mock, ask: Ask) => Answer): Route => ({
  method,
  path: new RegExp(`^${path.replace(/\{\w+\}/g, "([^/]+)")}$`),
  role,
  answer: answer,
});

const ROUTES: Route[] = [
  R("GET", "/healthz", null, () =>
    ok({
      ok: true,
      checks: [
        { name: "pools", ok: true },
        { name: "nfs", ok: true },
        { name: "state folder", ok: true },
      ],
    } satisfies Schemas["HealthReply"]),
  ),
  R("GET", "/v1/version", null, () =>
    ok({ weir: "0.4.0", api: "1", openzfs: "2.3.2", host: "filer" } satisfies Schemas["Version"]),
  ),
  R("GET", "/v1/system", "viewer", () =>
    ok({
      started: START,
      pid: 812,
      memory_bytes: 1_310_000_000,
      cpu_seconds: 9120.4,
      open_files: 61,
      threads: 23,
      processors: 2,
      cache: { max_bytes: 1024 ** 3, used_bytes: 871_000_000, hits: 84_111_002, misses: 2_904_110 },
    } satisfies Schemas["System"]),
  ),
  R("GET", "/v1/settings", "administrator", () =>
    ok({
      items: [
        {
          name: "http.address",
          value: "127.0.0.1:8215",
          default: "127.0.0.1:8215",
          source: "default",
          changes: "restart",
          help: "Where the page and the interface listen.",
        },
        {
          name: "nfs.address",
          value: "127.0.0.1:12049",
          default: "0.0.0.0:2049",
          source: "file",
          changes: "restart",
          pending: "127.0.0.1:2049",
          help: "Where NFS listens.",
        },
      ],
    } satisfies Schemas["SettingList"]),
  ),
  R("GET", "/v1/setup", null, ({ state }) => ok({ needed: state.setupToken !== null })),
  R("POST", "/v1/setup", null, function ({ state, body }) {
    if (state.setupToken === null || body.token !== state.setupToken)
      throw new Refused(403, "forbidden", "This link is not valid: the token has been used or is another start's.");
    const user: Schemas["User"] = { name: String(body.user), role: "administrator", created: seconds(), sessions: 1 };
    state.users.push(user);
    state.passwords.set(user.name, String(body.password));
    state.setupToken = null;
    return this.open(user);
  }),
  R("POST", "/v1/session", null, function ({ state, body }) {
    const user = state.users.find((candidate) => candidate.name === body.user);
    if (!user || state.passwords.get(user.name) !== body.password)
      throw new Refused(401, "unauthenticated", "Wrong user or password.");
    return this.open(user);
  }),
  R("GET", "/v1/session", "viewer", function ({ who, sid }) {
    return ok(this.sessionOf(who!, sid));
  }),
  R("DELETE", "/v1/session", "viewer", function ({ sid }) {
    this.end(sid);
    return ok();
  }),
  R("PUT", "/v1/session/password", "viewer", ({ state, body, who }) => {
    if (state.passwords.get(who!.name) !== body.current)
      throw new Refused(403, "forbidden", "The present password is not right.");
    state.passwords.set(who!.name, String(body.new));
    return ok();
  }),
  R("GET", "/v1/users", "administrator", ({ state }) => ok({ items: state.users })),
  R("POST", "/v1/users", "administrator", ({ state, body }) => {
    const user: Schemas["User"] = {
      name: String(body.name),
      role: body.role as Role,
      created: seconds(),
      sessions: 0,
    };
    if (state.users.some((other) => other.name === user.name))
      throw new Refused(409, "conflict", `There is a user ${user.name} already.`);
    state.users.push(user);
    state.passwords.set(user.name, String(body.password));
    return ok(user, 201);
  }),
  R("PATCH", "/v1/users/{user}", "administrator", ({ state, params, body }) => {
    const user = found(
      state.users.find((candidate) => candidate.name === params[0]),
      `There is no user ${params[0]}.`,
    );
    if (body.role) user.role = body.role as unknown as Role;
    return ok(user);
  }),
  R("DELETE", "/v1/users/{user}", "administrator", ({ state, params }) => {
    state.users = state.users.filter((user) => user.name !== params[0]);
    return ok();
  }),
  R("GET", "/v1/tokens", "viewer", ({ state }) => ok({ items: state.tokens })),
  R("POST", "/v1/tokens", "viewer", ({ state, body, who }) => {
    const token: Schemas["Token"] = {
      id: (state.tokens.at(-1)?.id ?? 0) + 1,
      name: String(body.name),
      user: who!.name,
      role: body.role as Role,
      statistics: body.statistics as string[] | undefined,
      created: seconds(),
      expires: body.days ? seconds() + Number(body.days) * 86400 : undefined,
    };
    state.tokens.push(token);
    return ok({ ...token, secret: "weir_3nJxq9mock" } satisfies Schemas["CreatedToken"], 201);
  }),
  R("DELETE", "/v1/tokens/{token}", "viewer", ({ state, params }) => {
    state.tokens = state.tokens.filter((token) => String(token.id) !== params[0]);
    return ok();
  }),
  R("GET", "/v1/audit", "administrator", ({ state, query }) => ok(page(state.audit, query))),
  R("GET", "/v1/pools", "viewer", ({ state }) => ok({ items: state.pools.map(line) })),
  R("POST", "/v1/pools", "administrator", function ({ state, body }) {
    const group = (body as unknown as Schemas["CreatePool"]).groups[0]!;
    const name = String(body.name);
    if (state.pools.some((pool) => pool.name === name))
      throw new Refused(409, "conflict", `cannot create '${name}': pool already exists`);
    const model = structuredClone(state.pools[0]!);
    const size = (group.make_files_bytes ?? 1024 ** 3) * group.paths.length;
    const made: Schemas["PoolDetail"] = {
      ...model,
      name,
      guid: String(9_000_000 + state.pools.length),
      used_bytes: 120_000,
      allocated_bytes: 160_000,
      size_bytes: size,
      free_bytes: size,
      available_bytes: size * 0.7,
      capacity_percent: 0,
      scan: undefined,
      txg: 5,
      spares: [],
      caches: [],
    };
    made.devices = {
      ...model.devices,
      name,
      children: [
        {
          ...model.devices.children[0]!,
          name: `${group.layout}-0`,
          children: group.paths.map((path, nth) => ({
            ...model.devices.children[0]!.children[0]!,
            name: path,
            path,
            guid: String(7_000_000 + nth),
          })),
        },
      ],
    };
    state.pools.push(made);
    state.datasets.push({
      ...state.datasets[0]!,
      name,
      guid: String(8_000_000 + state.datasets.length),
      used_bytes: 120_000,
      children: 0,
      mountpoint: `/${name}`,
    });
    this.happen("pool", "info", `${name} was created.`, name, "ann");
    this.changedPools();
    this.changedDatasets(name);
    return ok(made, 201);
  }),
  R("GET", "/v1/importable", "administrator", ({ state, query }) =>
    ok({
      items:
        query.get("place") === "/empty"
          ? []
          : [
              {
                name: "rescue",
                guid: "1234567890123456789",
                state: "ONLINE",
                health: { ok: true },
                destroyed: false,
                devices: state.pools[0]!.devices,
              },
            ],
    } satisfies Schemas["ImportablePoolList"]),
  ),
  R("POST", "/v1/import", "administrator", function ({ state, body }) {
    const name = (body.new_name as string | undefined) ?? "rescue";
    const made = {
      ...structuredClone(state.pools[0]!),
      name,
      guid: String(body.pool),
      read_only: Boolean(body.read_only),
    };
    state.pools.push(made);
    state.datasets.push({ ...state.datasets[0]!, name, children: 0 });
    this.changedPools();
    this.changedDatasets(name);
    return ok(made);
  }),
  R("GET", "/v1/pools/{pool}", "viewer", (ask) => ok(poolOf(ask))),
  R("GET", "/v1/pools/{pool}/properties", "viewer", (ask) => {
    const pool = poolOf(ask);
    const set = ask.state.poolProperties.get(pool.name);
    return ok({
      items: [
        {
          name: "size",
          value: String(pool.size_bytes),
          text: String(pool.size_bytes),
          source: "none",
          editable: false,
        },
        { name: "health", value: pool.state, text: pool.state, source: "none", editable: false },
        ...["autotrim", "comment"].map((name): Schemas["Property"] => ({
          name,
          value: set?.get(name) ?? (name === "autotrim" ? "off" : "-"),
          text: set?.get(name) ?? (name === "autotrim" ? "off" : "-"),
          source: set?.has(name) ? "local" : "default",
          editable: true,
        })),
      ],
    } satisfies Schemas["PropertyList"]);
  }),
  R("PATCH", "/v1/pools/{pool}/properties", "administrator", (ask) => {
    const pool = poolOf(ask);
    const set = ask.state.poolProperties.get(pool.name) ?? new Map<string, string>();
    for (const [name, value] of Object.entries(ask.body.set ?? {})) set.set(name, value as string);
    ask.state.poolProperties.set(pool.name, set);
    return ok({ items: [] });
  }),
  R("POST", "/v1/pools/{pool}/export", "administrator", function (ask) {
    const pool = poolOf(ask);
    ask.state.pools = ask.state.pools.filter((other) => other !== pool);
    ask.state.datasets = ask.state.datasets.filter((dataset) => dataset.name.split(/[/@]/)[0] !== pool.name);
    this.changedPools();
    return ok();
  }),
  R("POST", "/v1/pools/{pool}/destroy", "administrator", function (ask) {
    const pool = poolOf(ask);
    if (ask.body.confirm !== pool.name)
      throw new Refused(409, "confirmation_required", "Repeat the name in `confirm`.");
    ask.state.pools = ask.state.pools.filter((other) => other !== pool);
    ask.state.datasets = ask.state.datasets.filter((dataset) => dataset.name.split(/[/@]/)[0] !== pool.name);
    this.happen("pool", "warning", `${pool.name} was destroyed.`, pool.name, ask.who!.name);
    this.changedPools();
    return ok();
  }),
  R("POST", "/v1/pools/{pool}/clear", "operator", function (ask) {
    const pool = poolOf(ask);
    const visit = (device: Schemas["Device"]) => {
      device.read_errors = device.write_errors = device.checksum_errors = 0;
      device.children.forEach(visit);
    };
    visit(pool.devices);
    this.changedPools();
    return ok(pool);
  }),
  R("GET", "/v1/datasets", "viewer", ({ state, query }) => {
    const kinds = (query.get("kind") ?? "filesystem,volume").split(",");
    const root = query.get("root");
    const search = query.get("search")?.toLowerCase();
    const depth = query.get("depth");
    return ok(
      page(
        state.datasets.filter(
          (dataset) =>
            kinds.includes(dataset.kind) &&
            (!search || dataset.name.toLowerCase().includes(search)) &&
            (!root ||
              dataset.name === root ||
              (dataset.name.startsWith(root) && /[/@#]/.test(dataset.name[root.length]!))) &&
            (!root || depth === null || dataset.name.slice(root.length).split("/").length - 1 <= Number(depth)),
        ),
        query,
      ),
    );
  }),
  R("POST", "/v1/datasets", "operator", function (ask) {
    const wanted = ask.body as unknown as Schemas["CreateDataset"];
    if (ask.state.datasets.some((dataset) => dataset.name === wanted.name))
      throw new Refused(422, "failed", `cannot create '${wanted.name}': dataset already exists`);
    const parent = datasetOf(ask, above(wanted.name) ?? "");
    const made: Schemas["Dataset"] = {
      ...parent,
      name: wanted.name,
      guid: String(5_000_000 + ask.state.datasets.length),
      created: seconds(),
      used_bytes: 98_304,
      referenced_bytes: 98_304,
      children: 0,
      snapshots: 0,
      kind: wanted.volume_bytes ? "volume" : "filesystem",
      volume_bytes: wanted.volume_bytes,
      mountpoint: wanted.volume_bytes ? undefined : `/${wanted.name}`,
      key: wanted.passphrase ? "available" : parent.key,
      quota_bytes: undefined,
    };
    parent.children += 1;
    ask.state.datasets.push(made);
    ask.state.local.set(made.name, new Map(Object.entries(wanted.properties ?? {})));
    this.happen("dataset", "info", `${made.name} was created.`, made.name, ask.who!.name);
    this.changedDatasets(made.name.split("/")[0]!);
    return ok(detail(ask.state, made), 201);
  }),
  R("GET", "/v1/datasets/{dataset}", "viewer", (ask) => ok(detail(ask.state, datasetOf(ask)))),
  R("PATCH", "/v1/datasets/{dataset}/properties", "operator", function (ask) {
    const dataset = datasetOf(ask);
    const set = ask.state.local.get(dataset.name) ?? new Map<string, string>();
    const change = ask.body as unknown as Schemas["ChangeProperties"];
    for (const [name, value] of Object.entries(change.set ?? {})) {
      const definition = definitions.find((candidate) => candidate.name === name);
      if (definition?.choices?.length && !definition.choices.includes(value))
        throw new Refused(
          422,
          "failed",
          `cannot set property for '${dataset.name}': '${name}' must be one of '${definition.choices.join(" | ")}'`,
        );
      set.set(name, value);
    }
    for (const name of change.inherit ?? []) set.delete(name);
    ask.state.local.set(dataset.name, set);
    this.happen("dataset", "info", `Properties of ${dataset.name} were changed.`, dataset.name, ask.who!.name);
    this.changedDatasets(dataset.name.split("/")[0]!);
    return ok(detail(ask.state, dataset));
  }),
  R("POST", "/v1/datasets/{dataset}/rename", "operator", function (ask) {
    const dataset = datasetOf(ask);
    const [from, to] = [dataset.name, String(ask.body.to)];
    for (const other of ask.state.datasets)
      if (other.name === from || other.name.startsWith(`${from}/`) || other.name.startsWith(`${from}@`))
        other.name = to + other.name.slice(from.length);
    this.changedDatasets(to.split("/")[0]!);
    return ok(detail(ask.state, dataset));
  }),
  R("POST", "/v1/datasets/{dataset}/destroy", "administrator", function (ask) {
    const name: string = ask.params[0]!;
    if (String(ask.body.confirm) !== name)
      throw new Refused(409, "confirmation_required", "Repeat the name in `confirm`.");
    if (name.includes("@"))
      return this.snap(ask, () =>
        snapshots.destroySnapshots(ask.state, name, ask.body as unknown as Schemas["DestroyDataset"]),
      );
    const dataset = datasetOf(ask);
    ask.state.datasets = ask.state.datasets.filter(
      (other) =>
        other !== dataset && !other.name.startsWith(`${dataset.name}/`) && !other.name.startsWith(`${dataset.name}@`),
    );
    this.happen("dataset", "warning", `${name} was destroyed.`, name, ask.who!.name);
    this.changedDatasets(name.split(/[/@]/)[0]!);
    return ok();
  }),
  R("GET", "/v1/datasets/{dataset}/destroy", "operator", (ask) => {
    const gone = snapshots.meant(ask.state, ask.params[0]!, ask.query.get("recursive") === "true");
    return ok({
      count: gone.length,
      names: gone.map((one) => one.name).slice(0, 1000),
      reclaimed_bytes: gone.reduce((sum, one) => sum + one.used_bytes, 0),
    } satisfies Schemas["DestroyPreview"]);
  }),
  R("POST", "/v1/snapshots", "operator", function (ask) {
    return this.snap(
      ask,
      () =>
        ({
          items: snapshots.take(ask.state, ask.body as unknown as Schemas["CreateSnapshots"]),
        }) satisfies Schemas["DatasetList"],
      201,
    );
  }),
  R("POST", "/v1/datasets/{dataset}/rollback", "administrator", function (ask) {
    return this.snap(ask, () =>
      detail(ask.state, snapshots.rollBack(ask.state, ask.params[0]!, ask.body as unknown as Schemas["RollBack"])),
    );
  }),
  R("POST", "/v1/datasets/{dataset}/clone", "operator", function (ask) {
    return this.snap(
      ask,
      () =>
        detail(ask.state, snapshots.clone(ask.state, ask.params[0]!, ask.body as unknown as Schemas["CloneSnapshot"])),
      201,
    );
  }),
  R("POST", "/v1/datasets/{dataset}/promote", "operator", function (ask) {
    return this.snap(ask, () => detail(ask.state, snapshots.promote(ask.state, ask.params[0]!)));
  }),
  R("GET", "/v1/datasets/{dataset}/holds", "viewer", (ask) =>
    ok({ items: ask.state.holds.filter((hold) => hold.snapshot === ask.params[0]) } satisfies Schemas["HoldList"]),
  ),
  R("POST", "/v1/datasets/{dataset}/hold", "operator", function (ask) {
    return this.snap(
      ask,
      () => ({ items: snapshots.hold(ask.state, ask.params[0]!, String(ask.body.tag)) }) satisfies Schemas["HoldList"],
    );
  }),
  R("POST", "/v1/datasets/{dataset}/release", "operator", function (ask) {
    return this.snap(ask, () => snapshots.release(ask.state, ask.params[0]!, String(ask.body.tag)));
  }),
  R("POST", "/v1/datasets/{dataset}/load-key", "operator", function (ask) {
    const dataset = datasetOf(ask);
    if (ask.body.passphrase !== "open sesame")
      throw new Refused(422, "failed", `Key load error: Incorrect key provided for '${dataset.name}'.`);
    dataset.key = "available";
    this.changedDatasets(dataset.name.split("/")[0]!);
    return ok(detail(ask.state, dataset));
  }),
  R("POST", "/v1/datasets/{dataset}/unload-key", "operator", function (ask) {
    const dataset = datasetOf(ask);
    dataset.key = "unavailable";
    this.changedDatasets(dataset.name.split("/")[0]!);
    return ok(detail(ask.state, dataset));
  }),
  R("GET", "/v1/properties", "viewer", () => ok({ items: definitions })),
  R("GET", "/v1/shares", "viewer", ({ state, query }) =>
    ok(
      page(
        state.datasets
          .filter((dataset) => dataset.kind === "filesystem")
          .map((dataset) => share(state, dataset))
          .filter((one) => one.options !== "off"),
        query,
      ),
    ),
  ),
  R("PUT", "/v1/shares/{dataset}", "operator", function (ask) {
    const dataset = datasetOf(ask);
    const set = ask.state.local.get(dataset.name) ?? new Map<string, string>();
    set.set("sharenfs", String(ask.body.options));
    ask.state.local.set(dataset.name, set);
    this.happen(
      "share",
      "info",
      ask.body.options === "off" ? `${dataset.name} is no longer shared.` : `${dataset.name} is shared.`,
      dataset.name,
      ask.who!.name,
    );
    this.changedDatasets(dataset.name.split("/")[0]!);
    return ok(share(ask.state, dataset));
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
    const alert: Schemas["Alert"] = { id: (this.alerts.at(-1)?.id ?? 0) + 1, rule, owner: who!.name, waiting: 0 };
    this.alerts.push(alert);
    return ok(alert, 201);
  }),
  R("PUT", "/v1/analytics/alerts/{alert}", "operator", function (ask) {
    return ok(Object.assign(alertOf(this, ask), { rule: ask.body }));
  }),
  R("DELETE", "/v1/analytics/alerts/{alert}", "operator", function (ask) {
    const alert = alertOf(this, ask);
    this.alerts = this.alerts.filter((other) => other !== alert);
    return ok();
  }),
  R("GET", "/v1/analytics/query", "viewer", ({ query }) => answered(() => analytics.query(query))),
  R("GET", "/v1/analytics/explain", "viewer", ({ query }) => answered(() => analytics.explain(query))),
  R("GET", "/v1/events", "viewer", ({ state, query }) =>
    ok({
      items: state.events
        .filter((event) => event.id > Number(query.get("after") ?? 0))
        .slice(-Number(query.get("limit") ?? 100)),
    }),
  ),
];

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
