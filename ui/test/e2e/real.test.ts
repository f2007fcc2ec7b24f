//! The page with the real daemon: from the first-start link to a restart, with a pool on image
//! files. $WEIR names the program; without it, the tests are skipped.

import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { axe, open } from "./browser";
import { Daemon, program } from "./daemon";

const daemon = program ? new Daemon() : null;
const folder = daemon?.folder ?? "";

beforeAll(async () => {
  await daemon?.prepare();
  await daemon?.start();
});
afterAll(async () => {
  await daemon?.stop();
  daemon?.remove();
});

test.skipIf(!program)(
  "from the first-start link to a pool, a share and a verify, over a restart",
  async () => {
    const { page, complaints, close } = await open(daemon!.link());
    page.setDefaultTimeout(20_000);
    await page.getByLabel("Password", { exact: true }).fill("long enough for this");
    await page.getByLabel("Password again").fill("long enough for this");
    await page.getByRole("button", { name: "Create and log in" }).click();
    await page.getByText("Live", { exact: true }).waitFor();
    await page.getByText("No pool is imported yet").waitFor();

    await page.getByRole("link", { name: "create one" }).click();
    await page.getByLabel("Name").fill("tank");
    await page
      .getByLabel("Devices or image files")
      .fill([0, 1, 2, 3].map((nth) => join(folder, `disk${nth}`)).join("\n"));
    await page.getByLabel("Create missing image files").check();
    await page.getByLabel("Size of each new file").fill("256M");
    await page.getByRole("button", { name: "Create the pool" }).click();
    await page.getByRole("heading", { name: "tank", level: 1 }).waitFor();
    await page
      .getByRole("row", { name: /raidz1-0/ })
      .getByText("ONLINE")
      .waitFor();

    await page.getByRole("link", { name: "Datasets of tank" }).click();
    await page.getByRole("button", { name: "Create below" }).click();
    await page.getByLabel("Name", { exact: true }).fill("home");
    await page.getByLabel("Quota").fill("100M");
    await page.getByRole("button", { name: "Create tank/home" }).click();
    await page.getByRole("heading", { name: "tank/home" }).waitFor();
    await page.getByText("quota 100M").waitFor();

    await page.getByRole("link", { name: "Properties" }).click();
    await page.getByRole("button", { name: "Change compression" }).click();
    await page.getByLabel("Value").selectOption("zstd");
    await page.getByRole("button", { name: "Set", exact: true }).click();
    await page.getByRole("row", { name: /compression zstd set here/ }).waitFor();

    await page.getByRole("link", { name: "Snapshots" }).click();
    for (const name of ["first", "second"]) {
      await page.getByRole("button", { name: "Take a snapshot" }).click();
      await page.getByLabel("Name", { exact: true }).fill(name);
      await page.getByRole("button", { name: "Take it" }).click();
      await page.getByRole("row", { name: new RegExp(`@${name}`) }).waitFor();
    }
    await page.getByRole("button", { name: "Hold", exact: true }).click();
    await page.keyboard.press("Enter");
    await page.getByRole("button", { name: "Release keep" }).click();
    await page.getByText("Nothing holds it.").waitFor();
    await page.getByRole("button", { name: "Close" }).last().click();
    await page.getByRole("row", { name: /@first/ }).click();
    await page.getByRole("button", { name: "Clone", exact: true }).click();
    await page.getByLabel("Name of the clone, in full").fill("tank/trial");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "tank/trial" }).waitFor();
    await page.getByRole("link", { name: "tank/home@first" }).click();
    await page.getByRole("button", { name: "Roll back" }).click();
    await page.getByText(/1 newer snapshot would be destroyed/).waitFor();
    await page.getByLabel(/To confirm, type the name/).fill("tank/home");
    await page.getByRole("button", { name: "Roll it back" }).click();
    await page.getByRole("heading", { name: "tank/home", exact: true }).waitFor();
    await page.goto(`${daemon!.url}/datasets/tank/trial`);
    await page.getByRole("button", { name: "Destroy" }).click();
    await page.getByLabel(/To confirm, type the name/).fill("tank/trial");
    await page.getByRole("button", { name: "Destroy it" }).click();
    await page.getByRole("heading", { name: "tank", exact: true, level: 1 }).waitFor();
    await page.goto(`${daemon!.url}/datasets/tank/home?tab=snapshots`);
    await page.getByRole("row", { name: /@first/ }).waitFor();
    expect(await page.getByRole("row", { name: /@second/ }).count()).toBe(0);

    await page.getByRole("button", { name: "Share", exact: true }).click();
    await page.getByLabel("These hosts").check();
    await page.getByLabel("Host or network 1").fill("10.1.0.0/16");
    await page.getByRole("dialog").getByRole("button", { name: "Share" }).click();
    await page.getByRole("link", { name: "Shares" }).click();
    await page
      .getByRole("row", { name: /tank\/home/ })
      .getByText("served", { exact: true })
      .waitFor();
    await page
      .getByRole("row", { name: /tank\/home/ })
      .getByText(/10\.1\.0\.0\/16/)
      .first()
      .waitFor();

    await page.goto(`${daemon!.url}/pools/tank`);
    await page.getByRole("button", { name: "Verify" }).click();
    await page.goto(`${daemon!.url}/jobs`);
    await page.getByRole("link", { name: "Verify tank" }).first().click();
    await page.getByText("Clean: all data is readable and consistent.").waitFor();

    for (const path of ["/", "/pools/tank?tab=properties", "/events", "/clients", "/accounts?tab=audit", "/system"]) {
      await page.goto(`${daemon!.url}${path}`);
      await page.getByText("Live", { exact: true }).waitFor();
      await page.waitForTimeout(300);
      expect(await axe(page), path).toEqual([]);
    }

    expect(await daemon!.stop()).toBe(0);
    await page.getByText("The server cannot be reached.").waitFor();
    await daemon!.start();
    await page.goto(`${daemon!.url}/datasets/tank/home`);
    // The daemon decides whether a session survives a restart; logging in must work in both cases.
    const heading = page.getByRole("heading", { name: /^(Log in|tank\/home)$/ });
    await heading.waitFor();
    if ((await heading.textContent()) === "Log in") {
      await page.getByLabel("User").fill("admin");
      await page.getByLabel("Password").fill("long enough for this");
      await page.keyboard.press("Enter");
    }
    await page.getByText("quota 100M").waitFor();

    await page.getByRole("button", { name: "Destroy" }).click();
    await page.getByLabel(/To confirm, type the name/).fill("tank/home");
    await page.getByRole("button", { name: "Destroy it" }).click();
    await expect.poll(() => page.getByRole("row", { name: /home/ }).count(), { timeout: 20_000 }).toBe(0);
    expect(complaints).toEqual([]);
    await close();
  },
  180_000,
);

test.skipIf(!program)(
  "a stream shows how far it is while its reader waits, on the page of its dataset, and can be stopped there",
  async () => {
    // A unique name for each attempt.
    const name = `tank/v${Date.now()}`;
    const volume = `nbd+unix:///${name}?socket=${join(folder, "state/run/nbd.sock")}`;
    const write = (operations: string) =>
      daemon!.run("load", "seqwrite", volume, "--size", "128K", "--ops", operations);
    daemon!.run("zfs", "create", "-s", "-V", "32M", "-o", "compression=off", name);
    write("160");
    daemon!.run("zfs", "snapshot", `${name}@a`);
    write("80");
    daemon!.run("zfs", "snapshot", `${name}@b`);

    const { page, complaints, close } = await open(`${daemon!.url}/datasets/${name}`);
    page.setDefaultTimeout(60_000);
    await page.getByLabel("User").fill("admin");
    await page.getByLabel("Password").fill("long enough for this");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: name, exact: true }).waitFor();
    const line = page.getByRole("region", { name: "Running now" });
    const ended = (command: ReturnType<Daemon["begin"]>) =>
      new Promise<number | null>((done) => command.on("exit", done));

    const sending = daemon!.begin("zfs", "send", "-i", "@a", `${name}@b`);
    const sent = ended(sending);
    await line.getByRole("link", { name: `Send ${name}@b` }).waitFor();
    await line.getByText(`${name}@b since @a`).waitFor();
    await line.getByText(/ of .+ · .+\/s/).waitFor();
    const far = Number(await line.getByRole("progressbar", { name: `Send ${name}@b` }).getAttribute("aria-valuenow"));
    expect(far).toBeGreaterThan(0);
    expect(far).toBeLessThan(99);
    expect(await axe(page)).toEqual([]);
    sending.stdout!.resume();
    expect(await sent).toBe(0);
    await line.waitFor({ state: "detached" });

    const stopped = daemon!.begin("zfs", "send", `${name}@a`);
    const code = ended(stopped);
    let output = "";
    stopped.stderr!.on("data", (text: Buffer) => (output += text.toString()));
    await line.getByRole("link", { name: `Send ${name}@a` }).waitFor();
    await line.getByRole("button", { name: "Stop" }).click();
    await line.waitFor({ state: "detached" });
    stopped.stdout!.resume();
    expect(await code).toBe(1);
    expect(output).toContain("it was stopped");

    await page.getByRole("link", { name: "Jobs", exact: true }).first().click();
    const row = (name: string, outcome: string) => page.getByRole("row", { name: new RegExp(`${name} ${outcome}`) });
    await row(`Send ${name}@b`, "done").waitFor();
    await row(`Send ${name}@a`, "cancelled").waitFor();
    expect(complaints).toEqual([]);
    await close();
  },
  180_000,
);
