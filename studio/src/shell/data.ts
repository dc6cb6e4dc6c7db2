/** What several pages read from the server, under one key each. */

import { keepPreviousData, useQuery } from "@tanstack/react-query";

import { documents } from "../api/documents";
import { indexes } from "../api/indexes";
import { server } from "../api/server";

export const useDatabases = () =>
  useQuery({ queryKey: ["databases", "list"], queryFn: ({ signal }) => server.databases(signal) });

export const useDatabaseStates = () =>
  useQuery({
    queryKey: ["databases", "states"],
    queryFn: ({ signal }) => server.states(signal),
    refetchInterval: 10_000,
    placeholderData: keepPreviousData,
  });

export const useCollections = (database: string) =>
  useQuery({ queryKey: ["collections", database], queryFn: ({ signal }) => documents.collections(database, signal) });

export const useFooter = (database: string) =>
  useQuery({ queryKey: ["footer", database], queryFn: ({ signal }) => indexes.footer(database, signal) });

export const useIndexStats = (database: string) =>
  useQuery({ queryKey: ["indexes", database, "stats"], queryFn: ({ signal }) => indexes.stats(database, signal) });

export const useFacts = () =>
  useQuery({ queryKey: ["facts"], queryFn: ({ signal }) => server.facts(signal), staleTime: Infinity });
