/** All databases: what they hold, whether they are well, and creating and deleting them. */

import "./databases.css";

import { useQueryClient } from "@tanstack/react-query";
import { Suspense, lazy, useState } from "react";
import { Link, useLocation } from "wouter";

import { type DatabaseState, type DatabaseSummary, server } from "../../api/server";
import { Badge, Button, Empty, Problem, Skeleton } from "../../components/controls";
import { Confirm, Menu, say } from "../../components/dialogs";
import { bytes, counted, duration, number, timeSpan } from "../../domain/units";
import { useDatabaseStates, useDatabases } from "../../shell/data";
import { places } from "../../shell/places";
import { usePageTitle } from "../../shell/usePageTitle";
import { CreateDatabase } from "./CreateDatabase";

const ConnectDialog = lazy(() => import("./ConnectDialog").then(({ ConnectDialog: component }) => ({ default: component })));

export function DatabasesPage() {
  usePageTitle("Databases");
  const [isCreating, setCreating] = useState(false);
  const [filter, setFilter] = useState("");
  const databases = useDatabases();
  const states = useDatabaseStates();
  const shown = (databases.data ?? []).filter((one) => one.Name.toLowerCase().includes(filter.trim().toLowerCase()));
  const create = (
    <Button kind="primary" icon="plus" onClick={() => setCreating(true)}>
      Create database
    </Button>
  );
  return (
    <div className="page">
      <div className="page-head">
        <h1>Databases</h1>
        {databases.data && databases.data.length > 0 && (
          <div className="row">
            <input
              className="input"
              style={{ width: 220 }}
              aria-label="Filter databases by name"
              placeholder="Filter"
              value={filter}
              onChange={(event) => setFilter(event.target.value)}
            />
            {create}
          </div>
        )}
      </div>
      {databases.error && <Problem error={databases.error} doing="Loading the databases" />}
      {databases.data?.length === 0 && (
        <Empty icon="database" title="No databases yet" action={create}>
          A database holds your documents, their indexes and everything attached to them. Create one, with sample data if you
          like, and query it at once.
        </Empty>
      )}
      {(databases.isPending || shown.length > 0) && (
        <DatabaseTable databases={shown} states={states.data} isLoading={databases.isPending} />
      )}
      {databases.data && databases.data.length > 0 && shown.length === 0 && (
        <p className="soft">No name contains “{filter}”.</p>
      )}
      {isCreating && <CreateDatabase onClose={() => setCreating(false)} />}
    </div>
  );
}

interface TableProps {
  databases: DatabaseSummary[];
  states: DatabaseState[] | undefined;
  isLoading: boolean;
}

function DatabaseTable({ databases, states, isLoading }: TableProps) {
  const [removed, setRemoved] = useState<DatabaseSummary>();
  const [connected, setConnected] = useState<string>();
  return (
    <div className="panel databases">
      <table className="plain-table">
        <thead>
          <tr>
            <th>Name</th>
            <th>State</th>
            <th className="end">Documents</th>
            <th className="end">Indexes</th>
            <th className="end">Size</th>
            <th className="end">Open for</th>
            <th>
              <span className="visually-hidden">Actions</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {isLoading &&
            [120, 180, 90].map((width) => (
              <tr key={width}>
                <td colSpan={7}>
                  <Skeleton width={width} />
                </td>
              </tr>
            ))}
          {databases.map((one) => (
            <DatabaseRow
              key={one.Name}
              database={one}
              state={states?.find((state) => state.Name === one.Name)}
              onConnect={() => setConnected(one.Name)}
              onRemove={() => setRemoved(one)}
            />
          ))}
        </tbody>
      </table>
      {connected !== undefined && (
        <Suspense>
          <ConnectDialog database={connected} onClose={() => setConnected(undefined)} />
        </Suspense>
      )}
      {removed && (
        <RemoveDatabase
          name={removed.Name}
          documents={states?.find((state) => state.Name === removed.Name)?.DocumentsCount}
          onClose={() => setRemoved(undefined)}
        />
      )}
    </div>
  );
}

interface RowProps {
  database: DatabaseSummary;
  state: DatabaseState | undefined;
  onConnect: () => void;
  onRemove: () => void;
}

function DatabaseRow({ database, state, onConnect, onRemove }: RowProps) {
  const client = useQueryClient();
  const [, go] = useLocation();
  const { Name: name, IsDisabled: isDisabled } = database;
  const setDisabled = async (disabled: boolean) => {
    try {
      const { Status } = await server.setDisabled([name], disabled);
      const failed = Status.find((one) => !one.Success);
      if (failed) say(failed.Reason ?? `${name} did not change`, "bad");
      else say(disabled ? `${name} is disabled: it is closed until you enable it` : `${name} is enabled`);
    } catch (error) {
      say((error as Error).message, "bad");
    }
    await client.invalidateQueries({ queryKey: ["databases"] });
  };
  const isOpen = state?.DatabaseStatus === "Online";
  const isLocked = database.LockMode !== "Unlock";
  return (
    <tr>
      <td className="name">{isDisabled ? <span>{name}</span> : <Link href={places.documents(name)}>{name}</Link>}</td>
      <td>
        <StateBadges database={database} state={state} />
      </td>
      <td className="end">{isOpen ? number(state.DocumentsCount) : "–"}</td>
      <td className="end">{number(database.IndexesCount)}</td>
      <td className="end">{isOpen ? bytes(state.TotalSize.SizeInBytes + state.TempBuffersSize.SizeInBytes) : "–"}</td>
      <td className="end">{state?.UpTime ? duration(timeSpan(state.UpTime)) : "–"}</td>
      <td className="end">
        <Menu
          trigger={<Button kind="quiet" small icon="more" label={`Actions for ${name}`} />}
          entries={[
            { label: "Query", icon: "query", disabled: isDisabled, onClick: () => go(places.query(name)) },
            { label: "Connect an application…", icon: "code", onClick: onConnect },
            { label: "Import or export", icon: "transfer", disabled: isDisabled, onClick: () => go(places.transfer(name)) },
            isDisabled
              ? { label: "Enable", icon: "play", onClick: () => void setDisabled(false) }
              : { label: "Disable", icon: "pause", onClick: () => void setDisabled(true) },
            null,
            {
              label: isLocked ? "Delete (locked)" : "Delete database…",
              icon: "trash",
              danger: true,
              disabled: isLocked,
              onClick: onRemove,
            },
          ]}
        />
      </td>
    </tr>
  );
}

function StateBadges({ database, state }: { database: DatabaseSummary; state: DatabaseState | undefined }) {
  if (Object.keys(database.DeletionInProgress).length > 0) return <Badge tone="warn">Being deleted</Badge>;
  if (database.IsDisabled) return <Badge>Disabled</Badge>;
  return (
    <span className="row">
      {state?.DatabaseStatus === "Error" ? (
        <Badge tone="bad">Failed to open</Badge>
      ) : (
        <Badge tone="good" dot>
          {state?.DatabaseStatus === "Online" ? "Online" : "Closed until used"}
        </Badge>
      )}
      {database.IsEncrypted && <Badge>Encrypted</Badge>}
      {(state?.IndexingErrors ?? 0) > 0 && <Badge tone="bad">{counted(state?.IndexingErrors ?? 0, "indexing error")}</Badge>}
      {state?.IndexingStatus === "Paused" && <Badge tone="warn">Indexing paused</Badge>}
    </span>
  );
}

function RemoveDatabase({ name, documents, onClose }: { name: string; documents: number | undefined; onClose: () => void }) {
  const client = useQueryClient();
  const remove = async () => {
    await server.remove([name]);
    await client.invalidateQueries({ queryKey: ["databases"] });
    say(`${name} is deleted`);
  };
  return (
    <Confirm title={`Delete ${name}`} action="Delete database" typed={name} onConfirm={remove} onClose={onClose}>
      The database and its files are deleted
      {documents !== undefined && `, with ${counted(documents, "document")}, their indexes, revisions and attachments`}. This
      cannot be undone; backups outside of its directory are kept.
    </Confirm>
  );
}
