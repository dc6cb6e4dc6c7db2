/**
 * Requests to the server. Every one is recorded for the API drawer, and every failure is an `ApiError` with what the
 * server said.
 */

import { type Json, member, parse, plain, text } from "../domain/json";

export interface Exchange {
  id: number;
  method: string;
  /** Path and query. */
  url: string;
  /** The body, if it was text. */
  body?: string;
  /** Undefined while the response has not arrived; 0 when none did. */
  status?: number;
  milliseconds?: number;
}

/** Older ones are forgotten. */
const EXCHANGES_MAX = 100;
/** Longer bodies are shown in part. */
const SHOWN_BODY_MAX = 20_000;

let exchanges: readonly Exchange[] = [];
let nextExchange = 1;
const listeners = new Set<() => void>();

/** The last requests, newest first; for `useSyncExternalStore`. */
export const exchangeLog = {
  subscribe(listener: () => void): () => void {
    listeners.add(listener);
    return () => listeners.delete(listener);
  },
  read: (): readonly Exchange[] => exchanges,
};

function record(exchange: Exchange): void {
  exchanges = [exchange, ...exchanges.filter((one) => one.id !== exchange.id)]
    .sort((one, other) => other.id - one.id)
    .slice(0, EXCHANGES_MAX);
  for (const listener of listeners) listener();
}

/** A request that failed. */
export class ApiError extends Error {
  /** 0: the server did not answer. */
  readonly status: number;
  /** The last part of the .NET type that the protocol names, such as `ConcurrencyException`. */
  readonly type: string;
  /** The whole error as the server reports it. */
  readonly details: string;
  readonly body: Json | undefined;

  constructor(status: number, message: string, type: string, details: string, body?: Json) {
    super(message);
    this.name = "ApiError";
    this.status = status;
    this.type = type;
    this.details = details;
    this.body = body;
  }
}

export interface RequestOptions {
  query?: Record<string, string | number | boolean | undefined | null | readonly string[]>;
  /** Text is sent as it is, anything else as JSON. */
  body?: unknown;
  headers?: Record<string, string>;
  signal?: AbortSignal;
  /** Not recorded: a request that repeats by itself. */
  silent?: boolean;
}

export function withQuery(path: string, query: RequestOptions["query"]): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) {
    if (value === undefined || value === null) continue;
    for (const one of Array.isArray(value) ? value : [value]) parameters.append(name, String(one));
  }
  const written = parameters.toString();
  return written === "" ? path : `${path}?${written}`;
}

/** The path of a database. */
export function databasePath(database: string, rest: string): string {
  return `/databases/${encodeURIComponent(database)}/${rest}`;
}

/** @throws {ApiError} for every status of 400 and above, and when the server does not answer. */
export async function send(method: string, path: string, options: RequestOptions = {}): Promise<Response> {
  const url = withQuery(path, options.query);
  const isRaw = options.body instanceof Blob || options.body instanceof FormData;
  const body =
    options.body === undefined || isRaw
      ? (options.body as BodyInit | undefined)
      : typeof options.body === "string"
        ? options.body
        : JSON.stringify(options.body);
  const exchange: Exchange = { id: nextExchange++, method, url };
  if (typeof body === "string") exchange.body = body.slice(0, SHOWN_BODY_MAX);
  const headers = { ...options.headers };
  if (body !== undefined && !(body instanceof FormData)) headers["Content-Type"] ??= "application/json";
  const began = performance.now();
  const done = (status: number) => {
    if (!options.silent) record({ ...exchange, status, milliseconds: performance.now() - began });
  };
  if (!options.silent) record(exchange);
  let response: Response;
  try {
    const init: RequestInit = { method, headers, credentials: "same-origin" };
    if (body !== undefined) init.body = body;
    if (options.signal) init.signal = options.signal;
    response = await fetch(url, init);
  } catch (error) {
    done(0);
    if (options.signal?.aborted) throw error;
    throw new ApiError(0, "The server does not answer.", "NoAnswer", String(error));
  }
  done(response.status);
  if (response.status >= 400) throw await failure(response);
  return response;
}

/** The response as JSON, undefined when it has no body. */
export async function request<T>(method: string, path: string, options: RequestOptions = {}): Promise<T> {
  const response = await send(method, path, options);
  const body = await response.text();
  return (body === "" ? undefined : JSON.parse(body)) as T;
}

/** The response as JSON that keeps the text of numbers. */
export async function requestJson(method: string, path: string, options: RequestOptions = {}): Promise<Json> {
  const response = await send(method, path, options);
  return parse(await response.text());
}

async function failure(response: Response): Promise<ApiError> {
  const body = await response.text();
  try {
    const json = parse(body);
    const type = text(member(json, "Type")) ?? "";
    const message = text(member(json, "Message")) ?? response.statusText;
    return new ApiError(response.status, message, type.replace(/^.*[.+]/, ""), text(member(json, "Error")) ?? body, json);
  } catch {
    const message = response.status === 404 ? "There is no such thing on the server." : `The server says ${response.status}.`;
    return new ApiError(response.status, message, "", body);
  }
}

/** Whether the error says that something does not exist. */
export function isMissing(error: unknown): boolean {
  return error instanceof ApiError && error.status === 404;
}

export { plain };
