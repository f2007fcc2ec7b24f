import { svelte } from "@sveltejs/vite-plugin-svelte";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import { defineConfig, type Plugin } from "vite";

/** `npm run dev` answers /v1 from the mock; `WEIR_URL=http://127.0.0.1:8215 npm run dev` uses a real daemon instead. */
function mock(): Plugin {
  return {
    name: "weir-mock-api",
    async configureServer(server) {
      const { handler } = (await server.ssrLoadModule("/mock-api/server.ts")) as typeof import("./mock-api/server");
      server.middlewares.use(handler());
    },
  };
}

/** Writes .br and .gz files next to compressible ones, so that the daemon can send them as they are. */
function compressed(): Plugin {
  return {
    name: "weir-compressed",
    enforce: "post",
    generateBundle(_, bundle) {
      for (const [fileName, file] of Object.entries(bundle)) {
        const source = Buffer.from(file.type === "chunk" ? file.code : file.source);
        if (source.length < 1024 || !/\.(js|css|html|svg)$/.test(fileName)) continue;
        this.emitFile({
          type: "asset",
          fileName: `${fileName}.br`,
          source: brotliCompressSync(source, { params: { [constants.BROTLI_PARAM_QUALITY]: 11 } }),
        });
        this.emitFile({ type: "asset", fileName: `${fileName}.gz`, source: gzipSync(source, { level: 9 }) });
      }
    },
  };
}

export default defineConfig(({ mode }) => ({
  plugins: [svelte(), compressed(), ...(mode === "mock" && !process.env.WEIR_URL ? [mock()] : [])],
  server: { host: "127.0.0.1", proxy: process.env.WEIR_URL ? { "/v1": process.env.WEIR_URL } : undefined },
  build: {
    outDir: "dist",
    target: ["chrome123", "firefox125", "safari17.5"],
    // No data: URLs, so that the daemon can send a strict content security policy.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
}));
