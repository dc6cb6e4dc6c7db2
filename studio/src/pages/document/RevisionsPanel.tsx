/** The former versions of a document, and what changed since. */

import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { type StoredDocument, documents } from "../../api/documents";
import { DiffView } from "../../components/DiffView";
import { Badge, Button, Moment, Problem } from "../../components/controls";
import { Dialog } from "../../components/dialogs";
import { type Json, print } from "../../domain/json";
import { ago, counted } from "../../domain/units";

const SHOWN_MAX = 50;

interface RevisionsPanelProps {
  database: string;
  document: StoredDocument;
  onRevert: (content: Json) => void;
}

export function RevisionsPanel({ database, document, onRevert }: RevisionsPanelProps) {
  const [shown, setShown] = useState<StoredDocument>();
  const revisions = useQuery({
    queryKey: ["revisions", database, document.id, document.changeVector],
    queryFn: ({ signal }) => documents.revisions(database, document.id, 0, SHOWN_MAX, signal),
  });
  const { data } = revisions;
  return (
    <>
      {revisions.error && <Problem error={revisions.error} doing="Loading the revisions" />}
      {data?.total === 0 && (
        <p className="soft">
          No former versions are kept. Where revisions are configured for the collection, each change keeps one.
        </p>
      )}
      {data && data.total > 0 && <p className="soft small">{counted(data.total, "revision")}, the newest first</p>}
      <ul className="item-list">
        {data?.revisions.map((revision) => (
          <li key={revision.changeVector}>
            <span className="grow">
              <Moment at={revision.lastModified} shown={ago(new Date(revision.lastModified))} />
            </span>
            {revision.flags.includes("DeleteRevision") && <Badge tone="bad">Deleted</Badge>}
            {revision.changeVector === document.changeVector ? (
              <Badge>Current</Badge>
            ) : (
              <Button small onClick={() => setShown(revision)}>
                Compare
              </Button>
            )}
          </li>
        ))}
      </ul>
      {shown && (
        <Dialog
          open
          wide
          title={`${document.id}: ${ago(new Date(shown.lastModified))} and now`}
          onClose={() => setShown(undefined)}
          footer={
            <>
              <Button onClick={() => setShown(undefined)}>Close</Button>
              <Button
                kind="primary"
                onClick={() => {
                  onRevert(shown.content);
                  setShown(undefined);
                }}
              >
                Put this version into the editor
              </Button>
            </>
          }
        >
          <DiffView
            before={print(shown.content)}
            after={print(document.content)}
            beforeLabel={`The version of ${shown.lastModified}`}
            afterLabel="The current version"
          />
        </Dialog>
      )}
    </>
  );
}
