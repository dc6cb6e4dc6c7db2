/** The time series of a document, as charts and as a table. */

import { useQuery, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";

import { type StoredDocument, type TimeSeriesInfo, documents } from "../../api/documents";
import { Chart } from "../../components/Chart";
import { Button, Problem, Skeleton } from "../../components/controls";
import { counted } from "../../domain/units";

/** More entries are not drawn. */
const ENTRIES_MAX = 2000;
const TABLE_ROWS_MAX = 50;

export function TimeSeriesPanel({ database, document }: { database: string; document: StoredDocument }) {
  const series = useQuery({
    queryKey: ["series", database, document.id],
    queryFn: ({ signal }) => documents.timeSeriesOf(database, document.id, signal),
  });
  return (
    <>
      {series.error && <Problem error={series.error} doing="Loading the time series" />}
      {series.data?.length === 0 && (
        <p className="soft">Values with a time: measurements, prices, positions. Add the first one here or by an application.</p>
      )}
      {series.data?.map((one) => (
        <OneSeries key={one.Name} database={database} id={document.id} series={one} />
      ))}
      <AppendForm database={database} id={document.id} names={series.data?.map((one) => one.Name) ?? []} />
    </>
  );
}

function OneSeries({ database, id, series }: { database: string; id: string; series: TimeSeriesInfo }) {
  const entries = useQuery({
    queryKey: ["series", database, id, series.Name],
    queryFn: ({ signal }) => documents.timeSeries(database, id, series.Name, ENTRIES_MAX, signal),
  });
  const found = entries.data?.Entries ?? [];
  const width = Math.max(0, ...found.map((entry) => entry.Values.length));
  const times = found.map((entry) => Date.parse(entry.Timestamp) / 1000);
  const lines = Array.from({ length: Math.min(width, 5) }, (_, at) => ({
    label: width === 1 ? "Value" : `Value ${at + 1}`,
    values: found.map((entry) => entry.Values[at] ?? null),
  }));
  return (
    <section className="stack">
      <div className="spread">
        <h2>{series.Name}</h2>
        <span className="faint small">{counted(series.NumberOfEntries, "entry", "entries")}</span>
      </div>
      {entries.isPending && <Skeleton width="100%" />}
      {found.length > 0 && <Chart label={`Time series ${series.Name}`} times={times} lines={lines.slice(0, 4)} height={160} fromZero={false} />}
      {found.length > 0 && (
        <details>
          <summary>The first {Math.min(found.length, TABLE_ROWS_MAX)} entries</summary>
          <table className="plain-table">
            <thead>
              <tr>
                <th>Time</th>
                <th>Values</th>
                <th>Tag</th>
              </tr>
            </thead>
            <tbody>
              {found.slice(0, TABLE_ROWS_MAX).map((entry) => (
                <tr key={entry.Timestamp}>
                  <td>{entry.Timestamp.slice(0, 19)}</td>
                  <td>{entry.Values.join(", ")}</td>
                  <td>{entry.Tag ?? ""}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </details>
      )}
    </section>
  );
}

function AppendForm({ database, id, names }: { database: string; id: string; names: string[] }) {
  const client = useQueryClient();
  const [typed, setName] = useState<string>();
  const name = typed ?? names[0] ?? "";
  const [values, setValues] = useState("");
  const [error, setError] = useState<unknown>();
  const numbers = values.split(/[\s,;]+/).filter(Boolean).map(Number);
  const isReady = name.trim() !== "" && numbers.length > 0 && numbers.every(Number.isFinite);
  const append = async (event: FormEvent) => {
    event.preventDefault();
    if (!isReady) return;
    setError(undefined);
    try {
      await documents.appendToTimeSeries(database, id, name.trim(), { Timestamp: new Date().toISOString(), Values: numbers });
      setValues("");
    } catch (caught) {
      setError(caught);
    }
    await client.invalidateQueries({ queryKey: ["series", database, id] });
    await client.invalidateQueries({ queryKey: ["document", database, id] });
  };
  return (
    <form className="stack" onSubmit={(event) => void append(event)}>
      {error !== undefined && <Problem error={error} doing="Appending" />}
      <div className="row">
        <input className="input" aria-label="Time series" placeholder="Time series" value={name} onChange={(event) => setName(event.target.value)} />
        <input className="input" aria-label="Values for now" placeholder="Values: 1.5, 2" value={values} onChange={(event) => setValues(event.target.value)} />
        <Button type="submit" disabled={!isReady}>
          Append
        </Button>
      </div>
    </form>
  );
}
