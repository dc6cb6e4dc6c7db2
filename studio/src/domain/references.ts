/** Texts in a document that look like ids of other documents. */

import type { Json } from "./json";

const ID = /^[A-Za-z][\w.-]*\/[\w.@/-]+$/;
/** A document with more is not a list of references. */
const IDS_MAX = 100;

export interface Reference {
  id: string;
  /** Names from the top, joined by dots. */
  path: string;
}

/** Each id once, with the first place where it is. The metadata is left out. */
export function idsIn(json: Json): Reference[] {
  const found = new Map<string, string>();
  collect(json, [], found);
  return [...found].slice(0, IDS_MAX).map(([id, path]) => ({ id, path }));
}

function collect(json: Json, path: string[], found: Map<string, string>): void {
  if (json.kind === "string") {
    if (ID.test(json.value) && !found.has(json.value)) found.set(json.value, path.join("."));
  } else if (json.kind === "array") {
    for (const item of json.items) collect(item, path, found);
  } else if (json.kind === "object") {
    for (const { name, value } of json.members) if (name !== "@metadata") collect(value, [...path, name], found);
  }
}
