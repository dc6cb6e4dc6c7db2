/** The keys that do something. */

import { Dialog } from "../components/dialogs";

const KEYS: [string[], string][] = [
  [["Ctrl", "K"], "Go to a page, a document or an index"],
  [["?"], "This list"],
  [["Ctrl", "Enter"], "Run the query"],
  [["Ctrl", "S"], "Save the document or the index"],
  [["↑", "↓"], "Move in a table"],
  [["Page Up", "Page Down"], "Move by a page"],
  [["Home", "End"], "First and last row"],
  [["Enter"], "Open the row"],
  [["Space"], "Select the row"],
  [["Esc"], "Close what is open"],
];

export function ShortcutSheet({ open, onClose }: { open: boolean; onClose: () => void }) {
  return (
    <Dialog title="Keyboard" open={open} onClose={onClose}>
      <dl className="shortcuts">
        {KEYS.map(([keys, does]) => (
          <div key={does} style={{ display: "contents" }}>
            <dt>
              {keys.map((key) => (
                <kbd key={key}>{key}</kbd>
              ))}
            </dt>
            <dd>{does}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}
