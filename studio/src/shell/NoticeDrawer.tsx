/** Operations with their progress, and alerts. */

import { useSyncExternalStore } from "react";

import { Badge, Button, Empty, Moment } from "../components/controls";
import { say } from "../components/dialogs";
import { ago, number } from "../domain/units";
import { Drawer } from "./Drawer";
import { type Notice, cancel, dismiss, noticeBoard } from "./notices";

const TONES = { None: undefined, Info: "info", Success: "good", Warning: "warn", Error: "bad" } as const;

export function NoticeDrawer({ open, onClose }: { open: boolean; onClose: () => void }) {
  const { notices } = useSyncExternalStore(noticeBoard.subscribe, noticeBoard.read);
  return (
    <Drawer
      title="Notifications"
      open={open}
      onClose={onClose}
      actions={
        notices.length > 0 && (
          <Button small kind="quiet" onClick={() => void Promise.all(notices.filter((one) => !isRunning(one)).map(dismiss))}>
            Dismiss all
          </Button>
        )
      }
    >
      {notices.length === 0 && (
        <Empty icon="bell" title="Nothing to report">
          Long operations, such as imports, appear here with their progress, and alerts with what to do.
        </Empty>
      )}
      {notices.map((notice) => (
        <NoticeItem key={notice.id} notice={notice} />
      ))}
    </Drawer>
  );
}

function isRunning(notice: Notice): boolean {
  return notice.operation?.status === "InProgress";
}

function NoticeItem({ notice }: { notice: Notice }) {
  return (
    <div className="notice-item">
      <div className="grow stack">
        <div className="row">
          <h3>{notice.title}</h3>
          <Badge tone={TONES[notice.severity]}>{notice.operation?.status ?? notice.severity}</Badge>
        </div>
        {notice.message !== "" && <div className="soft">{notice.message}</div>}
        {notice.operation && <OperationNumbers {...notice.operation} />}
        <div className="faint small">
          {notice.database !== null && `${notice.database} · `}
          <Moment at={notice.at} shown={ago(new Date(notice.at))} />
        </div>
      </div>
      {isRunning(notice) && notice.killable ? (
        <Button small onClick={() => cancel(notice).catch((error: Error) => say(error.message, "bad"))}>
          Cancel
        </Button>
      ) : (
        <Button small kind="quiet" icon="close" label="Dismiss" onClick={() => dismiss(notice).catch((error: Error) => say(error.message, "bad"))} />
      )}
    </div>
  );
}

/** What an operation has processed, or what stopped it. */
function OperationNumbers({ status, progress, result }: NonNullable<Notice["operation"]>) {
  const facts = result ?? progress ?? {};
  const message = typeof facts.Message === "string" ? facts.Message : undefined;
  const processed = facts.Processed ?? facts.Total;
  return (
    <>
      {status === "InProgress" && (
        <div className="progress endless" role="progressbar" aria-label="In progress">
          <div className="bar" />
        </div>
      )}
      {typeof processed === "number" && <div className="small">{number(processed)} processed</div>}
      {message !== undefined && <div className="small">{message}</div>}
    </>
  );
}
