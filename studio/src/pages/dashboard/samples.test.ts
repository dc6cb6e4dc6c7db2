import { expect, it } from "vitest";

import { type Board, emptyBoard, withMessage } from "./samples";

const message = (Type: string, second: number, rest: object) => ({
  Data: { Type, Date: new Date(second * 1000).toISOString(), ...rest },
});

it("keeps a sample per second, ascending, of at most five minutes", () => {
  let board: Board = emptyBoard;
  for (let second = 1; second <= 400; second += 1) {
    board = withMessage(board, message("MemoryUsage", second, { WorkingSet: 7 }));
    board = withMessage(board, message("Traffic", second, { RequestsPerSecond: second, DocumentWritesPerSecond: 0 }));
    board = withMessage(board, message("CpuUsage", second, { ProcessCpuUsage: 1, MachineCpuUsage: 2, NumberOfCores: 2 }));
  }
  expect(board.samples).toHaveLength(300);
  expect(board.samples.at(-1)).toMatchObject({ at: 400, requests: 400, process: 1, machine: 2 });
  expect(withMessage(board, message("CpuUsage", 400, {})).samples).toHaveLength(300);
});

it("waits for the first whole second", () => {
  const board = withMessage(emptyBoard, message("CpuUsage", 1, { ProcessCpuUsage: 1, MachineCpuUsage: 2 }));
  expect(board.samples).toEqual([]);
  expect(board.latest.CpuUsage?.ProcessCpuUsage).toBe(1);
});

it("ignores what it does not know", () => {
  expect(withMessage(emptyBoard, message("ServerTime", 1, {}))).toBe(emptyBoard);
  expect(withMessage(emptyBoard, {})).toBe(emptyBoard);
});
