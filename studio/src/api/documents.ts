/** Documents and what belongs to them. */

import { type Json, compact, items, member, parse, plain, text } from "../domain/json";
import { ApiError, databasePath, request, requestJson, send } from "./client";

export interface CollectionCounts {
  CountOfDocuments: number;
  Collections: Record<string, number>;
}

export interface AttachmentInfo {
  Name: string;
  Hash: string;
  ContentType: string;
  Size: number;
}

/** A page of a list of documents. Nested values are summaries: see `@metadata` `$o`, `$a`, `$t`. */
export interface Preview {
  total: number;
  columns: string[];
  rows: Json[];
}

/** A document as it is stored. */
export interface StoredDocument {
  id: string;
  /** Without what the server keeps itself. */
  content: Json;
  changeVector: string;
  collection: string;
  lastModified: string;
  flags: string[];
  attachments: AttachmentInfo[];
  counters: string[];
  timeSeries: string[];
}

export interface Counter {
  CounterName: string;
  TotalValue: number;
}

export interface TimeSeriesInfo {
  Name: string;
  NumberOfEntries: number;
  StartDate: string;
  EndDate: string;
}

export interface TimeSeriesEntry {
  Timestamp: string;
  Tag: string | null;
  Values: number[];
}

/** Properties of the metadata that the server writes, whatever is sent. */
const OF_THE_SERVER = new Set([
  "@id",
  "@change-vector",
  "@last-modified",
  "@flags",
  "@attachments",
  "@counters",
  "@timeseries",
  "@index-score",
  "@etag",
]);

const empty: Json = { kind: "object", members: [] };

/** A document from a list of results. */
export function stored(json: Json): StoredDocument {
  const metadata = member(json, "@metadata") ?? empty;
  const strings = (name: string) => items(member(metadata, name)).flatMap((one) => text(one) ?? []);
  const kept =
    metadata.kind === "object" ? metadata.members.filter((one) => !OF_THE_SERVER.has(one.name)) : [];
  const content: Json =
    json.kind === "object"
      ? {
          kind: "object",
          members: [
            ...json.members.filter((one) => one.name !== "@metadata"),
            { name: "@metadata", value: { kind: "object", members: kept } },
          ],
        }
      : json;
  const attachments = member(metadata, "@attachments");
  return {
    id: text(member(metadata, "@id")) ?? "",
    content,
    changeVector: text(member(metadata, "@change-vector")) ?? "",
    collection: text(member(metadata, "@collection")) ?? "@empty",
    lastModified: text(member(metadata, "@last-modified")) ?? "",
    flags: (text(member(metadata, "@flags")) ?? "").split(", ").filter((flag) => flag !== "" && flag !== "None"),
    attachments: attachments ? plain<AttachmentInfo[]>(attachments) : [],
    counters: strings("@counters"),
    timeSeries: strings("@timeseries"),
  };
}

export const documents = {
  collections: (database: string, signal?: AbortSignal) =>
    request<CollectionCounts>("GET", databasePath(database, "collections/stats"), { signal }),

  /** The last changed documents of a collection, or of all, first. Without columns, those that the server chooses. */
  preview: async (
    database: string,
    query: { collection?: string; start: number; pageSize: number; binding?: string[] },
    signal?: AbortSignal,
  ): Promise<Preview> => {
    const json = await requestJson("GET", databasePath(database, "studio/collections/preview"), { query, signal });
    const total = member(json, "TotalResults");
    const columns = items(member(json, "AvailableColumns")).flatMap((one) => text(one) ?? []);
    return { total: total ? plain<number>(total) : 0, columns, rows: items(member(json, "Results")) };
  },

  /** @returns undefined where there is no such document. */
  load: async (database: string, id: string, signal?: AbortSignal): Promise<StoredDocument | undefined> => {
    try {
      const json = await requestJson("GET", databasePath(database, "docs"), { query: { id }, signal });
      const [found] = items(member(json, "Results"));
      return found?.kind === "object" ? stored(found) : undefined;
    } catch (error) {
      if (error instanceof ApiError && error.status === 404) return undefined;
      throw error;
    }
  },

  /** Ids that begin like this, at most `pageSize`. */
  idsStartingWith: async (database: string, startsWith: string, pageSize: number, signal?: AbortSignal): Promise<string[]> => {
    const query = { startsWith, pageSize, metadataOnly: true };
    const json = await requestJson("GET", databasePath(database, "docs"), { query, signal });
    return items(member(json, "Results")).flatMap((one) => text(member(member(one, "@metadata"), "@id")) ?? []);
  },

  /** Empty change vector: only where there is no such document; null: whatever is there. */
  save: (database: string, id: string, content: Json, changeVector: string | null) => {
    const headers: Record<string, string> = {};
    if (changeVector !== null) headers["If-Match"] = `"${changeVector}"`;
    return request<{ Id: string; ChangeVector: string }>("PUT", databasePath(database, "docs"), {
      query: { id },
      body: compact(content),
      headers,
    });
  },

  remove: (database: string, id: string, changeVector?: string) => {
    const headers: Record<string, string> = changeVector ? { "If-Match": `"${changeVector}"` } : {};
    return request<undefined>("DELETE", databasePath(database, "docs"), { query: { id }, headers });
  },

  removeMany: (database: string, ids: string[]) =>
    request<unknown>("POST", databasePath(database, "bulk_docs"), {
      body: { Commands: ids.map((Id) => ({ Id, ChangeVector: null, Type: "DELETE" })) },
    }),

  /** Starts an operation that deletes the whole collection. */
  removeCollection: (database: string, name: string) =>
    request<{ OperationId: number }>("DELETE", databasePath(database, "studio/collections/docs"), {
      query: { name },
      body: { ExcludeIds: [] },
    }),

  size: (database: string, id: string, signal?: AbortSignal) =>
    request<{ ActualSize: number }>("GET", databasePath(database, "docs/size"), { query: { id }, signal }),

  revisions: async (database: string, id: string, start: number, pageSize: number, signal?: AbortSignal) => {
    const json = await requestJson("GET", databasePath(database, "revisions"), { query: { id, start, pageSize }, signal });
    const total = member(json, "TotalResults");
    return { total: total ? plain<number>(total) : 0, revisions: items(member(json, "Results")).map(stored) };
  },

  counters: (database: string, docId: string, signal?: AbortSignal) =>
    request<{ Counters: (Counter | null)[] }>("GET", databasePath(database, "counters"), { query: { docId }, signal }).then(
      (answer) => answer.Counters.filter((counter) => counter !== null),
    ),

  changeCounter: (database: string, DocumentId: string, CounterName: string, change: { by: number } | "delete") =>
    request<unknown>("POST", databasePath(database, "counters"), {
      body: {
        Documents: [
          {
            DocumentId,
            Operations: [
              change === "delete"
                ? { Type: "Delete", CounterName }
                : { Type: "Increment", CounterName, Delta: change.by },
            ],
          },
        ],
      },
    }),

  timeSeriesOf: (database: string, docId: string, signal?: AbortSignal) =>
    request<{ TimeSeries: TimeSeriesInfo[] }>("GET", databasePath(database, "timeseries/stats"), {
      query: { docId },
      signal,
    }).then((answer) => answer.TimeSeries),

  timeSeries: (database: string, docId: string, name: string, pageSize: number, signal?: AbortSignal) =>
    request<{ Entries: TimeSeriesEntry[]; TotalResults?: number }>("GET", databasePath(database, "timeseries"), {
      query: { docId, name, start: 0, pageSize },
      signal,
    }),

  appendToTimeSeries: (database: string, docId: string, Name: string, entry: { Timestamp: string; Values: number[]; Tag?: string }) =>
    request<unknown>("POST", databasePath(database, "timeseries"), { query: { docId }, body: { Name, Appends: [entry] } }),

  /** An address for links and images. */
  attachmentUrl: (database: string, id: string, name: string) =>
    `${databasePath(database, "attachments")}?${new URLSearchParams({ id, name })}`,

  putAttachment: async (database: string, id: string, file: File) => {
    const headers = { "Content-Type": file.type || "application/octet-stream" };
    const query = { id, name: file.name, contentType: file.type || "application/octet-stream" };
    await send("PUT", databasePath(database, "attachments"), { query, body: file, headers });
  },

  removeAttachment: (database: string, id: string, name: string) =>
    send("DELETE", databasePath(database, "attachments"), { query: { id, name } }),
};

/** A document with one property, to begin with. */
export function emptyDocument(collection: string): Json {
  const metadata = collection === "" ? "" : `,"@metadata":{"@collection":${JSON.stringify(collection)}}`;
  return parse(`{"Name":""${metadata}}`);
}
