/** The last minutes of what a server measures each second. */

export interface Widgets {
  CpuUsage?: { ProcessCpuUsage: number; MachineCpuUsage: number; NumberOfCores: number };
  MemoryUsage?: { WorkingSet: number; PhysicalMemory: number; AvailableMemory: number; DirtyMemory: number; LowMemorySeverity: string };
  Traffic?: { RequestsPerSecond: number; DocumentWritesPerSecond: number };
  DatabaseTraffic?: { Items: { Database: string; RequestsPerSecond: number; DocumentWritesPerSecond: number }[] };
  Indexing?: { MappedPerSecond: number; ReducedPerSecond: number };
  DatabaseIndexing?: { Items: { Database: string; MappedPerSecond: number; ReducedPerSecond: number }[] };
  DatabaseStorageUsage?: { Items: { Database: string; Size: number; TempBuffersSize: number }[] };
  StorageUsage?: { Items: { MountPoint: string; TotalCapacity: number; FreeSpace: number; IsLowSpace: boolean; RavenSize: number }[] };
  DatabaseOverview?: {
    Items: { Database: string; DocumentsCount: number; IndexesCount: number; IndexingErrorsCount: number; AlertsCount: number; Online: boolean; Disabled: boolean }[];
  };
}

export const WIDGETS = [
  "CpuUsage",
  "MemoryUsage",
  "Traffic",
  "DatabaseTraffic",
  "Indexing",
  "DatabaseIndexing",
  "DatabaseStorageUsage",
  "StorageUsage",
  "DatabaseOverview",
] as const;

export interface Sample {
  /** Seconds since 1970. */
  at: number;
  process: number;
  machine: number;
  memory: number;
  requests: number;
  writes: number;
  mapped: number;
  reduced: number;
}

/** Five minutes. */
const SAMPLES_MAX = 300;

export interface Board {
  latest: Widgets;
  samples: Sample[];
}

export const emptyBoard: Board = { latest: {}, samples: [] };

/** The board after one message of the feed. A second is complete when its processor usage arrives again. */
export function withMessage(board: Board, message: { Data?: { Type?: string; Date?: string } }): Board {
  const { Type: type, Date: date } = message.Data ?? {};
  if (type === undefined || !(WIDGETS as readonly string[]).includes(type)) return board;
  const latest = { ...board.latest, [type]: message.Data };
  if (type !== "CpuUsage") return { ...board, latest };
  // The rest of the first second has not arrived.
  if (latest.MemoryUsage === undefined) return { ...board, latest };
  const at = Math.round(Date.parse(date ?? "") / 1000);
  if (!Number.isFinite(at)) return { ...board, latest };
  const sample: Sample = {
    at,
    process: latest.CpuUsage?.ProcessCpuUsage ?? 0,
    machine: latest.CpuUsage?.MachineCpuUsage ?? 0,
    memory: latest.MemoryUsage?.WorkingSet ?? 0,
    requests: latest.Traffic?.RequestsPerSecond ?? 0,
    writes: latest.Traffic?.DocumentWritesPerSecond ?? 0,
    mapped: latest.Indexing?.MappedPerSecond ?? 0,
    reduced: latest.Indexing?.ReducedPerSecond ?? 0,
  };
  const before = board.samples.filter((one) => one.at < at);
  return { latest, samples: [...before, sample].slice(-SAMPLES_MAX) };
}
