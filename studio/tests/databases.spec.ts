import { expect, test } from "./journey";

test("the first minutes: a database, sample data, a document, a query", async ({ page, open }) => {
  await open("/");
  await expect(page.getByRole("heading", { name: "Databases", exact: true })).toBeVisible();
  await page.getByRole("button", { name: "Create database" }).first().click();
  await page.getByLabel("Name", { exact: true }).fill("shop");
  await page.getByLabel(/Add sample data/).check();
  await page.getByRole("button", { name: "Create", exact: true }).click();
  await expect(page).toHaveURL(/\/databases\/shop\/documents$/);
  await page.getByRole("link", { name: /^Orders 830$/ }).click();
  await expect(page.getByText("830 documents")).toBeVisible();
  await page.getByRole("link", { name: "orders/830-A" }).click();
  await expect(page.getByRole("heading", { name: "orders/830-A" })).toBeVisible();
  await page.getByRole("link", { name: "Query" }).click();
  await page.getByRole("button", { name: /from Orders where ShipTo.Country/ }).click();
  await expect(page.getByText("automatic index")).toBeVisible();
  await expect(page.getByRole("grid", { name: "Results" }).getByRole("row").nth(1)).toBeVisible();
});

test("a name that cannot be used is refused with the reason", async ({ page, open, server }) => {
  const taken = await server.createDatabase("taken");
  await open("/databases");
  await page.getByRole("button", { name: "Create database" }).first().click();
  await page.getByLabel("Name", { exact: true }).fill("a/b");
  await expect(page.getByText("contains characters that are forbidden")).toBeVisible();
  await expect(page.getByRole("button", { name: "Create", exact: true })).toBeDisabled();
  await page.getByLabel("Name", { exact: true }).fill(taken.toUpperCase());
  await expect(page.getByText("There is a database of this name.")).toBeVisible();
});

test("a database is disabled, enabled, and deleted only when its name is typed", async ({ page, open, server }) => {
  const name = await server.createDatabase("gone");
  await open("/databases");
  const row = page.getByRole("row", { name: new RegExp(name) });
  await row.getByRole("button", { name: `Actions for ${name}` }).click();
  await page.getByRole("menuitem", { name: "Disable" }).click();
  await expect(row.getByText("Disabled")).toBeVisible();
  await row.getByRole("button", { name: `Actions for ${name}` }).click();
  await page.getByRole("menuitem", { name: "Enable" }).click();
  await expect(row.getByText("Disabled")).toBeHidden();
  await row.getByRole("button", { name: `Actions for ${name}` }).click();
  await page.getByRole("menuitem", { name: "Delete database…" }).click();
  const remove = page.getByRole("button", { name: "Delete database" });
  await expect(remove).toBeDisabled();
  await expect(remove).not.toBeFocused();
  await page.getByLabel(`Type ${name} to confirm`).fill(name.slice(0, -1));
  await expect(remove).toBeDisabled();
  await page.getByLabel(`Type ${name} to confirm`).fill(name);
  await remove.click();
  await expect(row).toBeHidden();
  const left = async () => ((await server.request("GET", "/databases?namesOnly=true")) as { Databases: string[] }).Databases;
  await expect.poll(left).not.toContain(name);
});

test("the program that connects an application has this server and database", async ({ page, open, server }) => {
  const name = await server.createDatabase("connect");
  await open("/databases");
  await page.getByRole("button", { name: `Actions for ${name}` }).click();
  await page.getByRole("menuitem", { name: "Connect an application…" }).click();
  await page.getByRole("tab", { name: "C#" }).click();
  const program = page.getByRole("region", { name: "Program in C#" });
  await expect(program).toContainText(`Urls = new[] { "${server.url}" }`);
  await expect(program).toContainText(`Database = "${name}"`);
});

test("a place in a database that does not exist says so", async ({ page, open }) => {
  await open("/databases/nowhere/documents");
  await expect(page.getByText("There is no database “nowhere”")).toBeVisible();
});
