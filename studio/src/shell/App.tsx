/** The frame around all pages, and which page an address is. */

import "../tokens.css";
import "../base.css";
import "./shell.css";

import { CSPProvider } from "@base-ui/react/csp-provider";
import { MutationCache, QueryClient, QueryClientProvider, useQueryClient } from "@tanstack/react-query";
import { Suspense, lazy, useEffect, useState, useSyncExternalStore } from "react";
import { Redirect, Route, Router, Switch, useLocation } from "wouter";

import { ApiError } from "../api/client";
import { Problem } from "../components/controls";
import { Toasts } from "../components/dialogs";
import { ErrorBoundary } from "../components/ErrorBoundary";
import { DatabasesPage } from "../pages/databases/DatabasesPage";
import { ApiDrawer } from "./ApiDrawer";
import { NoticeDrawer } from "./NoticeDrawer";
import { Palette } from "./Palette";
import { ShortcutSheet } from "./ShortcutSheet";
import { Side } from "./Side";
import { Top } from "./Top";
import { useDatabases } from "./data";
import { followDatabase, followServer, noticeBoard } from "./notices";
import { databaseOf, places } from "./places";

const DashboardPage = lazy(() => import("../pages/dashboard/DashboardPage"));
const DocumentsPage = lazy(() => import("../pages/documents/DocumentsPage"));
const DocumentPage = lazy(() => import("../pages/document/DocumentPage"));
const QueryPage = lazy(() => import("../pages/query/QueryPage"));
const IndexesPage = lazy(() => import("../pages/indexes/IndexesPage"));
const IndexPage = lazy(() => import("../pages/indexes/IndexPage"));
const TransferPage = lazy(() => import("../pages/transfer/TransferPage"));
const StatisticsPage = lazy(() => import("../pages/statistics/StatisticsPage"));

const PAGES = {
  documents: DocumentsPage,
  document: DocumentPage,
  query: QueryPage,
  indexes: IndexesPage,
  index: IndexPage,
  transfer: TransferPage,
  statistics: StatisticsPage,
};

/** What the server refused is not asked again; what it did not answer is. */
function retry(failures: number, error: Error): boolean {
  const isAnswered = error instanceof ApiError && error.status !== 0 && error.status !== 503;
  return !isAnswered && failures < 2;
}

const client = new QueryClient({
  mutationCache: new MutationCache(),
  defaultOptions: { queries: { retry, staleTime: 1000, refetchOnWindowFocus: false } },
});

export function App() {
  return (
    <CSPProvider disableStyleElements>
      <QueryClientProvider client={client}>
        <Toasts>
          <Router base="/studio">
            <Frame />
          </Router>
        </Toasts>
      </QueryClientProvider>
    </CSPProvider>
  );
}

export type Overlay = "palette" | "api" | "notices" | "shortcuts" | undefined;

function Frame() {
  const [path] = useLocation();
  const database = databaseOf(path);
  const [overlay, setOverlay] = useState<Overlay>();
  useFeeds(database);
  useShortcuts(setOverlay);
  return (
    <div className="shell">
      <a className="button skip" href="#content">
        Skip to content
      </a>
      <Side database={database} />
      <Top database={database} onOpen={setOverlay} />
      <main id="content" tabIndex={-1}>
        <LostBanner />
        <ErrorBoundary key={path}>
          <Suspense fallback={<div className="page" aria-busy="true" />}>
            <Pages database={database} />
          </Suspense>
        </ErrorBoundary>
      </main>
      <Palette open={overlay === "palette"} database={database} onClose={() => setOverlay(undefined)} onOpen={setOverlay} />
      <ApiDrawer open={overlay === "api"} onClose={() => setOverlay(undefined)} />
      <NoticeDrawer open={overlay === "notices"} onClose={() => setOverlay(undefined)} />
      <ShortcutSheet open={overlay === "shortcuts"} onClose={() => setOverlay(undefined)} />
    </div>
  );
}

function Pages({ database }: { database: string | undefined }) {
  return (
    <Switch>
      <Route path={places.databases} component={DatabasesPage} />
      <Route path={places.dashboard} component={DashboardPage} />
      {Object.entries(PAGES).map(([name, Page]) => (
        <Route key={name} path={`/databases/:database/${name}`}>
          {database !== undefined && (
            <Existing database={database}>
              <Page key={database} database={database} />
            </Existing>
          )}
        </Route>
      ))}
      <Route>
        <Redirect to={places.databases} replace />
      </Route>
    </Switch>
  );
}

/** The page of a database, or what to do when there is no such database. */
function Existing({ database, children }: { database: string; children: React.ReactNode }) {
  const { data, error } = useDatabases();
  if (error) {
    return (
      <div className="page">
        <Problem error={error} doing="Loading the databases" />
      </div>
    );
  }
  // Nothing is asked of a database that may not be there.
  if (!data) return <div className="page" aria-busy="true" />;
  if (!data.some((one) => one.Name.toLowerCase() === database.toLowerCase())) {
    return (
      <div className="page">
        <div className="notice warn" role="alert">
          <div>
            <div className="title">There is no database “{database}”</div>
            <p className="soft">It may have been deleted, or you may not be allowed to see it. Choose another one from Databases.</p>
          </div>
        </div>
      </div>
    );
  }
  return children;
}

function useFeeds(database: string | undefined): void {
  const queryClient = useQueryClient();
  const { data } = useDatabases();
  const isOpen = data?.some((one) => one.Name.toLowerCase() === database?.toLowerCase() && !one.IsDisabled) ?? false;
  useEffect(() => followServer(queryClient), [queryClient]);
  useEffect(() => {
    if (database === undefined || !isOpen) return undefined;
    return followDatabase(database, queryClient);
  }, [database, isOpen, queryClient]);
}

function useShortcuts(open: (overlay: Overlay) => void): void {
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      const isTyping = (event.composedPath()[0] as HTMLElement | undefined)?.matches?.("input, textarea, select, [contenteditable=true]") ?? false;
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
        event.preventDefault();
        open("palette");
      } else if (event.key === "?" && !isTyping) {
        open("shortcuts");
      }
    };
    window.addEventListener("keydown", onKey);
    return () => window.removeEventListener("keydown", onKey);
  }, [open]);
}

function LostBanner() {
  const { connection } = useSyncExternalStore(noticeBoard.subscribe, noticeBoard.read);
  if (connection !== "lost") return null;
  return (
    <div className="lost" role="status">
      The server does not answer. Reconnecting… What you have typed is kept.
    </div>
  );
}
