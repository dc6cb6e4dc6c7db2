import { expect, it } from "vitest";

import { ago, bytes, counted, duration, timeSpan } from "./units";

it("shows sizes with units", () => {
  expect([0, 1023, 1024, 1536, 1 << 20, 150 * 1024, 2 ** 41].map(bytes)).toEqual([
    "0 B",
    "1023 B",
    "1.0 KB",
    "1.5 KB",
    "1.0 MB",
    "150 KB",
    "2.0 TB",
  ]);
});

it("shows durations", () => {
  expect([0.4, 999, 1500, 61_000, 3_600_000, 200_000_000].map(duration)).toEqual([
    "0 ms",
    "999 ms",
    "1.5 s",
    "1 min 1 s",
    "1 h 0 min",
    "2 d 7 h",
  ]);
});

it("reads time spans", () => {
  expect(timeSpan("00:00:01.5000000")).toBe(1500);
  expect(timeSpan("1.02:03:04")).toBe(93_784_000);
  expect(timeSpan("x")).toBe(0);
});

it("counts", () => {
  expect([counted(1, "document"), counted(1200, "document"), counted(0, "index", "indexes")]).toEqual([
    "1 document",
    "1,200 documents",
    "0 indexes",
  ]);
});

it("says how long ago", () => {
  const now = new Date("2026-01-02T00:00:00Z");
  expect(ago(new Date("2026-01-01T23:59:30Z"), now)).toBe("30 seconds ago");
  expect(ago(new Date("2025-12-31T00:00:00Z"), now)).toBe("2 days ago");
});
