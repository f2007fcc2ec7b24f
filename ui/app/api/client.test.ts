import { afterEach, describe, expect, test, vi } from "vitest";
import { address, ApiError, get, put, sentence, useCsrfToken, whenUnauthenticated } from "./client";

const answers = (status: number, body?: unknown, headers: Record<string, string> = {}) =>
  vi.stubGlobal("fetch", vi.fn(() => Promise.resolve(new Response(body === undefined ? null : JSON.stringify(body), { status, headers }))));
const asked = () => vi.mocked(fetch).mock.calls[0] as [string, RequestInit];

afterEach(() => {
  vi.unstubAllGlobals();
  useCsrfToken(null);
});

describe("asking the daemon", () => {
  test("names are one part of the path, whatever is in them", () => {
    expect(address("/v1/datasets/{dataset}", { dataset: "tank/a b@x?y" })).toBe("/v1/datasets/tank%2Fa%20b%40x%3Fy");
    expect(address("/v1/datasets", {}, { search: "a&b", limit: 10, cursor: undefined, root: "" })).toBe("/v1/datasets?search=a%26b&limit=10");
  });
  test("what changes something carries the session's token, what looks does not", async () => {
    useCsrfToken("t0ken");
    answers(200, {});
    await put("/v1/shares/{dataset}", { path: { dataset: "tank" }, body: { options: "on" } });
    expect(asked()[0]).toBe("/v1/shares/tank");
    expect((asked()[1].headers as Record<string, string>)["X-CSRF-Token"]).toBe("t0ken");
    answers(200, { items: [] });
    await get("/v1/pools");
    expect((asked()[1].headers as Record<string, string>)["X-CSRF-Token"]).toBeUndefined();
  });
  test("a refusal is told in the daemon's words", async () => {
    answers(429, { error: { code: "too_many_requests", message: "Too many attempts.", found: "11", expected: "at most 10 in a minute" } }, { "Retry-After": "30" });
    const error = await get("/v1/pools").catch((thrown: unknown) => thrown as ApiError);
    expect(error).toMatchObject({ status: 429, code: "too_many_requests", retryAfter: 30 });
    expect(sentence(error)).toBe("Too many attempts. Found: 11. Expected: at most 10 in a minute.");
  });
  test("what is no JSON, and nobody there, are errors too", async () => {
    vi.stubGlobal("fetch", vi.fn(() => Promise.resolve(new Response("<html>", { status: 502, statusText: "Bad Gateway" }))));
    await expect(get("/v1/pools")).rejects.toMatchObject({ status: 502, code: "internal" });
    vi.stubGlobal("fetch", vi.fn(() => Promise.reject(new TypeError("fetch failed"))));
    await expect(get("/v1/pools")).rejects.toMatchObject({ code: "unreachable" });
  });
  test("the end of a session is told once it is noticed", async () => {
    const ended = vi.fn();
    whenUnauthenticated(ended);
    answers(401, { error: { code: "unauthenticated", message: "log in, or send a token" } });
    await expect(get("/v1/pools")).rejects.toBeInstanceOf(ApiError);
    expect(ended).toHaveBeenCalledOnce();
  });
});
