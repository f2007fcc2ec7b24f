//! A real `weir serve` on free ports, with its own folder. $WEIR names the program.

import { spawn, spawnSync, type ChildProcess } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

export const program = process.env.WEIR ? resolve("..", process.env.WEIR) : "";

export const freePort = () =>
  new Promise<number>((done) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const at = server.address();
      server.close(() => done(typeof at === "object" && at ? at.port : 0));
    });
  });

export class Daemon {
  readonly folder = mkdtempSync(join(tmpdir(), "weir-page-"));
  port = 0;
  nfsPort = 0;
  output = "";
  #process: ChildProcess | undefined;

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  /** Writes its configuration; `more` are additional lines. */
  async prepare(more = ""): Promise<void> {
    this.port = await freePort();
    this.nfsPort = await freePort();
    writeFileSync(
      join(this.folder, "weir.toml"),
      `state = "${join(this.folder, "state")}"\n[api]\nlisten = ["127.0.0.1:${this.port}"]\nplain_http = true\n[nfs]\nlisten = ["127.0.0.1:${this.nfsPort}"]\n${more}`,
    );
  }

  /** Runs a command of `weir` with the same state. */
  run(...words: string[]): string {
    const { status, stdout, stderr } = spawnSync(program, words, { encoding: "utf8", env: this.#environment() });
    if (status !== 0) throw new Error(`weir ${words.join(" ")}: ${stderr}`);
    return stdout;
  }

  /** The same, left running; its output is not read yet. */
  begin(...words: string[]): ChildProcess {
    return spawn(program, words, { stdio: ["ignore", "pipe", "pipe"], env: this.#environment() });
  }

  async start(): Promise<void> {
    this.output = "";
    const daemon = spawn(program, ["serve", "--no-mount", "--config", join(this.folder, "weir.toml")], {
      stdio: ["ignore", "pipe", "pipe"],
      env: this.#environment(),
    });
    this.#process = daemon;
    for (const stream of [daemon.stdout, daemon.stderr])
      stream.on("data", (data: Buffer) => (this.output += data.toString()));
    for (let tries = 0; tries < 300; tries += 1) {
      if (daemon.exitCode !== null) throw new Error(`weir serve ended: ${this.output}`);
      if (
        await fetch(`${this.url}/readyz`).then(
          (answer) => answer.ok,
          () => false,
        )
      )
        return;
      await new Promise((later) => setTimeout(later, 100));
    }
    throw new Error(`weir serve did not get ready: ${this.output}`);
  }

  async stop(): Promise<number | null> {
    const ending = this.#process;
    if (!ending || ending.exitCode !== null) return ending?.exitCode ?? null;
    const ended = new Promise<number | null>((done) => ending.on("exit", done));
    ending.kill("SIGTERM");
    return ended;
  }

  /** Sends a signal, for example to stop and resume it. */
  signal(signal: NodeJS.Signals): void {
    this.#process?.kill(signal);
  }

  /** The first-start link, once it was printed. */
  link(): string {
    const link = /http:\/\/\S+\/setup#token=[^\s"]+/.exec(this.output)?.[0];
    if (!link) throw new Error(`no link: ${this.output}`);
    return link;
  }

  remove(): void {
    rmSync(this.folder, { recursive: true, force: true });
  }

  #environment(): NodeJS.ProcessEnv {
    return { ...process.env, WEIR_STATE: join(this.folder, "state"), NO_COLOR: "1" };
  }
}
