import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Hub, type FromHub } from "./hub";

/** A daemon whose stream the test writes. */
class FakeDaemon {
  opened = 0;
  closed = 0;
  status = 200;
  down = false;
  #to: ReadableStreamDefaultController<Uint8Array> | null = null;

  readonly fetch = vi.fn((_path: string, { signal }: RequestInit) => {
    if (this.down) return Promise.reject(new TypeError("fetch failed"));
    if (this.status !== 200) return Promise.resolve(new Response(null, { status: this.status }));
    this.opened += 1;
    const body = new ReadableStream<Uint8Array>({
      start: (controller) => {
        this.#to = controller;
        signal?.addEventListener("abort", () => {
          this.closed += 1;
          controller.error(new DOMException("aborted", "AbortError"));
        });
      },
    });
    return Promise.resolve(new Response(body));
  });

  say(text: string): void {
    this.#to?.enqueue(new TextEncoder().encode(text));
  }

  end(): void {
    this.#to?.close();
  }
}

let daemon: FakeDaemon;
const pass = (ms: number) => vi.advanceTimersByTimeAsync(ms);

function tab(hub: Hub) {
  const received: FromHub[] = [];
  const send = hub.connect((message) => received.push(message));
  const state = () => received.findLast((message) => message.type === "link")?.link;
  const messages = () => received.filter((message) => message.type === "message").length;
  return { send, state, messages, received };
}

beforeEach(() => {
  vi.useFakeTimers({ now: 1_700_000_000_000 });
  daemon = new FakeDaemon();
  vi.stubGlobal("fetch", daemon.fetch);
});
afterEach(() => {
  vi.unstubAllGlobals();
  vi.useRealTimers();
});

test("tabs share one stream, which ends with the last of them", async () => {
  const hub = new Hub();
  const [one, two] = [tab(hub), tab(hub)];
  one.send({ type: "events" });
  await pass(10);
  two.send({ type: "events" });
  await pass(10);
  daemon.say('event: missed\ndata: {"type":"missed"}\n\n');
  await pass(10);
  expect([daemon.opened, one.messages(), two.messages(), two.state()]).toEqual([1, 1, 1, "live"]);
  one.send({ type: "close" });
  await pass(2000);
  expect(daemon.closed).toBe(0);
  two.send({ type: "close" });
  await pass(2000);
  expect([daemon.opened, daemon.closed]).toEqual([1, 1]);
});

test("silence is reported within 5 s with its beginning, and ends with the next byte", async () => {
  const one = tab(new Hub());
  one.send({ type: "events" });
  await pass(10);
  for (let beat = 0; beat < 5; beat += 1) {
    await pass(2000);
    daemon.say(": \n\n");
  }
  await pass(10);
  expect(one.state()).toBe("live");
  const heard = Date.now() - 10;
  await pass(5000);
  const link = one.received.findLast((message) => message.type === "link");
  expect(link).toEqual({ type: "link", link: "silent", heard });
  daemon.say(": \n\n");
  await pass(10);
  expect([one.state(), daemon.opened]).toEqual(["live", 1]);
});

test("a connection that stays silent is replaced, and the state remains", async () => {
  const one = tab(new Hub());
  one.send({ type: "events" });
  await pass(10);
  await pass(17_000);
  expect([one.state(), daemon.opened]).toEqual(["live", 2]);
  expect(one.received.filter((message) => message.type === "link").map(({ link }) => link)).toEqual([
    "live",
    "silent",
    "live",
  ]);
});

test("a daemon that is down is tried again until it is back", async () => {
  const one = tab(new Hub());
  one.send({ type: "events" });
  await pass(10);
  daemon.down = true;
  daemon.end();
  await pass(30_000);
  expect(one.state()).toBe("offline");
  daemon.down = false;
  await pass(1100);
  expect([one.state(), daemon.opened]).toEqual(["live", 2]);
  expect(one.received.filter((message) => message.type === "opened")).toHaveLength(2);
});

test("without a session nothing is tried until a tab asks again", async () => {
  const hub = new Hub();
  const one = tab(hub);
  daemon.status = 401;
  one.send({ type: "events" });
  await pass(30_000);
  expect([one.state(), daemon.fetch.mock.calls.length]).toEqual(["refused", 1]);
  daemon.status = 200;
  one.send({ type: "events" });
  await pass(100);
  expect(one.state()).toBe("live");
});

test("statistics of all tabs come over one stream, with those of another token separate", async () => {
  const hub = new Hub();
  const [one, two] = [tab(hub), tab(hub)];
  one.send({ type: "follow", id: 1, name: "io.ops", after: 5, token: null });
  two.send({ type: "follow", id: 1, name: "io.bytes", after: 7, token: null });
  two.send({ type: "follow", id: 2, name: "io.ops", after: 7, token: null });
  await pass(100);
  expect(daemon.fetch.mock.calls.map(([path]) => path)).toEqual([
    "/v1/analytics/stream?name=io.ops&name=io.bytes&after=5",
  ]);
  const statistic = (name: string) => ({ name, column: null, keys: {} });
  const second = { second: 7, statistics: [statistic("io.ops"), statistic("io.bytes")] };
  daemon.say(`event: columns\ndata: ${JSON.stringify(second)}\n\n`);
  await pass(10);
  expect([one.received.length, two.received.length]).toEqual([1, 0]);
  two.send({ type: "follow", id: 3, name: "io.ops", after: 7, token: "weir_x" });
  await pass(100);
  expect(daemon.opened).toBe(2);
  for (const each of [one, two]) each.send({ type: "close" });
  await pass(2000);
  expect(daemon.closed).toBe(2);
});
