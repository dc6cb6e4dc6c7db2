/** The rows of a long list, loaded by the page as they come into sight. */

import { type QueryKey, useQueries, useQueryClient } from "@tanstack/react-query";
import { useCallback, useEffect, useRef, useState } from "react";

export interface Page<Row> {
  total: number;
  rows: Row[];
}

/** Rows of a page. */
export const PAGE_ROWS = 100;
/** While the list is scrolled faster than this, nothing is loaded. */
const STILL_MILLISECONDS = 80;

export function usePages<Row, P extends Page<Row>>(
  key: QueryKey,
  load: (start: number, pageSize: number, signal: AbortSignal) => Promise<P>,
  enabled = true,
) {
  const client = useQueryClient();
  const [wanted, setWanted] = useState<number[]>([0]);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => () => clearTimeout(timer.current), []);
  const results = useQueries({
    queries: wanted.map((page) => ({
      queryKey: [...key, page],
      queryFn: ({ signal }: { signal: AbortSignal }) => load(page * PAGE_ROWS, PAGE_ROWS, signal),
      staleTime: 60_000,
      gcTime: 120_000,
      enabled,
    })),
  });
  const onRange = useCallback((first: number, last: number) => {
    clearTimeout(timer.current);
    timer.current = setTimeout(() => {
      const from = Math.floor(first / PAGE_ROWS);
      const to = Math.floor(last / PAGE_ROWS);
      const next = Array.from({ length: to - from + 1 }, (_, at) => from + at);
      setWanted((old) => (old.length === next.length && old.every((page, at) => page === next[at]) ? old : next));
    }, STILL_MILLISECONDS);
  }, []);
  const loaded = results.flatMap((result) => (result.data ? [result.data] : []));
  const firstPage = client.getQueryData<P>([...key, 0]) ?? loaded[0];
  const total = loaded.at(-1)?.total ?? firstPage?.total ?? 0;
  const rowAt = (index: number): Row | undefined => {
    const page = client.getQueryData<P>([...key, Math.floor(index / PAGE_ROWS)]);
    return page?.rows[index % PAGE_ROWS];
  };
  return {
    rowAt,
    onRange,
    total,
    firstPage,
    error: results.find((result) => result.error)?.error ?? undefined,
    isLoading: firstPage === undefined && results.some((result) => result.isLoading),
    isFetching: results.some((result) => result.isFetching),
    refresh: () => client.invalidateQueries({ queryKey: key }),
  };
}
