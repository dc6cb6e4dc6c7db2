/** Where the bytes of a database are. */

import { databasePath, request } from "./client";

export interface EnvironmentReport {
  Name: string;
  Type: "Documents" | "Index" | string;
  Report: {
    DataFile: { AllocatedSpaceInBytes: number; UsedSpaceInBytes: number; FreeSpaceInBytes: number };
    Journals: { AllocatedSpaceInBytes: number }[];
    TempFiles: { AllocatedSpaceInBytes?: number }[];
  };
}

export interface HugeDocument {
  Id: string;
  Size: number;
}

export const statistics = {
  storage: (database: string, signal?: AbortSignal) =>
    request<{ BasePath: string; Results: EnvironmentReport[] }>("GET", databasePath(database, "debug/storage/report"), { signal }),
};
