//! Converts between `sharenfs` text and the form. Text that the form cannot represent without loss
//! stays text.

export interface HostRule {
  hosts: string;
  writable: boolean;
}

/** Rules for hosts; an empty list: everyone may write; null: the form cannot represent the text. */
export function describeOptions(options: string): HostRule[] | null {
  const text = options.trim();
  if (text === "" || text === "off" || text === "on") return [];
  const rules: HostRule[] = [];
  let everybody = false;
  for (const option of text.split(",")) {
    if (option === "root_squash" || option === "no_root_squash" || option === "insecure" || option === "sec=sys")
      continue;
    if (option === "rw") {
      everybody = true;
      continue;
    }
    const match = /^(rw|ro)=(.+)$/.exec(option);
    if (!match) return null;
    for (const hosts of splitHosts(match[2]!))
      rules.push({ hosts: hosts.replace(/^@/, ""), writable: match[1] === "rw" });
  }
  if (everybody && rules.length > 0) return null;
  return rules;
}

/** Converts rules to sharenfs text. Networks get the @ that exports of OpenZFS require. */
export function toOptions(rules: readonly HostRule[], rootSquash: boolean, insecure = false): string {
  const list = (writable: boolean) =>
    rules
      .filter((rule) => rule.writable === writable)
      .flatMap((rule) => rule.hosts.split(/[\s,]+/))
      .filter(Boolean)
      .map((host) => (isAddress(host) ? `@${host}` : host));
  const parts: string[] = [];
  for (const [word, hosts] of [
    ["rw", list(true)],
    ["ro", list(false)],
  ] as const)
    if (hosts.length > 0)
      parts.push(`${word}=${hosts.map((host) => (host.includes(":") ? bracketed(host) : host)).join(":")}`);
  if (parts.length === 0) return "";
  if (!rootSquash) parts.push("no_root_squash");
  if (insecure) parts.push("insecure");
  return parts.join(",");
}

/** Everyone may write. */
export function everybody(rootSquash: boolean, insecure: boolean): string {
  return rootSquash && !insecure
    ? "on"
    : ["rw", ...(rootSquash ? [] : ["no_root_squash"]), ...(insecure ? ["insecure"] : [])].join(",");
}

/** Hosts are separated by colons; an IPv6 address has brackets: `@[fd00::/8]`. */
function splitHosts(text: string): string[] {
  return (text.match(/@?\[[^\]]*\](?:\/\d+)?|[^:]+/g) ?? []).map((host) => host.replace(/^(@?)\[([^\]]*)\]/, "$1$2"));
}

function bracketed(host: string): string {
  return host.startsWith("@") ? `@[${host.slice(1)}]` : `[${host}]`;
}

function isAddress(host: string): boolean {
  return !host.startsWith("@") && (/^\d{1,3}(\.\d{1,3}){3}(\/\d+)?$/.test(host) || host.includes(":"));
}
