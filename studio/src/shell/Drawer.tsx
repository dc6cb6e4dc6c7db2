/** A panel at the right edge. */

import { Dialog } from "@base-ui/react/dialog";
import type { ReactNode } from "react";

import { Button } from "../components/controls";

interface DrawerProps {
  title: string;
  open: boolean;
  onClose: () => void;
  children: ReactNode;
  actions?: ReactNode;
}

export function Drawer({ title, open, onClose, children, actions }: DrawerProps) {
  return (
    <Dialog.Root open={open} onOpenChange={(isOpen) => !isOpen && onClose()}>
      <Dialog.Portal>
        <Dialog.Backdrop className="backdrop" />
        <Dialog.Popup className="drawer">
          <header>
            <Dialog.Title className="dialog-title">{title}</Dialog.Title>
            <div className="row">
              {actions}
              <Button kind="quiet" icon="close" label="Close" onClick={onClose} />
            </div>
          </header>
          <div className="body">{children}</div>
        </Dialog.Popup>
      </Dialog.Portal>
    </Dialog.Root>
  );
}
