//! The verdict on the overview, in the menu and in the title of the page, and the alerts behind it.

import { expect, test } from "vitest";
import { axe, withMock } from "./browser";

for (const theme of ["light", "dark"] as const)
  test(`the verdict has its reasons, in words and shapes, and each leads to its page (${theme})`, async () => {
    await withMock({ colorScheme: theme }, async (page, mock) => {
      const health = page.getByRole("region", { name: "Health" });
      await health.getByText("1 serious problem, 1 thing needs attention").waitFor();
      await health.getByText("serious", { exact: true }).waitFor();
      await page.getByRole("link", { name: /^Overview 2 reasons for concern, serious$/ }).waitFor();
      await expect.poll(() => page.title()).toMatch(/^\(2\) Overview · /);
      expect(await axe(page)).toEqual([]);

      // A pool becomes full: the page is notified.
      const tank = mock.state.pools.find(({ name }) => name === "tank")!;
      [tank.used_bytes, tank.available_bytes] = [85, 15];
      mock.changedPools();
      await health.getByText("1 serious problem, 2 things need attention").waitFor();
      await health.getByText(/85 % of the usable space is used/).waitFor();
      await expect.poll(() => page.title()).toMatch(/^\(3\) Overview · /);
      expect(await axe(page)).toEqual([]);
      await health.getByRole("link", { name: "tank", exact: true }).click();
      await page.getByRole("heading", { name: "tank" }).waitFor();
      await expect.poll(() => page.title()).toMatch(/^\(3\) tank · Pools · /);
    });
  });

test("without reasons the verdict is good, and neither menu nor title have a number", async () => {
  await withMock({}, async (page, mock) => {
    const health = page.getByRole("region", { name: "Health" });
    await health.getByText("1 serious problem, 1 thing needs attention").waitFor();
    mock.state.pools = mock.state.pools.filter(({ name }) => name === "tank");
    mock.changedPools();
    await health.getByText("Good", { exact: true }).waitFor();
    await page.getByRole("link", { name: "Overview", exact: true }).first().waitFor();
    await expect.poll(() => page.title()).toMatch(/^Overview · /);
  });
});

test("a built-in alert is changed, silenced and suspended, and cannot be deleted", async () => {
  await withMock({ path: "/analytics/alerts" }, async (page, mock) => {
    const title = "A pool is more than 80 % full";
    const row = page.getByRole("row", { name: new RegExp(title) });
    await row.getByText("largest above 80 % for 60 s").waitFor();
    await page.getByRole("button", { name: `Change ${title}` }).click();
    const dialog = page.getByRole("dialog", { name: "Change an alert" });
    expect(await dialog.getByLabel("Statistic").getAttribute("readonly")).not.toBeNull();
    await dialog.getByLabel("Limit (percent)").fill("75 %");
    await dialog.getByLabel("Mail").fill("ann@example.org");
    expect(await axe(page)).toEqual([]);
    await dialog.getByRole("button", { name: "Save" }).click();
    await row.getByText("largest above 75 % for 60 s").waitFor();
    const alert = () => mock.alerts.find(({ builtin }) => builtin === "space")!;
    expect(alert().rule.actions).toEqual([{ kind: "mail", to: ["ann@example.org"] }]);

    await page.getByRole("button", { name: `Silence ${title}` }).click();
    await page.getByLabel("Silence it for").selectOption("1 day");
    expect(await axe(page)).toEqual([]);
    await page.getByRole("button", { name: "Silence it" }).click();
    await row.getByText(/silenced until/).waitFor();
    expect(alert().rule.silent_until! * 1000 - Date.now()).toBeGreaterThan(23 * 3_600_000);
    await page.getByRole("button", { name: `End the silence of ${title}` }).click();
    await expect.poll(() => alert().rule.silent_until).toBeUndefined();

    const destroy = page.getByRole("button", { name: `Delete ${title}` });
    expect(await destroy.getAttribute("aria-disabled")).toBe("true");
    expect(await destroy.getAttribute("title")).toBe("A built-in alert cannot be deleted: suspend it.");
  });
}, 90_000);

test("a statistic is picked from the list, and a graph offers an alert on its statistic", async () => {
  await withMock({ path: "/analytics?span=60&g=nfs3.ops%5Blatency%5D" }, async (page, mock) => {
    await page.getByRole("button", { name: "Alert on this graph" }).click();
    const dialog = page.getByRole("dialog", { name: "New alert" });
    expect(await dialog.getByLabel("Statistic").inputValue()).toBe("nfs3.ops[latency]");
    await dialog.getByLabel("Limit (ops/s)").waitFor();
    await dialog.getByLabel("Compare").selectOption("percentile");
    await dialog.getByLabel("Limit (ns)").fill("20ms");

    await dialog.getByRole("button", { name: "Choose a statistic" }).click();
    const list = page.getByRole("dialog", { name: "Choose a statistic" });
    await list.getByLabel("Find statistics").fill("usable");
    await list.getByRole("button", { name: /broken down by pool/ }).click();
    expect(await dialog.getByLabel("Statistic").inputValue()).toBe("cap.percentfull[pool]");
    await dialog.getByLabel("Compare").selectOption("largest");
    await dialog.getByLabel("Limit (percent)").fill("70");
    expect(await axe(page)).toEqual([]);
    await dialog.getByRole("button", { name: "Watch it" }).click();
    await expect.poll(() => mock.alerts.at(-1)!.rule.statistic).toBe("cap.percentfull[pool]");
    expect(mock.alerts.at(-1)!.rule).toMatchObject({ reduction: "largest", limit: 70, side: "above" });
  });
}, 90_000);
