// Rules that find faults. Layout is prettier's, types and accessibility of the markup are
// svelte-check's.
import js from "@eslint/js";
import svelte from "eslint-plugin-svelte";
import globals from "globals";
import ts from "typescript-eslint";
import svelteConfig from "./svelte.config.js";

const typed = {
  projectService: { allowDefaultProject: ["*.js", "scripts/*.mjs", "test/e2e/run.mjs", "public/*.js"] },
  tsconfigRootDir: import.meta.dirname,
};

export default ts.config(
  { ignores: ["dist/", "test/pictures/", "app/api/openapi.d.ts"] },
  js.configs.recommended,
  ts.configs.recommendedTypeChecked,
  svelte.configs.recommended,
  {
    languageOptions: { globals: { ...globals.browser, ...globals.node }, parserOptions: typed },
    linterOptions: { reportUnusedDisableDirectives: "error" },
  },
  {
    files: ["**/*.svelte", "**/*.svelte.ts"],
    languageOptions: {
      parserOptions: { ...typed, parser: ts.parser, extraFileExtensions: [".svelte"], svelteConfig },
    },
  },
);
