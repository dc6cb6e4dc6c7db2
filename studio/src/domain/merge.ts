/**
 * The three-way merge of a document: what was loaded (base), what is on the server now (theirs), and what was written
 * here (mine). Objects are merged property by property; everything else is one value.
 */

import { type Json, member, nothing, same } from "./json";

export type Side = "theirs" | "mine";

/** A property that both sides changed differently. Undefined: it is not there. */
export interface Conflict {
  /** Names from the top. */
  path: string[];
  base: Json | undefined;
  theirs: Json | undefined;
  mine: Json | undefined;
}

export interface Merge {
  /** With every conflict decided as `choose` says. */
  merged: Json;
  conflicts: Conflict[];
  /** Paths that only one side changed. */
  taken: { path: string[]; side: Side }[];
}

export function merge(base: Json | undefined, theirs: Json, mine: Json, choose: (path: string[]) => Side): Merge {
  const result: Merge = { merged: nothing, conflicts: [], taken: [] };
  result.merged = mergeValue([], base, theirs, mine, choose, result) ?? nothing;
  return result;
}

function mergeValue(
  path: string[],
  base: Json | undefined,
  theirs: Json | undefined,
  mine: Json | undefined,
  choose: (path: string[]) => Side,
  result: Merge,
): Json | undefined {
  if (same(theirs, mine)) return mine;
  if (same(base, theirs)) {
    result.taken.push({ path, side: "mine" });
    return mine;
  }
  if (same(base, mine)) {
    result.taken.push({ path, side: "theirs" });
    return theirs;
  }
  if (theirs?.kind === "object" && mine?.kind === "object") {
    const members = namesOf(mine, theirs).flatMap((name) => {
      const of = (json: Json | undefined) => member(json, name);
      const value = mergeValue([...path, name], of(base), of(theirs), of(mine), choose, result);
      return value === undefined ? [] : [{ name, value }];
    });
    return { kind: "object", members };
  }
  result.conflicts.push({ path, base, theirs, mine });
  return choose(path) === "mine" ? mine : theirs;
}

/** The names of both in the order of the first, then what only the second has. */
function namesOf(first: Json, second: Json): string[] {
  const names = (json: Json) => (json.kind === "object" ? json.members.map((one) => one.name) : []);
  return [...new Set([...names(first), ...names(second)])];
}
