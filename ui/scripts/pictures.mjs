// Screenshots of the page, from the mock: `npm run pictures [folder [names]]`.
// docs/pictures/page.png is the one called "readme". If $WEIR names the program, also of a
// worksheet of a real server under NFS load: docs/pictures/analytics.png is "real-light".
import { mkdir, truncate, writeFile } from "node:fs/promises";
import { chromium } from "playwright-core";
import { runnerImport } from "vite";

const folder = process.argv[2] ?? "test/pictures";
await mkdir(folder, { recursive: true });
const { module } = await runnerImport("./mock-api/server.ts");
const mock = new module.Mock({ loggedIn: true, beat: Number(process.env.BEAT ?? 100) });
const { server, url } = await mock.listen("dist");
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox"],
});

const SHEET = `/analytics?${new URLSearchParams([
  ["span", "300"],
  ["g", "nfs3.ops[latency]"],
  ["v", ""],
  ["g", "nfs3.ops[client]"],
  ["v", "kind=line"],
  ["g", "nfs3.ops[offset]"],
  ["v", "outliers=none"],
])}`;
const SHOTS = [
  ["readme", "/", "light", 1180, 800],
  ["overview-light", "/", "light", 1280, 860],
  ["overview-dark", "/", "dark", 1280, 860],
  ["overview-narrow", "/", "light", 390, 844],
  ["pool-light", "/pools/archive", "light", 1280, 860],
  ["pool-dark", "/pools/tank", "dark", 1280, 860],
  ["pool-narrow", "/pools/archive", "dark", 390, 844],
  ["pools-light", "/pools", "light", 1280, 860],
  ["pool-properties", "/pools/tank?tab=properties", "light", 1280, 860],
  ["datasets-light", "/datasets/tank/home", "light", 1440, 860],
  ["datasets-dark", "/datasets/tank/home?tab=properties", "dark", 1440, 860],
  ["datasets-narrow", "/datasets", "light", 390, 844],
  ["dataset-narrow", "/datasets/tank/home", "light", 390, 844],
  ["shares-light", "/shares", "light", 1280, 860],
  ["clients-light", "/clients", "light", 1280, 860],
  ["clients-one", "/clients/192.168.1.20", "dark", 1280, 860],
  ["jobs-light", "/jobs/1", "light", 1280, 860],
  ["events-dark", "/events", "dark", 1280, 860],
  ["analytics-start", "/analytics", "light", 1440, 900],
  ["analytics-light", SHEET, "light", 1440, 1100],
  ["analytics-dark", SHEET, "dark", 1440, 1100],
  ["analytics-narrow", SHEET, "light", 390, 1200],
  ["analytics-datasets", "/analytics/datasets", "light", 1280, 860],
  ["accounts-light", "/accounts", "light", 1280, 860],
  ["system-light", "/system", "light", 1280, 860],
  ["create-pool", "/pools?do=create", "light", 1280, 900],
  ["create-dataset", "/datasets/tank?do=create", "dark", 1280, 860],
  ["destroy", "/datasets/tank/media?do=destroy", "light", 1280, 860],
  ["share-form", "/shares?do=share&dataset=tank/home", "light", 1280, 860],
];
let cookies = [];
const only = process.argv[3]?.split(",");
for (const [name, path, scheme, width, height] of SHOTS) {
  if (only && !only.some((part) => name.startsWith(part))) continue;
  const page = await browser.newPage({ viewport: { width, height }, colorScheme: scheme, deviceScaleFactor: 1 });
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) console.error(`${name}: ${message.text()}`);
  });
  page.on("pageerror", (error) => console.error(`${name}: ${error}`));
  await page.goto(url + path);
  await page.waitForTimeout(
    /^(overview|readme)/.test(name) || name.startsWith("clients") ? Number(process.env.SETTLE ?? 8000) : 900,
  );
  await page.screenshot({ path: `${folder}/${name}.png` });
  await page.close();
}
if (process.env.WEIR && (!only || only.some((part) => "real-light".startsWith(part)))) await real();
await browser.close();
server.close();
mock.close();

/** Four clients for a minute: one reads a file sequentially, two at random, one writes with sync. */
async function real() {
  const {
    module: { Daemon },
  } = await runnerImport("./test/e2e/daemon.ts");
  const {
    module: { Nfs },
  } = await runnerImport("./test/e2e/nfs.ts");
  const daemon = new Daemon();
  try {
    await daemon.prepare();
    const disk = `${daemon.folder}/disk0`;
    await writeFile(disk, "");
    await truncate(disk, 512 * 2 ** 20);
    daemon.run("zpool", "create", "-O", "canmount=off", "tank", disk);
    daemon.run(
      "zfs",
      "create",
      "-o",
      "canmount=on",
      "-o",
      "recordsize=8K",
      "-o",
      "sharenfs=rw=@127.0.0.0/8,insecure,no_root_squash",
      "tank/home",
    );
    await daemon.start();
    const [SECONDS, BLOCK, BLOCKS] = [Number(process.env.SECONDS ?? 62), 8192, 8192];
    const clients = await Promise.all(
      ["127.0.0.11", "127.0.0.12", "127.0.0.13", "127.0.0.14"].map((from) => Nfs.open(daemon.nfsPort, from)),
    );
    const roots = await Promise.all(clients.map((client) => client.mount("/tank/home")));
    const film = await clients[0].create(roots[0], "film.mkv");
    const mail = await clients[3].create(roots[3], "inbox");
    for (let at = 0; at < BLOCKS * BLOCK; at += 2 ** 18)
      await clients[0].write(film, at, Buffer.alloc(2 ** 18, at % 251), 0);
    const began = Date.now();
    const part = () => (Date.now() - began) / SECONDS / 1000;
    const pause = (ms) => new Promise((done) => setTimeout(done, ms));
    const until = async (work) => {
      for (let nth = 0; part() < 1; nth += 1) await work(nth);
    };
    await Promise.all([
      until(async (nth) => {
        await clients[0].read(film, Math.floor(((part() * 3) % 1) * (BLOCKS - 1)) * BLOCK, BLOCK);
        if (nth % 4 === 0) await pause(2);
      }),
      until(async (nth) => {
        await clients[1].read(film, Math.floor(Math.random() * BLOCKS * 0.45) * BLOCK, BLOCK);
        if (nth % 3 === 0) await pause(3);
      }),
      until(async (nth) => {
        if (part() % 0.4 < 0.25) await clients[2].read(film, Math.floor(Math.random() * BLOCKS) * BLOCK, BLOCK * 2);
        if (nth % 5 === 0) await pause(4);
      }),
      until(async (nth) => {
        await clients[3].write(mail, (nth % 512) * BLOCK, Buffer.alloc(BLOCK, nth));
        await pause(40 + 80 * Math.sin(part() * 9) ** 2);
      }),
    ]);
    for (const [name, scheme] of [
      ["real-light", "light"],
      ["real-dark", "dark"],
    ]) {
      const page = await browser.newPage({ viewport: { width: 1420, height: 1090 }, colorScheme: scheme });
      if (name === "real-light") {
        await page.goto(daemon.link());
        await page.getByLabel("Password", { exact: true }).fill("long enough for this");
        await page.getByLabel("Password again").fill("long enough for this");
        await page.getByRole("button", { name: "Create and log in" }).click();
        await page.getByText("Live", { exact: true }).waitFor();
        cookies = await page.context().cookies();
      } else await page.context().addCookies(cookies);
      const [from, to] = [Math.ceil(began / 1000), Math.floor(began / 1000 + SECONDS)];
      await page.goto(
        `${daemon.url}/analytics?${new URLSearchParams([
          ["from", from],
          ["to", to],
          ["g", "nfs3.ops[op=read][offset]"],
          ["v", "outliers=none"],
          ["g", "nfs3.ops[latency]"],
          ["v", "outliers=none&scale=log"],
          ["g", "nfs3.ops[client]"],
          ["v", ""],
        ])}`,
      );
      await page.waitForTimeout(4000);
      await page.screenshot({ path: `${folder}/${name}.png` });
      await page.close();
    }
  } finally {
    await daemon.stop();
    daemon.remove();
  }
}
process.exit(0);
