/** A script that changes or leaves out documents on their way. */

import { useState } from "react";

import { CodeEditor } from "../../components/CodeEditor";
import { Check } from "../../components/controls";

export function ScriptField({ value, onChange }: { value: string; onChange: (script: string) => void }) {
  const [isShown, setShown] = useState(false);
  return (
    <div className="stack">
      <Check
        label="Change documents with a script"
        checked={isShown}
        onChange={(shown) => {
          setShown(shown);
          if (!shown) onChange("");
        }}
      />
      {isShown && (
        <>
          <CodeEditor className="transfer-script" value={value} onChange={onChange} language="javascript" label="Script" small />
          <p className="soft small">
            <code>this</code> is the document; <code>throw 'skip'</code> leaves it out.
          </p>
        </>
      )}
    </div>
  );
}
