/** The bar above the page: where it is, and what can be opened from everywhere. */

import { useState, useSyncExternalStore } from "react";
import { Link, useLocation, useSearchParams } from "wouter";

import { Button } from "../components/controls";
import { Menu } from "../components/dialogs";
import { Icon } from "../components/icons";
import type { Overlay } from "./App";
import { noticeBoard } from "./notices";
import { places } from "./places";
import { type Theme, readTheme, setTheme } from "./theme";

const NAMES: Record<string, string> = {
  databases: "Databases",
  dashboard: "Dashboard",
  documents: "Documents",
  document: "Documents",
  query: "Query",
  indexes: "Indexes",
  index: "Indexes",
  transfer: "Import and export",
  statistics: "Statistics",
};

export function Top({ database, onOpen }: { database: string | undefined; onOpen: (overlay: Overlay) => void }) {
  const { notices } = useSyncExternalStore(noticeBoard.subscribe, noticeBoard.read);
  const waiting = notices.filter((one) => one.severity === "Warning" || one.severity === "Error").length;
  return (
    <header className="top">
      <Crumbs database={database} />
      <Button className="jump" icon="query" onClick={() => onOpen("palette")} aria-label="Go to a page, document or index">
        <span>Go to…</span>
        <kbd>Ctrl K</kbd>
      </Button>
      <Button kind="quiet" icon="api" label="Requests behind this page" onClick={() => onOpen("api")} />
      <span className="bell">
        <Button
          kind="quiet"
          icon="bell"
          label={waiting === 0 ? "Notifications" : `Notifications, ${waiting} need attention`}
          onClick={() => onOpen("notices")}
        />
        {waiting > 0 && (
          <span className="mark" aria-hidden="true">
            {waiting}
          </span>
        )}
      </span>
      <ThemeMenu />
    </header>
  );
}

function Crumbs({ database }: { database: string | undefined }) {
  const [path] = useLocation();
  const [search] = useSearchParams();
  const page = path.split("/").pop() ?? "";
  const last = search.get("id") ?? search.get("collection") ?? search.get("name");
  const name = NAMES[page] ?? "";
  const up = page === "index" ? places.indexes : places.documents;
  return (
    <div className="crumbs">
      {database !== undefined && (
        <>
          <Link href={places.databases}>Databases</Link>
          <span aria-hidden="true">/</span>
          <span className="ellipsis">{database}</span>
          <span aria-hidden="true">/</span>
        </>
      )}
      {database !== undefined && last !== null ? <Link href={up(database)}>{name}</Link> : <span>{name}</span>}
      {last !== null && (
        <>
          <span aria-hidden="true">/</span>
          <span className="ellipsis">{last}</span>
        </>
      )}
    </div>
  );
}

function ThemeMenu() {
  const [theme, choose] = useState<Theme>(readTheme());
  const entry = (one: Theme, label: string) => ({
    label: theme === one ? `${label} ✓` : label,
    onClick: () => {
      setTheme(one);
      choose(one);
    },
  });
  return (
    <Menu
      trigger={
        <button type="button" className="button quiet icon" aria-label="Colours" title="Colours">
          <Icon name="sun" />
        </button>
      }
      entries={[entry("system", "As the system"), entry("light", "Light"), entry("dark", "Dark")]}
    />
  );
}
