//! A small NFS version 3 client, so that tests choose which bytes are read when. The tools of
//! libnfs read as fast as they can. RFC 1813 and RFC 5531; only what the tests need.

import { connect, type Socket } from "node:net";

const NFS = 100_003;
const MOUNT = 100_005;
/** Stable when acknowledged. */
const FILE_SYNC = 2;

class Writer {
  readonly #parts: Buffer[] = [];

  u32(...values: number[]): this {
    for (const value of values) {
      const part = Buffer.alloc(4);
      part.writeUInt32BE(value >>> 0);
      this.#parts.push(part);
    }
    return this;
  }

  u64(value: number): this {
    return this.u32(Math.floor(value / 2 ** 32), value % 2 ** 32);
  }

  opaque(bytes: Uint8Array): this {
    this.u32(bytes.length);
    this.#parts.push(Buffer.from(bytes), Buffer.alloc((4 - (bytes.length % 4)) % 4));
    return this;
  }

  text(value: string): this {
    return this.opaque(Buffer.from(value));
  }

  done(): Buffer {
    return Buffer.concat(this.#parts);
  }
}

export class Nfs {
  readonly #socket: Socket;
  readonly #waiting = new Map<number, { done: (answer: Buffer) => void; failed: (error: Error) => void }>();
  #received = Buffer.alloc(0);
  #next = 1;

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.on("data", (data: Buffer) => this.#take(data));
    const end = (error?: Error) => {
      for (const { failed } of this.#waiting.values()) failed(error ?? new Error("the server closed the connection"));
      this.#waiting.clear();
    };
    socket.on("error", end);
    socket.on("close", () => end());
  }

  /** `from`: another address of this machine (127.0.0.0/8), which counts as another client. */
  static open(port: number, from = "127.0.0.1"): Promise<Nfs> {
    return new Promise((done, failed) => {
      const socket = connect({ port, host: "127.0.0.1", localAddress: from }, () => done(new Nfs(socket)));
      socket.once("error", failed);
    });
  }

  close(): void {
    this.#socket.destroy();
  }

  async mount(path: string): Promise<Buffer> {
    const answer = await this.#call(MOUNT, 1, new Writer().text(path));
    status("MNT", answer);
    return handle(answer, 4);
  }

  async create(folder: Buffer, name: string): Promise<Buffer> {
    // UNCHECKED, mode 0644, nothing else set.
    const answer = await this.#call(NFS, 8, new Writer().opaque(folder).text(name).u32(0, 1, 0o644, 0, 0, 0, 0, 0));
    status("CREATE", answer);
    if (answer.readUInt32BE(4) !== 1) throw new Error("CREATE gave no handle");
    return handle(answer, 8);
  }

  async write(file: Buffer, offset: number, bytes: Uint8Array, stable = FILE_SYNC): Promise<void> {
    status(
      "WRITE",
      await this.#call(NFS, 7, new Writer().opaque(file).u64(offset).u32(bytes.length, stable).opaque(bytes)),
    );
  }

  async read(file: Buffer, offset: number, count: number): Promise<void> {
    status("READ", await this.#call(NFS, 6, new Writer().opaque(file).u64(offset).u32(count)));
  }

  #call(program: number, procedure: number, body: Writer): Promise<Buffer> {
    const xid = this.#next++;
    const head = new Writer().u32(xid, 0, 2, program, 3, procedure);
    // AUTH_SYS as root, no verifier.
    const who = new Writer().u32(0).text("test").u32(0, 0, 0).done();
    const call = Buffer.concat([head.u32(1).opaque(who).u32(0, 0).done(), body.done()]);
    const mark = new Writer().u32(0x8000_0000 | call.length).done();
    return new Promise((done, failed) => {
      this.#waiting.set(xid, { done, failed });
      this.#socket.write(Buffer.concat([mark, call]));
    });
  }

  #take(data: Buffer): void {
    this.#received = Buffer.concat([this.#received, data]);
    for (;;) {
      if (this.#received.length < 4) return;
      const length = this.#received.readUInt32BE(0) & 0x7fff_ffff;
      if (this.#received.length < 4 + length) return;
      const answer = this.#received.subarray(4, 4 + length);
      this.#received = this.#received.subarray(4 + length);
      const waiting = this.#waiting.get(answer.readUInt32BE(0));
      this.#waiting.delete(answer.readUInt32BE(0));
      // Accepted, a verifier that is skipped, and success.
      const verifier = answer.readUInt32BE(16);
      const at = 20 + verifier + ((4 - (verifier % 4)) % 4);
      if (answer.readUInt32BE(8) !== 0 || answer.readUInt32BE(at) !== 0)
        waiting?.failed(new Error("the call was refused"));
      else waiting?.done(Buffer.from(answer.subarray(at + 4)));
    }
  }
}

function status(what: string, answer: Buffer): void {
  const found = answer.readUInt32BE(0);
  if (found !== 0) throw new Error(`${what} failed: ${found}`);
}

function handle(answer: Buffer, at: number): Buffer {
  return answer.subarray(at + 4, at + 4 + answer.readUInt32BE(at));
}
