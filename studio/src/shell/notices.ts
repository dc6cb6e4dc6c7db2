/** What the server notifies of: operations and alerts, from one feed of the server and one of the open database. */

import type { QueryClient } from "@tanstack/react-query";

import { type FeedState, openFeed } from "../api/feeds";
import { send } from "../api/client";

export interface Operation {
  id: number;
  status: "InProgress" | "Completed" | "Faulted" | "Canceled";
  progress: Record<string, unknown> | null;
  result: Record<string, unknown> | null;
}

export interface Notice {
  id: string;
  database: string | null;
  title: string;
  message: string;
  severity: "None" | "Info" | "Success" | "Warning" | "Error";
  at: string;
  operation?: Operation;
  killable: boolean;
}

interface RawNotice {
  Id: string;
  Type: string;
  CreatedAt: string;
  Title: string | null;
  Message: string | null;
  Severity: Notice["severity"];
  Database: string | null;
  NotificationId?: string;
  UpdateType?: string;
  OperationId?: number;
  Killable?: boolean;
  State?: { Status: Operation["status"]; Progress: Record<string, unknown> | null; Result: Record<string, unknown> | null };
}

/** More are not kept. */
const NOTICES_MAX = 200;

export interface NoticeState {
  notices: readonly Notice[];
  connection: FeedState;
}

let state: NoticeState = { notices: [], connection: "connecting" };
const listeners = new Set<() => void>();

export const noticeBoard = {
  subscribe(listener: () => void): () => void {
    listeners.add(listener);
    return () => listeners.delete(listener);
  },
  read: (): NoticeState => state,
};

function change(next: Partial<NoticeState>): void {
  state = { ...state, ...next };
  for (const listener of listeners) listener();
}

/** The notices with one more, or with a newer form of one. */
export function withNotice(notices: readonly Notice[], raw: RawNotice): readonly Notice[] {
  if (raw.Type === "NotificationUpdated") return notices.filter((one) => one.id !== raw.NotificationId);
  const isShown = ["AlertRaised", "PerformanceHint", "OperationChanged"].includes(raw.Type);
  if (!isShown) return notices;
  const id = raw.Type === "OperationChanged" ? `${raw.Database ?? ""}/${raw.Id}` : raw.Id;
  const notice: Notice = {
    id,
    database: raw.Database,
    title: raw.Title ?? raw.Type,
    message: raw.Message ?? "",
    severity: raw.Severity,
    at: raw.CreatedAt,
    killable: raw.Killable ?? false,
  };
  if (raw.State && raw.OperationId !== undefined) {
    notice.operation = {
      id: raw.OperationId,
      status: raw.State.Status,
      progress: raw.State.Progress,
      result: raw.State.Result,
    };
  }
  return [notice, ...notices.filter((one) => one.id !== id)].slice(0, NOTICES_MAX);
}

/** Follows the server. The result ends it. */
export function followServer(client: QueryClient): () => void {
  let wasLost = false;
  return openFeed("/server/notification-center/watch", {
    onState: (connection) => {
      if (connection === "open" && wasLost) void client.invalidateQueries();
      wasLost ||= connection === "lost";
      if (connection !== "connecting" || !wasLost) change({ connection });
      if (connection === "open") wasLost = false;
    },
    onMessage: (message) => {
      const raw = message as RawNotice;
      if (raw.Type === "DatabaseChanged") void client.invalidateQueries({ queryKey: ["databases"] });
      change({ notices: withNotice(state.notices, raw) });
    },
  });
}

/** Follows a database: its operations and alerts, and when its numbers change. The result ends it. */
export function followDatabase(database: string, client: QueryClient): () => void {
  const stop = openFeed(`/databases/${encodeURIComponent(database)}/notification-center/watch`, {
    onMessage: (message) => {
      const raw = message as RawNotice;
      if (raw.Type === "DatabaseStatsChanged") {
        for (const key of ["collections", "footer", "indexes", "document"]) {
          void client.invalidateQueries({ queryKey: [key, database] });
        }
      }
      change({ notices: withNotice(state.notices, raw) });
    },
  });
  return () => {
    stop();
    change({ notices: state.notices.filter((one) => one.database === null || one.database !== database) });
  };
}

/** Not shown again until it happens again. */
export async function dismiss(notice: Notice): Promise<void> {
  change({ notices: state.notices.filter((one) => one.id !== notice.id) });
  if (notice.operation) return;
  const of = notice.database === null ? "/server" : `/databases/${encodeURIComponent(notice.database)}`;
  await send("POST", `${of}/notification-center/dismiss`, { query: { id: notice.id } });
}

export async function cancel(notice: Notice): Promise<void> {
  if (!notice.operation) return;
  const of = notice.database === null ? "/admin" : `/databases/${encodeURIComponent(notice.database)}`;
  await send("POST", `${of}/operations/kill`, { query: { id: notice.operation.id } });
}
