//! The page's connection to the server: one stream for all tabs, and the right state within 5 s.

import { expect, test } from "vitest";
import type { Page } from "playwright-core";
import { RIGHT, withMock } from "./browser";

const live = (page: Page) => page.getByText("Live", { exact: true }).waitFor();

test("ten tabs with graphs share one stream of events and one of statistics", async () => {
  await withMock({ path: "/clients" }, async (page, mock, url) => {
    await live(page);
    const tabs = [page];
    for (let nth = 1; nth < 10; nth += 1) {
      const tab = await page.context().newPage();
      // Without shared streams, the sixth would wait for a connection for ever.
      await tab.goto(`${url}/${nth % 2 ? "analytics?span=60&g=nfs3.ops&v=" : "clients"}`);
      await live(tab);
      tabs.push(tab);
    }
    await expect.poll(() => mock.streams).toEqual({ events: 1, statistics: 1 });
    mock.state.pools[0]!.name = "renamed";
    mock.changedPools();
    for (const tab of tabs.filter((_, nth) => nth % 2 === 0)) {
      await tab.locator("aside a[href='/pools']").click();
      await tab.getByRole("link", { name: "renamed" }).first().waitFor();
    }
    for (const tab of tabs.slice(1)) await tab.close({ runBeforeUnload: true });
    await expect.poll(() => mock.streams).toEqual({ events: 1, statistics: 0 });
    await live(page);
    // The worker ends with its last tab, and its streams with it. A page that is kept for the back
    // button may keep them open: see hub.ts.
    await page.close();
    await expect.poll(() => mock.streams).toEqual({ events: 0, statistics: 0 });
  });
});

test("a server that is silent is shown as not answering, in every tab", async () => {
  await withMock({}, async (page, mock, url) => {
    const other = await page.context().newPage();
    await other.goto(`${url}/pools`);
    await live(page);
    await live(other);
    mock.frozen = true;
    for (const tab of [page, other]) {
      await tab.getByText("Not answering", { exact: true }).waitFor({ timeout: RIGHT });
      await tab.getByText(/The server has not answered since \d/).waitFor({ timeout: RIGHT });
    }
    mock.frozen = false;
    for (const tab of [page, other]) await tab.getByText("Live", { exact: true }).waitFor({ timeout: RIGHT });
    expect(await page.getByText("The server has not answered").count()).toBe(0);
  });
});

test("the back button shows the current state, also of a page that the browser kept", async () => {
  await withMock({ path: "/pools" }, async (page, mock, url) => {
    await live(page);
    await page.goto(`${url}/healthz`);
    await expect.poll(() => mock.streams.events).toBe(0);
    mock.state.pools[0]!.name = "renamed";
    // A page that was kept is not loaded again.
    await page.goBack({ waitUntil: "commit" });
    await live(page);
    await page.getByRole("link", { name: "renamed" }).first().waitFor({ timeout: RIGHT });
    await expect.poll(() => mock.streams.events).toBe(1);
    // The same as the browser reports it, whether it keeps pages or not.
    await page.evaluate(() => window.dispatchEvent(new PageTransitionEvent("pagehide", { persisted: true })));
    await expect.poll(() => mock.streams.events).toBe(0);
    mock.state.pools[0]!.name = "again";
    await page.evaluate(() => window.dispatchEvent(new PageTransitionEvent("pageshow", { persisted: true })));
    await page.getByRole("link", { name: "again" }).first().waitFor({ timeout: RIGHT });
    await expect.poll(() => mock.streams.events).toBe(1);
  });
});

test("the end of a session leads to the log-in, and back to the same page, in every tab", async () => {
  await withMock({ loggedIn: false, path: "/pools/tank" }, async (page, mock, url) => {
    const logIn = async () => {
      await page.getByLabel("User").fill("ann");
      await page.getByLabel("Password").fill("correct horse");
      await page.keyboard.press("Enter");
      await page.getByRole("heading", { name: "tank", level: 1 }).waitFor();
    };
    await logIn();
    const other = await page.context().newPage();
    await other.goto(`${url}/pools`);
    await live(other);
    mock.endSessions();
    for (const tab of [page, other]) await tab.getByRole("heading", { name: "Log in" }).waitFor({ timeout: RIGHT });
    await logIn();
    await live(page);
    await other.getByRole("heading", { name: "Pools", level: 1 }).waitFor({ timeout: RIGHT });
    await live(other);
  });
});

test("a slow answer is waited for, although the page asks more often", async () => {
  await withMock({ path: "/clients" }, async (page) => {
    await live(page);
    let asked = 0;
    let waiting = 0;
    await page.route("**/v1/system", async (route) => {
      asked += 1;
      waiting += 1;
      expect(waiting).toBe(1);
      // The page asks every 3 s.
      await new Promise((later) => setTimeout(later, 7000));
      waiting -= 1;
      await route.continue();
    });
    await page.getByRole("link", { name: "System", exact: true }).click();
    await page.getByText("Threads, open files").waitFor({ timeout: 12_000 });
    expect(asked).toBeLessThanOrEqual(2);
    await page.unrouteAll({ behavior: "ignoreErrors" });
  });
});

test("where the shared worker cannot be loaded, each tab has its own stream, while it is visible", async () => {
  await withMock({ path: "/healthz" }, async (page, mock, url) => {
    mock.missing = /hub-worker/;
    await page.goto(`${url}/pools`);
    await live(page);
    await expect.poll(() => mock.streams.events).toBe(1);
    mock.down = true;
    mock.cut();
    await page.getByText("Offline", { exact: true }).waitFor({ timeout: RIGHT });
    mock.down = false;
    await page.getByText("Live", { exact: true }).waitFor({ timeout: RIGHT });
    const hidden = (is: boolean) =>
      page.evaluate((is) => {
        Object.defineProperty(document, "hidden", { value: is, configurable: true });
        document.dispatchEvent(new Event("visibilitychange"));
      }, is);
    await hidden(true);
    await expect.poll(() => mock.streams.events).toBe(0);
    await hidden(false);
    await expect.poll(() => mock.streams.events).toBe(1);
    await live(page);
  });
});
