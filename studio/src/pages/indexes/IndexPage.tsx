/** An index: its definition in editors, its errors, its terms, and a trial on a few documents. */

import "./indexes.css";

import { Tabs } from "@base-ui/react/tabs";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { useLocation, useSearchParams } from "wouter";

import { type IndexDefinition, emptyDefinition, indexes } from "../../api/indexes";
import { Button, Empty, Field, Problem, Skeleton } from "../../components/controls";
import { say } from "../../components/dialogs";
import { useIndexStats } from "../../shell/data";
import { places } from "../../shell/places";
import { usePageTitle } from "../../shell/usePageTitle";
import { DefinitionEditor } from "./DefinitionEditor";
import { ErrorsPanel } from "./ErrorsPanel";
import { IndexMenu, IndexState } from "./IndexesPage";
import { TermsPanel } from "./TermsPanel";
import { TrialPanel } from "./TrialPanel";

export default function IndexPage({ database }: { database: string }) {
  const [search] = useSearchParams();
  const name = search.get("name");
  usePageTitle(`${name ?? "New index"} – ${database}`);
  const definition = useQuery({
    queryKey: ["index", database, "definition", name],
    queryFn: async ({ signal }) => {
      try {
        return (await indexes.definition(database, name ?? "", signal)) ?? null;
      } catch (error) {
        if ((error as { status?: number }).status === 404) return null;
        throw error;
      }
    },
    enabled: name !== null,
    refetchOnMount: true,
  });
  if (name === null) return <IndexEditor key="new" database={database} stored={emptyDefinition()} isNew />;
  if (definition.isPending) {
    return (
      <div className="page" aria-busy="true">
        <Skeleton width={300} />
      </div>
    );
  }
  if (definition.error) {
    return (
      <div className="page">
        <Problem error={definition.error} doing="Loading the index" />
      </div>
    );
  }
  if (!definition.data) return <MissingIndex database={database} name={name} />;
  return <IndexEditor key={name} database={database} stored={definition.data} isNew={false} />;
}

function MissingIndex({ database, name }: { database: string; name: string }) {
  const [, go] = useLocation();
  return (
    <Empty icon="index" title={`There is no index “${name}”`} action={<Button onClick={() => go(places.indexes(database))}>All indexes</Button>}>
      It may have been deleted, or replaced by one of another name.
    </Empty>
  );
}

function IndexEditor({ database, stored, isNew }: { database: string; stored: IndexDefinition; isNew: boolean }) {
  const client = useQueryClient();
  const [, go] = useLocation();
  const [search, setSearch] = useSearchParams();
  const [base, setBase] = useState(stored);
  const [definition, setDefinition] = useState(stored);
  const [error, setError] = useState<unknown>();
  const [isBusy, setBusy] = useState(false);
  const stats = useIndexStats(database).data?.find((one) => one.Name === stored.Name);
  const isAutomatic = stored.Type?.startsWith("Auto") ?? false;
  const isDirty = JSON.stringify(definition) !== JSON.stringify(base);
  const tab = search.get("tab") ?? "definition";
  const choose = (next: string) => setSearch({ ...(isNew ? {} : { name: stored.Name }), tab: next }, { replace: true });
  useEffect(() => {
    if (!isDirty) return undefined;
    const ask = (event: BeforeUnloadEvent) => event.preventDefault();
    window.addEventListener("beforeunload", ask);
    return () => window.removeEventListener("beforeunload", ask);
  }, [isDirty]);

  const save = async () => {
    if (definition.Name.trim() === "" || isBusy) return;
    setBusy(true);
    setError(undefined);
    try {
      await indexes.put(database, cleaned(definition));
      say(`${definition.Name} is saved`);
      const saved = await indexes.definition(database, definition.Name.trim());
      if (saved) {
        client.setQueryData(["index", database, "definition", saved.Name], saved);
        setBase(saved);
        setDefinition(saved);
      }
      await client.invalidateQueries({ queryKey: ["indexes", database] });
      if (isNew) go(places.index(database, definition.Name.trim()), { replace: true });
    } catch (caught) {
      setError(caught);
    } finally {
      setBusy(false);
    }
  };
  const tabs: [string, string][] = [
    ["definition", "Definition"],
    ["trial", "Try it"],
    ...(isNew ? [] : ([["terms", "Terms"], ["errors", `Errors${stats && stats.ErrorsCount > 0 ? ` ${stats.ErrorsCount}` : ""}`]] as [string, string][])),
  ];
  return (
    <div className="page full">
      <div className="page-head">
        <div className="row grow">
          <h1 className="ellipsis">{isNew ? "New index" : stored.Name}</h1>
          {stats && <IndexState index={stats} />}
        </div>
        <div className="row">
          {isDirty && !isNew && (
            <Button kind="quiet" onClick={() => setDefinition(base)}>
              Discard
            </Button>
          )}
          {stats && <IndexMenu database={database} index={stats} onRemoved={() => go(places.indexes(database))} />}
          {!isAutomatic && (
            <Button kind="primary" disabled={!isDirty || definition.Name.trim() === "" || isBusy} onClick={() => void save()} title="Ctrl+S">
              {isBusy ? "Saving…" : "Save"}
            </Button>
          )}
        </div>
      </div>
      {isNew && (
        <div style={{ maxWidth: 420 }}>
          <Field label="Name" hint="By convention what is indexed and by what: Orders/ByCompany">
            {(ids) => (
              <input
                {...ids}
                className="input"
                spellCheck={false}
                autoFocus
                value={definition.Name}
                onChange={(event) => setDefinition({ ...definition, Name: event.target.value })}
              />
            )}
          </Field>
        </div>
      )}
      {error !== undefined && <Problem error={error} doing="Saving the index" />}
      {isAutomatic && (
        <div className="notice">
          The server created this index for queries that had none. To change it, define one of your own with the fields below.
        </div>
      )}
      <Tabs.Root className="index-tabs" value={tab} onValueChange={(value) => choose(String(value))}>
        <Tabs.List className="tabs" aria-label="Parts of the index">
          {tabs.map(([key, label]) => (
            <Tabs.Tab key={key} value={key} className="tab">
              {label}
            </Tabs.Tab>
          ))}
        </Tabs.List>
        <Tabs.Panel value="definition" className="index-panel" tabIndex={-1}>
          <DefinitionEditor definition={definition} readOnly={isAutomatic} onChange={setDefinition} onSave={() => void save()} />
        </Tabs.Panel>
        <Tabs.Panel value="trial" className="index-panel" tabIndex={-1}>
          <TrialPanel database={database} definition={cleaned(definition)} />
        </Tabs.Panel>
        <Tabs.Panel value="terms" className="index-panel" tabIndex={-1}>
          <TermsPanel database={database} definition={stored} />
        </Tabs.Panel>
        <Tabs.Panel value="errors" className="index-panel" tabIndex={-1}>
          <ErrorsPanel database={database} name={stored.Name} />
        </Tabs.Panel>
      </Tabs.Root>
    </div>
  );
}

/** Without empty parts, and without what the server finds out itself. */
function cleaned({ Type: _, ...definition }: IndexDefinition): IndexDefinition {
  return {
    ...definition,
    Name: definition.Name.trim(),
    Maps: definition.Maps.filter((map) => map.trim() !== ""),
    Reduce: definition.Reduce?.trim() ? definition.Reduce : null,
  };
}
