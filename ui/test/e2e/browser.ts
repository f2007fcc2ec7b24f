//! One Chromium per test file; each test has a fresh page and, unless it specifies another, a fresh
//! mock.

import { afterAll, beforeAll, expect } from "vitest";
import { chromium, type Browser, type Page } from "playwright-core";
import { createRequire } from "node:module";
import { Mock, type Options } from "../../mock-api/server";

/** The page shows the state of the server within this time, in ms. */
export const RIGHT = 5000;

let browser: Browser;
beforeAll(async () => {
  // A sandbox requires user namespaces, which containers often lack; only our own page is opened
  // here.
  browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-dev-shm-usage"],
    // Pages are kept for the back button, as they are for users.
    ignoreDefaultArgs: ["--disable-back-forward-cache"],
  });
});
afterAll(() => browser?.close());

export interface View {
  width?: number;
  height?: number;
  colorScheme?: "light" | "dark";
}

export async function open(
  url: string,
  view: View = {},
): Promise<{ page: Page; complaints: string[]; close: () => Promise<void> }> {
  const context = await browser.newContext({
    viewport: { width: view.width ?? 1280, height: view.height ?? 800 },
    colorScheme: view.colorScheme ?? "light",
    reducedMotion: "reduce",
  });
  const page = await context.newPage();
  page.setDefaultTimeout(10_000);
  const complaints: string[] = [];
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("console", (message) => {
    // The browser logs each answer that is not a success; some tests cause those.
    if (message.type() === "error" && !/Failed to load resource|net::ERR/.test(message.text()))
      complaints.push(message.text());
  });
  await page.goto(url);
  return { page, complaints, close: () => context.close() };
}

/** Runs `test` with a page connected to a mock, and expects that the page threw nothing and violated no policy. */
export async function withMock(
  options: Options & View & { path?: string },
  test: (page: Page, mock: Mock, url: string) => Promise<void>,
): Promise<void> {
  const mock = new Mock({ loggedIn: true, ...options });
  const { server, url } = await mock.listen("dist");
  const { page, complaints, close } = await open(url + (options.path ?? "/"), options);
  try {
    await test(page, mock, url);
    expect(complaints).toEqual([]);
  } finally {
    await close();
    mock.close();
    mock.cut();
    server.close();
  }
}

const axeFile = createRequire(import.meta.url).resolve("axe-core/axe.min.js");

/** Violations that axe finds against WCAG 2.1 AA and best practices, one per line. */
export async function axe(page: Page): Promise<string[]> {
  // evaluate, since the page's policy allows no script element.
  const source = await import("node:fs/promises").then((fs) => fs.readFile(axeFile, "utf8"));
  await page.evaluate(source);
  return page.evaluate(async () => {
    const run = (
      globalThis as unknown as {
        axe: {
          run: (
            node: Document,
            options: object,
          ) => Promise<{
            violations: { id: string; help: string; nodes: { target: unknown[]; failureSummary?: string }[] }[];
          }>;
        };
      }
    ).axe.run;
    const { violations } = await run(document, {
      runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"],
    });
    return violations.flatMap((violation) =>
      violation.nodes
        .slice(0, 3)
        .map((node) => `${violation.id}: ${violation.help}: ${node.target.join(" ")}: ${node.failureSummary ?? ""}`),
    );
  });
}
