/** Keeps what is not saved, and asks before the window is closed. */

import { useEffect, useRef } from "react";

import { type Draft, writeDraft } from "./draft";

/** How long after the last key a draft is stored. */
const DRAFT_MILLISECONDS = 300;

/** Undefined: there is nothing to keep. New documents, whose `id` is empty, are asked about only. */
export function useDraft(database: string, id: string, draft: Draft | undefined): void {
  const { text, changeVector, base } = draft ?? {};
  const latest = useRef(draft);
  latest.current = draft;
  useEffect(() => {
    if (id === "") return undefined;
    const keep = () => writeDraft(database, id, latest.current);
    if (text === undefined) {
      keep();
      return undefined;
    }
    const timer = setTimeout(keep, DRAFT_MILLISECONDS);
    return () => clearTimeout(timer);
  }, [database, id, text, changeVector, base]);
  useEffect(() => {
    if (id === "") return undefined;
    // Whoever leaves faster than that loses nothing either.
    const keep = () => latest.current && writeDraft(database, id, latest.current);
    window.addEventListener("pagehide", keep);
    return () => {
      window.removeEventListener("pagehide", keep);
      keep();
    };
  }, [database, id]);
  const isDirty = text !== undefined;
  useEffect(() => {
    if (!isDirty) return undefined;
    const ask = (event: BeforeUnloadEvent) => event.preventDefault();
    window.addEventListener("beforeunload", ask);
    return () => window.removeEventListener("beforeunload", ask);
  }, [isDirty]);
}
