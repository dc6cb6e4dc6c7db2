/** Runs a definition over a few documents, without storing it. */

import { useMutation } from "@tanstack/react-query";

import { type IndexDefinition, indexes } from "../../api/indexes";
import { Button, Problem } from "../../components/controls";
import { JsonCell, columnsOf } from "../../components/JsonCell";
import { member } from "../../domain/json";

const DOCUMENTS_MAX = 100;
const ROWS_MAX = 50;

export function TrialPanel({ database, definition }: { database: string; definition: IndexDefinition }) {
  const trial = useMutation({ mutationFn: () => indexes.test(database, definition, DOCUMENTS_MAX) });
  const rows = trial.data?.slice(0, ROWS_MAX) ?? [];
  const columns = columnsOf(rows);
  return (
    <div className="stack">
      <div className="row">
        <Button icon="play" disabled={definition.Maps.length === 0 || trial.isPending} onClick={() => trial.mutate()}>
          {trial.isPending ? "Trying…" : `Try it on ${DOCUMENTS_MAX} documents`}
        </Button>
        <span className="soft">Nothing is stored, and no other query sees it.</span>
      </div>
      {trial.error && <Problem error={trial.error} doing="The trial" />}
      {trial.data?.length === 0 && <p className="soft">The definition made no entries of these documents.</p>}
      {rows.length > 0 && (
        <div className="trial" tabIndex={0} role="region" aria-label="Entries of the trial">
          <table className="plain-table">
            <thead>
              <tr>
                {columns.map((name) => (
                  <th key={name}>{name}</th>
                ))}
              </tr>
            </thead>
            <tbody>
              {rows.map((row, at) => (
                <tr key={at}>
                  {columns.map((name) => (
                    <td key={name}>
                      <JsonCell value={member(row, name)} database={database} />
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </div>
  );
}
