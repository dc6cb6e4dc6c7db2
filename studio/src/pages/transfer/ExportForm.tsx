/** A database, or a part of it, as a file of this computer. */

import { useRef, useState } from "react";

import { databasePath, withQuery } from "../../api/client";
import { smuggler } from "../../api/smuggler";
import { Button, Check, Problem } from "../../components/controls";
import { bytes, number } from "../../domain/units";
import { useCollections } from "../../shell/data";
import { ALL_TYPES, ItemTypes } from "./ItemTypes";
import { ScriptField } from "./ScriptField";
import { TransferResult } from "./TransferResult";
import { saveStream } from "./saveStream";
import { useOperation } from "./useOperation";

type Phase = { kind: "idle" } | { kind: "running"; received: number } | { kind: "done"; received: number } | { kind: "failed"; error: unknown };

export function ExportForm({ database }: { database: string }) {
  const collections = useCollections(database).data?.Collections ?? {};
  const [types, setTypes] = useState(ALL_TYPES);
  const [chosen, setChosen] = useState<string[]>();
  const [script, setScript] = useState("");
  const [operation, setOperation] = useState<number>();
  const [phase, setPhase] = useState<Phase>({ kind: "idle" });
  const abort = useRef<AbortController>(undefined);
  const isRunning = phase.kind === "running";
  const state = useOperation(database, operation);
  const start = async () => {
    abort.current = new AbortController();
    const { signal } = abort.current;
    try {
      const id = await smuggler.nextOperation(database);
      const name = `${database} ${new Date().toISOString().slice(0, 16).replace(":", "-").replace("T", " ")}.ravendbdump`;
      const received = await saveStream(
        name,
        () => {
          setOperation(id);
          setPhase({ kind: "running", received: 0 });
          return smuggler.export(database, id, { types, collections: chosen ?? [], script }, signal);
        },
        (count) => setPhase({ kind: "running", received: count }),
      );
      setPhase(received === undefined ? { kind: "idle" } : { kind: "done", received });
    } catch (error) {
      setPhase(signal.aborted ? { kind: "idle" } : { kind: "failed", error });
    }
  };
  const names = Object.entries(collections).filter(([, count]) => count > 0);
  return (
    <section className="panel">
      <header>
        <h2>Export</h2>
      </header>
      <div className="transfer-body">
        <ItemTypes chosen={types} onChoose={setTypes} />
        <fieldset className="choices">
          <legend>Collections</legend>
          <Check label="All collections" checked={chosen === undefined} onChange={(all) => setChosen(all ? undefined : [])} />
          {chosen !== undefined &&
            names.map(([name, count]) => (
              <Check
                key={name}
                label={`${name} (${number(count)})`}
                checked={chosen.includes(name)}
                onChange={(isChosen) => setChosen(isChosen ? [...chosen, name] : chosen.filter((one) => one !== name))}
              />
            ))}
        </fieldset>
        <ScriptField value={script} onChange={setScript} />
        <div className="row">
          <Button
            kind="primary"
            icon="download"
            disabled={types.length === 0 || chosen?.length === 0 || isRunning}
            onClick={() => void start()}
          >
            Export
          </Button>
          {isRunning && <Button onClick={() => abort.current?.abort()}>Cancel</Button>}
          <a className="button quiet" href={withQuery(databasePath(database, "streams/docs"), { format: "jsonl" })} download={`${database}.jsonl`}>
            All documents as JSON lines
          </a>
        </div>
        {phase.kind === "running" && (
          <div className="stack" role="status">
            <div className="progress endless" aria-hidden="true">
              <div className="bar" />
            </div>
            <span className="small soft">{bytes(phase.received)} received</span>
          </div>
        )}
        {phase.kind === "failed" && <Problem error={phase.error} doing="The export" />}
        {phase.kind === "done" && (
          <div className="notice good" role="status">
            <div className="title">Exported: {bytes(phase.received)}</div>
          </div>
        )}
        {(isRunning || phase.kind === "done") && <TransferResult result={state?.result ?? state?.progress} />}
      </div>
    </section>
  );
}
