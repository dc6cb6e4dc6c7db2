/** The documents of a database or of a collection, the last changed ones first. */

import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { Link, useLocation, useSearchParams } from "wouter";

import { databasePath, withQuery } from "../../api/client";
import { type Preview, documents } from "../../api/documents";
import { server } from "../../api/server";
import { Button, Empty, Moment, Problem } from "../../components/controls";
import { Confirm, Menu, say } from "../../components/dialogs";
import { JsonCell, idOf, leftOut } from "../../components/JsonCell";
import { type Column, VirtualTable } from "../../components/VirtualTable";
import { usePages } from "../../components/usePages";
import { type Json, member, text } from "../../domain/json";
import { ago, counted } from "../../domain/units";
import { places } from "../../shell/places";
import { useCollections } from "../../shell/data";
import { usePageTitle } from "../../shell/usePageTitle";
import { ColumnChooser } from "./ColumnChooser";

/** Chosen at first; the rest is a click away. */
const COLUMNS_AT_FIRST = 6;

export default function DocumentsPage({ database }: { database: string }) {
  const [search] = useSearchParams();
  const collection = search.get("collection") ?? undefined;
  return <DocumentList key={collection ?? ""} database={database} collection={collection} />;
}

function DocumentList({ database, collection }: { database: string; collection: string | undefined }) {
  usePageTitle(`${collection ?? "Documents"} – ${database}`);
  const [, go] = useLocation();
  const [search, setSearch] = useSearchParams();
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const [asked, setAsked] = useState<"selected" | "collection">();
  const wanted = search.getAll("column");
  const pages = usePages<Json, Preview>(["preview", database, collection ?? "", wanted], (start, pageSize, signal) =>
    documents.preview(database, { collection, start, pageSize, binding: wanted }, signal),
  );
  const available = pages.firstPage?.columns ?? [];
  // Documents of different collections have little in common: none of their properties is chosen for them.
  const atFirst = collection === undefined ? [] : available.slice(0, COLUMNS_AT_FIRST);
  const chosen = wanted.length > 0 ? wanted : atFirst;
  const choose = (names: string[]) =>
    setSearch((old) => {
      const next = new URLSearchParams(old);
      next.delete("column");
      for (const name of names) next.append("column", name);
      return next;
    });
  const toggle = (row: Json) => {
    const id = idOf(row);
    setSelected((old) => {
      const next = new Set(old);
      if (!next.delete(id)) next.add(id);
      return next;
    });
  };
  const columns = useColumns(database, collection, chosen, selected, toggle);
  const isEmpty = !pages.isLoading && !pages.error && pages.total === 0;
  return (
    <div className="page full">
      <div className="page-head">
        <div className="row">
          <h1 className="ellipsis">{collection ?? "All documents"}</h1>
          {pages.firstPage && <span className="faint">{counted(pages.total, "document")}</span>}
        </div>
        <div className="row">
          {selected.size > 0 && (
            <>
              <span className="soft">{counted(selected.size, "document")} selected</span>
              <Button icon="trash" danger onClick={() => setAsked("selected")}>
                Delete…
              </Button>
              <Button kind="quiet" onClick={() => setSelected(new Set())}>
                Clear
              </Button>
            </>
          )}
          <ChangeNote database={database} collection={collection} total={pages.firstPage?.total} onRefresh={() => void pages.refresh()} />
          <ColumnChooser available={available} chosen={chosen} onChoose={choose} />
          <ListMenu database={database} collection={collection} onRemove={() => setAsked("collection")} />
          <Button kind="primary" icon="plus" onClick={() => go(places.newDocument(database, collection))}>
            New document
          </Button>
        </div>
      </div>
      {pages.error && <Problem error={pages.error} doing="Loading the documents" />}
      {isEmpty ? (
        <NoDocuments database={database} collection={collection} />
      ) : (
        <VirtualTable
          label={collection ?? "All documents"}
          rowCount={pages.isLoading ? 12 : pages.total}
          columns={columns}
          rowAt={pages.rowAt}
          onRange={pages.onRange}
          onOpen={(row) => go(places.document(database, idOf(row)))}
          onToggle={toggle}
          isSelected={(row) => selected.has(idOf(row))}
        />
      )}
      {asked === "selected" && (
        <Confirm
          title={`Delete ${counted(selected.size, "document")}`}
          action={`Delete ${counted(selected.size, "document")}`}
          onClose={() => setAsked(undefined)}
          onConfirm={async () => {
            await documents.removeMany(database, [...selected]);
            say(`${counted(selected.size, "document")} deleted`);
            setSelected(new Set());
            await pages.refresh();
          }}
        >
          They are deleted together, or not at all. Where revisions are kept, they can be restored from the revisions.
        </Confirm>
      )}
      {asked === "collection" && collection !== undefined && (
        <Confirm
          title={`Delete all documents of ${collection}`}
          action={`Delete ${counted(pages.total, "document")}`}
          typed={collection}
          onClose={() => setAsked(undefined)}
          onConfirm={async () => {
            await documents.removeCollection(database, collection);
            say(`The documents of ${collection} are being deleted: see Notifications`);
            go(places.documents(database));
          }}
        >
          All {counted(pages.total, "document")} of the collection are deleted, by an operation that you can cancel in
          Notifications.
        </Confirm>
      )}
    </div>
  );
}

function useColumns(
  database: string,
  collection: string | undefined,
  chosen: string[],
  selected: ReadonlySet<string>,
  toggle: (row: Json) => void,
): Column<Json>[] {
  const metadataText = (row: Json, name: string) => text(member(member(row, "@metadata"), name)) ?? "";
  return [
    {
      id: "@select",
      title: <span className="visually-hidden">Selected</span>,
      width: 40,
      render: (row) => (
        <input
          type="checkbox"
          tabIndex={-1}
          aria-label={`Select ${idOf(row)}`}
          checked={selected.has(idOf(row))}
          onChange={() => toggle(row)}
        />
      ),
    },
    {
      id: "@id",
      title: "Id",
      width: 180,
      render: (row) => (
        <Link href={places.document(database, idOf(row))} tabIndex={-1}>
          {idOf(row)}
        </Link>
      ),
    },
    ...(collection === undefined
      ? [{ id: "@collection", title: "Collection", width: 130, render: (row: Json) => <span>{metadataText(row, "@collection")}</span> }]
      : []),
    ...chosen.map((name) => ({
      id: name,
      title: name,
      width: 160,
      render: (row: Json) => <JsonCell value={member(row, name)} database={database} left={leftOut(row, name)} />,
    })),
    {
      id: "@last-modified",
      title: "Last modified",
      width: 150,
      render: (row) => {
        const at = metadataText(row, "@last-modified");
        return at === "" ? null : <Moment at={at} shown={ago(new Date(at))} />;
      },
    },
  ];
}

interface ChangeNoteProps {
  database: string;
  collection: string | undefined;
  total: number | undefined;
  onRefresh: () => void;
}

/** The list does not move while it is read; it says when it is not the newest. */
function ChangeNote({ database, collection, total, onRefresh }: ChangeNoteProps) {
  const { data } = useCollections(database);
  const now = collection === undefined ? data?.CountOfDocuments : data && (data.Collections[collection] ?? 0);
  const isOld = total !== undefined && now !== undefined && now !== total;
  return (
    <Button kind="quiet" icon="reset" label={isOld ? "Documents have changed: refresh" : "Refresh"} className={isOld ? "attention" : ""} onClick={onRefresh} />
  );
}

function ListMenu({ database, collection, onRemove }: { database: string; collection: string | undefined; onRemove: () => void }) {
  const [, go] = useLocation();
  const query = `from ${collection === undefined ? "@all_docs" : `'${collection.replaceAll("'", "\\'")}'`}`;
  const download = (format: "csv" | "jsonl") => {
    const link = document.createElement("a");
    link.href = withQuery(databasePath(database, "streams/queries"), { query, format });
    link.download = `${collection ?? database}.${format}`;
    link.click();
  };
  return (
    <Menu
      trigger={<Button kind="quiet" icon="more" label="More actions" />}
      entries={[
        { label: "Query these documents", icon: "query", onClick: () => go(places.query(database, query)) },
        { label: "Download as CSV", icon: "download", onClick: () => download("csv") },
        { label: "Download as JSON lines", icon: "download", onClick: () => download("jsonl") },
        ...(collection === undefined
          ? []
          : [null, { label: "Delete all documents…", icon: "trash" as const, danger: true, onClick: onRemove }]),
      ]}
    />
  );
}

function NoDocuments({ database, collection }: { database: string; collection: string | undefined }) {
  const [, go] = useLocation();
  const create = () => go(places.newDocument(database, collection));
  if (collection !== undefined) {
    return (
      <Empty icon="documents" title={`No documents in ${collection}`} action={<Button icon="plus" onClick={create}>New document</Button>}>
        A collection exists as long as one of its documents does.
      </Empty>
    );
  }
  return <EmptyDatabase database={database} onCreate={create} />;
}

/** What to do with a database that has just been created. */
function EmptyDatabase({ database, onCreate }: { database: string; onCreate: () => void }) {
  const [, go] = useLocation();
  const client = useQueryClient();
  const samples = useMutation({
    mutationFn: () => server.createSampleData(database),
    onSettled: () => client.invalidateQueries({ predicate: ({ queryKey }) => queryKey[1] === database }),
  });
  return (
    <Empty
      icon="documents"
      title="No documents yet"
      action={
        <>
          <div className="row">
            <Button kind="primary" icon="plus" onClick={onCreate}>
              New document
            </Button>
            <Button icon="transfer" onClick={() => go(places.transfer(database))}>
              Import a file
            </Button>
            <Button disabled={samples.isPending} onClick={() => samples.mutate()}>
              {samples.isPending ? "Adding…" : "Add sample data"}
            </Button>
          </div>
          {samples.error && <Problem error={samples.error} doing="Adding sample data" />}
        </>
      }
    >
      Write one here, import a file, or connect an application: RavenDB’s client libraries work unchanged. Sample data is a
      trading company with orders, products and reviews.
    </Empty>
  );
}
