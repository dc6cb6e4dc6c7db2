/** What a query returned: as a table, as JSON, with what was included and how long it took. */

import { Tabs } from "@base-ui/react/tabs";
import { useEffect, useState } from "react";
import { Link, useLocation } from "wouter";

import { databasePath, withQuery } from "../../api/client";
import { type QueryResult, queries } from "../../api/queries";
import { CodeEditor } from "../../components/CodeEditor";
import { Badge, Button, Empty } from "../../components/controls";
import { JsonCell, columnsOf, idOf } from "../../components/JsonCell";
import { type Column, VirtualTable } from "../../components/VirtualTable";
import { type Page, usePages } from "../../components/usePages";
import { type Json, compact, member, print } from "../../domain/json";
import { counted, duration, number } from "../../domain/units";
import { places } from "../../shell/places";
import { TimingsView } from "./TimingsView";

export interface RunQuery {
  query: string;
  /** An object; undefined for none. */
  parameters: Json | undefined;
  /** Another one for each time that a query is run. */
  number: number;
}

interface QueryPageOfRows extends Page<Json> {
  result: QueryResult;
}

/** Results that are shown as JSON at once. */
const JSON_ROWS_MAX = 100;
/** Results with more properties have the rest in JSON. */
const COLUMNS_MAX = 60;

interface QueryResultsProps {
  database: string;
  run: RunQuery;
  onFailure: (error: unknown) => void;
}

export function QueryResults({ database, run, onFailure }: QueryResultsProps) {
  const [tab, setTab] = useState("table");
  const pages = usePages<Json, QueryPageOfRows>(["query", database, run.number], async (start, pageSize, signal) => {
    const result = await queries.run(database, { query: run.query, parameters: run.parameters, start, pageSize }, signal);
    return { total: result.total, rows: result.results, result };
  });
  const { error } = pages;
  useEffect(() => {
    if (error) onFailure(error);
  }, [error, onFailure]);
  const result = pages.firstPage?.result;
  if (error && !result) return null;
  if (!result) {
    return (
      <div className="query-running" role="status">
        <div className="progress endless" aria-hidden="true">
          <div className="bar" />
        </div>
        Running…
      </div>
    );
  }
  const tabs: [string, string][] = [
    ["table", "Table"],
    ["json", "JSON"],
    ...(result.includes.length > 0 ? [["includes", `Includes ${result.includes.length}`] as [string, string]] : []),
    ...(result.timings ? [["timings", "Timings"] as [string, string]] : []),
    ...(result.explanations.length > 0 ? [["explanations", "Explanations"] as [string, string]] : []),
    ...(result.highlightings ? [["highlights", "Highlights"] as [string, string]] : []),
  ];
  return (
    <Tabs.Root className="query-results" value={tab} onValueChange={(value) => setTab(String(value))}>
      <div className="query-summary">
        <Tabs.List className="tabs grow" aria-label="Results">
          {tabs.map(([name, label]) => (
            <Tabs.Tab key={name} value={name} className="tab">
              {label}
            </Tabs.Tab>
          ))}
        </Tabs.List>
        <Summary database={database} run={run} result={result} onRefresh={() => void pages.refresh()} />
      </div>
      <Tabs.Panel value="table" className="query-panel" tabIndex={-1}>
        <ResultTable database={database} pages={pages} result={result} />
      </Tabs.Panel>
      <Tabs.Panel value="json" className="query-panel" tabIndex={-1}>
        <CodeEditor value={jsonOf(result.results)} language="json" label="Results as JSON" readOnly />
      </Tabs.Panel>
      <Tabs.Panel value="includes" className="query-panel" tabIndex={-1}>
        <CodeEditor
          value={print({ kind: "object", members: result.includes.map(([name, value]) => ({ name, value })) })}
          language="json"
          label="Included documents"
          readOnly
        />
      </Tabs.Panel>
      <Tabs.Panel value="timings" className="query-panel" tabIndex={-1}>
        {result.timings && <TimingsView timings={result.timings} />}
      </Tabs.Panel>
      <Tabs.Panel value="explanations" className="query-panel" tabIndex={-1}>
        <div className="explanations" tabIndex={0} role="region" aria-label="Explanations of the scores">
          {result.explanations.map(([id, texts]) => (
            <details key={id}>
              <summary>{id}</summary>
              <pre>{texts.join("\n\n")}</pre>
            </details>
          ))}
        </div>
      </Tabs.Panel>
      <Tabs.Panel value="highlights" className="query-panel" tabIndex={-1}>
        {result.highlightings && <CodeEditor value={print(result.highlightings)} language="json" label="Highlights" readOnly />}
      </Tabs.Panel>
    </Tabs.Root>
  );
}

function jsonOf(results: Json[]): string {
  return print({ kind: "array", items: results.slice(0, JSON_ROWS_MAX) });
}

interface SummaryProps {
  database: string;
  run: RunQuery;
  result: QueryResult;
  onRefresh: () => void;
}

function Summary({ database, run, result, onRefresh }: SummaryProps) {
  const [, go] = useLocation();
  const download = () => {
    const link = document.createElement("a");
    const parameters = run.parameters ? compact(run.parameters) : undefined;
    link.href = withQuery(databasePath(database, "streams/queries"), { query: run.query, parameters, format: "csv" });
    link.download = "results.csv";
    link.click();
  };
  const isIndex = result.indexName !== "" && !result.indexName.startsWith("collection/");
  return (
    <div className="row soft small">
      {result.isStale && (
        <>
          <Badge tone="warn">Stale</Badge>
          <Button small onClick={onRefresh}>
            Run again
          </Button>
        </>
      )}
      <span>
        {counted(result.total, "result")}
        {result.matching !== result.total && ` of ${number(result.matching)}`}
      </span>
      <span>{duration(result.durationInMs)}</span>
      {isIndex ? (
        <Link href={places.index(database, result.indexName)} title="The index that answered">
          {result.indexName}
        </Link>
      ) : (
        <span>{result.indexName}</span>
      )}
      {result.indexName.startsWith("Auto/") && (
        <Button small kind="quiet" onClick={() => go(places.index(database, result.indexName))} title="This query uses an index that the server created for such queries">
          automatic index
        </Button>
      )}
      {result.results.length > 0 && <Button small kind="quiet" icon="download" onClick={download}>CSV</Button>}
    </div>
  );
}

interface ResultTableProps {
  database: string;
  pages: ReturnType<typeof usePages<Json, QueryPageOfRows>>;
  result: QueryResult;
}

function ResultTable({ database, pages, result }: ResultTableProps) {
  const [, go] = useLocation();
  if (result.total === 0) {
    return (
      <Empty icon="query" title="No results">
        {result.isStale
          ? "The index has not read all documents yet: run the query again in a moment."
          : "No document matches. Texts are compared word for word unless you use search(), and names of properties count upper and lower case."}
      </Empty>
    );
  }
  const hasIds = result.results.some((row) => idOf(row) !== "");
  const columns: Column<Json>[] = [
    ...(hasIds
      ? [
          {
            id: "@id",
            title: "Id",
            width: 180,
            render: (row: Json) => (
              <Link href={places.document(database, idOf(row))} tabIndex={-1}>
                {idOf(row)}
              </Link>
            ),
          },
        ]
      : []),
    ...columnsOf(result.results).slice(0, COLUMNS_MAX).map((name) => ({
      id: name,
      title: name,
      width: 170,
      render: (row: Json) => <JsonCell value={member(row, name)} database={database} />,
    })),
  ];
  return (
    <VirtualTable
      label="Results"
      rowCount={result.total}
      columns={columns}
      rowAt={pages.rowAt}
      onRange={pages.onRange}
      onOpen={(row) => idOf(row) !== "" && go(places.document(database, idOf(row)))}
    />
  );
}
