//! Live state: pools, jobs, clients, events, over the stream that all tabs share.
//!
//! The stream sends complete states, so a lost message only means older data. When the server stops
//! answering, `state` reports it within 5 s, the page keeps its contents and marks them as old, and
//! the connection is made again (`stream.ts`).

import { get, sessionEnded, type Schemas } from "./client";
import { connection } from "./connection";
import type { Link } from "./stream";
import { SvelteMap } from "svelte/reactivity";

type Message = Schemas["LiveMessage"];
/** Points kept of each client's rates: 4 minutes at one every 2 s. */
const HISTORY = 120;
const EVENTS_KEPT = 2000;
const CLIENTS_SILENT_MS = 6000;

export interface Rates {
  operations: number[];
  read: number[];
  written: number[];
}
const noRates = (): Rates => ({ operations: [], read: [], written: [] });

class Live {
  state = $state<Exclude<Link, "refused">>("starting");
  /** When the server was last heard, in ms since 1970; 0: never. */
  lastHeard = $state(0);
  pools = $state.raw<Schemas["Pool"][] | null>(null);
  /** The verdict on everything; null until it is known. */
  health = $state.raw<Schemas["SystemHealth"] | null>(null);
  clients = $state.raw<Schemas["Client"][]>([]);
  events = $state.raw<Schemas["Event"][]>([]);
  readonly jobs = new SvelteMap<number, Schemas["Job"]>();
  /** Incremented when datasets of the pool change; views of them depend on it and reload. */
  readonly datasetsChanged = new SvelteMap<string, number>();
  /** Incremented when shares, accounts or anything else may have changed. */
  changes = $state(0);
  readonly rates = new SvelteMap<string, Rates>();
  total = $state.raw<Rates>(noRates());
  #stop: () => void = () => undefined;
  #loading: Promise<void> | null = null;
  #again = false;
  #clientsAt = 0;
  #watch: ReturnType<typeof setInterval> | undefined;

  start(): void {
    this.stop();
    this.#reload();
    this.#stop = connection.listen({
      link: (link, heard) => this.#take(link, heard),
      // Everything may have changed meanwhile; a restarted daemon may count its events from 1.
      opened: () => this.#reload(),
      message: (message) => this.take(message),
    });
    this.#watch = setInterval(() => this.#check(), 2000);
  }

  stop(): void {
    clearInterval(this.#watch);
    this.#stop();
    this.#stop = () => undefined;
    this.state = "starting";
  }

  #take(link: Link, heard: number): void {
    this.lastHeard = heard;
    if (link === "refused") sessionEnded();
    else this.state = link;
  }

  /** Processes one message; also called by tests. */
  take(message: Message): void {
    switch (message.type) {
      case "pools":
        this.pools = message.pools;
        break;
      case "health":
        this.health = message.health;
        break;
      case "job":
        this.jobs.set(message.job.id, message.job);
        break;
      case "datasets":
        this.datasetsChanged.set(message.pool, (this.datasetsChanged.get(message.pool) ?? 0) + 1);
        break;
      case "clients":
        this.#takeClients(message.clients);
        break;
      case "event":
        this.#takeEvents([message.event]);
        break;
      case "missed":
        this.#reload();
        break;
    }
  }

  #takeClients(clients: Schemas["Client"][]): void {
    this.clients = clients;
    this.#clientsAt = Date.now();
    const sum = { operations: 0, read: 0, written: 0 };
    for (const client of clients) {
      sum.operations += client.operations_per_second;
      sum.read += client.read_bytes_per_second;
      sum.written += client.written_bytes_per_second;
      this.rates.set(
        client.address,
        grown(this.rates.get(client.address) ?? noRates(), {
          operations: client.operations_per_second,
          read: client.read_bytes_per_second,
          written: client.written_bytes_per_second,
        }),
      );
    }
    for (const address of this.rates.keys())
      if (!clients.some((client) => client.address === address)) this.rates.delete(address);
    this.total = grown(this.total, sum);
  }

  #takeEvents(events: Schemas["Event"][]): void {
    const newest = this.events.at(-1);
    const fresh = newest ? events.filter((event) => event.id > newest.id || event.time_ms > newest.time_ms) : events;
    if (fresh.length === 0) return;
    this.events = [...this.events, ...fresh].slice(-EVENTS_KEPT);
    this.changes += 1;
  }

  /** Loads everything; if that is in progress, once more after it. */
  #reload(): void {
    if (this.#loading) {
      this.#again = true;
      return;
    }
    this.#loading = this.#load().finally(() => {
      this.#loading = null;
      if (this.#again) this.#reload();
    });
  }

  async #load(): Promise<void> {
    this.#again = false;
    try {
      const [pools, jobs, clients, events, health] = await Promise.all([
        get("/v1/pools"),
        get("/v1/jobs"),
        get("/v1/clients"),
        get("/v1/events", { query: { limit: 1000 } }),
        get("/v1/health"),
      ]);
      this.pools = pools.items;
      this.health = health;
      for (const job of jobs.items) this.jobs.set(job.id, job);
      this.#takeClients(clients.items);
      this.events = events.items;
      for (const pool of pools.items) this.take({ type: "datasets", pool: pool.name });
      this.changes += 1;
    } catch {
      // The state of the stream reports it.
    }
  }

  /** Nothing is sent when no clients are connected: the displayed rates would never change. */
  #check(): void {
    if (this.state !== "live" || this.clients.length === 0 || Date.now() - this.#clientsAt <= CLIENTS_SILENT_MS) return;
    this.#clientsAt = Date.now();
    get("/v1/clients").then(
      (list) => this.#takeClients(list.items),
      () => undefined,
    );
  }
}

function grown(rates: Rates, now: { operations: number; read: number; written: number }): Rates {
  const add = (values: number[], value: number) => [...values, value].slice(-HISTORY);
  return {
    operations: add(rates.operations, now.operations),
    read: add(rates.read, now.read),
    written: add(rates.written, now.written),
  };
}

export const live = new Live();
