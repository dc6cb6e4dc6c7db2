/** A document: its text in an editor, and beside it what belongs to it. */

import "./document.css";

import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { useLocation, useSearchParams } from "wouter";

import { ApiError } from "../../api/client";
import { type StoredDocument, documents, emptyDocument } from "../../api/documents";
import { CodeEditor } from "../../components/CodeEditor";
import { Button, CopyButton, Empty, Problem, Skeleton } from "../../components/controls";
import { Confirm, Menu, say } from "../../components/dialogs";
import { PLAIN_LENGTH_MIN } from "../../components/editor";
import { JsonSyntaxError, member, parse, print, text as textOf } from "../../domain/json";
import { bytes } from "../../domain/units";
import { places } from "../../shell/places";
import { usePageTitle } from "../../shell/usePageTitle";
import { ConflictDialog } from "./ConflictDialog";
import { RelatedPanels } from "./RelatedPanels";
import { readDraft, writeDraft } from "./draft";

/** How long after the last key a draft is stored. */
const DRAFT_MILLISECONDS = 300;

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
  const isNew = id === "";
  const client = useQueryClient();
  const [, go] = useLocation();
  const [base, setBase] = useState(() => startOf(database, id, latest));
  const [text, setText] = useState(base.text);
  const [newId, setNewId] = useState(latest.id);
  const [problem, setProblem] = useState<{ at: number; message: string }>();
  const [failure, setFailure] = useState<unknown>();
  const [conflict, setConflict] = useState<StoredDocument>();
  const [isRemoving, setRemoving] = useState(false);
  const [isSaving, setSaving] = useState(false);
  const isDirty = text !== base.loaded;
  const isOutdated = !isNew && latest.changeVector !== base.changeVector;
  useDraft(database, id, isDirty ? { text, changeVector: base.changeVector, base: base.loaded } : undefined);

  const adopt = (stored: StoredDocument) => {
    const loaded = print(stored.content);
    setBase({ text: loaded, loaded, changeVector: stored.changeVector, isDraft: false });
    setText(loaded);
    setProblem(undefined);
    setFailure(undefined);
  };
  useEffect(() => {
    if (isOutdated && !isDirty) adopt(latest);
  });

  const save = async (content = text, changeVector = base.changeVector) => {
    if (isSaving) return;
    setFailure(undefined);
    let json;
    try {
      json = parse(content);
      if (json.kind !== "object") throw new JsonSyntaxError("A document is an object: { … }", 0);
      setProblem(undefined);
    } catch (error) {
      setProblem(error as JsonSyntaxError);
      return;
    }
    setSaving(true);
    try {
      const target = isNew ? newId.trim() || defaultId(json) : id;
      const saved = await documents.save(database, target, json, isNew && /[/|]$/.test(target) ? null : changeVector);
      writeDraft(database, id, undefined);
      say(`${saved.Id} is saved`);
      if (isNew) {
        setBase({ ...base, loaded: text });
        go(places.document(database, saved.Id), { replace: true });
      } else {
        const stored = await documents.load(database, id);
        if (stored) {
          adopt(stored);
          client.setQueryData(["document", database, id], stored);
        }
      }
      void client.invalidateQueries({ queryKey: ["preview", database] });
      void client.invalidateQueries({ queryKey: ["revisions", database, id] });
    } catch (error) {
      if (error instanceof ApiError && error.status === 409 && !isNew) {
        const now = await documents.load(database, id).catch(() => undefined);
        if (now) setConflict(now);
        else setFailure(error);
      } else {
        setFailure(error);
      }
    } finally {
      setSaving(false);
    }
  };

  return (
    <div className="page full document-page">
      <div className="page-head">
        {isNew ? (
          <label className="row grow">
            <h1>New document</h1>
            <input
              className="input mono"
              style={{ maxWidth: 320 }}
              aria-label="Id of the document"
              placeholder="Id; ends with / for a generated one"
              spellCheck={false}
              value={newId}
              onChange={(event) => setNewId(event.target.value)}
            />
          </label>
        ) : (
          <div className="row grow">
            <h1 className="ellipsis">{id}</h1>
            <CopyButton text={id} label="Copy id" />
          </div>
        )}
        <div className="row">
          {isDirty && <span className="soft small">Not saved</span>}
          {isDirty && !isNew && (
            <Button kind="quiet" onClick={() => adopt(latest)}>
              Discard
            </Button>
          )}
          <Menu
            trigger={<Button kind="quiet" icon="more" label="More actions" />}
            entries={[
              { label: "Format", icon: "code", onClick: () => format(text, setText, setProblem) },
              { label: "Clone", icon: "copy", disabled: isNew, onClick: () => go(`${places.newDocument(database, latest.collection)}&clone=${encodeURIComponent(id)}`) },
              null,
              { label: "Delete document…", icon: "trash", danger: true, disabled: isNew, onClick: () => setRemoving(true) },
            ]}
          />
          <Button kind="primary" disabled={(!isDirty && !isNew) || isSaving} onClick={() => void save()} title="Ctrl+S">
            {isSaving ? "Saving…" : "Save"}
          </Button>
        </div>
      </div>
      {base.isDraft && isDirty && (
        <div className="notice" role="status">
          <div className="grow">This is what you had written and not saved.</div>
          <Button small onClick={() => adopt(latest)}>
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
          <Button small onClick={() => setConflict(latest)}>
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
      <div className="document-body">
        <CodeEditor
          value={text}
          onChange={setText}
          language="json"
          label={isNew ? "New document" : `Document ${id}`}
          problem={problem}
          onSave={() => void save()}
        />
        {!isNew && <RelatedPanels database={database} document={latest} onRevert={(content) => setText(print(content))} />}
      </div>
      {conflict && (
        <ConflictDialog
          base={base.loaded}
          mine={text}
          theirs={conflict}
          onClose={() => setConflict(undefined)}
          onMerged={async (merged) => {
            setConflict(undefined);
            setText(merged);
            setBase({ text: print(conflict.content), loaded: print(conflict.content), changeVector: conflict.changeVector, isDraft: false });
            client.setQueryData(["document", database, id], conflict);
            await save(merged, conflict.changeVector);
          }}
        />
      )}
      {isRemoving && (
        <Confirm
          title={`Delete ${id}`}
          action="Delete document"
          onClose={() => setRemoving(false)}
          onConfirm={async () => {
            await documents.remove(database, id, latest.changeVector);
            writeDraft(database, id, undefined);
            say(`${id} is deleted`);
            void client.invalidateQueries({ queryKey: ["preview", database] });
            go(places.documents(database, latest.collection));
          }}
        >
          The document is deleted with its attachments, counters and time series.{" "}
          {latest.flags.includes("HasRevisions") ? "Its revisions are kept." : "It has no revisions to restore it from."}
        </Confirm>
      )}
    </div>
  );
}

/** What the editor begins with: the draft, or what is stored. */
function startOf(database: string, id: string, latest: StoredDocument) {
  const loaded = print(latest.content);
  const draft = readDraft(database, id);
  if (draft && id !== "") return { text: draft.text, loaded: draft.base, changeVector: draft.changeVector, isDraft: true };
  return { text: loaded, loaded, changeVector: latest.changeVector, isDraft: false };
}

/** Keeps what is not saved, and asks before the window is closed. */
function useDraft(database: string, id: string, draft: { text: string; changeVector: string; base: string } | undefined): void {
  const { text, changeVector, base } = draft ?? {};
  useEffect(() => {
    if (id === "") return undefined;
    const kept = text === undefined ? undefined : { text, changeVector: changeVector ?? "", base: base ?? "" };
    const keep = () => writeDraft(database, id, kept);
    if (kept === undefined) keep();
    const timer = kept && setTimeout(keep, DRAFT_MILLISECONDS);
    // Whoever reloads faster than that loses nothing either.
    if (kept) window.addEventListener("pagehide", keep);
    return () => {
      clearTimeout(timer);
      window.removeEventListener("pagehide", keep);
    };
  }, [database, id, text, changeVector, base]);
  const isDirty = text !== undefined;
  useEffect(() => {
    if (!isDirty) return undefined;
    const ask = (event: BeforeUnloadEvent) => event.preventDefault();
    window.addEventListener("beforeunload", ask);
    return () => window.removeEventListener("beforeunload", ask);
  }, [isDirty]);
}

/** The server numbers ids that end with a slash. */
function defaultId(json: ReturnType<typeof parse>): string {
  const collection = textOf(member(member(json, "@metadata"), "@collection"));
  return collection === undefined ? "" : `${collection.toLowerCase()}/`;
}

function format(text: string, setText: (text: string) => void, setProblem: (problem: { at: number; message: string } | undefined) => void): void {
  try {
    setText(print(parse(text)));
    setProblem(undefined);
  } catch (error) {
    setProblem(error as JsonSyntaxError);
  }
}
