/** A value in a cell of a table: short, and a link where it is the id of a document. */

import { Link } from "wouter";

import { type Json, compact, member, text } from "../domain/json";
import { places } from "../shell/places";

/** Longer texts are cut: the document shows them whole. */
const TEXT_MAX = 200;
const ID = /^[A-Za-z][\w.-]*\/[\w.@-]+$/;

interface JsonCellProps {
  value: Json | undefined;
  database: string;
  /** What a preview left out, from `$o` and `$a` of its metadata: the number of members or items. */
  left?: { kind: "object" | "array"; count: string } | undefined;
}

export function JsonCell({ value, database, left }: JsonCellProps) {
  if (left) return <span className="cell-nested">{left.kind === "object" ? `{ ${left.count} }` : `[ ${left.count} ]`}</span>;
  if (value === undefined) return <span className="cell-none">–</span>;
  if (value.kind === "word") return <span className={value.text === "null" ? "cell-none" : "cell-word"}>{value.text}</span>;
  if (value.kind === "string") {
    const shown = value.value.length > TEXT_MAX ? `${value.value.slice(0, TEXT_MAX)}…` : value.value;
    if (ID.test(value.value)) return <Link href={places.document(database, value.value)}>{shown}</Link>;
    return <span title={shown}>{shortDate(shown)}</span>;
  }
  return <span className="cell-nested mono">{compact(value).slice(0, TEXT_MAX)}</span>;
}

/** A date without a time of day, as .NET writes it, is shown as a date; other texts as they are. */
function shortDate(text: string): string {
  return text.replace(/^(\d{4}-\d\d-\d\d)T00:00:00(?:\.0+)?Z?$/, "$1");
}

/** What a preview left out of a property. */
export function leftOut(row: Json, name: string): JsonCellProps["left"] {
  const metadata = member(row, "@metadata");
  const object = member(member(metadata, "$o"), name);
  if (object?.kind === "word") return { kind: "object", count: object.text };
  const array = member(member(metadata, "$a"), name);
  if (array?.kind === "word") return { kind: "array", count: array.text };
  return undefined;
}

/** The id in the metadata; empty for projections. */
export function idOf(row: Json): string {
  return text(member(member(row, "@metadata"), "@id")) ?? "";
}

/** Names of the properties of rows, without the metadata, in the order in which they appear. */
export function columnsOf(rows: Json[]): string[] {
  const names = new Set<string>();
  for (const row of rows) {
    if (row.kind === "object") for (const one of row.members) if (one.name !== "@metadata") names.add(one.name);
  }
  return [...names];
}
