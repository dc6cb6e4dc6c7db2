/** Icons: 16 pixels, one stroke. They repeat what a word beside them says, so they have no names. */

const PATHS = {
  database: "M2.5 4c0-1.4 2.5-2.3 5.5-2.3S13.500 2.600 13.500 4 11 6.300 8 6.300 2.500 5.400 2.500 4zm0 0v8c0 1.400 2.500 2.300 5.500 2.300s5.500-.9 5.500-2.300V4M2.500 8c0 1.400 2.500 2.300 5.500 2.300s5.500-.9 5.500-2.300",
  dashboard: "M2 13.500h12M3.500 11V7.500M8 11V3M12.500 11V5.500",
  documents: "M9.500 1.700H4a.8.8 0 0 0-.8.8v11a.8.8 0 0 0 .8.8h8a.8.8 0 0 0 .8-.8V5zm0 0V5h3.300M5.700 8.500h4.600M5.700 11h4.600",
  query: "M7 12a5 5 0 1 0 0-10 5 5 0 0 0 0 10zm3.700-1.300L14 14",
  index: "M2 4h12M2 8h8M2 12h5",
  transfer: "M4.500 13V3m0 0L2 5.500M4.500 3 7 5.500M11.500 3v10m0 0L9 10.500m2.500 2.500 2.500-2.500",
  statistics: "M14 8A6 6 0 1 1 8 2v6z",
  bell: "M8 2a4 4 0 0 0-4 4c0 4-1.500 5-1.500 5h11S12 10 12 6a4 4 0 0 0-4-4zM6.700 13.500a1.400 1.400 0 0 0 2.600 0",
  api: "M5.500 4 1.500 8l4 4M10.500 4l4 4-4 4",
  plus: "M8 3v10M3 8h10",
  close: "M4 4l8 8M12 4l-8 8",
  more: "M3.500 8h.01M8 8h.01M12.500 8h.01",
  check: "M3 8.500l3.300 3.300L13 5",
  copy: "M5.500 5.500v-3h8v8h-3M2.500 5.500h8v8h-8z",
  download: "M8 2v8m0 0L4.500 6.500M8 10l3.500-3.500M2.500 13.500h11",
  upload: "M8 10V2m0 0L4.500 5.500M8 2l3.500 3.500M2.500 13.500h11",
  trash: "M2.500 4h11M6 4V2.500h4V4m-6 0 .6 9.500h6.800L12 4",
  play: "M4.500 2.500l8 5.500-8 5.500z",
  pause: "M5 3v10M11 3v10",
  reset: "M3 8a5 5 0 1 1 1.500 3.600M3 12.500V9.500h3",
  sun: "M8 11a3 3 0 1 0 0-6 3 3 0 0 0 0 6zM8 1v1.500M8 13.500V15M1 8h1.500M13.500 8H15M3 3l1 1M12 12l1 1M3 13l1-1M12 4l1-1",
  chevron: "M4.500 6.500 8 10l3.500-3.500",
  back: "M9.500 4 5.500 8l4 4",
  file: "M9.500 1.700H4a.8.8 0 0 0-.8.8v11a.8.8 0 0 0 .8.8h8a.8.8 0 0 0 .8-.8V5zm0 0V5h3.300",
  history: "M2.500 8a5.500 5.500 0 1 1 1.600 3.900M2.500 12.500V9.500h3M8 5v3l2 1.500",
  columns: "M2.500 2.500h11v11h-11zM6.200 2.500v11M9.800 2.500v11",
  warning: "M8 2 1.500 13.500h13zM8 6.500v3M8 11.600v.01",
  code: "M5.500 4 1.500 8l4 4M10.500 4l4 4-4 4",
  edit: "M3 13h2.500l7-7L10 3.500l-7 7z",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name, className = "icon-mark" }: { name: IconName; className?: string }) {
  return (
    <svg
      className={className}
      viewBox="0 0 16 16"
      fill="none"
      stroke="currentColor"
      strokeWidth={name === "more" ? 2 : 1.4}
      strokeLinecap="round"
      strokeLinejoin="round"
      aria-hidden="true"
    >
      <path d={PATHS[name]} />
    </svg>
  );
}
