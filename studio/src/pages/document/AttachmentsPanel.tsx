/** The attachments of a document. */

import { useQueryClient } from "@tanstack/react-query";
import { useRef, useState } from "react";

import { type AttachmentInfo, type StoredDocument, documents } from "../../api/documents";
import { Button, Problem } from "../../components/controls";
import { Confirm, say } from "../../components/dialogs";
import { bytes } from "../../domain/units";

export function AttachmentsPanel({ database, document }: { database: string; document: StoredDocument }) {
  const client = useQueryClient();
  const input = useRef<HTMLInputElement>(null);
  const [error, setError] = useState<unknown>();
  const [isBusy, setBusy] = useState(false);
  const [removed, setRemoved] = useState<AttachmentInfo>();
  const reload = () => client.invalidateQueries({ queryKey: ["document", database, document.id] });
  const add = async (files: FileList) => {
    setBusy(true);
    setError(undefined);
    try {
      for (const file of files) {
        await documents.putAttachment(database, document.id, file);
        say(`${file.name} is attached`);
      }
    } catch (caught) {
      setError(caught);
    }
    setBusy(false);
    await reload();
  };
  return (
    <>
      {document.attachments.length === 0 && (
        <p className="soft">Files can be attached to a document: pictures, contracts, anything that is no JSON.</p>
      )}
      <ul className="item-list">
        {document.attachments.map((one) => (
          <li key={one.Name}>
            <a className="grow ellipsis" href={documents.attachmentUrl(database, document.id, one.Name)} download={one.Name} title={one.ContentType}>
              {one.Name}
            </a>
            <span className="faint small">{bytes(one.Size)}</span>
            <Button kind="quiet" small icon="trash" label={`Delete ${one.Name}`} onClick={() => setRemoved(one)} />
          </li>
        ))}
      </ul>
      {error !== undefined && <Problem error={error} doing="Attaching the file" />}
      <div>
        <input
          ref={input}
          type="file"
          multiple
          className="visually-hidden"
          aria-label="Files to attach"
          tabIndex={-1}
          onChange={(event) => {
            if (event.target.files) void add(event.target.files);
          }}
        />
        <Button icon="upload" disabled={isBusy} onClick={() => input.current?.click()}>
          {isBusy ? "Uploading…" : "Attach files"}
        </Button>
      </div>
      {removed && (
        <Confirm
          title={`Delete ${removed.Name}`}
          action="Delete attachment"
          onClose={() => setRemoved(undefined)}
          onConfirm={async () => {
            await documents.removeAttachment(database, document.id, removed.Name);
            await reload();
            say(`${removed.Name} is deleted`);
          }}
        >
          The attachment of {bytes(removed.Size)} is removed from {document.id}. Revisions that have it keep it.
        </Confirm>
      )}
    </>
  );
}
