//! Which statistics there are, by what each is told apart, and which are counted: asked once, and again when something changed.

import { get, post, type Schemas } from "../api/client";
import type { Name } from "./name";

export type Statistic = Schemas["Statistic"];
export type Field = Schemas["StatisticField"];
export type Counted = Schemas["Counted"];

class Catalogue {
  statistics = $state.raw<Statistic[]>([]);
  counted = $state.raw<Counted[]>([]);
  #asked = false;

  /** Asks, if nobody has. */
  async load(): Promise<void> {
    if (this.#asked) return;
    this.#asked = true;
    try {
      this.statistics = (await get("/v1/analytics/statistics")).items;
      await this.reload();
    } catch (error) {
      this.#asked = false;
      throw error;
    }
  }

  async reload(): Promise<void> {
    this.counted = (await get("/v1/analytics/datasets")).items;
  }

  of(name: Name | null): Statistic | undefined {
    return this.statistics.find((statistic) => statistic.name === name?.raw);
  }

  fieldTitle(field: string): string {
    for (const statistic of this.statistics) for (const one of statistic.fields) if (one.name === field) return one.title;
    return field;
  }

  /** By what a name can be broken down further: not by what it is narrowed down to. */
  breakdowns(name: Name): Field[] {
    const narrowed = new Set(name.predicates.map(({ field }) => field));
    return this.of(name)?.fields.filter((field) => !narrowed.has(field.name)) ?? [];
  }

  datasetOf(name: string): Counted | undefined {
    return this.counted.find((one) => one.name === name);
  }

  /** Keeps a statistic on disk from now on. What is only looked at is counted as long as it is, by itself. */
  async archive(name: string): Promise<void> {
    await post("/v1/analytics/datasets", { body: { name, archived: true } });
    await this.reload();
  }
}

export const catalogue = new Catalogue();
