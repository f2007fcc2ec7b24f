// Tests of the built page in Debian's Chromium: against the mock, and against a real `weir serve`
// if $WEIR names the program.
import { existsSync } from "node:fs";
import { spawnSync } from "node:child_process";

const chromium = process.env.CHROMIUM ?? "/usr/bin/chromium";
if (!existsSync(chromium)) {
  console.log(`skipped: tests of the page in a browser, as there is no ${chromium} (apt-get install chromium)`);
  process.exit(0);
}
if (!existsSync("dist/index.html")) {
  console.error("ui/dist is not built: npm run build");
  process.exit(1);
}
const { status } = spawnSync(
  "npx",
  ["vitest", "run", "--config", "test/e2e/vitest.config.ts", "--root", ".", ...process.argv.slice(2)],
  { stdio: "inherit" },
);
process.exit(status ?? 1);
