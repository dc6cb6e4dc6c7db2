/** Export and import. */

import { type Json, parse } from "../domain/json";
import { ApiError, databasePath, request, send } from "./client";

/** One kind of item, as the result of an export or an import counts it. */
export interface Section {
  Processed: boolean;
  ReadCount: number;
  ErroredCount: number;
  SkippedCount?: number;
  Skipped: boolean;
}

export type SmugglerResult = { Messages?: string[]; Elapsed?: string } & Record<string, unknown>;

/** What dumps can contain, with the words of the protocol. */
export const ITEM_TYPES: [string, string][] = [
  ["DatabaseRecord", "Configuration"],
  ["Documents", "Documents"],
  ["RevisionDocuments", "Revisions"],
  ["Indexes", "Indexes"],
  ["Attachments", "Attachments"],
  ["CounterGroups", "Counters"],
  ["TimeSeries", "Time series"],
  ["Identities", "Identities"],
  ["CompareExchange", "Compare exchange values"],
  ["Subscriptions", "Subscriptions"],
];

export interface ExportOptions {
  types: string[];
  /** None: all of them. */
  collections: string[];
  script: string;
}

/** The sections of a result that were read, by name. */
export function sectionsOf(result: SmugglerResult | null | undefined): [string, Section][] {
  return Object.entries(result ?? {}).flatMap(([name, value]) => {
    const section = value as Section | null;
    const isSection = typeof section === "object" && section !== null && "ReadCount" in section;
    return isSection && (section.ReadCount > 0 || section.ErroredCount > 0) ? [[name, section] as [string, Section]] : [];
  });
}

export const smuggler = {
  nextOperation: (database: string) =>
    request<{ Id: number }>("GET", databasePath(database, "operations/next-operation-id")).then((answer) => answer.Id),

  cancel: (database: string, id: number) => request<unknown>("POST", databasePath(database, "operations/kill"), { query: { id } }),

  export: (database: string, operationId: number, options: ExportOptions, signal: AbortSignal): Promise<Response> =>
    send("POST", databasePath(database, "smuggler/export"), {
      query: { operationId },
      body: {
        OperateOnTypes: options.types.join(","),
        Collections: options.collections,
        ...(options.script.trim() === "" ? {} : { TransformScript: options.script }),
      },
      signal,
    }),

  /** Sends a file, and tells how much of it has been sent. Its name decides what it is. */
  import: (
    database: string,
    operationId: number,
    file: File,
    options: { types: string[]; collection: string; script: string },
    onSent: (bytes: number) => void,
    signal: AbortSignal,
  ): Promise<Json> => {
    const kind = kindOf(file.name);
    const route = kind === "dump" ? "smuggler/import" : `smuggler/import/${kind}`;
    const query = new URLSearchParams({ operationId: String(operationId) });
    if (kind !== "dump" && options.collection !== "") query.set("collection", options.collection);
    const form = new FormData();
    if (kind === "dump") {
      const script = options.script.trim() === "" ? {} : { TransformScript: options.script };
      form.append("importOptions", JSON.stringify({ OperateOnTypes: options.types.join(","), ...script }));
    }
    form.append("file", file, file.name);
    return upload(`${databasePath(database, route)}?${query}`, form, onSent, signal);
  },
};

export type FileKind = "dump" | "csv" | "jsonl";

export function kindOf(name: string): FileKind {
  const plain = name.toLowerCase().replace(/\.(gz|zst)$/, "");
  if (plain.endsWith(".csv")) return "csv";
  return plain.endsWith(".jsonl") || plain.endsWith(".ndjson") ? "jsonl" : "dump";
}

/** `fetch` does not tell how much it has sent. */
function upload(url: string, form: FormData, onSent: (bytes: number) => void, signal: AbortSignal): Promise<Json> {
  return new Promise((resolve, reject) => {
    const sender = new XMLHttpRequest();
    sender.open("POST", url);
    sender.upload.onprogress = (event) => onSent(event.loaded);
    sender.onerror = () => reject(new ApiError(0, "The server does not answer.", "NoAnswer", ""));
    sender.onabort = () => reject(new ApiError(0, "The import was cancelled.", "Cancelled", ""));
    sender.onload = () => {
      try {
        const json = parse(sender.responseText);
        if (sender.status < 400) return resolve(json);
        const { Message, Type, Error: details } = JSON.parse(sender.responseText) as Record<string, string>;
        return reject(new ApiError(sender.status, Message ?? `The server says ${sender.status}.`, Type ?? "", details ?? "", json));
      } catch {
        return reject(new ApiError(sender.status, `The server says ${sender.status}.`, "", sender.responseText));
      }
    };
    signal.addEventListener("abort", () => sender.abort());
    sender.send(form);
  });
}
