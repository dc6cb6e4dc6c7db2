/** What every journey begins with: a server, a page on it, and a watch for what must never happen. */

import AxeBuilder from "@axe-core/playwright";
import { type Locator, type Page, expect, test as base } from "@playwright/test";

import { Server } from "./server";

interface Fixtures {
  /** Opens a place of the Studio. */
  open: (place: string) => Promise<void>;
  /** Errors that a journey expects, such as a refused query. */
  expectedErrors: RegExp[];
}

export const test = base.extend<Fixtures, { server: Server }>({
  server: [
    // Playwright reads which fixtures a fixture needs from this pattern.
    async ({}, use) => {
      const server = await Server.start();
      await use(server);
      await server.stop();
    },
    { scope: "worker" },
  ],

  expectedErrors: async ({}, use) => use([]),

  open: async ({ page, server, expectedErrors }, use) => {
    const errors: string[] = [];
    page.on("pageerror", (error) => errors.push(error.message));
    page.on("console", (message) => {
      const isAboutResponse = message.text().startsWith("Failed to load resource: the server responded");
      if (message.type() === "error" && !isAboutResponse) errors.push(message.text());
    });
    page.on("response", (response) => {
      if (response.status() >= 400) errors.push(`${response.status()} ${response.request().method()} ${response.url()}`);
    });
    page.on("dialog", (dialog) => {
      if (dialog.type() !== "beforeunload") errors.push(`a dialog of a script: ${dialog.message()}`);
      void dialog.accept();
    });
    await use(async (place) => {
      await page.goto(`${server.url}/studio${place}`);
    });
    const unexpected = errors.filter((error) => !expectedErrors.some((pattern) => pattern.test(error)));
    expect(unexpected, "errors of the page").toEqual([]);
  },
});

export { expect };

/** Times are judged where the machine does nothing else; a test that runs among others would fail by chance. */
export const JUDGES_TIMES = process.env.CORVUS_STUDIO_TIMES === "1";

/** The text of an editor, whole. */
export function editor(page: Page, label: string): Locator {
  return page.getByRole("textbox", { name: label });
}

/** Replaces what an editor contains. */
export async function write(page: Page, label: string, text: string): Promise<void> {
  await editor(page, label).click();
  await page.keyboard.press("ControlOrMeta+a");
  // Deleted by the editor first: a browser that replaces a selection itself keeps its colours as inline styles.
  await page.keyboard.press("Delete");
  await page.keyboard.insertText(text);
}

const TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];

/** Finds what keeps people from using the page as it is now. */
export async function checkAccess(page: Page, name: string, what: "everything" | "colours" = "everything"): Promise<void> {
  const builder = new AxeBuilder({ page });
  const rules = what === "colours" ? builder.withRules(["color-contrast"]) : builder.withTags(TAGS);
  const { violations } = await rules.analyze();
  const found = violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html.slice(0, 160)).join(" | ")}`);
  expect(found, `accessibility of ${name}`).toEqual([]);
}
