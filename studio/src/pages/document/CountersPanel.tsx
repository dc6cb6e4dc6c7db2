/** The counters of a document. */

import { useQuery, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";

import { type StoredDocument, documents } from "../../api/documents";
import { Button, Problem } from "../../components/controls";
import { say } from "../../components/dialogs";
import { number } from "../../domain/units";

export function CountersPanel({ database, document }: { database: string; document: StoredDocument }) {
  const client = useQueryClient();
  const key = ["counters", database, document.id];
  const counters = useQuery({ queryKey: key, queryFn: ({ signal }) => documents.counters(database, document.id, signal) });
  const [name, setName] = useState("");
  const [error, setError] = useState<unknown>();
  const change = async (counter: string, change: { by: number } | "delete") => {
    setError(undefined);
    try {
      await documents.changeCounter(database, document.id, counter, change);
      if (change === "delete") say(`The counter ${counter} is deleted`);
    } catch (caught) {
      setError(caught);
    }
    await client.invalidateQueries({ queryKey: key });
    await client.invalidateQueries({ queryKey: ["document", database, document.id] });
  };
  const add = async (event: FormEvent) => {
    event.preventDefault();
    if (name.trim() === "") return;
    await change(name.trim(), { by: 0 });
    setName("");
  };
  return (
    <>
      {counters.data?.length === 0 && (
        <p className="soft">Counters are numbers that many clients change at once, without conflicts: likes, views, stock.</p>
      )}
      {(counters.error ?? error) != null && <Problem error={counters.error ?? error} doing="Changing counters" />}
      <ul className="item-list">
        {counters.data?.map(({ CounterName: counter, TotalValue: value }) => (
          <li key={counter}>
            <span className="grow ellipsis">{counter}</span>
            <Button small onClick={() => void change(counter, { by: -1 })} aria-label={`Decrease ${counter}`}>
              −
            </Button>
            <span className="counter-value">{number(value)}</span>
            <Button small onClick={() => void change(counter, { by: 1 })} aria-label={`Increase ${counter}`}>
              +
            </Button>
            <Button kind="quiet" small icon="trash" label={`Delete ${counter}`} onClick={() => void change(counter, "delete")} />
          </li>
        ))}
      </ul>
      <form className="row" onSubmit={(event) => void add(event)}>
        <input className="input" aria-label="Name of a new counter" placeholder="New counter" value={name} onChange={(event) => setName(event.target.value)} />
        <Button type="submit" icon="plus" disabled={name.trim() === ""}>
          Add
        </Button>
      </form>
    </>
  );
}
