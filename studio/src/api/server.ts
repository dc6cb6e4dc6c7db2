/** What concerns the server as a whole, and its list of databases. */

import { request } from "./client";

export interface DatabaseSummary {
  Name: string;
  IsDisabled: boolean;
  IsEncrypted: boolean;
  IndexesCount: number;
  LockMode: "Unlock" | "PreventDeletesIgnore" | "PreventDeletesError";
  DeletionInProgress: Record<string, string>;
}

export interface Size {
  SizeInBytes: number;
}

export interface DatabaseState {
  Name: string;
  TotalSize: Size;
  TempBuffersSize: Size;
  /** A .NET time span; null while the database is not open. */
  UpTime: string | null;
  Alerts: number;
  IndexingErrors: number;
  DocumentsCount: number;
  IndexingStatus: string;
  DatabaseStatus: "Online" | "Loading" | "Error" | "Disabled" | "None";
}

export interface NodeInfo {
  NodeTag: string;
  NumberOfCores: number;
  InstalledMemoryInGb: number;
  OsInfo: { FullName: string };
  CurrentState: string;
}

export interface Validity {
  IsValid: boolean;
  ErrorMessage: string | null;
}

export const server = {
  databases: (signal?: AbortSignal) =>
    request<{ Databases: DatabaseSummary[] }>("GET", "/studio-tasks/databases", { signal }).then((answer) => answer.Databases),

  states: (signal?: AbortSignal) =>
    request<{ Databases: DatabaseState[] }>("GET", "/studio-tasks/databases/state", { signal }).then((answer) => answer.Databases),

  node: (signal?: AbortSignal) => request<NodeInfo>("GET", "/cluster/node-info", { signal }),

  facts: (signal?: AbortSignal) => request<{ Version: string; ProtocolVersion: string }>("GET", "/", { signal, headers: { Accept: "application/json" } }),

  isValidName: (name: string, signal?: AbortSignal) =>
    request<Validity>("GET", "/studio-tasks/is-valid-name", { query: { type: "Database", name }, signal }),

  create: (name: string) =>
    request<unknown>("PUT", "/admin/databases", { query: { name, replicationFactor: 1 }, body: { DatabaseName: name } }),

  createSampleData: (name: string) =>
    request<unknown>("POST", `/databases/${encodeURIComponent(name)}/studio/sample-data`),

  remove: (names: string[]) =>
    request<unknown>("DELETE", "/admin/databases", { body: { DatabaseNames: names, HardDelete: true } }),

  setDisabled: (names: string[], disabled: boolean) =>
    request<{ Status: { Name: string; Success: boolean; Reason: string | null }[] }>(
      "POST",
      disabled ? "/admin/databases/disable" : "/admin/databases/enable",
      { body: { DatabaseNames: names } },
    ),
};
