/** A document: its text in an editor, and beside it what belongs to it. */

import "./document.css";

import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useLocation, useSearchParams } from "wouter";

import { type StoredDocument, documents, emptyDocument } from "../../api/documents";
import { CodeEditor } from "../../components/CodeEditor";
import { Button, CopyButton, Empty, Problem, Skeleton } from "../../components/controls";
import { Confirm, Menu } from "../../components/dialogs";
import { PLAIN_LENGTH_MIN } from "../../components/editor";
import { print } from "../../domain/json";
import { bytes } from "../../domain/units";
import { places } from "../../shell/places";
import { usePageTitle } from "../../shell/usePageTitle";
import { ConflictDialog } from "./ConflictDialog";
import { RelatedPanels } from "./RelatedPanels";
import { type DocumentEditor, useDocumentEditor } from "./useDocumentEditor";

export default function DocumentPage({ database }: { database: string }) {
  const [search] = useSearchParams();
  const id = search.get("id");
  const collection = search.get("new");
  if (id === null) return <NewDocument key={collection ?? ""} database={database} collection={collection ?? ""} clone={search.get("clone")} />;
  return <ExistingDocument key={id} database={database} id={id} />;
}

function ExistingDocument({ database, id }: { database: string; id: string }) {
  usePageTitle(`${id} – ${database}`);
  const { data, error, isPending } = useQuery({
    queryKey: ["document", database, id],
    queryFn: async ({ signal }) => (await documents.load(database, id, signal)) ?? null,
    refetchOnWindowFocus: true,
  });
  if (isPending) {
    return (
      <div className="page" aria-busy="true">
        <Skeleton width={240} />
        <Skeleton width="60%" />
      </div>
    );
  }
  if (error) {
    return (
      <div className="page">
        <Problem error={error} doing="Loading the document" />
      </div>
    );
  }
  if (data === null) return <MissingDocument database={database} id={id} />;
  return <Editor database={database} id={id} latest={data} />;
}

function MissingDocument({ database, id }: { database: string; id: string }) {
  const [, go] = useLocation();
  return (
    <Empty
      icon="file"
      title={`There is no document “${id}”`}
      action={<Button onClick={() => go(places.documents(database))}>All documents</Button>}
    >
      It may have been deleted, or never existed: ids are links to documents only by convention.
    </Empty>
  );
}

function NewDocument({ database, collection, clone }: { database: string; collection: string; clone: string | null }) {
  usePageTitle(`New document – ${database}`);
  const source = useQuery({
    queryKey: ["document", database, clone],
    queryFn: async ({ signal }) => (await documents.load(database, clone ?? "", signal)) ?? null,
    enabled: clone !== null,
  });
  if (clone !== null && source.isPending) return <div className="page" aria-busy="true" />;
  const content = source.data?.content ?? emptyDocument(collection);
  const suggested = collection === "" || collection.startsWith("@") ? "" : `${collection.toLowerCase()}/`;
  const empty: StoredDocument = {
    id: clone === null ? suggested : clone.replace(/[^/]*$/, ""),
    content,
    changeVector: "",
    collection,
    lastModified: "",
    flags: [],
    attachments: [],
    counters: [],
    timeSeries: [],
  };
  return <Editor database={database} id="" latest={empty} />;
}

interface EditorProps {
  database: string;
  /** Empty for a new document. */
  id: string;
  /** What the server has. */
  latest: StoredDocument;
}

function Editor({ database, id, latest }: EditorProps) {
  const editor = useDocumentEditor(database, id, latest);
  const { isNew, text, conflict } = editor;
  return (
    <div className="page full document-page">
      <EditorHead database={database} id={id} latest={latest} editor={editor} />
      <EditorNotices latest={latest} editor={editor} />
      <div className="document-body">
        <CodeEditor
          value={text}
          onChange={editor.setText}
          language="json"
          label={isNew ? "New document" : `Document ${id}`}
          problem={editor.problem}
          onSave={() => void editor.save()}
        />
        {!isNew && <RelatedPanels database={database} document={latest} onRevert={(content) => editor.setText(print(content))} />}
      </div>
      {conflict && (
        <ConflictDialog
          base={editor.base.loaded}
          mine={text}
          theirs={conflict}
          onClose={() => editor.setConflict(undefined)}
          onMerged={(merged) => editor.saveMerged(merged, conflict)}
        />
      )}
    </div>
  );
}

interface EditorHeadProps extends EditorProps {
  editor: DocumentEditor;
}

function EditorHead({ database, id, latest, editor }: EditorHeadProps) {
  const [, go] = useLocation();
  const [isRemoving, setRemoving] = useState(false);
  const { isNew, isDirty, isSaving } = editor;
  const clone = `${places.newDocument(database, latest.collection)}&clone=${encodeURIComponent(id)}`;
  return (
    <div className="page-head">
      {isNew ? (
        <div className="row grow">
          <h1>New document</h1>
          <input
            className="input mono"
            style={{ maxWidth: 320 }}
            aria-label="Id of the document"
            placeholder="Id; ends with / for a generated one"
            spellCheck={false}
            value={editor.newId}
            onChange={(event) => editor.setNewId(event.target.value)}
          />
        </div>
      ) : (
        <div className="row grow">
          <h1 className="ellipsis">{id}</h1>
          <CopyButton text={id} label="Copy id" />
        </div>
      )}
      <div className="row">
        {isDirty && <span className="soft small">Not saved</span>}
        {isDirty && !isNew && (
          <Button kind="quiet" onClick={editor.discard}>
            Discard
          </Button>
        )}
        <Menu
          trigger={<Button kind="quiet" icon="more" label="More actions" />}
          entries={[
            { label: "Format", icon: "code", onClick: editor.format },
            { label: "Clone", icon: "copy", disabled: isNew, onClick: () => go(clone) },
            null,
            { label: "Delete document…", icon: "trash", danger: true, disabled: isNew, onClick: () => setRemoving(true) },
          ]}
        />
        <Button kind="primary" disabled={(!isDirty && !isNew) || isSaving} onClick={() => void editor.save()} title="Ctrl+S">
          {isSaving ? "Saving…" : "Save"}
        </Button>
      </div>
      {isRemoving && (
        <Confirm title={`Delete ${id}`} action="Delete document" onClose={() => setRemoving(false)} onConfirm={editor.remove}>
          The document is deleted with its attachments, counters and time series.{" "}
          {latest.flags.includes("HasRevisions") ? "Its revisions are kept." : "It has no revisions to restore it from."}
        </Confirm>
      )}
    </div>
  );
}

/** What the user should know before going on. */
function EditorNotices({ latest, editor }: { latest: StoredDocument; editor: DocumentEditor }) {
  const { base, isDirty, isOutdated, problem, failure, text } = editor;
  return (
    <>
      {base.isDraft && isDirty && (
        <div className="notice" role="status">
          <div className="grow">This is what you had written and not saved.</div>
          <Button small onClick={editor.discard}>
            Discard it
          </Button>
        </div>
      )}
      {isOutdated && isDirty && (
        <div className="notice warn" role="alert">
          <div className="grow">
            <div className="title">The document has been changed on the server</div>
            <p className="soft">Your text is kept. Compare both before you save.</p>
          </div>
          <Button small onClick={() => editor.setConflict(latest)}>
            Compare and merge
          </Button>
        </div>
      )}
      {problem && (
        <div className="notice bad" role="alert">
          <div>
            <div className="title">This is no JSON, so it was not saved</div>
            {problem.message} (line {text.slice(0, problem.at).split("\n").length}).
          </div>
        </div>
      )}
      {failure !== undefined && <Problem error={failure} doing="Saving the document" />}
      {base.text.length > PLAIN_LENGTH_MIN && (
        <div className="notice warn">This document has {bytes(base.text.length)}: it is shown without colours and folding.</div>
      )}
    </>
  );
}
