import { defineConfig } from "@playwright/test";

export default defineConfig({
  testDir: "tests",
  // Other suites may be running beside this one.
  timeout: 180_000,
  expect: { timeout: 15_000 },
  workers: 2,
  fullyParallel: true,
  reporter: [["list"]],
  use: {
    launchOptions: { executablePath: process.env.CORVUS_BROWSER ?? "/usr/bin/chromium", args: ["--no-sandbox"] },
    viewport: { width: 1360, height: 850 },
    actionTimeout: 15_000,
  },
});
