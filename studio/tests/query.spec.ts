import { editor, expect, test, write } from "./journey";

let database: string | undefined;

/** One for the queries of a worker: they change nothing. */
test.beforeEach(async ({ server }) => {
  database ??= await server.createDatabase("query", true);
});

test("a query runs with Ctrl+Enter, is in the address and in the history", async ({ page, open }) => {
  await open(`/databases/${database}/query`);
  await write(page, "Query in RQL", "from Orders where Freight > 150");
  await page.keyboard.press("ControlOrMeta+Enter");
  const results = page.getByRole("grid", { name: "Results" });
  await expect(results.getByRole("row").nth(1)).toContainText("orders/");
  await expect(page.getByRole("link", { name: /^Auto\/Orders\/ByFreight/ })).toBeVisible();
  await page.reload();
  await expect(results.getByRole("row").nth(1)).toContainText("orders/");
  await page.getByRole("button", { name: "History" }).click();
  await expect(page.getByRole("menuitem", { name: "from Orders where Freight > 150" })).toBeVisible();
});

test("an error of the language is marked where it is", async ({ page, open, expectedErrors }) => {
  expectedErrors.push(/500/);
  await open(`/databases/${database}/query?q=${encodeURIComponent("from Orders wher Freight")}`);
  await expect(page.getByText("The query failed")).toBeVisible();
  await expect(page.getByText("1:18 Expected end of query but got: Freight (did you mean 'where'?)").first()).toBeVisible();
  await expect(page.locator(".cm-lintRange-error")).toHaveText("Freight");
  await write(page, "Query in RQL", "from Orders limit 3");
  await page.keyboard.press("ControlOrMeta+Enter");
  await expect(page.getByText("3 results")).toBeVisible();
  await expect(page.getByText("The query failed")).toBeHidden();
});

test("parameters are asked for, and sent", async ({ page, open }) => {
  await open(`/databases/${database}/query`);
  await write(page, "Query in RQL", "from Employees where LastName = $name");
  await write(page, "Parameters of the query, as JSON", '{"name":"Whitaker"}');
  await page.keyboard.press("ControlOrMeta+Enter");
  await expect(page.getByText("1 result", { exact: true })).toBeVisible();
  await page.reload();
  await expect(page.getByText("1 result", { exact: true })).toBeVisible();
});

test("results as JSON, includes and timings", async ({ page, open }) => {
  const query = "from Orders where Freight > 190 include Company, timings()";
  await open(`/databases/${database}/query?q=${encodeURIComponent(query)}`);
  await page.getByRole("tab", { name: "JSON" }).click();
  await expect(editor(page, "Results as JSON")).toContainText('"Freight"');
  await page.getByRole("tab", { name: /^Includes \d+$/ }).click();
  await expect(editor(page, "Included documents")).toContainText("companies/");
  await page.getByRole("tab", { name: "Timings" }).click();
  await expect(page.getByRole("cell", { name: "The whole query" })).toBeVisible();
});

test("completion offers collections and fields", async ({ page, open }) => {
  await open(`/databases/${database}/query`);
  await editor(page, "Query in RQL").click();
  await page.keyboard.type("from Or");
  await page.getByRole("option", { name: /^Orders/ }).click();
  await page.keyboard.type(" where Fre");
  await page.getByRole("option", { name: /^Freight/ }).click();
  await expect(editor(page, "Query in RQL")).toContainText("from Orders where Freight");
});

test("the query is copied as a program", async ({ page, open, context }) => {
  await context.grantPermissions(["clipboard-read", "clipboard-write"]);
  await open(`/databases/${database}/query?q=${encodeURIComponent("from Orders limit 1")}`);
  await page.getByRole("button", { name: "Copy as" }).click();
  await page.getByRole("menuitem", { name: "Python" }).click();
  await expect(page.getByText("Copied as Python")).toBeVisible();
  const copied = await page.evaluate(() => navigator.clipboard.readText());
  expect(copied).toContain('raw_query("from Orders limit 1", dict)');
  expect(copied).toContain(`"${database}"`);
});

test("documents are updated after a dry run, and deleted when their number is typed", async ({ page, open, server }) => {
  const db = await server.createDatabase("bulk", true);
  await open(`/databases/${db}/query`);
  await write(page, "Query in RQL", "from Regions update { this.Checked = true; output('seen') }");
  await page.keyboard.press("ControlOrMeta+Enter");
  const dialog = page.getByRole("dialog", { name: "Update documents" });
  await expect(dialog.getByText("the first of 4 documents")).toBeVisible();
  await expect(dialog.getByText("seen", { exact: true })).toBeVisible();
  expect(await server.load(db, "regions/1-A")).not.toHaveProperty("Checked");
  await dialog.getByRole("button", { name: "Update 4 documents" }).click();
  await expect.poll(() => server.load(db, "regions/1-A")).toHaveProperty("Checked", true);

  await write(page, "Query in RQL", "from Shippers");
  await page.getByRole("button", { name: "More actions" }).click();
  await page.getByRole("menuitem", { name: "Delete these documents…" }).click();
  await page.getByLabel("Type 3 to confirm").fill("3");
  await page.getByRole("button", { name: "Delete 3 documents" }).click();
  await expect(page.getByRole("link", { name: /^Shippers/ })).toBeHidden({ timeout: 15_000 });
});

test("an index is made, tried, queried, reset and deleted", async ({ page, open, server, expectedErrors }) => {
  expectedErrors.push(/400|500/);
  const db = await server.createDatabase("index", true);
  await open(`/databases/${db}/indexes`);
  await expect(page.getByRole("link", { name: "Orders/Totals" })).toBeVisible();
  await page.getByRole("button", { name: "New index" }).click();
  await page.getByLabel("Name").fill("Orders/Mine");
  await write(page, "Map 1", "from o in docs.Orders selec new { o.Company }");
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await expect(page.getByText(/an operator or a clause of the query is expected, not 'selec'/).first()).toBeVisible();
  await write(page, "Map 1", "from o in docs.Orders select new { o.Company, Lines = o.Lines.Count }");
  await page.getByRole("tab", { name: "Try it" }).click();
  await page.getByRole("button", { name: "Try it on 100 documents" }).click();
  await expect(page.getByRole("region", { name: "Entries of the trial" })).toContainText("companies/");
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await expect(page.getByRole("heading", { name: "Orders/Mine" })).toBeVisible();
  await expect(page.getByText("Up to date")).toBeVisible({ timeout: 20_000 });
  await page.getByRole("tab", { name: "Definition" }).click();
  await write(page, "Map 1", "from o in docs.Orders select new { o.Company, o.Freight }");
  await page.keyboard.press("ControlOrMeta+s");
  await expect(page.getByRole("button", { name: "Save", exact: true })).toBeDisabled();
  await expect(page.getByText("Up to date")).toBeVisible({ timeout: 20_000 });
  await page.getByRole("tab", { name: "Terms" }).click();
  await page.getByRole("combobox", { name: "Field" }).selectOption("Company");
  await expect(page.getByText("companies/1-a", { exact: true })).toBeVisible();
  await page.getByRole("button", { name: "Actions for Orders/Mine" }).click();
  await page.getByRole("menuitem", { name: "Reset…" }).click();
  await page.getByRole("button", { name: "Reset index" }).click();
  await expect(page.getByText("Orders/Mine is built again")).toBeVisible();
  await page.getByRole("button", { name: "Actions for Orders/Mine" }).click();
  await page.getByRole("menuitem", { name: "Delete index…" }).click();
  await page.getByLabel("Type Orders/Mine to confirm").fill("Orders/Mine");
  await page.getByRole("button", { name: "Delete index" }).click();
  await expect(page).toHaveURL(/\/indexes$/);
  await expect(page.getByRole("link", { name: "Orders/Mine" })).toBeHidden();
});

test("errors of an index name the document", async ({ page, open, server }) => {
  const db = await server.createDatabase("faults");
  await server.put(db, "people/1", { Name: "Ada", "@metadata": { "@collection": "People" } });
  const definition = { Name: "Faulty", Maps: ["from p in docs.People select new { X = int.Parse(p.Name) }"] };
  await server.request("PUT", `/databases/${db}/admin/indexes`, { Indexes: [definition] });
  await open(`/databases/${db}/index?name=Faulty&tab=errors`);
  await expect(page.getByRole("cell", { name: "people/1", exact: true })).toBeVisible({ timeout: 15_000 });
  await page.getByRole("button", { name: "Clear errors" }).click();
  await expect(page.getByText("No errors")).toBeVisible();
});
