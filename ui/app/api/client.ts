//! HTTP client of the daemon. Paths, parameters, bodies and answers are checked against
//! `openapi.json` at compile time.

import type { components, paths } from "./openapi";

export type Schemas = components["schemas"];

type Method = "get" | "post" | "put" | "patch" | "delete";
type PathsWith<M extends Method> = {
  [P in keyof paths]: paths[P] extends { [K in M]: infer O } ? ([O] extends [undefined] ? never : P) : never;
}[keyof paths];
type OperationOf<P extends keyof paths, M extends Method> = paths[P] extends { [K in M]: infer O } ? O : never;
type PathOf<O> = O extends { parameters: { path: infer T } } ? T : undefined;
type QueryOf<O> = O extends { parameters: { query?: infer T } } ? T : undefined;
type BodyOf<O> = O extends { requestBody: { content: { "application/json": infer T } } } ? T : undefined;
type ReplyOf<O> = O extends { responses: infer R }
  ? R extends { 200: { content: { "application/json": infer T } } }
    ? T
    : R extends { 201: { content: { "application/json": infer T } } }
      ? T
      : undefined
  : never;
type Ask<O> = { signal?: AbortSignal } & (PathOf<O> extends undefined ? { path?: undefined } : { path: PathOf<O> }) &
  (QueryOf<O> extends undefined ? { query?: undefined } : { query?: QueryOf<O> }) &
  (BodyOf<O> extends undefined ? { body?: undefined } : { body: BodyOf<O> });
type Arguments<O> =
  PathOf<O> extends undefined ? (BodyOf<O> extends undefined ? [ask?: Ask<O>] : [ask: Ask<O>]) : [ask: Ask<O>];

/** The daemon's error, or that it could not be reached (`code: "unreachable"`). */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: Schemas["ErrorCode"] | "unreachable",
    message: string,
    readonly body?: Schemas["ErrorBody"],
    /** Seconds to wait before retrying, if given. */
    readonly retryAfter?: number,
  ) {
    super(message);
  }
}

/** Time limits in ms, after which a request fails. Guessed: a change may wait for many devices. */
const READ_MS = 30_000;
const CHANGE_MS = 300_000;

let csrfToken: string | null = null;
let onUnauthenticated: () => void = () => {};

/** The CSRF token of the session, sent with all changes. */
export function useCsrfToken(token: string | null | undefined): void {
  csrfToken = token ?? null;
}

let bearer: string | null = null;

/** A token instead of a session: for embedded pages, where browsers send no cookies. */
export function useToken(token: string): void {
  bearer = token;
}

/** The token for statistics, if this page has one. */
export const statisticsToken = (): string | null => bearer;

const authority = (token = bearer): { headers: Record<string, string>; credentials: RequestCredentials } =>
  token === null
    ? { headers: {}, credentials: "same-origin" }
    : { headers: { Authorization: `Bearer ${token}` }, credentials: "omit" };

/** Opens a stream, with a token or the session; throws if the answer is not a success. */
export async function listen(
  path: string,
  signal: AbortSignal,
  token: string | null = null,
): Promise<ReadableStream<Uint8Array>> {
  const { headers, credentials } = authority(token);
  const response = await fetch(path, { headers, credentials, signal, cache: "no-store" });
  if (!response.ok || !response.body)
    throw new ApiError(response.status, "internal", `The server answered ${response.status} ${response.statusText}.`);
  return response.body;
}

/** Called when the session has ended. */
export function whenUnauthenticated(then: () => void): void {
  onUnauthenticated = then;
}

/** Reports that the session has ended. */
export function sessionEnded(): void {
  onUnauthenticated();
}

/** `/v1/pools/{pool}` and `{pool: "a/b"}` -> `/v1/pools/a%2Fb`. */
export function address(path: string, inPath: object = {}, query: object = {}): string {
  const values = inPath as Record<string, unknown>;
  const filled = path.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(String(values[name])));
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query))
    if (value !== undefined && value !== null && value !== "") search.set(name, String(value));
  const text = search.toString();
  return text ? `${filled}?${text}` : filled;
}

/** The body of an error, or null: proxies answer with pages. */
function errorOf(text: string): Partial<Schemas["ErrorReply"]> | null {
  try {
    return JSON.parse(text) as Partial<Schemas["ErrorReply"]> | null;
  } catch {
    return null;
  }
}

async function send(
  method: Method,
  path: string,
  ask: { path?: unknown; query?: unknown; body?: unknown; signal?: AbortSignal } = {},
): Promise<unknown> {
  const who = authority();
  const headers: Record<string, string> = { Accept: "application/json", ...who.headers };
  if (ask.body !== undefined) headers["Content-Type"] = "application/json";
  if (method !== "get" && csrfToken) headers["X-CSRF-Token"] = csrfToken;
  const limit = AbortSignal.timeout(method === "get" ? READ_MS : CHANGE_MS);
  let response: Response;
  let text: string;
  try {
    response = await fetch(address(path, ask.path as object, ask.query as object), {
      method: method.toUpperCase(),
      headers,
      body: ask.body === undefined ? undefined : JSON.stringify(ask.body),
      credentials: who.credentials,
      signal: ask.signal ? AbortSignal.any([ask.signal, limit]) : limit,
    });
    text = await response.text();
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new ApiError(
      0,
      "unreachable",
      "The server cannot be reached. Nothing is known of whether the request was done.",
    );
  }
  if (response.ok) return text === "" ? undefined : JSON.parse(text);
  const reply = errorOf(text);
  const retryAfter = Number(response.headers.get("Retry-After")) || undefined;
  const error = new ApiError(
    response.status,
    reply?.error?.code ?? "internal",
    reply?.error?.message ?? `The server answered ${response.status} ${response.statusText}.`,
    reply?.error,
    retryAfter,
  );
  if (error.code === "unauthenticated" && path !== "/v1/session") onUnauthenticated();
  throw error;
}

function caller<M extends Method>(method: M) {
  return <P extends PathsWith<M> & string>(
    path: P,
    ...[ask]: Arguments<OperationOf<P, M>>
  ): Promise<ReplyOf<OperationOf<P, M>>> => send(method, path, ask) as Promise<ReplyOf<OperationOf<P, M>>>;
}

export const get = caller("get");
export const post = caller("post");
export const put = caller("put");
export const patch = caller("patch");
export const remove = caller("delete");

/** Converts anything thrown to a sentence for users. */
export function sentence(error: unknown): string {
  if (error instanceof ApiError) {
    const found = error.body?.found ? ` Found: ${error.body.found}.` : "";
    const expected = error.body?.expected ? ` Expected: ${error.body.expected}.` : "";
    return `${error.message}${found}${expected}`;
  }
  return error instanceof Error ? error.message : String(error);
}
