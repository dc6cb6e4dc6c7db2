/** How far an operation is, while it runs. */

import { useQuery } from "@tanstack/react-query";

import { type OperationState, smuggler } from "../../api/smuggler";

const INTERVAL_MILLISECONDS = 500;

export function useOperation(database: string, id: number | undefined, isRunning: boolean): OperationState | undefined {
  const { data } = useQuery({
    queryKey: ["operation", database, id],
    queryFn: async ({ signal }) => (await smuggler.operation(database, id ?? 0, signal)) ?? null,
    enabled: id !== undefined,
    refetchInterval: isRunning ? INTERVAL_MILLISECONDS : false,
    staleTime: 0,
  });
  return data ?? undefined;
}
