//! Routes about the server: state, settings, users, sessions, tokens, audit log.

import type { Schemas } from "../../app/api/client";
import { type Role, type Route, Refused, seconds, ok, found, page, R } from "../route";
import { START } from "../data";

export const ACCESS: Route[] = [
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
];
