/** What the server does right now, from one live feed. */

import "./dashboard.css";
import "../statistics/statistics.css";

import { useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { Link } from "wouter";

import { type FeedState, openFeed } from "../../api/feeds";
import { server } from "../../api/server";
import { Chart } from "../../components/Chart";
import { Badge } from "../../components/controls";
import { bytes, counted, number } from "../../domain/units";
import { places } from "../../shell/places";
import { usePageTitle } from "../../shell/usePageTitle";
import { type Board, WIDGETS, emptyBoard, withMessage } from "./samples";

const percent = (value: number) => `${Math.round(value)} %`;
const rate = (value: number) => number(Math.round(value * 10) / 10);
const PERCENT_TOP = 100;
const RATE_TOP = 10;

export default function DashboardPage() {
  usePageTitle("Dashboard");
  const [board, setBoard] = useState<Board>(emptyBoard);
  const [feed, setFeed] = useState<FeedState>("connecting");
  const node = useQuery({ queryKey: ["node"], queryFn: ({ signal }) => server.node(signal), staleTime: Infinity });
  const tag = node.data?.NodeTag;
  useEffect(() => {
    if (tag === undefined) return undefined;
    return openFeed(`/cluster-dashboard/watch?node=${encodeURIComponent(tag)}`, {
      greeting: WIDGETS.map((Type, at) => ({ Command: "watch", Id: at + 1, Type })),
      onMessage: (message) => setBoard((old) => withMessage(old, message as Parameters<typeof withMessage>[1])),
      onState: setFeed,
    });
  }, [tag]);
  const { latest, samples } = board;
  const times = samples.map((sample) => sample.at);
  const memory = latest.MemoryUsage;
  const drive = latest.StorageUsage?.Items[0];
  return (
    <div className="page dashboard">
      <div className="page-head">
        <div className="row">
          <h1>Dashboard</h1>
          {feed === "open" ? (
            <Badge tone="good" dot>
              Live
            </Badge>
          ) : feed === "refused" ? (
            <Badge tone="bad">No live data: it needs the clearance Operator</Badge>
          ) : (
            <Badge tone="warn">{feed === "lost" ? "Reconnecting" : "Connecting"}</Badge>
          )}
        </div>
        {node.data && (
          <span className="soft">
            Node {node.data.NodeTag} · {counted(node.data.NumberOfCores, "processor")} · {node.data.OsInfo.FullName}
          </span>
        )}
      </div>
      <dl className="figures">
        <Figure name="Processor" value={latest.CpuUsage && percent(latest.CpuUsage.ProcessCpuUsage)} note={latest.CpuUsage && `machine ${percent(latest.CpuUsage.MachineCpuUsage)}`} />
        <Figure name="Memory" value={memory && bytes(memory.WorkingSet)} note={memory && `${bytes(memory.AvailableMemory)} free`} bad={memory !== undefined && memory.LowMemorySeverity !== "None"} />
        <Figure name="Requests per second" value={latest.Traffic && rate(latest.Traffic.RequestsPerSecond)} />
        <Figure name="Writes per second" value={latest.Traffic && rate(latest.Traffic.DocumentWritesPerSecond)} />
        <Figure name="Indexed per second" value={latest.Indexing && rate(latest.Indexing.MappedPerSecond)} />
        <Figure name="Disk" value={drive && bytes(drive.RavenSize)} note={drive && `${bytes(drive.FreeSpace)} free`} bad={drive?.IsLowSpace ?? false} />
      </dl>
      <div className="charts">
        <ChartPanel title="Processor">
          <Chart
            label="Processor usage of the last five minutes"
            times={times}
            lines={[
              { label: "Server", values: samples.map((one) => one.process) },
              { label: "Machine", values: samples.map((one) => one.machine) },
            ]}
            height={180}
            format={percent}
            top={PERCENT_TOP}
          />
        </ChartPanel>
        <ChartPanel title="Memory">
          <Chart label="Memory of the last five minutes" times={times} lines={[{ label: "Server", values: samples.map((one) => one.memory) }]} height={180} format={bytes} />
        </ChartPanel>
        <ChartPanel title="Traffic">
          <Chart
            label="Requests and writes of the last five minutes"
            times={times}
            lines={[
              { label: "Requests/s", values: samples.map((one) => one.requests) },
              { label: "Writes/s", values: samples.map((one) => one.writes) },
            ]}
            height={180}
            format={rate}
            top={RATE_TOP}
          />
        </ChartPanel>
        <ChartPanel title="Indexing">
          <Chart
            label="Indexing of the last five minutes"
            times={times}
            lines={[
              { label: "Mapped/s", values: samples.map((one) => one.mapped) },
              { label: "Reduced/s", values: samples.map((one) => one.reduced) },
            ]}
            height={180}
            format={rate}
            top={RATE_TOP}
          />
        </ChartPanel>
      </div>
      <DatabasesNow board={board} />
    </div>
  );
}

function Figure({ name, value, note, bad = false }: { name: string; value: string | undefined; note?: string | undefined; bad?: boolean }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>
        {value ?? "–"}
        {note !== undefined && <span className={bad ? "figure-note bad" : "figure-note"}>{bad ? `low: ${note}` : note}</span>}
      </dd>
    </div>
  );
}

function ChartPanel({ title, children }: { title: string; children: React.ReactNode }) {
  return (
    <section className="panel">
      <header>
        <h2>{title}</h2>
      </header>
      <div className="chart-body">{children}</div>
    </section>
  );
}

function DatabasesNow({ board: { latest } }: { board: Board }) {
  const overview = latest.DatabaseOverview?.Items ?? [];
  if (overview.length === 0) return null;
  const traffic = (name: string) => latest.DatabaseTraffic?.Items.find((one) => one.Database === name);
  const indexing = (name: string) => latest.DatabaseIndexing?.Items.find((one) => one.Database === name);
  const storage = (name: string) => latest.DatabaseStorageUsage?.Items.find((one) => one.Database === name);
  return (
    <section className="panel">
      <header>
        <h2>Databases</h2>
      </header>
      <table className="plain-table">
        <thead>
          <tr>
            <th>Name</th>
            <th className="end">Documents</th>
            <th className="end">Size</th>
            <th className="end">Requests/s</th>
            <th className="end">Writes/s</th>
            <th className="end">Mapped/s</th>
            <th>Attention</th>
          </tr>
        </thead>
        <tbody>
          {overview.map((one) => (
            <tr key={one.Database}>
              <td>{one.Disabled ? one.Database : <Link href={places.documents(one.Database)}>{one.Database}</Link>}</td>
              <td className="end">{one.Online ? number(one.DocumentsCount) : "–"}</td>
              <td className="end">{one.Online ? bytes(storage(one.Database)?.Size ?? 0) : "–"}</td>
              <td className="end">{rate(traffic(one.Database)?.RequestsPerSecond ?? 0)}</td>
              <td className="end">{rate(traffic(one.Database)?.DocumentWritesPerSecond ?? 0)}</td>
              <td className="end">{rate(indexing(one.Database)?.MappedPerSecond ?? 0)}</td>
              <td>
                <span className="row">
                  {one.Disabled && <Badge>Disabled</Badge>}
                  {one.IndexingErrorsCount > 0 && <Badge tone="bad">{counted(one.IndexingErrorsCount, "indexing error")}</Badge>}
                  {one.AlertsCount > 0 && <Badge tone="warn">{counted(one.AlertsCount, "alert")}</Badge>}
                </span>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
