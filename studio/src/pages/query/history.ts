/** The last queries of a database, in this browser. */

export interface PastQuery {
  query: string;
  parameters: string;
}

const QUERIES_MAX = 30;

const key = (database: string) => `corvus.queries/${database}`;

export function readHistory(database: string): PastQuery[] {
  try {
    const stored: unknown = JSON.parse(localStorage.getItem(key(database)) ?? "[]");
    return Array.isArray(stored) ? (stored as PastQuery[]) : [];
  } catch {
    return [];
  }
}

export function remember(database: string, past: PastQuery): PastQuery[] {
  const others = readHistory(database).filter((one) => one.query !== past.query || one.parameters !== past.parameters);
  const next = [past, ...others].slice(0, QUERIES_MAX);
  localStorage.setItem(key(database), JSON.stringify(next));
  return next;
}
