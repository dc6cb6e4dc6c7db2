import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

/** The server that `npm run dev` passes requests to. */
const server = process.env.CORVUS_URL ?? "http://127.0.0.1:8080";

/** Everything that is not the Studio itself. */
const API = "^/(?!studio/|@|src/|node_modules/).*";

export default defineConfig({
  base: "/studio/",
  plugins: [react()],
  build: {
    target: "es2022",
    // Nothing may be inline: the server's policy refuses it.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    license: { fileName: "licenses.md" },
    chunkSizeWarningLimit: 700,
  },
  server: {
    host: "127.0.0.1",
    // The host stays that of the page, so that the server sees a page of its own.
    proxy: { [API]: { target: server, changeOrigin: false, ws: true } },
  },
  test: { include: ["src/**/*.test.ts"] },
});
