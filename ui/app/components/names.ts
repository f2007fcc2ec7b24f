//! Names of datasets: `pool/a/b`, `pool/a@snapshot`, `pool/a#bookmark`.

/** The parent: the dataset of a snapshot; null for a pool's root. */
export function parentName(name: string): string | null {
  const mark = name.search(/[@#]/);
  if (mark >= 0) return name.slice(0, mark);
  const slash = name.lastIndexOf("/");
  return slash < 0 ? null : name.slice(0, slash);
}

export function poolName(name: string): string {
  return name.split(/[/@#]/, 1)[0]!;
}

/** Whether a job concerns a pool or anything in it. */
export function isOfPool(job: { target: string }, pool: string): boolean {
  return poolName(job.target) === pool;
}

/** Whether a job concerns a dataset or a snapshot of it. */
export function isOfDataset(job: { target: string }, dataset: string): boolean {
  return job.target === dataset || (/[@#]/.test(job.target) && parentName(job.target) === dataset);
}

/** What a job does, and to what. */
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
