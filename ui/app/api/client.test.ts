import { afterEach, describe, expect, test, vi } from "vitest";
import { address, ApiError, get, put, sentence, useCsrfToken, whenUnauthenticated } from "./client";

const answers = (status: number, body?: unknown, headers: Record<string, string> = {}) =>
  vi.stubGlobal(
    "fetch",
    vi.fn(() => Promise.resolve(new Response(body === undefined ? null : JSON.stringify(body), { status, headers }))),
  );
const request = () => vi.mocked(fetch).mock.calls[0] as [string, RequestInit];

afterEach(() => {
  vi.unstubAllGlobals();
  useCsrfToken(null);
});

describe("requests to the daemon", () => {
  test("names are escaped as one component of the path", () => {
    expect(address("/v1/datasets/{dataset}", { dataset: "tank/a b@x?y" })).toBe("/v1/datasets/tank%2Fa%20b%40x%3Fy");
    expect(address("/v1/datasets", {}, { search: "a&b", limit: 10, cursor: undefined, root: "" })).toBe(
      "/v1/datasets?search=a%26b&limit=10",
    );
  });
  test("changes carry the session's token, reads do not", async () => {
    useCsrfToken("t0ken");
    answers(200, {});
    await put("/v1/shares/{dataset}", { path: { dataset: "tank" }, body: { options: "on" } });
    expect(request()[0]).toBe("/v1/shares/tank");
    expect((request()[1].headers as Record<string, string>)["X-CSRF-Token"]).toBe("t0ken");
    answers(200, { items: [] });
    await get("/v1/pools");
    expect((request()[1].headers as Record<string, string>)["X-CSRF-Token"]).toBeUndefined();
  });
  test("an error has the daemon's message", async () => {
    answers(
      429,
      {
        error: {
          code: "too_many_requests",
          message: "Too many attempts.",
          found: "11",
          expected: "at most 10 in a minute",
        },
      },
      { "Retry-After": "30" },
    );
    const error = await get("/v1/pools").catch((thrown: unknown) => thrown as ApiError);
    expect(error).toMatchObject({ status: 429, code: "too_many_requests", retryAfter: 30 });
    expect(sentence(error)).toBe("Too many attempts. Found: 11. Expected: at most 10 in a minute.");
  });
  test("invalid JSON and an unreachable daemon are errors, too", async () => {
    vi.stubGlobal(
      "fetch",
      vi.fn(() => Promise.resolve(new Response("<html>", { status: 502, statusText: "Bad Gateway" }))),
    );
    await expect(get("/v1/pools")).rejects.toMatchObject({ status: 502, code: "internal" });
    vi.stubGlobal(
      "fetch",
      vi.fn(() => Promise.reject(new TypeError("fetch failed"))),
    );
    await expect(get("/v1/pools")).rejects.toMatchObject({ code: "unreachable" });
  });
  test("a request that is not answered in time fails", async () => {
    const over = AbortSignal.abort(new DOMException("signal timed out", "TimeoutError"));
    const timeout = vi.spyOn(AbortSignal, "timeout").mockReturnValue(over);
    vi.stubGlobal("fetch", (_: string, { signal }: RequestInit) =>
      signal?.aborted ? Promise.reject(signal.reason as Error) : new Promise(() => undefined),
    );
    await expect(get("/v1/pools")).rejects.toMatchObject({ code: "unreachable" });
    await expect(get("/v1/pools", { signal: new AbortController().signal })).rejects.toMatchObject({
      code: "unreachable",
    });
    expect(timeout.mock.calls).toEqual([[30_000], [30_000]]);
    timeout.mockRestore();
  });
  test("the end of a session is reported when it is noticed", async () => {
    const ended = vi.fn();
    whenUnauthenticated(ended);
    answers(401, { error: { code: "unauthenticated", message: "log in, or send a token" } });
    await expect(get("/v1/pools")).rejects.toBeInstanceOf(ApiError);
    expect(ended).toHaveBeenCalledOnce();
  });
});
