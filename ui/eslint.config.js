// Rules that find faults. Layout is prettier's; types and accessibility of the markup are
// svelte-check's.
import js from "@eslint/js";
import svelte from "eslint-plugin-svelte";
import { defineConfig } from "eslint/config";
import globals from "globals";
import ts from "typescript-eslint";
import svelteConfig from "./svelte.config.js";

const typed = {
  projectService: { allowDefaultProject: ["*.js", "scripts/*.mjs", "test/e2e/run.mjs", "public/*.js"] },
  tsconfigRootDir: import.meta.dirname,
};

export default defineConfig(
  { ignores: ["dist/", "test/pictures/", "app/api/openapi.d.ts"] },
  js.configs.recommended,
  ts.configs.recommendedTypeChecked,
  svelte.configs.recommended,
  {
    languageOptions: { globals: { ...globals.browser, ...globals.node }, parserOptions: typed },
    linterOptions: { reportUnusedDisableDirectives: "error" },
    rules: {
      "array-callback-return": "error",
      eqeqeq: ["error", "always", { null: "ignore" }],
      "no-self-compare": "error",
      "no-template-curly-in-string": "error",
      "no-unmodified-loop-condition": "error",
      "@typescript-eslint/switch-exhaustiveness-check": ["error", { considerDefaultExhaustiveForUnions: true }],
      "@typescript-eslint/use-unknown-in-catch-callback-variable": "error",
      // Names that begin with _ are unused on purpose.
      "@typescript-eslint/no-unused-vars": ["error", { argsIgnorePattern: "^_", varsIgnorePattern: "^_" }],
      // It also reports collections that no markup reads, which most are.
      "svelte/prefer-svelte-reactivity": "off",
      "svelte/button-has-type": "error",
      "svelte/no-target-blank": "error",
    },
  },
  {
    files: ["**/*.svelte", "**/*.svelte.ts"],
    languageOptions: {
      parserOptions: { ...typed, parser: ts.parser, extraFileExtensions: [".svelte"], svelteConfig },
    },
  },
  {
    // To TypeScript alone, props and snippets of components are `any`. svelte-check knows their
    // types and reports what these rules would.
    files: ["**/*.svelte", "app/main.ts"],
    rules: {
      "@typescript-eslint/no-unsafe-argument": "off",
      "@typescript-eslint/no-unsafe-assignment": "off",
      "@typescript-eslint/no-unsafe-call": "off",
      "@typescript-eslint/no-unsafe-member-access": "off",
      "@typescript-eslint/no-unsafe-return": "off",
    },
  },
  // Plain JavaScript has no types to check.
  { files: ["**/*.js", "**/*.mjs"], extends: [ts.configs.disableTypeChecked] },
);
