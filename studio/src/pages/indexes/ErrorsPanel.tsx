/** What an index could not read. */

import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "wouter";

import { indexes } from "../../api/indexes";
import { Button, Empty, Moment, Problem } from "../../components/controls";
import { say } from "../../components/dialogs";
import { ago } from "../../domain/units";
import { places } from "../../shell/places";

export function ErrorsPanel({ database, name }: { database: string; name: string }) {
  const client = useQueryClient();
  const key = ["index", database, "errors", name];
  const errors = useQuery({ queryKey: key, queryFn: ({ signal }) => indexes.errors(database, name, signal) });
  if (errors.error) return <Problem error={errors.error} doing="Loading the errors" />;
  if (errors.data?.length === 0) {
    return (
      <Empty icon="check" title="No errors">
        Documents that the definition cannot read are named here, with the reason.
      </Empty>
    );
  }
  const clear = async () => {
    try {
      await indexes.clearErrors(database, name);
      say("The errors are cleared");
    } catch (error) {
      say((error as Error).message, "bad");
    }
    await client.invalidateQueries({ queryKey: key });
    await client.invalidateQueries({ queryKey: ["indexes", database] });
  };
  return (
    <div className="stack">
      <div>
        <Button onClick={() => void clear()}>Clear errors</Button>
      </div>
      <table className="plain-table">
        <thead>
          <tr>
            <th>When</th>
            <th>Document</th>
            <th>Step</th>
            <th>Error</th>
          </tr>
        </thead>
        <tbody>
          {errors.data?.map((error, at) => (
            <tr key={at}>
              <td>
                <Moment at={error.Timestamp} shown={ago(new Date(error.Timestamp))} />
              </td>
              <td>{error.Document ? <Link href={places.document(database, error.Document)}>{error.Document}</Link> : "–"}</td>
              <td>{error.Action}</td>
              <td>
                <pre>{error.Error}</pre>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
