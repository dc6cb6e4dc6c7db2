/** Queries. */

import { type Json, items, member, plain, text } from "../domain/json";
import { databasePath, request, requestJson } from "./client";

export interface Timings {
  DurationInMs: number;
  Timings: Record<string, Timings> | null;
}

export interface QueryResult {
  /** Those that the query returns. */
  total: number;
  /** Those that match, where a limit returns fewer. */
  matching: number;
  durationInMs: number;
  indexName: string;
  isStale: boolean;
  results: Json[];
  includes: [string, Json][];
  timings: Timings | undefined;
  explanations: [string, string[]][];
  highlightings: Json | undefined;
}

export interface QueryRequest {
  query: string;
  /** An object; undefined for none. */
  parameters?: Json;
  start: number;
  pageSize: number;
}

const valueOf = <T>(json: Json, name: string): T | undefined => {
  const found = member(json, name);
  return found === undefined ? undefined : plain<T>(found);
};

export const queries = {
  run: async (database: string, of: QueryRequest, signal?: AbortSignal): Promise<QueryResult> => {
    const body: Record<string, unknown> = { Query: of.query, Start: of.start, PageSize: of.pageSize };
    if (of.parameters) body.QueryParameters = plain(of.parameters);
    const json = await requestJson("POST", databasePath(database, "queries"), { body, signal });
    const includes = member(json, "Includes");
    const explanations = valueOf<Record<string, string[]>>(json, "Explanations");
    const matching = valueOf<number>(json, "LongTotalResults") ?? valueOf<number>(json, "TotalResults") ?? 0;
    return {
      total: valueOf<number>(json, "CappedMaxResults") ?? matching,
      matching,
      durationInMs: valueOf<number>(json, "DurationInMs") ?? 0,
      indexName: text(member(json, "IndexName")) ?? "",
      isStale: valueOf<boolean>(json, "IsStale") ?? false,
      results: items(member(json, "Results")),
      includes: includes?.kind === "object" ? includes.members.map((one) => [one.name, one.value]) : [],
      timings: valueOf<Timings>(json, "Timings"),
      explanations: Object.entries(explanations ?? {}),
      highlightings: member(json, "Highlightings"),
    };
  },

  /** How many documents a query finds. */
  count: async (database: string, query: string, parameters: Json | undefined, signal?: AbortSignal): Promise<number> =>
    (await queries.run(database, { query, parameters, start: 0, pageSize: 1 }, signal)).total,

  /** Starts an operation that changes every document of a query with an `update` clause. */
  update: (database: string, query: string, parameters: Json | undefined) =>
    request<{ OperationId: number }>("PATCH", databasePath(database, "queries"), {
      body: { Query: { Query: query, ...(parameters && { QueryParameters: plain(parameters) }) } },
    }),

  /** What an `update` clause would make of one document. Nothing is stored. */
  tryUpdate: async (database: string, query: string, parameters: Json | undefined, id: string) => {
    const json = await requestJson("PATCH", databasePath(database, "queries/test"), {
      query: { id },
      body: { Query: { Query: query, ...(parameters && { QueryParameters: plain(parameters) }) } },
    });
    return {
      before: member(json, "OriginalDocument"),
      after: member(json, "ModifiedDocument"),
      output: items(member(member(json, "Debug"), "Output")).flatMap((one) => text(one) ?? []),
    };
  },

  /** Starts an operation that deletes every document of a query. */
  remove: (database: string, query: string, parameters: Json | undefined) =>
    request<{ OperationId: number }>("DELETE", databasePath(database, "queries"), {
      body: { Query: query, ...(parameters && { QueryParameters: plain(parameters) }) },
    }),

  /** Property names of a collection, for completion. */
  fields: async (database: string, collection: string, signal?: AbortSignal): Promise<string[]> => {
    const query = { collection, prefix: "" };
    const json = await requestJson("GET", databasePath(database, "studio/collections/fields"), { query, signal, silent: true });
    return json.kind === "object" ? json.members.map((one) => one.name) : [];
  },
};
