import { expect, test } from "vitest";
import { events } from "./events";

test("messages are yielded as they arrive, however they are split", async () => {
  const text = ': hello\n\nevent: columns\nid: 7\ndata: {"a":1}\n\ndata: one\ndata: two\r\n\r\nevent: cut\ndata: off';
  for (const size of [1, 3, 1000]) {
    const bytes = new TextEncoder().encode(text);
    const body = new ReadableStream<Uint8Array>({
      start(controller) {
        for (let at = 0; at < bytes.length; at += size) controller.enqueue(bytes.slice(at, at + size));
        controller.close();
      },
    });
    const received = [];
    for await (const event of events(body)) received.push(event);
    expect(received).toEqual([
      { type: "columns", data: '{"a":1}' },
      { type: "message", data: "one\ntwo" },
    ]);
  }
});
