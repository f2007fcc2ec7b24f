//! The pages: one row each. A page gets the rest of the path after its own (`/datasets/tank/home`
//! -> "tank/home").

import type { Component } from "svelte";
import type { IconName } from "../ui/Icon.svelte";
import type { Role } from "../api/session.svelte";
import Accounts from "../pages/Accounts.svelte";
import Analytics from "../pages/Analytics.svelte";
import Clients from "../pages/Clients.svelte";
import Datasets from "../pages/Datasets.svelte";
import Events from "../pages/Events.svelte";
import Jobs from "../pages/Jobs.svelte";
import Overview from "../pages/Overview.svelte";
import Pools from "../pages/Pools.svelte";
import Shares from "../pages/Shares.svelte";
import System from "../pages/System.svelte";

export interface Page {
  path: string;
  title: string;
  icon: IconName;
  group: "Storage" | "Activity" | "Administration" | "";
  role: Role;
  component: Component<{ name: string }>;
}

export const pages: readonly Page[] = [
  { path: "", title: "Overview", icon: "overview", group: "", role: "viewer", component: Overview },
  { path: "pools", title: "Pools", icon: "pool", group: "Storage", role: "viewer", component: Pools },
  { path: "datasets", title: "Datasets", icon: "dataset", group: "Storage", role: "viewer", component: Datasets },
  { path: "shares", title: "Shares", icon: "share", group: "Storage", role: "viewer", component: Shares },
  { path: "analytics", title: "Analytics", icon: "analytics", group: "Activity", role: "viewer", component: Analytics },
  { path: "clients", title: "Clients", icon: "client", group: "Activity", role: "viewer", component: Clients },
  { path: "jobs", title: "Jobs", icon: "job", group: "Activity", role: "viewer", component: Jobs },
  { path: "events", title: "Events", icon: "event", group: "Activity", role: "viewer", component: Events },
  { path: "accounts", title: "Accounts", icon: "user", group: "Administration", role: "viewer", component: Accounts },
  { path: "system", title: "System", icon: "settings", group: "Administration", role: "viewer", component: System },
];

/** The page of a path and its object, or null if there is none. */
export function find(path: string): { page: Page; name: string } | null {
  const [first = "", ...rest] = path.replace(/^\/+|\/+$/g, "").split("/");
  const page = pages.find((candidate) => candidate.path === first);
  return page ? { page, name: rest.join("/") } : null;
}
