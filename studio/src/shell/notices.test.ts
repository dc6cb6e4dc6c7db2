import { expect, it } from "vitest";

import { type Notice, withNotice } from "./notices";

const alert = {
  Id: "AlertRaised/LowDiskSpace",
  Type: "AlertRaised",
  CreatedAt: "2026-01-01T00:00:00Z",
  Title: "Low disk",
  Message: null,
  Severity: "Warning" as const,
  Database: "shop",
};
const operation = (status: "InProgress" | "Completed") => ({
  ...alert,
  Id: "OperationChanged/3",
  Type: "OperationChanged",
  OperationId: 3,
  Killable: status === "InProgress",
  State: { Status: status, Progress: null, Result: null },
});

it("keeps one notice per id, the newest first", () => {
  let notices: readonly Notice[] = [];
  for (const raw of [alert, operation("InProgress"), alert, operation("Completed")]) notices = withNotice(notices, raw);
  expect(notices.map((one) => one.id)).toEqual(["shop/OperationChanged/3", "AlertRaised/LowDiskSpace"]);
  expect(notices[0]?.operation?.status).toBe("Completed");
});

it("removes what another window dismissed, and ignores the rest", () => {
  const notices = withNotice([], alert);
  expect(withNotice(notices, { ...alert, Type: "ClusterTopologyChanged" })).toBe(notices);
  expect(withNotice(notices, { ...alert, Type: "NotificationUpdated", NotificationId: alert.Id })).toEqual([]);
});
