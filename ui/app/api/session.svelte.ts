//! The logged-in user, and their permissions.

import { ApiError, get, post, remove, sentence, useCsrfToken, whenUnauthenticated, type Schemas } from "./client";

export type Role = Schemas["Role"];
/** Time limit for the first requests, in ms. */
const FIRST_MS = 4000;
const ORDER: Role[] = ["viewer", "operator", "administrator"];

class CurrentSession {
  /** `loading` until the daemon has answered; `setup` if there are no users yet; `out` if no user is logged in. */
  state = $state<"loading" | "unreachable" | "setup" | "out" | "in">("loading");
  who = $state.raw<Schemas["Session"] | null>(null);
  version = $state.raw<Schemas["Version"] | null>(null);
  problem = $state("");

  #tabs: BroadcastChannel | null = null;

  constructor() {
    whenUnauthenticated(() => {
      if (this.state === "in") this.#end();
    });
  }

  /** Finds out who is logged in. The other tabs follow when a user logs in. */
  async load(): Promise<void> {
    if (!this.#tabs) {
      this.#tabs = new BroadcastChannel("weir.session");
      this.#tabs.onmessage = () => {
        if (this.state === "out") void this.load();
      };
    }
    // The page must report a server that does not answer within 5 s.
    const signal = () => AbortSignal.timeout(FIRST_MS);
    try {
      this.version = await get("/v1/version", { signal: signal() });
      this.begin(await get("/v1/session", { signal: signal() }));
    } catch (error) {
      if (error instanceof ApiError && error.status === 401) await this.#whoCould();
      else {
        this.problem = sentence(error);
        this.state = "unreachable";
        setTimeout(() => void this.load(), 2000);
      }
    }
  }

  begin(session: Schemas["Session"]): void {
    this.who = session;
    useCsrfToken(session.csrf_token);
    this.state = "in";
  }

  async logIn(user: string, password: string): Promise<void> {
    this.begin(await post("/v1/session", { body: { user, password } }));
    this.#tabs?.postMessage("in");
  }

  async logOut(): Promise<void> {
    await remove("/v1/session").catch(() => undefined);
    this.#end();
  }

  may(role: Role): boolean {
    return this.who !== null && ORDER.indexOf(this.who.role) >= ORDER.indexOf(role);
  }

  /** Why a button for `role` is disabled, or null if it is not. */
  why(role: Role): string | null {
    return this.may(role)
      ? null
      : `This requires the role ${role}; ${this.who?.user ?? "nobody"} is ${this.who?.role ?? "not logged in"}.`;
  }

  async #whoCould(): Promise<void> {
    try {
      this.state = (await get("/v1/setup")).needed ? "setup" : "out";
    } catch {
      this.state = "out";
    }
  }

  #end(): void {
    this.who = null;
    useCsrfToken(null);
    this.state = "out";
  }
}

export const session = new CurrentSession();
