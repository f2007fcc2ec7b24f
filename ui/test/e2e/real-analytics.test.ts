//! Activity of NFS clients as displayed by the page: the real daemon, real calls, and the picture
//! read back from the canvas.

import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Locator, Page } from "playwright-core";
import { open } from "./browser";
import { Daemon, program } from "./daemon";
import { Nfs } from "./nfs";

const daemon = program ? new Daemon() : null;
const BLOCK = 8192;
const BLOCKS = 4096;
const HOSTILE = "<img src=x onerror=document.title='owned'>\u202e.txt";
/** The seconds since 1970 that contain the activity, whole ones only. */
const spans: Record<"sequential" | "random", { from: number; to: number }> = {
  sequential: { from: 0, to: 0 },
  random: { from: 0, to: 0 },
};
let page: Page;
let complaints: string[];
let close = async () => {};

const now = () => Date.now() / 1000;
const later = (ms: number) => new Promise((done) => setTimeout(done, ms));
const nextSecond = () => later(1000 - (Date.now() % 1000) + 30);

/** Reads for some seconds, a few calls at a time; `blockAt` returns the block, given the elapsed share of the time. One of about
 * 300 calls is a write that is stable when acknowledged. */
async function read(
  nfs: Nfs,
  file: Buffer,
  slow: Buffer,
  seconds: number,
  blockAt: (part: number, nth: number) => number,
): Promise<{ from: number; to: number }> {
  await nextSecond();
  const began = now();
  let nth = 0;
  const worker = async () => {
    for (;;) {
      const part = (now() - began) / seconds;
      if (part >= 1) return;
      nth += 1;
      if (nth % 300 === 0) await nfs.write(slow, (nth % 64) * BLOCK, Buffer.alloc(BLOCK, nth));
      else await nfs.read(file, Math.min(BLOCKS - 1, blockAt(part, nth)) * BLOCK, BLOCK);
      if (nth % 8 === 0) await later(4);
    }
  };
  await Promise.all([worker(), worker()]);
  return { from: Math.ceil(began), to: Math.floor(began + seconds) };
}

beforeAll(async () => {
  if (!daemon) return;
  await daemon.prepare();
  const disk = join(daemon.folder, "disk0");
  const { closeSync, ftruncateSync, openSync } = await import("node:fs");
  const file = openSync(disk, "w");
  ftruncateSync(file, 512 * 2 ** 20);
  closeSync(file);
  daemon.run("zpool", "create", "-O", "canmount=off", "tank", disk);
  daemon.run(
    "zfs",
    "create",
    "-o",
    "canmount=on",
    "-o",
    "recordsize=8K",
    "-o",
    "sharenfs=rw=127.0.0.1,insecure,no_root_squash",
    "tank/home",
  );
  await daemon.start();

  const nfs = await Nfs.open(daemon.nfsPort);
  const root = await nfs.mount("/tank/home");
  const large = await nfs.create(root, "large");
  const slow = await nfs.create(root, HOSTILE);
  for (let at = 0; at < BLOCKS * BLOCK; at += 2 ** 18) await nfs.write(large, at, Buffer.alloc(2 ** 18, at % 251), 0);
  spans.sequential = await read(nfs, large, slow, 14, (part) => Math.floor(part * BLOCKS));
  let dice = 7;
  spans.random = await read(nfs, large, slow, 8, () => {
    dice = (Math.imul(dice, 1664525) + 1013904223) >>> 0;
    return Math.floor((dice / 2 ** 32) * BLOCKS);
  });
  nfs.close();

  const opened = await open(daemon.link(), { width: 1500, height: 1000 });
  ({ page, complaints, close } = opened);
  page.setDefaultTimeout(30_000);
  await page.getByLabel("Password", { exact: true }).fill("long enough for this");
  await page.getByLabel("Password again").fill("long enough for this");
  await page.getByRole("button", { name: "Create and log in" }).click();
  await page.getByText("Live", { exact: true }).waitFor();
}, 240_000);
afterAll(async () => {
  await close();
  await daemon?.stop();
  daemon?.remove();
});

/** Opens one graph over a past range, and returns its canvas once it is drawn completely. */
async function look(name: string, view: string, { from, to }: { from: number; to: number }): Promise<Locator> {
  await page.goto(
    `${daemon!.url}/analytics?${new URLSearchParams([
      ["from", String(from)],
      ["to", String(to)],
      ["g", name],
      ["v", view],
    ])}`,
  );
  const canvas = page.locator("canvas");
  await expect
    .poll(() => canvas.getAttribute("data-span").catch(() => null), { timeout: 30_000 })
    .toBe(`${from}-${to}-1`);
  return canvas;
}

interface Picture {
  width: number;
  height: number;
  data: number[];
}
const pictureOf = (canvas: Locator) =>
  canvas.evaluate((element: HTMLCanvasElement): Picture => {
    const { data } = element.getContext("2d")!.getImageData(0, 0, element.width, element.height);
    return { width: element.width, height: element.height, data: Array.from(new Uint32Array(data.buffer)) };
  });
const PLAIN = 0xffffffff;

/** For each second, the lines from the bottom that are not background. */
function marked({ width, height, data }: Picture, columns: number): number[][] {
  return Array.from({ length: columns }, (_, column) => {
    const x = Math.floor(((column + 0.5) * width) / columns);
    return Array.from({ length: height }, (__, y) => y).filter((y) => data[(height - 1 - y) * width + x] !== PLAIN);
  });
}
const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / Math.max(1, values.length);

function correlation(a: readonly number[], b: readonly number[]): number {
  const [ma, mb] = [mean(a), mean(b)];
  const sum = (of: (nth: number) => number) => a.reduce((all, _, nth) => all + of(nth), 0);
  return (
    sum((nth) => (a[nth]! - ma) * (b[nth]! - mb)) /
    Math.sqrt(sum((nth) => (a[nth]! - ma) ** 2) * sum((nth) => (b[nth]! - mb) ** 2))
  );
}

/** Difference between two colours: CIE 1976, in L*a*b*. 2 is just visible side by side. */
function difference(a: number, b: number): number {
  const lab = (colour: number) => {
    const [r, g, blue] = [colour & 255, (colour >> 8) & 255, (colour >> 16) & 255].map((part) => {
      const value = part / 255;
      return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
    }) as [number, number, number];
    const f = (t: number) => (t > (6 / 29) ** 3 ? Math.cbrt(t) : t / (3 * (6 / 29) ** 2) + 4 / 29);
    const [x, y, z] = [
      f((0.4124 * r + 0.3576 * g + 0.1805 * blue) / 0.9505),
      f(0.2126 * r + 0.7152 * g + 0.0722 * blue),
      f((0.0193 * r + 0.1192 * g + 0.9505 * blue) / 1.089),
    ];
    return [116 * y - 16, 500 * (x - y), 200 * (y - z)] as const;
  };
  const [left, right] = [lab(a), lab(b)];
  return Math.hypot(...left.map((value, nth) => value - right[nth]!));
}

describe.skipIf(!program)("what clients did, after the fact", { timeout: 120_000 }, () => {
  test("a sequential read rises in the heat map of offsets, random reads fill it evenly", async () => {
    const { sequential, random } = spans;
    const view = "outliers=none";
    const rising = marked(
      await pictureOf(await look("nfs3.ops[op=read][offset]", view, sequential)),
      sequential.to - sequential.from,
    );
    // A busy machine may skip a second; what was not read is not shown.
    const seconds = rising.flatMap((lines, second) => (lines.length > 0 ? [second] : []));
    expect(seconds.length).toBeGreaterThan(rising.length / 2);
    expect(
      correlation(
        seconds.map((second) => mean(rising[second]!)),
        seconds,
      ),
    ).toBeGreaterThan(0.95);
    const { height } = await pictureOf(page.locator("canvas"));
    // A stripe, not a field: a second covers a small part of the file.
    expect(mean(seconds.map((second) => rising[second]!.length)) / height).toBeLessThan(0.4);

    const field = marked(
      await pictureOf(await look("nfs3.ops[op=read][offset]", view, random)),
      random.to - random.from,
    ).filter((lines) => lines.length > 0);
    const covered = mean(field.map((lines) => lines.length)) / height;
    expect(covered).toBeGreaterThan(0.6);
    expect(Math.abs(mean(field.map(mean)) / height - 0.5)).toBeLessThan(0.1);
  });

  test("slow calls that are 0.3 % of all are clearly visible above the others", async () => {
    const { sequential: span } = spans;
    const answer = await page.evaluate(
      async ([from, to]) => {
        const response = await fetch(
          `/v1/analytics/query?${new URLSearchParams({ name: "nfs3.ops[op]", from: from!, to: to! })}`,
        );
        return (await response.json()) as {
          columns: { start: number; cells: number[] }[];
          keys: Record<string, string>;
        };
      },
      [String(span.from), String(span.to)],
    );
    const counts: Record<string, number> = {};
    for (const { cells } of answer.columns)
      for (let at = 0; at < cells.length; at += 2)
        counts[answer.keys[String(cells[at])]!] = (counts[answer.keys[String(cells[at])]!] ?? 0) + cells[at + 1]!;
    const share = counts.write! / (counts.read! + counts.write!);
    expect(share).toBeGreaterThan(0.001);
    expect(share).toBeLessThan(0.006);
    // Only the slow calls: their position on the map of all calls.
    const canvas = await look("nfs3.ops[latency]", "outliers=none&scale=log", span);
    const all = await pictureOf(canvas);
    const columns = span.to - span.from;
    const lines = marked(all, columns);
    const withSlow = answer.columns
      .filter(({ cells }) => cells.some((cell, at) => at % 2 === 0 && answer.keys[String(cell)] === "write"))
      .map(({ start }) => start - span.from);
    const tops = withSlow.map((column) => ({ column, y: Math.max(...lines[column]!) }));
    expect(tops.length).toBeGreaterThan(0);
    expect(mean(tops.map(({ y }) => y)) / all.height).toBeGreaterThan(0.4);
    const differences = tops.map(({ column, y }) =>
      difference(
        all.data[(all.height - 1 - y) * all.width + Math.floor(((column + 0.5) * all.width) / columns)]!,
        PLAIN,
      ),
    );
    expect(Math.min(...differences)).toBeGreaterThan(15);
  });

  test("the server draws the same pixels", async () => {
    const span = { from: spans.sequential.from, to: spans.random.to };
    for (const [name, view, more] of [
      ["nfs3.ops[latency]", "outliers=none&scale=log", { scale: "log", outliers: "none" }],
      [
        "nfs3.ops[op=read][offset]",
        "outliers=5&coloring=log&palette=inferno",
        { outliers: "5", coloring: "log", palette: "inferno" },
      ],
      ["nfs3.ops[size]", "", { outliers: "0.1" }],
      ["nfs3.ops[op]", "kind=line", { shape: "lines" }],
      ["nfs3.ops[op]", "", { shape: "stacked" }],
    ] as const) {
      const ours = await pictureOf(await look(name, view, span));
      const query = new URLSearchParams({
        name,
        from: String(span.from),
        to: String(span.to),
        step: "1",
        width: String(ours.width),
        height: String(ours.height),
        format: "png",
        plain: "true",
        ...more,
      });
      const theirs = await page.evaluate(async (address) => {
        const answer = await fetch(address);
        if (!answer.ok) throw new Error(await answer.text());
        const image = await createImageBitmap(await answer.blob());
        const context = new OffscreenCanvas(image.width, image.height).getContext("2d")!;
        context.drawImage(image, 0, 0);
        const { data, width, height } = context.getImageData(0, 0, image.width, image.height);
        return { width, height, data: Array.from(new Uint32Array(data.buffer)) };
      }, `/v1/analytics/picture?${query}`);
      expect([theirs.width, theirs.height], name).toEqual([ours.width, ours.height]);
      const other = ours.data.findIndex((pixel, at) => pixel !== theirs.data[at]);
      expect(other, `${name} ${view}: pixel ${other % ours.width}, ${Math.floor(other / ours.width)} differs`).toBe(-1);
    }
  });

  test("only pages for embedding can be embedded", async () => {
    for (const [path, framed] of [
      ["/embed/analytics", true],
      ["/analytics", false],
      ["/", false],
      ["/v1/version", false],
    ] as const) {
      const { headers } = await fetch(daemon!.url + path);
      expect(
        [headers.get("x-frame-options"), headers.get("content-security-policy")?.includes("frame-ancestors *")],
        path,
      ).toEqual(framed ? [null, true] : ["DENY", false]);
    }
  });

  test("explaining them names their file, and its name executes nothing", async () => {
    const { sequential: span } = spans;
    await look("nfs3.ops[op=write][file]", "", span);
    await page.getByRole("option", { name: /<img src=x onerror=document\.title='owned'>⟨U\+202E⟩\.txt/ }).waitFor();
    const canvas = await look("nfs3.ops[latency]", "outliers=none&scale=log", span);
    const { height } = await pictureOf(canvas);
    const bounds = (await canvas.boundingBox())!;
    await page.mouse.move(bounds.x + 3, bounds.y + 2);
    await page.mouse.down();
    await page.mouse.move(bounds.x + bounds.width - 4, bounds.y + height * 0.45, { steps: 5 });
    await page.mouse.up();
    const found = page.getByRole("region", { name: /What is special/ });
    await found.getByText("intent log").waitFor();
    await expect.poll(() => found.getByRole("button", { name: /<img src=x onerror/ }).count()).toBeGreaterThan(0);
    expect(await page.locator("img").count()).toBe(0);
    expect(await page.title()).not.toContain("owned");
    expect(complaints).toEqual([]);
  });
});
