/** Indexes and the statistics of a database. */

import { type Json, items, member } from "../domain/json";
import { databasePath, request, requestJson } from "./client";
import type { Size } from "./server";

export interface IndexStats {
  Name: string;
  Type: string;
  SourceType: string;
  State: "Normal" | "Disabled" | "Idle" | "Error";
  Status: "Running" | "Paused" | "Disabled" | "Pending";
  Priority: "Low" | "Normal" | "High";
  LockMode: "Unlock" | "LockedIgnore" | "LockedError";
  IsStale: boolean;
  IsInvalidIndex: boolean;
  EntriesCount: number;
  ErrorsCount: number;
  MappedPerSecondRate: number;
  ReducedPerSecondRate: number;
  LastIndexingTime: string | null;
  LastQueryingTime: string | null;
  CreatedTimestamp: string;
  Collections: Record<string, { DocumentLag: number; TombstoneLag: number }>;
  Memory: { DiskSize: Size };
}

export interface IndexField {
  Storage?: "Yes" | "No" | null;
  Indexing?: "No" | "Default" | "Exact" | "Search" | null;
  Analyzer?: string | null;
  Suggestions?: boolean | null;
  TermVector?: string | null;
}

export interface IndexDefinition {
  Name: string;
  Type?: string;
  Maps: string[];
  Reduce: string | null;
  Fields: Record<string, IndexField>;
  Configuration: Record<string, string>;
  AdditionalSources: Record<string, string>;
  Priority?: string;
  LockMode?: string;
  OutputReduceToCollection?: string | null;
}

export interface IndexError {
  Timestamp: string;
  Document: string | null;
  Action: string;
  Error: string;
}

export interface DatabaseStats {
  CountOfDocuments: number;
  CountOfIndexes: number;
  CountOfRevisionDocuments: number;
  CountOfTombstones: number;
  CountOfAttachments: number;
  CountOfUniqueAttachments: number;
  CountOfCounterEntries: number;
  CountOfTimeSeriesSegments: number;
  CountOfConflicts: number;
  DatabaseChangeVector: string;
  DatabaseId: string;
  LastDocEtag: number;
  LastIndexingTime: string | null;
  SizeOnDisk: Size;
  TempBuffersSizeOnDisk: Size;
}

export interface Footer {
  CountOfDocuments: number;
  CountOfIndexes: number;
  CountOfStaleIndexes: number;
  CountOfIndexingErrors: number;
}

type Results<T> = { Results: T[] };

export const indexes = {
  stats: (database: string, signal?: AbortSignal) =>
    request<Results<IndexStats>>("GET", databasePath(database, "indexes/stats"), { signal }).then((answer) => answer.Results),

  /** @returns undefined where there is no such index. */
  definition: async (database: string, name: string, signal?: AbortSignal): Promise<IndexDefinition | undefined> => {
    const answer = await request<Results<IndexDefinition> | undefined>("GET", databasePath(database, "indexes"), {
      query: { name },
      signal,
    });
    return answer?.Results[0];
  },

  put: (database: string, definition: IndexDefinition) =>
    request<Results<{ Index: string }>>("PUT", databasePath(database, "admin/indexes"), { body: { Indexes: [definition] } }),

  remove: (database: string, name: string) => request<unknown>("DELETE", databasePath(database, "indexes"), { query: { name } }),

  reset: (database: string, name: string) => request<unknown>("RESET", databasePath(database, "indexes"), { query: { name } }),

  pause: (database: string, name: string) =>
    request<unknown>("POST", databasePath(database, "admin/indexes/stop"), { query: { name } }),

  resume: (database: string, name: string) =>
    request<unknown>("POST", databasePath(database, "admin/indexes/start"), { query: { name } }),

  setDisabled: (database: string, name: string, disabled: boolean) =>
    request<unknown>("POST", databasePath(database, `admin/indexes/${disabled ? "disable" : "enable"}`), { query: { name } }),

  errors: (database: string, name: string, signal?: AbortSignal) =>
    request<Results<{ Name: string; Errors: IndexError[] }>>("GET", databasePath(database, "indexes/errors"), {
      query: { name },
      signal,
    }).then((answer) => answer.Results.flatMap((one) => one.Errors)),

  clearErrors: (database: string, name: string) =>
    request<unknown>("DELETE", databasePath(database, "indexes/errors"), { query: { name } }),

  terms: (database: string, name: string, field: string, signal?: AbortSignal) =>
    request<{ Terms: string[] }>("GET", databasePath(database, "indexes/terms"), {
      query: { name, field, pageSize: 200 },
      signal,
    }).then((answer) => answer.Terms),

  /** The fields of an index. */
  entryFields: (database: string, name: string, signal?: AbortSignal) =>
    request<{ Static: string[]; Dynamic: string[] }>("GET", databasePath(database, "indexes/debug"), {
      query: { name, op: "entries-fields" },
      signal,
    }).then((answer) => [...answer.Static, ...answer.Dynamic]),

  /** The entries that a definition makes of some documents. Nothing is stored. */
  test: async (database: string, definition: IndexDefinition, documentsMax: number): Promise<Json[]> => {
    const body = { IndexDefinition: { ...definition, Name: definition.Name || "Trial" }, MaxDocumentsToProcess: documentsMax };
    const json = await requestJson("POST", databasePath(database, "indexes/test"), { body });
    const reduced = items(member(json, "ReduceResults"));
    return reduced.length > 0 ? reduced : items(member(json, "MapResults"));
  },

  footer: (database: string, signal?: AbortSignal) =>
    request<Footer>("GET", databasePath(database, "studio/footer/stats"), { signal }),

  databaseStats: (database: string, signal?: AbortSignal) =>
    request<DatabaseStats>("GET", databasePath(database, "stats"), { signal }),
};

export function emptyDefinition(): IndexDefinition {
  return { Name: "", Maps: [""], Reduce: null, Fields: {}, Configuration: {}, AdditionalSources: {} };
}
