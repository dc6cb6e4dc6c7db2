/** The dialog that creates a database. */

import { useQuery, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { useLocation } from "wouter";

import { server } from "../../api/server";
import { Button, Check, Field, Problem } from "../../components/controls";
import { Dialog, say } from "../../components/dialogs";
import { useDatabases } from "../../shell/data";
import { places } from "../../shell/places";

export function CreateDatabase({ onClose }: { onClose: () => void }) {
  const client = useQueryClient();
  const [, go] = useLocation();
  const [name, setName] = useState("");
  const [withSamples, setWithSamples] = useState(false);
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  const problem = useProblem(name);
  const create = async (event: FormEvent) => {
    event.preventDefault();
    if (name === "" || problem || isBusy) return;
    setBusy(true);
    setError(undefined);
    try {
      await server.create(name);
      if (withSamples) await server.createSampleData(name);
      await client.invalidateQueries({ queryKey: ["databases"] });
      say(`${name} is created`);
      onClose();
      go(places.documents(name));
    } catch (caught) {
      setError(caught);
      setBusy(false);
      await client.invalidateQueries({ queryKey: ["databases"] });
    }
  };
  return (
    <Dialog
      open
      title="Create database"
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" type="submit" form="create-database" disabled={name === "" || Boolean(problem) || isBusy}>
            {isBusy ? "Creating…" : "Create"}
          </Button>
        </>
      }
    >
      <form id="create-database" className="stack" onSubmit={(event) => void create(event)}>
        <Field label="Name" hint="Letters, digits, - _ and . — it becomes part of addresses." problem={problem}>
          {(ids) => (
            <input
              {...ids}
              className="input"
              autoFocus
              autoComplete="off"
              spellCheck={false}
              value={name}
              onChange={(event) => setName(event.target.value)}
            />
          )}
        </Field>
        <Check label="Add sample data: a trading company with orders, products and reviews" checked={withSamples} onChange={setWithSamples} />
      </form>
      {error !== undefined && <Problem error={error} doing="Creating the database" />}
    </Dialog>
  );
}

/** Why the name cannot be used, if the server knows a reason. */
function useProblem(name: string): string | undefined {
  const { data: databases } = useDatabases();
  const validity = useQuery({
    queryKey: ["valid-name", name],
    queryFn: ({ signal }) => server.isValidName(name, signal),
    enabled: name !== "",
    staleTime: Infinity,
  });
  if (name === "") return undefined;
  if (databases?.some((one) => one.Name.toLowerCase() === name.toLowerCase())) return "There is a database of this name.";
  return validity.data?.IsValid === false ? (validity.data.ErrorMessage ?? "This name cannot be used.") : undefined;
}
