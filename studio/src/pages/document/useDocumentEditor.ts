/** The text of a document between loading and saving: what it is based on, what is wrong with it, who else changed it. */

import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { useLocation } from "wouter";

import { ApiError } from "../../api/client";
import { type StoredDocument, documents } from "../../api/documents";
import { say } from "../../components/dialogs";
import { type Json, JsonSyntaxError, member, parse, print, text as textOf } from "../../domain/json";
import { places } from "../../shell/places";
import { readDraft, writeDraft } from "./draft";
import { useDraft } from "./useDraft";

export interface TextProblem {
  at: number;
  message: string;
}

/** `id` is empty for a new document; `latest` is what the server has. */
export function useDocumentEditor(database: string, id: string, latest: StoredDocument) {
  const isNew = id === "";
  const client = useQueryClient();
  const [, go] = useLocation();
  const [base, setBase] = useState(() => startOf(database, id, latest));
  const [text, setText] = useState(base.text);
  const [newId, setNewId] = useState(latest.id);
  const [problem, setProblem] = useState<TextProblem>();
  const [failure, setFailure] = useState<unknown>();
  const [conflict, setConflict] = useState<StoredDocument>();
  const [isSaving, setSaving] = useState(false);
  const isDirty = text !== base.loaded;
  const isOutdated = !isNew && latest.changeVector !== base.changeVector;
  const written = useRef(text);
  written.current = text;
  useDraft(database, id, isDirty ? { text, changeVector: base.changeVector, base: base.loaded } : undefined);

  /** Takes over a version of the server. Text other than `saved` was written in the meantime, and stays. */
  const adopt = (stored: StoredDocument, saved?: string) => {
    const loaded = print(stored.content);
    setBase({ text: loaded, loaded, changeVector: stored.changeVector, isDraft: false });
    setText((current) => (saved === undefined || current === saved ? loaded : current));
    setProblem(undefined);
    setFailure(undefined);
  };
  useEffect(() => {
    if (isOutdated && !isDirty) adopt(latest);
  });

  const finish = async (saved: { Id: string; ChangeVector: string }, content: string) => {
    writeDraft(database, id, undefined);
    say(`${saved.Id} is saved`);
    void client.invalidateQueries({ queryKey: ["preview", database] });
    if (isNew) {
      if (written.current !== content) {
        writeDraft(database, saved.Id, { text: written.current, changeVector: saved.ChangeVector, base: content });
      }
      setBase({ ...base, loaded: written.current });
      go(places.document(database, saved.Id), { replace: true });
      return;
    }
    const stored = await documents.load(database, id);
    if (!stored) return;
    adopt(stored, content);
    client.setQueryData(["document", database, id], stored);
    void client.invalidateQueries({ queryKey: ["revisions", database, id] });
  };
  const fail = async (error: unknown) => {
    const isConflict = error instanceof ApiError && error.status === 409 && !isNew;
    const now = isConflict ? await documents.load(database, id).catch(() => undefined) : undefined;
    if (now) setConflict(now);
    else setFailure(error);
  };
  const save = async (content = text, changeVector = base.changeVector) => {
    if (isSaving) return;
    setFailure(undefined);
    const json = objectOf(content);
    setProblem(json instanceof JsonSyntaxError ? json : undefined);
    if (json instanceof JsonSyntaxError) return;
    setSaving(true);
    try {
      const target = isNew ? newId.trim() || defaultId(json) : id;
      // The server numbers such ids, so that there is no version to expect.
      const isNumbered = isNew && /[/|]$/.test(target);
      await finish(await documents.save(database, target, json, isNumbered ? null : changeVector), content);
    } catch (error) {
      await fail(error);
    } finally {
      setSaving(false);
    }
  };
  const saveMerged = async (merged: string, theirs: StoredDocument) => {
    setConflict(undefined);
    setText(merged);
    const loaded = print(theirs.content);
    setBase({ text: loaded, loaded, changeVector: theirs.changeVector, isDraft: false });
    client.setQueryData(["document", database, id], theirs);
    await save(merged, theirs.changeVector);
  };
  const remove = async () => {
    await documents.remove(database, id, latest.changeVector);
    // Nothing is left to be kept.
    setText(base.loaded);
    writeDraft(database, id, undefined);
    say(`${id} is deleted`);
    void client.invalidateQueries({ queryKey: ["preview", database] });
    go(places.documents(database, latest.collection));
  };
  const format = () => {
    const json = objectOf(text);
    if (json instanceof JsonSyntaxError) setProblem(json);
    else setText(print(json));
  };
  return {
    ...{ isNew, base, text, newId, problem, failure, conflict, isSaving, isDirty, isOutdated },
    ...{ setText, setNewId, setConflict, save, saveMerged, remove, format },
    discard: () => adopt(latest),
  };
}

export type DocumentEditor = ReturnType<typeof useDocumentEditor>;

/** What the editor begins with: the draft, or what is stored. */
function startOf(database: string, id: string, latest: StoredDocument) {
  const loaded = print(latest.content);
  const draft = readDraft(database, id);
  if (draft && id !== "") return { text: draft.text, loaded: draft.base, changeVector: draft.changeVector, isDraft: true };
  return { text: loaded, loaded, changeVector: latest.changeVector, isDraft: false };
}

function objectOf(text: string): Json | JsonSyntaxError {
  try {
    const json = parse(text);
    return json.kind === "object" ? json : new JsonSyntaxError("A document is an object: { … }", 0);
  } catch (error) {
    return error as JsonSyntaxError;
  }
}

/** The server numbers ids that end with a slash. */
function defaultId(json: Json): string {
  const collection = textOf(member(member(json, "@metadata"), "@collection"));
  return collection === undefined ? "" : `${collection.toLowerCase()}/`;
}
