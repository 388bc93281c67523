import { fileURLToPath } from "node:url";
import { defineConfig } from "vite";

export default defineConfig({
  base: "/console/",
  build: {
    outDir: "../src/accord/console/static",
    emptyOutDir: true,
    assetsInlineLimit: 0, // the content security policy forbids what is inlined
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 200,
  },
  resolve: {
    alias: {
      // Its form for browsers decodes entities with innerHTML, which our policy forbids.
      "decode-named-character-reference": fileURLToPath(
        new URL("./node_modules/decode-named-character-reference/index.js", import.meta.url),
      ),
    },
  },
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
});
