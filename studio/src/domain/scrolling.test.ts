import { expect, it } from "vitest";

import { SCROLL_HEIGHT_MAX, offsetAfter, offsetMax, scrollHeight, topFor } from "./scrolling";

const short = { total: 3200, view: 800 };
const long = { total: 32_000_000, view: 800 };

it("scrolls a short list as a browser does", () => {
  expect(scrollHeight(short)).toBe(3200);
  for (const top of [0, 1, 1000, 2400]) expect(offsetAfter(short, 0, 0, top)).toBe(top);
  expect(topFor(short, 500)).toBe(500);
});

it("reaches every row of a long list by small steps", () => {
  expect(scrollHeight(long)).toBe(SCROLL_HEIGHT_MAX);
  expect(offsetAfter(long, 16_000_000, 4_000_000, 4_000_100)).toBe(16_000_100);
  expect(offsetAfter(long, 16_000_000, 4_000_000, 3_999_960)).toBe(15_999_960);
});

it("follows the thumb to the same part of the list", () => {
  const middle = (SCROLL_HEIGHT_MAX - long.view) / 2;
  expect(offsetAfter(long, 0, 0, middle)).toBeCloseTo(offsetMax(long) / 2, 0);
  expect(topFor(long, offsetMax(long) / 2)).toBeCloseTo(middle, 0);
});

it("ends at the ends", () => {
  expect(offsetAfter(long, 500, 125, 0)).toBe(0);
  expect(offsetAfter(long, 31_000_000, 7_000_000, SCROLL_HEIGHT_MAX - long.view)).toBe(offsetMax(long));
  expect(offsetMax({ total: 100, view: 800 })).toBe(0);
});
