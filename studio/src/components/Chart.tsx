/** Lines over time. The canvas is a picture; its numbers are beside it or in a table. */

import "uplot/dist/uPlot.min.css";
import "./chart.css";

import { useEffect, useRef, useSyncExternalStore } from "react";
import uPlot from "uplot";

interface ChartProps {
  label: string;
  /** Seconds since 1970, ascending. */
  times: number[];
  lines: { label: string; values: (number | null)[] }[];
  height: number;
  /** How a value is written; as a number without. */
  format?: (value: number) => string;
  /** The lowest highest value of the scale. */
  top?: number;
  legend?: boolean;
  /** Whether the scale begins at zero, or near the lowest value. */
  fromZero?: boolean;
}

const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
/** Between the times that are written: seconds. */
const TIME_STEPS = [1, 2, 5, 10, 15, 30].flatMap((step) => [step, step * MINUTE]).concat([1, 3, 6, 12].map((step) => step * HOUR), [1, 2, 7, 14, 30, 90, 365].map((step) => step * DAY)).sort((one, other) => one - other);

const COLOURS = ["--chart-1", "--chart-2", "--chart-3", "--chart-4"];

export function Chart({ label, times, lines, height, format, top, legend = true, fromZero = true }: ChartProps) {
  const host = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot>(undefined);
  const scheme = useSyncExternalStore(colourScheme.subscribe, colourScheme.read);
  const names = lines.map((line) => line.label).join("\n");
  const data = [times, ...lines.map((line) => line.values)] as uPlot.AlignedData;
  const latest = useRef(data);
  latest.current = data;

  useEffect(() => {
    const element = host.current;
    if (!element) return undefined;
    const colour = (name: string) => resolved(element, `var(${name})`);
    const axis = { stroke: colour("--text-faint"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui" };
    const options: uPlot.Options = {
      width: element.clientWidth,
      height,
      legend: { show: legend },
      cursor: { y: false },
      scales: { y: { range: (_, low, high) => rangeOf(low, high, fromZero, top) } },
      axes: [
        { ...axis, incrs: TIME_STEPS, values: (_, splits) => splits.map((at) => clock(at, (splits.at(-1) ?? 0) - (splits[0] ?? 0))) },
        { ...axis, size: 56, values: (_, splits) => splits.map((value) => (format ? format(value) : String(value))) },
      ],
      series: [
        { label: "Time", value: (_: uPlot, at: number | null) => (at === null ? "–" : clock(at, 0)) },
        ...names.split("\n").map((name, at) => ({
          label: name,
          stroke: colour(COLOURS[at % COLOURS.length] ?? "--chart-1"),
          width: 1.5,
          points: { show: false },
          value: (_: uPlot, value: number | null) => (value === null ? "–" : format ? format(value) : String(value)),
        })),
      ],
    };
    const made = new uPlot(options, latest.current, element);
    plot.current = made;
    const observer = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      made.destroy();
      plot.current = undefined;
    };
  }, [names, height, format, top, legend, fromZero, scheme]);

  useEffect(() => plot.current?.setData(data));

  return <div ref={host} className="chart" role="img" aria-label={label} style={{ minHeight: height }} />;
}

/** A time in UTC, as precise as a span of so many seconds needs. */
function clock(at: number, span: number): string {
  const text = new Date(at * 1000).toISOString();
  if (span > 2 * DAY) return text.slice(0, 10);
  return span > HOUR ? text.slice(11, 16) : text.slice(11, 19);
}

/** The scale for values from `low` to `high`. */
function rangeOf(low: number, high: number, fromZero: boolean, top: number | undefined): [number, number] {
  const margin = Math.max((high - low) * 0.1, 1e-9);
  return fromZero ? [Math.min(0, low), Math.max(top ?? 0, high * 1.1, 1e-9)] : [low - margin, high + margin];
}

/** A canvas does not know variables. */
function resolved(element: HTMLElement, colour: string): string {
  const probe = document.createElement("span");
  probe.style.color = colour;
  element.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

/** Changes when the colours of the page do. */
const colourScheme = {
  subscribe(listener: () => void): () => void {
    const media = matchMedia("(prefers-color-scheme: dark)");
    media.addEventListener("change", listener);
    const observer = new MutationObserver(listener);
    observer.observe(document.documentElement, { attributeFilter: ["data-theme"] });
    return () => {
      media.removeEventListener("change", listener);
      observer.disconnect();
    };
  },
  read: () => document.documentElement.dataset.theme ?? String(matchMedia("(prefers-color-scheme: dark)").matches),
};
