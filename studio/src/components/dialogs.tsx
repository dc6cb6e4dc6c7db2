/** Dialogs, menus, tabs and messages, on Base UI: focus, keyboard and screen readers are its work. */

import { Dialog as Base } from "@base-ui/react/dialog";
import { Menu as BaseMenu } from "@base-ui/react/menu";
import { Toast } from "@base-ui/react/toast";
import { type ReactElement, type ReactNode, useState } from "react";

import { Button, Field, Problem } from "./controls";
import { Icon, type IconName } from "./icons";

interface DialogProps {
  title: string;
  open: boolean;
  onClose: () => void;
  children: ReactNode;
  footer?: ReactNode;
  wide?: boolean;
}

export function Dialog({ title, open, onClose, children, footer, wide }: DialogProps) {
  return (
    <Base.Root open={open} onOpenChange={(isOpen) => !isOpen && onClose()}>
      <Base.Portal>
        <Base.Backdrop className="backdrop" />
        <Base.Popup className={wide ? "dialog wide" : "dialog"}>
          <header>
            <Base.Title className="dialog-title">{title}</Base.Title>
          </header>
          <div className="body">{children}</div>
          {footer && <footer>{footer}</footer>}
        </Base.Popup>
      </Base.Portal>
    </Base.Root>
  );
}

interface ConfirmProps {
  title: string;
  /** What will be lost. */
  children: ReactNode;
  /** Verb and object: `Delete database`. */
  action: string;
  /** What has to be typed; undefined for a simple question. */
  typed?: string;
  onConfirm: () => Promise<void>;
  onClose: () => void;
}

/** A question before something is destroyed. The destructive button never has the focus at first. */
export function Confirm({ title, children, action, typed, onConfirm, onClose }: ConfirmProps) {
  const [text, setText] = useState("");
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  const isAllowed = typed === undefined || text === typed;
  const confirm = async () => {
    setBusy(true);
    setError(undefined);
    try {
      await onConfirm();
      onClose();
    } catch (caught) {
      setError(caught);
      setBusy(false);
    }
  };
  return (
    <Dialog
      open
      title={title}
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" danger disabled={!isAllowed || isBusy} onClick={() => void confirm()}>
            {action}
          </Button>
        </>
      }
    >
      <div className="soft">{children}</div>
      {typed !== undefined && (
        <Field label={`Type ${typed} to confirm`}>
          {(ids) => (
            <input
              {...ids}
              className="input"
              autoComplete="off"
              spellCheck={false}
              value={text}
              onChange={(event) => setText(event.target.value)}
              onKeyDown={(event) => event.key === "Enter" && isAllowed && void confirm()}
            />
          )}
        </Field>
      )}
      {error !== undefined && <Problem error={error} doing={action} />}
    </Dialog>
  );
}

export interface MenuEntry {
  label: string;
  icon?: IconName;
  danger?: boolean;
  disabled?: boolean;
  onClick: () => void;
}

/** A button that opens a list of actions; null draws a line. */
export function Menu({ trigger, entries }: { trigger: ReactElement; entries: (MenuEntry | null)[] }) {
  return (
    <BaseMenu.Root>
      <BaseMenu.Trigger render={trigger} />
      <BaseMenu.Portal>
        <BaseMenu.Positioner className="menu-positioner" sideOffset={4} align="end">
          <BaseMenu.Popup className="menu">
            {entries.map((entry, at) =>
              entry === null ? (
                <BaseMenu.Separator key={at} className="menu-line" />
              ) : (
                <BaseMenu.Item
                  key={entry.label}
                  className={entry.danger ? "menu-item danger" : "menu-item"}
                  disabled={entry.disabled ?? false}
                  onClick={entry.onClick}
                >
                  {entry.icon && <Icon name={entry.icon} />}
                  {entry.label}
                </BaseMenu.Item>
              ),
            )}
          </BaseMenu.Popup>
        </BaseMenu.Positioner>
      </BaseMenu.Portal>
    </BaseMenu.Root>
  );
}

const toasts = Toast.createToastManager();

/** Says that something was done, or was not, without asking for anything. */
export function say(message: string, tone: "good" | "bad" = "good"): void {
  toasts.add({ title: message, type: tone });
}

export function Toasts({ children }: { children: ReactNode }) {
  return (
    <Toast.Provider toastManager={toasts}>
      {children}
      <Toast.Portal>
        <Toast.Viewport className="toasts">
          <ToastList />
        </Toast.Viewport>
      </Toast.Portal>
    </Toast.Provider>
  );
}

function ToastList() {
  const { toasts: shown } = Toast.useToastManager();
  return shown.map((toast) => (
    <Toast.Root key={toast.id} toast={toast} className="toast">
      <Toast.Title className="grow" render={<div />} />
      <Toast.Close render={<Button kind="quiet" small label="Dismiss" icon="close" />} />
    </Toast.Root>
  ));
}
