/** Two people changed the same document: what each did, and what is saved. */

import { useMemo, useState } from "react";

import type { StoredDocument } from "../../api/documents";
import { DiffView } from "../../components/DiffView";
import { Button, Problem } from "../../components/controls";
import { Dialog } from "../../components/dialogs";
import { type Json, parse, print } from "../../domain/json";
import { type Side, merge } from "../../domain/merge";
import { counted } from "../../domain/units";

interface ConflictDialogProps {
  /** The text that was loaded. */
  base: string;
  /** The text in the editor. */
  mine: string;
  theirs: StoredDocument;
  onClose: () => void;
  onMerged: (text: string) => Promise<void>;
}

export function ConflictDialog({ base, mine, theirs, onClose, onMerged }: ConflictDialogProps) {
  const [choices, setChoices] = useState<Record<string, Side>>({});
  const parsed = useMemo(() => {
    try {
      return { base: parse(base), mine: parse(mine) };
    } catch (error) {
      return { error };
    }
  }, [base, mine]);
  if ("error" in parsed) {
    return (
      <Dialog open title="The document has been changed on the server" onClose={onClose}>
        <Problem error={parsed.error} doing="Comparing" />
      </Dialog>
    );
  }
  const result = merge(parsed.base, theirs.content, parsed.mine, (path) => choices[path.join("\u0000")] ?? "mine");
  const merged = print(result.merged);
  const theirsTaken = result.taken.filter((one) => one.side === "theirs").length;
  return (
    <Dialog
      open
      wide
      title="The document has been changed on the server"
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>Keep editing</Button>
          <Button kind="primary" onClick={() => void onMerged(merged)}>
            Save the merged document
          </Button>
        </>
      }
    >
      <p className="soft">
        Somebody saved it after you had opened it. Changes of both are merged; {counted(theirsTaken, "change")} of theirs{" "}
        {theirsTaken === 1 ? "is" : "are"} taken over
        {result.conflicts.length > 0 &&
          `, and ${counted(result.conflicts.length, "property was", "properties were")} changed differently by both: choose`}
        .
      </p>
      {result.conflicts.length > 0 && (
        <table className="plain-table conflict-table">
          <thead>
            <tr>
              <th>Property</th>
              <th>Before</th>
              <th>Theirs</th>
              <th>Yours</th>
            </tr>
          </thead>
          <tbody>
            {result.conflicts.map(({ path, base: before, theirs: other, mine: own }) => {
              const key = path.join("\u0000");
              const choice = (side: Side, value: Json | undefined) => (
                <label className="check">
                  <input
                    type="radio"
                    name={key}
                    checked={(choices[key] ?? "mine") === side}
                    onChange={() => setChoices((old) => ({ ...old, [key]: side }))}
                  />
                  <Value value={value} />
                </label>
              );
              return (
                <tr key={key}>
                  <td className="mono">{path.join(" › ") || "the whole document"}</td>
                  <td>
                    <Value value={before} />
                  </td>
                  <td>{choice("theirs", other)}</td>
                  <td>{choice("mine", own)}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      )}
      <h3>What is saved, compared with what is on the server</h3>
      <DiffView before={print(theirs.content)} after={merged} beforeLabel="On the server" afterLabel="To be saved" />
    </Dialog>
  );
}

function Value({ value }: { value: Json | undefined }) {
  return value === undefined ? <span className="faint">removed</span> : <code>{print(value).slice(0, 300)}</code>;
}
