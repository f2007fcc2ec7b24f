//! Accessibility: axe finds nothing on any page or dialog, light, dark and narrow; everything is
//! reachable with the keyboard.

import { describe, expect, test } from "vitest";
import { axe, withMock } from "./browser";

const PAGES = [
  "/",
  "/pools",
  "/pools/archive",
  "/pools/tank?tab=properties",
  "/pools/tank?tab=features",
  "/pools/archive?tab=jobs",
  "/datasets",
  "/datasets/tank/home",
  "/datasets/tank/home?tab=properties",
  "/datasets/tank/home?tab=snapshots",
  "/datasets/tank/home?tab=snapshots&snapshot=monday",
  "/datasets/tank/home@monday",
  "/datasets/tank/vault",
  "/analytics",
  "/analytics/datasets",
  "/analytics/worksheets",
  "/analytics/nowhere",
  "/shares",
  "/clients",
  "/clients/192.168.1.20",
  "/jobs",
  "/jobs/1",
  "/events",
  "/accounts",
  "/accounts?tab=tokens",
  "/accounts?tab=password",
  "/accounts?tab=audit",
  "/system",
  "/nowhere",
  "/pools/nosuch",
];
const WINDOWS = [
  "/pools?do=create",
  "/pools?do=import",
  "/pools/tank?do=destroy",
  "/datasets/tank?do=create",
  "/datasets/tank/home?do=share",
  "/datasets/tank/home?do=rename",
  "/datasets/tank/home?tab=snapshots&do=take",
  "/datasets/tank/home?tab=snapshots&do=schedule",
  "/datasets/tank/home?tab=snapshots&do=several",
  ...["rollback", "clone", "holds", "rename-snapshot", "destroy-snapshot"].map(
    (window) => `/datasets/tank/home?tab=snapshots&snapshot=monday&do=${window}`,
  ),
  "/datasets/tank/vault?do=key",
  "/accounts?do=user",
  "/accounts?tab=tokens&do=token",
];

async function look(paths: string[], view: { colorScheme: "light" | "dark"; width: number }) {
  await withMock(view, async (page, _, url) => {
    const found: string[] = [];
    for (const path of paths) {
      await page.goto(url + path);
      await page.getByText("Live", { exact: true }).waitFor();
      // `page.waitForLoadState("networkidle")` never returns: the stream stays open.
      await page.waitForTimeout(150);
      for (const line of await axe(page)) found.push(`${path} ${line}`);
      const wider = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      if (wider > 0) found.push(`${path} is ${wider} px wider than the window`);
    }
    expect(found).toEqual([]);
  });
}

describe("axe finds nothing", () => {
  test("on any page, light", () => look(PAGES, { colorScheme: "light", width: 1280 }), 240_000);
  test("on any page, dark and narrow", () => look(PAGES, { colorScheme: "dark", width: 390 }), 240_000);
  test("in any window", () => look(WINDOWS, { colorScheme: "dark", width: 1280 }), 60_000);
  test("on the login page", async () => {
    for (const [path, setup] of [
      ["/", false],
      ["/setup#token=x", true],
      ["/", true],
    ] as const) {
      await withMock({ loggedIn: false, setup, path }, async (page) => {
        await page.getByRole("heading", { level: 1 }).waitFor();
        expect(await axe(page)).toEqual([]);
      });
    }
  });
});

describe("without a mouse", () => {
  test("the tree of datasets folds, moves and selects by keyboard", async () => {
    await withMock({ path: "/datasets" }, async (page) => {
      const tree = page.getByRole("treegrid", { name: "Datasets" });
      await tree.getByRole("row", { name: /ann/ }).waitFor();
      await tree.focus();
      const active = () =>
        page.evaluate(
          () =>
            document
              .getElementById(document.activeElement?.getAttribute("aria-activedescendant") ?? "")
              ?.querySelector(".text")?.textContent,
        );
      expect(await active()).toBe("tank");
      await page.keyboard.press("ArrowDown");
      expect(await active()).toBe("home");
      await page.keyboard.press("ArrowLeft");
      await expect.poll(() => tree.getByRole("row", { name: /ann/ }).count()).toBe(0);
      await page.keyboard.press("ArrowRight");
      await page.keyboard.press("ArrowRight");
      expect(await active()).toBe("ann");
      await page.keyboard.type("vm");
      expect(await active()).toBe("vm");
      await page.keyboard.press("Enter");
      await page.getByRole("heading", { name: "tank/vm" }).waitFor();
      expect(new URL(page.url()).pathname).toBe("/datasets/tank/vm");
    });
  });
  test("the palette finds a dataset and opens it; Escape closes it and restores the focus", async () => {
    await withMock({}, async (page) => {
      await page.getByRole("button", { name: /Find or do/ }).focus();
      await page.keyboard.press("Control+k");
      await page.keyboard.press("Escape");
      await expect.poll(() => page.getByRole("dialog").count()).toBe(0);
      expect(await page.evaluate(() => document.activeElement?.textContent)).toContain("Find or do");
      await page.keyboard.press("Control+k");
      await page.keyboard.type("bob");
      await page.getByRole("option", { name: /tank\/home\/bob/ }).waitFor();
      await page.keyboard.press("Enter");
      await page.getByRole("heading", { name: "tank/home/bob" }).waitFor();
    });
  });
  test("the first Tab skips the navigation", async () => {
    await withMock({}, async (page) => {
      await page.getByText("Live", { exact: true }).waitFor();
      await page.keyboard.press("Tab");
      expect(await page.evaluate(() => document.activeElement?.textContent)).toBe("Skip to the page");
      await page.keyboard.press("Enter");
      expect(await page.evaluate(() => document.activeElement?.id)).toBe("main");
    });
  });
});

test("the theme survives a reload", async () => {
  await withMock({ colorScheme: "light" }, async (page) => {
    const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const light = await ground();
    await page.getByRole("button", { name: "Dark colours" }).click();
    await expect.poll(ground).not.toBe(light);
    const dark = await ground();
    await page.reload();
    await page.getByText("Live", { exact: true }).waitFor();
    expect(await ground()).toBe(dark);
    await page.getByRole("button", { name: "Light colours" }).click();
    await expect.poll(ground).toBe(light);
  });
});
