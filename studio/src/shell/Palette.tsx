/** The command palette: every page, database, collection, index and document by a few letters. */

import { Dialog } from "@base-ui/react/dialog";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useEffect, useId, useRef, useState } from "react";
import { useLocation } from "wouter";

import { documents } from "../api/documents";
import { indexes } from "../api/indexes";
import { Icon, type IconName } from "../components/icons";
import { matches } from "../domain/matching";
import type { Overlay } from "./App";
import { useDatabases } from "./data";
import { places } from "./places";
import { setTheme } from "./theme";

interface Choice {
  label: string;
  kind: string;
  icon: IconName;
  run: () => void;
}

const SHOWN_MAX = 40;
const IDS_MAX = 8;

interface PaletteProps {
  open: boolean;
  database: string | undefined;
  onClose: () => void;
  onOpen: (overlay: Overlay) => void;
}

export function Palette(props: PaletteProps) {
  return (
    <Dialog.Root open={props.open} onOpenChange={(isOpen) => !isOpen && props.onClose()}>
      <Dialog.Portal>
        <Dialog.Backdrop className="backdrop" />
        <Dialog.Popup className="dialog palette" aria-label="Go to">
          <PaletteContent {...props} />
        </Dialog.Popup>
      </Dialog.Portal>
    </Dialog.Root>
  );
}

function PaletteContent({ database, onClose, onOpen }: PaletteProps) {
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const list = useRef<HTMLDivElement>(null);
  const id = useId();
  const choices = useChoices(text, database, onClose, onOpen);
  const chosen = Math.min(at, Math.max(0, choices.length - 1));
  useEffect(() => {
    list.current?.children[chosen]?.scrollIntoView({ block: "nearest" });
  }, [chosen]);
  const onKey = (event: React.KeyboardEvent) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      const step = event.key === "ArrowDown" ? 1 : -1;
      setAt((chosen + step + choices.length) % Math.max(1, choices.length));
    } else if (event.key === "Enter") {
      event.preventDefault();
      choices[chosen]?.run();
    }
  };
  return (
    <>
      <input
        className="input line"
        role="combobox"
        aria-label="Go to"
        aria-expanded="true"
        aria-controls={id}
        aria-activedescendant={choices.length > 0 ? `${id}-${chosen}` : undefined}
        placeholder={database === undefined ? "A page or a database" : "A page, an index, or the id of a document"}
        autoComplete="off"
        spellCheck={false}
        value={text}
        onChange={(event) => {
          setText(event.target.value);
          setAt(0);
        }}
        onKeyDown={onKey}
      />
      <div className="choices" role="listbox" id={id} ref={list} aria-label="Places and actions">
        {choices.map((choice, place) => (
          <div
            key={`${choice.kind} ${choice.label}`}
            id={`${id}-${place}`}
            role="option"
            aria-selected={place === chosen}
            className="choice"
            onMouseMove={() => setAt(place)}
            onClick={choice.run}
          >
            <Icon name={choice.icon} />
            <span className="ellipsis">{choice.label}</span>
            <span className="kind">{choice.kind}</span>
          </div>
        ))}
      </div>
      {choices.length === 0 && <div className="body soft">Nothing is called like this.</div>}
    </>
  );
}

function useChoices(text: string, database: string | undefined, onClose: () => void, onOpen: (overlay: Overlay) => void): Choice[] {
  const [, go] = useLocation();
  const to = (label: string, kind: string, icon: IconName, place: string): Choice => ({
    label,
    kind,
    icon,
    run: () => {
      onClose();
      go(place);
    },
  });
  const act = (label: string, icon: IconName, run: () => void): Choice => ({ label, kind: "action", icon, run });
  const databases = (useDatabases().data ?? []).map((one) => to(one.Name, "database", "database", places.documents(one.Name)));
  const inside = useInside(text, database);
  const theme = (name: "light" | "dark" | "system") => () => {
    setTheme(name);
    onClose();
  };
  const all: Choice[] = [
    to("Databases", "page", "database", places.databases),
    to("Dashboard", "page", "dashboard", places.dashboard),
    ...(database === undefined
      ? []
      : [
          to("Documents", "page", "documents", places.documents(database)),
          to("New document", "action", "plus", places.newDocument(database)),
          to("Query", "page", "query", places.query(database)),
          to("Indexes", "page", "index", places.indexes(database)),
          to("New index", "action", "plus", places.newIndex(database)),
          to("Import and export", "page", "transfer", places.transfer(database)),
          to("Statistics", "page", "statistics", places.statistics(database)),
          ...inside.collections.map((name) => to(name, "collection", "documents", places.documents(database, name))),
          ...inside.indexes.map((name) => to(name, "index", "index", places.index(database, name))),
        ]),
    ...databases,
    act("Show the requests behind this page", "api", () => onOpen("api")),
    act("Show notifications", "bell", () => onOpen("notices")),
    act("Show keyboard shortcuts", "edit", () => onOpen("shortcuts")),
    act("Light colours", "sun", theme("light")),
    act("Dark colours", "sun", theme("dark")),
    act("Colours as the system", "sun", theme("system")),
  ];
  const ids = database === undefined ? [] : inside.ids.map((one) => to(one, "document", "file", places.document(database, one)));
  return [...ids, ...all.filter((choice) => matches(choice.label, text))].slice(0, SHOWN_MAX);
}

/** What the open database has that the text may mean. */
function useInside(text: string, database: string | undefined) {
  const of = database ?? "";
  const enabled = database !== undefined;
  const names = useQuery({
    queryKey: ["indexes", of, "stats"],
    queryFn: ({ signal }) => indexes.stats(of, signal),
    enabled,
  });
  const collections = useQuery({
    queryKey: ["collections", of],
    queryFn: ({ signal }) => documents.collections(of, signal),
    enabled,
  });
  const typed = text.trim();
  const ids = useQuery({
    queryKey: ["ids", of, typed],
    queryFn: ({ signal }) => documents.idsStartingWith(of, typed, IDS_MAX, signal),
    enabled: enabled && typed.length > 1,
    placeholderData: keepPreviousData,
  });
  return {
    indexes: (names.data ?? []).map((one) => one.Name),
    collections: Object.keys(collections.data?.Collections ?? {}),
    ids: typed.length > 1 ? (ids.data ?? []) : [],
  };
}
