import { checkAccess, expect, test } from "./journey";

/** Name, place inside the database, heading. */
const PAGES: [string, string, string][] = [
  ["databases", "/databases", "Databases"],
  ["dashboard", "/dashboard", "Dashboard"],
  ["documents", "documents?collection=Orders", "Orders"],
  ["document", "document?id=employees/1-A", "employees/1-A"],
  ["attachments", "document?id=employees/1-A&tab=attachments", "employees/1-A"],
  ["counters", "document?id=products/1-A&tab=counters", "products/1-A"],
  ["time-series", "document?id=companies/1-A&tab=series", "companies/1-A"],
  ["revisions", "document?id=orders/1-A&tab=revisions", "orders/1-A"],
  ["new-document", "document?new=Orders", "New document"],
  ["query-guide", "query", "Query"],
  ["query", `query?q=${encodeURIComponent("from Orders where Freight > 50 include Company, timings()")}`, "Query"],
  ["indexes", "indexes", "Indexes"],
  ["index", "index?name=Orders/Totals", "Orders/Totals"],
  ["terms", "index?name=Orders/Totals&tab=terms", "Orders/Totals"],
  ["transfer", "transfer", "Import and export"],
  ["statistics", "statistics", "Statistics"],
];

/** What the other pages consist of is on these, too. */
const IN_DARK = new Set(["databases", "dashboard", "documents", "document", "time-series", "query", "indexes", "index", "statistics"]);

let database: string | undefined;

/** One for the pages of a worker: looking changes nothing. */
test.beforeEach(async ({ server }) => {
  database ??= await server.createDatabase("access", true);
});

for (const scheme of ["light", "dark"] as const) {
  // The colours are the only difference.
  const what = scheme === "light" ? "everything" : "colours";
  for (const [name, place, heading] of PAGES.filter(([name]) => scheme === "light" || IN_DARK.has(name))) {
    test(`accessible: ${name}, ${scheme}`, async ({ page, open }) => {
      await page.emulateMedia({ colorScheme: scheme, reducedMotion: "reduce" });
      await open(place.startsWith("/") ? place : `/databases/${database}/${place}`);
      await expect(page.getByRole("heading", { name: heading, exact: true, level: 1 })).toBeVisible();
      await page.waitForLoadState("networkidle");
      if (name === "dashboard") await expect(page.locator("dd").first()).toHaveText(/%/, { timeout: 15_000 });
      await checkAccess(page, name, what);
      const folder = process.env.CORVUS_STUDIO_SCREENSHOTS;
      if (folder) await page.screenshot({ path: `${folder}/${name}-${scheme}.png` });
    });
  }

  test(`accessible: overlays, ${scheme}`, async ({ page, open }) => {
    await page.emulateMedia({ colorScheme: scheme, reducedMotion: "reduce" });
    await open("/databases");
    await expect(page.getByRole("heading", { name: "Databases", exact: true })).toBeVisible();
    await page.keyboard.press("ControlOrMeta+k");
    await expect(page.getByRole("combobox", { name: "Go to" })).toBeVisible();
    await checkAccess(page, "palette", what);
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: /^Notifications/ }).click();
    await checkAccess(page, "notifications", what);
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: "Create database" }).first().click();
    await checkAccess(page, "creating a database", what);
  });
}
