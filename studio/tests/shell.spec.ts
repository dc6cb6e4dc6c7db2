import { JUDGES_TIMES, expect, test } from "./journey";

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
  if (JUDGES_TIMES) expect(painted, "milliseconds to the first paint").toBeLessThan(3000);
  asked.length = 0;
  await page.getByRole("link", { name: db }).click();
  await expect(page.getByText("1,059 documents")).toBeVisible();
  await page.waitForTimeout(1500);
  expect(asked.length, asked.join("\n")).toBeLessThan(12);
});
