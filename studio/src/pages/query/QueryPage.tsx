/** Queries in RQL: written, run, read, and copied into a program. */

import "./query.css";

import { useQueryClient } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { useLocation, useSearchParams } from "wouter";

import { ApiError } from "../../api/client";
import { queries } from "../../api/queries";
import { CodeEditor } from "../../components/CodeEditor";
import { Button, Problem } from "../../components/controls";
import { Menu, say } from "../../components/dialogs";
import { rqlCompletion } from "../../components/rqlLanguage";
import { LANGUAGES, copyAs } from "../../domain/copyAs";
import { type Json, parse } from "../../domain/json";
import { errorPosition, parametersOf, withoutUpdate } from "../../domain/rql";
import { useCollections, useIndexStats } from "../../shell/data";
import { places } from "../../shell/places";
import { usePageTitle } from "../../shell/usePageTitle";
import { DeleteDialog, UpdateDialog } from "./BulkDialogs";
import { QueryGuide } from "./QueryGuide";
import { QueryResults, type RunQuery } from "./QueryResults";
import { type PastQuery, readHistory, remember } from "./history";

export default function QueryPage({ database }: { database: string }) {
  usePageTitle(`Query – ${database}`);
  const [search, setSearch] = useSearchParams();
  const asked = search.get("q") ?? "";
  const [query, setQuery] = useState(asked);
  const [parameters, setParameters] = useState(search.get("p") ?? "");
  const [run, setRun] = useState<RunQuery | undefined>(() => startRun(asked, search.get("p") ?? ""));
  const [failure, setFailure] = useState<unknown>();
  const [history, setHistory] = useState<PastQuery[]>(() => readHistory(database));
  const [bulk, setBulk] = useState<"update" | "delete">();
  const completion = useCompletion(database);
  const isUpdate = withoutUpdate(query) !== undefined;
  const names = parametersOf(query);
  const parameterProblem = problemOf(parameters, names.length > 0);
  const problem = useMemo(() => {
    const at = failure instanceof ApiError && run?.query === query ? errorPosition(query, failure.message) : undefined;
    return at === undefined ? undefined : { at, message: (failure as Error).message.split("\n")[0] ?? "" };
  }, [failure, run, query]);

  const start = (text = query, values = parameters) => {
    if (text.trim() === "") return;
    if (withoutUpdate(text) !== undefined) {
      if (startRun(text, values)) setBulk("update");
      else say("The parameters are no JSON object", "bad");
      return;
    }
    const next = startRun(text, values);
    if (!next) {
      say("The parameters are no JSON object", "bad");
      return;
    }
    setFailure(undefined);
    setRun(next);
    setSearch({ q: text, ...(values.trim() === "" ? {} : { p: values }) });
    setHistory(remember(database, { query: text, parameters: values }));
  };
  const use = (text: string, values = "") => {
    setQuery(text);
    setParameters(values);
    start(text, values);
  };

  return (
    <div className="page full">
      <div className="page-head">
        <h1>Query</h1>
        <div className="row">
          <Menu
            trigger={<Button kind="quiet" icon="history">History</Button>}
            entries={
              history.length === 0
                ? [{ label: "Nothing yet", disabled: true, onClick: () => undefined }]
                : history.slice(0, 15).map((one) => ({
                    label: one.query.replaceAll(/\s+/g, " ").slice(0, 90),
                    onClick: () => use(one.query, one.parameters),
                  }))
            }
          />
          <CopyMenu database={database} query={query} parameters={parameters} />
          <Menu
            trigger={<Button kind="quiet" icon="more" label="More actions" />}
            entries={[
              {
                label: "Delete these documents…",
                icon: "trash",
                danger: true,
                disabled: query.trim() === "" || isUpdate || parametersOrNothing(parameters) === "invalid",
                onClick: () => setBulk("delete"),
              },
            ]}
          />
          <Button kind="primary" icon="play" onClick={() => start()} disabled={query.trim() === ""} title="Ctrl+Enter">
            {isUpdate ? "Update…" : "Run"}
          </Button>
        </div>
      </div>
      <div className={names.length > 0 ? "query-input with-parameters" : "query-input"}>
        <CodeEditor
          value={query}
          onChange={setQuery}
          language="rql"
          label="Query in RQL"
          extensions={completion}
          problem={problem}
          onRun={() => start()}
        />
        {names.length > 0 && (
          <div className="query-parameters">
            <CodeEditor
              value={parameters === "" ? suggestion(names) : parameters}
              onChange={setParameters}
              language="json"
              label="Parameters of the query, as JSON"
              small
              onRun={() => start()}
            />
            {parameterProblem !== undefined && <div className="problem small">{parameterProblem}</div>}
          </div>
        )}
      </div>
      {bulk !== undefined && <BulkDialog kind={bulk} database={database} query={query} parameters={parameters} onClose={() => setBulk(undefined)} />}
      {failure !== undefined && <Problem error={failure} doing="The query" />}
      {run ? (
        <QueryResults key={run.number} database={database} run={run} onFailure={setFailure} />
      ) : (
        <QueryGuide database={database} onUse={use} />
      )}
    </div>
  );
}

interface BulkProps {
  kind: "update" | "delete";
  database: string;
  query: string;
  parameters: string;
  onClose: () => void;
}

function BulkDialog({ kind, parameters, ...rest }: BulkProps) {
  const parsed = parametersOrNothing(parameters);
  const Shown = kind === "update" ? UpdateDialog : DeleteDialog;
  return <Shown {...rest} parameters={parsed === "invalid" ? undefined : parsed} />;
}

let runs = 0;

function startRun(query: string, parameters: string): RunQuery | undefined {
  if (query.trim() === "") return undefined;
  const parsed = parametersOrNothing(parameters);
  if (parsed === "invalid") return undefined;
  runs += 1;
  return { query, parameters: parsed, number: runs };
}

function parametersOrNothing(parameters: string): Json | undefined | "invalid" {
  if (parameters.trim() === "") return undefined;
  try {
    const json = parse(parameters);
    return json.kind === "object" ? json : "invalid";
  } catch {
    return "invalid";
  }
}

function problemOf(parameters: string, areUsed: boolean): string | undefined {
  return areUsed && parametersOrNothing(parameters) === "invalid" ? "The parameters are no JSON object." : undefined;
}

/** An object with the parameters of the query, to be filled. */
function suggestion(names: string[]): string {
  return `{ ${names.map((name) => `"${name}": null`).join(", ")} }`;
}

function useCompletion(database: string) {
  const client = useQueryClient();
  const collections = useCollections(database).data;
  const indexes = useIndexStats(database).data;
  const names = useMemo(
    () => ({ collections: Object.keys(collections?.Collections ?? {}), indexes: (indexes ?? []).map((one) => one.Name) }),
    [collections, indexes],
  );
  // The editor keeps its extensions, so they look up what is current.
  const [current] = useState(() => ({ names }));
  current.names = names;
  return useMemo(
    () =>
      rqlCompletion(() => ({
        ...current.names,
        fields: (collection) =>
          client.fetchQuery({
            queryKey: ["fields", database, collection],
            queryFn: ({ signal }) => queries.fields(database, collection, signal),
            staleTime: 60_000,
          }),
      })),
    [client, current, database],
  );
}

function CopyMenu({ database, query, parameters }: { database: string; query: string; parameters: string }) {
  const [, go] = useLocation();
  const parsed = parametersOrNothing(parameters);
  const entries = LANGUAGES.map((language) => ({
    label: language === "HTTP" ? "HTTP (curl)" : language,
    icon: "copy" as const,
    disabled: query.trim() === "",
    onClick: () => {
      const of = { serverUrl: location.origin, database, query, parameters: parsed === "invalid" ? undefined : parsed };
      navigator.clipboard.writeText(copyAs(language, of)).then(
        () => say(`Copied as ${language}`),
        (error: Error) => say(error.message, "bad"),
      );
    },
  }));
  return (
    <Menu
      trigger={<Button kind="quiet" icon="copy">Copy as</Button>}
      entries={[...entries, null, { label: "See all indexes", icon: "index", onClick: () => go(places.indexes(database)) }]}
    />
  );
}
