//! Names of datasets: `pool/a/b`, `pool/a@snapshot`, `pool/a#bookmark`.

/** What it is in: a snapshot's is its dataset; a pool's root is in nothing. */
export function parentName(name: string): string | null {
  const mark = name.search(/[@#]/);
  if (mark >= 0) return name.slice(0, mark);
  const slash = name.lastIndexOf("/");
  return slash < 0 ? null : name.slice(0, slash);
}

export function poolName(name: string): string {
  return name.split(/[/@#]/, 1)[0]!;
}

/** Whether a job is about a pool as a whole or something in it. */
export function isOfPool(job: { target: string }, pool: string): boolean {
  return poolName(job.target) === pool;
}

/** Whether a job is about a dataset, or a snapshot of it. */
export function isOfDataset(job: { target: string }, dataset: string): boolean {
  return job.target === dataset || (/[@#]/.test(job.target) && parentName(job.target) === dataset);
}

/** What a job does to what. */
export function jobTitle(job: { kind: string; target: string }): string {
  switch (job.kind) {
    case "destroy":
      return `Free destroyed datasets of ${job.target}`;
    case "scrub":
      return `Scrub ${job.target}`;
    case "resilver":
      return `Resilver ${job.target}`;
    case "send":
      return `Send ${job.target}`;
    case "receive":
      return `Receive into ${job.target}`;
    default:
      return `Verify ${job.target}`;
  }
}
