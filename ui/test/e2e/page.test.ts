//! The main tasks, in a browser, against the mock.

import { describe, expect, test } from "vitest";
import { RIGHT, withMock } from "./browser";

describe("permissions", () => {
  test("a wrong password is an error, a correct one logs in, logging out ends the session", async () => {
    await withMock({ loggedIn: false, path: "/pools/tank" }, async (page) => {
      await page.getByLabel("User").fill("ann");
      await page.getByLabel("Password").fill("wrong");
      await page.keyboard.press("Enter");
      await page.getByRole("alert").getByText("Wrong user or password.").waitFor();
      await page.getByLabel("Password").fill("correct horse");
      await page.keyboard.press("Enter");
      await page.getByRole("heading", { name: "tank" }).waitFor();
      await page.getByRole("button", { name: "Log out" }).click();
      await page.getByRole("heading", { name: "Log in" }).waitFor();
    });
  });
  test("the first-start link makes the first administrator, once", async () => {
    await withMock(
      { loggedIn: false, setup: true, path: "/setup#token=first-start-token" },
      async (page, mock, url) => {
        await page.getByLabel("Password", { exact: true }).fill("short");
        await page.getByRole("button", { name: "Create and log in" }).click();
        await page.getByText("At least 10 characters.", { exact: true }).waitFor();
        await page.getByLabel("Password", { exact: true }).fill("long enough for this");
        await page.getByLabel("Password again").fill("long enough for this");
        await page.getByRole("button", { name: "Create and log in" }).click();
        await page.getByText("Live", { exact: true }).waitFor();
        expect(mock.state.users.map((user) => [user.name, user.role])).toEqual([["admin", "administrator"]]);
        await page.context().clearCookies();
        await page.goto(`${url}/setup#token=first-start-token`);
        await page.getByRole("heading", { name: "This link has been used" }).waitFor();
      },
    );
  });
  test("a viewer sees everything, and each disabled button gives its reason", async () => {
    await withMock({ loggedIn: false, path: "/pools/tank" }, async (page, mock) => {
      await page.getByLabel("User").fill("eve");
      await page.getByLabel("Password").fill("only looking");
      await page.keyboard.press("Enter");
      const verify = page.getByRole("button", { name: "Verify" });
      await verify.click({ force: true });
      expect(await verify.getAttribute("aria-disabled")).toBe("true");
      expect(await verify.getAttribute("title")).toBe("This requires the role operator; eve is viewer.");
      expect(mock.state.jobs).toHaveLength(1);
    });
  });
});

describe("datasets", () => {
  test("one is created, changed, shared and, after typing its name, destroyed", async () => {
    await withMock({ path: "/datasets/tank/home" }, async (page, mock) => {
      await page.getByRole("button", { name: "Create below" }).click();
      await page.getByLabel("Name", { exact: true }).fill("zoe");
      await page.getByLabel("Quota").fill("20G");
      await page.getByRole("button", { name: "Create tank/home/zoe" }).click();
      await page.getByRole("heading", { name: "tank/home/zoe" }).waitFor();
      await page.getByRole("treegrid", { name: "Datasets" }).getByRole("row", { name: /zoe/ }).waitFor();
      expect(mock.state.local.get("tank/home/zoe")?.get("quota")).toBe(String(20 * 1024 ** 3));

      await page.getByRole("link", { name: "Properties" }).click();
      await page.getByRole("button", { name: "Change compression" }).click();
      await page.getByLabel("Value").selectOption("gzip");
      await page.getByRole("button", { name: "Set", exact: true }).click();
      await page.getByRole("row", { name: /compression gzip set here/ }).waitFor();
      await page.getByRole("button", { name: "Change compression" }).click();
      await page.getByRole("button", { name: "Inherit", exact: true }).click();
      await page.getByRole("row", { name: /compression zstd from tank/ }).waitFor();

      await page.getByRole("button", { name: "Change share", exact: true }).click();
      await page.getByLabel("Host or network 1").fill("10.1.0.0/16");
      await page.getByLabel("What 10.1.0.0/16 may do").selectOption("only read");
      await page.getByRole("button", { name: "Remove backup.example" }).click();
      await page.getByRole("button", { name: "Share", exact: true }).click();
      await expect.poll(() => mock.state.local.get("tank/home/zoe")?.get("sharenfs")).toBe("ro=@10.1.0.0/16");

      await page.getByRole("button", { name: "Destroy" }).click();
      const destroy = page.getByRole("button", { name: "Destroy it" });
      await page.getByLabel(/To confirm, type the name/).fill("tank/home/zo");
      await page.keyboard.press("Enter");
      expect(await destroy.getAttribute("aria-disabled")).toBe("true");
      expect(mock.state.datasets.some((dataset) => dataset.name === "tank/home/zoe")).toBe(true);
      await page.getByLabel(/To confirm, type the name/).fill("tank/home/zoe");
      await destroy.click();
      await expect.poll(() => mock.state.datasets.some((dataset) => dataset.name === "tank/home/zoe")).toBe(false);
      await page.getByRole("heading", { name: "tank/home", exact: true }).waitFor();
    });
  });
  test("the dialog shows the server's error unchanged", async () => {
    await withMock({ path: "/datasets/tank?do=create" }, async (page) => {
      await page.getByLabel("Name", { exact: true }).fill("home");
      await page.keyboard.press("Enter");
      await page.getByRole("alert").getByText("cannot create 'tank/home': dataset already exists").waitFor();
    });
  });
  test("the tree shows snapshots on request, and the address contains this", async () => {
    await withMock({ path: "/datasets" }, async (page) => {
      await page.getByLabel("Snapshots").check();
      await page.getByRole("row", { name: /@monday/ }).waitFor();
      expect(new URL(page.url()).search).toBe("?snapshots=1");
      await page.reload();
      await page.getByRole("row", { name: /@monday/ }).click();
      await page.getByRole("heading", { name: "tank/home@monday" }).waitFor();
    });
  });
  test("100,000 of them: few rows are drawn, End jumps to the last, and search keeps up with typing", async () => {
    await withMock({ path: "/datasets", many: 100_000 }, async (page) => {
      await page.getByText("100,015 of 100,015 shown").waitFor({ timeout: 25_000 });
      const drawn = () => page.getByRole("treegrid", { name: "Datasets" }).getByRole("row").count();
      expect(await drawn()).toBeLessThan(100);
      await page.getByRole("treegrid", { name: "Datasets" }).focus();
      await page.keyboard.press("End");
      await page
        .getByRole("row", { name: /photos|host099999/ })
        .first()
        .waitFor();
      expect(await drawn()).toBeLessThan(100);
      await page.getByLabel("Find datasets by name").fill("host054321");
      await page.getByRole("row", { name: /host054321/ }).waitFor();
      await page.getByText("3 of 100,015 shown").waitFor();
    });
  });
  test("hostile names are text", async () => {
    const name = 'tank/<img src=x onerror="window.owned=1">';
    await withMock({ path: "/" }, async (page, mock, url) => {
      mock.state.datasets.push({ ...mock.state.datasets[0]!, name, children: 0 });
      mock.happen("dataset", "info", `${name} <script>window.owned=1</script>`, name);
      for (const path of ["/datasets", `/datasets/${encodeURIComponent(name)}`, "/events", "/"]) {
        await page.goto(url + path);
        await page.getByText("<img src=x").first().waitFor();
      }
      expect(await page.evaluate(() => "owned" in window)).toBe(false);
    });
  });
});

describe("pools", () => {
  test("problems come first: which pool, why, and what to do", async () => {
    await withMock({}, async (page) => {
      const health = page.getByRole("region", { name: "Health" });
      await health.getByText("1 serious problem, 1 thing needs attention").waitFor();
      await health.getByText(/has no redundancy left/).waitFor();
      await health.getByRole("link", { name: /^archive: / }).click();
      const row = page.getByRole("row", { name: /WCC7K0BBBBBB/ });
      await row.getByText("UNAVAIL").waitFor();
      expect(await row.textContent()).toMatch(/47/);
    });
  });
  test("verifying shows its progress and its findings", async () => {
    await withMock({ path: "/pools/tank", quick: true }, async (page) => {
      await page.getByRole("button", { name: "Verify" }).click();
      await page.getByRole("progressbar", { name: "verify tank" }).waitFor();
      await page
        .getByRole("link", { name: /Jobs\s*1/ })
        .first()
        .click();
      await page.getByRole("link", { name: "Verify tank" }).first().click();
      await page.getByText("Clean: all data is readable and consistent.").waitFor();
    });
  });
  test("one is created from image files, and destroyed after typing its name", async () => {
    await withMock({ path: "/pools" }, async (page, mock) => {
      await page.getByRole("button", { name: "Create a pool" }).click();
      await page.getByLabel("Name").fill("scratch");
      await page.getByLabel("Devices or image files").fill("/srv/a\n/srv/b\nc");
      await page.getByRole("button", { name: "Create the pool" }).click();
      await page.getByText("c is not an absolute path.").waitFor();
      await page.getByLabel("Devices or image files").fill("/srv/a\n/srv/b\n/srv/c");
      await page.getByLabel("Create missing image files").check();
      await page.getByText("Any one device may fail. 67% of the space holds data.").waitFor();
      await page.getByRole("button", { name: "Create the pool" }).click();
      await page.getByRole("row", { name: "/srv/c" }).waitFor();
      await page.getByRole("button", { name: "Destroy" }).click();
      await page.getByLabel(/To confirm, type the name/).fill("scratch");
      await page.getByRole("button", { name: "Destroy the pool" }).click();
      await expect.poll(() => mock.state.pools.map((pool) => pool.name)).toEqual(["tank", "archive"]);
    });
  });
});

test("clients show their rates as they change", async () => {
  await withMock({ path: "/clients", beat: 300 }, async (page) => {
    const row = page.getByRole("row", { name: /192\.168\.1\.20/ });
    const first = await row.textContent();
    await expect.poll(() => row.textContent()).not.toBe(first);
  });
});

test("when the server stops the page reports it and keeps its contents; when it is back, the page resumes", async () => {
  await withMock({}, async (page, mock) => {
    await page.getByText("Live", { exact: true }).waitFor();
    mock.down = true;
    mock.cut();
    await page.getByText("The server cannot be reached.").waitFor({ timeout: RIGHT });
    await page.getByText("Offline", { exact: true }).waitFor();
    await page.getByRole("link", { name: "tank", exact: true }).first().waitFor();
    mock.down = false;
    await page.getByText("Live", { exact: true }).waitFor({ timeout: RIGHT });
    expect(await page.getByText("The server cannot be reached.").count()).toBe(0);
  });
});
