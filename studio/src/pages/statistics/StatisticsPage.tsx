/** What a database consists of, and where its bytes are. */

import "./statistics.css";

import { useQuery } from "@tanstack/react-query";
import { Link } from "wouter";

import { indexes } from "../../api/indexes";
import { type EnvironmentReport, statistics } from "../../api/statistics";
import { CopyButton, Moment, Problem, Skeleton } from "../../components/controls";
import { ago, bytes, number } from "../../domain/units";
import { places } from "../../shell/places";
import { usePageTitle } from "../../shell/usePageTitle";

const REFRESH_MILLISECONDS = 5000;

export default function StatisticsPage({ database }: { database: string }) {
  usePageTitle(`Statistics – ${database}`);
  const stats = useQuery({
    queryKey: ["stats", database],
    queryFn: ({ signal }) => indexes.databaseStats(database, signal),
    refetchInterval: REFRESH_MILLISECONDS,
  });
  const storage = useQuery({
    queryKey: ["storage", database],
    queryFn: ({ signal }) => statistics.storage(database, signal),
    refetchInterval: REFRESH_MILLISECONDS,
  });
  const { data } = stats;
  const counts: [string, number | undefined][] = [
    ["Documents", data?.CountOfDocuments],
    ["Revisions", data?.CountOfRevisionDocuments],
    ["Attachments", data?.CountOfAttachments],
    ["Documents with counters", data?.CountOfCounterEntries],
    ["Segments of time series", data?.CountOfTimeSeriesSegments],
    ["Tombstones", data?.CountOfTombstones],
    ["Indexes", data?.CountOfIndexes],
    ["Conflicts", data?.CountOfConflicts],
  ];
  return (
    <div className="page">
      <div className="page-head">
        <h1>Statistics</h1>
      </div>
      {stats.error && <Problem error={stats.error} doing="Loading the statistics" />}
      <dl className="figures">
        {counts.map(([name, count]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{count === undefined ? <Skeleton width={48} /> : number(count)}</dd>
          </div>
        ))}
      </dl>
      {storage.error ? <Problem error={storage.error} doing="Loading the storage report" /> : <Storage database={database} data={storage.data} />}
      {data && (
        <section className="panel">
          <header>
            <h2>Identity</h2>
            <CopyButton text={data.DatabaseId} label="Copy id" />
          </header>
          <dl className="facts" style={{ padding: "var(--space-4)" }}>
            <dt>Id</dt>
            <dd className="mono">{data.DatabaseId}</dd>
            <dt>Change vector</dt>
            <dd className="mono">{data.DatabaseChangeVector || "–"}</dd>
            <dt>Last etag</dt>
            <dd>{number(data.LastDocEtag)}</dd>
            <dt>Last indexing</dt>
            <dd>{data.LastIndexingTime ? <Moment at={data.LastIndexingTime} shown={ago(new Date(data.LastIndexingTime))} /> : "never"}</dd>
          </dl>
        </section>
      )}
    </div>
  );
}

interface Environment {
  name: string;
  isIndex: boolean;
  used: number;
  free: number;
  journals: number;
}

function environmentOf({ Name, Type, Report }: EnvironmentReport): Environment {
  const sum = (files: { AllocatedSpaceInBytes?: number }[]) => files.reduce((all, one) => all + (one.AllocatedSpaceInBytes ?? 0), 0);
  return {
    name: Name,
    isIndex: Type === "Index",
    used: Report.DataFile.UsedSpaceInBytes,
    free: Report.DataFile.FreeSpaceInBytes,
    journals: sum(Report.Journals) + sum(Report.TempFiles),
  };
}

function Storage({ database, data }: { database: string; data: { BasePath: string; Results: EnvironmentReport[] } | undefined }) {
  const environments = (data?.Results ?? []).map(environmentOf).sort((one, other) => total(other) - total(one));
  const largest = Math.max(1, ...environments.map(total));
  const all = environments.reduce((sum, one) => sum + total(one), 0);
  return (
    <section className="panel">
      <header>
        <h2>Storage</h2>
        <span className="soft">{data && `${bytes(all)} in ${data.BasePath}`}</span>
      </header>
      <table className="plain-table">
        <thead>
          <tr>
            <th>Environment</th>
            <th>
              <span className="key used" /> used <span className="key free" /> free <span className="key journals" /> journals
            </th>
            <th className="end">Used</th>
            <th className="end">Free</th>
            <th className="end">Journals</th>
          </tr>
        </thead>
        <tbody>
          {environments.map((one) => (
            <tr key={`${one.isIndex} ${one.name}`}>
              <td>{one.isIndex ? <Link href={places.index(database, one.name)}>{one.name}</Link> : <strong>{one.isIndex ? one.name : "Documents"}</strong>}</td>
              <td className="bar-cell">
                <div className="storage-bar" style={{ width: `${(total(one) / largest) * 100}%` }}>
                  {(["used", "free", "journals"] as const).map((part) => (
                    <span key={part} className={part} style={{ flexGrow: one[part] }} />
                  ))}
                </div>
              </td>
              <td className="end">{bytes(one.used)}</td>
              <td className="end">{bytes(one.free)}</td>
              <td className="end">{bytes(one.journals)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

function total(environment: Environment): number {
  return environment.used + environment.free + environment.journals;
}
