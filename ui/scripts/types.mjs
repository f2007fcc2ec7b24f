// Generates app/api/openapi.d.ts from the daemon's openapi.json, before anything that needs it. It
// is not checked in.
import { readFile, writeFile } from "node:fs/promises";
import openapiTS, { astToString } from "openapi-typescript";

const source = new URL(process.env.WEIR_OPENAPI ?? "../../appliance/api/openapi.json", import.meta.url);
const target = new URL("../app/api/openapi.d.ts", import.meta.url);
const head = "// Made by `npm run types` from appliance/api/openapi.json. Change that, not this.\n\n";

const made =
  head +
  astToString(await openapiTS(source, { alphabetize: false, defaultNonNullable: false, emptyObjectsUnknown: true }));
const there = await readFile(target, "utf8").catch(() => "");
// Only written if it has changed, so that nothing is rebuilt unnecessarily.
if (made !== there) await writeFile(target, made);
