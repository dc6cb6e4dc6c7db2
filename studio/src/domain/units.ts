/** Numbers, sizes and times as people read them. */

const count = new Intl.NumberFormat("en-US");
const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto" });

/** `12,345`. */
export function number(value: number): string {
  return count.format(value);
}

/** `1 document`, `2 documents`. */
export function counted(value: number, noun: string, plural = `${noun}s`): string {
  return `${number(value)} ${value === 1 ? noun : plural}`;
}

const SIZES = ["B", "KB", "MB", "GB", "TB"];

/** `3.8 MB`: powers of 1024. */
export function bytes(value: number): string {
  let rest = Math.max(0, value);
  let unit = 0;
  while (rest >= 1024 && unit < SIZES.length - 1) {
    rest /= 1024;
    unit += 1;
  }
  return `${unit === 0 || rest >= 100 ? Math.round(rest) : rest.toFixed(1)} ${SIZES[unit]}`;
}

/** `850 ms`, `1.2 s`, `3 min 20 s`. */
export function duration(milliseconds: number): string {
  if (milliseconds < 1000) return `${Math.round(milliseconds)} ms`;
  const seconds = milliseconds / 1000;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.floor(seconds % 60)} s`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

/** .NET's `d.hh:mm:ss.fffffff` in milliseconds; 0 for anything else. */
export function timeSpan(text: string): number {
  const found = /^(?:(\d+)\.)?(\d+):(\d+):(\d+(?:\.\d+)?)$/.exec(text);
  if (!found) return 0;
  const [, days, hours, minutes, seconds] = found;
  return ((Number(days ?? 0) * 24 + Number(hours)) * 60 + Number(minutes)) * 60_000 + Number(seconds) * 1000;
}

const STEPS: [Intl.RelativeTimeFormatUnit, number][] = [
  ["second", 60],
  ["minute", 60],
  ["hour", 24],
  ["day", 30],
  ["month", 12],
];

/** `5 minutes ago`. */
export function ago(time: Date, now = new Date()): string {
  let amount = (time.getTime() - now.getTime()) / 1000;
  for (const [unit, size] of STEPS) {
    if (Math.abs(amount) < size) return relative.format(Math.trunc(amount), unit);
    amount /= size;
  }
  return relative.format(Math.trunc(amount), "year");
}
