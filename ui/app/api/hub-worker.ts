//! The shared worker of all tabs: `hub.ts` behind ports.

import { Hub, type FromHub, type ToHub } from "./hub";

const hub = new Hub();
globalThis.addEventListener("connect", (event) => {
  const [port] = (event as MessageEvent).ports;
  if (!port) return;
  const take = hub.connect((message: FromHub) => port.postMessage(message));
  port.addEventListener("message", ({ data }: MessageEvent<ToHub>) => take(data));
  // A tab that crashed sends no goodbye.
  port.addEventListener("close", () => take({ type: "close" }));
  port.start();
});
