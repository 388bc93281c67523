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
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
});
