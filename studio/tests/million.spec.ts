import { request } from "node:http";

import { JUDGES_TIMES, expect, test } from "./journey";
import type { Server } from "./server";

/** CI takes fewer: storing them takes longer than scrolling. */
const DOCUMENTS = Number(process.env.CORVUS_STUDIO_DOCUMENTS ?? 200_000);
const BATCH = 1000;

test("a very long collection is scrolled from end to end", async ({ page, open, server }) => {
  test.setTimeout(300_000);
  const db = await server.createDatabase("long");
  await insert(server, db, DOCUMENTS);
  await open(`/databases/${db}/documents?collection=Items`);
  const grid = page.getByRole("grid", { name: "Items" });
  await expect(grid).toHaveAttribute("aria-rowcount", String(DOCUMENTS + 1));
  await expect(grid.getByRole("row").nth(1)).toContainText(`items/${DOCUMENTS - 1}`);
  expect(await grid.getByRole("row").count()).toBeLessThan(60);

  await grid.focus();
  await page.keyboard.press("End");
  await expect(grid.getByText("items/0", { exact: true })).toBeVisible({ timeout: 20_000 });
  await page.keyboard.press("Home");
  await expect(grid.getByText(`items/${DOCUMENTS - 1}`, { exact: true })).toBeVisible();

  await grid.evaluate((element) => {
    element.scrollTop = (element.scrollHeight - element.clientHeight) / 2;
  });
  const middle = grid.getByRole("row").nth(10);
  const number = async () => Number(/items\/(\d+)/.exec(await middle.innerText())?.[1]);
  await expect.poll(async () => Math.abs((await number()) - DOCUMENTS / 2), { timeout: 20_000 }).toBeLessThan(100);
  const shown = await number();

  // One notch of a wheel moves by its pixels, not by a part of the list.
  await grid.hover();
  await page.mouse.wheel(0, 320);
  await expect.poll(async () => shown - (await number())).toBe(10);

  if (!JUDGES_TIMES) return;
  // A frame of 60 per second is 16 ms.
  const session = await page.context().newCDPSession(page);
  await session.send("Performance.enable", { timeDomain: "threadTicks" });
  const busy = async () => {
    const { metrics } = await session.send("Performance.getMetrics");
    const of = (name: string) => metrics.find((metric) => metric.name === name)?.value ?? 0;
    return of("ScriptDuration") + of("LayoutDuration") + of("RecalcStyleDuration");
  };
  const before = await busy();
  const frames = 60;
  await grid.evaluate(
    (element, count) =>
      new Promise<void>((resolve) => {
        let left = count;
        const step = () => {
          element.scrollTop += 160;
          left -= 1;
          if (left > 0) requestAnimationFrame(step);
          else resolve();
        };
        requestAnimationFrame(step);
      }),
    frames,
  );
  expect(((await busy()) - before) * (1000 / frames), "milliseconds of scripts and layout per frame").toBeLessThan(16);
});

async function insert(server: Server, db: string, count: number): Promise<void> {
  const { Id } = (await server.request("GET", `/databases/${db}/operations/next-operation-id`)) as { Id: number };
  await new Promise<void>((resolve, reject) => {
    const sending = request(`${server.url}/databases/${db}/bulk_insert?id=${Id}`, { method: "POST", headers: { "Content-Type": "application/json" } }, (response) => {
      response.resume();
      response.on("end", () => (response.statusCode === 201 || response.statusCode === 200 ? resolve() : reject(new Error(`bulk insert: ${response.statusCode}`))));
    });
    sending.on("error", reject);
    const sendFrom = async (): Promise<void> => {
      sending.write("[");
      for (let first = 0; first < count; first += BATCH) {
        let text = "";
        for (let at = first; at < Math.min(count, first + BATCH); at += 1) {
          const document = { Name: `Item ${at}`, Price: (at % 1000) / 10, "@metadata": { "@collection": "Items" } };
          text += `${at === 0 ? "" : ","}${JSON.stringify({ Id: `items/${at}`, Type: "PUT", Document: document })}`;
        }
        if (!sending.write(text)) await new Promise((drained) => sending.once("drain", drained));
      }
      sending.end("]");
    };
    void sendFrom();
  });
}
