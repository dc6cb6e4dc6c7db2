/** What the Studio needs to know of RQL; the server parses it. */

/** What begins a part of a query. */
export const CLAUSES = ["where", "group by", "order by", "load", "select", "update", "include", "limit", "offset", "filter"];

export const KEYWORDS = [
  ..."from index where group by order load select distinct update include limit offset filter filter_limit as desc asc".split(" "),
  ..."and or not between in all any true false null declare function timeseries with long double string alphanumeric".split(" "),
];

export const FUNCTIONS = [
  { name: "id", about: "the id of the document" },
  { name: "search", about: "words in a text" },
  { name: "startsWith", about: "the beginning of a text" },
  { name: "endsWith", about: "the end of a text" },
  { name: "exists", about: "has the property" },
  { name: "exact", about: "upper and lower case count" },
  { name: "boost", about: "more important" },
  { name: "fuzzy", about: "similar words" },
  { name: "proximity", about: "words near each other" },
  { name: "regex", about: "a pattern" },
  { name: "lucene", about: "Lucene's syntax" },
  { name: "intersect", about: "all of several conditions" },
  { name: "spatial.within", about: "inside a shape" },
  { name: "spatial.circle", about: "a circle" },
  { name: "spatial.point", about: "a point" },
  { name: "moreLikeThis", about: "similar documents" },
  { name: "suggest", about: "similar terms" },
  { name: "facet", about: "counts by value" },
  { name: "count", about: "number of documents" },
  { name: "sum", about: "sum of a property" },
  { name: "key", about: "the key of the group" },
  { name: "score", about: "order by relevance" },
  { name: "random", about: "a random order" },
  { name: "highlight", about: "where the words are" },
  { name: "explanations", about: "how results were scored" },
  { name: "timings", about: "how long each step took" },
  { name: "counters", about: "counters of the documents" },
];

/** Comments and texts replaced by blanks of the same length, so that words in them are not taken for keywords. */
export function withoutTexts(query: string): string {
  return query.replaceAll(/\/\*[\s\S]*?(?:\*\/|$)|\/\/[^\n]*|'(?:[^'\\]|\\.)*'?|"(?:[^"\\]|\\.)*"?/g, (found) =>
    " ".repeat(found.length),
  );
}

/** The clause that the end of this text is in; empty before the first. */
export function clauseBefore(text: string): string {
  const words = /\b(from|where|group\s+by|order\s+by|load|select|update|include|limit|offset|filter)\b/gi;
  return [...withoutTexts(text).matchAll(words)].at(-1)?.[1]?.toLowerCase().replaceAll(/\s+/g, " ") ?? "";
}

export interface Source {
  kind: "collection" | "index";
  name: string;
}

/** What a query reads. */
export function sourceOf(query: string): Source | undefined {
  const found = /(?:^|[\s}])from\s+(index\s+)?(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"|([@\w]+))/i.exec(query);
  if (!found) return undefined;
  const name = (found[2] ?? found[3] ?? found[4] ?? "").replaceAll(/\\(.)/g, "$1");
  return { kind: found[1] ? "index" : "collection", name };
}

/** The place that an error of the server names at its beginning, such as `1:18 Expected…`, as an offset. */
export function errorPosition(query: string, message: string): number | undefined {
  const found = /^(\d+):(\d+)\s/.exec(message);
  if (!found) return undefined;
  const lines = query.split("\n");
  const line = Number(found[1]) - 1;
  if (line >= lines.length) return undefined;
  const before = lines.slice(0, line).reduce((sum, one) => sum + one.length + 1, 0);
  return Math.min(before + Number(found[2]) - 1, before + (lines[line]?.length ?? 0));
}

/** The names of the parameters of a query, without `$`, in the order in which they appear. */
export function parametersOf(query: string): string[] {
  return [...new Set([...withoutTexts(query).matchAll(/\$(\w+)/g)].map((found) => found[1] ?? ""))];
}

/** The query in front of an `update` clause, without the script; undefined where there is no such clause. */
export function withoutUpdate(query: string): string | undefined {
  const found = /\bupdate\s*\{/i.exec(withoutTexts(query));
  return found ? query.slice(0, found.index).trimEnd() : undefined;
}
