/** A table of any number of rows, of which only those in sight exist. */

import "./table.css";

import { type KeyboardEvent, type ReactNode, memo, useEffect, useId, useLayoutEffect, useRef, useState } from "react";

import { type Extent, offsetAfter, offsetMax, scrollHeight, topFor } from "../domain/scrolling";

export interface Column<Row> {
  id: string;
  title: ReactNode;
  /** Pixels, until the user drags it. */
  width: number;
  align?: "end";
  render: (row: Row) => ReactNode;
}

interface VirtualTableProps<Row> {
  label: string;
  rowCount: number;
  columns: Column<Row>[];
  /** Undefined while it is being loaded. */
  rowAt: (index: number) => Row | undefined;
  /** Told which rows are in sight, the last one included. */
  onRange?: (first: number, last: number) => void;
  onOpen?: (row: Row) => void;
  onToggle?: (row: Row) => void;
  isSelected?: (row: Row) => boolean;
}

/** Pixels; the same as `--row`. */
const ROW = 32;
const OVERSCAN = 4;
const COLUMN_MIN = 48;
/** Rows are placed relative to the first one of such a block, so that they need not be drawn again for each step. */
const BLOCK_ROWS = 1000;
/** How long the scrollbar must be still before it is put where it belongs. */
const SETTLE_MILLISECONDS = 150;

export function VirtualTable<Row>(props: VirtualTableProps<Row>) {
  const { label, rowCount, columns, rowAt, onRange } = props;
  const id = useId();
  const [active, setActive] = useState(0);
  const [widths, setWidths] = useState<Record<string, number>>({});
  const scroll = useScroll(rowCount);
  const first = Math.max(0, Math.floor(scroll.offset / ROW) - OVERSCAN);
  const last = Math.min(rowCount - 1, Math.ceil((scroll.offset + scroll.extent.view) / ROW) + OVERSCAN);
  useEffect(() => {
    if (last >= first) onRange?.(first, last);
  }, [first, last, onRange]);
  const totalWidth = columns.reduce((sum, column) => sum + widthOf(column, widths), 0);
  const block = Math.floor(first / BLOCK_ROWS) * BLOCK_ROWS;
  const indexes = Array.from({ length: Math.max(0, last - first + 1) }, (_, at) => first + at);
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.target !== event.currentTarget) return;
    const page = Math.max(1, Math.floor(scroll.extent.view / ROW) - 1);
    const row = rowAt(active);
    const steps: Record<string, number> = {
      ArrowDown: active + 1,
      ArrowUp: active - 1,
      PageDown: active + page,
      PageUp: active - page,
      Home: 0,
      End: rowCount - 1,
    };
    const next = steps[event.key];
    if (next !== undefined) {
      event.preventDefault();
      const to = Math.min(Math.max(0, next), rowCount - 1);
      setActive(to);
      scroll.show(to);
    } else if (event.key === "Enter" && row !== undefined) {
      props.onOpen?.(row);
    } else if (event.key === " " && row !== undefined && props.onToggle) {
      event.preventDefault();
      props.onToggle(row);
    }
  };
  return (
    <div
      ref={scroll.ref}
      className="vt"
      role="grid"
      aria-label={label}
      aria-rowcount={rowCount + 1}
      aria-colcount={columns.length}
      aria-activedescendant={active >= first && active <= last ? `${id}-${active}` : undefined}
      tabIndex={0}
      onScroll={scroll.onScroll}
      onKeyDown={onKeyDown}
    >
      <div className="vt-inner" style={{ width: totalWidth, height: scrollHeight(scroll.extent) + ROW }}>
        <div className="vt-head" role="row" aria-rowindex={1}>
          {columns.map((column) => (
            <div
              key={column.id}
              role="columnheader"
              className={column.align === "end" ? "vt-cell end" : "vt-cell"}
              style={{ width: widthOf(column, widths) }}
            >
              <span>{column.title}</span>
              <Resizer width={widthOf(column, widths)} onResize={(width) => setWidths((old) => ({ ...old, [column.id]: width }))} />
            </div>
          ))}
        </div>
        <div className="vt-rows" role="rowgroup" style={{ height: scroll.extent.view }}>
          <div role="presentation" className="vt-block" style={{ transform: `translateY(${block * ROW - scroll.offset}px)` }}>
            {indexes.map((index) => {
              const row = rowAt(index);
              return (
                <MemoizedRow
                  key={index}
                  columns={columns as Column<unknown>[]}
                  widths={widths}
                  id={`${id}-${index}`}
                  index={index}
                  row={row}
                  top={(index - block) * ROW}
                  isActive={index === active}
                  isSelected={row === undefined ? undefined : props.isSelected?.(row)}
                  onActivate={setActive}
                />
              );
            })}
          </div>
        </div>
      </div>
    </div>
  );
}

function widthOf(column: { id: string; width: number }, widths: Record<string, number>): number {
  return widths[column.id] ?? column.width;
}

interface TableRowProps {
  columns: Column<unknown>[];
  widths: Record<string, number>;
  id: string;
  index: number;
  /** Undefined while it is being loaded. */
  row: unknown;
  top: number;
  isActive: boolean;
  /** Undefined where rows cannot be selected. */
  isSelected: boolean | undefined;
  onActivate: (index: number) => void;
}

const MemoizedRow = memo(TableRow);

function TableRow({ columns, widths, id, index, row, top, isActive, isSelected, onActivate }: TableRowProps) {
  const classes = ["vt-row", isActive && "active", isSelected && "selected"].filter(Boolean).join(" ");
  return (
    <div
      id={id}
      role="row"
      className={classes}
      aria-rowindex={index + 2}
      aria-selected={isSelected}
      style={{ top }}
      onMouseDown={() => onActivate(index)}
    >
      {columns.map((column) => (
        <div
          key={column.id}
          role="gridcell"
          className={column.align === "end" ? "vt-cell end" : "vt-cell"}
          style={{ width: widthOf(column, widths) }}
        >
          {row === undefined ? (
            <span className="skeleton" style={{ width: `${40 + ((index * 7) % 40)}%` }} />
          ) : (
            column.render(row)
          )}
        </div>
      ))}
    </div>
  );
}

/** The scrollbar of the table, and the place in the list that it stands for. */
function useScroll(rowCount: number) {
  const ref = useRef<HTMLDivElement>(null);
  const [view, setView] = useState(0);
  const [offset, setOffset] = useState(0);
  const last = useRef(0);
  const settle = useRef<ReturnType<typeof setTimeout>>(undefined);
  const extent: Extent = { total: rowCount * ROW, view };

  useLayoutEffect(() => {
    const element = ref.current;
    if (!element) return undefined;
    const observer = new ResizeObserver(() => setView(Math.max(0, element.clientHeight - ROW)));
    observer.observe(element);
    setView(Math.max(0, element.clientHeight - ROW));
    return () => {
      observer.disconnect();
      clearTimeout(settle.current);
    };
  }, []);

  const place = (at: number) => {
    const element = ref.current;
    if (!element) return;
    element.scrollTop = topFor(extent, at);
    last.current = element.scrollTop;
    setOffset(at);
  };
  const onScroll = () => {
    const element = ref.current;
    if (!element) return;
    const next = offsetAfter(extent, offset, last.current, element.scrollTop);
    last.current = element.scrollTop;
    setOffset(next);
    clearTimeout(settle.current);
    settle.current = setTimeout(() => place(next), SETTLE_MILLISECONDS);
  };
  const show = (index: number) => {
    const top = index * ROW;
    if (top < offset) place(top);
    else if (top + ROW > offset + view) place(Math.min(top + ROW - view, offsetMax(extent)));
  };
  return { ref, offset: Math.min(offset, offsetMax(extent)), extent, onScroll, show };
}

function Resizer({ width, onResize }: { width: number; onResize: (width: number) => void }) {
  const onPointerDown = (event: React.PointerEvent<HTMLSpanElement>) => {
    event.preventDefault();
    const handle = event.currentTarget;
    const from = event.clientX;
    handle.setPointerCapture(event.pointerId);
    const move = (moved: PointerEvent) => onResize(Math.max(COLUMN_MIN, width + moved.clientX - from));
    const end = () => handle.removeEventListener("pointermove", move);
    handle.addEventListener("pointermove", move);
    handle.addEventListener("pointerup", end, { once: true });
    handle.addEventListener("pointercancel", end, { once: true });
  };
  return <span className="vt-resize" aria-hidden="true" onPointerDown={onPointerDown} />;
}
