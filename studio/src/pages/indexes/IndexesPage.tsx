/** The indexes of a database: whether they keep up, and what went wrong. */

import "./indexes.css";

import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { Link, useLocation, useSearchParams } from "wouter";

import { type IndexStats, indexes } from "../../api/indexes";
import { Badge, Button, Empty, Moment, Problem, Skeleton } from "../../components/controls";
import { Confirm, Menu, say } from "../../components/dialogs";
import { ago, bytes, counted, number } from "../../domain/units";
import { useIndexStats } from "../../shell/data";
import { places } from "../../shell/places";
import { usePageTitle } from "../../shell/usePageTitle";

export default function IndexesPage({ database }: { database: string }) {
  usePageTitle(`Indexes – ${database}`);
  const [, go] = useLocation();
  const [search, setSearch] = useSearchParams();
  const filter = search.get("filter") ?? "";
  const stats = useIndexStats(database);
  const shown = (stats.data ?? []).filter((one) => one.Name.toLowerCase().includes(filter.toLowerCase()));
  const create = (
    <Button kind="primary" icon="plus" onClick={() => go(places.newIndex(database))}>
      New index
    </Button>
  );
  return (
    <div className="page">
      <div className="page-head">
        <div className="row">
          <h1>Indexes</h1>
          {stats.data && <Overview stats={stats.data} />}
        </div>
        <div className="row">
          <input
            className="input"
            style={{ width: 220 }}
            aria-label="Filter indexes by name"
            placeholder="Filter"
            value={filter}
            onChange={(event) => setSearch(event.target.value === "" ? {} : { filter: event.target.value }, { replace: true })}
          />
          {create}
        </div>
      </div>
      {stats.error && <Problem error={stats.error} doing="Loading the indexes" />}
      {stats.isPending && <Skeleton width="100%" />}
      {stats.data?.length === 0 && (
        <Empty icon="index" title="No indexes yet" action={create}>
          A query that needs an index creates one by itself. Define your own to compute fields, to search texts, or to add up
          groups of documents.
        </Empty>
      )}
      {[...groupsOf(shown)].map(([group, members]) => (
        <IndexGroup key={group} database={database} group={group} members={members} />
      ))}
    </div>
  );
}

function Overview({ stats }: { stats: IndexStats[] }) {
  const stale = stats.filter((one) => one.IsStale).length;
  const errors = stats.reduce((sum, one) => sum + one.ErrorsCount, 0);
  return (
    <>
      <span className="faint">{number(stats.length)}</span>
      {stale > 0 && <Badge tone="warn">{number(stale)} stale</Badge>}
      {errors > 0 && <Badge tone="bad">{counted(errors, "error")}</Badge>}
    </>
  );
}

/** By what they read. */
function groupsOf(stats: IndexStats[]): Map<string, IndexStats[]> {
  const groups = new Map<string, IndexStats[]>();
  for (const one of stats) {
    const group = Object.keys(one.Collections).sort().join(", ") || "Nothing yet";
    groups.set(group, [...(groups.get(group) ?? []), one]);
  }
  return new Map([...groups].sort(([one], [other]) => one.localeCompare(other)));
}

function IndexGroup({ database, group, members }: { database: string; group: string; members: IndexStats[] }) {
  return (
    <section className="panel indexes">
      <header>
        <h2>{group === "@all_docs" ? "All collections" : group}</h2>
      </header>
      <table className="plain-table">
        <thead>
          <tr>
            <th className="name">Name</th>
            <th className="state">State</th>
            <th className="end">Entries</th>
            <th className="end">Size</th>
            <th className="end">Per second</th>
            <th>Last query</th>
            <th>
              <span className="visually-hidden">Actions</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {members.map((one) => (
            <IndexRow key={one.Name} database={database} index={one} />
          ))}
        </tbody>
      </table>
    </section>
  );
}

function IndexRow({ database, index }: { database: string; index: IndexStats }) {
  const perSecond = index.MappedPerSecondRate + index.ReducedPerSecondRate;
  return (
    <tr>
      <td className="name">
        <Link href={places.index(database, index.Name)}>{index.Name}</Link>
        <div className="faint small">{kindOf(index)}</div>
      </td>
      <td>
        <IndexState index={index} />
      </td>
      <td className="end">{number(index.EntriesCount)}</td>
      <td className="end">{bytes(index.Memory.DiskSize.SizeInBytes)}</td>
      <td className="end">{perSecond >= 0.05 ? number(Math.round(perSecond * 10) / 10) : "–"}</td>
      <td>{index.LastQueryingTime ? <Moment at={index.LastQueryingTime} shown={ago(new Date(index.LastQueryingTime))} /> : <span className="faint">never</span>}</td>
      <td className="end">
        <IndexMenu database={database} index={index} />
      </td>
    </tr>
  );
}

function kindOf(index: IndexStats): string {
  const reduces = index.Type.includes("MapReduce") ? "map-reduce" : "map";
  const source = { Documents: "", Counters: ", counters", TimeSeries: ", time series" }[index.SourceType] ?? "";
  const origin = index.Type.startsWith("Auto") ? "automatic " : index.Type.startsWith("JavaScript") ? "JavaScript " : "";
  return `${origin}${reduces}${source}`;
}

export function IndexState({ index }: { index: IndexStats }) {
  const lag = Object.values(index.Collections).reduce((sum, one) => sum + Math.max(0, one.DocumentLag) + Math.max(0, one.TombstoneLag), 0);
  return (
    <span className="row">
      {index.State === "Error" || index.IsInvalidIndex ? (
        <Badge tone="bad">Failed</Badge>
      ) : index.State === "Disabled" || index.Status === "Disabled" ? (
        <Badge>Disabled</Badge>
      ) : index.Status === "Paused" ? (
        <Badge tone="warn">Paused</Badge>
      ) : index.IsStale ? (
        <Badge tone="warn" dot>
          {lag > 0 ? `Stale, ${number(lag)} behind` : "Stale"}
        </Badge>
      ) : (
        <Badge tone="good" dot>
          {index.State === "Idle" ? "Idle, up to date" : "Up to date"}
        </Badge>
      )}
      {index.ErrorsCount > 0 && <Badge tone="bad">{counted(index.ErrorsCount, "error")}</Badge>}
      {index.LockMode !== "Unlock" && <Badge>Locked</Badge>}
      {index.Priority !== "Normal" && <Badge>{index.Priority} priority</Badge>}
    </span>
  );
}

export function IndexMenu({ database, index, onRemoved }: { database: string; index: IndexStats; onRemoved?: () => void }) {
  const client = useQueryClient();
  const [, go] = useLocation();
  const [asked, setAsked] = useState<"reset" | "remove">();
  const name = index.Name;
  const refresh = () => client.invalidateQueries({ queryKey: ["indexes", database, "stats"] });
  const act = (action: Promise<unknown>, done: string) => {
    action.then(() => say(done), (error: Error) => say(error.message, "bad")).finally(() => void refresh());
  };
  const isDisabled = index.State === "Disabled";
  const isPaused = index.Status === "Paused";
  const query = `from index '${name.replaceAll("'", "\\'")}'`;
  return (
    <>
      <Menu
        trigger={<Button kind="quiet" small icon="more" label={`Actions for ${name}`} />}
        entries={[
          { label: "Query", icon: "query", onClick: () => go(places.query(database, query)) },
          null,
          isPaused
            ? { label: "Resume", icon: "play", onClick: () => act(indexes.resume(database, name), `${name} is resumed`) }
            : { label: "Pause until restart", icon: "pause", disabled: isDisabled, onClick: () => act(indexes.pause(database, name), `${name} is paused`) },
          isDisabled
            ? { label: "Enable", icon: "play", onClick: () => act(indexes.setDisabled(database, name, false), `${name} is enabled`) }
            : { label: "Disable", icon: "pause", onClick: () => act(indexes.setDisabled(database, name, true), `${name} is disabled`) },
          { label: "Reset…", icon: "reset", onClick: () => setAsked("reset") },
          null,
          { label: "Delete index…", icon: "trash", danger: true, onClick: () => setAsked("remove") },
        ]}
      />
      {asked === "reset" && (
        <Confirm
          title={`Reset ${name}`}
          action="Reset index"
          onClose={() => setAsked(undefined)}
          onConfirm={async () => {
            await indexes.reset(database, name);
            await refresh();
            say(`${name} is built again`);
          }}
        >
          Its {counted(index.EntriesCount, "entry", "entries")} are dropped and built again from all documents. Until then queries on it
          return incomplete results.
        </Confirm>
      )}
      {asked === "remove" && (
        <Confirm
          title={`Delete ${name}`}
          action="Delete index"
          typed={name.startsWith("Auto/") ? undefined : name}
          onClose={() => setAsked(undefined)}
          onConfirm={async () => {
            await indexes.remove(database, name);
            say(`${name} is deleted`);
            // The page of the index is left before what it shows is asked for again.
            onRemoved?.();
            client.removeQueries({ queryKey: ["index", database, "definition", name] });
            await refresh();
          }}
        >
          {name.startsWith("Auto/")
            ? "The server creates it again when a query needs it."
            : "Queries that name it fail from then on. No document is changed."}
        </Confirm>
      )}
    </>
  );
}
