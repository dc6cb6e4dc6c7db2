/** A file is sent to the server and stored there. */

import { useQueryClient } from "@tanstack/react-query";
import { useId, useRef, useState } from "react";

import { kindOf, smuggler } from "../../api/smuggler";
import { Button, Field, Problem } from "../../components/controls";
import { plain } from "../../domain/json";
import type { SmugglerResult } from "../../api/smuggler";
import { bytes } from "../../domain/units";
import { ALL_TYPES, ItemTypes } from "./ItemTypes";
import { ScriptField } from "./ScriptField";
import { TransferResult } from "./TransferResult";
import { useOperation } from "./useOperation";

type Phase = { kind: "idle" } | { kind: "running"; sent: number } | { kind: "done"; result: SmugglerResult } | { kind: "failed"; error: unknown };

const KINDS = { dump: "a dump of a database", csv: "documents as CSV", jsonl: "documents as JSON lines" };

export function ImportForm({ database }: { database: string }) {
  const client = useQueryClient();
  const inputId = useId();
  const input = useRef<HTMLInputElement>(null);
  const [file, setFile] = useState<File>();
  const [types, setTypes] = useState(ALL_TYPES);
  const [collection, setCollection] = useState("");
  const [script, setScript] = useState("");
  const [operation, setOperation] = useState<number>();
  const [phase, setPhase] = useState<Phase>({ kind: "idle" });
  const abort = useRef<AbortController>(undefined);
  const isRunning = phase.kind === "running";
  const state = useOperation(database, operation);
  const kind = file ? kindOf(file.name) : "dump";
  const start = async () => {
    if (!file) return;
    abort.current = new AbortController();
    setPhase({ kind: "running", sent: 0 });
    try {
      const id = await smuggler.nextOperation(database);
      setOperation(id);
      const onSent = (sent: number) => setPhase({ kind: "running", sent });
      const json = await smuggler.import(database, id, file, { types, collection, script }, onSent, abort.current.signal);
      setPhase({ kind: "done", result: plain<SmugglerResult>(json) });
    } catch (error) {
      setPhase({ kind: "failed", error });
    }
    void client.invalidateQueries({ predicate: ({ queryKey }) => queryKey[1] === database });
  };
  return (
    <section className="panel">
      <header>
        <h2>Import</h2>
      </header>
      <div className="transfer-body">
        <div className="row">
          <input
            ref={input}
            id={inputId}
            type="file"
            className="visually-hidden"
            accept=".ravendbdump,.csv,.jsonl,.ndjson,.gz,.zst,.dump"
            aria-label="File to import"
            tabIndex={-1}
            onChange={(event) => {
              setFile(event.target.files?.[0]);
              setPhase({ kind: "idle" });
            }}
          />
          <Button icon="file" onClick={() => input.current?.click()}>
            Choose a file
          </Button>
          <span className="ellipsis">{file ? `${file.name}, ${bytes(file.size)}: ${KINDS[kind]}` : <span className="soft">.ravendbdump, .csv or .jsonl</span>}</span>
        </div>
        {kind === "dump" ? (
          <>
            <ItemTypes chosen={types} onChoose={setTypes} />
            <ScriptField value={script} onChange={setScript} />
          </>
        ) : (
          <Field label="Collection" hint="For documents that name none in @metadata.@collection.">
            {(ids) => <input {...ids} className="input" value={collection} onChange={(event) => setCollection(event.target.value)} />}
          </Field>
        )}
        <p className="soft small">Documents of the same id are replaced. Nothing else is removed.</p>
        <div className="row">
          <Button kind="primary" icon="upload" disabled={!file || isRunning} onClick={() => void start()}>
            Import
          </Button>
          {isRunning && (
            <Button
              onClick={() => {
                abort.current?.abort();
                if (operation !== undefined) void smuggler.cancel(database, operation).catch(() => undefined);
              }}
            >
              Cancel
            </Button>
          )}
        </div>
        {phase.kind === "running" && file && <Progress sent={phase.sent} size={file.size} />}
        {isRunning && <TransferResult result={state?.progress} />}
        {phase.kind === "failed" && <Problem error={phase.error} doing="The import" />}
        {phase.kind === "done" && (
          <>
            <div className="notice good" role="status">
              <div className="title">{file?.name} is imported</div>
            </div>
            <TransferResult result={phase.result} />
          </>
        )}
      </div>
    </section>
  );
}

function Progress({ sent, size }: { sent: number; size: number }) {
  const percent = size === 0 ? 100 : Math.min(100, Math.round((sent / size) * 100));
  return (
    <div className="stack" role="status">
      <div className="progress" role="progressbar" aria-label="Sent" aria-valuenow={percent} aria-valuemin={0} aria-valuemax={100}>
        <div className="bar" style={{ width: `${percent}%` }} />
      </div>
      <span className="small soft">{percent < 100 ? `${bytes(sent)} of ${bytes(size)} sent` : "All sent; the server is storing it"}</span>
    </div>
  );
}
