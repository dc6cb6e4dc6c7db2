/** Text that was written and not saved: it outlives a reload of the page and a restart of the server. */

export interface Draft {
  text: string;
  /** The version that it is based on; empty for a new document. */
  changeVector: string;
  /** That version's text, for a merge. */
  base: string;
}

const key = (database: string, id: string) => `corvus.draft/${database}/${id}`;

export function readDraft(database: string, id: string): Draft | undefined {
  const stored = sessionStorage.getItem(key(database, id));
  if (stored === null) return undefined;
  try {
    return JSON.parse(stored) as Draft;
  } catch {
    return undefined;
  }
}

export function writeDraft(database: string, id: string, draft: Draft | undefined): void {
  if (draft === undefined) {
    sessionStorage.removeItem(key(database, id));
    return;
  }
  try {
    sessionStorage.setItem(key(database, id), JSON.stringify(draft));
  } catch {
    // Too large for the storage: it is kept in the page, which asks before it is left.
  }
}
