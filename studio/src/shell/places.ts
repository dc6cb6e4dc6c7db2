/** The addresses of the Studio. Everything that a page shows is in its address, so that it can be linked to. */

import { withQuery } from "../api/client";

const inDatabase = (database: string, rest: string) => `/databases/${encodeURIComponent(database)}/${rest}`;

export const places = {
  databases: "/databases",
  dashboard: "/dashboard",
  documents: (database: string, collection?: string) =>
    withQuery(inDatabase(database, "documents"), { collection }),
  document: (database: string, id: string) => withQuery(inDatabase(database, "document"), { id }),
  newDocument: (database: string, collection?: string) =>
    withQuery(inDatabase(database, "document"), { new: collection ?? "" }),
  query: (database: string, q?: string) => withQuery(inDatabase(database, "query"), { q }),
  indexes: (database: string) => inDatabase(database, "indexes"),
  index: (database: string, name: string) => withQuery(inDatabase(database, "index"), { name }),
  newIndex: (database: string) => inDatabase(database, "index"),
  transfer: (database: string) => inDatabase(database, "transfer"),
  statistics: (database: string) => inDatabase(database, "statistics"),
};

/** The database that an address is inside of. */
export function databaseOf(path: string): string | undefined {
  const found = /^\/databases\/([^/]+)\/./.exec(path)?.[1];
  return found === undefined ? undefined : decodeURIComponent(found);
}
