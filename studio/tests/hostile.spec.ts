import type { Page } from "@playwright/test";

import { expect, test } from "./journey";
import { HOSTILE } from "./hostile";

/** Names of documents may have everything but control characters. */
const IDS = HOSTILE.filter((text) => /^[^\u0000-\u001f]{1,200}$/.test(text) && text.trim() === text);

async function isUntouched(page: Page, where: string): Promise<void> {
  const found = await page.evaluate(() => ({
    owned: (window as { __owned?: number }).__owned,
    elements: [...document.querySelectorAll("script:not([src^='/studio/']), iframe, object, embed, base, [onerror], [onload], [onfocus], [href^='javascript' i]")].map(
      (element) => element.outerHTML.slice(0, 120),
    ),
  }));
  expect(found, where).toEqual({ owned: undefined, elements: [] });
}

test("two hundred hostile texts as ids, names, values and errors run nowhere", async ({ page, open, server, expectedErrors }) => {
  expectedErrors.push(/400|404|409|500/);
  expect(HOSTILE.length).toBe(200);
  const db = await server.createDatabase("hostile");
  const commands = HOSTILE.map((text, at) => ({
    Type: "PUT",
    Id: `texts/${String(at).padStart(3, "0")}`,
    ChangeVector: null,
    Document: { Text: text, [text]: text, Nested: { [text]: [text] }, Ref: text, "@metadata": { "@collection": "Texts" } },
  }));
  const named = IDS.map((text) => ({ Type: "PUT", Id: text, ChangeVector: null, Document: { Text: text, "@metadata": { "@collection": "Named" } } }));
  await server.request("POST", `/databases/${db}/bulk_docs`, { Commands: [...commands, ...named] });
  const tag = HOSTILE[1] ?? "";
  for (const collection of [tag, `"><svg onload=window.__owned=1>`]) {
    await server.put(db, `in/${collection.length}`, { Text: "x", "@metadata": { "@collection": collection } });
  }
  await server.request("PUT", `/databases/${db}/admin/indexes`, {
    Indexes: [{ Name: "Texts/Bad", Maps: ["from t in docs.Texts select new { t.Text, Bad = int.Parse(t.Text) }"] }],
  });

  await open(`/databases/${db}/documents?collection=Texts`);
  await expect(page.getByText("200 documents")).toBeVisible();
  const grid = page.getByRole("grid", { name: "Texts" });
  await grid.focus();
  for (let step = 0; step < 11; step += 1) {
    await page.keyboard.press("PageDown");
    await page.waitForTimeout(120);
    await isUntouched(page, `the table, step ${step}`);
  }
  await open(`/databases/${db}/documents`);
  await expect(page.getByRole("navigation").getByText(tag, { exact: true })).toBeVisible();
  await expect(page.getByRole("grid").getByRole("row").nth(1)).toContainText("in/");
  await isUntouched(page, "all documents and the names of collections");
  for (const id of ["texts/001", "texts/033", "texts/060", ...IDS.slice(0, 6)]) {
    await open(`/databases/${db}/document?id=${encodeURIComponent(id)}&tab=related`);
    await expect(page.getByRole("textbox", { name: /^Document/ })).toBeVisible();
    await isUntouched(page, `the document ${id}`);
  }
  await open(`/databases/${db}/query?q=${encodeURIComponent("from Texts include Ref")}`);
  await expect(page.getByText("200 results")).toBeVisible();
  await isUntouched(page, "results as a table");
  await page.getByRole("tab", { name: "JSON" }).click();
  await expect(page.getByRole("textbox", { name: "Results as JSON" })).toBeVisible();
  await isUntouched(page, "results as JSON");
  for (const text of HOSTILE.slice(0, 12)) {
    await open(`/databases/${db}/query?q=${encodeURIComponent(text)}`);
    await expect(page.getByText("The query failed")).toBeVisible();
    await isUntouched(page, `the error of the query ${text}`);
  }
  await open(`/databases/${db}/indexes`);
  await expect(page.getByRole("link", { name: "Texts/Bad" })).toBeVisible();
  await isUntouched(page, "indexes");
  await open(`/databases/${db}/index?name=Texts/Bad&tab=errors`);
  await expect(page.getByRole("cell", { name: "texts/001", exact: true })).toBeVisible({ timeout: 15_000 });
  await isUntouched(page, "errors of an index");
  await open(`/databases/${encodeURIComponent(tag)}/documents`);
  await expect(page.getByText(/^There is no database/)).toBeVisible();
  await isUntouched(page, "a database that does not exist");
});

test("an attachment that is a page does not run as one of the server", async ({ page, server }) => {
  const db = await server.createDatabase("attached");
  await server.put(db, "people/1", { Name: "Ada" });
  const target = `/databases/${db}/attachments?id=people/1&name=x.html`;
  await server.request("PUT", `${target}&contentType=text/html`, "<script>document.title='owned'</script><p>page</p>");
  await page.goto(server.url + target).catch(() => undefined);
  await page.waitForTimeout(300);
  expect(await page.title()).not.toBe("owned");
});

test("the page refuses frames, inline scripts and foreign origins", async ({ page, server }) => {
  const response = await page.goto(`${server.url}/studio/index.html`);
  const policy = response?.headers()["content-security-policy"] ?? "";
  expect(policy).toContain("script-src 'self';");
  expect(policy).not.toContain("unsafe");
  const ran = await page.evaluate(() => {
    const script = document.createElement("script");
    script.textContent = "window.__owned = 1";
    document.body.append(script);
    return (window as { __owned?: number }).__owned;
  });
  expect(ran).toBeUndefined();
});
