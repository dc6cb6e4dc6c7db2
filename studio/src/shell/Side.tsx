/** The navigation: the server's pages, then those of the open database with its collections. */

import { Link, useLocation, useSearchParams } from "wouter";

import { Button } from "../components/controls";
import { Menu } from "../components/dialogs";
import { Icon, type IconName } from "../components/icons";
import { number } from "../domain/units";
import { useCollections, useDatabases, useFacts, useFooter } from "./data";
import { places } from "./places";

/** More are on the page of all documents. */
const COLLECTIONS_MAX = 60;

export function Side({ database }: { database: string | undefined }) {
  const facts = useFacts();
  const isThere = useDatabases().data?.some((one) => one.Name.toLowerCase() === database?.toLowerCase()) ?? false;
  return (
    <aside className="side" aria-label="Sidebar">
      <Link href={places.databases} className="brand">
        <img src="/studio/icon.svg" alt="" />
        Corvus
      </Link>
      <nav aria-label="Main">
        <SideLink icon="database" to={places.databases} label="Databases" />
        <SideLink icon="dashboard" to={places.dashboard} label="Dashboard" />
        {database !== undefined && isThere && <DatabaseNavigation database={database} />}
      </nav>
      <footer>{facts.data ? `Corvus ${facts.data.Version} · protocol ${facts.data.ProtocolVersion}` : "Corvus"}</footer>
    </aside>
  );
}

function DatabaseNavigation({ database }: { database: string }) {
  const footer = useFooter(database).data;
  const collections = useCollections(database).data;
  const [path] = useLocation();
  const [search] = useSearchParams();
  const isInDocuments = path === places.documents(database);
  const chosen = search.get("collection");
  const names = Object.entries(collections?.Collections ?? {}).filter(([, count]) => count > 0);
  return (
    <>
      <div className="group">Database</div>
      <DatabaseSwitch database={database} />
      <SideLink
        icon="documents"
        to={places.documents(database)}
        label="Documents"
        count={collections?.CountOfDocuments}
        current={isInDocuments && chosen === null}
      />
      {names.slice(0, COLLECTIONS_MAX).map(([name, count]) => (
        <SideLink
          key={name}
          to={places.documents(database, name)}
          label={name}
          count={count}
          nested
          current={isInDocuments && chosen === name}
        />
      ))}
      <SideLink icon="query" to={places.query(database)} label="Query" />
      <SideLink icon="index" to={places.indexes(database)} label="Indexes" count={footer?.CountOfIndexes} />
      <SideLink icon="transfer" to={places.transfer(database)} label="Import and export" />
      <SideLink icon="statistics" to={places.statistics(database)} label="Statistics" />
    </>
  );
}

function DatabaseSwitch({ database }: { database: string }) {
  const [, go] = useLocation();
  const names = (useDatabases().data ?? []).filter((one) => !one.IsDisabled).map((one) => one.Name);
  const entries = names.map((name) => ({ label: name, onClick: () => go(places.documents(name)) }));
  return (
    <Menu
      trigger={
        <Button className="database-switch" icon="database" aria-label={`Database ${database}: choose another`}>
          <span className="ellipsis">{database}</span>
          <Icon name="chevron" />
        </Button>
      }
      entries={[...entries, null, { label: "All databases", onClick: () => go(places.databases) }]}
    />
  );
}

interface SideLinkProps {
  to: string;
  label: string;
  icon?: IconName;
  count?: number | undefined;
  nested?: boolean;
  current?: boolean;
}

function SideLink({ to, label, icon, count, nested, current }: SideLinkProps) {
  const [path] = useLocation();
  const isCurrent = current ?? path === to;
  return (
    <Link href={to} className={nested ? "side-link nested" : "side-link"} aria-current={isCurrent ? "page" : undefined}>
      {icon && <Icon name={icon} />}
      <span className="ellipsis">{label}</span>
      {count !== undefined && <span className="count">{number(count)}</span>}
    </Link>
  );
}
