//! Analytics on the page: worksheets, heat maps, drilling down, explaining; with mouse and
//! keyboard, against the mock.

import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, expect, test } from "vitest";
import type { Locator, Page } from "playwright-core";
import { HOSTILE } from "../../mock-api/analytics";
import { axe, withMock } from "./browser";

const sheet = (span: string, ...graphs: (string | [string, string])[]) =>
  `/analytics?${new URLSearchParams([
    ["span", span],
    ...graphs.flatMap((graph) =>
      typeof graph === "string"
        ? [
            ["g", graph],
            ["v", ""],
          ]
        : [
            ["g", graph[0]],
            ["v", graph[1]],
          ],
    ),
  ])}`;
const panel = (page: Page, title: string | RegExp) =>
  page.getByRole("region", { name: title, exact: typeof title === "string" });
const area = (of: Locator) => of.getByRole("application");
const drawn = (of: Locator) =>
  expect.poll(() => of.locator("canvas").getAttribute("data-drawn"), { timeout: 25_000 }).not.toBeNull();
const graphs = (page: Page) => new URL(page.url()).searchParams.getAll("g");

/** Number of distinct colours of a canvas, and the share of each. */
const coloursOf = (canvas: Locator) =>
  canvas.evaluate((element: HTMLCanvasElement) => {
    const { data } = element.getContext("2d")!.getImageData(0, 0, element.width, element.height);
    const found: Record<string, number> = {};
    for (let at = 0; at < data.length; at += 4) {
      const name = `${data[at]},${data[at + 1]},${data[at + 2]}`;
      found[name] = (found[name] ?? 0) + 1;
    }
    return found;
  });

describe("a worksheet", { timeout: 90_000 }, () => {
  test("starts empty; statistics are searched and added; its address opens the same worksheet", async () => {
    await withMock({ path: "/analytics" }, async (page, mock) => {
      await page.getByRole("button", { name: "Add statistic" }).click();
      await page.getByLabel("Find statistics").fill("nfsv3 ops latency");
      await page.getByRole("button", { name: "Add NFSv3 operations broken down by latency" }).click();
      await page.getByLabel("Find statistics").fill("cpu mode");
      await page.getByRole("button", { name: "Add CPU: percent utilization broken down by CPU mode" }).click();
      await page.getByRole("button", { name: "Done" }).click();
      const map = panel(page, "NFSv3 operations broken down by latency");
      await drawn(map);
      await drawn(panel(page, "CPU: percent utilization broken down by CPU mode"));
      expect(graphs(page)).toEqual(["nfs3.ops[latency]", "cpu.utilization[mode]"]);
      await map.getByRole("button", { name: /^Archive/ }).click();
      await expect.poll(() => mock.counted.find(({ name }) => name === "nfs3.ops[latency]")?.archived).toBe(true);
      expect(Object.keys(await coloursOf(map.locator("canvas"))).length).toBeGreaterThan(8);
      await map.getByLabel("Palette").selectOption("inferno");
      await map.getByRole("button", { name: "Show 1 hour" }).click();
      await page.reload();
      await drawn(map);
      expect(await map.getByLabel("Palette").inputValue()).toBe("inferno");
      expect(await map.getByRole("button", { name: "Show 1 hour" }).getAttribute("aria-pressed")).toBe("true");
      await map.getByRole("button", { name: "Remove this graph" }).click();
      await expect.poll(() => graphs(page)).toEqual(["cpu.utilization[mode]"]);
      await page.goBack();
      await map.waitFor();
    });
  });

  test("shows its maximum and its minimum, and with Shift the next one", async () => {
    await withMock({ path: sheet("60", "nfs3.ops[op]") }, async (page) => {
      const graph = panel(page, "NFSv3 operations broken down by type of operation");
      await drawn(graph);
      await graph.getByRole("button", { name: "Pause" }).click();
      const rate = async () => Number((await graph.locator(".average strong").innerText()).replace(/[^\d.]/g, ""));
      const press = async (name: RegExp, modifiers: "Shift"[] = []) => {
        await graph.getByRole("button", { name }).click({ modifiers });
        await expect.poll(() => graph.locator(".average .quiet").innerText()).toMatch(/\d:\d\d:\d\d/);
        return rate();
      };
      const average = await rate();
      const [most, next, least] = [
        await press(/^Show the maximum/),
        await press(/^Show the maximum/, ["Shift"]),
        await press(/^Show the minimum/),
      ];
      expect(most).toBeGreaterThanOrEqual(next);
      expect(next).toBeGreaterThanOrEqual(least);
      expect(most >= average && average >= least, `${most} ${average} ${least}`).toBe(true);
    });
  });

  test("shows each second as it arrives, stops when paused, and moves back and to the present", async () => {
    await withMock({ path: sheet("60", "nfs3.ops[latency]") }, async (page) => {
      const map = panel(page, "NFSv3 operations broken down by latency");
      await drawn(map);
      const span = () => map.locator("canvas").getAttribute("data-span");
      const first = await span();
      await expect.poll(span, { timeout: 10_000 }).not.toBe(first);
      await map.getByRole("button", { name: "Pause" }).click();
      await expect.poll(() => new URL(page.url()).searchParams.get("from")).not.toBeNull();
      const { from, to } = Object.fromEntries(new URL(page.url()).searchParams) as { from: string; to: string };
      expect(Number(to) - Number(from)).toBe(60);
      await map.getByRole("button", { name: "Back in time" }).click();
      await expect.poll(() => new URL(page.url()).searchParams.get("to")).toBe(String(Number(to) - 30));
      await map.getByRole("button", { name: "Show 1 hour" }).click({ modifiers: ["Shift"] });
      await expect.poll(() => map.getByText("1 hour", { exact: true }).count()).toBe(1);
      await map.getByRole("button", { name: "Show 1 hour" }).click({ modifiers: ["Shift"] });
      await map.getByText("2 hours", { exact: true }).waitFor();
      await map.getByRole("button", { name: "Forward to now" }).click();
      await expect.poll(() => new URL(page.url()).searchParams.get("span")).toBe("7200");
    });
  });

  test("is saved under a title, opened by its address, changed, cloned, renamed and deleted", async () => {
    await withMock({ path: sheet("300", "nfs3.ops[latency]") }, async (page, mock, url) => {
      await drawn(panel(page, "NFSv3 operations broken down by latency"));
      await page.getByRole("button", { name: "Save", exact: true }).click();
      await page.getByRole("button", { name: "Save", exact: true }).last().click();
      await page.getByText("Give it a title.").waitFor();
      await page.getByLabel("Title").fill("Monday");
      await page.getByRole("dialog").getByRole("button", { name: "Save" }).click();
      await page.getByRole("heading", { name: "Monday", level: 1 }).waitFor();
      expect(mock.worksheets.at(-1)).toMatchObject({
        title: "Monday",
        span: { seconds: 300 },
        graphs: [{ name: "nfs3.ops[latency]" }],
        owner: "ann",
      });
      const id = mock.worksheets.at(-1)!.id;
      await page.goto(`${url}/analytics/worksheets/${id}`);
      await page.getByRole("heading", { name: "Monday" }).waitFor();
      await drawn(panel(page, "NFSv3 operations broken down by latency"));
      await panel(page, "NFSv3 operations broken down by latency").getByLabel("Palette").selectOption("grey");
      await page.getByText("changed, not saved").waitFor();
      await page.getByRole("link", { name: "Saved" }).click();
      await page.getByRole("button", { name: "Clone Monday" }).click();
      await page.getByRole("button", { name: "Rename Monday (copy)" }).click();
      await page.getByRole("textbox", { name: "Title" }).fill("Tuesday");
      await page.getByRole("button", { name: "Rename", exact: true }).click();
      await page.getByRole("link", { name: "Tuesday" }).waitFor();
      await page.getByRole("button", { name: "Delete Monday" }).click();
      await page.getByRole("button", { name: "Delete it" }).click();
      await expect.poll(() => mock.worksheets.map(({ title }) => title)).not.toContain("Monday");
      expect(mock.worksheets.map(({ title }) => title)).toContain("Tuesday");
    });
  });

  test("hatches missing data", async () => {
    const { START } = await import("../../mock-api/data");
    const gap = START + 3 * 86400 + 1130;
    await withMock({ path: `/analytics?from=${gap - 40}&to=${gap + 20}&g=nfs3.ops[latency]&v=` }, async (page) => {
      const map = panel(page, "NFSv3 operations broken down by latency");
      await drawn(map);
      expect((await coloursOf(map.locator("canvas")))["201,209,213"]).toBeGreaterThan(1000);
      await area(map).focus();
      await page.keyboard.press("End");
      await expect
        .poll(() => map.getByRole("status").allTextContents())
        .toEqual(expect.arrayContaining([expect.stringContaining("not recorded")]));
    });
  });
});

describe("drilling down", { timeout: 90_000 }, () => {
  test("by the menu of a value, with a readable title and predicates in the name", async () => {
    await withMock({ path: sheet("60", "nfs3.ops[op]") }, async (page) => {
      const ops = panel(page, "NFSv3 operations broken down by type of operation");
      await drawn(ops);
      await ops.getByRole("option", { name: /^write/ }).click({ button: "right" });
      await page.getByRole("menuitem", { name: "by client" }).click();
      const clients = panel(page, "NFSv3 operations of type write broken down by client");
      await drawn(clients);
      await clients.getByRole("option", { name: /192\.168\.1\.26/ }).click({ button: "right" });
      expect(await page.getByRole("menuitem", { name: "by type of operation" }).count()).toBe(0);
      await page.getByRole("menuitem", { name: /by latency/ }).click();
      await panel(page, "NFSv3 operations of type write for client 192.168.1.26 broken down by latency").waitFor();
      expect(graphs(page)).toEqual([
        "nfs3.ops[op]",
        "nfs3.ops[op=write][client]",
        "nfs3.ops[op=write][client=192.168.1.26][latency]",
      ]);
    });
  });

  test("the scale fits a single selected value; Shift selects more; the list shows the second under the pointer", async () => {
    await withMock({ path: sheet("60", ["nfs3.ops[client]", "kind=line"]) }, async (page) => {
      const clients = panel(page, "NFSv3 operations broken down by client");
      await drawn(clients);
      const top = () => clients.locator(".ys span").last().textContent();
      const before = await top();
      const slow = clients.getByRole("option", { name: /192\.168\.1\.38/ });
      await slow.click();
      await expect.poll(top).not.toBe(before);
      expect(await slow.getAttribute("aria-selected")).toBe("true");
      await clients.getByText(/^Chosen: /).waitFor();
      await clients.getByRole("option", { name: /192\.168\.1\.20/ }).click({ modifiers: ["Shift"] });
      await expect
        .poll(() => new URLSearchParams(new URL(page.url()).searchParams.get("v")!).getAll("s"))
        .toEqual(["192.168.1.38", "192.168.1.20"]);
      await area(clients).click({ position: { x: 200, y: 60 } });
      await clients.getByText(/^At \d\d:\d\d:\d\d/).waitFor();
    });
  });

  test("by keyboard only: list, menu, cursor on the map, rectangle, explanation", async () => {
    await withMock({ path: sheet("60", "nfs3.ops[latency]") }, async (page) => {
      const map = panel(page, "NFSv3 operations broken down by latency");
      await drawn(map);
      await area(map).focus();
      await page.keyboard.press("ArrowLeft");
      await expect
        .poll(() => map.getByRole("status").allTextContents())
        .toEqual(expect.arrayContaining([expect.stringMatching(/range: .*count: .*of the column: .*accumulated: /)]));
      await page.keyboard.press("Enter");
      await page.keyboard.press("Shift+ArrowLeft");
      await page.keyboard.press("Shift+ArrowUp");
      await page.keyboard.press("Enter");
      const found = page.getByRole("region", { name: /What is special/ });
      await found.getByRole("button", { name: "192.168.1.38" }).waitFor();
      expect(
        (await found.getByText("612", { exact: false }).count()) + (await found.getByText("611 µs").count()),
      ).toBeGreaterThan(0);
      await found.getByRole("button", { name: "192.168.1.38" }).focus();
      await page.keyboard.press("Enter");
      const one = panel(page, "NFSv3 operations for client 192.168.1.38 broken down by latency");
      await drawn(one);
      await area(one).focus();
      await page.keyboard.press("d");
      await page.getByRole("menu").waitFor();
      await page.keyboard.type("fi");
      await page.keyboard.press("Enter");
      await panel(page, /for client 192\.168\.1\.38.* broken down by file name/).waitFor();
    });
  });

  test("a rectangle drawn on a heat map is explained, and each value narrows down", async () => {
    await withMock({ path: sheet("60", ["nfs3.ops[latency]", "outliers=none"]) }, async (page) => {
      const map = panel(page, "NFSv3 operations broken down by latency");
      await drawn(map);
      const bounds = (await area(map).boundingBox())!;
      await page.mouse.move(bounds.x + 40, bounds.y + 10);
      await page.mouse.down();
      await page.mouse.move(bounds.x + 260, bounds.y + 50, { steps: 4 });
      await page.mouse.up();
      const found = page.getByRole("region", { name: /What is special/ });
      await found.getByText("intent log").waitFor();
      await found.getByRole("button", { name: /<img src=x/ }).click();
      await expect.poll(() => graphs(page)[1]).toBe(`nfs3.ops[file=${HOSTILE[0]!.replace(/\]/g, "\\]")}][latency]`);
      await found.getByRole("button", { name: "Zoom to this range" }).click();
      await expect
        .poll(() => new URLSearchParams(new URL(page.url()).searchParams.get("v")!).get("band"))
        .not.toBeNull();
    });
  });
});

test("an alert is created, suspended and deleted", async () => {
  await withMock({ path: "/analytics/alerts" }, async (page, mock) => {
    await page.getByText("built in").first().waitFor();
    const own = () => mock.alerts.filter(({ builtin }) => !builtin);
    await page.getByRole("button", { name: "New alert" }).click();
    const dialog = page.getByRole("dialog", { name: "New alert" });
    await dialog.getByLabel("Statistic").fill("!");
    await dialog.getByLabel("Limit").fill("20");
    await dialog.getByRole("button", { name: "Watch it" }).click();
    await dialog.getByRole("alert").getByText("Unknown statistic '!'.").waitFor();
    await dialog.getByLabel("Limit").fill("20ms");
    await dialog.getByLabel("Statistic").fill("nfs3.ops[op=read][latency]");
    await dialog.getByLabel("Compare").selectOption("percentile");
    await dialog.getByLabel("Webhooks").fill("https://chat.example/hook");
    expect(await axe(page)).toEqual([]);
    await dialog.getByRole("button", { name: "Watch it" }).click();
    await page.getByText("p99 above 20 ms for 60 s").waitFor();
    expect(own().map(({ rule }) => [rule.limit, rule.percentile, rule.actions])).toEqual([
      [20_000_000, 99, [{ kind: "webhook", url: "https://chat.example/hook" }]],
    ]);
    await page.getByRole("button", { name: /^Suspend nfs3/ }).click();
    await page.getByText("suspended", { exact: true }).waitFor();
    expect(await axe(page)).toEqual([]);
    await page.getByRole("button", { name: /^Delete nfs3/ }).click();
    await page.getByRole("button", { name: "Delete it" }).click();
    await expect.poll(() => own()).toEqual([]);
  });
}, 90_000);

test("a worksheet is embedded in another page with a token, and shows nothing without one", async () => {
  await withMock({ path: sheet("60", "nfs3.ops[latency]") }, async (page, mock) => {
    await page.getByRole("button", { name: "Embed" }).click();
    await page.getByRole("button", { name: "Create a token for it" }).click();
    const text = page.getByLabel("HTML to insert");
    await expect.poll(() => text.inputValue()).toContain("#token=weir_3nJxq9mock");
    expect(mock.state.tokens.at(-1)?.statistics).toEqual(["nfs3.ops[latency]"]);
    expect(await text.inputValue()).toMatch(
      /^<iframe src="http:\/\/127\.0\.0\.1:\d+\/embed\/analytics\?span=60&amp;g=nfs3/,
    );
  });
  await withMock({ loggedIn: false }, async (page, mock, url) => {
    mock.state.tokens.push({
      id: 99,
      name: "wall",
      user: "root",
      role: "viewer",
      created: 0,
      statistics: ["nfs3.ops[latency]"],
    });
    const address = `${url}/embed${sheet("60", "nfs3.ops[latency]")}`;
    const other = createServer(
      (_request, response) =>
        void response
          .writeHead(200, { "Content-Type": "text/html" })
          .end(
            `<!doctype html><title>other</title><iframe width="900" height="600" src="${address.replaceAll("&", "&amp;")}#token=weir_3nJxq9mock"></iframe>`,
          ),
    );
    await new Promise<void>((done) => other.listen(0, "127.0.0.1", done));
    await page.goto(`http://127.0.0.1:${(other.address() as AddressInfo).port}/`);
    const frame = page.frameLocator("iframe");
    await expect.poll(() => frame.locator("canvas").getAttribute("data-drawn"), { timeout: 25_000 }).not.toBeNull();
    const span = () => frame.locator("canvas").getAttribute("data-span");
    const first = await span();
    await expect.poll(span, { timeout: 15_000 }).not.toBe(first);
    expect(await frame.getByRole("button", { name: /Archive|Remove/ }).count()).toBe(0);
    other.close();
    await page.goto(address);
    await page.getByText("This address needs a token").waitFor();
    expect(await axe(page)).toEqual([]);
  });
}, 90_000);

test("file names of clients execute nothing, and invisible characters are shown by their code points", async () => {
  const paths = [
    sheet("60", ["nfs3.ops[file]", "tree=1&table=1"], `nfs3.ops[file=${HOSTILE[0]!.replace(/\]/g, "\\]")}][latency]`),
    "/analytics/datasets",
  ];
  for (const path of paths)
    await withMock({ path }, async (page, mock) => {
      await page.getByText("Live", { exact: true }).waitFor();
      if (path === "/analytics/datasets") {
        const { counted } = await import("../../mock-api/analytics");
        mock.counted.push(
          ...HOSTILE.map((name, nth) =>
            counted(`nfs3.ops[file=${name.replace(/[\]\\]/g, "\\$&")}][latency]`, 90 + nth, false),
          ),
        );
        await page.reload();
      }
      await expect
        .poll(() => page.getByText("⟨U+202E⟩", { exact: false }).count(), { timeout: 15_000 })
        .toBeGreaterThan(0);
      await expect.poll(() => page.getByText("⟨U+000A⟩", { exact: false }).count()).toBeGreaterThan(0);
      await expect.poll(() => page.getByText("<img src=x onerror", { exact: false }).count()).toBeGreaterThan(0);
      expect(await page.locator("img").count()).toBe(0);
      expect(await page.title()).not.toContain("owned");
      const seen = await page.evaluate(() => document.body.innerText);
      // eslint-disable-next-line no-control-regex
      expect(seen).not.toMatch(/[\u202a-\u202e\u2066-\u2069\u200b\u0007\u001b]/);
    });
});

test("the view is exported as displayed, and as drawn and written by the server", async () => {
  await withMock(
    { path: sheet("60", ["nfs3.ops[latency]", "palette=inferno&scale=log&band=1000-2000000"]) },
    async (page) => {
      const map = panel(page, "NFSv3 operations broken down by latency");
      await drawn(map);
      await map.getByRole("button", { name: "Pause" }).click();
      await expect.poll(() => new URL(page.url()).searchParams.get("from")).not.toBeNull();
      await map.getByRole("button", { name: "Export" }).click();
      const parameters = new URL((await page.getByRole("menuitem", { name: /SVG/ }).getAttribute("href"))!, page.url())
        .searchParams;
      expect(Object.fromEntries(parameters)).toMatchObject({
        name: "nfs3.ops[latency]",
        format: "svg",
        palette: "inferno",
        scale: "log",
        low: "1000",
        high: "2000000",
        rows: "100",
        theme: "light",
        from: new URL(page.url()).searchParams.get("from"),
      });
      expect(await page.getByRole("menuitem", { name: /CSV/ }).getAttribute("href")).toContain("/v1/analytics/export?");
      expect(await axe(page)).toEqual([]);
      const [download] = await Promise.all([
        page.waitForEvent("download"),
        page.getByRole("menuitem", { name: /as seen/ }).click(),
      ]);
      expect(download.suggestedFilename()).toMatch(/^nfs3\.ops_latency_-\d+\.png$/);
    },
  );
}, 60_000);

test("counted statistics are suspended, archived, pruned, destroyed and sorted", async () => {
  await withMock({ path: "/analytics/datasets" }, async (page, mock) => {
    await page.getByRole("button", { name: "Suspend nfs3.ops[op]" }).click();
    await expect.poll(() => mock.counted.find(({ name }) => name === "nfs3.ops[op]")?.suspended).toBe(true);
    await page.getByRole("button", { name: "Resume nfs3.ops[op]" }).click();
    await expect.poll(() => mock.counted.find(({ name }) => name === "nfs3.ops[op]")?.suspended).toBe(false);
    await page.getByRole("button", { name: "On disk" }).click();
    expect(await page.getByRole("row").nth(1).textContent()).toContain("arc.accesses[hit/miss]");
    await page.getByRole("button", { name: "Destroy arc.size" }).click();
    await page.getByRole("button", { name: "Destroy it" }).click();
    await expect.poll(() => mock.counted.some(({ name }) => name === "arc.size")).toBe(false);
  });
});

test("axe finds nothing in any view", async () => {
  const all: [string, string][] = [
    ["io.disks[utilization]", "palette=grey&table=1"],
    ["nfs3.ops[client]", "kind=line"],
    ["nfs3.ops[file]", "tree=1"],
  ];
  for (const [colorScheme, width] of [
    ["light", 1280],
    ["dark", 390],
  ] as const)
    await withMock({ path: sheet("120", ...all), colorScheme, width }, async (page) => {
      await drawn(panel(page, "NFSv3 operations broken down by file name"));
      await drawn(panel(page, "Disks broken down by percent utilization"));
      expect(await axe(page)).toEqual([]);
      expect(await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)).toBeLessThanOrEqual(0);
      await panel(page, "NFSv3 operations broken down by client")
        .getByRole("option")
        .first()
        .click({ button: "right" });
      await page.getByRole("menu").waitFor();
      expect(await axe(page)).toEqual([]);
      await page.keyboard.press("Escape");
      await page.getByRole("button", { name: "Add statistic" }).click();
      await page.getByLabel("Find statistics").fill("latency");
      expect(await axe(page)).toEqual([]);
    });
}, 180_000);
