import { checkAccess, expect, test } from "./journey";

test("the palette leads to documents, indexes and pages by the keyboard alone", async ({ page, open, server }) => {
  const db = await server.createDatabase("palette", true);
  await open(`/databases/${db}/documents`);
  await expect(page.getByRole("heading", { name: "All documents" })).toBeVisible();
  await page.keyboard.press("ControlOrMeta+k");
  await page.keyboard.type("orders/12-");
  await expect(page.getByRole("option", { name: /^orders\/12-A/ })).toBeVisible();
  await page.keyboard.press("Enter");
  await expect(page.getByRole("heading", { name: "orders/12-A" })).toBeVisible();
  await page.keyboard.press("ControlOrMeta+k");
  await page.keyboard.type("totals");
  await expect(page.getByRole("option", { name: /^Orders\/Totals/ })).toBeVisible();
  await page.keyboard.press("Enter");
  await expect(page.getByRole("heading", { name: "Orders/Totals" })).toBeVisible();
  await page.keyboard.press("ControlOrMeta+k");
  await page.keyboard.press("Escape");
  await expect(page.getByRole("combobox", { name: "Go to" })).toBeHidden();
});

test("the requests behind a page are shown and can be copied", async ({ page, open, server, context }) => {
  await context.grantPermissions(["clipboard-read", "clipboard-write"]);
  const db = await server.createDatabase("requests");
  await open(`/databases/${db}/documents`);
  await page.getByRole("button", { name: "Requests behind this page" }).click();
  const drawer = page.getByRole("dialog", { name: "Requests behind this page" });
  await drawer.locator("summary", { hasText: "/studio/collections/preview" }).click();
  await drawer.getByRole("button", { name: "Copy as curl" }).click();
  expect(await page.evaluate(() => navigator.clipboard.readText())).toContain(`curl '${server.url}/databases/${db}/studio/collections/preview`);
});

test("colours are chosen and kept", async ({ page, open }) => {
  await open("/databases");
  await page.getByRole("button", { name: "Colours" }).click();
  await page.getByRole("menuitem", { name: "Dark" }).click();
  const background = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  expect(await background()).toBe("rgb(20, 23, 28)");
  await page.reload();
  expect(await background()).toBe("rgb(20, 23, 28)");
});

test("the first load is small, and a page sends few requests", async ({ page, open, server }) => {
  const db = await server.createDatabase("load", true);
  let scripts = 0;
  const asked: string[] = [];
  page.on("response", async (response) => {
    const { pathname } = new URL(response.url());
    if (!pathname.startsWith("/studio/")) asked.push(pathname);
    if (pathname.endsWith(".js")) scripts += (await response.request().sizes()).responseBodySize;
  });
  await open("/databases");
  await expect(page.getByRole("link", { name: db })).toBeVisible();
  const painted = await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? Infinity);
  expect(scripts).toBeLessThan(350 * 1024);
  expect(painted).toBeLessThan(3000);
  asked.length = 0;
  await page.getByRole("link", { name: db }).click();
  await expect(page.getByText("1,059 documents")).toBeVisible();
  await page.waitForTimeout(1500);
  expect(asked.length, asked.join("\n")).toBeLessThan(12);
});

/** What the other pages consist of is on these, too. */
const IN_DARK = new Set(["databases", "dashboard", "documents", "document", "time-series", "query", "indexes", "index", "statistics"]);

for (const scheme of ["light", "dark"] as const) {
  test(`every page is accessible, ${scheme}`, async ({ page, open, server }) => {
    test.setTimeout(180_000);
    // The other colours are the only difference.
    const what = scheme === "light" ? "everything" : "colours";
    await page.emulateMedia({ colorScheme: scheme, reducedMotion: "reduce" });
    const db = await server.createDatabase("access", true);
    await server.request("POST", `/databases/${db}/admin/revisions/config`, { Default: { Disabled: false } });
    const folder = process.env.CORVUS_STUDIO_SCREENSHOTS;
    const places: [string, string, string][] = [
      ["databases", "/databases", "Databases"],
      ["dashboard", "/dashboard", "Dashboard"],
      ["documents", `/databases/${db}/documents?collection=Orders`, "Orders"],
      ["document", `/databases/${db}/document?id=employees/1-A`, "employees/1-A"],
      ["attachments", `/databases/${db}/document?id=employees/1-A&tab=attachments`, "employees/1-A"],
      ["counters", `/databases/${db}/document?id=products/1-A&tab=counters`, "products/1-A"],
      ["time-series", `/databases/${db}/document?id=companies/1-A&tab=series`, "companies/1-A"],
      ["revisions", `/databases/${db}/document?id=orders/1-A&tab=revisions`, "orders/1-A"],
      ["new-document", `/databases/${db}/document?new=Orders`, "New document"],
      ["query-guide", `/databases/${db}/query`, "Query"],
      ["query", `/databases/${db}/query?q=${encodeURIComponent("from Orders where Freight > 50 include Company, timings()")}`, "Query"],
      ["indexes", `/databases/${db}/indexes`, "Indexes"],
      ["index", `/databases/${db}/index?name=Orders/Totals`, "Orders/Totals"],
      ["terms", `/databases/${db}/index?name=Orders/Totals&tab=terms`, "Orders/Totals"],
      ["transfer", `/databases/${db}/transfer`, "Import and export"],
      ["statistics", `/databases/${db}/statistics`, "Statistics"],
    ];
    const shown = scheme === "light" ? places : places.filter(([name]) => IN_DARK.has(name));
    for (const [name, place, heading] of shown) {
      await open(place);
      await expect(page.getByRole("heading", { name: heading, exact: true, level: 1 })).toBeVisible();
      await page.waitForLoadState("networkidle");
      if (name === "dashboard") await expect(page.locator("dd").first()).toHaveText(/%/, { timeout: 15_000 });
      await checkAccess(page, `${name}, ${scheme}`, what);
      if (folder) await page.screenshot({ path: `${folder}/${name}-${scheme}.png` });
    }
    await page.keyboard.press("ControlOrMeta+k");
    await expect(page.getByRole("combobox", { name: "Go to" })).toBeVisible();
    await checkAccess(page, `palette, ${scheme}`, what);
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: /^Notifications/ }).click();
    await checkAccess(page, `notifications, ${scheme}`, what);
  });
}
