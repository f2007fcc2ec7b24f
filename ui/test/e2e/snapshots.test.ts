//! Snapshots in a browser, against the mock: take, search, hold, rename, clone, roll back, destroy.

import { expect, test } from "vitest";
import type { Page } from "playwright-core";
import { withMock } from "./browser";

const table = (page: Page, of: string) => page.getByRole("grid", { name: `Snapshots of ${of}` });
const confirm = async (page: Page, name: string) => page.getByLabel(/To confirm, type the name/).fill(name);

test("one is taken recursively, held, renamed, released and destroyed", async () => {
  await withMock({ path: "/datasets/tank/home?tab=snapshots" }, async (page, mock) => {
    page.setDefaultTimeout(20_000);
    await page.getByRole("button", { name: "Take a snapshot" }).click();
    await page.getByLabel("Name", { exact: true }).fill("no/slash");
    await page.getByText("Letters, digits, spaces and _ - . : only.").first().waitFor();
    await page.getByLabel("Name", { exact: true }).fill("before");
    await page.getByLabel(/Recursively/).check();
    await page.keyboard.press("Enter");
    const row = table(page, "tank/home").getByRole("row", { name: /@before/ });
    await row.waitFor();
    expect(mock.state.datasets.filter((one) => one.name.endsWith("@before")).map((one) => one.name)).toEqual([
      "tank/home@before",
      "tank/home/ann@before",
      "tank/home/bob@before",
      "tank/home/eve@before",
    ]);
    // The newest is the first, and the new one is selected.
    expect(await table(page, "tank/home").getByRole("row").nth(1).textContent()).toContain("@before");
    expect(new URL(page.url()).searchParams.get("snapshot")).toBe("before");

    await page.getByRole("button", { name: "Hold" }).click();
    await page.getByLabel("Hold it as").fill("audit:2026");
    await page.keyboard.press("Enter");
    await page.getByRole("button", { name: "Release audit:2026" }).waitFor();
    await page.getByRole("button", { name: "Close" }).last().click();
    await page.getByRole("button", { name: "Holds (1)" }).waitFor();

    await page.getByRole("region", { name: "Snapshot before" }).getByRole("button", { name: "Destroy" }).click();
    await page.getByText(/1 snapshot will be destroyed, and .* will be reclaimed/).waitFor();
    await confirm(page, "tank/home@before");
    await page.getByRole("button", { name: "Destroy it" }).click();
    await page
      .getByRole("alert")
      .getByText(/it's being held/)
      .waitFor();
    await page.getByRole("button", { name: "Keep it" }).click();

    await page.getByRole("region", { name: "Snapshot before" }).getByRole("button", { name: "Rename" }).click();
    await page.getByLabel("New name").fill("kept");
    await page.keyboard.press("Enter");
    await table(page, "tank/home").getByRole("row", { name: /@kept/ }).waitFor();
    mock.state.holds = [];
    mock.state.datasets.find((one) => one.name === "tank/home@kept")!.holds = 0;
    await page.getByRole("region", { name: "Snapshot kept" }).getByRole("button", { name: "Destroy" }).click();
    await confirm(page, "tank/home@kept");
    await page.keyboard.press("Enter");
    await expect.poll(() => mock.state.datasets.some((one) => one.name === "tank/home@kept")).toBe(false);
    await expect.poll(() => page.getByRole("region", { name: "Snapshot kept" }).count()).toBe(0);
  });
});

test("a rollback shows what is lost, and destroys newer snapshots", async () => {
  await withMock({ path: "/datasets/tank/home@monday" }, async (page, mock) => {
    await page.getByRole("button", { name: "Roll back" }).click();
    await page.getByText(/All changes in tank\/home since .* are lost/).waitFor();
    await page.getByText(/1 newer snapshot would be destroyed:\s*@tuesday/).waitFor();
    await confirm(page, "tank/home");
    await page.getByRole("button", { name: "Roll it back" }).click();
    await expect.poll(() => mock.state.datasets.some((one) => one.name === "tank/home@tuesday")).toBe(false);
    await page.getByRole("heading", { name: "tank/home", exact: true }).waitFor();
  });
});

test("a clone shows its origin, and can be promoted", async () => {
  await withMock({ path: "/datasets/tank/home/ann@before-upgrade" }, async (page, mock) => {
    await page.getByRole("button", { name: "Clone" }).click();
    expect(await page.getByLabel("Name of the clone, in full").inputValue()).toBe("tank/home/ann-before-upgrade");
    await page.getByLabel("Name of the clone, in full").fill("archive/ann");
    await page.getByText("A clone is in the same pool: the name must start with tank/.").first().waitFor();
    await page.getByLabel("Name of the clone, in full").fill("tank/trial");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "tank/trial" }).waitFor();
    await page.getByRole("link", { name: "tank/home/ann@before-upgrade" }).click();
    await page.getByRole("link", { name: "tank/trial", exact: true }).click();
    await page.getByRole("button", { name: "Promote" }).click();
    await page.getByText("tank/trial is the origin now.").waitFor();
    expect(mock.state.datasets.find((one) => one.name === "tank/home/ann")!.origin).toBe("tank/trial@before-upgrade");
    await expect.poll(() => page.getByRole("button", { name: "Promote" }).count()).toBe(0);
  });
});

test("10,000 of them: few rows are drawn, keys select, and search results are destroyed together", async () => {
  await withMock({ path: "/datasets/tank/media?tab=snapshots", snapshots: 10_000 }, async (page, mock) => {
    await page.getByText("10,000 of 10,000 shown").waitFor({ timeout: 20_000 });
    const grid = table(page, "tank/media");
    expect(await grid.getByRole("row").count()).toBeLessThan(100);
    await grid.focus();
    await page.keyboard.press("End");
    await page.keyboard.press("Enter");
    await page.getByRole("region", { name: "Snapshot hourly-000000" }).waitFor();
    await page.getByLabel("Find snapshots by name").fill("hourly-00123");
    await page.getByText("10 of 10,000 shown").waitFor();
    await page.getByRole("button", { name: "Destroy these 10" }).click();
    await page.getByText(/10 snapshots will be destroyed, and .* will be reclaimed/).waitFor();
    await confirm(page, "tank/media");
    await page.getByRole("button", { name: "Destroy them" }).click();
    await expect.poll(() => mock.state.datasets.filter((one) => one.name.startsWith("tank/media@")).length).toBe(9990);
    await page.getByText("9,990 of 9,990 shown").waitFor();
  });
});

test("a schedule is set, inherited by children, and disabled there", async () => {
  await withMock({ path: "/datasets/tank/home?tab=snapshots" }, async (page, mock) => {
    await page.getByText("None are taken by schedule.").waitFor();
    await page.getByRole("button", { name: "Schedule" }).click();
    await page.getByLabel("hourly: how many are kept").fill("x");
    await page.getByText("The number of hourly snapshots to keep must be a number.").first().waitFor();
    await page.getByLabel("hourly: how many are kept").fill("24");
    await page.getByLabel("daily: how many are kept").fill("31");
    await page.getByLabel("daily: of tank/home alone").check();
    await page.keyboard.press("Enter");
    await page.getByText("Kept by schedule: 24 hourly, 31 daily.").waitFor();
    expect([...mock.state.local.get("tank/home")!].filter(([name]) => name.startsWith("weir:"))).toEqual([
      ["weir:snapshot-hourly", "24"],
      ["weir:snapshot-daily", "31,only"],
    ]);
    await page.goto(`${new URL(page.url()).origin}/datasets/tank/home/ann?tab=snapshots`);
    await page.getByText("Kept by schedule: 24 hourly.").waitFor();
    await page.getByRole("button", { name: "Schedule" }).click();
    await page.getByText("from tank/home").waitFor();
    await page.getByLabel("hourly: how many are kept").fill("0");
    await page.getByRole("button", { name: "Set", exact: true }).click();
    await page.getByText("None are taken by schedule.").waitFor();
  });
});

test("a viewer sees why each action is disabled", async () => {
  await withMock({ loggedIn: false, path: "/datasets/tank/home?tab=snapshots&snapshot=monday" }, async (page) => {
    await page.getByLabel("User").fill("eve");
    await page.getByLabel("Password").fill("only looking");
    await page.keyboard.press("Enter");
    await page.getByRole("region", { name: "Snapshot monday" }).waitFor();
    for (const [name, role] of [
      ["Take a snapshot", "operator"],
      ["Roll back", "administrator"],
      ["Clone", "operator"],
    ] as const) {
      expect(await page.getByRole("button", { name, exact: true }).getAttribute("title")).toBe(
        `This requires the role ${role}; eve is viewer.`,
      );
    }
  });
});
