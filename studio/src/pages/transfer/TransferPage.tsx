/** Import and export: a file in, a file out, each with its progress. */

import "./transfer.css";

import { usePageTitle } from "../../shell/usePageTitle";
import { ExportForm } from "./ExportForm";
import { ImportForm } from "./ImportForm";

export default function TransferPage({ database }: { database: string }) {
  usePageTitle(`Import and export – ${database}`);
  return (
    <div className="page">
      <div className="page-head">
        <h1>Import and export</h1>
      </div>
      <div className="transfer">
        <ImportForm database={database} />
        <ExportForm database={database} />
      </div>
    </div>
  );
}
