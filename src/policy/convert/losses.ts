import type * as z from 'zod';
import { formatPath } from '../../kubernetes/client/resource.ts';
import type { FieldPath } from '../../kubernetes/resources/object-faults.ts';

/** Part of an object that ClusterNetworkPolicies cannot express, or that could not be read. */
export interface ConversionLoss {
  /** `NetworkPolicy shop/db`. */
  readonly object: string;
  /** Field that is the cause. */
  readonly field: FieldPath;
  readonly value: unknown;
  readonly reason: string;
  /** Part that the result does not have: the field itself, or what contains it. */
  readonly leftOut: FieldPath;
}

/** Losses of a run, in the order in which they were found. */
export class LossList {
  readonly #all: ConversionLoss[] = [];

  get all(): readonly ConversionLoss[] {
    return this.#all;
  }

  add(loss: ConversionLoss): void {
    this.#all.push(loss);
  }
}

/** Object that is being converted, with the list of what is lost. */
export class ReadObject {
  readonly name: string;
  readonly #losses: LossList;

  constructor(name: string, losses: LossList) {
    this.name = name;
    this.#losses = losses;
  }

  lose(field: FieldPath, value: unknown, reason: string, leftOut: FieldPath = field): void {
    this.#losses.add({ object: this.name, field, value, reason, leftOut });
  }

  /** Reads a part. @returns undefined if it is invalid; then it is lost */
  read<T>(schema: z.ZodType<T>, raw: unknown, path: FieldPath): T | undefined {
    const parsed = schema.safeParse(raw);
    if (parsed.success) return parsed.data;
    const [issue] = parsed.error.issues;
    const inside = (issue?.path ?? []).filter((part) => typeof part !== 'symbol');
    const place = inside.length === 0 ? '' : `${formatPath(inside)}: `;
    this.lose(path, raw, `${place}${issue?.message ?? 'invalid'}`);
    return undefined;
  }

  /** Loses the fields of an object that are not known. */
  loseUnknown(fields: Readonly<Record<string, unknown>>, path: FieldPath): void {
    for (const [name, value] of Object.entries(fields)) this.lose([...path, name], value, 'a field unknown to this version');
  }
}
