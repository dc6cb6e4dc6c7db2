/** How far an operation is: the feed of the database tells it each second. */

import { useSyncExternalStore } from "react";

import { type Operation, noticeBoard } from "../../shell/notices";

export function useOperation(database: string, id: number | undefined): Operation | undefined {
  const { notices } = useSyncExternalStore(noticeBoard.subscribe, noticeBoard.read);
  return notices.find((one) => one.operation?.id === id && one.database?.toLowerCase() === database.toLowerCase())?.operation;
}
