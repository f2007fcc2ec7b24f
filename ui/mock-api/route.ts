//! What a route of the mock is: its role, its path, and its answer.

import type { Schemas } from "../app/api/client";
import type { State } from "./data";
import type { Mock } from "./server";

export type Role = Schemas["Role"];
export type Answer = { status: number; body?: unknown; headers?: Record<string, string> };
export interface Ask {
  state: State;
  params: string[];
  query: URLSearchParams;
  body: Record<string, unknown>;
  who: Schemas["User"] | null;
  sid: string | null;
}
export interface Route {
  method: string;
  path: RegExp;
  role: Role | null;
  answer: (ask: Ask) => Answer;
}

export const seconds = () => Math.floor(Date.now() / 1000);

export class Refused extends Error {
  constructor(
    readonly status: number,
    readonly code: Schemas["ErrorCode"],
    message: string,
  ) {
    super(message);
  }
}

export function ok(body?: unknown, status = body === undefined ? 204 : 200): Answer {
  return { status, body };
}

export function found<T>(value: T | undefined, what: string): T {
  if (value === undefined) throw new Refused(404, "not_found", what);
  return value;
}

export function page<T>(items: T[], query: URLSearchParams): { items: T[]; next?: string } {
  const limit = Math.min(1000, Number(query.get("limit") ?? 100));
  const from = Number(query.get("cursor") ?? 0);
  return {
    items: items.slice(from, from + limit),
    next: from + limit < items.length ? String(from + limit) : undefined,
  };
}

export const R = (
  method: string,
  path: string,
  role: Role | null,
  answer: (this: Mock, ask: Ask) => Answer,
): Route => ({
  method,
  path: new RegExp(`^${path.replace(/\{\w+\}/g, "([^/]+)")}$`),
  role,
  answer: answer,
});
