/** What belongs to a document: facts, attachments, counters, time series, revisions and related documents. */

import { Tabs } from "@base-ui/react/tabs";
import { useQuery } from "@tanstack/react-query";
import { Link, useSearchParams } from "wouter";

import { type StoredDocument, documents } from "../../api/documents";
import { CopyButton, Moment } from "../../components/controls";
import type { Json } from "../../domain/json";
import { idsIn } from "../../domain/references";
import { ago, bytes } from "../../domain/units";
import { places } from "../../shell/places";
import { AttachmentsPanel } from "./AttachmentsPanel";
import { CountersPanel } from "./CountersPanel";
import { RevisionsPanel } from "./RevisionsPanel";
import { TimeSeriesPanel } from "./TimeSeriesPanel";

interface RelatedPanelsProps {
  database: string;
  document: StoredDocument;
  onRevert: (content: Json) => void;
}

export function RelatedPanels({ database, document, onRevert }: RelatedPanelsProps) {
  const [search, setSearch] = useSearchParams();
  const tab = search.get("tab") ?? "facts";
  const count = (number: number) => (number > 0 ? ` ${number}` : "");
  const tabs: [string, string, React.ReactNode][] = [
    ["facts", "Facts", <FactsPanel key="facts" database={database} document={document} />],
    ["attachments", `Attachments${count(document.attachments.length)}`, <AttachmentsPanel key="a" database={database} document={document} />],
    ["counters", `Counters${count(document.counters.length)}`, <CountersPanel key="c" database={database} document={document} />],
    ["series", `Time series${count(document.timeSeries.length)}`, <TimeSeriesPanel key="t" database={database} document={document} />],
    ["revisions", "Revisions", <RevisionsPanel key="r" database={database} document={document} onRevert={onRevert} />],
    ["related", "Related", <ReferencesPanel key="l" database={database} document={document} />],
  ];
  const choose = (name: string) =>
    setSearch((old) => {
      const next = new URLSearchParams(old);
      next.set("tab", name);
      return next;
    }, { replace: true });
  return (
    <Tabs.Root className="related" value={tab} onValueChange={(value) => choose(String(value))}>
      <Tabs.List className="tabs" aria-label="What belongs to the document">
        {tabs.map(([name, label]) => (
          <Tabs.Tab key={name} value={name} className="tab">
            {label}
          </Tabs.Tab>
        ))}
      </Tabs.List>
      {tabs.map(([name, , content]) => (
        <Tabs.Panel key={name} value={name} className="panel-body">
          {content}
        </Tabs.Panel>
      ))}
    </Tabs.Root>
  );
}

function FactsPanel({ database, document }: { database: string; document: StoredDocument }) {
  const size = useQuery({
    queryKey: ["document-size", database, document.id, document.changeVector],
    queryFn: ({ signal }) => documents.size(database, document.id, signal),
  });
  return (
    <>
      <dl className="facts">
        <dt>Collection</dt>
        <dd>
          <Link href={places.documents(database, document.collection)}>{document.collection}</Link>
        </dd>
        <dt>Last modified</dt>
        <dd>
          <Moment at={document.lastModified} shown={ago(new Date(document.lastModified))} />
          <div className="faint small">{document.lastModified}</div>
        </dd>
        <dt>Size on disk</dt>
        <dd>{size.data ? bytes(size.data.ActualSize) : "–"}</dd>
        <dt>Flags</dt>
        <dd>{document.flags.join(", ") || "none"}</dd>
        <dt>Change vector</dt>
        <dd className="mono">{document.changeVector}</dd>
      </dl>
      <div>
        <CopyButton text={document.changeVector} label="Copy change vector" />
      </div>
    </>
  );
}

function ReferencesPanel({ database, document }: { database: string; document: StoredDocument }) {
  const ids = idsIn(document.content);
  if (ids.length === 0) return <p className="soft">No property looks like the id of another document.</p>;
  return (
    <ul className="item-list">
      {ids.map(({ id, path }) => (
        <li key={`${path} ${id}`}>
          <Link href={places.document(database, id)} className="ellipsis grow">
            {id}
          </Link>
          <span className="faint small ellipsis">{path}</span>
        </li>
      ))}
    </ul>
  );
}
