/**
 * Where a list of any length is scrolled to. A browser's elements may be some 17 million pixels high (Firefox), a million
 * rows are higher; so the scrollbar of a long list is shorter than the list. Small movements move the list pixel by
 * pixel, as everywhere; large ones, of the thumb, go to the same part of the list as the thumb is at.
 */

export const SCROLL_HEIGHT_MAX = 8_000_000;

export interface Extent {
  /** Height of all rows, in pixels. */
  total: number;
  /** Height of what is seen of them. */
  view: number;
}

export function scrollHeight({ total }: Extent): number {
  return Math.min(total, SCROLL_HEIGHT_MAX);
}

export function offsetMax({ total, view }: Extent): number {
  return Math.max(0, total - view);
}

/** How many pixels of the list one pixel of the scrollbar's way stands for; at least 1. */
function scale(extent: Extent): number {
  const way = scrollHeight(extent) - extent.view;
  return way <= 0 ? 1 : offsetMax(extent) / way;
}

/** The offset in the list after the scrollbar moved from `last` to `top`. */
export function offsetAfter(extent: Extent, offset: number, last: number, top: number): number {
  const max = offsetMax(extent);
  const ratio = scale(extent);
  if (ratio === 1) return Math.min(Math.max(0, top), max);
  if (top <= 0) return 0;
  if (top >= scrollHeight(extent) - extent.view - 1) return max;
  const moved = top - last;
  const isSmall = Math.abs(moved) <= extent.view * 1.5;
  return Math.min(Math.max(0, isSmall ? offset + moved : top * ratio), max);
}

/** Where the scrollbar belongs for an offset in the list. */
export function topFor(extent: Extent, offset: number): number {
  return offset / scale(extent);
}
