import { writeFileSync } from "node:fs";

import { expect, test } from "./journey";

test("a database is exported to a file and imported into another", async ({ page, open, server }, info) => {
  const from = await server.createDatabase("from", true);
  const to = await server.createDatabase("to");
  // An automated browser cannot answer a dialog for files.
  await page.addInitScript(() => Reflect.deleteProperty(window, "showSaveFilePicker"));
  await open(`/databases/${from}/transfer`);
  const [download] = await Promise.all([
    page.waitForEvent("download"),
    page.getByRole("button", { name: "Export", exact: true }).click(),
  ]);
  await expect(page.getByText(/^Exported: /)).toBeVisible();
  expect(download.suggestedFilename()).toMatch(/\.ravendbdump$/);
  const file = info.outputPath("dump.ravendbdump");
  await download.saveAs(file);
  await open(`/databases/${to}/transfer`);
  await page.getByLabel("File to import").setInputFiles(file);
  await page.getByRole("button", { name: "Import", exact: true }).click();
  await expect(page.getByText("dump.ravendbdump is imported")).toBeVisible({ timeout: 30_000 });
  await expect(page.getByRole("row", { name: /^Documents 1,059/ })).toBeVisible();
  const stats = (await server.request("GET", `/databases/${to}/stats`)) as { CountOfDocuments: number; CountOfAttachments: number };
  expect(stats).toMatchObject({ CountOfDocuments: 1059, CountOfAttachments: 17 });
});

test("CSV is imported, and what cannot be used is named", async ({ page, open, server }, info) => {
  const db = await server.createDatabase("csv");
  const file = info.outputPath("people.csv");
  writeFileSync(file, '@id,Name\npeople/1,Ada\npeople/2,"Grace, Admiral"\npeople/3,too,many\n');
  await open(`/databases/${db}/transfer`);
  await page.getByLabel("File to import").setInputFiles(file);
  await page.getByLabel("Collection", { exact: true }).fill("People");
  await page.getByRole("button", { name: "Import", exact: true }).click();
  await expect(page.getByText("people.csv is imported")).toBeVisible();
  await expect(page.getByText("What could not be used")).toBeVisible();
  expect(await server.load(db, "people/2")).toMatchObject({ Name: "Grace, Admiral" });
});

test("statistics show the counts and the files", async ({ page, open, server }) => {
  const db = await server.createDatabase("stats", true);
  await open(`/databases/${db}/statistics`);
  await expect(page.getByText("1,059").first()).toBeVisible();
  await expect(page.getByRole("row", { name: /^Documents .* (KB|MB)/ })).toBeVisible();
  await expect(page.getByRole("link", { name: "Orders/Totals" })).toBeVisible();
});

test("the dashboard follows the server over one socket, and says when it cannot", async ({ page, open, server }) => {
  const db = await server.createDatabase("dashboard");
  const sockets: string[] = [];
  page.on("websocket", (socket) => sockets.push(new URL(socket.url()).pathname));
  await open("/dashboard");
  await expect(page.getByText("Live")).toBeVisible();
  await expect(page.getByRole("row", { name: new RegExp(db) })).toBeVisible({ timeout: 15_000 });
  await expect(page.locator("dd").first()).toHaveText(/%/);
  expect(sockets.filter((path) => path.includes("dashboard"))).toEqual(["/cluster-dashboard/watch"]);
});

test("a long operation is among the notifications", async ({ page, open, server }) => {
  const db = await server.createDatabase("notices", true);
  await open(`/databases/${db}/documents?collection=Orders`);
  await page.getByRole("button", { name: "More actions" }).click();
  await page.getByRole("menuitem", { name: "Delete all documents…" }).click();
  await page.getByLabel("Type Orders to confirm").fill("Orders");
  await page.getByRole("button", { name: "Delete 830 documents" }).click();
  await page.getByRole("button", { name: /^Notifications/ }).click();
  const drawer = page.getByRole("dialog", { name: "Notifications" });
  await expect(drawer.getByText("Delete by collection")).toBeVisible({ timeout: 15_000 });
  await expect(drawer.getByText("Completed").first()).toBeVisible({ timeout: 15_000 });
  await page.keyboard.press("Escape");
  await expect(page.getByRole("link", { name: /^Orders/ })).toBeHidden();
});
