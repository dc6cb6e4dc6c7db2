/** Changing or deleting every document that a query finds: the count, a dry run, and only then the operation. */

import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { queries } from "../../api/queries";
import { DiffView } from "../../components/DiffView";
import { Button, Problem, Skeleton } from "../../components/controls";
import { Confirm, Dialog, say } from "../../components/dialogs";
import { idOf } from "../../components/JsonCell";
import { type Json, print } from "../../domain/json";
import { withoutUpdate } from "../../domain/rql";
import { counted } from "../../domain/units";

interface BulkDialogProps {
  database: string;
  query: string;
  parameters: Json | undefined;
  onClose: () => void;
}

export function UpdateDialog({ database, query, parameters, onClose }: BulkDialogProps) {
  const [error, setError] = useState<unknown>();
  const [isBusy, setBusy] = useState(false);
  const trial = useQuery({
    queryKey: ["trial", database, query, parameters],
    queryFn: async ({ signal }) => {
      const found = await queries.run(database, { query: withoutUpdate(query) ?? query, parameters, start: 0, pageSize: 1 }, signal);
      const [first] = found.results;
      const id = first && idOf(first);
      return { total: found.total, id, result: id ? await queries.tryUpdate(database, query, parameters, id) : undefined };
    },
    staleTime: 0,
    gcTime: 0,
  });
  const { data } = trial;
  const update = async () => {
    setBusy(true);
    try {
      await queries.update(database, query, parameters);
      say("The documents are being updated: see Notifications");
      onClose();
    } catch (caught) {
      setError(caught);
      setBusy(false);
    }
  };
  return (
    <Dialog
      open
      wide
      title="Update documents"
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" danger disabled={!data || data.total === 0 || isBusy} onClick={() => void update()}>
            {data ? `Update ${counted(data.total, "document")}` : "Update"}
          </Button>
        </>
      }
    >
      {trial.error && <Problem error={trial.error} doing="The dry run" />}
      {error !== undefined && <Problem error={error} doing="The update" />}
      {trial.isPending && <Skeleton width="100%" />}
      {data?.total === 0 && <p className="soft">The query finds no document.</p>}
      {data?.result && (
        <>
          <p className="soft">
            Dry run: what becomes of {data.id}, the first of {counted(data.total, "document")}. Nothing is stored yet.
          </p>
          <DiffView
            before={data.result.before ? print(data.result.before) : ""}
            after={data.result.after ? print(data.result.after) : ""}
            beforeLabel="Now"
            afterLabel="After the update"
          />
          {data.result.output.length > 0 && (
            <details open>
              <summary>Output of the script</summary>
              <pre>{data.result.output.join("\n")}</pre>
            </details>
          )}
        </>
      )}
    </Dialog>
  );
}

export function DeleteDialog({ database, query, parameters, onClose }: BulkDialogProps) {
  const count = useQuery({
    queryKey: ["count", database, query, parameters],
    queryFn: ({ signal }) => queries.count(database, query, parameters, signal),
    staleTime: 0,
    gcTime: 0,
  });
  if (count.data === undefined) {
    return (
      <Dialog open title="Delete documents" onClose={onClose}>
        {count.error ? <Problem error={count.error} doing="Counting" /> : <Skeleton width="60%" />}
      </Dialog>
    );
  }
  const typed = String(count.data);
  return (
    <Confirm
      title={`Delete ${counted(count.data, "document")}`}
      action={`Delete ${counted(count.data, "document")}`}
      typed={typed}
      onClose={onClose}
      onConfirm={async () => {
        await queries.remove(database, query, parameters);
        say("The documents are being deleted: see Notifications");
      }}
    >
      Every document that the query finds when it is run is deleted, by an operation that you can cancel in Notifications. Where
      revisions are kept, they can be restored from the revisions.
    </Confirm>
  );
}
