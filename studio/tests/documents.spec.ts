import { writeFileSync } from "node:fs";

import { editor, expect, test, write } from "./journey";

test("a document is written, saved with the keyboard, cloned and deleted", async ({ page, open, server, expectedErrors }) => {
  // The page may look for a deleted document once more before it is left.
  expectedErrors.push(/404 GET .*people%2F2$/);
  const db = await server.createDatabase("docs");
  await open(`/databases/${db}/documents`);
  await page.getByRole("button", { name: "New document" }).first().click();
  await page.getByLabel("Id of the document").fill("people/1");
  await write(page, "New document", '{"Name":"Ada","Big":12345678901234567890.10,"@metadata":{"@collection":"People"}}');
  await page.keyboard.press("ControlOrMeta+s");
  await expect(page.getByRole("heading", { name: "people/1" })).toBeVisible();
  await expect(editor(page, "Document people/1")).toContainText("12345678901234567890.10");
  await write(page, "Document people/1", '{"Name":"Grace","@metadata":{"@collection":"People"}}');
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await expect(page.getByText("Not saved", { exact: true })).toBeHidden();
  expect(await server.load(db, "people/1")).toMatchObject({ Name: "Grace" });
  await page.getByRole("button", { name: "More actions" }).click();
  await page.getByRole("menuitem", { name: "Clone" }).click();
  await page.getByLabel("Id of the document").fill("people/2");
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await expect(page.getByRole("heading", { name: "people/2" })).toBeVisible();
  await page.getByRole("button", { name: "More actions" }).click();
  await page.getByRole("menuitem", { name: "Delete document…" }).click();
  await page.getByRole("button", { name: "Delete document" }).click();
  await expect(page).toHaveURL(/collection=People/);
  await expect(page.getByText("1 document", { exact: true })).toBeVisible();
});

test("sample data is added to an empty database", async ({ page, open, server }) => {
  const db = await server.createDatabase("samples");
  await open(`/databases/${db}/documents`);
  await page.getByRole("button", { name: "Add sample data" }).click();
  await expect(page.getByText("1,059 documents")).toBeVisible({ timeout: 20_000 });
  await expect(page.getByRole("link", { name: /^Orders 830$/ })).toBeVisible();
});

test("what is written while a document is being saved stays", async ({ page, open, server }) => {
  const db = await server.createDatabase("slow");
  await server.put(db, "people/1", { Name: "Ada" });
  await open(`/databases/${db}/document?id=people/1`);
  await write(page, "Document people/1", '{"Name":"Saved"}');
  let release: () => void = () => undefined;
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  await page.route("**/docs?id=people*", async (route) => {
    if (route.request().method() === "PUT") await held;
    await route.continue();
  });
  await page.keyboard.press("ControlOrMeta+s");
  await expect(page.getByRole("button", { name: "Saving…" })).toBeVisible();
  await write(page, "Document people/1", '{"Name":"Written meanwhile"}');
  release();
  await expect(page.getByRole("button", { name: "Save", exact: true })).toBeEnabled();
  await expect(editor(page, "Document people/1")).toContainText("Written meanwhile");
  expect(await server.load(db, "people/1")).toMatchObject({ Name: "Saved" });
  await page.getByRole("link", { name: "Query" }).click();
  await page.goBack();
  await expect(editor(page, "Document people/1")).toContainText("Written meanwhile");
});

test("a new document gets a number when its id ends with a slash", async ({ page, open, server }) => {
  const db = await server.createDatabase("docs");
  await open(`/databases/${db}/document?new=People`);
  await expect(page.getByLabel("Id of the document")).toHaveValue("people/");
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await expect(page.getByRole("heading", { name: /^people\/0*1-A$/ })).toBeVisible();
});

test("text that is no JSON is not sent, and the place is shown", async ({ page, open, server }) => {
  const db = await server.createDatabase("docs");
  await server.put(db, "people/1", { Name: "Ada" });
  await open(`/databases/${db}/document?id=people/1`);
  await write(page, "Document people/1", '{\n"Name": Ada\n}');
  await page.keyboard.press("ControlOrMeta+s");
  await expect(page.getByText("This is no JSON, so it was not saved")).toBeVisible();
  await expect(page.getByText("A value is expected (line 2).")).toBeVisible();
  expect(await server.load(db, "people/1")).toMatchObject({ Name: "Ada" });
});

test("two editors in conflict: both changes survive, and the same property is chosen", async ({ page, open, server, expectedErrors }) => {
  expectedErrors.push(/409/);
  const db = await server.createDatabase("conflict");
  await server.put(db, "people/1", { Name: "Ada", City: "London", Age: 36 });
  await open(`/databases/${db}/document?id=people/1`);
  await write(page, "Document people/1", '{"Name":"Ada L.","City":"Paris","Age":36}');
  await server.put(db, "people/1", { Name: "Countess", City: "London", Age: 37 });
  await page.keyboard.press("ControlOrMeta+s");
  const dialog = page.getByRole("dialog", { name: "The document has been changed on the server" });
  await expect(dialog).toBeVisible();
  await expect(dialog.getByText("1 property was changed differently by both")).toBeVisible();
  await dialog.getByRole("row", { name: /Name/ }).getByRole("radio").first().check();
  await dialog.getByRole("button", { name: "Save the merged document" }).click();
  await expect(dialog).toBeHidden();
  await expect(page.getByText("Not saved", { exact: true })).toBeHidden();
  expect(await server.load(db, "people/1")).toMatchObject({ Name: "Countess", City: "Paris", Age: 37 });
});

test("a change by somebody else appears, and is announced over unsaved text", async ({ page, open, server }) => {
  const db = await server.createDatabase("live");
  await server.put(db, "people/1", { Name: "Ada" });
  await open(`/databases/${db}/document?id=people/1`);
  await expect(editor(page, "Document people/1")).toContainText("Ada");
  await server.put(db, "people/1", { Name: "Grace" });
  await expect(editor(page, "Document people/1")).toContainText("Grace", { timeout: 10_000 });
  await write(page, "Document people/1", '{"Name":"Mine"}');
  await server.put(db, "people/1", { Name: "Theirs" });
  await expect(page.getByText("The document has been changed on the server")).toBeVisible({ timeout: 10_000 });
  await expect(editor(page, "Document people/1")).toContainText("Mine");
});

test("the server is killed while a document is written: nothing is lost", async ({ page, open, server, expectedErrors }) => {
  expectedErrors.push(/ERR_CONNECTION|WebSocket|ERR_EMPTY_RESPONSE|ERR_SOCKET/);
  const db = await server.createDatabase("restart");
  await server.put(db, "people/1", { Name: "Ada" });
  await open(`/databases/${db}/document?id=people/1`);
  await write(page, "Document people/1", '{"Name":"Written before the crash"}');
  await server.kill();
  await expect(page.getByText("The server does not answer. Reconnecting…")).toBeVisible();
  await page.keyboard.press("ControlOrMeta+s");
  await expect(page.getByText("Saving the document failed")).toBeVisible();
  await server.run();
  await expect(page.getByText("The server does not answer. Reconnecting…")).toBeHidden({ timeout: 20_000 });
  await page.reload();
  await expect(page.getByText("This is what you had written and not saved.")).toBeVisible();
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await expect(page.getByText("Not saved", { exact: true })).toBeHidden();
  expect(await server.load(db, "people/1")).toMatchObject({ Name: "Written before the crash" });
});

test("attachments, counters and time series of a document", async ({ page, open, server }, info) => {
  const db = await server.createDatabase("parts");
  await server.put(db, "people/1", { Name: "Ada" });
  await open(`/databases/${db}/document?id=people/1&tab=attachments`);
  const file = info.outputPath("note.txt");
  writeFileSync(file, "a note");
  await page.getByLabel("Files to attach").setInputFiles(file);
  await expect(page.getByRole("link", { name: "note.txt" })).toBeVisible();
  const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("link", { name: "note.txt" }).click()]);
  expect(download.suggestedFilename()).toBe("note.txt");
  await page.getByRole("button", { name: "Delete note.txt" }).click();
  await page.getByRole("button", { name: "Delete attachment" }).click();
  await expect(page.getByRole("link", { name: "note.txt" })).toBeHidden();

  await page.getByRole("tab", { name: "Counters" }).click();
  await page.getByLabel("Name of a new counter").fill("likes");
  await page.getByRole("button", { name: "Add" }).click();
  await page.getByRole("button", { name: "Increase likes" }).click();
  await page.getByRole("button", { name: "Increase likes" }).click();
  await expect(page.getByRole("listitem").filter({ hasText: "likes" })).toContainText("2");

  await page.getByRole("tab", { name: "Time series" }).click();
  await page.getByRole("textbox", { name: "Time series" }).fill("Heart");
  await page.getByLabel("Values for now").fill("60.5, 61");
  await page.getByRole("button", { name: "Append" }).click();
  await expect(page.getByRole("img", { name: "Time series Heart" })).toBeVisible();
  await expect(page.getByText("1 entry", { exact: true })).toBeVisible();
});

test("a former version is compared and put back", async ({ page, open, server }) => {
  const db = await server.createDatabase("revisions");
  await server.request("POST", `/databases/${db}/admin/revisions/config`, { Default: { Disabled: false } });
  await server.put(db, "people/1", { Name: "First" });
  await server.put(db, "people/1", { Name: "Second" });
  await open(`/databases/${db}/document?id=people/1&tab=revisions`);
  await expect(page.getByText("2 revisions, the newest first")).toBeVisible();
  await page.getByRole("button", { name: "Compare" }).last().click();
  const dialog = page.getByRole("dialog");
  await expect(dialog.getByText('"First"')).toBeVisible();
  await expect(dialog.getByText('"Second"')).toBeVisible();
  await dialog.getByRole("button", { name: "Put this version into the editor" }).click();
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await expect(page.getByText("3 revisions, the newest first")).toBeVisible();
  expect(await server.load(db, "people/1")).toMatchObject({ Name: "First" });
});

test("documents are selected with the keyboard and deleted together", async ({ page, open, server }) => {
  const db = await server.createDatabase("select");
  for (const number of [1, 2, 3]) await server.put(db, `people/${number}`, { Name: `P${number}`, "@metadata": { "@collection": "People" } });
  await open(`/databases/${db}/documents?collection=People`);
  const grid = page.getByRole("grid", { name: "People" });
  await expect(grid.getByText("people/3")).toBeVisible();
  await grid.focus();
  await page.keyboard.press("Space");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Space");
  await expect(page.getByText("2 documents selected")).toBeVisible();
  await page.getByRole("button", { name: "Delete…" }).click();
  await page.getByRole("button", { name: "Delete 2 documents" }).click();
  await expect(grid.getByText("people/3")).toBeHidden();
  await expect(grid.getByText("people/1")).toBeVisible();
  await grid.focus();
  await page.keyboard.press("Home");
  await page.keyboard.press("Enter");
  await expect(page.getByRole("heading", { name: "people/1" })).toBeVisible();
});

test("columns are chosen, and are in the address", async ({ page, open, server }) => {
  const db = await server.createDatabase("columns");
  await server.put(db, "people/1", { Name: "Ada", City: "London", "@metadata": { "@collection": "People" } });
  await open(`/databases/${db}/documents?collection=People`);
  await expect(page.getByRole("columnheader", { name: "City" })).toBeVisible();
  await page.getByRole("button", { name: "Columns", exact: true }).click();
  await page.getByLabel("City").uncheck();
  await expect(page.getByRole("columnheader", { name: "City" })).toBeHidden();
  await page.reload();
  await expect(page.getByRole("columnheader", { name: "Name" })).toBeVisible();
  await expect(page.getByRole("columnheader", { name: "City" })).toBeHidden();
});
