//! The available statistics, their breakdowns, and which are counted. Loaded once, and again after
//! changes.

import { get, post, type Schemas } from "../api/client";
import type { Name } from "./name";

export type Statistic = Schemas["Statistic"];
export type Field = Schemas["StatisticField"];
export type Counted = Schemas["Counted"];

class Catalogue {
  statistics = $state.raw<Statistic[]>([]);
  counted = $state.raw<Counted[]>([]);
  #loaded = false;

  /** Loads the catalogue unless it is loaded already. */
  async load(): Promise<void> {
    if (this.#loaded) return;
    this.#loaded = true;
    try {
      this.statistics = (await get("/v1/analytics/statistics")).items;
      await this.reload();
    } catch (error) {
      this.#loaded = false;
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
    for (const statistic of this.statistics)
      for (const one of statistic.fields) if (one.name === field) return one.title;
    return field;
  }

  /** Fields by which a name can be broken down further: those that it is not narrowed down to. */
  breakdowns(name: Name): Field[] {
    const narrowed = new Set(name.predicates.map(({ field }) => field));
    return this.of(name)?.fields.filter((field) => !narrowed.has(field.name)) ?? [];
  }

  datasetOf(name: string): Counted | undefined {
    return this.counted.find((one) => one.name === name);
  }

  /** Archives a statistic on disk from now on. Without this, it is only counted while a graph shows it. */
  async archive(name: string): Promise<void> {
    await post("/v1/analytics/datasets", { body: { name, archived: true } });
    await this.reload();
  }
}

export const catalogue = new Catalogue();
