//! The page's connection to the real daemon: stopped, resumed, and restarted. $WEIR names the
//! program; without it, the tests are skipped.

import { afterAll, beforeAll, expect, test } from "vitest";
import { open, RIGHT } from "./browser";
import { Daemon, program } from "./daemon";

const daemon = program ? new Daemon() : null;
const DOWN_MS = 30_000;

beforeAll(async () => {
  await daemon?.prepare();
  await daemon?.start();
});
afterAll(async () => {
  daemon?.signal("SIGCONT");
  await daemon?.stop();
  daemon?.remove();
});

test.skipIf(!program)(
  "a stopped daemon, and one that is down for 30 s, are shown within 5 s, as is their return",
  async () => {
    const { page, complaints, close } = await open(daemon!.link());
    const state = (text: string) => page.getByText(text, { exact: true }).waitFor({ timeout: RIGHT });
    await page.getByLabel("Password", { exact: true }).fill("long enough for this");
    await page.getByLabel("Password again").fill("long enough for this");
    await page.getByRole("button", { name: "Create and log in" }).click();
    await state("Live");
    // Nothing happens in this time: only keep-alive messages show that the daemon answers.
    for (let look = 0; look < 8; look += 1) {
      await page.waitForTimeout(1000);
      await state("Live");
    }
    expect(await page.getByText("has not answered").count()).toBe(0);

    daemon!.signal("SIGSTOP");
    await state("Not answering");
    await page.getByText(/The server has not answered since \d/).waitFor();
    daemon!.signal("SIGCONT");
    await state("Live");

    await daemon!.stop();
    await state("Offline");
    await page.waitForTimeout(DOWN_MS);
    await state("Offline");
    await daemon!.start();
    // The daemon decides whether a session survives a restart.
    const back = page.getByText("Live", { exact: true }).or(page.getByRole("heading", { name: "Log in" }));
    await back.waitFor({ timeout: RIGHT });
    if (await page.getByRole("heading", { name: "Log in" }).isVisible()) {
      await page.getByLabel("User").fill("admin");
      await page.getByLabel("Password").fill("long enough for this");
      await page.keyboard.press("Enter");
      await state("Live");
    }
    expect(complaints).toEqual([]);
    await close();
  },
  120_000,
);
