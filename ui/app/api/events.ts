//! Server-sent events over fetch: the browser's EventSource cannot send a token.

export interface ServerEvent {
  readonly type: string;
  readonly data: string;
}

/** Yields the messages of a stream as they arrive. `heard` is called for everything that arrives, comments too. */
export async function* events(
  body: ReadableStream<Uint8Array>,
  heard: () => void = () => undefined,
): AsyncGenerator<ServerEvent> {
  const reader = body.pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>).getReader();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      heard();
      const messages = (rest + value).replaceAll("\r\n", "\n").split("\n\n");
      rest = messages.pop()!;
      for (const message of messages) {
        let type = "message";
        const data: string[] = [];
        for (const line of message.split("\n")) {
          if (line.startsWith("event:")) type = line.slice(6).trim();
          else if (line.startsWith("data:")) data.push(line.slice(line[5] === " " ? 6 : 5));
        }
        if (data.length > 0) yield { type, data: data.join("\n") };
      }
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}
